"""Some of the series of a split, evenly spaced, and those that settings are tuned on."""

import torch

from tempograd.data import Dataset, Series


def evenly(split: Series, series: int | None) -> Series:
    """Return ``series`` of a split, evenly spaced, because many files are sorted by class; None returns all."""
    if series is None or series >= len(split):
        return split
    return split.take(torch.arange(series) * len(split) // series)


def tuned_on(data: Dataset, series: int) -> tuple[Series, int]:
    """Return so many series to tune on, and how many of them are training series.

    Where there are fewer validation series than that, training series make up for them: metrics that remove cells
    need no labels.
    """
    if data.validation is None:
        return evenly(data.train, series), min(series, len(data.train))
    chosen = evenly(data.validation, series)
    missing = min(series - len(chosen), len(data.train))
    if missing <= 0:
        return chosen, 0
    more = evenly(data.train, missing)
    mask = None if chosen.mask is None or more.mask is None else torch.cat([chosen.mask, more.mask])
    return Series(torch.cat([chosen.x, more.x]), torch.cat([chosen.y, more.y]), mask=mask), missing
