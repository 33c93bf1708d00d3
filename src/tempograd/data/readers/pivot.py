"""Tables as tensors: which column is what, and how rows find their series, step, channel and label."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from tempograd.core import validation
from tempograd.core.errors import (
    DataError,
    InputError,
    UnknownNameError,
    arg,
    listed,
    one_line,
    quote,
    short_path,
    warn,
)
from tempograd.data.files import gibibytes, refuse_beyond_memory
from tempograd.data.readers.columns import (
    BEYOND,
    INDEX,
    Codes,
    Table,
    Text,
    _Floats,
    missing,
    parse_number,
    parse_whole,
    resembles_number,
)
from tempograd.typing import Align, Missing, TableFormat, Times

FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)
OBVIOUS = {
    "id": "id ids series series_id case case_id sample sample_id patient patient_id record record_id recordid",
    "time": "time t step time_step timestep timestamp date datetime hour hours minute minutes second seconds",
    "label": "label labels y target class outcome",
    "variable": "channel variable parameter feature dimension dim",
    "value": "value values",
}
STEP = re.compile(r"(.*[^0-9])?([0-9]{1,18})", re.DOTALL)
MEANING = {
    "id": "the series' names",
    "time": "the time",
    "label": "the labels",
    "variable": "the channels' names",
    "value": "the values",
}
MANY, SPARSE = 10**8, 1000  # beyond so many cells, a file must fill one of so many: others are built in vain
ORDER = f"pass {arg:source.align=order} where series have times of their own, or cut the file"
Numbers = NDArray[Any]  # int64 or float64
Cells = NDArray[np.float32]
Fault = Callable[[int, str], DataError]  # says what is wrong with a distinct text, and where it stands


@dataclass(frozen=True)
class ReadOptions:
    """What the user says about a file."""

    format: str | None = None
    id: str | None = None
    time: str | None = None
    label: str | None = None
    variable: str | None = None
    value: str | None = None
    channels: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    align: str | None = None
    missing: str | None = None
    labels: bool = True  # whether labels are read at all
    inputs: tuple[str, ...] | None = None  # arrays that a model takes together
    fixed: tuple[str, ...] | None = None  # arrays that go along with them

    def __post_init__(self) -> None:
        for name, value, known in (
            ("format", self.format, FORMATS),
            ("align", self.align, get_args(Align)),
            ("missing", self.missing, get_args(Missing)),
        ):
            if value is not None:
                validation.check_choice(value, name, known)
        for name in OBVIOUS:
            if not isinstance(getattr(self, name), str | None):
                raise InputError(f"{name} must be the name of a column, got {quote(getattr(self, name))}.")
        for name in ("channels", "classes"):
            names = getattr(self, name)
            if names is not None and len(set(names)) < len(names):
                raise InputError(f"{name} must be distinct names, got {listed(names)}.")


class ColumnRoles(NamedTuple):
    """The form of a table, and the columns with a part of their own; ``values`` are those that hold numbers."""

    format: str
    id: str | None
    time: str | None
    label: str | None
    variable: str | None
    values: tuple[str, ...]

    @property
    def texts(self) -> list[str]:
        """Return the columns that are read as text."""
        return [name for name in (self.id, self.time, self.label, self.variable) if name is not None]


class TimeSteps(NamedTuple):
    """The step of every row, the number of steps, and the steps' names, those of each series where they differ."""

    places: Codes
    total: int
    names: Times | None


class Labels(NamedTuple):
    """One label per series or per step, int64 or float64, and the names of the classes where they are text."""

    y: Numbers
    classes: tuple[str, ...] | None


class Arrays(NamedTuple):
    """The content of a file: values (series, time, channel), NaN where there is none, and its names."""

    x: Cells
    channels: tuple[str, ...] | None
    times: Times | None
    names: list[str] | None
    labels: Labels | None


