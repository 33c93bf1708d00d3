"""Tables as series: what every column is, and how rows find their series, step, channel and label."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tempograd.core.errors import (
    DataError,
    UnknownNameError,
    arg,
    listed,
    one_line,
    quote,
    warn,
)
from tempograd.data.columns import Columns, Part
from tempograd.data.table import (
    BEYOND,
    Codes,
    CsvTable,
    Doubles,
    Table,
    Text,
    list_cells,
    missing,
    parse_number,
    parse_whole,
)
from tempograd.typing import Times

T = TypeVar("T")
OBVIOUS = {
    "id": "id ids series series_id case case_id sample sample_id patient patient_id record record_id recordid",
    "time": "time t step time_step timestep timestamp date datetime hour hours minute minutes second seconds",
    "label": "label labels y target class outcome",
    "variable": "channel variable parameter feature dimension dim",
    "value": "value values",
}
LIKELY = {  # names that are proposed, not taken
    "id": re.compile(
        r".*_id|machine|device|unit|asset|engine|pump|turbine|vehicle|subject|person|user|customer|bed|stay"
    ),
    "time": re.compile(r".*(time|date|stamp|_at)"),
    "label": re.compile(r"(.*_)?(status|state|failure|failed|alarm|anomaly|fault|diagnosis|result|label|outcome)"),
}
STEP = re.compile(r"(.*[^0-9])?([0-9]{1,18})", re.DOTALL)
MEANING = {
    "id": "the series' names",
    "time": "the time",
    "label": "the labels",
    "variable": "the channels' names",
    "value": "the values",
}
WHOLE = re.compile("0|-?[1-9][0-9]{0,18}")  # as Python would write it back
MANY, SPARSE = 10**8, 1000  # beyond so many cells, a file must fill one of so many: others are built in vain
Fault = Callable[[int, str], DataError]  # says what is wrong with a distinct text, and where it stands


# What every column is


class UnclearError(DataError):
    """A table whose columns do not tell what they are, with the fields of a source that would."""

    def __init__(self, where: str, what: str, fix: Mapping[str, Any] | None = None, advice: str = "") -> None:
        self.where, self.what, self.fix = where, what, dict(fix or {})
        advice = advice or f"pass {' and '.join(written(self.fix))}"
        super().__init__(f"{where}{what}: {advice}.")


def written(fix: Mapping[str, Any]) -> list[str]:
    """Return fields of a source as marked arguments."""
    return [f"{arg:source.{name}={value}}" for name, value in fix.items()]


class Roles(NamedTuple):
    """What a row of a table is, and the columns with a part of their own; ``values`` are those with numbers."""

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


def find_roles(table: Table, source: Columns) -> Roles:
    """Decide what every column is; where names do not tell, say which columns there are and how to name them."""
    found = {role: _column(table, role, getattr(source, role)) for role in OBVIOUS}
    if source.format is None and (source.x is not None or (table.lists and source.time is None)):
        return Roles("lists", found["id"], None, found["label"], None, (_whole_series(table, source),))
    form = source.format or _form(table, found)
    if form == "melted":
        for role in ("id", "time", "variable", "value"):
            if found[role] is None and (role != "time" or source.align != "order"):
                raise _columns_of(table, f"pass {arg:source.{role}} for the column with {MEANING[role]}")
        return Roles(form, found["id"], found["time"], found["label"], found["variable"], (str(found["value"]),))
    chosen = (source.channels or ()) if form == "long" else ()
    require_names(table.where, "column", chosen, table.columns)
    time = found["time"] = None if form == "wide" else found["time"]
    apart = _apart(table, found)
    left = tuple(name for name in table.columns if name not in apart)
    _propose(table, source, found, form, left)
    if form == "long" and time is None and source.align != "order":
        rows = f"{arg:source.align=order} where rows are in order of time"
        raise _columns_of(table, f"pass {arg:source.time} for the column with the time, or {rows}")
    if not (chosen or left):
        raise _columns_of(table, f"no column is left for a {'step' if form == 'wide' else 'channel'}")
    return Roles(form, found["id"], time, found["label"], None, chosen or left)


def _apart(table: Table, found: Mapping[str, str | None]) -> set[str | None]:
    """Return the columns that hold no values: those with another role, and those without a name."""
    return {found["id"], found["time"], found["label"], *table.aside}


def _propose(
    table: Table, source: Columns, found: Mapping[str, str | None], form: str, left: Sequence[str]
) -> None:
    """Refuse columns that are no channels by their names or by what they hold, and propose what they are."""
    fix, what, chosen = dict[str, Any](), list[str](), {*(source.channels or ())}
    settled = {"time": form == "wide" or source.align == "order", "label": bool(chosen)}
    for role, pattern in LIKELY.items():
        taken = chosen.union(fix.values())
        likely = [name for name in left if pattern.fullmatch(name.lower()) and name not in taken]
        if likely and found[role] is None and not settled.get(role):
            fix[role] = next((name for name in likely if name in table.words), likely[0])
            what.append(f"{quote(fix[role])} seems to hold {MEANING[role]}")
    others, rest = table.words | table.lists, [name for name in left if name not in fix.values()]
    texts = [quote(name) for name in rest if name in others]
    if texts and (form == "wide" or not chosen):
        what.append(f"{listed(texts)} {'holds' if len(texts) == 1 else 'hold'} text, not numbers")
        if form == "long" and len(texts) < len(rest):
            fix["channels"] = tuple(name for name in rest if name not in others)
    if what:
        advice = "" if fix else f"pass {arg:source.id} or {arg:source.label} for it, or take it out"
        raise UnclearError(f"{table.where}: ", "; ".join(what), fix, advice)


def _whole_series(table: Table, source: Columns) -> str:
    """Return the column that holds a whole series in each row."""
    lists = sorted(table.lists - {source.mask})
    name = source.x or ("x" if "x" in lists or len(lists) != 1 else lists[0])
    require_names(table.where, "column", [name] if source.x else [], table.columns)
    if name not in lists:
        raise UnclearError(table.where, f" holds the lists {listed(lists)}", advice=f"pass {arg:source.x}")
    return name


def _form(table: Table, found: Mapping[str, str | None]) -> str:
    """Tell what a row is by the names of the columns."""
    if found["variable"] is not None and found["value"] is not None:
        return "melted"
    apart = _apart(table, found)
    steps = [name for name in table.columns if name not in apart]
    likely = [name for name in steps if any(rule.fullmatch(name.lower()) for rule in LIKELY.values())]
    if found["time"] is None and _counted([name for name in steps if name not in likely]):
        return "wide"
    if found["time"] is not None or any(LIKELY["time"].fullmatch(name.lower()) for name in likely):
        return "long"
    wide = f"{arg:source.format=wide} if it is a whole series"
    raise _columns_of(table, f"pass {arg:source.time} if a row is one step of a series, or {wide}")


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
        require_names(table.where, "column", [given], table.columns)
        return given
    likely = [name for name in table.columns if name.lower() in OBVIOUS[role].split() and name not in table.lists]
    if role == "label" and {"x", "z"} & {name.lower() for name in table.columns} - table.lists:
        likely = [name for name in likely if name.lower() != "y"]  # a direction in space, as in accelerometers
    if len(likely) > 1 and role in {"id", "time", "label"}:
        what = f"{' and '.join(map(quote, likely[:2]))} could both be {MEANING[role]}"
        raise UnclearError(f"{table.where}: ", what, advice=f"pass {arg:source.{role}}")
    return likely[0] if len(likely) == 1 else None


def require_names(where: str, kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names that are not there."""
    there = set(known)
    for name in names:
        if name not in there:
            raise UnknownNameError(f"{kind} of {where}", name, known)


