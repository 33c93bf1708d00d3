"""Tables as tensors: rows find their series, their step and their channel."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempograd.data._memory import gibibytes, refuse_beyond_memory
from tempograd.data.own.clock import Steps, place_steps
from tempograd.data.own.labels import Labels, read_labels
from tempograd.data.own.roles import Asked, Roles, find_roles
from tempograd.data.own.table import Codes, Floats, Table, Text
from tempograd.errors import DataError, UnknownNameError, listed, quote, short_path

MANY, SPARSE = 10**8, 1000
"""Beyond so many cells, a file must fill one of so many: others are built in vain."""
ORDER = "pass align='order' (--align order) where series have times of their own, or cut the file"
Cells = NDArray[np.float32]


class Arrays(NamedTuple):
    """The content of a file: values (series, time, channel), NaN where there is none, and its names."""

    x: Cells
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
    variable, channels = np.zeros_like(series.codes), roles.values
    if roles.format == "melted":
        variable, channels = _variables(table, texts[str(roles.variable)], asked.channels)
    cells = empty(table.path, (len(series.texts), steps.total, len(channels)), values.size, ORDER)
    if roles.format == "melted":
        _refuse_twice(table, series, steps, variable, len(channels))
        rows = np.flatnonzero(variable < len(channels))  # the others are of channels that nobody asked for
        cells[series.codes[rows], steps.places[rows], variable[rows]] = values[rows, 0]
    else:
        _refuse_twice(table, series, steps, variable, 1)
        cells[series.codes, steps.places] = values
    labels = None
    if roles.label and asked.labels:
        labels = read_labels(table, texts[roles.label], series, steps, asked.classes)
    return Arrays(cells, channels, steps.names, series.texts if roles.id else None, labels)


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


def _wide(table: Table, roles: Roles, asked: Asked, texts: dict[str, Text], values: Floats) -> Arrays:
    if asked.channels is not None and len(asked.channels) != 1:
        raise DataError(
            f"{short_path(table.path)} has one row per series, and so one channel: name one in channels=, got "
            f"{listed(asked.channels)}."
        )
    names = None
    if roles.id:
        series = texts[roles.id]
        if len(series.texts) < len(values):
            row = next(row for row, code in enumerate(series.codes) if code < row)
            raise table.fault(row, f"the series {quote(series.texts[series.codes[row]])} is there twice")
        names = series.texts
    labels = None
    if roles.label and asked.labels:
        rows = np.arange(len(values))
        own = Text(rows, [str(row) for row in rows])
        steps = Steps(np.zeros(len(values), np.int64), 1, None)
        labels = read_labels(table, texts[roles.label], own, steps, asked.classes)
    return Arrays(values[:, :, None].astype(np.float32), asked.channels, roles.values, names, labels)


def _variables(table: Table, variable: Text, asked: tuple[str, ...] | None) -> tuple[Codes, tuple[str, ...]]:
    """Return the channel of every row and the channels' names, sorted unless somebody says otherwise.

    Sorted, since the order of rows may differ between two files of the same channels.
    """
    known = set(variable.texts)
    for name in asked or ():
        if name not in known:
            raise UnknownNameError(f"channel of {short_path(table.path)}", name, variable.texts)
    channels = asked or tuple(sorted(variable.texts))
    rank = {name: number for number, name in enumerate(channels)}
    ranks = np.array([rank.get(name, len(channels)) for name in variable.texts])
    return ranks[variable.codes], channels


def _refuse_twice(table: Table, series: Text, steps: Steps, variable: Codes, channels: int) -> None:
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
        "that, pass id= (--id) for the column with their names",
    )
