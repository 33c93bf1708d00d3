"""Tables as series: which columns are what, and how rows find their series, step, channel and label."""

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from tempograd.core.errors import DataError, InputError, UnknownNameError, arg, listed, one_line, quote, warn
from tempograd.core.validation import check_choice, check_names
from tempograd.data.table import ArrowTable, Codes, Doubles, Table, Text, missing, parse_number, parse_whole
from tempograd.typing import Times

OBVIOUS = {
    "id": "id ids series series_id case case_id sample sample_id patient patient_id record record_id recordid",
    "time": "time t step time_step timestep timestamp date datetime hour hours minute minutes second seconds",
    "label": "label labels y target class outcome",
}
MELTED = {"channel", "variable", "parameter", "feature", "dimension", "sensor", "signal"}  # beside one of values
LIKELY = {  # names that are proposed, not taken
    "id": re.compile(
        r".*_id|machine|device|unit|asset|engine|pump|turbine|vehicle|subject|person|user|customer|bed|stay"
    ),
    "time": re.compile(r".*(time|date|stamp|_at)"),
    "label": re.compile(r"(.*_)?(status|state|failure|failed|alarm|anomaly|fault|diagnosis|result|label|outcome)"),
}
Clock = tuple[NDArray[Any], list[str]]
STEP = re.compile(r"(.*[^0-9])?([0-9]{1,18})", re.DOTALL)
MEANING = {"id": "the series' names", "time": "the time", "label": "the labels"}
WHOLE = re.compile("0|-?[1-9][0-9]{0,18}")  # as Python would write it back


# What is said of columns


def _option(help: str, default: Any = None) -> Any:  # noqa: A002  # argparse's word
    """Return a field that is an option of the shell as well."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of a table, or arrays of a file, are what: the fields of :class:`tempograd.Source`."""

    x: str | None = _option("column with a whole series in each row (Parquet)")
    id: str | None = _option("column with the series' names; with folders of a lake, as day,machine")
    time: str | None = _option("column with the time of a row, numbers or ISO dates")
    label: str | None = _option("column with the labels")
    mask: str | None = _option("column with what was observed, beside one with a whole series in each row")
    channels: tuple[str, ...] | None = _option("which channels, in which order; their names where files have none")
    units: tuple[str, ...] | None = _option("what the channels are measured in")
    keep: tuple[str, ...] = _option("columns that go along to the results of a run", ())
    partition: str | None = _option("column of --keep whose values make folders of results, day=2026-01-31/")
    format: Literal["long", "wide"] | None = _option("what a row of a table is: a step, or a whole series")
    classes: tuple[str, ...] | None = _option("names of class 0, 1, …")
    align: Literal["time", "order"] | None = _option("what gaps in time mean: missing steps, or none")
    missing: Literal["error", "mask"] | None = _option("what NaN in arrays is")
    shape: tuple[int, int] | None = _option("steps and channels: of flat lists, or of the longest series of a run")
    scale: str | None = _option("table with the mean and std of each channel, by which values are standardised")
    fill: Literal["forward", "zero"] | None = _option("what the model reads in missing cells")
    labels: bool = True

    def __post_init__(self) -> None:
        vars(self).update({name: tuple(value) for name, value in vars(self).items() if isinstance(value, list)})
        for name in ("channels", "units", "keep", "classes"):
            names = check_names(getattr(self, name), None, name)
            if names is not None and len(set(names)) < len(names) and name != "units":
                raise InputError(f"{name} must be distinct names, got {listed(names)}.")
            vars(self)[name] = names
        for each in fields(Columns):
            for kind in get_args(each.type):
                if get_origin(kind) is Literal and getattr(self, each.name) is not None:
                    check_choice(getattr(self, each.name), each.name, get_args(kind))
        shape = self.shape
        if shape is not None and not (isinstance(shape, tuple) and len(shape) == 2 and min(shape) > 0):
            raise InputError(f"shape must be (time, channel), got {one_line(repr(self.shape), 60)}.")

    @property
    def plain(self) -> dict[str, Any]:
        """Return these fields as plain data, for a file."""
        return {each.name: getattr(self, each.name) for each in fields(Columns)}


