"""Rows as tensors: how they find their series, step, channel and label."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempograd.core.errors import DataError, arg, listed, one_line, quote, warn
from tempograd.data.readers.arrow_table import ArrowTable, list_cells
from tempograd.data.readers.columns import Codes, Table, Text, _Floats, missing, parse_number, parse_whole
from tempograd.data.readers.csv_file import CsvTable
from tempograd.data.readers.roles import Roles, UnclearError, find_roles, nameless, require_names
from tempograd.data.source import Source
from tempograd.typing import Times

WHOLE = re.compile("0|-?[1-9][0-9]{0,18}")  # as Python would write it back
MANY, SPARSE = 10**8, 1000  # beyond so many cells, a file must fill one of so many: others are built in vain
Numbers = NDArray[Any]  # int64 or float64
Fault = Callable[[int, str], DataError]  # says what is wrong with a distinct text, and where it stands


class Labels(NamedTuple):
    """One label per series or per step, int64 or float64, and the names of the classes where they are text."""

    y: Numbers
    classes: tuple[str, ...] | None


@dataclass(frozen=True)
class TableContent:
    """What a table holds: series side by side, all of one length, with zeros where nothing was observed.

    Attributes
    ----------
    x, mask : arrays of shape (series, time, channel)
        ``mask`` is None where all cells were observed.
    steps : array of shape (series,)
        How many steps each series has.
    ids : array of int64, or list of str, optional
        What the series are called.
    kept : dict of str to pyarrow.Array
        Columns that go along.
    faults : dict of int to str
        Rows that hold no series, and why.
    """

    x: NDArray[Any]
    mask: NDArray[np.bool_] | None
    steps: Codes
    ids: NDArray[np.int64] | list[str] | None = None
    channels: tuple[str, ...] | None = None
    times: Times | None = None
    labels: Labels | None = None
    kept: dict[str, Any] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)


class TimeSteps(NamedTuple):
    """The step of every row, the number of steps, and the steps' names, those of each series where they differ."""

    places: Codes
    total: int
    names: Times | None


def read_table(table: Table, source: Source) -> TableContent:
    """Read a table of any form."""
    roles = find_roles(table, source)
    require_names(table.where, "column", [*source.keep, *([source.mask] if source.mask else [])], table.columns)
    if roles.format == "lists" and isinstance(table, ArrowTable):
        content, firsts = _lists(table, roles, source)
    else:
        content, firsts = _rows(table, roles, source)
    return replace(content, kept=table.kept(source.keep, firsts)) if source.keep else content


def _rows(table: Table, roles: Roles, source: Source) -> tuple[TableContent, Codes]:
    """Read a table whose rows hold numbers, and tell the first row of each series."""
    if source.mask is not None:
        raise DataError(
            f"{table.where}: {arg:source.mask} is for whole series in each row: leave cells empty here."
        )
    wanted = [name for name in roles.texts if source.labels or name != roles.label]
    chosen = roles.format == "melted" or (roles.format == "long" and source.channels is not None)
    spare = [] if chosen else sorted(table.aside - set(roles.texts))
    texts, values = table.read([*wanted, *spare], roles.values)
    for name in spare:
        _leave_out(table, name, texts[name])
    for column, what in ((roles.id, "name of the series"), (roles.variable, "name of the channel")):
        if column is not None and "" in texts[column].texts:
            raise table.fault(texts[column].row(texts[column].texts.index("")), f"the {what} is missing")
    label = texts[roles.label] if roles.label and source.labels else None
    if roles.format == "wide":
        return _wide(table, roles, source, texts, values)
    series = texts[roles.id] if roles.id else Text(np.zeros(len(values), np.int64), [""])
    time = texts[roles.time] if roles.time else None
    steps = time_index(table, series, time, source.align, named=roles.id is not None)
    variable, channels = np.zeros_like(series.codes), roles.values
    if roles.format == "melted":
        variable, channels = _variables(table, texts[str(roles.variable)], source.channels)
    _refuse_twice(table, series, steps, variable, len(channels) if roles.format == "melted" else 1)
    cells = _empty(table.where, (len(series.texts), steps.total, len(channels)), values.size)
    if roles.format == "melted":
        rows = np.flatnonzero(variable < len(channels))  # the others are of channels that nobody asked for
        cells[series.codes[rows], steps.places[rows], variable[rows]] = values[rows, 0]
    else:
        cells[series.codes, steps.places] = values
    labels = None if label is None else _labels_of(table, label, series, steps, source.classes)
    ids = identify(series.texts, table, roles.id)
    firsts = np.unique(series.codes, return_index=True)[1]
    return observed(table.where, cells, ids=ids, channels=channels, times=steps.names, labels=labels), firsts


