"""Parquet files and data frames, as Arrow has them: columns of text, of numbers and of lists."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempograd.core.errors import DataError, arg, brief, one_line, quote
from tempograd.core.series import check_times
from tempograd.data.files import BUFFER, File, arrow
from tempograd.data.readers.columns import INDEX, Codes, Table, Text, _Floats, refuse_large, unnamed

FRAME = "The data frame"  # what messages call it
ZEROS = re.compile(r"(:\d\d)\.0+(?=[Z+-]|$)")


def is_frame(value: Any) -> bool:
    """Tell whether something is a data frame, of pandas or of another library: named columns that Arrow reads.

    Examples
    --------
    >>> import pandas as pd
    >>> is_frame(pd.DataFrame({"a": [1]})), is_frame(np.zeros((1, 1))), is_frame(pd.DataFrame)
    (True, False, False)
    """
    known = ("__arrow_c_stream__", "to_arrow", "to_numpy")
    return (
        not isinstance(value, type) and hasattr(value, "columns") and any(hasattr(value, name) for name in known)
    )


def frame_table(frame: Any) -> "ArrowTable":
    """Return a data frame as a table; an index that has a name is a column too."""
    pa = arrow()
    called = list(map(str, getattr(frame, "column_names", frame.columns)))
    if len(set(called)) < len(called):
        raise DataError(f"{FRAME} has the column {quote(max(called, key=called.count))} twice.")
    try:
        if hasattr(frame, "__arrow_c_stream__"):
            table = pa.table(frame)
        else:
            table = frame.to_arrow() if hasattr(frame, "to_arrow") else pa.Table.from_pandas(frame)
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = one_line(str(error).splitlines()[0], 160)
        raise DataError(
            f"{FRAME} cannot be read, perhaps a column holds both numbers and text: {reason}."
        ) from error
    names = [name for name in table.column_names if not name.startswith(INDEX)]
    if len(set(names)) == len(names):
        table = table.select(names)
    return ArrowTable(FRAME, table.schema, table.num_rows, table.select, first=0)


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


def parquet_table(file: File) -> "ArrowTable":
    """Return a Parquet file as a table, to which its folders' names add columns."""
    with open_parquet(file) as opened:
        schema, rows = opened.schema_arrow, opened.metadata.num_rows

    def read(names: Sequence[str]) -> Any:
        with open_parquet(file) as opened:
            table = opened.read(columns=list(names), use_threads=False)
        if names and table.num_rows != rows:
            raise DataError(f"{file.where} is damaged: it has not as many rows as it says.")
        return table

    return ArrowTable(file.where, schema, rows, read, first=1)


