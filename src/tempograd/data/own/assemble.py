"""Tables as tensors: rows find their series, their step and their channel."""

from typing import NamedTuple

import numpy as np

from tempograd.data.own.clock import Steps, place_steps
from tempograd.data.own.labels import Labels, read_labels
from tempograd.data.own.roles import Asked, Roles, find_roles
from tempograd.data.own.table import Codes, Floats, Table, Text
from tempograd.errors import DataError, UnknownNameError


class Arrays(NamedTuple):
    """The content of a file: values (series, time, channel), NaN where there is none, and its names."""

    x: Floats
    channels: tuple[str, ...] | None
    times: tuple[str, ...] | None
    names: list[str] | None
    labels: Labels | None


def from_table(table: Table, asked: Asked) -> Arrays:
    """Read a table of any form."""
    roles = find_roles(table, asked)
    wanted = roles.texts if asked.labels else [name for name in roles.texts if name != roles.label]
    texts, values = table.read(wanted, roles.values)
    for column, what in ((roles.id, "name of the series"), (roles.variable, "name of the channel")):
        if column is not None and "" in texts[column].texts:
            raise table.fault(texts[column].row(texts[column].texts.index("")), f"the {what} is missing")
    if roles.format == "wide":
        return _wide(table, roles, asked, texts, values)
    series = texts[roles.id] if roles.id else Text(np.zeros(len(values), np.int64), [""])
    time = texts[roles.time] if roles.time else None
    steps = place_steps(table, series, time, asked.align, named=roles.id is not None)
    shape = (len(series.texts), steps.total)
    if roles.format == "long":
        _refuse_twice(table, series, steps, np.zeros_like(series.codes), 1)
        channels, cells = roles.values, np.full((*shape, len(roles.values)), np.nan)
        cells[series.codes, steps.places] = values
    else:
        variable, channels = _variables(table, texts[str(roles.variable)], asked.channels)
        _refuse_twice(table, series, steps, variable, len(channels))
        cells = np.full((*shape, len(channels) + 1), np.nan)
        cells[series.codes, steps.places, variable] = values[:, 0]
        cells = cells[..., :-1]  # the last one holds channels that nobody asked for
    labels = None
    if roles.label and asked.labels:
        labels = read_labels(table, texts[roles.label], series, steps, asked.classes)
    return Arrays(cells, channels, steps.names, series.texts if roles.id else None, labels)


def _wide(table: Table, roles: Roles, asked: Asked, texts: dict[str, Text], values: Floats) -> Arrays:
    if asked.channels is not None and len(asked.channels) != 1:
        raise DataError(
            f"{table.path} has one row per series, and so one channel: name one in channels=, got "
            f"{', '.join(asked.channels)}."
        )
    names = None
    if roles.id:
        series = texts[roles.id]
        if len(series.texts) < len(values):
            row = next(row for row, code in enumerate(series.codes) if code < row)
            raise table.fault(row, f"the series {series.texts[series.codes[row]]!r} is there twice")
        names = series.texts
    labels = None
    if roles.label and asked.labels:
        rows = np.arange(len(values))
        own = Text(rows, [str(row) for row in rows])
        steps = Steps(np.zeros(len(values), np.int64), 1, None)
        labels = read_labels(table, texts[roles.label], own, steps, asked.classes)
    return Arrays(values[:, :, None], asked.channels, roles.values, names, labels)


def _variables(table: Table, variable: Text, asked: tuple[str, ...] | None) -> tuple[Codes, tuple[str, ...]]:
    """Return the channel of every row and the channels' names, sorted unless somebody says otherwise.

    Sorted, since the order of rows may differ between two files of the same channels.
    """
    for name in asked or ():
        if name not in variable.texts:
            raise UnknownNameError(f"channel of {table.path}", name, variable.texts)
    channels = asked or tuple(sorted(variable.texts))
    place = {name: number for number, name in enumerate(channels)}
    places = np.array([place.get(name, len(channels)) for name in variable.texts])
    return places[variable.codes], channels


def _refuse_twice(table: Table, series: Text, steps: Steps, variable: Codes, channels: int) -> None:
    """Refuse two rows for the same cell; rows of channels that nobody asked for may be anything."""
    rows = np.flatnonzero(variable < channels)
    keys = ((series.codes * steps.total + steps.places) * channels + variable)[rows]
    _, first = np.unique(keys, return_index=True)
    if len(first) == len(keys):
        return
    row = int(rows[np.setdiff1d(np.arange(len(keys)), first)[0]])
    whose = f"series {series.texts[series.codes[row]]!r}" if series.texts != [""] else "the only series"
    raise table.fault(
        row,
        f"{whose} has this time twice{' for this channel' if channels > 1 else ''}; if there are more series than "
        "that, pass id= (--id) for the column with their names",
    )
