"""What the readers of tables share: columns, numbers as they stand in files, the place of a fault."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tempograd.core.errors import DataError, arg, one_line

_Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
MISSING = frozenset({"", "?", "na", "n/a", "nan", "-nan", "+nan", "null", "none"})
NO_CHANNEL = (
    f"if the column names series or labels, pass {arg:source.id} or {arg:source.label}, else choose "
    f"{arg:source.channels}"
)
INDEX = "__index_level_"  # as pandas calls one in Parquet files
LARGEST = float(np.finfo(np.float32).max)
# a digit may stand in one place only, or long texts would take quadratic time; ASCII has the spaces of float()
DECIMAL = re.compile(r"\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", re.ASCII)
PLAIN = re.compile("-?[0-9]{1,18}")  # most of them, and quickly read
HEXADECIMAL = re.compile(r"\s*[+-]?0[xob][0-9a-f_]+\s*", re.IGNORECASE)
FLAGS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
WITH_COMMA = re.compile(r"\s*([+-]?)([0-9]{1,3}(?:\.[0-9]{3})+|[0-9]+),([0-9]+)\s*", re.ASCII)
THOUSANDS = re.compile(r"\s*[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]+)?\s*", re.ASCII)
BEYOND = 2**63  # of int64: the smallest size that does not fit, but for -2^63


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
    """A file with named columns; ``aside`` are those that nobody gave a name, as an index of rows has none."""

    path: Path
    columns: list[str]
    aside: frozenset[str]

    def read(self, texts: Iterable[str], numbers: Sequence[str]) -> tuple[dict[str, Text], _Floats]:
        """Return columns of text by name and columns of numbers (row, column), NaN where a cell is missing."""

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
    """Return the number that a text is in plain decimal notation, None if it is none.

    Python would also read ``1_000``, digits of other scripts, ``infinity`` and ``nan``.

    Examples
    --------
    >>> [parse_number(text) for text in ("-1.5", " 2e3", ".5", "1_000", "٣", "0x10", "inf", "nan", "²")]
    [-1.5, 2000.0, 0.5, None, None, None, None, None, None]
    """
    return float(text) if DECIMAL.fullmatch(text) else None


def parse_numbers(cells: Sequence[str]) -> _Floats | None:
    """Return a column of numbers, NaN where a cell is missing; None if one of them is no number."""
    together = "".join(cells)
    if not together.isascii() or "_" in together:  # what float() reads and number() does not
        return _one_by_one(cells)
    try:
        found = np.fromiter((float(cell or "nan") for cell in cells), np.float64, len(cells))
    except ValueError:
        return _one_by_one(cells)
    return _one_by_one(cells) if np.isinf(found).any() else found


def _one_by_one(cells: Sequence[str]) -> _Floats | None:
    found = np.empty(len(cells))
    for place, cell in enumerate(cells):
        value = np.nan if missing(cell) else parse_number(cell)
        if value is None:
            return None
        found[place] = value
    return found


def parse_flags(cells: Sequence[str]) -> _Floats | None:
    """Return a column of True and False as 1 and 0, NaN where a cell is missing; None if it holds anything else.

    Examples
    --------
    >>> parse_flags(["True", "", "false"]), parse_flags(["True", "1"])
    (array([ 1., nan,  0.]), None)
    """
    found = [np.nan if missing(cell) else FLAGS.get(cell.strip()) for cell in cells]
    return None if None in found else np.array(found, np.float64)


def no_number(text: str) -> str:
    """Say what a cell is that is no number, and what to do about it.

    Examples
    --------
    >>> no_number("19,87")
    "has a decimal comma: write 19.87, or read the file with pandas, decimal=',', and pass the data frame"
    >>> no_number("1,234")
    'has a comma: write 1.234 if it is a decimal comma, or 1234'
    """
    plain, comma = text.strip(), WITH_COMMA.fullmatch(text)
    if THOUSANDS.fullmatch(text):
        unclear = plain.count(",") == 1 and "." not in plain
        either = f"{plain.replace(',', '.')} if it is a decimal comma, or " if unclear else ""
        return f"has a comma: write {either}{plain.replace(',', '')}"
    if comma is None:
        return f"is no number: {NO_CHANNEL}"
    written = f"{comma[1]}{comma[2].replace('.', '')}.{comma[3]}"
    return (
        f"has a decimal comma: write {written}, or read the file with pandas, decimal=',', and pass the data frame"
    )


def parse_whole(text: str) -> int | None:
    """Return the integer that a text is, to its last digit, however it is written; None if it is none.

    Examples
    --------
    >>> [parse_whole(text) for text in ("9007199254740993", "2.0", "1e3", "2.5", "one")]
    [9007199254740993, 2, 1000, None, None]

    Integers that do not fit into 64 bits are all alike:

    >>> [parse_whole(text) == BEYOND for text in ("1e300", "9223372036854775808")]
    [True, True]
    >>> parse_whole("-9223372036854775808") == -BEYOND
    True
    """
    if PLAIN.fullmatch(text):
        return int(text)
    value = parse_number(text)
    if value is None:
        return None
    if abs(value) >= 2 * BEYOND:  # to write the digits of 1e999999999 down would take all memory
        return BEYOND
    if abs(value) < 1:  # nor are those of 1e-999999999
        return None if re.search("[1-9]", text.lower().split("e")[0]) else 0
    exact = Decimal(text.strip())
    if exact != exact.to_integral_value():
        return None
    found = int(exact.to_integral_value())
    return found if -BEYOND <= found < BEYOND else BEYOND


def resembles_number(text: str) -> bool:
    """Tell whether a text that is no number here is one to other programs.

    Examples
    --------
    >>> [resembles_number(text) for text in ("1_000", "٣", "0x10", "Infinity", "1st", "12")]
    [True, True, True, True, False, False]
    """
    if parse_number(text) is not None or missing(text):
        return False
    if HEXADECIMAL.fullmatch(text):
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True
