"""Fragments read in batches: ids, numbers, what was observed, columns that go along, rows that are no series."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempograd.bulk.csv_source import read_table
from tempograd.bulk.sources import (
    ArrayBatch,
    Columns,
    Fragment,
    arrow,
    id_before,
    open_array,
    open_parquet,
)
from tempograd.bulk.step_times import LONG_ROWS, StepTimes, apart_fault
from tempograd.core.errors import DataError, InputError, arg, brief, listed, quote, short_path
from tempograd.core.series import text_key

NO_ID = "A series has no id: the column of the ids holds an empty cell."
LONGER = f"pass {arg:source.shape} of the longest, and another folder if the run has begun"


@dataclass(frozen=True)
class ReadRows:
    """Some series of a fragment.

    Attributes
    ----------
    ids : pyarrow.Array
        As the source has them.
    keys : array of int64
        What their draws depend on.
    x, mask : arrays of shape (series, time, channel)
        ``mask`` is None where all cells were observed.
    kept : dict of str to pyarrow.Array
        Columns that go along.
    faults : dict of int to str
        Rows that hold no series of the right shape, and why.
    """

    ids: Any
    keys: NDArray[np.int64]
    x: NDArray[Any]
    mask: NDArray[np.bool_] | None
    kept: dict[str, Any] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.x)


def rows_of_both(one: ReadRows, other: ReadRows) -> ReadRows:
    """Put series of two fragments together to look at them, without what goes along; one shape only."""
    if one.x.shape[1:] != other.x.shape[1:]:
        return one
    masks = [np.ones(each.x.shape, dtype=bool) if each.mask is None else each.mask for each in (one, other)]
    faults = one.faults | {row + len(one): why for row, why in other.faults.items()}
    keys, x, mask = (np.concatenate(parts) for parts in ((one.keys, other.keys), (one.x, other.x), masks))
    return ReadRows(None, keys, x, None if mask.all() else mask, faults=faults)


def read_batches(fragment: Fragment, columns: Columns, size: int) -> Iterator[ReadRows]:
    """Read a fragment in batches of at most ``size`` series, in memory that does not grow with the fragment."""
    if fragment.kind == "rows":
        yield from _parquet_rows(fragment, columns, size)
    elif fragment.kind == "long":
        yield from _long_rows(fragment, columns, size)
    else:
        if fragment.kind == "array":
            given = _arrays(fragment, columns)
        elif fragment.kind == "table":
            given = read_table(fragment, columns)
        elif fragment.content is not None:
            given = fragment.content
        else:
            raise InputError("Arrays at hand do not travel to other processes: write them to files first.")
        if columns.keep:
            raise InputError(
                f"{arg:source.keep} names columns of Parquet files: arrays and other tables have none to keep."
            )
        for start in range(0, len(given.x), size):
            rows = slice(start, start + size)
            yield _plain(ArrayBatch(*(None if part is None else part[rows] for part in given)), columns)  # type: ignore[arg-type]


def _plain(given: ArrayBatch, columns: Columns) -> ReadRows:
    """Make a batch of arrays, padded to the shape of the run."""
    if given.x.ndim != 3:
        raise DataError(f"Series must be (series, time, channel), got an array of shape {given.x.shape}.")
    ids, keys = _identified(given.ids)
    x, mask = np.array(given.x), None if given.mask is None else np.array(given.mask).astype(bool)
    return ReadRows(ids, keys, *_padded(_floats(x), mask, columns))


def _floats(x: NDArray[Any]) -> NDArray[Any]:
    return x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)


def _padded(x: NDArray[Any], mask: NDArray[Any] | None, columns: Columns) -> tuple[NDArray[Any], Any]:
    """Add steps that were not observed behind series that are shorter than the others."""
    if columns.shape is None or x.shape[1:] == columns.shape:
        return x, mask
    time, depth = columns.shape
    if x.shape[1] > time or x.shape[2] != depth:
        raise DataError(
            f"The series are {x.shape[1]} × {x.shape[2]} (time × channel), those of the run {time} × {depth}: "
            f"{LONGER}."
        )
    mask = np.ones(x.shape, dtype=bool) if mask is None else mask
    more = ((0, 0), (0, time - x.shape[1]), (0, 0))
    return np.pad(x, more), np.pad(mask, more)


def _identified(ids: Any) -> tuple[Any, NDArray[np.int64]]:
    """Return ids as an Arrow array, and the numbers that draws depend on: whole ones as they are, texts hashed."""
    pa = arrow()
    given = ids if isinstance(ids, pa.Array) else pa.array(_native(ids))
    if given.null_count:
        raise DataError(NO_ID)
    if pa.types.is_integer(given.type):
        try:
            return given, np.asarray(given.cast(pa.int64()))
        except pa.ArrowInvalid:
            raise DataError("ids must be less than 2**63: write them as texts.") from None
    if pa.types.is_dictionary(given.type):
        given = given.dictionary_decode()
    if not (pa.types.is_string(given.type) or pa.types.is_large_string(given.type)):
        raise DataError(f"ids must be whole numbers or texts, got {given.type}.")
    keys = np.fromiter((text_key(text) for text in given.to_pylist()), np.int64, len(given))
    return given.cast(pa.string()), keys


def _native(ids: Any) -> Any:
    array = np.asarray(ids)
    return array.astype(np.int64) if array.dtype.kind in "iu" else array.astype(str).tolist()


# Arrays


def _arrays(fragment: Fragment, columns: Columns) -> ArrayBatch:
    ids, x, mask = _opened(fragment.path, fragment.version, columns)
    rows = slice(fragment.start, fragment.stop)
    if ids is not None:
        found = ids[rows]
    elif fragment.alone:
        found = np.arange(fragment.start, fragment.stop)
    else:
        found = np.array([f"{fragment.origin}:{row}" for row in range(fragment.start, fragment.stop)])
    return ArrayBatch(found, x[rows], None if mask is None else mask[rows])


@lru_cache(maxsize=1)
def _opened(path: str, _version: tuple[int, ...], columns: Columns) -> ArrayBatch:
    """Open an array as a memory map, or read x, ids and mask of a packed file, once for its fragments."""
    beside = {
        name: open_array(place)
        for name, place in (("ids", columns.id), ("mask", columns.mask))
        if place is not None and place.endswith(".npy")
    }
    if path.lower().endswith(".npy"):
        found = {"x": open_array(path)}
    else:
        try:
            with np.load(path, allow_pickle=False) as parts:
                found = {name: parts[name] for name in ("x", "ids", "mask") if name in parts.files}
        except (OSError, ValueError) as error:
            raise DataError(f"{short_path(path)} cannot be read: {error}.") from error
    found |= beside
    for name, part in found.items():
        if len(part) != len(found["x"]):
            raise DataError(f"{short_path(path)} holds {len(found['x'])} series, but {name} has {len(part)} rows.")
    return ArrayBatch(found.get("ids"), found["x"], found.get("mask"))


# Parquet with one row per series


def _parquet_rows(fragment: Fragment, columns: Columns, size: int) -> Iterator[ReadRows]:
    with open_parquet(fragment.path) as file:
        names = [columns.x, *([columns.id] if columns.id else []), *([columns.mask] if columns.mask else [])]
        wanted = list(dict.fromkeys([*names, *columns.keep]))
        _require(fragment, file.schema_arrow.names, wanted)
        groups = list(range(fragment.start, fragment.stop))
        row = sum(file.metadata.row_group(group).num_rows for group in range(fragment.start))
        for table in file.iter_batches(size, row_groups=groups, columns=wanted, use_threads=False):
            yield _of_table(table, fragment, columns, row)
            row += table.num_rows


def _require(fragment: Fragment, there: list[str], wanted: list[Any]) -> None:
    for name in wanted:
        if there.count(name) > 1:
            raise DataError(
                f"{short_path(fragment.path)} has several columns {quote(name)}: give each its own name."
            )
        if name not in there:
            raise DataError(
                f"{short_path(fragment.path)} has no column {quote(name)}: it has {listed(there)}; name columns "
                f"with {arg:source.x}, {arg:source.id} ({arg:source.id=None} where there is none), "
                f"{arg:series.mask} and {arg:source.keep}."
            )


def _of_table(table: Any, fragment: Fragment, columns: Columns, row: int) -> ReadRows:
    ids, keys = _ids_of(table, fragment, columns, row)
    x, mask, faults = list_cells(table.column(columns.x), columns.shape, fragment.path)
    if columns.mask:
        seen, padding, more = list_cells(table.column(columns.mask), x.shape[1:], fragment.path)
        seen = seen.astype(bool) if padding is None else seen.astype(bool) & padding
        mask, faults = seen if mask is None else seen & mask, more | faults
    kept = {name: _decoded(table.column(name)) for name in columns.keep}
    return ReadRows(ids, keys, x, mask, kept, faults)


def _ids_of(table: Any, fragment: Fragment, columns: Columns, row: int) -> tuple[Any, NDArray[np.int64]]:
    if columns.id is not None:
        return _identified(table.column(columns.id))
    return _identified([f"{fragment.origin}:{row + place}" for place in range(table.num_rows)])


def list_cells(
    column: Any, shape: tuple[int, ...] | None, path: str
) -> tuple[NDArray[Any], NDArray[np.bool_] | None, dict[int, str]]:
    """Turn lists of T lists of D numbers, or flat lists where the shape is known, into (series, T, D).

    Shorter series end in steps that were not observed. Rows that do not fit are zeros, with the reason.
    """
    if not _is_list(column.type):
        raise DataError(
            f"{short_path(path)}: a series is a list of numbers, but its column holds {column.type} in each row: "
            "name another column, or one for each channel where rows are steps."
        )
    nested = _is_list(column.type.value_type)
    if not nested and shape is None:
        raise DataError(f"{short_path(path)} holds series as flat lists: pass {arg:source.shape=(time, channel)}.")
    lengths, inner = _lengths(column), column.flatten()
    depths = _lengths(inner) if nested else np.ones(len(inner), dtype=np.int64)
    time, depth = _common(lengths, depths, path) if shape is None else shape
    flat = (inner.flatten() if nested else inner).to_numpy(zero_copy_only=False)
    flat = _floats(flat if flat.dtype != object else flat.astype(np.float32))
    entries = np.maximum(lengths, 0)  # of the outer lists: steps, or cells
    owners = np.repeat(np.arange(len(lengths)), entries)
    sizes = np.bincount(owners, np.maximum(depths, 0), len(lengths)).astype(np.int64)  # cells of each row
    uneven = set(owners[depths != depth].tolist()) if nested else set(np.flatnonzero(sizes % depth).tolist())
    faults = dict.fromkeys(uneven, f"it has not {depth} numbers at every step")
    for place in np.flatnonzero(sizes > time * depth).tolist():
        faults.setdefault(
            place, f"it has {sizes[place] // depth} steps, more than the {time} of the run: {LONGER}"
        )
    faults |= dict.fromkeys(np.flatnonzero(lengths < 0).tolist(), "there is no series")
    if not faults and (sizes == time * depth).all():
        return np.array(flat.reshape(-1, time, depth)), None, faults
    x = np.zeros((len(lengths), time * depth), dtype=flat.dtype)
    mask = np.zeros_like(x, dtype=bool)
    ends = np.cumsum(sizes)
    for place in set(range(len(lengths))) - faults.keys():
        x[place, : sizes[place]] = flat[ends[place] - sizes[place] : ends[place]]
        mask[place, : sizes[place]] = True
    return x.reshape(-1, time, depth), mask.reshape(-1, time, depth), faults


def _is_list(kind: Any) -> bool:
    types = arrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _lengths(column: Any) -> NDArray[np.int64]:
    """Return the lengths of lists, -1 for none."""
    import pyarrow.compute as pc  # noqa: PLC0415  # an extra

    found = pc.fill_null(pc.list_value_length(column).cast("int64"), -1)
    return found.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _common(lengths: NDArray[Any], depths: NDArray[Any], path: str) -> tuple[int, int]:
    """Return the shape that all lists have."""
    lengths, depths = lengths[lengths >= 0], depths[depths >= 0]
    if len(lengths) == 0 or lengths.min() != lengths.max() or len(depths) == 0 or depths.min() != depths.max():
        raise DataError(
            f"{short_path(path)} holds series of different lengths, or none: pass "
            f"{arg:source.shape=(time, channel)} of the longest; shorter ones are then padded."
        )
    return int(lengths[0]), int(depths[0])


# Parquet with one row per step: the rows of a series stand together


def _long_rows(fragment: Fragment, columns: Columns, size: int) -> Iterator[ReadRows]:
    """Read series that begin in these row groups, and go on into the next ones to their ends."""
    if columns.shape is None or columns.id is None or isinstance(columns.x, str):
        raise DataError(
            f"{short_path(fragment.path)} holds one row per step: pass {arg:source.id} and "
            f"{arg:source.shape=(time, channel)}."
        )
    time = [columns.time] if columns.time else []
    wanted = list(dict.fromkeys([columns.id, *columns.x, *time, *columns.keep]))
    series: list[Any] = []
    seen: set[Any] = set()
    with open_parquet(fragment.path) as file:
        _require(fragment, file.schema_arrow.names, wanted)
        times = StepTimes(fragment, columns)
        if fragment.start:  # what other parts of the file are compared with, too
            first = replace(fragment, start=0, stop=1)
            times.steps(next(_whole_series(file, first, columns, [columns.id, *time])))
        for table in _whole_series(file, fragment, columns, wanted):
            name = table.column(columns.id)[0].as_py()
            if name in seen:
                raise apart_fault(fragment.path, columns.id, name)
            seen.add(name)
            series.append(table)
            if len(series) == size:
                yield _of_series(series, columns, times)
                series = []
    if series:
        yield _of_series(series, columns, times)


def _whole_series(file: Any, fragment: Fragment, columns: Columns, wanted: list[str]) -> Iterator[Any]:
    """Yield one table per series that begins in the fragment."""
    pa = arrow()
    # the series at whose end the fragment begins is another's
    before = id_before(file, columns.id, fragment.start) if fragment.start and columns.id else None
    open_parts: list[Any] = []
    current = None
    groups = list(range(fragment.start, file.metadata.num_row_groups))
    owned = sum(file.metadata.row_group(group).num_rows for group in range(fragment.start, fragment.stop))
    for rows in file.iter_batches(LONG_ROWS, row_groups=groups, columns=wanted, use_threads=False):
        for name, part, place in _runs(rows, columns.id):
            if name == before and current is None:
                continue
            before = None
            if name != current:
                if open_parts:
                    yield pa.Table.from_batches(open_parts).combine_chunks()
                if place >= owned:
                    return
                open_parts, current = [], name
            open_parts.append(part)
        owned -= rows.num_rows
    if open_parts:
        yield pa.Table.from_batches(open_parts).combine_chunks()


def _runs(rows: Any, by: str | None) -> Iterator[tuple[Any, Any, int]]:
    """Cut rows where the id changes: id, rows, first of them."""
    if rows.column(by).null_count:
        raise DataError(NO_ID)
    ids = rows.column(by).to_numpy(zero_copy_only=False)
    starts = [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist(), len(ids)]
    for start, stop in pairwise(starts):
        if stop > start:
            yield rows.column(by)[start].as_py(), rows.slice(start, stop - start), start


def _of_series(series: list[Any], columns: Columns, times: StepTimes) -> ReadRows:
    pa = arrow()
    time, depth = columns.shape or (0, 0)
    x = np.zeros((len(series), time, depth), dtype=np.float32)
    mask = np.zeros_like(x, dtype=bool)
    faults: dict[int, str] = {}
    for place, table in enumerate(series):
        steps = times.steps(table)
        if steps.max() >= time:
            faults[place] = f"it has {steps.max() + 1} steps, more than the {time} of the run: {LONGER}"
            continue
        cells = np.stack([_numbers(table, name, columns, times.path) for name in columns.x], 1)
        observed = ~np.isnan(cells)
        x[place, steps], mask[place, steps] = np.where(observed, cells, 0), observed
    firsts = pa.concat_tables([table.slice(0, 1) for table in series]).combine_chunks()
    ids, keys = _identified(_one_chunk(firsts.column(columns.id)))
    kept = {name: _decoded(_one_chunk(firsts.column(name))) for name in columns.keep}
    return ReadRows(ids, keys, x, None if mask.all() else mask, kept, faults)


def _numbers(table: Any, name: str, columns: Columns, path: str) -> NDArray[np.float64]:
    """Return a channel of a series; what is no number is refused with its place."""
    try:
        return np.asarray(table.column(name).to_numpy().astype(np.float64))
    except (TypeError, ValueError) as error:
        whose = f"column {quote(name)} of series {quote(table.column(columns.id)[0].as_py())}"
        raise DataError(
            f"{short_path(path)}: {whose} holds what is no number ({brief(str(error))}): leave missing ones empty."
        ) from error


def _decoded(column: Any) -> Any:
    """Return plain values: what the codes of a dictionary mean may differ between files."""
    return column.dictionary_decode() if arrow().types.is_dictionary(column.type) else column


def _one_chunk(column: Any) -> Any:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def with_long_shape(fragments: list[Fragment], columns: Columns) -> Columns:
    """Return the columns with the shape of long rows, counted from ids and times where nobody told it."""
    if columns.shape is not None or not any(each.kind == "long" for each in fragments):
        return columns
    if columns.id is None:
        raise InputError(f"Long rows, one per step, need {arg:source.id}, the column that tells the series.")
    wanted = [columns.id, *([columns.time] if columns.time else [])]
    longest = 0
    for path, fragment in {each.path: each for each in fragments if each.kind == "long"}.items():
        with open_parquet(path) as file:
            _require(fragment, file.schema_arrow.names, [*wanted, *columns.x])
            whole, times = (
                replace(fragment, start=0, stop=file.metadata.num_row_groups),
                StepTimes(fragment, columns),
            )
            for table in _whole_series(file, whole, columns, wanted):
                longest = max(longest, int(times.steps(table).max()) + 1)
    return replace(columns, shape=(longest, len(columns.x)))
