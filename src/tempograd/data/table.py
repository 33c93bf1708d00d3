"""Tables with named columns: text, Parquet files and data frames; numbers as they stand in files."""

import csv
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tempograd.core.errors import DataError, arg, brief, one_line, quote
from tempograd.core.progress import progress_bar
from tempograd.core.series import check_times
from tempograd.data.files import BUFFER, File, arrow

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]
Lists = tuple[NDArray[Any], Codes, dict[int, str]]  # series, the steps of each, and rows that hold none
FRAME = "The data frame"  # what messages call it
INDEX = "__index_level_"  # as pandas calls one in Arrow
UNNAMED = "Unnamed: 0"  # as pandas calls one in a table
CELLS = 200_000  # cells held as text at once: with more of them Python looks for garbage all the time
SAMPLE = 100  # rows by which text is told from numbers
SEPARATORS = ",;\t"

# Numbers as they stand in files

MISSING = ("", "?", "na", "n/a", "nan", "-nan", "null", "none")
OTHERS = {"true": 1.0, "false": 0.0, **dict.fromkeys(MISSING, np.nan)}
LARGEST = float(np.finfo(np.float32).max)
BEYOND = 2**63  # of int64
WITH_COMMA = re.compile(r"\s*[+-]?[0-9][0-9.]*,[0-9]+\s*", re.ASCII)
COMMA = "write it with a decimal point, or read the file with pandas, decimal=',', and pass the data frame"


def missing(text: str) -> bool:
    """Tell whether a cell says that there is no value.

    Examples
    --------
    >>> [missing(cell) for cell in ("", " NaN", "?", "0")]
    [True, True, True, False]
    """
    return text.strip().lower() in MISSING


def parse_number(text: str) -> float | None:
    """Return the number that a text is; None if it is anything else, NaN included.

    Python would also read ``1_000`` and digits of other scripts.

    Examples
    --------
    >>> [parse_number(text) for text in ("-1.5", " 2e3", ".5", "1_000", "٣", "0x10", "nan", "²")]
    [-1.5, 2000.0, 0.5, None, None, None, None, None]
    """
    if text.isascii() and "_" not in text and not missing(text):
        with suppress(ValueError):
            return float(text)
    return None


def parse_numbers(cells: Sequence[str]) -> Doubles | None:
    """Return a column of numbers, NaN where a cell is missing, 1 and 0 for True and False; None if one is none."""
    together = "".join(cells)
    if together.isascii() and "_" not in together:  # what float() reads and a table does not
        with suppress(ValueError):
            return np.fromiter((float(cell or "nan") for cell in cells), np.float64, len(cells))
    parsed = [OTHERS.get(cell.strip().lower(), parse_number(cell)) for cell in cells]
    return None if None in parsed else np.array(parsed, np.float64)


def parse_whole(text: str) -> int | None:
    """Return the integer of 64 bits that a text is, to its last digit; None if it is none.

    Examples
    --------
    >>> [parse_whole(text) for text in ("9007199254740993", "2.0", "1e3", "2.5", "one", "9" * 30)]
    [9007199254740993, 2, 1000, None, None, None]
    """
    value = parse_number(text)
    if value is None or not value.is_integer():
        return None
    whole = int(value)
    with suppress(ValueError):  # 2.0, 1e3
        whole = int(text)
    return whole if -BEYOND <= whole < BEYOND else None


# Tables


@dataclass(frozen=True)
class Text:
    """A column of text as the distinct texts, in order of appearance, and which of them every row has."""

    codes: Codes
    texts: list[str]

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Text":
        """Return some texts as such a column."""
        known: dict[str, int] = {}
        codes = np.fromiter((known.setdefault(text, len(known)) for text in texts), np.int64, len(texts))
        return cls(codes, list(known))

    @property
    def array(self) -> NDArray[Any]:
        """The text of every row."""
        return np.array(self.texts, object)[self.codes]

    def row(self, code: int) -> int:
        """Return the first row that has a text."""
        return int(np.flatnonzero(self.codes == code)[0])