def require_binary(mask: NDArray[Any], where: str, name: str) -> NDArray[np.bool_]:
    """Return a mask as truth values; refuse one that holds anything but 0 and 1."""
    if mask.dtype != bool and not np.isin(mask, (0, 1)).all():
        raise DataError(f"{where}: {name} must hold 1 (observed) and 0 (missing) only.")
    return mask.astype(bool)


def _columns_of(table: Table, advice: str) -> DataError:
    return UnclearError(table.where, f" has the columns {listed(table.columns, 80)}", advice=advice)


# Rows as series


def read_table(table: Table, source: Columns) -> Part:
    """Read a table of any form."""
    roles = find_roles(table, source)
    lists = roles.format == "lists"
    require_names(table.where, "column", [*source.keep, *([source.mask] if source.mask else [])], table.columns)
    if source.mask is not None and not lists:
        raise DataError(
            f"{table.where}: {arg:source.mask} is for whole series in each row: leave cells empty here."
        )
    chosen = roles.format in {"melted", "lists"} or (roles.format == "long" and source.channels is not None)
    unread = table.aside.difference(roles.texts)
    nameless = [] if chosen else [name for name in table.columns if name in unread]
    wanted = [name for name in roles.texts if source.labels or name != roles.label]
    texts, values = table.read([*wanted, *nameless], () if lists else roles.values)
    for name in sorted(nameless, key=table.columns[:1].__contains__):  # the first, which may go, comes last
        _leave_out(table, name, texts[name])
    _refuse_missing(table, roles, texts)
    labels = None
    if roles.label in texts:
        label = texts[roles.label]
        y, classes = as_numbers(
            label.texts, source.classes, table.where, lambda code, what: table.fault(label.row(code), what)
        )
        labels = y[label.codes], classes
    read = _of_lists if lists else _of_columns if roles.format == "wide" else _of_steps
    part, firsts = read(table, roles, source, texts, values, labels)
    return replace(part, kept=table.kept(source.keep, firsts)) if source.keep else part


