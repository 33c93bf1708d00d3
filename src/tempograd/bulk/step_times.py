"""Parquet with one row per step: which step a row is, told by its time as in a file that is read whole."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempograd.bulk.sources import Columns, Fragment, arrow, open_parquet
from tempograd.core.errors import DataError, InputError, arg, one_line, quote, short_path
from tempograd.data.readers.columns import Text
from tempograd.data.readers.pivot import Fault, gap_fault, parse_times

LONG_ROWS = 65_536  # rows of a long table that are read at once
MOST = 1 << 20  # distinct times of a file: more are times of single series

Moments = NDArray[Any]  # int64 or float64


def check_align(fragments: Iterable[Fragment], columns: Columns) -> None:
    """Refuse ``align`` where no rows are steps, or where they have no times to go by."""
    for fragment in fragments if columns.align is not None else ():
        if fragment.kind not in {"long", "table"}:
            raise InputError(
                f"{arg:source.align} tells which steps rows are, and {short_path(fragment.path)} holds whole "
                f"series: leave it out, or name the channels with {arg:source.x} where rows are steps."
            )
        if fragment.kind == "long" and columns.align == "time" and columns.time is None:
            raise InputError(f"{arg:source.align=time} needs the column of the times: pass {arg:source.time}.")


class StepTimes:
    """Finds the steps of one series after the other, which all have the first few of the same times.

    That is the rule of :func:`tempograd.read_series`: series may end early, but a time that others have may not be
    left out, unless ``align`` tells what gaps mean. It holds exactly if the times of every series are the first
    ones of the longest, so only those are held.
    """

    def __init__(self, fragment: Fragment, columns: Columns) -> None:
        self.path, self.columns = fragment.path, columns
        self.grid: Moments | None = None
        if columns.align == "time" and columns.time is not None:
            self.grid = _times_of_file(fragment.path, fragment.version, columns.time)
        self.longest: tuple[Any, Moments, Any] | None = None  # id, sorted times, and these as the file has them

    def steps(self, series: Any) -> NDArray[np.int64]:
        """Return the step of every row of a series; a time that is there twice, or not at all, is refused."""
        if self.columns.time is None:
            return np.arange(series.num_rows)
        name, column = series.column(self.columns.id)[0].as_py(), series.column(self.columns.time)
        whose = f"series {quote(name, 20)}"
        moments = _moments(column, lambda _, what: DataError(f"{short_path(self.path)}: in {whose}, {what}."))
        order = np.argsort(moments, kind="stable")
        ordered = moments[order]
        twice = np.flatnonzero(ordered[1:] == ordered[:-1])
        if len(twice):
            raise DataError(
                f"{short_path(self.path)}: {whose} has time {_text(column, order[twice[0]])} twice: keep one row "
                f"for each time, or pass {arg:source.id} for the column that tells the series apart."
            )
        if self.grid is not None:
            return np.searchsorted(self.grid, moments)
        if self.columns.align is None:
            self._compare(name, ordered, column.take(arrow().array(order)))
        steps = np.empty_like(order)
        steps[order] = np.arange(len(order))
        return steps

    def _compare(self, name: Any, ordered: Moments, column: Any) -> None:
        """Refuse a series that lacks a time of the longest so far, or has one that the longest lacks."""
        if self.longest is None:
            self.longest = name, ordered, column
        owner, others, texts = self.longest
        both = min(len(ordered), len(others))
        other = np.flatnonzero(ordered[:both] != others[:both])
        if len(other):
            for each in (name, owner):  # of rows in disorder every series seems to have gaps
                if not _stands_together(self.path, self.columns.id, each):
                    raise apart_fault(self.path, self.columns.id, each)
            step = int(other[0])
            lacks = ordered[step] > others[step]
            whose, time = (name, _text(texts, step)) if lacks else (owner, _text(column, step))
            raise gap_fault(self.path, f"series {quote(whose, 20)}", time)
        if len(ordered) > len(others):
            self.longest = name, ordered, column


def apart_fault(path: str, by: str | None, name: Any) -> DataError:
    """Say that the rows of a series do not stand together."""
    return DataError(f"{short_path(path)}: the rows of series {quote(name)} do not stand together: sort by {by}.")


def _stands_together(path: str, by: str | None, name: Any) -> bool:
    """Tell whether all rows of a series follow one another; this reads the ids of the whole file."""
    runs, before = 0, False
    with open_parquet(path) as file:
        for rows in file.iter_batches(LONG_ROWS, columns=[by], use_threads=False):
            own = rows.column(by).to_numpy(zero_copy_only=False) == name
            runs += int((own & ~np.concatenate([[before], own[:-1]])).sum())
            before = bool(own[-1])
    return runs < 2


@lru_cache(maxsize=4)
def _times_of_file(path: str, _version: tuple[int, ...], name: str) -> Moments:
    """Return the distinct times of a file, sorted; its fragments share them."""
    found: Moments = np.empty(0, dtype=np.int64)
    with open_parquet(path) as file:
        if name not in file.schema_arrow.names:  # who reads the rows says so, with what there is
            return found
        for rows in file.iter_batches(LONG_ROWS, columns=[name], use_threads=False):
            more = _moments(rows.column(name), lambda _, what: DataError(f"{short_path(path)}: {what}."))
            found = np.union1d(found, more) if len(found) else np.unique(more)
            if len(found) > MOST:
                raise DataError(
                    f"{short_path(path)} has more than {MOST:,} distinct times, each of which would be a step: "
                    f"pass {arg:source.align=order} if the k-th row of each series is its step k."
                )
    return found


def _moments(column: Any, fault: Fault) -> Moments:
    """Return times as numbers that can be compared; texts are read as those of other tables are."""
    pa = arrow()
    if column.null_count:
        raise fault(0, "the time is missing")
    kind = column.type
    if pa.types.is_time(kind):  # which numpy does not know
        return np.asarray(
            column.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_numpy(zero_copy_only=False)
        )
    if pa.types.is_temporal(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False).astype(np.int64))
    if pa.types.is_floating(kind) or (pa.types.is_integer(kind) and kind != pa.uint64()):
        numbers = np.asarray(column.to_numpy(zero_copy_only=False))
        for number in numbers[~np.isfinite(numbers)][:1]:
            raise fault(0, f"the time is {number}, which is no finite number")
        return numbers
    texts = Text.of(column.cast(pa.string()).to_pylist())
    return parse_times(texts, fault)[0][texts.codes]


def _text(column: Any, row: Any) -> str:
    """Write a time for people, without zeros after whole seconds."""
    written = str(column.slice(int(row), 1).cast(arrow().string())[0].as_py())
    return one_line(re.sub(r"(:\d\d)\.0+(?=Z?$)", r"\1", written), 20)
