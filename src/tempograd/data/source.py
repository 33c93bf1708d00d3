"""Where series are and which columns are what; and files or a data frame as one batch of series."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from inspect import signature
from typing import Any

import numpy as np
import torch

from tempograd.core import validation
from tempograd.core.errors import DataError, arg, brief
from tempograd.core.series import Series, is_nested, shared_times
from tempograd.data.columns import Columns, Part
from tempograd.data.files import list_files, reading
from tempograd.data.fragments import TWO_KINDS, Fragment, prefixed
from tempograd.data.inspection import inspect_files, joined_fragments
from tempograd.data.pivot import read_table
from tempograd.data.reading import in_file, in_one_message, like, own_id, read_part, scaled_cells
from tempograd.data.table import FRAME, frame_table, is_frame


@dataclass(frozen=True, repr=False)
class Source(Columns):
    """Where series are, and which columns or arrays are what.

    Whatever is true of one file may be said of many: a file, a pattern, a folder and a lake of folders such as
    ``day=2026-01-31/`` are read alike, with the same fields and to the same series.

    Parameters
    ----------
    path : path, address, pattern, folder, list of these, or data frame
        ``.csv`` and ``.tsv`` (also gzipped), ``.parquet``, ``.ts``, ``.npz``, ``.npy``; any address that pyarrow
        or fsspec opens, such as ``s3://…``; frames of pandas, polars and pyarrow. Tables of many files become one
        batch of series, each file with its own.
    x : str, optional
        The column of a Parquet file that holds a whole series in each row, as a list of T lists of D numbers, or
        flat with ``shape``. By default ``"x"``, or the only column of lists.
    id, time, label : str, optional
        Columns with the series' names, the time (numbers or ISO dates) and the label. By default the ones with an
        obvious name, such as ``id``, ``time`` or ``label``. A long table without an ``id`` holds one series. Where
        folders such as ``day=…/`` hold the same series again, ``id="day,machine"`` tells them apart.
    mask : str, optional
        A column like ``x`` that tells what was observed.
    channels : tuple of str, optional
        Which channels, in which order. By default all as they come. Where a file does not name its channels, these
        are their names.
    units : tuple of str, optional
        What the channels are measured in.
    keep : tuple of str
        Columns that go along to the results of a run; folders such as ``day=…/`` make columns too.
    format : {"long", "wide"}, optional
        ``"long"``: one row per series and step, one column per channel. ``"wide"``: one row per series, one column
        per step, one channel. By default what the names of the columns say.
    classes : tuple of str, optional
        Labels of class 0, 1, …, or names for them where labels are these numbers. By default whole numbers from 0
        up are classes, text and negative numbers are classes in sorted order, and other numbers are values of a
        regression.
    align : {"time", "order"}, optional
        Needed where series have gaps or times of their own. ``"time"``: one step per distinct time of the file,
        missing ones are masked. ``"order"``: the k-th row of a series is its step k.
    missing : {"error", "mask"}, optional
        What NaN in arrays is: by default a mistake; ``"mask"`` takes it for a missing value, as an empty cell of a
        table is.
    shape : tuple of int, optional
        Steps and channels, where series are flat lists.
    scale : str, optional
        A table with the ``mean`` and ``std`` of each ``channel``, by which values are standardised for the model;
        ``"standard"`` takes those of these series. The file's values stay ``raw``.
    fill : {"forward", "mean", "zero"}, optional
        What the model reads in missing cells, which stay masked: the last value before, the channel's mean, or 0,
        the default. ``"forward"`` takes the next value where there is none before.
    labels : bool
        Whether labels and truth are read.

    Examples
    --------
    >>> import tempograd as tg
    >>> tg.Source("machines.csv", id="machine_id", label="status")
    Source('machines.csv', id='machine_id', label='status')
    """

    path: Any

    def __repr__(self) -> str:
        parts = [repr(self.path) if isinstance(self.path, str) else brief(self.path)]
        usual = {each.name: each.default for each in fields(self)}
        parts += [f"{name}={value!r}" for name, value in self.plain.items() if value != usual[name]]
        return f"Source({', '.join(parts)})"

    def read(self) -> Series:
        """Read all series; those without names are called after their file where there are several."""
        source = replace(self, keep=())  # nothing goes along with them
        if is_frame(self.path):
            part = in_one_message(source, lambda asked: read_table(frame_table(self.path), asked))
            return _scaled(series_of(part, source, FRAME), source)
        files, parts = list_files(self.path), list[Series]()
        for file in files:
            with reading(file.path):
                asked, before = own_id(file, source)
                part = read_part(file, asked)
                if before and part.ids is not None:
                    part = replace(part, ids=prefixed(part.ids, before))
                if parts:
                    part = like(part, parts[0].channels, file.where)
                series = series_of(part, source, file.where)
            if len(files) > 1 and part.ids is None:
                series = replace(series, ids=[f"{file.origin}:{row}" for row in range(len(series))])
            parts.append(series)
        return _scaled(_joined(parts), source)

    def fragments(self, size: int = 8_192) -> Iterator[Fragment]:
        """List the parts that runs read one by one, of about ``size`` series, without reading these."""
        found = inspect_files(self.path, self, size)
        for error in filter(None, (each.error for each in found)):
            raise DataError(error)
        yield from joined_fragments(found, size)


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


def series_of(part: Part, source: Columns, where: str) -> Series:
    """Return what a reader found, checked; series of unequal length stay a list."""
    for row, why in sorted(part.faults.items()):
        raise DataError(f"{where}, row {row + 1}: {why}.")
    more = part.more
    with in_file(where):
        gaps, marking = source.missing == "mask", f"{arg:source.missing=mask}"
        x: Any = validation.check_series(part.x, gaps=gaps, marking=marking)
        mask: Any = None if part.mask is None else validation.check_mask(part.mask, x)
        x, mask, _ = validation.without_gaps(x, mask, None, "x")
        ends = [] if part.steps is None else part.steps.tolist()
        if mask is not None and len(set(ends)) > 1:  # shorter ones have a mask
            longest, times = max(ends), more.get("times")
            if times is not None:
                more = more | {"times": [row[:longest] for row in times] if is_nested(times) else times[:longest]}
            x, mask = ([row[:end] for row, end in zip(cells, ends, strict=True)] for cells in (x, mask))
            mask = None if all(bool(cells.all()) for cells in mask) else mask
        return Series(x, mask=mask, ids=part.ids, channels=part.channels, **more)


def _joined(parts: Sequence[Series]) -> Series:
    """Put the series of several files together, one after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if len({isinstance(part.ids, tuple) for part in parts}) > 1:
        raise DataError(TWO_KINDS.format("some files", "others"))
    joined: dict[str, Any] = {"classes": first.classes, "channels": first.channels, "units": first.units}
    for name in ("x", "mask", "truth", "raw"):  # a part without a mask has seen all
        cells = [getattr(part, name) for part in parts]
        if name == "mask" and any(cell is not None for cell in cells):
            every = ([torch.ones_like(row, dtype=torch.bool) for row in part.x] for part in parts)
            cells = [seen if cell is None else cell for cell, seen in zip(cells, every, strict=True)]
        joined[name] = None if any(cell is None for cell in cells) else [row for cell in cells for row in cell]
    rows = [row for part in parts for row in (part.times if is_nested(part.times) else [part.times] * len(part))]
    joined["times"] = None if None in rows else shared_times(tuple(rows)) or rows
    joined["ids"] = [name for part in parts for name in np.asarray(part.ids).tolist()]
    if any(part.y is None for part in parts) or len({part.y.ndim for part in parts}) > 1:
        return Series(**joined | {"classes": None})
    labels = [part.y.numpy() for part in parts]
    if len({part.classes for part in parts}) > 1:  # texts, which are numbered anew
        called = [part.classes or tuple(map(str, range(int(part.y.max()) + 1))) for part in parts]
        joined["classes"] = tuple(sorted({name for names in called for name in names}))
        labels = [np.searchsorted(joined["classes"], names)[y] for names, y in zip(called, labels, strict=True)]
    longest = max(y.shape[-1] for y in labels)
    labels = [y if y.ndim == 1 else np.pad(y, ((0, 0), (0, longest - y.shape[1]))) for y in labels]
    return Series(y=np.concatenate(labels), **joined)


def _scaled(series: Series, source: Columns) -> Series:
    """Return series as a source says that the model reads them; what they were is kept to be shown."""
    if source.units is not None:
        series = replace(series, units=source.units)
    if source.scale is None and source.fill in {None, "zero"}:
        return series
    padded = series.padded()
    z = scaled_cells(padded.x, padded.mask, source, series.channels)
    return series.scaled([row[: len(part)] for row, part in zip(z, series.x, strict=True)])