def _leave_out(table: Table, name: str, column: Text) -> None:
    """Leave out a first column without a name that numbers the rows, and say so; refuse any other."""
    rows, numbers = len(column.codes), [parse_whole(text) for text in column.texts]
    if name != table.columns[0] or numbers not in ([*range(rows)], [*range(1, rows + 1)]):
        raise DataError(
            f"{table.where}: {quote(name)} has no name, and only a first column that numbers the rows may "
            f"lack one: name it, take it out, or pass {arg:source.id={name}} if it names the series."
        )
    warn(f"{table.where}: {quote(name)} has no name and numbers the rows, so it is left out.")


def _refuse_missing(table: Table, roles: Roles, texts: Mapping[str, Text]) -> None:
    """Refuse a row that does not say its series, its channel or its label."""
    kinds = {roles.id: "name of the series", roles.variable: "name of the channel", roles.label: "label"}
    for name, column in texts.items():
        for code, text in enumerate(column.texts):
            if name in kinds and (not text or (name == roles.label and missing(text))):
                raise table.fault(column.row(code), f"the {kinds[name]} is missing")


Labels = tuple[NDArray[Any], tuple[str, ...] | None]  # int64 or float64, and the names of classes that are text
_Read = tuple[Part, Codes]  # and the first row of each series


def _more(labels: Labels | None, times: Times | None = None) -> dict[str, Any]:
    return ({} if labels is None else {"y": labels[0], "classes": labels[1]}) | {"times": times}


def _of_steps(
    table: Table, roles: Roles, source: Columns, texts: dict[str, Text], values: Doubles, labels: Labels | None
) -> _Read:
    """Read a table whose rows are steps, or single values of one."""
    series = texts[roles.id] if roles.id else Text(np.zeros(len(values), np.int64), [""])
    time = texts[roles.time] if roles.time else None
    steps = time_index(table, series, time, source.align)
    place: tuple[Any, ...] = (series.codes, steps.places)
    channels, rows = roles.values, np.arange(len(values))
    if roles.variable is not None:
        names = texts[roles.variable].texts
        require_names(table.where, "channel", source.channels or (), names)
        # sorted, since the order of rows may differ between two files of the same channels
        channels = source.channels or tuple(sorted(names))
        rank = {name: number for number, name in enumerate(channels)}
        ranks = np.array([rank.get(name, -1) for name in names])[texts[roles.variable].codes]
        rows = np.flatnonzero(ranks >= 0)  # the others are of channels that nobody asked for
        place, values = (series.codes[rows], steps.places[rows], ranks[rows]), values[rows, 0]
    shape = (len(series.texts), steps.total, len(channels))
    if math.prod(shape) > max(MANY, SPARSE * values.size):
        size = f"{shape[0]} series × {shape[1]} steps × {shape[2]} channels would hold {values.size} values"
        advice = f"pass {arg:source.align=order} where series have times of their own, or cut the file"
        raise DataError(f"{table.where}: {size}: {advice}.")
    _refuse_twice(table, series, rows, np.ravel_multi_index(place, shape[: len(place)]))
    cells = np.full(shape, np.nan, np.float32)
    cells[place] = values
    if labels is not None:  # one per series where they never change within one, else one per step
        y = np.zeros(shape[0], labels[0].dtype)
        y[series.codes] = labels[0]
        if not np.array_equal(y[series.codes], labels[0]):
            y = np.zeros(shape[:2], labels[0].dtype)  # also of steps that a series does not have
            y[series.codes, steps.places] = labels[0]
        labels = y, labels[1]
    ids = identify(series.texts, table, roles.id)
    firsts = np.unique(series.codes, return_index=True)[1]
    return observed(table.where, cells, ids, channels, _more(labels, steps.names)), firsts


