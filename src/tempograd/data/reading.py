"""One file or data frame as series: read, checked, and scaled for the model where that is asked for."""

import re
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
from tempograd.core.series import Series, is_nested
from tempograd.data.arrays import NAMES, load_arrays, read_arrays
from tempograd.data.columns import STANDARD, Columns, Part
from tempograd.data.files import File, list_files
from tempograd.data.pivot import UnclearError, as_numbers, observed, read_table, require_names, written
from tempograd.data.table import (
    FRAME,
    LARGEST,
    CsvTable,
    Doubles,
    Text,
    frame_table,
    missing,
    open_table,
    parse_number,
    parse_numbers,
)
from tempograd.engine.inputs import pack_inputs

T = TypeVar("T")
LONGEST_PATH = 90  # characters that a message repeats
ARRAYS = (".npz", ".npy")
ALIASES = {"@targetlabel": "@classlabel", "@dimension": "@dimensions"}  # in the header of a .ts file


def read_frame(frame: Any, source: Columns) -> Series:
    """Read a data frame."""
    return series_of(in_one_message(source, lambda asked: read_table(frame_table(frame), asked)), source, FRAME)


def read_file(file: File, source: Columns, *, alone: bool = True) -> Series:
    """Read one file; series without names are called after their file where there are several."""
    with file.reading():
        series = series_of(part := read_part(file, source), source, file.where)
    if alone or part.ids is not None:
        return series
    return replace(series, ids=[f"{file.origin}:{row}" for row in range(len(series))])


def read_part(file: File, source: Columns, names: Sequence[str] = NAMES) -> Part:
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


def in_one_message(source: Columns, read: Callable[[Columns], T]) -> T:
    """Read a source; everything that is unclear comes in one message, which ends with what to write.

    What a message proposes is tried, so that what is wrong with the next column is known as well.
    """
    try:
        return read(source)
    except UnclearError as error:
        if not error.fix:
            raise
        first, what, fix = error, error.what, error.fix
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
    raise UnclearError(first.where, what, fix, f"write {call}{arg:source.end}")


def series_of(part: Part, source: Columns, where: str) -> Series:
    """Return what a reader found, checked; series of unequal length stay a list."""
    for row, why in sorted(part.faults.items()):
        raise DataError(f"{where}, row {row + 1}: {why}.")
    gaps, more, ids = source.missing == "mask", part.more, part.ids
    if (source.inputs and not isinstance(part.x, dict)) or (source.fixed and "fixed" not in more):
        raise DataError(f"{where} holds one table: several inputs are read from .npz files.")
    with _in_file(where):
        if isinstance(part.x, dict):
            series = Series(part.x, mask="nan" if gaps else None, ids=ids, **more)
            pack_inputs(series.x, mask=series.mask)  # which says what is wrong
            return series
        x = validation.check_series(part.x, gaps=gaps, marking=f"{arg:source.missing=mask}")
        mask = None if part.mask is None else validation.check_mask(part.mask, x)
        x, mask, _ = validation.without_gaps(x, mask, None, "x")
        if more.get("raw") is not None:
            more = more | {"raw": validation.check_raw(more["raw"], x, mask)}
        ends = [x.shape[1]] if part.steps is None else part.steps.tolist()
        values: Any = x
        seen: Any = mask
        if len(set(ends)) > 1:
            longest, times = max(ends), more.get("times")
            if times is not None:
                cut = tuple(row[:longest] for row in times) if is_nested(times) else times[:longest]
                more = more | {"times": cut}
            values = [series[:end] for series, end in zip(x, ends, strict=True)]
            seen = [cells[:end] for cells, end in zip(seen, ends, strict=True)]  # shorter ones have a mask
            seen = None if all(bool(cells.all()) for cells in seen) else seen
        return Series(values, mask=seen, ids=ids, channels=part.channels, **more)


# Values as the model was trained on them: standardised by channel, and something where values are missing


def scale_series(series: Series, source: Columns) -> Series:
    """Return series as a source says that the model reads them; what they were is kept to be shown."""
    if source.units is not None:
        series = replace(series, units=source.units)
    if source.scale is None and source.fill in {None, "zero"}:
        return series
    if isinstance(series.x, (dict, tuple)):
        raise InputError(f"{arg:source.scale} and {arg:source.fill} are for models of one input.")
    padded = series.padded()
    z = scaled_cells(padded.x, padded.mask, source, series.channels)
    return series.scaled([row[: len(part)] for row, part in zip(z, series.x, strict=True)] if z.ndim == 3 else z)


def scaled_cells(x: Tensor, mask: Tensor | None, source: Columns, channels: Sequence[str] | None) -> Tensor:
    """Return numbers (series, time, channel) as the model reads them; 0 where nothing is known of a channel."""
    seen = torch.ones_like(x, dtype=torch.bool) if mask is None else mask
    known = seen
    mean, std = _statistics(x, seen, source, channels)
    if source.fill == "forward":
        x, known = _filled_forward(x, seen)
    elif source.fill == "mean":
        x, known = torch.where(seen, x, mean.to(x)), torch.ones_like(seen)
    if source.scale is not None:
        x = ((x.double() - mean) / std).to(x.dtype)
    return x.masked_fill(~known, 0)


