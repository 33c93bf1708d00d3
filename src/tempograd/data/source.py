"""Where series are and which columns are what; and files or a data frame as one batch of series."""

from dataclasses import dataclass, fields, replace
from inspect import signature
from typing import Any

import numpy as np

from tempograd.core.errors import brief
from tempograd.core.series import Series, is_nested
from tempograd.data.files import list_files, reading
from tempograd.data.fragments import prefixed, stacked_parts
from tempograd.data.pivot import Columns, Part, numbered, read_table
from tempograd.data.reading import in_file, in_one_message, like, own_id, prepared, read_part, sound
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
    partition : str, optional
        One of ``keep``, whose values make folders of results: ``day=2026-01-31/``.
    format : {"long", "wide"}, optional
        ``"long"``: one row per series and step, one column per channel. ``"wide"``: one row per series, one column
        per step, one channel. By default what the names of the columns say.
    classes : tuple of str, optional
        Labels of class 0, 1, …, or names for them where labels are these numbers. By default whole numbers from 0
        up are classes, text and negative numbers are classes in sorted order, and other numbers are values of a
        regression.
    align : {"time", "order"}, optional
        Needed where series have gaps or times of their own. ``"time"``: one step per distinct time of the file,
        missing ones are masked. ``"order"``: the k-th row of a series is its step k. A gap in the even times of
        the only series of a file is refused without that.
    missing : {"error", "mask"}, optional
        What NaN in arrays is: by default a mistake; ``"mask"`` takes it for a missing value, as an empty cell of a
        table is.
    shape : tuple of int, optional
        Steps and channels: of flat lists, and of the longest series of a run that begins with shorter ones.
    scale : str, optional
        A table with the ``mean`` and ``std`` of each ``channel``, those of the model's training, by which values
        are standardised for the model. The file's values stay ``raw``.
    fill : {"forward", "zero"}, optional
        What the model reads in missing cells, which stay masked: the last value before, or the next where there is
        none before; or 0, the default, which is the mean where values are standardised.
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
        source, parts = replace(self, keep=()), list[Part]()  # nothing goes along with them
        if is_frame(self.path):
            part = in_one_message(source, lambda asked: read_table(frame_table(self.path), asked))
            return series_of(prepared(sound(part, source, FRAME), source), source, FRAME)
        files = list_files(self.path)
        for file in files:
            with reading(file.path):
                asked, before = own_id(file, source)
                part = sound(read_part(file, asked), source, file.where)
                part = like(part, parts[0] if parts else part, file.where)
            ids = part.ids
            if ids is None and len(files) > 1:
                ids = [f"{file.origin}:{row}" for row in range(len(part))]
            elif before and ids is not None:
                ids = prefixed(ids, before)
            parts.append(replace(part, ids=ids, more=part.more | {"origins": [file.origin] * len(part)}))
        where = files[0].where if len(files) == 1 else f"{len(files)} files"
        return series_of(prepared(stacked_parts(parts), source), source, where)


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


_shown = [part for part in signature(Source).parameters.values() if part.name not in ("keep", "partition")]
read_series.__signature__ = signature(read_series).replace(parameters=_shown)  # type: ignore[attr-defined]


def series_of(part: Part, source: Columns, where: str) -> Series:
    """Return what readers found as series; those of unequal length are a list."""
    times, y, classes = part.more.get("times"), part.more.get("y"), None
    if y is not None:
        y, classes = numbered(y, source.classes or part.more.get("classes"), where)
    cells = {"x": part.x, "mask": part.mask} | {name: part.more.get(name) for name in ("truth", "raw")}
    if cells["raw"] is not None and part.mask is not None:
        cells["raw"] = np.where(part.mask, cells["raw"], np.nan)
    ends = [] if part.steps is None else part.steps.tolist()
    if part.mask is not None and len(set(ends)) > 1:  # shorter ones have a mask
        for name, rows in cells.items():
            cells[name] = rows if rows is None else [row[:end] for row, end in zip(rows, ends, strict=True)]
        if all(row.all() for row in cells["mask"]):
            cells["mask"] = None
        if times is not None:
            times = [row[: max(ends)] for row in times] if is_nested(times) else times[: max(ends)]
    with in_file(where):
        units = source.units or part.more.get("units")
        return Series(
            y=y, classes=classes, ids=part.ids, channels=part.channels, times=times, units=units, **cells
        )
