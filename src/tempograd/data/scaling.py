"""Values as the model was trained on them: standardised by channel, and something where values are missing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tempograd.core.errors import DataError, InputError, arg, listed
from tempograd.core.series import Series
from tempograd.data.files import list_files
from tempograd.data.readers.csv_file import CsvTable
from tempograd.data.source import STANDARD, Source


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
    return series.scaled([row[: len(part)] for row, part in zip(z, series.x, strict=True)] if z.ndim == 3 else z)


def scaled_cells(x: Tensor, mask: Tensor | None, source: Source, channels: Sequence[str] | None) -> Tensor:
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


def _statistics(x: Tensor, seen: Tensor, source: Source, channels: Sequence[str] | None) -> tuple[Tensor, Tensor]:
    """Return the mean and the standard deviation of each channel, from a file or over what was observed."""
    if source.scale not in {None, STANDARD}:
        mean, std = _from_file(str(source.scale), channels)
        if len(mean) != x.shape[2]:
            raise DataError(
                f"{source.scale} must have one mean and std per channel, {x.shape[2]}, got {len(mean)}."
            )
    else:
        values = x.double().masked_fill(~seen, 0)
        count = seen.sum((0, 1)).clamp(min=1)
        mean = values.sum((0, 1)) / count
        std = (((values - mean) ** 2).masked_fill(~seen, 0).sum((0, 1)) / count).sqrt()
    return mean, torch.where(std > 0, std, 1.0)


def _from_file(path: str, channels: Sequence[str] | None) -> tuple[Tensor, Tensor]:
    """Read ``mean`` and ``std`` from a table, in the order of its column ``channel`` where it has one."""
    (file,) = list_files(path)
    if file.ending == ".npz":
        with file.opened() as opened, np.load(opened, allow_pickle=False) as arrays:
            found: dict[str, Any] = {name: arrays[name] for name in ("mean", "std") if name in arrays}
        order: Sequence[int] = range(len(found.get("mean", ())))
    else:
        table = CsvTable(file)
        names = [name for name in ("mean", "std") if name in table.columns]
        texts, numbers = table.read([name for name in ("channel",) if name in table.columns], names)
        found, order = dict(zip(names, numbers.T, strict=True)), range(len(numbers))
        if "channel" in texts and channels is not None:
            known = texts["channel"].texts
            if not {*channels} <= {*known}:
                raise DataError(f"{file.where} must name the channels {listed(channels)}, got {listed(known)}.")
            order = [known.index(name) for name in channels]
    if found.keys() != {"mean", "std"}:
        raise DataError(f"{file.where} must hold the mean and the std of each channel, under these names.")
    mean, std = (torch.as_tensor(np.asarray(found[name], np.float64)[list(order)]) for name in ("mean", "std"))
    return mean, std