def observed(where: str, cells: NDArray[np.float32], **parts: Any) -> TableContent:
    """Return numbers of which NaN are missing; a series ends with its last value."""
    mask = np.isfinite(cells)
    if not mask.any():
        raise DataError(f"{where} holds no value at all: every cell is missing.")
    cells[~mask] = 0
    steps = (mask.any(-1) * np.arange(1, cells.shape[1] + 1)).max(1)
    return TableContent(cells, None if mask.all() else mask, np.maximum(steps, 1), **parts)


def _lists(table: ArrowTable, roles: Roles, source: Source) -> tuple[TableContent, Codes]:
    """Read a table whose rows are whole series."""
    names = [name for name in (roles.id, roles.label if source.labels else None) if name is not None]
    texts = table.read(names, [])[0]
    x, steps, faults = list_cells(table.cells(roles.values[0]), source.shape, table.where)
    mask = np.arange(x.shape[1])[None, :, None] < steps[:, None, None]
    if source.mask is not None:
        seen, _, more = list_cells(table.cells(source.mask), (x.shape[1], x.shape[2]), table.where)
        mask, faults = mask & seen[:, : x.shape[1]].astype(bool), more | faults
    mask = np.array(np.broadcast_to(mask, x.shape))
    rows = np.arange(len(x))
    labels = None
    if roles.label and source.labels:
        each = Text(rows, list(map(str, rows)))
        labels = _labels_of(table, texts[roles.label], each, TimeSteps(rows * 0, 1, None), source.classes)
    called = []
    if roles.id:
        column = texts[roles.id]
        if "" in column.texts:
            raise table.fault(column.row(column.texts.index("")), "the name of the series is missing")
        called = [column.texts[code] for code in column.codes.tolist()]
    whole = None if mask.all() else mask
    ids = identify(called, table, roles.id)
    return TableContent(x, whole, np.maximum(steps, 1), ids, source.channels, None, labels, faults=faults), rows


def identify(names: list[str], table: Table, column: str | None) -> NDArray[np.int64] | list[str] | None:
    """Return whole numbers of 64 bits as numbers, and any other names as texts; a column of text stays text."""
    if column is None:
        return None
    numbered = column not in table.words or isinstance(table, CsvTable)
    if numbered and all(map(WHOLE.fullmatch, names)) and all(-(2**63) <= int(name) < 2**63 for name in names):
        return np.array(list(map(int, names)), np.int64)
    return names


def _leave_out(table: Table, name: str, column: Text) -> None:
    """Leave out a column without a name that numbers the rows, from 0 or 1 on, and say so; refuse any other."""
    rows, numbers = len(column.codes), [parse_whole(text) for text in column.texts]
    if numbers not in (list(range(rows)), list(range(1, rows + 1))):
        raise nameless(table, name)
    warn(f"{table.where}: {quote(name)} has no name and numbers the rows, so it is left out.")


def _empty(where: str, shape: tuple[int, int, int], values: int) -> NDArray[np.float32]:
    """Make room for (series, time, channel), if the values of the file need that much."""
    series, steps, channels = shape
    count = series * steps * channels
    if count > MANY and count > SPARSE * values:
        raise DataError(
            f"{where}: {series} series × {steps} steps × {channels} channels would hold {values} values: pass "
            f"{arg:source.align=order} where series have times of their own, or cut the file."
        )
    return np.full(shape, np.nan, np.float32)


def _wide(
    table: Table, roles: Roles, source: Source, texts: dict[str, Text], values: _Floats
) -> tuple[TableContent, Codes]:
    if source.channels is not None and len(source.channels) != 1:
        raise DataError(
            f"{table.where} has one row per series, and so one channel: name one in "
            f"{arg:source.channels}, got {listed(source.channels)}."
        )
    labels, rows = None, np.arange(len(values))
    series = Text(rows, [])
    if roles.id:
        series = texts[roles.id]
        if len(series.texts) < len(values):
            row = next(row for row, code in enumerate(series.codes) if code < row)
            raise table.fault(row, f"the series {quote(series.texts[series.codes[row]])} is there twice")
    if roles.label and source.labels:
        own = Text(rows, [str(row) for row in rows])
        labels = _labels_of(table, texts[roles.label], own, TimeSteps(rows * 0, 1, None), source.classes)
    cells = values[:, :, None].astype(np.float32)
    parts = {
        "ids": identify(series.texts, table, roles.id),
        "channels": source.channels,
        "times": roles.values,
        "labels": labels,
    }
    return observed(table.where, cells, **parts), rows


