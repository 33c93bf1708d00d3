"""Series from a source: one file or frame, or many files as one batch of series."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from inspect import signature
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from tempograd.core.errors import DataError, InputError, arg, quote
from tempograd.core.series import Series, is_nested, shared_times
from tempograd.data.columns import Columns
from tempograd.data.files import File, is_many, list_files
from tempograd.data.fragments import Fragment, list_fragments
from tempograd.data.pivot import find_roles
from tempograd.data.reading import in_one_message, read_file, read_frame, read_part, scale_series
from tempograd.data.table import is_frame, open_table

C = TypeVar("C", bound=Columns)


class Source(Columns):
    """Where series are, and which columns or arrays are what."""

    def read(self) -> Series:
        """Read all series."""
        source = replace(self, keep=())  # nothing goes along with them
        if is_frame(self.path):
            return scale_series(read_frame(self.path, source), source)
        files = list_files(self.path)
        if is_many(self.path):
            source = with_channels(files, source)
        parts = [read_file(file, source, alone=len(files) == 1) for file in files]
        return scale_series(_joined(parts), source)

    def fragments(self, size: int = 8_192) -> Iterator[Fragment]:
        """List the parts that runs read one by one, of about ``size`` series, without reading these."""
        return list_fragments(self, size)


Source.__doc__ = Columns.__doc__


def read_series(path: Any, **fields: Any) -> Series:
    r"""Read series from files of one's own, or from a data frame: ``Source(path, …).read()``.

    Arrays (``.npz``, ``.npy``) are taken as they are. Tables (``.csv``, ``.tsv``, ``.parquet``, frames) hold one
    row per series and step, one per series, step and channel, or a whole series in each row; ``.ts`` is the text
    format of the UEA and UCR archives. Missing cells hold 0 in ``x``, which the model reads, and False in
    ``mask``. Series of unequal length stay a list, each of them shown to the model at its own length;
    :meth:`Series.padded` brings them to one.

    Parameters
    ----------
    path : path, address, pattern, folder, list of these, or data frame
    **fields
        Those of ``Source``: which column is what.

    Returns
    -------
    Series
        With the names of series, channels, times and classes. Whole numbers of 64 bits that name the series are
        their ``ids``. Where one of them is anything else, larger numbers included, all ids are texts.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
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
    return Source(path, **fields).read()


_shown = [part for part in signature(Source).parameters.values() if part.name != "keep"]  # which is for runs
read_series.__signature__ = signature(read_series).replace(parameters=_shown)  # type: ignore[attr-defined]


# Many files: the same channels in all of them, one batch of series


def with_channels(files: Sequence[File], source: C, least: int = 2) -> C:
    """Return the source with the channels that ``least`` files or more have: by default those of the first."""
    if len(files) < least:
        return source
    named = [channels_of(file, source) for file in files]
    if source.channels is not None:
        return source
    for file, names in zip(files, named, strict=True):
        for name in sorted({*(names or ())} ^ {*(named[0] or ())}):
            has = "has a" if name in (names or ()) else "has no"
            rule = f"all files must name the same channels, unless {arg:source.channels} chooses some"
            raise DataError(f"{file.where} {has} column {quote(name)}, unlike the first file: {rule}.")
    return replace(source, channels=named[0])


def channels_of(file: File, source: Columns) -> tuple[str, ...] | None:
    """Return the channels that a file names, from its first lines where that can be; None where it names none."""
    if file.ending in {".npy", ".ts"} or (file.ending == ".npz" and source.channels is not None):
        return None
    if file.ending == ".npz":
        return read_part(file, source).channels
    roles = in_one_message(source, lambda asked: find_roles(open_table(file), asked))
    if roles.format == "melted" and source.channels is None:
        return read_part(file, source).channels
    return roles.values if roles.format == "long" else None


def _joined(parts: Sequence[Series]) -> Series:
    """Put the series of several files together, one after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if any(isinstance(part.x, (dict, tuple)) for part in parts):
        raise InputError("Series of several inputs are read from one file.")
    if len({isinstance(part.ids, tuple) for part in parts}) > 1:
        raise DataError(
            "The ids of some files are whole numbers, those of others texts: write all as whole numbers (7, not "
            "007), or put a letter before each (s7)."
        )
    y, classes = _labels(parts)
    ids = [name for part in parts for name in np.asarray(part.ids).tolist()]
    rows = [row for part in parts for row in (part.times if is_nested(part.times) else [part.times] * len(part))]
    times = None if None in rows else shared_times(tuple(rows)) or rows
    names = {"channels": first.channels, "units": first.units, "times": times, "classes": classes}
    return Series(y=y, ids=ids, **{name: _cells(parts, name) for name in ("x", "mask", "truth", "raw")}, **names)


def _cells(parts: Sequence[Series], name: str) -> Any:
    """Return what is shaped like the series, of all parts, or None; a part without a mask has seen all."""
    cells = [getattr(part, name) for part in parts]
    if all(cell is None for cell in cells) or (name != "mask" and any(cell is None for cell in cells)):
        return None
    return [
        row
        for part, cell in zip(parts, cells, strict=True)
        for row in (cell if cell is not None else [torch.ones_like(one, dtype=torch.bool) for one in part.x])
    ]


def _labels(parts: Sequence[Series]) -> tuple[Tensor | None, tuple[str, ...] | None]:
    """Return the labels of all parts, None where one has none; classes that are texts are numbered anew."""
    ys = [part.y for part in parts]
    if any(y is None for y in ys) or len({y.ndim for y in ys}) > 1:
        return None, None
    if any(part.classes is not None for part in parts):
        called = [list(part.classes or map(str, range(int(part.y.max()) + 1))) for part in parts]
        classes = called[0] if all(names == called[0] for names in called) else sorted({*chain(*called)})
        ys = [torch.tensor([classes.index(name) for name in own])[y] for own, y in zip(called, ys, strict=True)]
    else:
        classes = None
    longest = max(y.shape[-1] for y in ys) if ys[0].ndim > 1 else 0
    ys = [torch.nn.functional.pad(y, (0, longest - y.shape[-1])) if longest else y for y in ys]
    return torch.cat(ys), None if classes is None else tuple(classes)