def _filled_forward(x: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Put the last value before, or else the next, where none was observed; and tell where there is any."""
    clock = torch.arange(x.shape[1])[None, :, None]
    before = torch.where(seen, clock, -1).cummax(1).values
    after = torch.where(seen, clock, x.shape[1]).flip(1).cummin(1).values.flip(1)
    place = torch.where(before >= 0, before, after)
    return x.gather(1, place.clamp(max=x.shape[1] - 1)), place < x.shape[1]


def _statistics(x: Tensor, seen: Tensor, source: Columns, channels: Sequence[str] | None) -> tuple[Tensor, Tensor]:
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
    (file,) = list_files(path)
    names, order = ("mean", "std"), None
    if file.ending == ".npz":
        mean, std = (load_arrays(file, names, names)[name] for name in names)
    else:
        table = CsvTable(file)
        require_names(file.where, "column", names, table.columns)
        texts, numbers = table.read({"channel"} & {*table.columns}, names)
        mean, std = numbers.T
        if "channel" in texts and channels is not None:
            known = texts["channel"].cells
            require_names(file.where, "channel", channels, known)
            order = [known.index(name) for name in channels]
    pair = torch.as_tensor(mean).double(), torch.as_tensor(std).double()
    return pair if order is None else (pair[0][order], pair[1][order])


# .ts, the text format of the UEA and UCR archives: dimension:dimension:label, one series per line


def read_ts(file: File, source: Columns) -> Part:
    """Read a ``.ts`` file; dimensions may differ in length, and the shorter ones end in missing values."""
    series, labels, places = list[list[Doubles]](), list[str](), list[int]()
    with file.text() as text:
        lines = enumerate(map(str.strip, file.lines(text)), start=1)
        labelled, classes, dimensions = _read_header(file, lines)
        for place, line in lines:
            if not line or line[0] == "#":
                continue
            parts = line.split(":")
            labels += [parts.pop().strip()] if labelled else []
            if not parts or len(parts) != (dimensions or len(parts)):
                raise _fault(file, place, f"{len(parts)} dimensions instead of {dimensions or 'at least one'}")
            dimensions = len(parts)
            series.append([_values(file, place, part) for part in parts])
            places.append(place)
    if not series:
        raise DataError(f"{file.where} holds no series after its line @data.")
    longest = max(len(values) for row in series for values in row)
    x = np.full((len(series), longest, dimensions), np.nan, np.float32)
    for row, channels in enumerate(series):
        for channel, values in enumerate(channels):
            x[row, : len(values), channel] = values
    more: dict[str, Any] = {}
    if labelled and source.labels:
        found = Text.of(labels)
        y, names = as_numbers(
            found.texts,
            source.classes or classes,
            file.where,
            lambda code, what: _fault(file, places[found.row(code)], what),
        )
        more = {"y": y[found.codes], "classes": names}
    return observed(file.where, x, None, source.channels, more)


def _read_header(file: File, lines: Iterator[tuple[int, str]]) -> tuple[bool, list[str] | None, int]:
    """Return whether there are labels, the classes in order, and the number of dimensions, 0 where it is not said.

    A wrong word here would turn labels into values.
    """
    header = {"@classlabel": ["false"], "@dimensions": ["0"], "@univariate": ["false"]}
    for place, line in lines:
        key, *words = line.split() or ["#"]
        key = ALIASES.get(key.lower(), key.lower())
        if key == "@data":
            break
        if key[0] not in "@#":
            raise _fault(file, place, "a series before the line @data, which must come first")
        if key in {"@classlabel", "@timestamps", "@univariate"}:
            words[:1] = [" ".join(words[:1]).lower()]
            if words[0] not in {"true", "false"}:
                raise _fault(file, place, f"{key} must be true or false, got {quote(words[0])}")
        if key == "@timestamps" and words[0] == "true":
            raise _fault(file, place, "values with time stamps are not read: write a long .csv instead")
        if key == "@dimensions" and not re.fullmatch("[1-9][0-9]{0,17}", " ".join(words)):
            raise _fault(file, place, f"{key} must be a whole number, got {quote(' '.join(words))}")
        header[key] = words
    else:
        raise DataError(f"{file.where} has no line @data, after which a .ts file holds its series.")
    labelled, *classes = header["@classlabel"]
    numbered = None not in map(parse_number, classes)
    classes.sort(key=float if numbered else None)  # by value where they are numbers, else by letters
    dimensions = 1 if header["@univariate"] == ["true"] else int(header["@dimensions"][0])
    return labelled == "true", classes or None, dimensions


def _values(file: File, line: int, part: str) -> Doubles:
    cells = part.replace("?", "nan").split(",")
    values = None if "" in cells else parse_numbers(cells)
    if values is None:
        wrong = next(
            cell for cell in cells if not cell.strip() or not (missing(cell) or parse_number(cell) is not None)
        )
        raise _fault(file, line, f"{quote(wrong.strip())} is no number")
    for value in values[np.abs(values) > LARGEST]:
        raise _fault(file, line, f"{value:g} is no finite number in single precision")
    return values


def _fault(file: File, line: int, what: str) -> DataError:
    return DataError(f"{file.where}, line {line}: {what}.")
