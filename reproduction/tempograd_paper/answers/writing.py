"""The page of answers and its pictures as files."""

from collections.abc import Iterator
from pathlib import Path

from tempograd.core.errors import DataError, short_path
from tempograd.core.io import made, write_atomically
from tempograd_paper.answers.blocks import kept_folders, table_of
from tempograd_paper.answers.dot_picture import draw_dots
from tempograd_paper.answers.left_out import what_was_left_out
from tempograd_paper.answers.lessons import ABLATION, Lessons, learn
from tempograd_paper.answers.page import renew_block, write_page, write_paragraphs
from tempograd_paper.answers.quoting import renew_quotes
from tempograd_paper.answers.rank_picture import RankPanel, draw_ranks, rank_panel

PAGE, QUOTING, PICTURES, README = "learnt.md", "results.md", "pictures", "README.md"


def write_all(results: Path, docs: Path) -> Iterator[Path]:
    """Write the page, what two others quote of the records, and the pictures; yield what was written."""
    if not kept_folders(results):
        raise DataError(f"{short_path(results)} holds no kept results: name the folder reproduction/results.")
    lessons = learn(results)
    yield _write(docs / PAGE, write_page(lessons))
    for path, renewed in renew_pages(results, docs, lessons).items():
        yield _write(path, renewed)
    pictures = made(docs / PICTURES)
    draw_ranks(rank_panels(lessons)).savefig(pictures / "ranks.png")
    yield pictures / "ranks.png"
    for folder in kept_folders(results):
        path = pictures / f"dots_{folder.name}.png"
        draw_dots(table_of(folder)).savefig(path)
        yield path


def renew_pages(results: Path, docs: Path, lessons: Lessons) -> dict[Path, str]:
    """Return the other pages that say what the records say, as far as they are there, as they should be."""
    texts = {docs / QUOTING: what_was_left_out(results), docs.parent / README: write_paragraphs(lessons)}
    return {
        path: renew_quotes(renew_block(path.read_text(encoding="utf-8"), text), results)
        for path, text in texts.items()
        if path.exists()
    }


def _write(path: Path, text: str) -> Path:
    return write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def rank_panels(lessons: Lessons) -> list[RankPanel]:
    """Return the diagrams of the page: with the ablation, as long as some data set lacks it."""
    shown = (("published", False), ("tuned", False), ("tuned", True))
    found = []
    for protocol, ablation in shown:
        comparison = lessons.comparison(protocol, "zero", ablation=ablation)
        if ablation and ABLATION in lessons.comparison(protocol, "zero").methods:
            continue
        title = f"{protocol.capitalize()} protocol, zeros · {len(comparison.blocks)} data sets"
        found.append(rank_panel(comparison, title + (", with RandIG" if ablation else "")))
    return found
