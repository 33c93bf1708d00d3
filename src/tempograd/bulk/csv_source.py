"""CSV and ``.ts`` files of a run: their channels by name, in one order for all files, and their ids."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tempograd.bulk.sources import ArrayBatch, Columns, Fragment
from tempograd.core.errors import DataError, InputError, arg, listed, quote, short_path
from tempograd.data import Series, read_series
from tempograd.data.readers.csv_file import CsvTable
from tempograd.data.readers.pivot import ColumnRoles, ReadOptions, find_roles


def with_table_channels(fragments: Sequence[Fragment], columns: Columns) -> Columns:
    """Return the columns with the channels that all tables have, those of the first unless somebody chose.

    The column names of all files are read, so that one with others is refused before anything starts.
    """
    tables = [fragment for fragment in fragments if fragment.kind == "table"]
    _refuse_columns_of_none(fragments, columns)
    if not tables:
        if columns.label is not None:
            raise InputError(
                f"{arg:source.label} names a column of CSV files, which is then no channel: there are none here."
            )
        return replace(columns, channels=None, chosen=False)
    _refuse_other_columns(columns)
    if columns.channels is None:
        columns = replace(columns, channels=_channels(tables[0], columns))
    others = [fragment for fragment in fragments if fragment.kind != "table"]
    if others:
        _order(others[0], None, columns)
    for fragment in tables:
        roles = _roles(fragment, columns)
        if roles is None or roles.format != "melted":  # whose rows name the channels
            _order(fragment, roles.values if roles is not None and roles.format == "long" else None, columns)
    return columns


def read_table(fragment: Fragment, columns: Columns) -> ArrayBatch:
    """Read a table whole, its channels in the order of the run."""
    found = _read(fragment, columns)
    order = _order(fragment, found.channels, columns)
    x, mask = found.x.numpy(), None if found.mask is None else found.mask.numpy()
    if order is not None:
        x, mask = x[..., order], None if mask is None else mask[..., order]
    return ArrayBatch(_ids(found, fragment, columns), x, mask)


def _read(fragment: Fragment, columns: Columns) -> Series:
    return read_series(
        fragment.path,
        id=_id(columns),
        time=columns.time,
        label=None if _is_ts(fragment) else columns.label,
        channels=columns.channels if columns.chosen else None,
        align=columns.align,
        labels=False,
    ).padded()


def _id(columns: Columns) -> str | None:
    return None if columns.id == "id" else columns.id  # the default is found where it is there


def _is_ts(fragment: Fragment) -> bool:
    return fragment.path.lower().removesuffix(".gz").endswith(".ts")


def _roles(fragment: Fragment, columns: Columns) -> ColumnRoles | None:
    """Tell what the columns of a file are, from its first line alone; None where it names none."""
    if _is_ts(fragment):
        return None
    chosen = columns.channels if columns.chosen else None
    options = ReadOptions(
        id=_id(columns),
        time=columns.time,
        label=columns.label,
        channels=chosen,
        align=columns.align,
        labels=False,
    )
    return find_roles(CsvTable(Path(fragment.path)), options)


def _channels(fragment: Fragment, columns: Columns) -> tuple[str, ...] | None:
    """Return the channels of a file by name; those of a melted one stand in its rows."""
    roles = _roles(fragment, columns)
    if roles is None or roles.format == "wide":
        return None
    return roles.values if roles.format == "long" else _read(fragment, columns).channels


def _order(fragment: Fragment, names: Sequence[str] | None, columns: Columns) -> list[int] | None:
    """Return where the channels of the run stand in a file; one that lacks some, or has others, is refused."""
    wanted, path = columns.channels, short_path(fragment.path)
    if columns.chosen or names == wanted:
        return None
    if names is None or wanted is None:
        if len(names or wanted or ()) == 1:
            return None
        does = (
            "does not name its channels, and others do"
            if names is None
            else "names its channels, and others do not"
        )
        raise DataError(
            f"{path} {does}: choose them with {arg:source.channels}, in the order of the files without names."
        )
    rule = f"a run has the channels {listed(wanted)}, unless {arg:source.channels} chooses some that all have"
    for name in wanted:
        if name not in names:
            raise DataError(f"{path} has no column {quote(name)}, which the first file has: {rule}.")
    for name in names:
        if name not in wanted:
            raise DataError(f"{path} has a column {quote(name)}, which the first file has not: {rule}.")
    return [list(names).index(name) for name in wanted]


def _ids(found: Series, fragment: Fragment, columns: Columns) -> NDArray[np.generic]:
    """Return what a file calls its series; where it does not, they are numbered, in several files by file too."""
    if isinstance(found.ids, tuple):
        return np.array(found.ids)
    roles = _roles(fragment, columns)
    if fragment.alone or (roles is not None and roles.id is not None):
        numbers: NDArray[np.generic] = found.ids.numpy()
        return numbers
    return np.array([f"{fragment.origin}:{row}" for row in range(len(found))])


def _refuse_columns_of_none(fragments: Sequence[Fragment], columns: Columns) -> None:
    """Refuse columns for files that have none, where they would be overlooked."""
    asked = [name for name, given in (("x", columns.x != "x"), ("label", columns.label is not None)) if given]
    for fragment in fragments if asked else ():
        if fragment.kind == "array" or (fragment.kind == "table" and _is_ts(fragment)):
            raise InputError(
                f"{arg:source.{asked[0]}} names columns, and {short_path(fragment.path)} has none: leave it out."
            )


def _refuse_other_columns(columns: Columns) -> None:
    """Refuse what is of Parquet and arrays alone."""
    if columns.mask is not None:
        raise InputError(
            f"{arg:series.mask} is for Parquet and arrays: empty cells of CSV files are missing values."
        )
    if columns.keep:
        raise InputError(
            f"{arg:source.keep} names columns of Parquet files: arrays and other tables have none to keep."
        )
