"""Which column of a table is what, by names alone; where they do not tell, what to write instead."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tempograd.core.errors import DataError, UnknownNameError, arg, listed, quote
from tempograd.data.readers.columns import INDEX, Table
from tempograd.data.source import Source

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


def find_roles(table: Table, source: Source) -> Roles:
    """Decide what every column is; where names do not tell, say which columns there are and how to name them."""
    found = {role: _column(table, role, getattr(source, role)) for role in OBVIOUS}
    if source.format is None and (source.x is not None or (table.lists and source.time is None)):
        return Roles("lists", found["id"], None, found["label"], None, (_whole_series(table, source),))
    form = source.format or _form(table, found)
    if form == "melted":
        for role in ("id", "time", "variable", "value"):
            if found[role] is None and (role != "time" or source.align != "order"):
                raise _columns_of(table, f"pass {arg:source.{role}} for the column with {MEANING[role]}")
        own = (found["id"], found["time"], found["label"], found["variable"])
        return Roles(form, *own, (str(found["value"]),))
    if form == "long":
        require_names(table.where, "column", source.channels or (), table.columns)
    _propose(table, source, found, form)
    if form == "wide":
        return Roles(form, found["id"], None, found["label"], None, _left(table, found, "step"))
    if found["time"] is None and source.align != "order":
        raise _columns_of(
            table,
            f"pass {arg:source.time} for the column with the time, or {arg:source.align=order} where rows "
            "are in order of time",
        )
    values = source.channels or _left(table, found, "channel")
    return Roles("long", found["id"], found["time"], found["label"], None, values)


def _propose(table: Table, source: Source, found: Mapping[str, str | None], form: str) -> None:
    """Refuse columns that are no channels by their names or by what they hold, and propose what they are."""
    taken = {*found.values(), *table.aside}
    rest = [name for name in table.columns if name not in taken]
    fix: dict[str, Any] = {}
    what = []
    for role in [role for role in LIKELY if found[role] is None and not (role == "time" and form == "wide")]:
        if role == "time" and source.align == "order":
            continue
        likely = [name for name in rest if LIKELY[role].fullmatch(name.lower()) and name not in fix.values()]
        if source.channels is not None:
            likely = [name for name in likely if name not in source.channels]
        if likely and not (role == "label" and source.channels):
            fix[role] = next((name for name in likely if name in table.words), likely[0])
            what.append(f"{quote(fix[role])} seems to hold {MEANING[role]}")
    proposed, chosen, no_numbers = set(fix.values()), source.channels, table.words | table.lists
    texts = [name for name in rest if name in no_numbers and name not in proposed]
    if texts and (chosen is None or form == "wide"):
        what.append(f"{listed(map(quote, texts))} {'holds' if len(texts) == 1 else 'hold'} text, not numbers")
        left = tuple(name for name in rest if name not in no_numbers and name not in proposed)
        if form == "long" and left:
            fix["channels"] = left
    if what:
        advice = "" if fix else f"pass {arg:source.id} or {arg:source.label} for it, or take it out"
        raise UnclearError(f"{table.where}: ", "; ".join(what), fix, advice)


def _whole_series(table: Table, source: Source) -> str:
    """Return the column that holds a whole series in each row."""
    if source.x is not None:
        require_names(table.where, "column", [source.x], table.columns)
        if source.x not in table.lists:
            what = f": a series is a list of numbers, and column {quote(source.x)} holds none"
            advice = f"leave {arg:source.x} out where rows are steps, and choose {arg:source.channels}"
            raise UnclearError(table.where, what, advice=advice)
        return source.x
    others = table.lists - {source.mask}
    if "x" not in others and len(others) != 1:
        raise UnclearError(
            table.where, f" holds the lists {listed(sorted(others))}", advice=f"pass {arg:source.x}"
        )
    return "x" if "x" in others else next(iter(others))


def _form(table: Table, found: Mapping[str, str | None]) -> str:
    if found["variable"] is not None and found["value"] is not None:
        return "melted"
    if found["time"] is not None:
        return "long"
    others = {found["id"], found["label"], *table.aside}
    steps = [name for name in table.columns if name not in others]
    likely = [name for name in steps if any(rule.fullmatch(name.lower()) for rule in LIKELY.values())]
    if _counted([name for name in steps if name not in likely]):
        return "wide"
    if any(LIKELY["time"].fullmatch(name.lower()) for name in likely):
        return "long"
    raise _columns_of(
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
        require_names(table.where, "column", [given], table.columns)
        return given
    likely = [name for name in table.columns if name.lower() in OBVIOUS[role].split() and name not in table.lists]
    if role == "label" and {"x", "z"} & {name.lower() for name in table.columns} - table.lists:
        likely = [name for name in likely if name.lower() != "y"]  # a direction in space, as in accelerometers
    if len(likely) > 1 and role in {"id", "time", "label"}:
        what = f"{' and '.join(map(quote, likely[:2]))} could both be {MEANING[role]}"
        raise UnclearError(f"{table.where}: ", what, advice=f"pass {arg:source.{role}}")
    return likely[0] if len(likely) == 1 else None


def _left(table: Table, found: Mapping[str, str | None], what: str) -> tuple[str, ...]:
    """Return the columns without a part of their own, for channels or steps."""
    others = {found["id"], found["time"] if what == "channel" else None, found["label"]}
    for name in table.columns[1:]:
        if name in table.aside and name not in others and not name.startswith(INDEX):
            raise nameless(table, name)
    others |= table.aside
    left = tuple(name for name in table.columns if name not in others)
    if not left:
        raise _columns_of(table, f"no column is left for a {what}")
    return left


def nameless(table: Table, name: str) -> DataError:
    """Refuse a column without a name."""
    return DataError(
        f"{table.where}: {quote(name)} has no name, and only a first column that numbers the rows may "
        f"lack one: name it, take it out, or pass {arg:source.id={name}} if it names the series."
    )


def require_names(where: str, kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names that are not there."""
    there = set(known)
    for name in names:
        if name not in there:
            raise UnknownNameError(f"{kind} of {where}", name, known)


def _columns_of(table: Table, advice: str) -> DataError:
    return UnclearError(table.where, f" has the columns {listed(table.columns, 80)}", advice=advice)