def _of_columns(
    table: Table, roles: Roles, source: Columns, texts: dict[str, Text], values: Doubles, labels: Labels | None
) -> _Read:
    """Read a table whose rows are series and whose columns are steps."""
    ids = identify(texts[roles.id].cells if roles.id else [], table, roles.id)
    cells, more = values[:, :, None].astype(np.float32), _more(labels, roles.values)
    return observed(table.where, cells, ids, source.channels, more), np.arange(len(values))


def _of_lists(
    table: Any, roles: Roles, source: Columns, texts: dict[str, Text], _: Doubles, labels: Labels | None
) -> _Read:
    """Read a table whose rows are whole series."""
    x, steps, faults = list_cells(table.cells(roles.values[0]), source.shape, table.where)
    mask = np.arange(x.shape[1])[None, :, None] < steps[:, None, None]
    if source.mask is not None:
        seen, _ends, more = list_cells(table.cells(source.mask), (x.shape[1], x.shape[2]), table.where)
        seen = require_binary(seen, table.where, source.mask)
        mask, faults = mask & seen[:, : x.shape[1]], more | faults
    mask = np.array(np.broadcast_to(mask, x.shape))
    ids = identify(texts[roles.id].cells if roles.id else [], table, roles.id)
    whole = None if mask.all() else mask
    ends = np.maximum(steps, 1)
    return Part(ids, x, whole, {}, faults, source.channels, ends, _more(labels)), np.arange(len(x))


def observed(
    where: str, cells: NDArray[np.float32], ids: Any, channels: tuple[str, ...] | None, more: dict[str, Any]
) -> Part:
    """Return numbers of which NaN are missing; a series ends with its last value."""
    mask = np.isfinite(cells)
    if not mask.any():
        raise DataError(f"{where} holds no value at all: every cell is missing.")
    cells[~mask] = 0
    steps = (mask.any(-1) * np.arange(1, cells.shape[1] + 1)).max(1)
    return Part(ids, cells, None if mask.all() else mask, {}, {}, channels, np.maximum(steps, 1), more)


def identify(names: list[str], table: Table, column: str | None) -> NDArray[np.int64] | list[str] | None:
    """Return whole numbers of 64 bits as numbers, and any other names as texts; a column of text stays text."""
    if column is None:
        return None
    numbered = column not in table.words or isinstance(table, CsvTable)
    if numbered and all(map(WHOLE.fullmatch, names)) and all(-(2**63) <= int(name) < 2**63 for name in names):
        return np.array(list(map(int, names)), np.int64)
    return names


def _refuse_twice(table: Table, series: Text, rows: Codes, cells: Codes) -> None:
    """Refuse two rows for the same cell."""
    _, first = np.unique(cells, return_index=True)
    for again in np.setdiff1d(np.arange(len(cells)), first)[:1]:
        row = int(rows[again])
        whose = f"series {quote(series.texts[series.codes[row]])}" if series.texts != [""] else "the only series"
        advice = f"if there are more series than that, pass {arg:source.id} for the column with their names"
        raise table.fault(row, f"{whose} has this time twice; {advice}")


# Times


class TimeSteps(NamedTuple):
    """The step of every row, the number of steps, and the steps' names, those of each series where they differ."""

    places: Codes
    total: int
    names: Times | None


def time_index(table: Table, series: Text, time: Text | None, align: str | None) -> TimeSteps:
    """Find the step of every row.

    With the sorted distinct times :math:`g_0 < g_1 < …` of the whole file, a row at time :math:`g_k` is step
    :math:`k` (``align="time"``), or it is the :math:`k`-th of its own series (``align="order"``). Where every
    series has the first few times and no gap, both say the same; otherwise the user has to choose. Rows without
    a time are in order.
    """
    names: list[str] = []
    places = np.arange(len(series.codes))
    if time is not None:
        moments, labels = parse_times(time, lambda code, what: table.fault(time.row(code), what))
        _, first, ranked = np.unique(moments, return_index=True, return_inverse=True)
        names, places = [labels[code] for code in first], ranked[time.codes]
    grid = len(names) or len(places)
    keys, inverse = np.unique(series.codes * grid + places, return_inverse=True)
    owners, filled = np.divmod(keys, grid)
    ranks = np.arange(len(keys)) - np.searchsorted(owners, owners)
    total = int(ranks.max()) + 1
    if time is None:
        return TimeSteps(ranks[inverse], total, None)
    if align == "time" or bool((ranks == filled).all()):
        return TimeSteps(places, grid, tuple(names))
    if align == "order":
        stamps = np.full((len(series.texts), total), "", object)
        stamps[owners, ranks] = [names[place] for place in filled]
        return TimeSteps(ranks[inverse], total, tuple(map(tuple, stamps.tolist())))
    gap = int(np.flatnonzero(ranks != filled)[0])
    name = series.texts[owners[gap]]
    raise UnclearError(
        f"{table.where}: ",
        f"{f'series {quote(name, 20)}' if name else 'the series'} has no row for time "
        f"{one_line(names[ranks[gap]], 20)}, which others have ({arg:source.align=time} masks missing times, "
        f"{arg:source.align=order} counts rows)",
        {"align": "order" if grid > 2 * total else "time"},
    )