@dataclass(frozen=True)
class Part:
    """Some series as arrays, before they are checked: what a reader returns.

    Attributes
    ----------
    ids : array, list of str, or pyarrow.Array in a run, optional
        What the series are called.
    x, mask : arrays of shape (series, time, channel)
        ``mask`` is None where all cells were observed.
    kept : dict of str to pyarrow.Array
        Columns that go along.
    faults : dict of int to str
        Rows that hold no series, and why.
    steps : array of shape (series,), optional
        How many steps each series has, where they differ.
    more : dict of str to object
        What else :class:`tempograd.Series` takes: labels, times and classes, truth, units.
    keys : array of int64
        What draws depend on, in a run.
    """

    ids: Any
    x: Any
    mask: NDArray[np.bool_] | None = None
    kept: dict[str, Any] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)
    channels: tuple[str, ...] | None = None
    steps: NDArray[np.int64] | None = None
    more: dict[str, Any] = field(default_factory=dict)
    keys: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.x)


# What every column is


class UnclearError(DataError):
    """A table whose columns do not tell what they are, with the fields of a source that would."""

    def __init__(self, where: str, what: str, fix: Mapping[str, Any] | None = None, advice: str = "") -> None:
        self.where, self.what, self.fix = where, what, dict(fix or {})
        passed = f"{arg:source.and}".join(f"{arg:source.{name}={value}}" for name, value in self.fix.items())
        super().__init__(f"{where}: {what}: {advice or f'pass {passed}'}.")


class Roles(NamedTuple):
    """What a row of a table is, and the columns with a part of their own; ``values`` are those with numbers."""

    format: str
    id: str | None
    time: str | None
    label: str | None
    values: tuple[str, ...]


def find_roles(table: Table, source: Columns) -> Roles:
    """Decide what every column is; where names do not tell, say which columns there are and how to name them."""
    found = {role: _column(table, role, getattr(source, role)) for role in OBVIOUS}
    lists = sorted(table.lists - {source.mask})
    if source.format is None and (source.x is not None or (lists and source.time is None)):
        name = source.x or ("x" if "x" in lists or len(lists) != 1 else lists[0])
        if name not in lists:
            raise UnclearError(table.where, f"it has the lists {listed(lists)}", advice=f"pass {arg:source.x}")
        return Roles("lists", found["id"], None, found["label"], (name,))
    form = source.format or _form(table, found)
    found |= {"time": None} if form == "wide" else {}
    names = {name.lower() for name in _left(table, found, source.keep)}
    if form == "long" and source.channels is None and names & {"value", "values"} and names & MELTED:
        raise _columns_of(table, "make a column of each channel first, as frame.pivot(…) of pandas does")
    values = _channels(table, source, found, form)
    if form == "long" and found["time"] is None and source.align != "order":
        rows = f"or {arg:source.align=order} where rows are in order of time"
        raise _columns_of(table, f"pass {arg:source.time} for the column with the time, {rows}")
    return Roles(form, found["id"], found["time"], found["label"], values)


def _left(table: Table, found: Mapping[str, str | None], kept: Sequence[str]) -> list[str]:
    """Return the columns that have a name and no other role than to hold values: text may only go along."""
    taken = {found["id"], found["time"], found["label"], *table.nameless, *table.words.intersection(kept)}
    return [name for name in table.columns if name not in taken]


def _channels(table: Table, source: Columns, found: Mapping[str, str | None], form: str) -> tuple[str, ...]:
    """Return the columns of numbers; propose what others are, by their names or by what they hold."""
    chosen, left = (source.channels or ()) if form == "long" else (), _left(table, found, source.keep)
    require_names(table.where, "column", chosen, table.columns)
    free = set(left).difference(chosen)
    settled = {"time": form == "wide" or source.align == "order", "label": bool(chosen)}
    for role, pattern in LIKELY.items():
        likely = [name for name in left if name in free and pattern.fullmatch(name.lower())]
        if likely and found[role] is None and not settled.get(role):
            name = next((name for name in likely if name in table.words), likely[0])
            raise UnclearError(table.where, f"{quote(name)} seems to hold {MEANING[role]}", {role: name})
    others = table.words | table.lists
    texts = [name for name in left if name in others]
    nameless = [name for name in table.nameless if name not in found.values()]
    if (texts or nameless) and not chosen:
        numbers = tuple(name for name in left if name not in others)
        fix = {"channels": numbers} if numbers and form == "long" else {}
        advice = "" if fix else f"pass {arg:source.id} or {arg:source.label} for it, or take it out"
        what = f"{listed(map(quote, texts))} {'holds' if len(texts) == 1 else 'hold'} text, not numbers"
        raise UnclearError(table.where, what if texts else f"{quote(nameless[0])} has no name", fix, advice)
    if not (chosen or left):
        raise _columns_of(table, f"no column is left for a {'step' if form == 'wide' else 'channel'}")
    return chosen or tuple(left)


