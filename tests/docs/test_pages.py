"""Every block of code on every page runs as its reader would run it: in order, in an empty folder, quietly.

``make docs`` runs them all, by the same function; here a page of Python and one of commands are run always.
"""

import os
from pathlib import Path

import page_blocks
import pytest

import tempograd as tg

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(
    str(path.relative_to(DOCS))
    for path in DOCS.rglob("*.md")
    if "{run}" in path.read_text(encoding="utf-8") and not path.relative_to(DOCS).parts[0].startswith("_")
)


def test_the_pages_that_promise_code_have_some():
    promised = {"start.md", "add_method.md"} | {
        str(path.relative_to(DOCS)) for path in DOCS.glob("concepts/[!i]*.md")
    }
    assert promised <= set(PAGES)
    assert len([page for page in PAGES if page.startswith("howto/")]) >= 10


QUICK = ("start.md", "howto/files.md")


@pytest.mark.parametrize(
    "page", [*QUICK, *(pytest.param(page, marks=pytest.mark.slow) for page in PAGES if page not in QUICK)]
)
def test_every_block_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.setattr(tg.EXPLAINERS, "_entries", dict(tg.EXPLAINERS._entries))  # a page may register a method
    monkeypatch.setattr(os, "environ", os.environ.copy())
    names: dict[str, object] = {}
    for block in page_blocks.blocks((DOCS / page).read_text(encoding="utf-8")):
        outcome = page_blocks.run(block, names, tmp_path)
        for picture in outcome.pictures:
            picture.savefig(tmp_path / "picture.png", dpi=20)
            assert (tmp_path / "picture.png").stat().st_size > 500


PAGE = """
```{run}
:alt: words
:hide:

x = 1

y = ":no: option"
```

```text
not run
```

```{run} sh
tempograd list models
```

```{run}
:file: pumps.py
```
"""


def test_blocks_are_found_in_order_with_their_options_taken_off():
    first, second, third = page_blocks.blocks(PAGE)
    assert first == ("python", 'x = 1\n\ny = ":no: option"\n', None)
    assert second == ("sh", "tempograd list models\n", None)
    assert third == ("python", (DOCS / "_code" / "pumps.py").read_text(encoding="utf-8"), "pumps.py")


def test_the_code_that_other_pages_begin_with_is_the_first_block_of_the_start():
    """The page shows it, so that it can be read in a clone; the file must say the same."""
    first = next(page_blocks.blocks((DOCS / "start.md").read_text(encoding="utf-8")))
    assert first.file == "pumps.py"
    assert first.code == (DOCS / "_code" / "pumps.py").read_text(encoding="utf-8")


def test_a_block_that_names_a_file_and_shows_code_is_what_it_shows():
    (found,) = page_blocks.blocks("```{run}\n:file: pumps.py\n\nx = 1\n```\n")
    assert found == ("python", "x = 1\n", "pumps.py")


def python(code, names, folder):
    return page_blocks.run(page_blocks.Block("python", code), names, folder).text


def test_a_block_shows_what_it_prints_and_the_value_of_its_last_line(tmp_path):
    names: dict[str, object] = {}
    assert python("print('one')\nkept = 2\nkept + 1", names, tmp_path) == "one\n3\n"
    assert python("kept = kept * 5\nkept", names, tmp_path) == "10\n"


def test_a_warning_of_a_block_is_an_error(tmp_path):
    with pytest.raises(UserWarning, match="careful"):
        python("import warnings\nwarnings.warn('careful')", {}, tmp_path)


def test_a_command_that_fails_is_an_error(tmp_path):
    command = "tempograd evaluate nothing.safetensors --model nothing.safetensors"
    with pytest.raises(RuntimeError, match=r"ended with 1.*does not exist"):
        page_blocks.run(page_blocks.Block("sh", command), {}, tmp_path)
