"""Files and data frames as one batch of series: read, checked, and scaled for the model where that is asked."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import DataError, InputError, TempogradError, arg, one_line, quote
from tempograd.core.series import Series, is_nested, shared_times
from tempograd.data.arrays import NAMES, load_arrays, read_arrays
from tempograd.data.files import File, is_many, list_files, reading
from tempograd.data.pivot import UnclearError, as_numbers, find_roles, observed, read_table, require_names, written
from tempograd.data.source import STANDARD, Part, Source
from tempograd.data.table import (
    FRAME,
    LARGEST,
    CsvTable,
    Doubles,
    Text,
    frame_table,
    is_frame,
    open_table,
    parse_number,
    parse_numbers,
)

T = TypeVar("T")
LONGEST_PATH = 90  # characters that a message repeats
ARRAYS = (".npz", ".npy")
ALIASES = {"@targetlabel": "@classlabel", "@dimension": "@dimensions"}  # in the header of a .ts file


def read_all(source: Source) -> Series:
    """Read all series of a source; those without names are called after their file where there are several."""
    if is_frame(source.path):
        part = in_one_message(source, lambda asked: read_table(frame_table(source.path), asked))
        return scale_series(series_of(part, source, FRAME), source)
    files = list_files(source.path)
    if is_many(source.path):
        source = with_channels(files, source)
    parts = []
    for file in files:
        with reading(file.path):
            part = read_part(file, source)
            series = series_of(part, source, file.where)
        if len(files) > 1 and part.ids is None:
            series = replace(series, ids=[f"{file.origin}:{row}" for row in range(len(series))])
        parts.append(series)
    return scale_series(_joined(parts), source)


def read_part(file: File, source: Source, names: Sequence[str] = NAMES) -> Part:
    """Read the arrays of one file, those of ``names`` alone where they have names."""
    if file.ending in ARRAYS:
        with _in_file(file.where):
            return read_arrays(file, source, names)
    if file.ending == ".ts":
        return read_ts(file, source)
    return in_one_message(source, lambda asked: read_table(open_table(file), asked))


@contextmanager
def _in_file(where: str) -> Iterator[None]:
    """Say in which file something is wrong with series."""
    try:
        yield
    except InputError as error:
        raise DataError(f"{where}: {one_line(error.finding.text, 240)}", code=error.code) from error


def in_one_message(source: Source, read: Callable[[Source], T]) -> T:
    """Read a source; everything that is unclear comes in one message, which ends with what to write.

    What a message proposes is tried, so that what is wrong with the next column is known as well.
    """
    try:
        return read(source)
    except UnclearError as error:
        if not error.fix:
            raise
        where, what, fix = error.where, error.what, error.fix
    try:
        in_one_message(replace(source, **fix), read)
    except UnclearError as error:
        what, fix = f"{what}; {error.what}", fix | error.fix
    except TempogradError as error:
        what = f"{what}; {error.finding.text.rstrip('.')}"
    given = {name: value for name, value in source.plain.items() if value not in (None, ()) and name != "labels"}
    place = repr(str(source.path)) if isinstance(source.path, (str, Path)) else "frame"
    place = place if len(place) <= LONGEST_PATH else "path"
    call = f"{arg:source.and}".join([f"{arg:source.call={place}}", *written(given | fix)])
    raise UnclearError(where, what, fix, f"write {call}{arg:source.end}")


def series_of(part: Part, source: Source, where: str) -> Series:
    """Return what a reader found, checked; series of unequal length stay a list."""
    for row, why in sorted(part.faults.items()):
        raise DataError(f"{where}, row {row + 1}: {why}.")
    gaps, more = source.missing == "mask", part.more
    if (source.inputs and not isinstance(part.x, dict)) or (source.fixed and "fixed" not in more):
        raise DataError(f"{where} holds one table: several inputs are read from .npz files.")
    with _in_file(where):
        if isinstance(part.x, dict):
            return Series(part.x, mask="nan" if gaps else None, ids=part.ids, **more)
        x = validation.check_series(part.x, gaps=gaps, marking=f"{arg:source.missing=mask}")
        mask = None if part.mask is None else validation.check_mask(part.mask, x)
        values: Any
        seen: Any
        values, seen, _ = validation.without_gaps(x, mask, None, "x")
        ends = [] if part.steps is None else part.steps.tolist()
        if mask is not None and len(set(ends)) > 1:  # shorter ones have a mask
            longest, times = max(ends), more.get("times")
            if times is not None:
                more = more | {"times": [row[:longest] for row in times] if is_nested(times) else times[:longest]}
            values, seen = ([row[:end] for row, end in zip(cells, ends, strict=True)] for cells in (x, mask))
            seen = None if all(bool(cells.all()) for cells in seen) else seen
        return Series(values, mask=seen, ids=part.ids, channels=part.channels, **more)


# Many files: the same channels in all of them, one batch of series


def with_channels(files: Sequence[File], source: Source, least: int = 2) -> Source:
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


def channels_of(file: File, source: Source) -> tuple[str, ...] | None:
    """Return the channels that a file names, from its first lines where that can be; None where it names none."""
    form = ""
    if file.ending in {".csv", ".tsv", ".parquet"}:
        roles = in_one_message(source, lambda asked: find_roles(open_table(file), asked))
        form = roles.format
        if form == "long":
            return roles.values
    named = form == "melted" or file.ending == ".npz"
    return read_part(file, source).channels if named and source.channels is None else None


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


# Values as the model was trained on them: standardised by channel, and something where values are missing


def scale_series(series: Series, source: Source) -> Series:
    """Return series as a source says that the model reads them; what they were is kept to be shown."""
    if source.units is not None:
        series = replace(series, units=source.units)
    if source.scale is None and source.fill in {None, "zero"}:
        return series
    if isinstance(series.x, (dict, tuple)):
        raise InputError(f"{arg:source.scale} and {arg:source.fill} are for models of one input.")
    padded = series.padded()
    z = scaled_cells(padded.x, padded.mask, source, series.channels)
    return series.scaled([row[: len(part)] for row, part in zip(z, series.x, strict=True)])


def scaled_cells(x: Tensor, mask: Tensor | None, source: Source, channels: Sequence[str] | None) -> Tensor:
    """Return numbers (series, time, channel) as the model reads them; 0 where nothing is known of a channel."""
    known = seen = torch.ones_like(x, dtype=torch.bool) if mask is None else mask
    mean, std = _statistics(x, seen, source, channels)
    if source.fill == "forward":  # the last value before, or else the next
        clock = torch.arange(x.shape[1])[None, :, None]
        before = torch.where(seen, clock, -1).cummax(1).values
        after = torch.where(seen, clock, x.shape[1]).flip(1).cummin(1).values.flip(1)
        place = torch.where(before >= 0, before, after)
        x, known = x.gather(1, place.clamp(max=x.shape[1] - 1)), place < x.shape[1]
    elif source.fill == "mean":
        x, known = torch.where(seen, x, mean.to(x)), torch.ones_like(seen)
    if source.scale is not None:
        x = ((x.double() - mean) / std).to(x.dtype)
    return x.masked_fill(~known, 0)


def _statistics(x: Tensor, seen: Tensor, source: Source, channels: Sequence[str] | None) -> tuple[Tensor, Tensor]:
    """Return the mean and the standard deviation of each channel, from a file or over what was observed."""
    if source.scale not in {None, STANDARD}:
        mean, std = _from_file(str(source.scale), channels)
        if not (mean.shape == std.shape == x.shape[2:] and bool((mean + std).isfinite().all())):
            raise DataError(
                f"{source.scale} must have one finite mean and std per channel, {x.shape[2]}, got {mean.tolist()} "
                f"and {std.tolist()}."
            )
    else:
        values = x.double().masked_fill(~seen, 0)
        count = seen.sum((0, 1)).clamp(min=1)
        mean = values.sum((0, 1)) / count
        std = (((values - mean) ** 2).masked_fill(~seen, 0).sum((0, 1)) / count).sqrt()
    return mean, torch.where(std > 0, std, 1.0)


def _from_file(path: str, channels: Sequence[str] | None) -> tuple[Tensor, Tensor]:
    """Read ``mean`` and ``std`` from a file, in the order of its column ``channel`` where it has one."""
    file, names = File(path, path), ("mean", "std")
    if file.ending == ".npz":
        pair = [load_arrays(file, names, names)[name] for name in names]
    else:
        table = CsvTable(file)
        require_names(file.where, "column", names, table.columns)
        texts, numbers = table.read({"channel"} & {*table.columns}, names)
        if "channel" in texts and channels is not None:
            known = texts["channel"].cells
            require_names(file.where, "channel", channels, known)
            numbers = numbers[[known.index(name) for name in channels]]
        pair = [*numbers.T]
    return torch.as_tensor(pair[0]).double(), torch.as_tensor(pair[1]).double()


# .ts, the text format of the UEA and UCR archives: dimension:dimension:label, one series per line


def read_ts(file: File, source: Source) -> Part:
    """Read a ``.ts`` file; dimensions may differ in length, and the shorter ones end in missing values."""
    with file.text() as text:
        lines = [(place, line.strip()) for place, line in enumerate(text, start=1)]
    heads = [line.split() for _, line in lines if line[:1] == "@"]
    header = {ALIASES.get(key.lower(), key.lower()): words for key, *words in heads}
    rows = [(place, line.split(":")) for place, line in lines if line and line[0] not in "@#"]
    if "@data" not in header or not rows:
        raise DataError(f"{file.where} must hold the line @data and series below it.")
    labelled, *classes = header.get("@classlabel", ["false"]) or [""]
    if labelled.lower() not in {"true", "false"}:  # labels would become values
        raise DataError(f"{file.where}: @classLabel must be true or false, got {quote(labelled)}.")
    if [word.lower() for word in header.get("@timestamps", [])] == ["true"]:
        raise DataError(f"{file.where}: values with time stamps are not read: write a long .csv instead.")
    labels = Text.of([parts.pop().strip() for _, parts in rows] if labelled.lower() == "true" else [])
    univariate = "true" in map(str.lower, header.get("@univariate", []))
    depth = "1" if univariate else "".join(header.get("@dimensions", [])) or str(len(rows[0][1]))
    series = [[_values(file, place, part) for part in parts] for place, parts in rows]
    for (place, _), channels in zip(rows, series, strict=True):
        if str(len(channels)) != depth:
            raise _fault(file, place, f"{len(channels)} dimensions instead of {depth}")
    longest = max(len(values) for channels in series for values in channels)
    x = np.full((len(series), longest, len(series[0])), np.nan, np.float32)
    for row, channel in np.ndindex(len(x), len(series[0])):
        x[row, : len(series[row][channel]), channel] = series[row][channel]
    more: dict[str, Any] = {}
    if labels.texts and source.labels:
        numbered = all(parse_number(name) is not None for name in classes)
        classes.sort(key=float if numbered else None)  # by value where they are numbers, else by letters
        more["y"], more["classes"] = as_numbers(
            labels,
            source.classes or classes or None,
            file.where,
            lambda row, what: _fault(file, rows[row][0], what),
        )
    return observed(file.where, x, None, source.channels, more)


def _values(file: File, line: int, part: str) -> Doubles:
    cells = part.split(",")
    values = parse_numbers(cells)
    if values is None or (np.abs(values) > LARGEST).any():
        found = ((cell, parse_numbers([cell])) for cell in cells)
        wrong = next(cell for cell, number in found if number is None or abs(number[0]) > LARGEST)
        raise _fault(file, line, f"{quote(wrong.strip())} is no number in single precision")
    return values


def _fault(file: File, line: int, what: str) -> DataError:
    return DataError(f"{file.where}, line {line}: {what}.")