def _variables(table: Table, variable: Text, given: tuple[str, ...] | None) -> tuple[Codes, tuple[str, ...]]:
    """Return the channel of every row and the channels' names, sorted unless somebody says otherwise.

    Sorted, since the order of rows may differ between two files of the same channels.
    """
    require_names(table.where, "channel", given or (), variable.texts)
    channels = given or tuple(sorted(variable.texts))
    rank = {name: number for number, name in enumerate(channels)}
    ranks = np.array([rank.get(name, len(channels)) for name in variable.texts])
    return ranks[variable.codes], channels


def _refuse_twice(table: Table, series: Text, steps: TimeSteps, variable: Codes, channels: int) -> None:
    """Refuse two rows for the same cell; rows of channels that nobody asked for may be anything."""
    rows = np.flatnonzero(variable < channels)
    keys = ((series.codes * steps.total + steps.places) * channels + variable)[rows]
    _, first = np.unique(keys, return_index=True)
    if len(first) == len(keys):
        return
    row = int(rows[np.setdiff1d(np.arange(len(keys)), first)[0]])
    whose = f"series {quote(series.texts[series.codes[row]])}" if series.texts != [""] else "the only series"
    raise table.fault(
        row,
        f"{whose} has this time twice{' for this channel' if channels > 1 else ''}; if there are more series than "
        f"that, pass {arg:source.id} for the column with their names",
    )


def time_index(table: Table, series: Text, time: Text | None, align: str | None, *, named: bool) -> TimeSteps:
    """Find the step of every row.

    With the sorted distinct times :math:`g_0 < g_1 < …` of the whole file, a row at time :math:`g_k` is step
    :math:`k` (``align="time"``), or it is the :math:`k`-th of its own series (``align="order"``). Where every
    series has the first few times and no gap, both say the same; otherwise the user has to choose.
    """
    if time is None:
        return _in_order(series.codes)
    moments, labels = parse_times(time, lambda code, what: table.fault(time.row(code), what))
    grid, first, ranked = np.unique(moments, return_index=True, return_inverse=True)
    places = ranked[time.codes]
    keys, inverse = np.unique(series.codes * len(grid) + places, return_inverse=True)
    owners, filled = keys // len(grid), keys % len(grid)
    starts = np.searchsorted(owners, np.arange(len(series.texts)))
    ranks = np.arange(len(keys)) - starts[owners]
    if align == "time" or bool((ranks == filled).all()):
        return TimeSteps(places, len(grid), tuple(labels[code] for code in first))
    total = int(ranks.max()) + 1
    if align == "order":
        return TimeSteps(
            ranks[inverse], total, _stamps([labels[code] for code in first], owners, filled, ranks, total)
        )
    gap = int(np.flatnonzero(ranks != filled)[0])
    whose = f"series {quote(series.texts[owners[gap]], 20)}" if named else "the series"
    raise UnclearError(
        f"{table.where}: ",
        f"{whose} has no row for time {one_line(labels[first[ranks[gap]]], 20)}, which others have "
        f"({arg:source.align=time} masks missing times, {arg:source.align=order} counts rows)",
        {"align": "order" if len(grid) > 2 * total else "time"},
    )


def _stamps(texts: Sequence[str], owners: Codes, filled: Codes, ranks: Codes, total: int) -> Times:
    """Return the times of each series' steps, empty texts for steps that it does not have."""
    found = [[""] * total for _ in range(int(owners.max()) + 1)]
    for series, step, place in zip(owners.tolist(), ranks.tolist(), filled.tolist(), strict=True):
        found[series][step] = texts[place]
    return tuple(map(tuple, found))


def _in_order(codes: Codes) -> TimeSteps:
    """Count the rows of each series as they come."""
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(int(codes.max()) + 1))
    places = np.empty_like(codes)
    places[order] = np.arange(len(codes)) - starts[codes[order]]
    return TimeSteps(places, int(places.max()) + 1, None)


def parse_times(time: Text, fault: Fault) -> tuple[_Floats | Codes, list[str]]:
    """Return the distinct times as numbers, and as the texts that people will read."""
    integers = [moment for moment in map(parse_whole, time.texts) if moment is not None]
    if len(integers) == len(time.texts):  # to the last digit: nanoseconds since 1970 are more than 2^53
        return np.array(integers, np.int64), list(map(str, integers))
    found = [parse_number(text) for text in time.texts]
    if None in found:
        return np.array([_date(time, code, fault) for code in range(len(time.texts))]), time.texts
    numbers = np.array(found, np.float64)
    for code in np.flatnonzero(~np.isfinite(numbers)):
        raise fault(int(code), f"the time is {quote(time.texts[code])}, which is no finite number")
    return numbers, [f"{moment:.15g}" if float(f"{moment:.15g}") == moment else repr(moment) for moment in found]


