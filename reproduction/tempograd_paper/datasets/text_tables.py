"""Numbers out of text files: fast when they are sound, with the line of the first fault when they are not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from tempograd.core.errors import DataError, one_line, quote, short_path
from tempograd.data.files import File

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """The lines of a text file that are not blank, with their numbers in the file."""

    path: Path
    texts: list[str]
    lines: list[int]

    def start(self, first: int) -> "Rows":
        """Leave out the rows before ``first``; a file with nothing after them is refused."""
        if first >= len(self.texts):
            raise DataError(f"{short_path(self.path)} holds no series: fetch it again.")
        return Rows(self.path, self.texts[first:], self.lines[first:])

    def fault(self, row: SupportsIndex, what: str) -> DataError:
        """Say what is wrong with one row."""
        return DataError(f"{short_path(self.path)} is damaged in line {self.lines[row]} ({what}): fetch it again.")


def read_rows(path: Path) -> Rows:
    """Read a text file; an empty one is refused."""
    with File(str(path), path.name).text() as file:
        texts = file.read().splitlines()
    filled = [number for number, text in enumerate(texts, start=1) if text.strip()]
    return Rows(path, [texts[number - 1].strip(" ") for number in filled], filled).start(0)


def read_csv(path: Path) -> tuple[list[str], Rows]:
    """Column names and rows of a file with commas; quotation marks are taken off, no cell may hold a comma."""
    rows = read_rows(path)
    rows = Rows(path, [text.replace('"', "") for text in rows.texts], rows.lines)
    return [name.strip() for name in rows.texts[0].split(",")], rows.start(1)


def numbers(rows: Rows, separator: str | None, names: Sequence[str], *, texts: int = 0) -> Floats:
    """Return the finite numbers in the cells of every row, of shape (row, column).

    Parameters
    ----------
    rows : Rows
    separator : str or None
        What stands between two cells; None: white space.
    names : sequence of str
        What the columns are called.
    texts : int
        How many columns at the left hold text; they are left out.
    """
    try:
        cells = [text.split(separator, texts)[texts] for text in rows.texts] if texts else rows.texts
        table = np.loadtxt(cells, delimiter=separator, comments=None, ndmin=2)
    except (ValueError, IndexError) as error:
        raise _first_fault(rows, separator, names, texts, str(error)) from None
    if table.shape[1] != len(names) - texts or not np.isfinite(table).all():
        raise _first_fault(rows, separator, names, texts, "not all of them are finite")
    return table


def _first_fault(rows: Rows, separator: str | None, names: Sequence[str], texts: int, otherwise: str) -> DataError:
    for row, text in enumerate(rows.texts):
        cells = text.split(separator)
        if len(cells) != len(names):
            return rows.fault(row, f"{len(cells)} cells instead of {len(names)}")
        for name, cell in list(zip(names, cells, strict=True))[texts:]:
            if not _is_finite(cell):
                return rows.fault(row, f"{one_line(name)} is {quote(cell.strip())}, which is no finite number")
    reason = one_line(otherwise, 90)
    return DataError(f"{short_path(rows.path)} cannot be read as numbers ({reason}): fetch it again.")


def _is_finite(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False