class Table:
    """Rows with named columns.

    ``where`` is what messages call it; ``words`` are columns that hold text, ``lists`` those with a list in each
    row, ``nameless`` those without a name, as an index of rows has none.
    """

    words: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()

    def __init__(self, where: str, names: Sequence[str]) -> None:
        self.where, self.columns = where, list(names)
        self.nameless = [name for name in names if name in {"", UNNAMED}]
        for name, count in Counter(names).most_common(1):
            if count > 1:
                raise DataError(f"{where} has the column {quote(name)} twice.")

    def read(self, texts: Iterable[str], numbers: Sequence[str]) -> tuple[dict[str, Text], Doubles]:
        """Return columns of text by name and columns of numbers (row, column), NaN where a cell is missing."""
        columns, values = self._read(list(texts), numbers)
        if not len(values):
            raise DataError(f"{self.where} holds no series: it has no row of values.")
        for row, place in np.argwhere(np.abs(values) > LARGEST)[:1]:
            what = f"{one_line(numbers[place])} is {values[row, place]:g}"
            raise self.fault(int(row), f"{what}, which is no finite number in single precision")
        return columns, values

    def _read(self, texts: list[str], numbers: Sequence[str]) -> tuple[dict[str, Text], Doubles]:
        raise NotImplementedError

    def kept(self, names: Sequence[str], rows: Codes) -> dict[str, Any]:
        """Return some rows of columns as Arrow arrays."""
        raise NotImplementedError

    def fault(self, row: int, what: str) -> DataError:
        """Say what is wrong with one row."""
        raise NotImplementedError


