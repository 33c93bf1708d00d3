"""Every block of code on every page runs as its reader would run it: in order, in an empty folder, quietly.

``make docs`` runs them all, by the functions that are tested here.
"""

from pathlib import Path

import page_blocks
import pytest

DOCS = Path(__file__).parents[2] / "docs"

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
    with pytest.raises(RuntimeError, match=r"ended with 3.*does not exist"):
        page_blocks.run(page_blocks.Block("sh", command), {}, tmp_path)
