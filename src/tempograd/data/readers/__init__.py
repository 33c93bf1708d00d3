"""Series from one's own files: arrays, tables in three forms, and the text format of the UEA archive."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import DataError, InputError, quote, short_path
from tempograd.core.io import as_path
from tempograd.core.series import Series
from tempograd.data.files import reading
from tempograd.data.readers.array_file import from_arrays
from tempograd.data.readers.csv_file import CsvTable
from tempograd.data.readers.frame import FRAME, FrameTable, is_frame
from tempograd.data.readers.parquet_file import ParquetTable
from tempograd.data.readers.pivot import Arrays, ReadOptions, pivot_table
from tempograd.data.readers.ts_file import from_ts
from tempograd.typing import Align, Frame, Missing, TableFormat

WHOLE = re.compile("0|-?[1-9][0-9]{0,18}")  # as Python would write it back
ENDINGS = (".npz", ".npy", ".csv", ".tsv", ".parquet", ".ts")
PACKED = (".csv", ".tsv", ".ts")


def read_series(
    path: str | Path | Frame,
    *,
    format: TableFormat | None = None,  # noqa: A002  # the words of the command line
    id: str | None = None,  # noqa: A002
    time: str | None = None,
    label: str | None = None,
    variable: str | None = None,
    value: str | None = None,
    channels: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    align: Align | None = None,
    missing: Missing | None = None,
    labels: bool = True,
    inputs: Sequence[str] | None = None,
    fixed: Sequence[str] | None = None,
) -> Series:
    r"""Read series from a file of one's own, or from a data frame.

    Arrays (``.npz``, ``.npy``) are taken as they are. Tables (``.csv``, ``.tsv``, ``.parquet``) have one of three
    forms, and ``.ts`` is the text format of the UEA and UCR archives. Text files may be gzipped (``.csv.gz``).
    Missing cells hold 0 in ``x``, which the model reads, and False in ``mask``. Series of unequal length stay a
    list, each of them shown to the model at its own length; :meth:`Series.padded` brings them to one.

    Parameters
    ----------
    path : path or data frame
        Its ending tells the kind of file. A data frame, of pandas or another library, is a table like those of
        files; an index with a name is a column of it.
    format : {"long", "melted", "wide"}, optional
        ``"long"``: one row per series and step, one column per channel. ``"melted"``: one row per series, step and
        channel, with its value. ``"wide"``: one row per series, one column per step, one channel. By default what
        the names of the columns say; where they do not, an error lists them.
    id, time, label : str, optional
        Columns with the series' names, the time (numbers or ISO dates) and the label. By default the ones with an
        obvious name, such as ``id``, ``time`` or ``label``. A long table without an ``id`` holds one series.
    variable, value : str, optional
        Columns of a melted table with the channels' names and the values.
    channels : sequence of str, optional
        Which channels, in which order. By default all: those of a long table as they come, those of a melted one
        sorted. Where a file does not name its channels, these are their names.
    classes : sequence of str, optional
        Labels of class 0, 1, …, or names for them where labels are these numbers. By default whole numbers from 0
        up are classes, text and negative numbers are classes in sorted order (``Series.classes`` tells), and other
        numbers are values of a regression.
    align : {"time", "order"}, optional
        Needed where series have gaps or times of their own. ``"time"``: one step per distinct time of the file,
        missing ones are masked. ``"order"``: the k-th row of a series is its step k, and ``times`` holds the
        stamps of each series.
    missing : {"error", "mask"}, optional
        What NaN in arrays (``.npy``, ``.npz``) is: by default a mistake; ``"mask"`` takes it for a missing value,
        masked and 0 as an empty cell of a table is.
    labels : bool, default=True
        Whether to read labels and truth.
    inputs, fixed : sequence of str, optional
        For a model that takes several: the names of the arrays of a ``.npz`` file that are its inputs, instead of
        ``x``, and of those that go along with them. ``x`` is then a mapping of them, and ``fixed`` of the others.

    Returns
    -------
    Series
        With the names of series, channels, times and classes. Whole numbers of 64 bits that name the series are
        their ``ids``. Where one of them is anything else, larger numbers included, all ids are texts.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "ward.csv"
    >>> rows = "bed,time,pulse,sodium,label", "A,0,80,140,well", "A,1,82,,well", "B,0,95,133,ill"
    >>> _ = path.write_text("\n".join(rows))
    >>> ward = read_series(path, id="bed")
    >>> ward
    Series(2 series × 2 steps × 2 channels, 2 classes)
    >>> ward.ids, ward.channels, ward.classes, ward.y
    (('A', 'B'), ('pulse', 'sodium'), ('ill', 'well'), tensor([1, 0]))
    >>> ward.mask[0]
    tensor([[ True,  True],
            [ True, False]])
    """
    columns = (format, id, time, label, variable, value)
    named = (_names(channels, "channels"), _names(classes, "classes"))
    arrays = (_names(inputs, "inputs"), _names(fixed, "fixed"))
    options = ReadOptions(*columns, *named, align, missing, labels, *arrays)
    if is_frame(path):
        if inputs is not None or fixed is not None:
            raise DataError("A data frame holds one table: several inputs are read from .npz files.")
        return _series(FRAME, pivot_table(FrameTable(path), options))
    path = as_path(path)
    packed = path.suffix == ".gz"
    ending = Path(path.name.removesuffix(".gz")).suffix.lower()
    if ending not in (PACKED if packed else ENDINGS):
        known = f"{', '.join(PACKED)} before .gz" if packed else ", ".join(ENDINGS)
        kind = "gzipped files" if packed else "files"
        raise DataError(f"{short_path(path)} cannot be read: {kind} of series end in {known}.")
    if ending != ".npz" and (inputs is not None or fixed is not None):
        raise DataError(f"{short_path(path)} holds one array: several inputs are read from .npz files.")
    with reading(path):
        if ending in {".npz", ".npy"}:
            return from_arrays(path, options)
        if ending == ".ts":
            return _series(path, from_ts(path, options))
        return _series(path, pivot_table(ParquetTable(path) if ending == ".parquet" else CsvTable(path), options))


def _names(given: Sequence[str] | None, what: str) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = given if isinstance(given, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"{what} must be a list of names, got {quote(given)}.")
    return tuple(names)


def _series(path: Path, arrays: Arrays) -> Series:
    observed = np.isfinite(arrays.x)
    if not observed.any():
        raise DataError(f"{short_path(path)} holds no value at all: every cell is missing.")
    arrays.x[~observed] = 0
    labels, x, mask = arrays.labels, torch.from_numpy(arrays.x), torch.from_numpy(observed)
    ends = validation.lengths(mask, x).clamp(min=1).tolist()
    unequal = len(set(ends)) > 1
    return Series(
        [series[:end] for series, end in zip(x, ends, strict=True)] if unequal else x,
        None if labels is None else torch.from_numpy(labels.y),
        mask=_missing(mask, ends) if unequal else None if observed.all() else mask,
        ids=_identify(arrays.names),
        channels=arrays.channels,
        times=arrays.times,
        classes=None if labels is None else labels.classes,
    )


def _missing(mask: Tensor, ends: Sequence[int]) -> list[Tensor] | None:
    """Return what was observed of each series up to its end; None where that is all of it."""
    parts = [seen[:end] for seen, end in zip(mask, ends, strict=True)]
    return None if all(bool(part.all()) for part in parts) else parts


def _identify(names: list[str] | None) -> Tensor | tuple[str, ...] | None:
    """Return whole numbers as numbers, and any other names as texts."""
    if names is None:
        return None
    if all(map(WHOLE.fullmatch, names)) and all(-(2**63) <= int(name) < 2**63 for name in names):
        return torch.tensor([int(name) for name in names])
    return tuple(names)
