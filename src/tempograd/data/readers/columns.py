"""What the readers of tables share: columns, numbers as they stand in files, the place of a fault."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tempograd.core.errors import DataError, one_line

_Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
MISSING = frozenset({"", "?", "na", "n/a", "nan", "-nan", "+nan", "null", "none"})
INDEX = "__index_level_"  # as pandas calls one in Arrow
LARGEST = float(np.finfo(np.float32).max)
# a digit may stand in one place only, or long texts would take quadratic time; ASCII has the spaces of float()
DECIMAL = re.compile(r"\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", re.ASCII)
WITH_COMMA = re.compile(r"\s*[+-]?[0-9][0-9.]*,[0-9]+\s*", re.ASCII)
COMMA = "write it with a decimal point, or read the file with pandas, decimal=',', and pass the data frame"
FLAGS = {"true": 1.0, "false": 0.0}
BEYOND = 2**63  # of int64


@dataclass(frozen=True)
class Text:
    """A column of text as the distinct texts, in order of appearance, and which of them every row has."""

    codes: Codes
    texts: list[str]

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Text":
        """Return some texts as such a column."""
        coder = CategoryEncoder()
        return cls(coder.codes(texts), list(coder))

    def row(self, code: int) -> int:
        """Return the first row that has a text."""
        return int(np.flatnonzero(self.codes == code)[0])


class CategoryEncoder(dict[str, int]):
    """Numbers texts in order of appearance."""

    def __missing__(self, text: str) -> int:
        self[text] = code = len(self)
        return code

    def codes(self, texts: Sequence[str]) -> Codes:
        """Return the numbers of some texts."""
        return np.fromiter(map(self.__getitem__, texts), np.int64, len(texts))


class Table(Protocol):
    """Rows with named columns.

    ``where`` is what messages call it; ``aside`` are columns that have no name, as an index of rows has none;
    ``lists`` those that hold a list in each row, and ``words`` those that hold text.
    """

    where: str
    columns: list[str]
    aside: frozenset[str]
    lists: frozenset[str]

    @property
    def words(self) -> frozenset[str]: ...

    def read(self, texts: Iterable[str], numbers: Sequence[str]) -> tuple[dict[str, Text], _Floats]:
        """Return columns of text by name and columns of numbers (row, column), NaN where a cell is missing."""

    def kept(self, names: Sequence[str], rows: Codes) -> dict[str, Any]:
        """Return some rows of columns as Arrow arrays."""

    def fault(self, row: int, what: str) -> DataError:
        """Say what is wrong with one row."""


def unnamed(names: Sequence[str]) -> tuple[list[str], frozenset[str]]:
    """Return what columns are called, those without a name after their place, and which of them have none.

    Pandas calls an index so that somebody else wrote without a name.

    Examples
    --------
    >>> unnamed(["", "id", "a"]), unnamed(["Unnamed: 0", "a"])
    ((['column 1', 'id', 'a'], frozenset({'column 1'})), (['Unnamed: 0', 'a'], frozenset({'Unnamed: 0'})))
    """
    called = [name or f"column {place}" for place, name in enumerate(names, start=1)]
    without = [own for own, name in zip(called, names, strict=True) if not name or name.startswith(INDEX)]
    return called, frozenset(without + [name for name in called[:1] if name == "Unnamed: 0"])


def missing(text: str) -> bool:
    """Tell whether a cell says that there is no value.

    Examples
    --------
    >>> [missing(cell) for cell in ("", " NaN", "?", "0")]
    [True, True, True, False]
    """
    return text.strip().lower() in MISSING


def refuse_large(table: Table, values: _Floats, names: Sequence[str]) -> None:
    """Refuse infinity, and numbers that become infinite in single precision."""
    for row, column in np.argwhere(np.abs(values) > LARGEST)[:1]:
        raise table.fault(
            int(row),
            f"{one_line(names[column])} is {values[row, column]:g}, which is no finite number in single precision",
        )


def parse_number(text: str) -> float | None:
    """Return the decimal number that a text is; None if it is anything else, or no finite one.

    Python would also read ``1_000``, digits of other scripts, ``infinity`` and ``nan``.

    Examples
    --------
    >>> [parse_number(text) for text in ("-1.5", " 2e3", ".5", "1_000", "٣", "0x10", "inf", "nan", "²")]
    [-1.5, 2000.0, 0.5, None, None, None, None, None, None]
    """
    return float(text) if DECIMAL.fullmatch(text) else None


def parse_cell(text: str) -> float | None:
    """Return the number in a cell: NaN where it is missing, 1 and 0 for True and False, None for anything else."""
    value = FLAGS.get(text.strip().lower(), parse_number(text))
    return np.nan if value is None and missing(text) else value


def parse_numbers(cells: Sequence[str]) -> _Floats | None:
    """Return a column of numbers, NaN where a cell is missing; None if one of them is no number."""
    together = "".join(cells)
    if together.isascii() and "_" not in together:  # what float() reads and a table does not
        try:
            found = np.fromiter((float(cell or "nan") for cell in cells), np.float64, len(cells))
            if not np.isinf(found).any():
                return found
        except ValueError:
            pass
    parsed = [parse_cell(cell) for cell in cells]
    return None if None in parsed else np.array(parsed, np.float64)


def parse_whole(text: str) -> int | None:
    """Return the integer of 64 bits that a text is, to its last digit; None if it is none.

    Examples
    --------
    >>> [parse_whole(text) for text in ("9007199254740993", "2.0", "1e3", "2.5", "one", "9" * 30)]
    [9007199254740993, 2, 1000, None, None, None]
    """
    value = parse_number(text)
    if value is None or abs(value) > BEYOND or not value.is_integer():
        return None
    try:
        whole = int(text)
    except ValueError:  # 2.0, 1e3
        whole = int(value)
    return whole if -BEYOND <= whole < BEYOND else None
