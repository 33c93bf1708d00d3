"""Comma-separated tables, read in blocks: fast where they are sound, with the line of the first fault."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from tempograd.data._files import open_text
from tempograd.data.own.numbers import number, numbers
from tempograd.data.own.table import NO_CHANNEL, Coder, Floats, Table, Text, missing, refuse_large
from tempograd.errors import DataError
from tempograd.progress import progress

BLOCK = 500  # rows held as text at once; with more of them Python looks for garbage all the time
SEPARATORS = ",;\t"
Rows = list[list[str]]


class CsvTable(Table):
    """A file with a line of column names; commas, semicolons or tabs stand between cells.

    Programs that number their rows leave that column without a name; here it is called after its place.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_text(path) as file:
            first = file.readline().removeprefix("\ufeff")
        self._separator = max(SEPARATORS, key=first.count)
        names = [name.strip() for name in next(csv.reader([first], delimiter=self._separator), [])]
        self.columns = [name or f"column {place}" for place, name in enumerate(names, start=1)]
        self.aside = frozenset(column for column, name in zip(self.columns, names, strict=True) if not name)
        self._check_names(names)

    def read(self, texts: Iterable[str], numbers: Sequence[str]) -> tuple[dict[str, Text], Floats]:
        coders = {name: Coder() for name in texts}
        codes: dict[str, list[np.ndarray]] = {name: [] for name in coders}
        blocks: list[Floats] = [np.empty((0, len(numbers)))]
        first, places = 0, {name: place for place, name in enumerate(self.columns)}
        with progress(self.path.stat().st_size, f"read {self.path.name}") as advance:
            for rows in self._blocks():
                self._check_widths(rows, first)
                columns = list(zip(*rows, strict=True))
                for name, coder in coders.items():
                    codes[name].append(coder.codes(columns[places[name]]))
                cells = [self._numbers(name, columns[places[name]], first) for name in numbers]
                blocks.append(np.stack(cells, 1) if cells else np.empty((len(rows), 0)))
                first += len(rows)
                advance(len(rows) * (sum(map(len, rows[0])) + len(rows[0])))  # about as long as the first of them
        if not first:
            raise DataError(f"{self.path} holds no series: it has no line after its column names.")
        values = np.concatenate(blocks)
        refuse_large(self, values, numbers)
        return {name: Text(np.concatenate(codes[name]), list(coder)) for name, coder in coders.items()}, values

    def fault(self, row: int, what: str) -> DataError:
        with open_text(self.path) as file:  # lines are counted only now, since sound files need no numbers
            reader = csv.reader(file, delimiter=self._separator, skipinitialspace=True)
            for _ in islice(filter(None, reader), row + 2):
                pass
            return DataError(f"{self.path}, line {reader.line_num}: {what}.")

    def _check_names(self, names: Sequence[str]) -> None:
        if not any(names):
            raise DataError(f"{self.path} is empty: its first line must hold the names of its columns.")
        if _are_values(self.columns):
            raise DataError(f"{self.path} begins with values: its first line must hold the names of its columns.")
        for place, name in enumerate(self.columns):
            if name in self.columns[:place]:
                raise DataError(f"{self.path}, line 1: column {name!r} is there twice.")

    def _blocks(self) -> Iterator[Rows]:
        with open_text(self.path) as file:
            reader = csv.reader(file, delimiter=self._separator, skipinitialspace=True)
            next(reader)
            filled = filter(None, reader)  # blank lines say nothing
            while rows := list(islice(filled, BLOCK)):
                yield rows

    def _check_widths(self, rows: Rows, first: int) -> None:
        width = len(self.columns)
        if set(map(len, rows)) != {width}:
            row = next(row for row, cells in enumerate(rows) if len(cells) != width)
            raise self.fault(first + row, f"{len(rows[row])} cells instead of {width}")

    def _numbers(self, name: str, cells: Sequence[str], first: int) -> Floats:
        found = numbers(cells)
        if found is None:
            row = next(row for row, cell in enumerate(cells) if not missing(cell) and number(cell) is None)
            raise self.fault(first + row, f"{name} is {cells[row]!r}, which is no number: {NO_CHANNEL}")
        return found


def _are_values(names: Sequence[str]) -> bool:
    """Tell whether a first line holds values: numbers that do not grow, as the times of a wide table do.

    Examples
    --------
    >>> _are_values(["4.1", "3.9"]), _are_values(["0", "0.5", "1"]), _are_values(["id", "4", "3"])
    (True, False, False)
    """
    found = [number(name) for name in names]
    values = [value for value in found if value is not None]
    return len(values) == len(found) and any(later <= earlier for earlier, later in pairwise(values))
