"""One file as arrays: tables, ``.npz`` and ``.npy``, ``.ts``; and values scaled for the model."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import DataError, InputError, TempogradError, arg, listed, one_line, warn
from tempograd.core.series import Series
from tempograd.data.files import File
from tempograd.data.pivot import Columns, Part, UnclearError, observed, read_table, require_names, unlike
from tempograd.data.table import LARGEST, Doubles, open_table, parse_number, parse_numbers

T = TypeVar("T")
C = TypeVar("C", bound=Columns)
_Array = NDArray[Any]
TABLES = {".csv", ".tsv", ".parquet"}  # endings of files with named columns
ARRAYS = ("x", "mask", "y", "truth", "ids", "channels", "times", "units", "raw")


def read_part(file: File, source: Columns) -> Part:
    """Read one file; labels and truth only where a source asks for them."""
    if file.ending in {".npz", ".npy"}:
        with in_file(file.where):
            return read_arrays(file, source)
    if file.ending == ".ts":
        return read_ts(file, source)
    return in_one_message(source, lambda asked: read_table(open_table(file), asked))


@contextmanager
def in_file(where: str) -> Iterator[None]:
    """Say in which file something is wrong with series."""
    try:
        yield
    except InputError as error:
        raise DataError(f"{where}: {one_line(error.finding.text, 240)}", code=error.code) from error


def in_one_message(source: Columns, read: Callable[[Columns], T]) -> T:
    """Read a source; everything that is unclear comes in one message, which ends with what to pass.

    What a message proposes is tried, so that what is wrong with the next column is known as well.
    """
    try:
        return read(source)
    except UnclearError as error:
        if not error.fix:
            raise
        unclear, what, fix = error, error.what, error.fix
    try:
        in_one_message(replace(source, **fix), read)
    except UnclearError as error:
        what, fix = f"{what}; {error.what}", fix | error.fix
    except TempogradError as error:
        what = f"{what}; {error.finding.text.rstrip('.')}"
    raise UnclearError(unclear.where, what, fix)


# Many files: ids that folders make different, and the same channels in all of them


def own_id(file: File, source: C) -> tuple[C, str]:
    """Return a source with the column of ids that a file itself holds, and what its folders put before each."""
    names = [] if source.id is None else source.id.split(",")
    own = [name for name in names if name not in file.columns]
    before = "".join(f"{file.columns[name]}/" for name in names if name in file.columns)
    return replace(source, id=",".join(own) or None), before


def like(part: Part, other: Part, where: str) -> Part:
    """Return series with their channels in the order of another, and refuse other channels."""
    if wrong := unlike(where, part.channels, other.channels or ()):
        raise DataError(wrong)
    if part.x.shape[2] != other.x.shape[2]:
        raise DataError(f"{where} has {part.x.shape[2]} channels, the first file {other.x.shape[2]}.")
    return of_channels(part, other.channels, where) if other.channels else part


def of_channels(part: Part, channels: tuple[str, ...], where: str) -> Part:
    """Return series with some of the channels that they name."""
    known = part.channels or ()
    if channels == known:
        return part
    require_names(where, "channel", channels, known)
    places = [known.index(name) for name in channels]
    cells = {"x": part.x, "mask": part.mask} | {name: part.more.get(name) for name in ("truth", "raw", "units")}
    cells = {name: None if each is None else np.asarray(each)[..., places] for name, each in cells.items()}
    return replace(part, x=cells.pop("x"), mask=cells.pop("mask"), channels=channels, more=part.more | cells)


# Arrays


def read_arrays(file: File, source: Columns, *, mapped: bool = False) -> Part:
    """Read arrays by name; only x is needed. A mapped ``.npy`` file stays on disk."""
    if source.labels and (source.id or source.mask):
        what = f"{arg:source.id} and {arg:source.mask} are columns of a table"
        raise DataError(f"{file.where}: {what}: a .npz file holds ids and mask.")
    wanted = [name for name in ARRAYS if source.labels or name not in {"y", "truth"}]
    arrays: dict[str, Any] = load_arrays(file, wanted, mapped=mapped)
    ids, y, raw = (arrays.pop(name, None) for name in ("ids", "y", "raw"))
    series = Series(**arrays)
    for name, rows in (("ids", ids), ("y", y)):
        if rows is not None and rows.shape[:1] != (len(series),):
            raise InputError(f"{name} must have one entry per series: {len(series)}, got shape {rows.shape}.")
    raw = None if raw is None else validation.check_like(raw, series.x, "raw").numpy()
    mask, truth = (None if cells is None else cells.numpy() for cells in (series.mask, series.truth))
    more = {"y": y, "times": series.times, "units": series.units, "truth": truth, "raw": raw}
    part = Part(ids, series.x.numpy(), mask, channels=series.channels or source.channels, more=more)
    return part if source.channels is None else of_channels(part, source.channels, file.where)


def load_arrays(file: File, wanted: Sequence[str], *, mapped: bool = False) -> dict[str, _Array]:
    """Read the arrays that are wanted and there, others are not even unpacked; a mapped array stays on disk."""
    with file.opened() as opened:
        try:
            found = np.load(file.path, mmap_mode="r") if mapped else np.load(opened)  # without pickle
            if isinstance(found, np.ndarray):
                return {"x": found}
            if "x" not in found.files:
                has = listed(found.files) or "nothing"
                raise DataError(f"{file.where} must hold an array x (series, time, channel); it has {has}.")
            others = [name for name in found.files if name not in ARRAYS]
            if others:
                known = f"the arrays of a file of series are {', '.join(ARRAYS)}"
                warn(f"{file.where} holds {listed(others)}, which is not read: {known}.")
            return {name: found[name] for name in wanted if name in found.files}
        except (TempogradError, MemoryError, Warning):  # ours, which somebody may have made an error
            raise
        except Exception as error:  # zip and numpy raise a dozen kinds
            reason = one_line(next(iter(str(error).splitlines()), type(error).__name__), 90)
            what = "is damaged or holds no plain arrays: write or fetch it again"
            raise DataError(f"{file.where} {what} ({reason}).") from error


# Values as the model was trained on them: standardised by channel, and something where values are missing


def sound(part: Part, source: Columns, where: str) -> Part:
    """Return series of which each can be explained; NaN is for what is missing, where the source says so."""
    for row, why in sorted(part.faults.items()):
        raise DataError(f"{where}, row {row + 1}: {why}.")
    with in_file(where):
        gaps, marking = source.missing == "mask", f"{arg:source.missing=mask}"
        return replace(part, x=validation.check_series(part.x, gaps=gaps, marking=marking).numpy())


def prepared(part: Part, source: Columns) -> Part:
    """Return series as the model reads them: gaps masked, missing cells filled, values scaled."""
    x, mask, more = part.x, part.mask, part.more
    if source.missing == "mask" and (gaps := np.isnan(x)).any():
        x, mask = np.where(gaps, 0, x), ~gaps if mask is None else mask & ~gaps
    if source.scale is not None or source.fill not in {None, "zero"}:
        values = np.array(x)
        more = more | {"raw": values if more.get("raw") is None else more["raw"]}
        seen = None if mask is None else torch.from_numpy(np.ascontiguousarray(mask))
        x = scaled_cells(torch.from_numpy(values), seen, source, part.channels).numpy()
    return replace(part, x=x, mask=mask, more=more)


def scaled_cells(x: Tensor, mask: Tensor | None, source: Columns, channels: Sequence[str] | None) -> Tensor:
    """Return numbers (series, time, channel) as the model reads them; 0 where nothing is known of a channel."""
    known = seen = torch.ones_like(x, dtype=torch.bool) if mask is None else mask
    if source.fill == "forward":  # the last value before, or else the next
        clock = torch.arange(x.shape[1])[None, :, None]
        before = torch.where(seen, clock, -1).cummax(1).values
        after = torch.where(seen, clock, x.shape[1]).flip(1).cummin(1).values.flip(1)
        place = torch.where(before >= 0, before, after)
        x, known = x.gather(1, place.clamp(max=x.shape[1] - 1)), place < x.shape[1]
    if source.scale is not None:
        mean, std = _statistics(File(str(source.scale), ""), x.shape[2], channels)
        x = ((x.double() - mean) / torch.where(std > 0, std, 1.0)).to(x.dtype)
    return x.masked_fill(~known, 0)


def _statistics(file: File, depth: int, channels: Sequence[str] | None) -> Tensor:
    """Return the mean and the standard deviation of each channel, by a table."""
    table = open_table(file)
    require_names(table.where, "column", ["mean", "std"], table.columns)
    texts, numbers = table.read({"channel"} & {*table.columns}, ["mean", "std"])
    if "channel" in texts and channels is not None:  # in any order
        known = texts["channel"].array.tolist()
        require_names(table.where, "channel", channels, known)
        numbers = numbers[[known.index(name) for name in channels]]
    if numbers.shape != (depth, 2) or not np.isfinite(numbers).all():
        got = ", ".join(f"{mean:g} and {std:g}" for mean, std in numbers)
        raise DataError(f"{table.where} must have one finite mean and std per channel, {depth}, got {got}.")
    return torch.from_numpy(numbers).T


# .ts, the text format of the UEA and UCR archives: dimension:dimension:label, one series per line


def read_ts(file: File, source: Columns) -> Part:
    """Read a ``.ts`` file; dimensions may differ in length, and the shorter ones end in missing values."""
    with file.text() as text:
        lines = [(place, line.strip()) for place, line in enumerate(text, start=1)]
    heads = [line.split() for _, line in lines if line[:1] == "@"]
    header = {key.lower().replace("target", "class"): words for key, *words in heads}
    rows = [(place, line.split(":")) for place, line in lines if line and line[0] not in "@#"]
    if "@data" not in header or not rows:
        raise DataError(f"{file.where} must hold the line @data and series below it.")
    labelled, *classes = header.get("@classlabel", ["false"]) or ["true"]
    y = [parts.pop().strip() for _, parts in rows] if labelled.lower() == "true" else None
    series = [[_values(file, place, part) for part in parts] for place, parts in rows]
    depth = len(series[0])
    for (place, _), channels in zip(rows, series, strict=True):
        if len(channels) != depth:
            raise DataError(f"{file.where}, line {place}: {len(channels)} dimensions instead of {depth}.")
    longest = max(len(values) for channels in series for values in channels)
    x = np.full((len(series), longest, depth), np.nan, np.float32)
    for row, channel in np.ndindex(len(x), depth):
        x[row, : len(series[row][channel]), channel] = series[row][channel]
    numbered = all(parse_number(name) is not None for name in classes)
    classes.sort(key=float if numbered else None)  # by value where they are numbers, else by letters
    more = {"y": np.array(y, object), "classes": tuple(classes) or None} if y and source.labels else {}
    return observed(file.where, x, source.channels, more)


def _values(file: File, line: int, part: str) -> Doubles:
    cells = part.split(",")
    values = None if "" in map(str.strip, cells) else parse_numbers(cells)
    if values is None or (np.abs(values) > LARGEST).any():
        raise DataError(f"{file.where}, line {line}: not all values are numbers in single precision.")
    return values
