"""The page of answers and its pictures as files."""

from collections.abc import Iterator
from pathlib import Path

from tempograd._utils.io import made, write_atomically
from tempograd.errors import DataError, short_path
from tempograd_paper.answers.blocks import kept_folders, plan_of
from tempograd_paper.answers.dot_picture import draw_dots
from tempograd_paper.answers.lessons import Lessons, learn, write_page
from tempograd_paper.answers.quoting import renew_quotes
from tempograd_paper.answers.rank_picture import RankPanel, draw_ranks, rank_panel
from tempograd_paper.tables.archive import load_records
from tempograd_paper.tables.tabulation import tabulate

PAGE, QUOTING, PICTURES = "learnt.md", "results.md", "pictures"


def write_all(results: Path, docs: Path) -> Iterator[Path]:
    """Write the page, the tables that another one quotes, and the pictures; yield what was written."""
    if not kept_folders(results):
        raise DataError(f"{short_path(results)} holds no kept results: name the folder reproduction/results.")
    lessons = learn(results)
    text = write_page(lessons)
    yield write_atomically(docs / PAGE, lambda path: path.write_text(text, encoding="utf-8"))
    if (docs / QUOTING).exists():
        quotes = renew_quotes((docs / QUOTING).read_text(encoding="utf-8"), results)
        yield write_atomically(docs / QUOTING, lambda path: path.write_text(quotes, encoding="utf-8"))
    pictures = made(docs / PICTURES)
    draw_ranks(rank_panels(lessons)).savefig(pictures / "ranks.png")
    yield pictures / "ranks.png"
    for folder in kept_folders(results):
        plan = plan_of(folder)
        path = pictures / f"dots_{folder.name}.png"
        draw_dots(tabulate(plan, load_records(folder, plan))).savefig(path)
        yield path


def rank_panels(lessons: Lessons) -> list[RankPanel]:
    """Return the three diagrams of the page."""
    shown = (("published", False), ("tuned", False), ("tuned", True))
    found = []
    for protocol, ablation in shown:
        comparison = lessons.comparison(protocol, "zero", ablation=ablation)
        title = f"{protocol.capitalize()} protocol, zeros · {len(comparison.blocks)} data sets"
        found.append(rank_panel(comparison, title + (", with RandIG" if ablation else "")))
    return found