def _form(table: Table, found: Mapping[str, str | None]) -> str:
    """Tell what a row is by the names of the columns."""
    likely = {name for name in table.columns if any(rule.fullmatch(name.lower()) for rule in LIKELY.values())}
    if found["time"] is None and _counted([name for name in _left(table, found, ()) if name not in likely]):
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
    if {"x", "z"} & {name.lower() for name in table.columns} - table.lists:
        likely = [name for name in likely if name.lower() != "y"]  # a direction in space, as in accelerometers
    if len(likely) > 1:
        what = f"{' and '.join(map(quote, likely[:2]))} could both be {MEANING[role]}"
        raise UnclearError(table.where, what, advice=f"pass {arg:source.{role}}")
    return likely[0] if len(likely) == 1 else None


def require_names(where: str, kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names that are not there."""
    there = set(known)
    for name in names:
        if name not in there:
            raise UnknownNameError(f"{kind} of {where}", name, known)


def unlike(where: str, names: Sequence[str] | None, agreed: Collection[str]) -> str:
    """Return what is wrong with a file that names other channels than others; nothing where it does not."""
    for name in sorted({*agreed} ^ {*(names or ())}):
        has = f"has {'no' if name in agreed else 'a'} column {quote(name)}"
        rule = f"all files must name the same channels, unless {arg:source.channels} chooses some"
        return f"{where} {has}, unlike others: {rule}."
    return ""


def _columns_of(table: Table, advice: str) -> DataError:
    return UnclearError(table.where, f"it has the columns {listed(table.columns, 80)}", advice=advice)


# Rows as series


def read_table(table: Table, source: Columns, clock: Clock | None = None) -> Part:
    """Read a table of any form; where it is a part of a file whose rows are steps, ``clock`` has all its times."""
    asked = [name for name in (source.x, source.mask, *source.keep) if name is not None]
    require_names(table.where, "column", asked, table.columns)
    roles = find_roles(table, source)
    lists = roles.format == "lists"
    if source.mask is not None and not lists:
        what = f"{arg:source.mask} is for whole series in each row: leave cells empty here"
        raise DataError(f"{table.where}: {what}.")
    columns = (roles.id, roles.time, roles.label if source.labels else None)
    texts, values = table.read(dict.fromkeys(filter(None, columns)), () if lists else roles.values)
    kinds = {roles.id: "name of the series", roles.label: "label", roles.time: "time"}
    for name, column in texts.items():
        for code, text in enumerate(column.texts):
            if not text or (name != roles.id and missing(text)):
                raise table.fault(column.row(code), f"the {kinds[name]} is missing")
    firsts = np.arange(len(values))
    if roles.format == "long":
        part, firsts = _of_steps(table, roles, texts, values, source.align, clock)
    elif isinstance(table, ArrowTable) and lists:
        part = _of_lists(table, roles.values[0], source)
    else:
        cells = values[:, :, None].astype(np.float32)
        part = observed(table.where, cells, source.channels, {"times": roles.values})
    y = texts[roles.label].array[firsts] if roles.label in texts else None
    ids = identify(texts[roles.id].array[firsts].tolist(), table, roles.id) if roles.id else None
    kept = table.kept(source.keep, firsts) if source.keep else {}
    return replace(part, ids=ids, kept=kept, more={"y": y} | part.more)


def _of_steps(
    table: Table, roles: Roles, texts: dict[str, Text], values: Doubles, align: str | None, clock: Clock | None
) -> tuple[Part, Codes]:
    """Read a table whose rows are steps, and return the first row of each series too."""
    series = texts[roles.id] if roles.id else Text(np.zeros(len(values), np.int64), [""])
    time = texts[roles.time] if roles.time else None
    places, total, times = time_index(table, series, time, align, clock)
    seen = np.unique(series.codes * total + places, return_index=True)[1]
    for again in np.delete(np.arange(len(values)), seen)[:1]:
        whose = f"series {quote(series.texts[series.codes[again]])}" if roles.id else "the only series"
        advice = f"if there are more series than that, pass {arg:source.id} for the column with their names"
        raise table.fault(int(again), f"{whose} has this time twice; {advice}")
    cells = np.full((len(series.texts), total, len(roles.values)), np.nan, np.float32)
    cells[series.codes, places] = values
    firsts, more = np.unique(series.codes, return_index=True)[1], dict[str, Any](times=times)
    y = texts[roles.label].array if roles.label in texts else None
    if y is not None and not np.array_equal(y[firsts][series.codes], y):  # they change within a series
        more["y"] = np.full(cells.shape[:2], "", object)  # of steps that a series does not have
        more["y"][series.codes, places] = y
    return observed(table.where, cells, roles.values, more), firsts


def _of_lists(table: ArrowTable, name: str, source: Columns) -> Part:
    """Read a table whose rows are whole series."""
    x, steps, faults = table.series(name, source.shape)
    mask = np.arange(x.shape[1])[None, :, None] < np.broadcast_to(steps[:, None, None], x.shape)
    if source.mask is not None:
        seen, _ends, more = table.series(source.mask, (x.shape[1], x.shape[2]))
        if not np.isin(seen, (0, 1)).all():
            raise DataError(f"{table.where}: {source.mask} must hold 1 (observed) and 0 (missing) only.")
        mask, faults = mask & (seen[:, : x.shape[1]] == 1), more | faults
    return Part(None, x, None if mask.all() else mask, {}, faults, source.channels, np.maximum(steps, 1))


def observed(
    where: str, cells: NDArray[np.float32], channels: tuple[str, ...] | None, more: dict[str, Any]
) -> Part:
    """Return numbers of which NaN are missing; a series ends with its last value."""
    mask = np.isfinite(cells)
    if not mask.any():
        raise DataError(f"{where} holds no value at all: every cell is missing.")
    cells[~mask] = 0
    steps = (mask.any(-1) * np.arange(1, cells.shape[1] + 1)).max(1)
    return Part(None, cells, None if mask.all() else mask, {}, {}, channels, np.maximum(steps, 1), more)


def identify(names: list[str], table: Table, column: str) -> NDArray[np.int64] | list[str]:
    """Return whole numbers of 64 bits as numbers, and any other names as texts; a column of text stays text."""
    numbered = not (isinstance(table, ArrowTable) and column in table.words)
    if numbered and all(WHOLE.fullmatch(name) and parse_whole(name) is not None for name in names):
        return np.array(list(map(int, names)), np.int64)
    return names


# Times


def time_index(
    table: Table, series: Text, time: Text | None, align: str | None, clock: Clock | None = None
) -> tuple[Codes, int, Times | None]:
    """Return the step of every row, the number of steps, and their names, of each series where they differ.

    With the sorted distinct times :math:`g_0 < g_1 < …` of the whole file, a row at time :math:`g_k` is step
    :math:`k` (``align="time"``), or it is the :math:`k`-th of its own series (``align="order"``). Where every
    series has the first few times and no gap, both say the same; otherwise the user has to choose. Rows without
    a time are in order.
    """
    names: list[str] = []
    places = np.arange(len(series.codes))
    if time is not None:
        moments, labels = parse_times(time, table)
        grid, names = clock or clock_of(moments, labels)
        places = np.searchsorted(grid, moments)[time.codes]
    width = len(names) or len(places)
    keys, inverse = np.unique(series.codes * width + places, return_inverse=True)
    owners, filled = np.divmod(keys, width)
    ranks = np.arange(len(keys)) - np.searchsorted(owners, owners)
    total = int(ranks.max()) + 1
    if time is None:
        return ranks[inverse], total, None
    if clock is None and len(series.texts) == 1 and width > 2 and align != "order":
        _refuse_gap(table, grid, names)
    if align == "time" or bool((ranks == filled).all()):
        return places, width, tuple(names)
    if align == "order":
        stamps = np.full((len(series.texts), total), "", object)
        stamps[owners, ranks] = [names[place] for place in filled]
        return ranks[inverse], total, tuple(map(tuple, stamps.tolist()))
    gap = int(np.flatnonzero(ranks != filled)[0])
    name = series.texts[owners[gap]]
    whose, when = f"series {quote(name, 20)}" if name else "the series", one_line(names[ranks[gap]], 20)
    ways = f"{arg:source.align=time} masks missing times, {arg:source.align=order} counts rows"
    what = f"{whose} has no row for time {when}, which others have ({ways})"
    raise UnclearError(table.where, what, {"align": "order" if width > 2 * total else "time"})


def _refuse_gap(table: Table, grid: NDArray[Any], names: Sequence[str]) -> None:
    """Refuse a gap in the times of the only series: most of them are one step apart, and some are further."""
    steps = np.diff(grid) / np.diff(grid).min()
    gaps = np.flatnonzero(steps > 1.5)
    if len(gaps) and np.median(steps) < 1.01:
        between = " and ".join(one_line(name, 20) for name in names[gaps[0] : gaps[0] + 2])
        ways = f"add rows with empty cells, or pass {arg:source.align=order} if rows count and not times"
        raise UnclearError(table.where, f"the only series has no row between {between}", advice=ways)


def clock_of(moments: NDArray[Any], labels: Sequence[str]) -> Clock:
    """Return the distinct times in order, as numbers and as texts."""
    grid, first = np.unique(moments, return_index=True)
    return grid, [labels[code] for code in first]


def parse_times(time: Text, table: Table) -> tuple[Doubles | Codes, list[str]]:
    """Return the distinct times as numbers, and as the texts that people will read."""
    integers = [parse_whole(text) for text in time.texts]
    if None not in integers:  # to the last digit: nanoseconds since 1970 are more than 2^53
        return np.array(integers, np.int64), list(map(str, integers))
    numbers = [parse_number(text) for text in time.texts]
    moments = np.empty(len(numbers))
    for code in sorted(range(len(numbers)), key=lambda code: numbers[code] is not None):  # dates come first
        number = numbers[code] if None not in numbers else _date(time.texts[code].strip())
        if number is None or not np.isfinite(number):
            rule = "all must be numbers, or all dates such as 2026-01-31 or 2026-01-31T12:00"
            raise table.fault(time.row(code), f"the time is {quote(time.texts[code])}: {rule}")
        moments[code] = number
    return moments, time.texts


def _date(text: str) -> float | None:
    """Return the seconds since 1970 of a date, or of a time of day; None for anything else."""
    with suppress(ValueError):
        moment = datetime.fromisoformat(text if "-" in text else f"1970-01-01T{text}")
        # a local clock would jump twice a year
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None


# Labels


def numbered(y: NDArray[Any], classes: Sequence[str] | None, where: str) -> tuple[NDArray[Any], Any]:
    """Return labels as numbers, with the names of the classes where these are texts or numbers below 0."""
    there, names = np.ones(y.shape, dtype=bool), classes
    if y.dtype.kind in "UO":
        there = y != ""  # a series may end before others
    if y.dtype.kind in "UO" or (y.dtype.kind in "iu" and (classes is not None or (y < 0).any())):
        labels = Text.of([*map(str, y[there].tolist())])
        values, names = as_numbers(labels.texts, classes, where)
        y = np.zeros(there.shape, values.dtype)
        y[there] = values[labels.codes]
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise DataError(f"{where}: y holds NaN or infinity: leave series without a label out.")
    return y, names


def as_numbers(labels: Sequence[str], classes: Sequence[str] | None, where: str) -> tuple[NDArray[Any], Any]:
    """Return distinct labels as numbers, with the names of the classes where they were text.

    Whole numbers from 0 up are classes, other numbers values of a regression; text and negative numbers such as
    -1 and 1 are classes in sorted order. ``classes`` fixes the order for all of them, and names those that are
    numbers from 0 up already.

    Examples
    --------
    >>> as_numbers(["sick", "healthy"], None, "a file")
    (array([1, 0]), ('healthy', 'sick'))
    >>> as_numbers(["2", "0"], None, "a file")
    (array([2, 0]), None)
    >>> as_numbers(["1", "0"], ["fine", "failure"], "a file")
    (array([1, 0]), ('fine', 'failure'))
    """
    texts = [text.strip() for text in labels]
    values = [*map(parse_number, texts)]
    whole = [number for number in map(parse_whole, texts) if number is not None]
    numbered = len(whole) == len(texts)
    if classes is None and numbered and min(whole) < 0:
        texts, classes = [*map(str, whole)], [*map(str, sorted(set(whole)))]
    if classes is None and None in values:
        classes = sorted(set(texts))
    if classes is not None:
        rank = {name: number for number, name in enumerate(classes)}
        named = numbered and all(0 <= number < len(rank) for number in whole)
        if not named or any(parse_number(name) is not None for name in rank):
            for text in texts:
                if text not in rank:
                    raise DataError(f"{where}: label {quote(text)} is none of the classes {listed(rank)}.")
            whole = [rank[text] for text in texts]
        return np.array(whole, np.int64), tuple(rank)
    if not numbered:
        real = np.array(values, np.float64)
        if (np.floor(real) == real).all():
            raise DataError(f"{where}: labels must be finite and of 64 bits: write classes as texts, such as c1.")
        return real, None
    if min(whole) > 0 and len(whole) > 1:
        some = listed(sorted(whole), 60)
        warn(
            f"{where}: labels {some} are taken as the numbers of the model's outputs, which begin with 0: pass "
            f"{arg:predictor.classes={some.replace(' ', '')}} if {min(whole)} is its first."
        )
    return np.array(whole, np.int64), None
