"""What the readers of tables share: columns of text, columns of numbers, and the place of a fault."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tempograd.errors import DataError, one_line

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
MISSING = frozenset({"", "?", "na", "n/a", "nan", "-nan", "+nan", "null", "none"})
NO_CHANNEL = "if the column names series or labels, pass id= or label= (--id, --label), else choose channels="
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Text:
    """A column of text as the distinct texts, in order of appearance, and which of them every row has."""

    codes: Codes
    texts: list[str]

    def row(self, code: int) -> int:
        """Return the first row that has a text."""
        return int(np.flatnonzero(self.codes == code)[0])


class Coder(dict[str, int]):
    """Numbers texts in order of appearance."""

    def __missing__(self, text: str) -> int:
        self[text] = code = len(self)
        return code

    def codes(self, texts: Sequence[str]) -> Codes:
        """Return the numbers of some texts."""
        return np.fromiter(map(self.__getitem__, texts), np.int64, len(texts))


class Table(Protocol):
    """A file with named columns; ``aside`` are those that number the rows, which nobody wants as a channel."""

    path: Path
    columns: list[str]
    aside: frozenset[str]

    def read(self, texts: Iterable[str], numbers: Sequence[str]) -> tuple[dict[str, Text], Floats]:
        """Return columns of text by name and columns of numbers (row, column), NaN where a cell is missing."""

    def fault(self, row: int, what: str) -> DataError:
        """Say what is wrong with one row."""


def missing(text: str) -> bool:
    """Tell whether a cell says that there is no value.

    Examples
    --------
    >>> [missing(cell) for cell in ("", " NaN", "?", "0")]
    [True, True, True, False]
    """
    return text.strip().lower() in MISSING


def refuse_large(table: Table, values: Floats, names: Sequence[str]) -> None:
    """Refuse infinity, and numbers that become infinite in single precision."""
    for row, column in np.argwhere(np.abs(values) > LARGEST)[:1]:
        raise table.fault(
            int(row),
            f"{one_line(names[column])} is {values[row, column]:g}, which is no finite number in single precision",
        )
