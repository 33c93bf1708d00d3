"""Comma-separated tables, read in blocks: fast where they are sound, with the line of the first fault."""

import csv
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from tempograd.core.errors import DataError, one_line, quote, short_path
from tempograd.core.progress import progress_bar
from tempograd.data.files import lines, open_text, refuse_beyond_memory
from tempograd.data.readers.columns import (
    FLAGS,
    CategoryEncoder,
    Table,
    Text,
    _Floats,
    no_number,
    parse_flags,
    parse_number,
    parse_numbers,
    refuse_large,
    unnamed,
)

BLOCK = 500  # rows held as text at once; with more of them Python looks for garbage all the time
CELLS = 500_000  # cells held as text at once, where rows are long
UNASKED = 2**24  # bytes that are there anyway
SEPARATORS = ",;\t"
QUOTED = re.compile('"[^"]*"?')  # separators inside quotation marks separate nothing
END = "\0"  # a line that no file holds, put after the last: inside a cell it tells of an open quotation mark
Rows = list[list[str]]
ColumnFlags = NDArray[np.bool_]  # one for each column


class CsvTable(Table):
    """A file with a line of column names; commas, semicolons or tabs stand between cells."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_text(path) as file:
            first = next(lines(path, file), "")
        self._separator = max(SEPARATORS, key=QUOTED.sub("", first).count)
        names = [name.strip() for name in self._header()]
        self.columns, self.aside = unnamed(names)
        self._check_names(names)

    def read(self, texts: Iterable[str], numbers: Sequence[str]) -> tuple[dict[str, Text], _Floats]:
        coders = {name: CategoryEncoder() for name in texts}
        codes: dict[str, list[np.ndarray]] = {name: [] for name in coders}
        blocks: list[_Floats] = [np.empty((0, len(numbers)))]
        first, known, places = 0, UNASKED, {name: place for place, name in enumerate(self.columns)}
        wanted, kinds = [places[name] for name in numbers], _Kinds(len(numbers))
        with progress_bar(self.path.stat().st_size, f"read {self.path.name}") as advance:
            for rows in self._blocks():
                self._check_widths(rows, first)
                for name, coder in coders.items():
                    codes[name].append(coder.codes([row[places[name]] for row in rows]))
                blocks.append(self._numbers(rows, wanted, first, kinds))
                first += len(rows)
                advance(len(rows) * (sum(map(len, rows[0])) + len(rows[0])))  # about as long as the first of them
                size = 8 * first * (len(numbers) + len(coders))
                if size > 2 * known:  # asked now and then: a packed file does not tell its size
                    refuse_beyond_memory(self.path, size, "its content", "cut it into several files")
                    known = size
        if not first:
            raise DataError(f"{short_path(self.path)} holds no series: it has no line after its column names.")
        values = np.concatenate(blocks)
        refuse_large(self, values, numbers)
        return {name: Text(np.concatenate(codes[name]), list(coder)) for name, coder in coders.items()}, values

    def fault(self, row: int, what: str) -> DataError:
        return DataError(f"{short_path(self.path)}, line {self._line(row)}: {what}.")

    def _line(self, row: int) -> int:
        """Return the line in which a row begins, the header being row -1, or the one where reading ends.

        Lines are counted only when something is wrong, since sound files need no numbers.
        """
        begin, found = 1, -2
        with open_text(self.path) as file:
            reader = self._reader(file)
            try:
                for cells in reader:
                    found += bool(cells)
                    if found == row:
                        break
                    begin = reader.line_num + 1
            except csv.Error:
                pass
        return begin

    def _reader(self, file: TextIO) -> Any:
        text = chain(lines(self.path, file), [END])
        return csv.reader(text, delimiter=self._separator, skipinitialspace=True)

    def _header(self) -> list[str]:
        with open_text(self.path) as file:
            try:
                names: list[str] = next(self._reader(file))
            except csv.Error:
                raise self._endless() from None
        if names == [END]:
            return []
        if names and names[-1].endswith(END):
            raise self._open(-1)
        return names

    def _check_names(self, names: Sequence[str]) -> None:
        if not any(names):
            raise DataError(
                f"{short_path(self.path)} is empty: its first line must hold the names of its columns."
            )
        if _are_values(self.columns):
            raise DataError(
                f"{short_path(self.path)} begins with values: its first line must hold the names of its columns."
            )
        seen: set[str] = set()
        for name in self.columns:
            if name in seen:
                raise DataError(f"{short_path(self.path)}, line 1: column {quote(name)} is there twice.")
            seen.add(name)

    def _blocks(self) -> Iterator[Rows]:
        size, first = max(1, min(BLOCK, CELLS // len(self.columns))), 0
        with open_text(self.path) as file:
            reader = self._reader(file)
            filled = filter(None, reader)  # blank lines say nothing
            try:
                next(filled)
                while rows := list(islice(filled, size)):
                    if rows[-1][-1].endswith(END) and rows.pop() != [END]:
                        raise self._open(first + len(rows))
                    if rows:
                        yield rows
                    first += len(rows)
            except csv.Error:
                raise self._endless() from None

    def _open(self, row: int) -> DataError:
        return self.fault(row, "a quotation mark is opened and never closed")

    def _endless(self) -> DataError:
        most = f"{csv.field_size_limit():,}"
        return self.fault(
            sys.maxsize,
            f"a cell has more than {most} characters: perhaps a quotation mark is opened and never closed",
        )

    def _check_widths(self, rows: Rows, first: int) -> None:
        width = len(self.columns)
        if set(map(len, rows)) != {width}:
            row = next(row for row, cells in enumerate(rows) if len(cells) != width)
            raise self.fault(first + row, f"{len(rows[row])} cells instead of {width}")

    def _numbers(self, rows: Rows, places: Sequence[int], first: int, kinds: "_Kinds") -> _Floats:
        """Read all numbers of a block in one go, since a column of a wide table has few cells."""
        if not places:
            return np.empty((len(rows), 0))
        chosen = map(itemgetter(*places), rows)
        cells = list(chosen) if len(places) == 1 else list(chain.from_iterable(chosen))
        found, flags = parse_numbers(cells), np.zeros(len(places), dtype=bool)
        if found is None:
            found, flags = self._by_column(cells, places, first)
        values = found.reshape(len(rows), len(places))
        mixed = kinds.mixed(flags, np.asarray(~np.isnan(values).all(0)))
        if mixed is not None:
            row = int(np.flatnonzero(~np.isnan(values[:, mixed]))[0])
            raise self._mixed(first + row, places[mixed], cells[row * len(places) + mixed])
        return values

    def _by_column(self, cells: Sequence[str], places: Sequence[int], first: int) -> tuple[_Floats, ColumnFlags]:
        """Read a block whose columns are not all of numbers: True and False are 1 and 0."""
        columns = [cells[column :: len(places)] for column in range(len(places))]
        found = np.empty((len(columns[0]), len(places)))
        flags = np.zeros(len(places), dtype=bool)
        for column, texts in enumerate(columns):
            values = parse_numbers(texts)
            if values is None:
                values, flags[column] = parse_flags(texts), True
            if values is None:
                raise self._no_number(cells, places, column, first)
            found[:, column] = values
        return found, flags

    def _no_number(self, cells: Sequence[str], places: Sequence[int], column: int, first: int) -> DataError:
        """Tell of the first cell that is no number, nor True or False; if there is none, a column mixes them."""
        known = (parse_number(cell) is not None or parse_flags([cell]) is not None for cell in cells)
        wrong = next((place for place, sound in enumerate(known) if not sound), None)
        if wrong is not None:
            name, cell = one_line(self.columns[places[wrong % len(places)]]), cells[wrong]
            return self.fault(
                first + wrong // len(places), f"{name} is {quote(cell, 24)}, which {no_number(cell)}"
            )
        texts = cells[column :: len(places)]
        row = next(row for row, cell in enumerate(texts) if cell.strip() in FLAGS)
        return self._mixed(first + row, places[column], texts[row])

    def _mixed(self, row: int, place: int, cell: str) -> DataError:
        name = one_line(self.columns[place])
        return self.fault(
            row, f"{name} is {quote(cell, 24)}, and holds both numbers and True or False: write 1 and 0"
        )


class _Kinds:
    """Which columns hold numbers so far, and which True and False: no column may hold both."""

    def __init__(self, count: int) -> None:
        self._numbers, self._flags = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)

    def mixed(self, flags: ColumnFlags, filled: ColumnFlags) -> int | None:
        """Take in what the columns of a block hold, and return the first that now holds both."""
        self._numbers |= filled & ~flags
        self._flags |= filled & flags
        both = np.flatnonzero(self._numbers & self._flags)
        return int(both[0]) if len(both) else None


def _are_values(names: Sequence[str]) -> bool:
    """Tell whether a first line holds values: numbers that do not grow, as the times of a wide table do.

    Examples
    --------
    >>> _are_values(["4.1", "3.9"]), _are_values(["0", "0.5", "1"]), _are_values(["id", "4", "3"])
    (True, False, False)
    """
    found = [parse_number(name) for name in names]
    values = [value for value in found if value is not None]
    return len(values) == len(found) and any(later <= earlier for earlier, later in pairwise(values))
