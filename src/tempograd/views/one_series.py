"""Series with what one or more methods say about them, as pictures show them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tempograd.core.errors import InputError
from tempograd.explanation import Explanation
from tempograd.explanation.core import require
from tempograd.typing import Array, ArrayLike, ChannelOrder, Channels, Model
from tempograd.views.channels import chosen_channels
from tempograd.views.labels import channel_names, with_unit
from tempograd.views.prediction import PredictionText, prediction_text
from tempograd.views.series import (
    Flags,
    Floats,
    Scores,
    cells_like,
    color_limit,
    observed_cells,
    position,
    scores,
    shown_values,
    to_numpy,
    whole_series,
)


@dataclass(frozen=True)
class SeriesView:
    """One series, its channels in the order of the picture.

    Attributes
    ----------
    id : int or str
    said : PredictionText
        What was explained.
    times, channels, units : tuple of str
    left_out : int
        How many channels are not shown.
    x : array of shape (time, channel)
        The values as people know them.
    observed : array of bool like ``x``
    scores : tuple of Scores
        Of each method, with 95 % intervals, like ``x``.
    truth : array of bool like ``x``, optional
        Cells that are known to decide the label.
    """

    id: int | str
    said: PredictionText
    times: tuple[str, ...]
    channels: tuple[str, ...]
    units: tuple[str, ...]
    left_out: int
    x: Floats
    observed: Flags
    scores: tuple[Scores, ...]
    truth: Flags | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the channels with the units of their values."""
        return tuple(with_unit(name, unit) for name, unit in zip(self.channels, self.units, strict=True))

    @property
    def limits(self) -> tuple[float, ...]:
        """Return the size that gets the full colour, of each method: their scores have units of their own."""
        return tuple(color_limit(found.values, self.observed) for found in self.scores)


def series_views(
    explanations: dict[str, Explanation] | Explanation,
    rows: Sequence[int | str],
    *,
    model: Model | None = None,
    x: Array | None = None,
    y: ArrayLike | None = None,
    truth: Array | None = None,
    channels: Channels | None = None,
    classes: Sequence[str] | None = None,
    most: int = 8,
    order: ChannelOrder | None = None,
) -> tuple[SeriesView, ...]:
    """Return what is shown of some series: the same channels of all, by the first method's scores of all.

    The strongest come first (``order="effect"``), or where they are many; else channels are in their own order.
    """
    if not isinstance(explanations, dict):
        explanations = {require(explanations).method: explanations}
    named = explanations
    first = next(iter(named.values()))
    places = [position(first, row) for row in rows]
    if not places:
        raise InputError("i is empty: name at least one series.")
    values, names = shown_values(named.values(), x), channel_names(first)
    kept = next((each for each in named.values() if each.x is not None), first)
    read = None if model is None else whole_series(kept, x)
    every = [[scores(each, row, label) for label, each in named.items()] for row in places]
    effect = np.sum([found[0].effect for found in every], axis=0)
    picked = chosen_channels(channels, names, effect, most, ordered=order == "effect")
    if order == "given" and not isinstance(channels, Sequence):
        picked = sorted(picked)
    marked = None if truth is None else to_numpy(cells_like(truth, first, "truth")) > 0
    units = first.units or ("",) * len(names)
    return tuple(
        SeriesView(
            id=first.label(row),
            said=prediction_text(first, row, model, read, y, classes),
            times=first.times_of(row),
            channels=tuple(names[d] for d in picked),
            units=tuple(units[d] for d in picked),
            left_out=len(names) - len(picked),
            x=to_numpy(values[row])[:, picked],
            observed=observed_cells(first)[row][:, picked],
            scores=tuple(each.channels(picked) for each in found),
            truth=None if marked is None else marked[row][:, picked],
        )
        for row, found in zip(places, every, strict=True)
    )


def shaded(x: Floats, seen: Flags) -> Floats:
    """Scale each channel from 0, its lowest observed value in all series, to 1; one half where they are equal.

    Examples
    --------
    >>> x = np.array([[[1.0, 7.0], [3.0, 7.0], [2.0, 9.0]]])
    >>> seen = np.array([[[True, True], [True, True], [True, False]]])
    >>> shaded(x, seen)[0].T
    array([[0. , 1. , 0.5],
           [0.5, 0.5, 0.5]])
    """
    low = np.min(x, axis=(0, 1), where=seen, initial=np.inf)
    high = np.max(x, axis=(0, 1), where=seen, initial=-np.inf)
    spread = high - low
    usable = spread > 0
    shade = (x - np.where(usable, low, 0)) / np.where(usable, spread, 1)
    return np.asarray(np.where(seen & usable, shade, 0.5))
