"""Parquet files whose rows are steps, and larger than memory: read in parts, each of complete series."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from tempograd.core.errors import DataError, arg, quote
from tempograd.data.columns import Columns, Part
from tempograd.data.files import File, arrow
from tempograd.data.pivot import Roles, find_roles, parse_times, read_table
from tempograd.data.reading import in_one_message
from tempograd.data.table import ArrowTable, Doubles, Text, missing, open_parquet, plain_values, text_of

LONG_BYTES = 1 << 28  # in memory, up to which a file is read whole
MOST_TIMES = 1_000_000  # distinct ones in such a file, each of which would be a step


def long_parts(file: File, source: Columns) -> Iterator[Part] | None:
    """Read a large file in parts of complete series, which must stand together; None where it is read whole."""
    if file.ending != ".parquet":
        return None
    with open_parquet(file) as opened:
        about = opened.metadata
        size = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
        table = ArrowTable(file.where, opened.schema_arrow, opened.read, first=1)
    if size <= LONG_BYTES:
        return None
    roles = in_one_message(source, lambda asked: find_roles(table, asked))
    if roles.format != "long" or roles.id is None:
        return None
    _require_runs(file, file.stamp, roles.id)
    return _parts(file, source, roles, max(1, about.num_rows * LONG_BYTES // size))


def _parts(file: File, source: Columns, roles: Roles, rows: int) -> Iterator[Part]:
    """Read some rows after each other, and hand over the series that are complete."""
    clock = None if roles.time is None or source.align == "order" else _clock(file, file.stamp, roles.time)
    first = 1
    for table in _complete(file, source, roles, rows):
        yield in_one_message(source, partial(_read, _Steps(file.where, table, first, roles.time, clock)))
        first += len(table)


def _read(table: ArrowTable, source: Columns) -> Part:
    return read_table(table, replace(source, format="long"))


def _complete(file: File, source: Columns, roles: Roles, rows: int) -> Iterator[Any]:
    """Yield tables of rows whose last series is complete."""
    import pyarrow.compute as pc  # noqa: PLC0415  # an extra

    pa = arrow()
    wanted = list(dict.fromkeys(filter(None, [roles.id, roles.time, roles.label, *roles.values, *source.keep])))
    begun = None
    with open_parquet(file) as opened:
        for batch in opened.iter_batches(rows, columns=wanted, use_threads=False):
            table = pa.concat_tables([*([] if begun is None else [begun]), pa.Table.from_batches([batch])])
            ids = plain_values(table.column(roles.id))
            others = np.flatnonzero(pc.not_equal(ids, ids[-1]).fill_null(True).to_numpy(zero_copy_only=False))
            cut = int(others[-1]) + 1 if len(others) else 0
            if cut:
                yield table.slice(0, cut)
            begun = table.slice(cut)
    if begun is not None:
        yield begun


@lru_cache(maxsize=1)
def _require_runs(file: File, _stamp: Sequence[int], column: str) -> None:
    """Refuse a file in which a series goes on after another has begun."""
    import pyarrow.compute as pc  # noqa: PLC0415  # an extra

    seen, last = set[Any](), None
    with open_parquet(file) as opened:
        for batch in opened.iter_batches(columns=[column], use_threads=False):
            ids = plain_values(arrow().Table.from_batches([batch]).column(column))
            for name in pc.run_end_encode(ids).values.to_pylist():
                if name in seen and name != last:
                    what = f"series {quote(str(name))} goes on after another has begun"
                    raise DataError(f"{file.where}: {what}: sort a file of this size by {quote(column)}.")
                seen.add(last := name)


@lru_cache(maxsize=1)
def _clock(file: File, _stamp: Sequence[int], column: str) -> tuple[Any, Text]:
    """Return the distinct times of a whole file, on which the step of each row depends, and as texts."""
    pa = arrow()
    found: Any = None
    with open_parquet(file) as opened:
        for batch in opened.iter_batches(columns=[column], use_threads=False):
            new = plain_values(pa.Table.from_batches([batch]).column(column)).unique()
            found = new if found is None else pa.concat_arrays([found, new]).unique()
            if len(found) > MOST_TIMES:
                many = f"more than {MOST_TIMES:,} distinct times, each of which would be a step"
                raise DataError(
                    f"{file.where} has {many}: pass {arg:source.align=order} if each series has its own."
                )
    grid = text_of(pa.chunked_array([found]))
    table = ArrowTable(file.where, pa.schema([(column, found.type)]), lambda _: pa.table({column: found}), first=1)
    if any(map(missing, grid.texts)):
        raise DataError(f"{file.where}: the time is missing in some row.")
    parse_times(grid, table)
    return found, grid


class _Steps(ArrowTable):
    """Some rows of a file, whose times are counted by those of the whole file."""

    def __init__(
        self, where: str, table: Any, first: int, time: str | None, clock: tuple[Any, Text] | None
    ) -> None:
        super().__init__(where, table.schema, table.select, first=first)
        self._time, self._clock = time, clock

    def _read(self, texts: list[str], numbers: Sequence[str]) -> tuple[dict[str, Text], Doubles]:
        import pyarrow.compute as pc  # noqa: PLC0415  # an extra

        columns, values = super()._read(texts, numbers)
        if self._time in columns and self._clock is not None:
            known, grid = self._clock
            places = pc.index_in(plain_values(self._select([self._time]).column(self._time)), value_set=known)
            columns[self._time] = Text(grid.codes[places.to_numpy()], grid.texts)
        return columns, values