class ArrowTable(Table):
    """A table of Arrow, whose columns are read when they are asked for; rows are counted from ``first``."""

    def __init__(
        self, where: str, schema: Any, rows: int, select: Callable[[Sequence[str]], Any], *, first: int
    ) -> None:
        types = arrow().types
        self.where, self._schema, self._select, self._first = where, schema, select, first
        self.columns, self.aside = list(schema.names), unnamed(schema.names)[1]
        twice = next((name for name in self.columns if self.columns.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"{where} has the column {quote(twice)} twice.")
        if not rows:
            raise DataError(f"{where} holds no series: it has no row.")
        kinds = {field.name: _plain(field.type) for field in schema}
        self.lists = frozenset(name for name, kind in kinds.items() if is_list(kind))
        number = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
        self._numbers = frozenset(name for name, kind in kinds.items() if any(is_kind(kind) for is_kind in number))

    @cached_property
    def words(self) -> frozenset[str]:
        """The columns that hold neither numbers nor lists."""
        return frozenset(self.columns) - self._numbers - self.lists

    def read(self, texts: Iterable[str], numbers: Sequence[str]) -> tuple[dict[str, Text], _Floats]:
        texts = list(texts)
        for name in numbers:
            if name not in self._numbers:
                kind = f"column {quote(name)} holds {self._schema.field(name).type}"
                raise DataError(f"{self.where}: {kind}, not numbers: choose others with {arg:source.channels}.")
        table = self._select(list(dict.fromkeys([*texts, *numbers])))
        values = np.empty((table.num_rows, len(numbers)))
        for place, name in enumerate(numbers):
            values[:, place] = plain_values(table.column(name)).cast("float64").to_numpy()
        refuse_large(self, values, numbers)
        return {name: _text(table.column(name)) for name in texts}, values

    def cells(self, name: str) -> Any:
        """Return a column of lists."""
        return self._select([name]).column(name).combine_chunks()

    def kept(self, names: Sequence[str], rows: Codes) -> dict[str, Any]:
        table = self._select(list(names)).take(rows)
        return {name: one_chunk(plain_values(table.column(name))) for name in names}

    def fault(self, row: int, what: str) -> DataError:
        return DataError(f"{self.where}, row {row + self._first}: {what}.")


def _plain(kind: Any) -> Any:
    return kind.value_type if arrow().types.is_dictionary(kind) else kind


def plain_values(column: Any) -> Any:
    """Return plain values: what the codes of a dictionary mean may differ between files."""
    return column.cast(column.type.value_type) if arrow().types.is_dictionary(column.type) else column


def one_chunk(column: Any) -> Any:
    """Return a column as one array."""
    pa = arrow()
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _text(column: Any) -> Text:
    """Write the distinct values of a column, missing ones as nothing; dates as those of other tables."""
    pa = arrow()
    coded = one_chunk(plain_values(column)).dictionary_encode(null_encoding="encode")
    kind, values = coded.dictionary.type, coded.dictionary
    if (pa.types.is_timestamp(kind) and kind.tz is None) or pa.types.is_date(kind):
        stamps = values.to_numpy(zero_copy_only=False).astype("datetime64[ns]")
        written = tuple(map(str, check_times(stamps, 1, len(stamps)) or ()))
    elif pa.types.is_boolean(kind):
        written = tuple("" if value is None else str(value) for value in values.to_pylist())
    elif pa.types.is_floating(kind):
        written = tuple("" if value is None or value != value else repr(value) for value in values.to_pylist())  # noqa: PLR0124
    else:
        try:
            written = tuple(ZEROS.sub(r"\1", text or "") for text in values.cast(pa.string()).to_pylist())
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise DataError(f"A column of {kind} cannot be read as text: {brief(str(error))}.") from error
    spelt = Text.of(written)  # null and NaN are one
    return Text(spelt.codes[coded.indices.to_numpy()], spelt.texts)


def is_list(kind: Any) -> bool:
    """Tell whether values are lists."""
    types = arrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def list_cells(
    column: Any, shape: tuple[int, int] | None, where: str
) -> tuple[NDArray[Any], NDArray[np.int64], dict[int, str]]:
    """Turn lists of T lists of D numbers, or flat lists where the shape is known, into (series, T, D).

    Return the steps of each series too: behind them are zeros. Rows that are no such series are zeros, with the
    reason.
    """
    nested = is_list(column.type.value_type)
    if not nested and shape is None:
        raise DataError(f"{where} holds series as flat lists: pass {arg:source.shape=(time, channel)}.")
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
    longest = int(steps.max(initial=1)) if shape is None else max(shape[0], int(steps.max(initial=1)))
    x = np.zeros((len(counts), max(longest, 1) * depth), dtype=flat.dtype)
    if not faults and bool((steps == longest).all()):
        return flat.reshape(len(counts), longest, depth).copy(), steps, faults
    ends = np.cumsum(sizes)
    for row in np.flatnonzero(steps).tolist():
        x[row, : sizes[row]] = flat[ends[row] - sizes[row] : ends[row]]
    return x.reshape(len(counts), -1, depth), steps, faults


def _counts(column: Any) -> NDArray[np.int64]:
    """Return the lengths of lists, -1 for none."""
    import pyarrow.compute as pc  # noqa: PLC0415  # an extra

    found = pc.fill_null(pc.list_value_length(column).cast("int64"), -1)
    return found.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
