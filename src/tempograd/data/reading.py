"""Series from a source: one file or many, one table or arrays, scaled for the model where that is asked for."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import DataError, InputError, TempogradError, arg, listed, quote
from tempograd.core.series import Series, is_nested
from tempograd.data.files import File, is_many, list_files
from tempograd.data.readers.array_file import from_arrays
from tempograd.data.readers.arrow_table import FRAME, frame_table, is_frame, parquet_table
from tempograd.data.readers.columns import Table
from tempograd.data.readers.csv_file import CsvTable
from tempograd.data.readers.pivot import TableContent, read_table
from tempograd.data.readers.roles import UnclearError, find_roles, written
from tempograd.data.readers.ts_file import from_ts
from tempograd.data.scaling import scale_series
from tempograd.data.source import Source

T = TypeVar("T")
LONGEST_PATH = 90  # characters that a message repeats
ARRAYS, TEXTS = (".npz", ".npy"), (".csv", ".tsv")


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


def read_source(source: Source) -> Series:
    """Read all series of a source; nothing goes along with them."""
    source = replace(source, keep=())
    if is_frame(source.path):
        _refuse_inputs(source, FRAME)
        series = in_one_message(
            source, lambda asked: series_of(read_table(frame_table(source.path), asked), asked, FRAME)
        )
        return scale_series(series, source)
    files = list_files(source.path)
    if is_many(source.path):
        source = with_channels(files, source)
    parts = [(read_file(file, source), file) for file in files]
    return scale_series(_joined([_named(part, file, alone=len(files) == 1) for part, file in parts]), source)


def read_file(file: File, source: Source) -> Series:
    """Read one file as it is."""
    with file.reading():
        if file.ending in ARRAYS:
            return from_arrays(file, source)
        return in_one_message(source, lambda asked: series_of(read_content(file, asked), asked, file.where))


def read_content(file: File, source: Source) -> TableContent:
    """Read a table or a .ts file."""
    _refuse_inputs(source, file.where)
    if file.ending == ".ts":
        return from_ts(file, source)
    return read_table(open_table(file), source)


def open_table(file: File) -> Table:
    """Open a file with named columns."""
    return CsvTable(file) if file.ending in TEXTS else parquet_table(file)


def in_one_message(source: Source, read: Callable[[Source], T]) -> T:
    """Read a source; everything that is unclear comes in one message, which ends with what to write.

    What a message proposes is tried, so that what is wrong with the next column is known as well.
    """
    complaints: list[str] = []
    fixed, first, fix = source, None, dict[str, Any]()
    while True:
        try:
            found = read(fixed)
        except TempogradError as error:
            first = first or error
            complaints.append(error.what if isinstance(error, UnclearError) else error.finding.text.rstrip("."))
            more = getattr(error, "fix", {})
            if more and not more.keys() <= fix.keys():
                fix |= more
                fixed = replace(fixed, **more)
                continue
        else:
            if first is None:
                return found
        break
    if not fix or not isinstance(first, UnclearError):
        raise first
    given = {name: value for name, value in source.plain.items() if value not in (None, ()) and name != "labels"}
    place = repr(str(source.path)) if isinstance(source.path, (str, Path)) else "frame"
    place = place if len(place) <= LONGEST_PATH else "path"
    call = f"{arg:source.and}".join([f"{arg:source.call={place}}", *written(given | fix)])
    raise UnclearError(first.where, "; ".join(complaints), fix, f"write {call}{arg:source.end}") from None


def series_of(content: TableContent, source: Source, where: str) -> Series:
    """Return what a table holds; series of unequal length stay a list."""
    for row, why in sorted(content.faults.items()):
        raise DataError(f"{where}, row {row + 1}: {why}.")
    x, mask = torch.from_numpy(content.x), None if content.mask is None else torch.from_numpy(content.mask)
    try:
        x = validation.check_series(x, gaps=source.missing == "mask", marking=f"{arg:source.missing=mask}")
        x, mask, _ = validation.without_gaps(x, mask, None, "x")
        ends, labels = content.steps.tolist(), content.labels
        unequal, longest = len(set(ends)) > 1, max(ends)
        times = content.times
        if unequal and times is not None:
            times = tuple(row[:longest] for row in times) if is_nested(times) else times[:longest]
        return Series(
            [series[:end] for series, end in zip(x, ends, strict=True)] if unequal else x,
            None if labels is None else torch.from_numpy(labels.y),
            mask=_missing(mask, ends) if unequal and mask is not None else mask,
            ids=content.ids,
            channels=content.channels,
            times=times,
            classes=None if labels is None else labels.classes,
        )
    except InputError as error:
        raise DataError(f"{where}: {error.finding.text}", code=error.code) from error


def _missing(mask: Tensor, ends: Sequence[int]) -> list[Tensor] | None:
    """Return what was observed of each series up to its end; None where that is all of it."""
    parts = [seen[:end] for seen, end in zip(mask, ends, strict=True)]
    return None if all(bool(part.all()) for part in parts) else parts


def _refuse_inputs(source: Source, where: str) -> None:
    if source.inputs is not None or source.fixed is not None:
        raise DataError(f"{where} holds one table: several inputs are read from .npz files.")


# Many files: the same channels in all of them, one batch of series


def with_channels(files: Sequence[File], source: Source, least: int = 2) -> Source:
    """Return the source with the channels that ``least`` files or more have: by default those of the first."""
    if len(files) < least:
        return source
    wanted = None
    for file in files:
        names = channels_of(file, source)
        if source.channels is not None:
            continue
        if file is files[0]:
            wanted = names
        if (names is None) != (wanted is None):
            does = (
                "does not name its channels, and others do"
                if names is None
                else "names its channels, and others do not"
            )
            advice = f"choose them with {arg:source.channels}, in the order of the files without names"
            raise DataError(f"{file.where} {does}: {advice}.")
        for name in sorted({*(names or ())} ^ {*(wanted or ())}):
            has = "has a" if name in (names or ()) else "has no"
            same = f"all files must have the channels {listed(wanted or ())}"
            rule = f"{same}, unless {arg:source.channels} chooses some"
            raise DataError(f"{file.where} {has} column {quote(name)}, unlike the first file: {rule}.")
    return source if wanted is None else replace(source, channels=wanted)


def channels_of(file: File, source: Source) -> tuple[str, ...] | None:
    """Return the channels that a file names, from its first lines where that can be; None where it names none."""
    if file.ending in {".npy", ".ts"} or (file.ending == ".npz" and source.channels is not None):
        return None
    if file.ending == ".npz":
        channels: tuple[str, ...] | None = from_arrays(file, source).channels
        return channels
    roles = in_one_message(source, lambda asked: find_roles(open_table(file), asked))
    if roles.format == "melted" and source.channels is None:
        return read_content(file, source).channels
    return roles.values if roles.format == "long" else None


def _named(series: Series, file: File, *, alone: bool) -> Series:
    """Return the series of a file; those without names are called after their file where there are several."""
    if alone or not torch.equal(series.keys, torch.arange(len(series))) or isinstance(series.ids, tuple):
        return series
    return replace(series, ids=[f"{file.origin}:{row}" for row in range(len(series))])


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
    return Series(
        _cells(parts, "x"),
        y,
        ids=list(chain.from_iterable(np.asarray(part.ids).tolist() for part in parts)),
        **{name: _cells(parts, name) for name in ("mask", "truth", "raw")},
        channels=first.channels,
        units=first.units,
        times=_times(parts),
        classes=classes,
    )


def _cells(parts: Sequence[Series], name: str) -> Any:
    """Return what is shaped like the series, of all parts, or None; a part without a mask has seen all."""
    cells = [getattr(part, name) for part in parts]
    if all(cell is None for cell in cells) or (name != "mask" and any(cell is None for cell in cells)):
        return None
    rows = [
        row
        for part, cell in zip(parts, cells, strict=True)
        for row in (cell if cell is not None else [torch.ones_like(one, dtype=torch.bool) for one in part.x])
    ]
    return rows if len({*map(len, rows)}) > 1 else torch.stack(rows)


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


def _times(parts: Sequence[Series]) -> Any:
    """Return the times that all parts have, or those of each series."""
    known = [part.times for part in parts]
    if any(times is None for times in known):
        return None
    if all(times == known[0] for times in known) and not is_nested(known[0]):
        return known[0]
    longest = max(part.shape[1] for part in parts)
    rows = [row for part in parts for row in (part.times if is_nested(part.times) else [part.times] * len(part))]
    return [[*row, *[None] * (longest - len(row))] for row in rows]
