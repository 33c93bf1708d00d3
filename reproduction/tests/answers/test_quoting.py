"""Tables that a page quotes."""

import pytest

from tempograd.core.errors import DataError
from tempograd_paper.answers.quoting import renew_quotes

KEPT = """# A table

## Wafer, GRU

Mean over folds.

| method | CPD ↑ |
| :----- | ----: |
| TIMING |   0.9 |

| method | AUP ↑ |
| :----- | ----: |
| TIMING |   0.7 |

## Wafer, GRU: paired difference

| method | CPD ↑ |
| :----- | ----: |
| IG     |  −0.1 |

## Boiler, GRU

| method |  CPD ↑ |
| :----- | -----: |
| TIMING |    0.5 |
| IG     | 0.25 † |
"""
PAGE = """Before **bold words, too**.

**Boiler, GRU** (published). Mean over 2 folds.

<!-- from reproduction/results/toy/table.md -->

| method | CPD ↑ |
| :----- | ----: |
| TIMING |   0.4 |

Between.

**Wafer, GRU** (published).

<!-- from reproduction/results/toy/table.md -->

| method |   AUP ↑ |
| :----- | ------: |
| TIMING | **0.1** |

| a table | of its own |
|---|---|
| stays | 1 |
"""


@pytest.fixture
def results(tmp_path):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "table.md").write_text(KEPT, encoding="utf-8")
    return tmp_path


def test_quotes_are_the_tables_of_the_same_title_and_columns(results):
    boiler = "| method |  CPD ↑ |\n| :----- | -----: |\n| TIMING |    0.5 |\n| IG     | 0.25 † |\n"
    wafer = "| method | AUP ↑ |\n| :----- | ----: |\n| TIMING |   0.7 |\n"
    old = [block + "\n" for block in PAGE.split("\n\n") if block.startswith("| method")]
    expected = PAGE.replace(old[0], boiler).replace(old[1], wafer)
    assert renew_quotes(PAGE, results) == expected
    assert renew_quotes(expected, results) == expected


def test_a_table_that_is_not_there(results):
    with pytest.raises(DataError, match=r"toy/table.md has no table of Boiler, GRU with the columns"):
        renew_quotes(PAGE.replace("| CPD ↑ |", "| CPP ↓ |"), results)