def pivot_table(table: Table, options: ReadOptions) -> Arrays:
    """Read a table of any form."""
    roles = find_roles(table, options)
    wanted = roles.texts if options.labels else [name for name in roles.texts if name != roles.label]
    chosen = roles.format == "melted" or (roles.format == "long" and options.channels is not None)
    spare = [] if chosen else sorted(table.aside - set(roles.texts))
    texts, values = table.read([*wanted, *spare], roles.values)
    for name in spare:
        _leave_out(table, name, texts[name])
    for column, what in ((roles.id, "name of the series"), (roles.variable, "name of the channel")):
        if column is not None and "" in texts[column].texts:
            raise table.fault(texts[column].row(texts[column].texts.index("")), f"the {what} is missing")
    if roles.format == "wide":
        return _wide(table, roles, options, texts, values)
    series = texts[roles.id] if roles.id else Text(np.zeros(len(values), np.int64), [""])
    time = texts[roles.time] if roles.time else None
    steps = time_index(table, series, time, options.align, named=roles.id is not None)
    variable, channels = np.zeros_like(series.codes), roles.values
    if roles.format == "melted":
        variable, channels = _variables(table, texts[str(roles.variable)], options.channels)
    cells = empty(table.path, (len(series.texts), steps.total, len(channels)), values.size, ORDER)
    if roles.format == "melted":
        _refuse_twice(table, series, steps, variable, len(channels))
        rows = np.flatnonzero(variable < len(channels))  # the others are of channels that nobody asked for
        cells[series.codes[rows], steps.places[rows], variable[rows]] = values[rows, 0]
    else:
        _refuse_twice(table, series, steps, variable, 1)
        cells[series.codes, steps.places] = values
    labels = None
    if roles.label and options.labels:
        labels = read_labels(table, texts[roles.label], series, steps, options.classes)
    return Arrays(cells, channels, steps.names, series.texts if roles.id else None, labels)


def _leave_out(table: Table, name: str, column: Text) -> None:
    """Leave out a column without a name that numbers the rows, from 0 or 1 on, and say so; refuse any other."""
    rows, numbers = len(column.codes), [parse_whole(text) for text in column.texts]
    if numbers not in (list(range(rows)), list(range(1, rows + 1))):
        raise _nameless(table, name)
    warn(f"{short_path(table.path)}: {quote(name)} has no name and numbers the rows, so it is left out.")


def _nameless(table: Table, name: str) -> DataError:
    return DataError(
        f"{short_path(table.path)}: {quote(name)} has no name, and only a first column that numbers the rows may "
        f"lack one: name it, take it out, or pass {arg:source.id={name}} if it names the series."
    )


def empty(path: Path, shape: tuple[int, int, int], values: int, remedy: str) -> Cells:
    """Make room for (series, time, channel) if there is any, and if the values of the file need that much."""
    series, steps, channels = shape
    count = series * steps * channels
    what = f"a table of {series} series × {steps} steps × {channels} channel{'' if channels == 1 else 's'}"
    size = 6 * count  # single precision, and a mask made of a mask
    if count > MANY and count > SPARSE * values:
        raise DataError(
            f"{short_path(path)}: {what} takes {gibibytes(size)} of memory for {values} values: {remedy}."
        )
    refuse_beyond_memory(path, size, what, remedy)
    return np.full(shape, np.nan, np.float32)


def _wide(
    table: Table, roles: ColumnRoles, options: ReadOptions, texts: dict[str, Text], values: _Floats
) -> Arrays:
    if options.channels is not None and len(options.channels) != 1:
        raise DataError(
            f"{short_path(table.path)} has one row per series, and so one channel: name one in "
            f"{arg:source.channels}, got {listed(options.channels)}."
        )
    names = None
    if roles.id:
        series = texts[roles.id]
        if len(series.texts) < len(values):
            row = next(row for row, code in enumerate(series.codes) if code < row)
            raise table.fault(row, f"the series {quote(series.texts[series.codes[row]])} is there twice")
        names = series.texts
    labels = None
    if roles.label and options.labels:
        rows = np.arange(len(values))
        own = Text(rows, [str(row) for row in rows])
        steps = TimeSteps(np.zeros(len(values), np.int64), 1, None)
        labels = read_labels(table, texts[roles.label], own, steps, options.classes)
    return Arrays(values[:, :, None].astype(np.float32), options.channels, roles.values, names, labels)


def _variables(table: Table, variable: Text, given: tuple[str, ...] | None) -> tuple[Codes, tuple[str, ...]]:
    """Return the channel of every row and the channels' names, sorted unless somebody says otherwise.

    Sorted, since the order of rows may differ between two files of the same channels.
    """
    _require(table, "channel", given or (), variable.texts)
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


def find_roles(table: Table, options: ReadOptions) -> ColumnRoles:
    """Decide what every column is; where names do not tell, say which columns there are and how to name them."""
    found = {role: _column(table, role, getattr(options, role)) for role in OBVIOUS}
    form = options.format or _form(table, found)
    own, label = found["id"], found["label"]
    if form == "melted":
        for role in ("id", "time", "variable", "value"):
            if found[role] is None and (role != "time" or options.align != "order"):
                raise _unclear(table, f"pass {arg:source.{role}} for the column with {MEANING[role]}")
        return ColumnRoles(form, own, found["time"], label, found["variable"], (str(found["value"]),))
    if form == "wide":
        return ColumnRoles(form, own, None, label, None, _left(table, {own, label}, "step"))
    time = found["time"]
    if time is None and options.align != "order":
        raise _unclear(
            table,
            f"pass {arg:source.time} for the column with the time, or {arg:source.align=order} where rows "
            "are in order of time",
        )
    _require(table, "column", options.channels or (), table.columns)
    values = options.channels or _left(table, {own, time, label}, "channel")
    return ColumnRoles("long", own, time, label, None, values)


