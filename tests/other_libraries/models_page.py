"""Write what was tried into ``docs/models.md``, from ``tests/other_libraries/results``: ``make models``.

The table stands between ``<!-- models -->`` and ``<!-- end -->``, the users' lines between ``<!-- lines -->`` and
``<!-- end -->``; the rest of the page is written by hand.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from tests.other_libraries.check_models import GROUPS, RESULTS

PAGE = Path(__file__).parents[2] / "docs/models.md"
BLOCK = re.compile(r"<!-- (models|lines) -->\n.*?<!-- end -->", re.DOTALL)
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
    if found["outcome"] == "stated":
        return f"{_percent(found['gap'])} are missing, as the verdict says, but not why: {found['flagged']}"
    return f"**{found['outcome']}**: {found.get('error', found.get('verdict'))}"


def _percent(gap: float) -> str:
    return "0.01 %" if gap <= 1e-4 else f"{100 * gap:.2g} %"


def models_table(results: list[Result]) -> str:
    """Return the table: library and version, model, lines, what came out."""
    rows = [["library", "model", "lines", "explanation"], ["---", "---", "--:", "---"]]
    for found in results:
        name = f"{found['library']} {found['version']}"
        rows.append([name, found["model"], str(len(found["lines"].splitlines())), outcome(found)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def the_lines(results: list[Result]) -> str:
    """Return the lines of all models, library by library; models with the same lines share them."""
    parts = []
    for library in dict.fromkeys(found["library"] for found in results):
        blocks: dict[str, list[str]] = {}
        for found in results:
            if found["library"] == library:
                blocks.setdefault(found["lines"], []).append(found["model"])
        code = "\n\n".join(f"# {'; '.join(models)}\n{lines}" for lines, models in blocks.items())
        parts.append(f":::{{dropdown}} {library}\n```python\n{code}\n```\n:::")
    return "\n\n".join(parts)


def summary(results: list[Result]) -> str:
    """Say in a sentence how many models there are, and with which torch."""
    libraries = {found["library"] for found in results}
    count = Counter(found["outcome"] for found in results)
    versions = sorted({read(group)["torch"] for group in GROUPS})
    more = f", {count['stated']} miss more than 1 % and say how much" if count["stated"] else ""
    return (
        f"{len(results)} models of {len(libraries)} libraries, with torch {' and '.join(versions)}: "
        f"{count['right']} are explained rightly, {count['told']} have gradients that are not their own and are "
        f"told{more}."
    )


def written(page: str, results: list[Result]) -> str:
    """Return the page with the table of these results."""
    texts = {"models": f"{summary(results)}\n\n{models_table(results)}\n", "lines": f"{the_lines(results)}\n"}
    return BLOCK.sub(lambda found: f"<!-- {found[1]} -->\n{texts[found[1]]}<!-- end -->", page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), kept()), encoding="utf-8")