class CsvTable(Table):
    """A file with a line of column names; commas, semicolons or tabs stand between cells."""

    def __init__(self, file: File) -> None:
        self._file = file
        with file.text() as text:
            outside_quotes = "".join(text.readline().split('"')[::2])
        self._separator = max(SEPARATORS, key=outside_quotes.count)
        first = [cells for _, cells in islice(self._rows(), SAMPLE + 1)]
        names = [name.strip() for name in first[0]] if first else []
        if not any(names):
            raise DataError(f"{file.where} is empty: its first line must hold the names of its columns.")
        super().__init__(file.where, [name or f"column {place}" for place, name in enumerate(names, start=1)])
        self.nameless += [column for column, name in zip(self.columns, names, strict=True) if not name]
        columns = zip(self.columns, zip(*first[1:], strict=True), strict=False)
        self.words = frozenset(name for name, cells in columns if _is_text(cells))

    def _read(self, texts: list[str], numbers: Sequence[str]) -> tuple[dict[str, Text], Doubles]:
        places = {name: place for place, name in enumerate(self.columns)}
        cells: dict[str, list[str]] = {name: [] for name in texts}
        blocks, rows, start = [np.empty((0, len(numbers)))], self._rows(), 0
        next(rows)
        with progress_bar(None, f"read {self.where}") as advance:
            while block := list(islice(rows, max(1, CELLS // len(self.columns)))):
                columns = [*zip(*(row for _, row in block), strict=True)]
                for name in texts:  # equal texts are kept once
                    cells[name] += map(sys.intern, columns[places[name]])
                found = [self._numbers(columns[places[name]], name, start) for name in numbers]
                blocks.append(np.reshape(found, (len(numbers), len(block))).T)
                start += len(block)
                advance(blocks[-1].size)
        return {name: Text.of(column) for name, column in cells.items()}, np.concatenate(blocks)

    def _numbers(self, cells: Sequence[str], name: str, start: int) -> Doubles:
        """Return the numbers of a column, in the rows from ``start`` on."""
        parsed = parse_numbers(cells)
        if parsed is None:
            row = next(row for row, cell in enumerate(cells) if parse_numbers([cell]) is None)
            what = f"{one_line(name)} is {quote(cells[row], 24)}, which is no number"
            choose = f"leave it empty if it is missing, or choose others with {arg:source.channels}"
            raise self.fault(start + row, f"{what}: {COMMA if WITH_COMMA.fullmatch(cells[row]) else choose}")
        return parsed

    def kept(self, names: Sequence[str], rows: Codes) -> dict[str, Any]:
        pa, found = arrow(), self.read(names, [])[0]
        columns = ((name, [text or None for text in column.texts], column.codes) for name, column in found.items())
        return {name: pa.array(texts, pa.string()).take(pa.array(codes[rows])) for name, texts, codes in columns}

    def fault(self, row: int, what: str) -> DataError:
        line, _ = next(islice(self._rows(), row + 1, None))
        return DataError(f"{self.where}, line {line}: {what}.")

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows that hold anything, column names first, and in which line each begins."""
        begin, width = 1, 0
        with self._file.text() as text:
            reader = csv.reader(text, delimiter=self._separator, skipinitialspace=True, strict=True)
            try:
                for cells in reader:
                    width = width or len(cells)
                    if len(cells) not in (0, width):
                        what = f"{len(cells)} cells instead of {width}"
                        raise DataError(f"{self._file.where}, line {begin}: {what}.")
                    if cells:
                        yield begin, cells
                    begin = reader.line_num + 1
            except csv.Error as error:
                what = f"{one_line(str(error), 60)}, perhaps a quotation mark is opened and never closed"
                raise DataError(f"{self._file.where}, line {begin}: {what}.") from None


def _is_text(cells: Sequence[str]) -> bool:
    """Tell whether most cells are neither missing nor numbers; one cell does not tell."""
    filled = [cell for cell in cells if not missing(cell)]
    texts = sum(parse_numbers([cell]) is None and not WITH_COMMA.fullmatch(cell) for cell in filled)
    return 2 * texts > len(filled) > 1


class ArrowTable(Table):
    """A table of Arrow, whose columns are read when they are asked for; rows are counted from ``first``."""

    def __init__(self, where: str, schema: Any, select: Callable[[Sequence[str]], Any], *, first: int) -> None:
        # an index that has no name is no column, as in a frame
        super().__init__(where, [name for name in schema.names if not name.startswith(INDEX)])
        self._schema, self.select, self._first = schema, select, first
        types, kinds = arrow().types, {name: plain_type(schema.field(name).type) for name in self.columns}
        self.lists = frozenset(name for name, kind in kinds.items() if is_list(kind))
        number = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
        numbers = {name for name, kind in kinds.items() if any(is_kind(kind) for is_kind in number)}
        self.words = frozenset(self.columns) - numbers - self.lists

    @classmethod
    def of(cls, where: str, table: Any, first: int) -> Self:
        """Return a table that is in memory."""
        return cls(where, table.schema, table.select, first=first)

    def _read(self, texts: list[str], numbers: Sequence[str]) -> tuple[dict[str, Text], Doubles]:
        for name in self.words.union(self.lists).intersection(numbers):
            kind = f"column {quote(name)} holds {self._schema.field(name).type}"
            raise DataError(f"{self.where}: {kind}, not numbers: choose others with {arg:source.channels}.")
        table = self.select(list(dict.fromkeys([*texts, *numbers])))
        values = np.empty((table.num_rows, len(numbers)))
        for place, name in enumerate(numbers):
            values[:, place] = plain_values(table.column(name)).cast("float64").to_numpy(zero_copy_only=False)
        return {name: text_of(table.column(name)) for name in texts}, values

    def series(self, name: str, shape: tuple[int, int] | None) -> Lists:
        """Return lists of T lists of D numbers, or flat lists where the shape is known, as (series, T, D).

        Return the steps of each series too: behind them are zeros. Rows that are no such series are zeros, with
        the reason.
        """
        column = self.select([name]).column(name).combine_chunks()
        nested = is_list(column.type.value_type)
        if not nested and shape is None:
            raise DataError(f"{self.where} holds series as flat lists: pass {arg:source.shape=(time, channel)}.")
        counts, inner = _counts(column), column.flatten()
        depths = _counts(inner) if nested else np.ones(len(inner), dtype=np.int64)
        depth = shape[1] if shape is not None else int(np.bincount(depths[depths >= 0], minlength=1).argmax())
        flat = (inner.flatten() if nested else inner).to_numpy(zero_copy_only=False)
        flat = flat if flat.dtype in (np.float32, np.float64) else flat.astype(np.float32)
        owners = np.repeat(np.arange(len(counts)), np.maximum(counts, 0))
        sizes = np.bincount(owners, np.maximum(depths, 0), len(counts)).astype(np.int64)  # cells of each row
        uneven = owners[depths != depth] if nested else np.flatnonzero(sizes % max(depth, 1))
        faults = dict.fromkeys(uneven.tolist(), f"not every step has {depth} values")
        faults |= dict.fromkeys(np.flatnonzero((counts <= 0) | (sizes == 0)).tolist(), "there is no series")
        steps = sizes // max(depth, 1)
        steps[list(faults)] = 0
        longest = max(1 if shape is None else shape[0], int(steps.max(initial=1)))
        x = np.zeros((len(counts), longest * depth), dtype=flat.dtype)
        x[np.arange(longest * depth) < (steps * depth)[:, None]] = flat[np.repeat(steps > 0, sizes)]
        return x.reshape(len(counts), longest, depth), steps, faults

    def kept(self, names: Sequence[str], rows: Codes) -> dict[str, Any]:
        table = self.select(list(names)).take(rows)
        return {name: plain_values(table.column(name)) for name in names}

    def fault(self, row: int, what: str) -> DataError:
        return DataError(f"{self.where}, row {row + self._first}: {what}.")


def is_frame(value: Any) -> bool:
    """Tell whether something is a data frame, of pandas or of another library: what has named columns.

    Examples
    --------
    >>> import pandas as pd
    >>> is_frame(pd.DataFrame({"a": [1]})), is_frame(np.zeros((1, 1))), is_frame(pd.DataFrame)
    (True, False, False)
    """
    return hasattr(value, "columns") and not isinstance(value, type)


def frame_table(frame: Any) -> ArrowTable:
    """Return a data frame as a table; an index that has a name is a column too."""
    pa = arrow()
    try:
        table = pa.table(frame)
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = one_line(str(error).splitlines()[0], 160)
        what = "cannot be read, perhaps a column holds both numbers and text"
        raise DataError(f"{FRAME} {what}: {reason}.") from error
    return ArrowTable.of(FRAME, table, 0)


@contextmanager
def open_parquet(file: File) -> Iterator[Any]:
    """Open a Parquet file so that reading it does not keep what was read."""
    pa = arrow()
    with file.opened() as opened:
        try:
            yield pa.parquet.ParquetFile(opened, pre_buffer=False, buffer_size=BUFFER)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = one_line((str(error).strip().splitlines() or [""])[0], 90)
            what = "is damaged or no Parquet file: write or fetch it again"
            raise DataError(f"{file.where} {what} ({reason}).") from error


def open_table(file: File) -> Table:
    """Open a file with named columns."""
    if file.ending != ".parquet":
        return CsvTable(file)

    def read(names: Sequence[str]) -> Any:
        with open_parquet(file) as opened:
            return opened.read(columns=list(names), use_threads=False)

    with open_parquet(file) as opened:
        return ArrowTable(file.where, opened.schema_arrow, read, first=1)


def plain_type(kind: Any) -> Any:
    """Return the type of the values of a column, whatever of the kinds of text and dictionaries it is."""
    types, kind = arrow().types, kind.value_type if arrow().types.is_dictionary(kind) else kind
    return arrow().string() if types.is_large_string(kind) or types.is_string_view(kind) else kind


def plain_values(column: Any) -> Any:
    """Return a column as plain values: what the codes of a dictionary mean may differ between files."""
    return column.cast(plain_type(column.type)).combine_chunks()


def text_of(column: Any) -> Text:
    """Write the distinct values of a column, missing ones as nothing; dates as those of other tables."""
    coded = plain_values(column).dictionary_encode(null_encoding="encode")
    try:
        cells = coded.dictionary.to_pylist()
        written = check_times(cells, 1, len(cells)) or ()
    except (arrow().ArrowException, ValueError) as error:  # bytes that are no text, lists
        raise DataError(f"A column of {column.type} cannot be read as text: {brief(str(error))}.") from error
    spelt = Text.of([*map(str, written)])  # null and NaN are one
    return Text(spelt.codes[coded.indices.to_numpy()], spelt.texts)


# Whole series in each row


def is_list(kind: Any) -> bool:
    """Tell whether values are lists."""
    types = arrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _counts(column: Any) -> Codes:
    """Return the lengths of lists, -1 for none."""
    found = arrow().compute.list_value_length(column).cast("int64").fill_null(-1)
    return found.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