def parse_times(time: Text, fault: Fault) -> tuple[Doubles | Codes, list[str]]:
    """Return the distinct times as numbers, and as the texts that people will read."""
    integers = [parse_whole(text) for text in time.texts]
    if None not in integers:  # to the last digit: nanoseconds since 1970 are more than 2^53
        return np.array(integers, np.int64), list(map(str, integers))
    found = [parse_number(text) for text in time.texts]
    if None in found:
        return np.array([_date(time, code, fault) for code in range(len(time.texts))]), time.texts
    numbers = np.array(found, np.float64)
    for code in np.flatnonzero(~np.isfinite(numbers)):
        raise fault(int(code), f"the time is {quote(time.texts[code])}, which is no finite number")
    return numbers, [f"{moment:.15g}" if float(f"{moment:.15g}") == moment else repr(moment) for moment in found]


def _date(time: Text, code: int, fault: Fault) -> float:
    text = time.texts[code].strip()
    try:
        moment = datetime.fromisoformat(text if "-" in text else f"1970-01-01T{text}")
    except ValueError:
        if parse_number(text) is not None:  # the one that is no number is at fault
            code = next(code for code, other in enumerate(time.texts) if parse_number(other) is None)
        wrong = time.texts[code]
        dates = "all must be numbers, or all dates such as 2026-01-31 or 2026-01-31T12:00"
        raise fault(code, f"the time is {'missing' if missing(wrong) else f'{quote(wrong)}: {dates}'}") from None
    # a local clock would jump twice a year
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


# Labels


def as_numbers(texts: Sequence[str], classes: Sequence[str] | None, where: str, fault: Fault) -> Labels:
    """Return the distinct labels as numbers, with the names of the classes where they were text.

    Whole numbers from 0 up are classes, other numbers values of a regression; text and negative numbers such as
    -1 and 1 are classes in sorted order. ``classes`` fixes the order for all of them, and names those that are
    numbers from 0 up already.

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
    numbers = [parse_whole(text) for text in texts]
    values = [parse_number(text) for text in texts]
    if classes is None and None in values:
        classes = sorted(set(texts))
    named = classes is not None and not any(parse_number(name) is not None for name in classes)
    if named and all(number is not None and 0 <= number < len(classes or ()) for number in numbers):
        return np.array(numbers, np.int64), tuple(classes or ())
    if classes is not None:
        rank = {name: number for number, name in enumerate(classes)}
        for text in texts:
            if text not in rank:
                raise DataError(f"{where}: label {quote(text)} is none of the classes {listed(classes)}.")
        return np.array([rank[text] for text in texts]), tuple(classes)
    if None in numbers:
        return _real_labels(texts, np.array(values, np.float64), fault), None
    distinct, ranks = np.unique(np.array(numbers, np.int64), return_inverse=True)
    if distinct[0] < 0:
        return ranks, tuple(map(str, distinct.tolist()))
    if distinct[0] > 0 and len(distinct) > 1:
        some = listed(distinct.tolist(), 60)
        warn(
            f"{where}: labels {some} are taken as the numbers of the model's outputs, which begin with 0: pass "
            f"{arg:predictor.classes={some.replace(' ', '')}} if {distinct[0]} is its first."
        )
    return np.array(numbers, np.int64), None


def _real_labels(texts: Sequence[str], values: Doubles, fault: Fault) -> Doubles:
    """Return the values of a regression; numbers of classes that no integer holds are none."""
    large = np.abs(values) >= BEYOND
    for place in np.flatnonzero(~np.isfinite(values) | (large & bool((np.floor(values) == values).all()))):
        what = "a whole number beyond 64 bits: write it as text, such as c1, if it is a class"
        what = what if np.isfinite(values[place]) else "no finite number"
        raise fault(int(place), f"the label {one_line(texts[int(place)])} is {what}")
    return values
