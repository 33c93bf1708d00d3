"""Which column of a table is what: as the user says, else by its name where that leaves no doubt."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tempograd.data.own.table import Table
from tempograd.errors import DataError, InputError, UnknownNameError, listed, quote, short_path

FORMATS = ("long", "melted", "wide")
OBVIOUS = {
    "id": "id ids series series_id case case_id sample sample_id patient patient_id record record_id recordid",
    "time": "time t step time_step timestep timestamp date datetime hour hours minute minutes second seconds",
    "label": "label labels y target class outcome",
    "variable": "channel variable parameter feature dimension dim",
    "value": "value values",
}
STEP = re.compile(r"(.*[^0-9])?([0-9]{1,18})", re.DOTALL)


@dataclass(frozen=True)
class Asked:
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

    def __post_init__(self) -> None:
        for name, value, known in (
            ("format", self.format, FORMATS),
            ("align", self.align, ("time", "order")),
            ("missing", self.missing, ("error", "mask")),
        ):
            if value is not None and (not isinstance(value, str) or value not in known):
                raise InputError(f"{name} must be {' or '.join(map(repr, known))}, got {quote(value)}.")
        for name in OBVIOUS:
            if not isinstance(getattr(self, name), str | None):
                raise InputError(f"{name} must be the name of a column, got {quote(getattr(self, name))}.")
        for name in ("channels", "classes"):
            names = getattr(self, name)
            if names is not None and len(set(names)) < len(names):
                raise InputError(f"{name} must be distinct names, got {listed(names)}.")


class Roles(NamedTuple):
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


def find_roles(table: Table, asked: Asked) -> Roles:
    """Decide what every column is; where names do not tell, say which columns there are and how to name them."""
    found = {role: _column(table, role, getattr(asked, role)) for role in OBVIOUS}
    form = asked.format or _form(table, found)
    own, label = found["id"], found["label"]
    if form == "melted":
        for role in ("id", "time", "variable", "value"):
            if found[role] is None and (role != "time" or asked.align != "order"):
                raise _unclear(table, f"pass {role}= (--{role}) for the column with {_meaning(role)}")
        return Roles(form, own, found["time"], label, found["variable"], (str(found["value"]),))
    if form == "wide":
        return Roles(form, own, None, label, None, _step_columns(table, {own, label}))
    time = found["time"]
    if time is None and asked.align != "order":
        raise _unclear(
            table,
            "pass time= (--time) for the column with the time, or align='order' (--align order) where rows "
            "are in order of time",
        )
    return Roles("long", own, time, label, None, _channels(table, asked.channels, {own, time, label}))


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
        "pass time= (--time) if a row is one step of a series, or format='wide' (--format wide) if it is a "
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


def _step_columns(table: Table, others: set[str | None]) -> tuple[str, ...]:
    found = _left(table, others)
    if not found:
        raise _unclear(table, "no column is left for a step")
    return found


def _column(table: Table, role: str, asked: str | None) -> str | None:
    """Return the column of a role: the one asked for, or the only one with an obvious name."""
    if asked is not None:
        if asked not in table.columns:
            raise UnknownNameError(f"column of {short_path(table.path)}", asked, table.columns)
        return asked
    likely = [name for name in table.columns if name.lower() in OBVIOUS[role].split()]
    if role == "label" and {"x", "z"} & {name.lower() for name in table.columns}:
        likely = [name for name in likely if name.lower() != "y"]  # a direction in space, as in accelerometers
    if len(likely) > 1 and role in {"id", "time", "label"}:
        raise DataError(
            f"{short_path(table.path)}: {' and '.join(map(quote, likely[:2]))} could both be {_meaning(role)}: "
            f"pass {role}= (--{role})."
        )
    return likely[0] if len(likely) == 1 else None


def _channels(table: Table, asked: tuple[str, ...] | None, others: set[str | None]) -> tuple[str, ...]:
    known = set(table.columns)
    for name in asked or ():
        if name not in known:
            raise UnknownNameError(f"column of {short_path(table.path)}", name, table.columns)
    found = asked or _left(table, others)
    if not found:
        raise _unclear(table, "no column is left for a channel")
    return found


def _left(table: Table, others: set[str | None]) -> tuple[str, ...]:
    """Return the columns without a part of their own."""
    taken = others | table.aside
    return tuple(name for name in table.columns if name not in taken)


def _unclear(table: Table, what: str) -> DataError:
    return DataError(f"{short_path(table.path)} has the columns {listed(table.columns, 80)}: {what}.")


def _meaning(role: str) -> str:
    return {
        "id": "the series' names",
        "time": "the time",
        "label": "the labels",
        "variable": "the channels' names",
        "value": "the values",
    }[role]