def _form(table: Table, found: dict[str, str | None]) -> str:
    if found["variable"] is not None and found["value"] is not None:
        return "melted"
    if found["time"] is not None:
        return "long"
    others = {found["id"], found["label"], *table.aside}
    if _counted([name for name in table.columns if name not in others]):
        return "wide"
    raise _unclear(
        table,
        f"pass {arg:source.time} if a row is one step of a series, or {arg:source.format=wide} if it is a "
        "whole series",
    )


def _counted(names: Sequence[str]) -> bool:
    """Tell whether columns are steps, such as t0, t1, t2, by their names alone.

    Examples
    --------
    >>> _counted(["t0", "t1", "t2"]), _counted(["1", "2"]), _counted(["a1", "b2"]), _counted(["4.1", "3.9"])
    (True, True, False, False)
    """
    parts = [STEP.fullmatch(name) for name in names]
    if len(parts) < 2 or None in parts:
        return False
    prefixes, numbers = {part[1] for part in parts if part}, [int(part[2]) for part in parts if part]
    return len(prefixes) == 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _column(table: Table, role: str, given: str | None) -> str | None:
    """Return the column of a role: the one asked for, or the only one with an obvious name."""
    if given is not None:
        _require(table, "column", [given], table.columns)
        return given
    likely = [name for name in table.columns if name.lower() in OBVIOUS[role].split()]
    if role == "label" and {"x", "z"} & {name.lower() for name in table.columns}:
        likely = [name for name in likely if name.lower() != "y"]  # a direction in space, as in accelerometers
    if len(likely) > 1 and role in {"id", "time", "label"}:
        raise DataError(
            f"{short_path(table.path)}: {' and '.join(map(quote, likely[:2]))} could both be {MEANING[role]}: "
            f"pass {arg:source.{role}}."
        )
    return likely[0] if len(likely) == 1 else None


def _left(table: Table, others: set[str | None], what: str) -> tuple[str, ...]:
    """Return the columns without a part of their own, for channels or steps."""
    taken = others | table.aside
    for name in table.columns[1:]:
        if name in table.aside - others and not name.startswith(INDEX):
            raise _nameless(table, name)
    found = tuple(name for name in table.columns if name not in taken)
    if not found:
        raise _unclear(table, f"no column is left for a {what}")
    return found


