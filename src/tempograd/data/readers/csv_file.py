"""Comma-separated tables, read in blocks by the core alone, with the line of the first fault."""

import csv
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np

from tempograd.core.errors import DataError, arg, one_line, quote
from tempograd.core.progress import progress_bar
from tempograd.data.files import File, arrow
from tempograd.data.readers.columns import (
    COMMA,
    WITH_COMMA,
    CategoryEncoder,
    Codes,
    Table,
    Text,
    _Floats,
    missing,
    parse_cell,
    parse_number,
    parse_numbers,
    refuse_large,
    unnamed,
)

BLOCK = 500  # rows held as text at once; with more of them Python looks for garbage all the time
CELLS = 500_000  # cells held as text at once, where rows are long
SAMPLE = 100  # rows by which text is told from numbers
SEPARATORS = ",;\t"
Rows = list[list[str]]


class CsvTable(Table):
    """A file with a line of column names; commas, semicolons or tabs stand between cells."""

    lists: frozenset[str] = frozenset()

    def __init__(self, file: File) -> None:
        self.file, self.where, self._lines = file, file.where, array("q")
        with file.text() as text:
            outside_quotes = "".join(next(file.lines(text), "").split('"')[::2])
        self._separator = max(SEPARATORS, key=outside_quotes.count)
        names = [name.strip() for name in next(self._rows(), [])]
        if not any(names):
            raise DataError(f"{self.where} is empty: its first line must hold the names of its columns.")
        self.columns, self.aside = unnamed(names)
        if _are_values(self.columns):
            raise DataError(f"{self.where} begins with values: its first line must hold the names of its columns.")
        self._places = {name: place for place, name in reversed(list(enumerate(self.columns)))}
        twice = [name for place, name in enumerate(self.columns) if self._places[name] != place]
        if twice:
            raise DataError(f"{self.where}, line 1: column {quote(twice[0])} is there twice.")

    @cached_property
    def words(self) -> frozenset[str]:
        """The columns most of whose first cells are text."""
        found = []
        for name, cells in zip(self.columns, zip(*next(self._blocks(), []), strict=False), strict=False):
            if parse_numbers(cells[:SAMPLE]) is not None:
                continue
            filled = [cell for cell in cells[:SAMPLE] if not missing(cell)]
            texts = sum(parse_cell(cell) is None and not WITH_COMMA.fullmatch(cell) for cell in filled)
            if 2 * texts > len(filled) > 1:
                found.append(name)
        return frozenset(found)

    def read(self, texts: Iterable[str], numbers: Sequence[str]) -> tuple[dict[str, Text], _Floats]:
        coders = {name: CategoryEncoder() for name in texts}
        codes: dict[str, list[Codes]] = {name: [] for name in coders}
        blocks: list[_Floats] = [np.empty((0, len(numbers)))]
        first, wanted = 0, [self._places[name] for name in numbers]
        size = len(self.columns)
        with progress_bar(None, f"read {self.where}") as advance:
            for rows in self._blocks():
                columns: list[tuple[str, ...]] = list(zip(*rows, strict=True))
                for name, coder in coders.items():
                    codes[name].append(coder.codes(columns[self._places[name]]))
                found = parse_numbers(list(chain.from_iterable(columns[place] for place in wanted)))
                if found is None:
                    raise self._no_number(columns, wanted, first)
                blocks.append(found.reshape(len(wanted), len(rows)).T)
                first += len(rows)
                advance(size * len(rows))
        if not first:
            raise DataError(f"{self.where} holds no series: it has no line after its column names.")
        values = np.concatenate(blocks)
        refuse_large(self, values, numbers)
        return {name: Text(np.concatenate(codes[name]), list(coder)) for name, coder in coders.items()}, values

    def kept(self, names: Sequence[str], rows: Codes) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, column in self.read(names, [])[0].items():
            cells = [column.texts[code] for code in column.codes[rows]]
            numbers = parse_numbers(cells)
            whole = numbers is not None and bool(np.isfinite(numbers).all()) and all(map(str.isdigit, cells))
            found[name] = arrow().array(
                [int(cell) for cell in cells] if whole else cells if numbers is None else numbers
            )
        return found

    def fault(self, row: int, what: str) -> DataError:
        return DataError(f"{self.where}, line {self._lines[row]}: {what}.")

    def _blocks(self) -> Iterator[Rows]:
        size, self._lines = max(1, min(BLOCK, CELLS // len(self.columns))), array("q")
        source, rows = self._rows(self._lines), list[list[str]]()
        next(source)
        del self._lines[:]
        for cells in source:
            if len(cells) != len(self.columns):
                raise self.fault(-1, f"{len(cells)} cells instead of {len(self.columns)}")
            rows.append(cells)
            if len(rows) == size:
                yield rows
                rows = []
        if rows:
            yield rows

    def _rows(self, lines: "array[int] | None" = None) -> Iterator[list[str]]:
        """Yield the rows that hold anything, and note in which line each begins."""
        begin = 1
        with self.file.text() as text:
            reader = csv.reader(
                self.file.lines(text), delimiter=self._separator, skipinitialspace=True, strict=True
            )
            try:
                for cells in reader:
                    if cells and lines is not None:
                        lines.append(begin)
                    if cells:
                        yield cells
                    begin = reader.line_num + 1
            except csv.Error as error:
                quoted = "a quotation mark is opened and never closed"
                most = f"a cell has more than {csv.field_size_limit():,} characters: perhaps {quoted}"
                found = str(error)
                what = quoted if "unexpected end" in found else most if "field limit" in found else one_line(found)
                raise DataError(f"{self.where}, line {begin}: {what}.") from None

    def _no_number(self, columns: Sequence[Sequence[str]], places: Sequence[int], first: int) -> DataError:
        place = next(place for place in places if parse_numbers(columns[place]) is None)
        name, cells = one_line(self.columns[place]), columns[place]
        row = next(row for row, cell in enumerate(cells) if parse_cell(cell) is None)
        what = f"{name} is {quote(cells[row], 24)}, which is no number"
        choose = f"leave it empty if it is missing, or choose others with {arg:source.channels}"
        return self.fault(first + row, f"{what}: {COMMA if WITH_COMMA.fullmatch(cells[row]) else choose}")


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