def _date(time: Text, code: int, fault: Fault) -> float:
    text = time.texts[code]
    try:
        moment = datetime.fromisoformat(text.strip() if "-" in text else f"1970-01-01T{text.strip()}")
    except ValueError:
        if parse_number(text) is not None:  # the one that is no number is at fault
            code = next(code for code, other in enumerate(time.texts) if parse_number(other) is None)
        wrong, dates = time.texts[code], "all dates such as 2026-01-31 or 2026-01-31T12:00"
        what = "missing" if missing(wrong) else f"{quote(wrong)}: all must be numbers, or {dates}"
        raise fault(code, f"the time is {what}") from None
    # a local clock would jump twice a year
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _labels_of(table: Table, label: Text, series: Text, steps: TimeSteps, classes: Sequence[str] | None) -> Labels:
    """Read a column of labels: one per series where they never change within one, else one per step.

    Steps that a series does not have get class 0, or 0.0; its mask leaves them out.
    """
    for code, text in enumerate(label.texts):
        if missing(text):
            raise table.fault(label.row(code), "the label is missing")
    numbers, names = as_numbers(
        label.texts, classes, table.where, lambda code, what: table.fault(label.row(code), what)
    )
    values = numbers[label.codes]
    count = len(series.texts)
    y = np.zeros(count, values.dtype)
    y[series.codes] = values
    if not np.array_equal(y[series.codes], values):
        y = np.zeros((count, steps.total), values.dtype)
        y[series.codes, steps.places] = values
    return Labels(y, names)


def as_numbers(
    texts: Sequence[str], classes: Sequence[str] | None, where: str, fault: Fault, *, declared: bool = False
) -> Labels:
    """Return the distinct labels as numbers, with the names of the classes where they were text.

    Whole numbers from 0 up are classes, other numbers values of a regression; text and negative numbers such as
    -1 and 1 are classes in sorted order. ``classes`` fixes the order for all of them, and names those that are
    numbers from 0 up already; not where the file itself has ``declared`` them.

    Examples
    --------
    >>> as_numbers(["sick", "healthy"], None, "a file", lambda code, what: DataError(what))
    Labels(y=array([1, 0]), classes=('healthy', 'sick'))
    >>> as_numbers(["2", "0"], None, "a file", lambda code, what: DataError(what))
    Labels(y=array([2, 0]), classes=None)
    >>> as_numbers(["1", "0"], ["fine", "failure"], "a file", lambda code, what: DataError(what))
    Labels(y=array([1, 0]), classes=('fine', 'failure'))
    """
    texts = [text.strip() for text in texts]
    whole = [parse_whole(text) for text in texts]
    if classes is not None:
        numbered = all(place is not None and 0 <= place < len(classes) for place in whole)
        if numbered and not declared and not any(parse_number(name) is not None for name in classes):
            return Labels(np.array(whole, np.int64), tuple(classes))
        return _sorted_labels(texts, classes, where)
    values = [parse_number(text) for text in texts]
    if None in values:
        return _sorted_labels(texts, sorted(set(texts)), where)
    if None in whole:
        real = np.array(values, np.float64)
        for place in np.flatnonzero(~np.isfinite(real)).tolist():
            raise fault(place, f"the label is {one_line(texts[place])}, which is no finite number")
        return Labels(real, None)
    distinct = sorted({place for place in whole if place is not None})
    if distinct[0] < 0:
        rank = {number: place for place, number in enumerate(distinct)}
        spelt = dict(zip(reversed(whole), reversed(texts), strict=True))  # as each stands in the file first
        ranks = np.array([rank[number] for number in whole if number is not None])
        return Labels(ranks, tuple(spelt[number] for number in distinct))
    if distinct[0] > 0 and len(distinct) > 1:
        some = listed(distinct, 60)
        warn(
            f"{where}: labels {some} are taken as the numbers of the model's outputs, which begin with 0: pass "
            f"{arg:predictor.classes={some.replace(' ', '')}} if {distinct[0]} is its first."
        )
    return Labels(np.array(whole, np.int64), None)


def _sorted_labels(texts: Sequence[str], classes: Sequence[str], where: str) -> Labels:
    rank = {name: number for number, name in enumerate(classes)}
    for text in texts:
        if text not in rank:
            raise DataError(f"{where}: label {quote(text)} is none of the classes {listed(classes)}.")
    return Labels(np.array([rank[text] for text in texts]), tuple(classes))