def _require(table: Table, kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    there = set(known)
    for name in names:
        if name not in there:
            raise UnknownNameError(f"{kind} of {short_path(table.path)}", name, known)


def _unclear(table: Table, what: str) -> DataError:
    return DataError(f"{short_path(table.path)} has the columns {listed(table.columns, 80)}: {what}.")


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
    if align == "order":
        total = int(ranks.max()) + 1
        return TimeSteps(
            ranks[inverse], total, _stamps([labels[code] for code in first], owners, filled, ranks, total)
        )
    gap = int(np.flatnonzero(ranks != filled)[0])
    whose = f"series {quote(series.texts[owners[gap]], 20)}" if named else "the series"
    raise gap_fault(table.path, whose, labels[first[ranks[gap]]])


def gap_fault(path: str | Path, whose: str, time: str) -> InputError:
    """Say that a series has no row for a time, and what there is to choose from."""
    return InputError(
        f"{short_path(path)}: {whose} has no row for time {one_line(time, 20)}, which others have: pass "
        f"{arg:source.align=time} to mask missing times, or {arg:source.align=order} if the k-th row of each "
        "series is its step k."
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
    integers = [moment for moment in map(parse_whole, time.texts) if moment is not None and moment != BEYOND]
    if len(integers) == len(time.texts):  # to the last digit: nanoseconds since 1970 are more than 2^53
        return np.array(integers, np.int64), list(map(str, integers))
    found = [parse_number(text) for text in time.texts]
    if None in found:
        return np.array([_date(time, code, fault) for code in range(len(time.texts))]), time.texts
    numbers = np.array(found, np.float64)
    for code in np.flatnonzero(~np.isfinite(numbers)):
        raise fault(int(code), f"the time is {quote(time.texts[code])}, which is no finite number")
    return numbers, [_written(float(moment)) for moment in numbers]


def _written(moment: float) -> str:
    """Write a time with 15 digits, and with all of them where it takes more to tell it from others.

    Examples
    --------
    >>> _written(0.1), _written(1700000000.1234567)
    ('0.1', '1700000000.1234567')
    """
    short = f"{moment:.15g}"
    return short if float(short) == moment else repr(moment)


def _date(time: Text, code: int, fault: Fault) -> float:
    text = time.texts[code]
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        if parse_number(text) is not None:  # the one that is no number is at fault
            code = next(code for code, other in enumerate(time.texts) if parse_number(other) is None)
        wrong, dates = time.texts[code], "all dates such as 2026-01-31 or 2026-01-31T12:00"
        what = "missing" if missing(wrong) else f"{quote(wrong)}: all must be numbers, or {dates}"
        raise fault(code, f"the time is {what}") from None
    # a local clock would jump twice a year
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def read_labels(
    table: Table, label: Text, series: Text, steps: TimeSteps, classes: Sequence[str] | None = None
) -> Labels:
    """Read a column of labels: one per series where they never change within one, else one per step.

    Steps that a series does not have get class 0, or 0.0; its mask leaves them out.
    """
    for code, text in enumerate(label.texts):
        if missing(text):
            raise table.fault(label.row(code), "the label is missing")
    numbers, names = as_numbers(
        label.texts, classes, short_path(table.path), lambda code, what: table.fault(label.row(code), what)
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
) -> tuple[Numbers, tuple[str, ...] | None]:
    """Return the distinct labels as numbers, with the names of the classes where they were text.

    Whole numbers from 0 up are classes, other numbers values of a regression; text and negative numbers such as
    -1 and 1 are classes in sorted order. ``classes`` fixes the order for all of them, and names those that are
    numbers from 0 up already; not where the file itself has ``declared`` them.

    Examples
    --------
    >>> as_numbers(["sick", "healthy"], None, "a file", lambda code, what: DataError(what))
    (array([1, 0]), ('healthy', 'sick'))
    >>> as_numbers(["2", "0"], None, "a file", lambda code, what: DataError(what))
    (array([2, 0]), None)
    >>> as_numbers(["1", "0"], ["fine", "failure"], "a file", lambda code, what: DataError(what))
    (array([1, 0]), ('fine', 'failure'))
    """
    texts = [text.strip() for text in texts]
    if classes is not None:
        classes = [str(name) for name in classes]
        places = [parse_whole(text) for text in texts]
        numbered = all(place is not None and 0 <= place < len(classes) for place in places)
        if numbered and not declared and not any(parse_number(name) is not None for name in classes):
            return np.array(places, np.int64), tuple(classes)
        return _sorted_labels(texts, classes, where)
    for code, text in enumerate(texts):
        if resembles_number(text):
            raise fault(
                code,
                f"the label is {quote(text)}, which is no number in decimal digits: write it as one, or pass "
                f"{arg:predictor.classes} if it is the name of a class",
            )
    values = [parse_number(text) for text in texts]
    if None in values:
        return _sorted_labels(texts, sorted(set(texts)), where)
    found = [parse_whole(text) for text in texts]
    if None in found:
        real = np.array(values, np.float64)
        for place in np.flatnonzero(~np.isfinite(real)).tolist():
            raise fault(place, f"the label is {one_line(texts[place])}, which is no finite number")
        return real, None
    return _whole(texts, [integer for integer in found if integer is not None], where, fault)


def _whole(
    texts: Sequence[str], found: Sequence[int], where: str, fault: Fault
) -> tuple[NDArray[np.int64], tuple[str, ...] | None]:
    """Return classes, exactly."""
    if BEYOND in found:
        code = found.index(BEYOND)
        raise fault(
            code,
            f"the label is {one_line(texts[code])}: labels that are all whole numbers are classes, which end at "
            f"{BEYOND - 1}; divide values of a regression by a constant, or name classes with "
            f"{arg:predictor.classes}",
        )
    distinct = sorted(set(found))
    if distinct[0] < 0:
        rank = {integer: number for number, integer in enumerate(distinct)}
        written = dict(zip(reversed(found), reversed(texts), strict=True))  # as each stands in the file first
        return np.array([rank[integer] for integer in found]), tuple(written[integer] for integer in distinct)
    if distinct[0] > 0 and len(distinct) > 1:
        some = listed(distinct, 60)
        warn(
            f"{where}: labels {some} are taken as the numbers of the model's outputs, which begin with 0: pass "
            f"{arg:predictor.classes={some.replace(' ', '')}} if {distinct[0]} is its first."
        )
    return np.array(found, np.int64), None


def _sorted_labels(
    texts: Sequence[str], classes: Sequence[str], where: str
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    rank = {name: number for number, name in enumerate(classes)}
    for text in texts:
        if text not in rank:
            raise DataError(f"{where}: label {quote(text)} is none of the classes {listed(classes)}.")
    return np.array([rank[text] for text in texts]), tuple(classes)
