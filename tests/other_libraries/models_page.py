"""Write the table of ``docs/models.md`` from ``tests/other_libraries/results``: ``make models``.

The table stands between ``<!-- models -->`` and ``<!-- end -->``; the rest of the page is written by hand.
"""

import json
import re
from pathlib import Path
from typing import Any

from tempograd._utils.formatting import table
from tests.other_libraries.check_models import GROUPS, RESULTS

PAGE = Path(__file__).parents[2] / "docs/models.md"
BLOCK = re.compile(r"(<!-- models -->\n).*?(<!-- end -->)", re.DOTALL)
Result = dict[str, Any]


def kept() -> list[Result]:
    """Return what was found, group by group."""
    return [found for group in GROUPS for found in read(group)["models"]]


def read(group: str) -> dict[str, Any]:
    """Return the file of a group."""
    return dict(json.loads((RESULTS / f"{group}.json").read_text(encoding="utf-8")))


def outcome(found: Result) -> str:
    """Say what the plain forwards say of an explanation."""
    if found["outcome"] == "right":
        kind = "as a loop over cells" if found["method"] == "occlusion" else "sums to the change"
        return f"right: {kind} to {_percent(found['gap'])}"
    if found["outcome"] == "told":
        return f"**told**: the verdict says that gradients are not those of the score; {found['flagged']}"
    return f"**{found['outcome']}**: {found.get('error', found.get('verdict'))}"


def _percent(gap: float) -> str:
    return "0.01 %" if gap <= 1e-4 else f"{100 * gap:.2g} %"


def models_table(results: list[Result]) -> str:
    """Return the table: library and version, model, lines, what came out."""
    rows = [["library", "model", "lines", "explanation"]]
    for found in results:
        name = f"{found['library']} {found['version']}"
        rows.append([name, found["model"], str(len(found["lines"].splitlines())), outcome(found)])
    return table(rows)


def summary(results: list[Result]) -> str:
    """Say in a sentence how many models there are, and with which torch."""
    libraries = {found["library"] for found in results}
    right = sum(found["outcome"] == "right" for found in results)
    told = sum(found["outcome"] == "told" for found in results)
    versions = sorted({read(group)["torch"] for group in GROUPS})
    return (
        f"{len(results)} models of {len(libraries)} libraries, with torch {' and '.join(versions)}: {right} explained "
        f"rightly, {told} whose gradients are not those of what they compute, and whose explanation says so."
    )


def written(page: str, results: list[Result]) -> str:
    """Return the page with the table of these results."""
    text = f"{summary(results)}\n\n{models_table(results)}\n"
    return BLOCK.sub(lambda found: found[1] + text + found[2], page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), kept()), encoding="utf-8")
