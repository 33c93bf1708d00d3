r"""Which values of a channel push a prediction, and in which direction: one rule for pictures, page and text.

The lowest and the highest 2 % of the observed values are a group each, since what matters is often rare; those
between are in six groups of about equally many. Equal values are in the same group. For the series :math:`n` that
have values in a group :math:`g`, :math:`m_{n,g}` is the mean score of these; shown is the mean of :math:`m_{n,g}`
over the series with Student's interval, since values of one series are not independent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tempograd.core.errors import InputError
from tempograd.explanation import Explanation
from tempograd.typing import Array, ArrayLike
from tempograd.views.blocks import group_rows
from tempograd.views.channels import Effects, half_interval, mean_and_error
from tempograd.views.labels import channel_names
from tempograd.views.series import Flags, Floats, Indices, observed_cells, shown_values, to_numpy

OUTER = 0.02  # share of the values that each of the outer groups has
INNER = 6  # groups between them
SLIGHT = 0.1  # of the largest push: what pushes less is not named


@dataclass(frozen=True, eq=False)
class ValueEffect:
    """Observed values of a channel with their scores, and the means of groups of them.

    Attributes
    ----------
    channel : str
    values, scores : array of shape (observed values,)
    rows : array of shape (observed values,)
        Which series each is from.
    centre, mean, low, high : array of shape (groups,)
        Median value of a group, its mean score over the series, and the 95 % interval of that.
    counts, series : array of shape (groups,)
        How many values a group has, and from how many series.
    signed : bool
    """

    channel: str
    values: Floats
    scores: Floats
    rows: Indices
    centre: Floats
    mean: Floats
    low: Floats
    high: Floats
    counts: Indices
    series: Indices
    signed: bool

    @property
    def certain(self) -> Flags:
        """Tell of which groups the interval leaves 0 out."""
        return np.asarray((self.low > 0) | (self.high < 0))

    @property
    def ends(self) -> tuple[int, int]:
        """Return which groups stand for the lowest and the highest values.

        Each is the outermost group with a certain score; where neither of the two outer ones is certain, the
        outermost with an interval.
        """
        near = range(min(2, max(1, len(self.mean) // 2)))
        return self._end(list(near)), self._end([len(self.mean) - 1 - group for group in near])

    def _end(self, groups: Sequence[int]) -> int:
        known = [group for group in groups if np.isfinite(self.low[group])]
        return next((group for group in groups if self.certain[group]), (*known, groups[0])[0])

    @property
    def pushes(self) -> tuple[int, int]:
        """Return where the lowest and the highest values certainly push: up (1), down (-1), or nowhere (0)."""
        if not len(self.mean):
            return 0, 0
        ends = list(self.ends)
        effect = np.where(self.certain[ends], self.mean[ends], 0.0)
        effect[np.abs(effect) < SLIGHT * np.abs(effect).max()] = 0.0
        low, high = np.sign(effect).astype(int).tolist()
        return low, high

    @property
    def direction(self) -> int:
        """Return 1 or -1 where the highest values certainly score more or less than the lowest, else 0."""
        if not len(self.mean):
            return 0
        low, high = self.ends
        return int(self.low[high] > self.high[low]) - int(self.high[high] < self.low[low])

    @property
    def strength(self) -> float:
        """Return how far the channel certainly moved a series, up or down, by which channels are ranked.

        That is the limit of each group's interval that is nearer to 0, times the values that a series has there.
        """
        nearer = np.maximum(np.maximum(self.low, -self.high), 0)
        return float(nearer @ self.counts) / max(len(set(self.rows.tolist())), 1)

    @property
    def words(self) -> str:
        """Say in a few words which values push, and where."""
        unclear = "no clear direction" if len(self.values) else "no value observed"
        if not self.signed:
            return (unclear, "high values matter more", "low values matter more")[self.direction]
        low, high = self.pushes
        if not low and not high:
            return unclear
        sides = {1: "up", -1: "down"}
        if low == -high:
            return f"high values push {sides[high]}, low values {sides[low]}"
        if low != high:
            return f"{'high' if high else 'low'} values push {sides[high or low]}"
        if (self.mean * low < SLIGHT * np.abs(self.mean).max()).any():
            return f"high and low values push {sides[low]}"
        most = ("", ", high ones most", ", low ones most")[self.direction * low]
        return f"all values push {sides[low]}{most}"

    def data(self) -> dict[str, Any]:
        """Return words, numbers and groups as plain data for a page; None stands for an unknown limit."""
        groups = zip(self.centre, self.mean, self.low, self.high, self.counts, self.series, strict=True)
        return {
            "channel": self.channel,
            "words": self.words,
            "pushes": self.pushes,
            "strength": self.strength,
            "groups": [[float(part) if np.isfinite(part) else None for part in group] for group in groups],
        }


def value_effects(
    explanation: Explanation,
    rows: ArrayLike | None = None,
    *,
    channels: Sequence[int] | None = None,
    x: Array | None = None,
) -> tuple[ValueEffect, ...]:
    """Return which values of each channel push, over some series, by default all; channels in their own order."""
    index = group_rows(explanation, rows, "rows")
    chosen = range(explanation.values.shape[2]) if channels is None else channels
    return tuple(value_effect(explanation, channel, index, x=x) for channel in chosen)


def value_effect(
    explanation: Explanation, channel: int, rows: ArrayLike, *, x: Array | None = None
) -> ValueEffect:
    """Collect the observed values of one channel in some series with their scores."""
    names = channel_names(explanation)
    if not 0 <= channel < len(names):
        raise InputError(f"There is no channel {channel}: the explanation has {len(names)}, counted from 0.")
    index = torch.as_tensor(rows).numpy()
    seen = observed_cells(explanation)[index][..., channel]
    value = to_numpy(shown_values([explanation], x)[index, :, channel]).astype(np.float64)[seen]
    score = to_numpy(Effects.of(explanation, index).push[..., channel]).astype(np.float64)[seen]
    place, (group, count) = np.nonzero(seen)[0], _grouped(value)
    cell, shape = place * count + group, (len(index), count)
    members = np.bincount(cell, minlength=len(index) * count).reshape(shape)
    sums = np.bincount(cell, score, minlength=len(index) * count).reshape(shape)
    means = np.divide(sums, members, out=np.full(shape, np.nan), where=members > 0)
    mean, error = mean_and_error(torch.from_numpy(means))
    series = (members > 0).sum(0)
    half = half_interval(error, series - 1)
    centre = np.array([np.median(value[group == each]) for each in range(count)])
    return ValueEffect(
        channel=names[channel],
        values=value,
        scores=score,
        rows=index[place],
        centre=centre,
        mean=mean,
        low=mean - half,
        high=mean + half,
        counts=members.sum(0),
        series=series,
        signed=explanation.signed,
    )


def _grouped(values: Floats) -> tuple[Indices, int]:
    """Return the group of each value, and how many there are; equal values are in the same one.

    Examples
    --------
    >>> _grouped(np.array([5.0, 1.0, 1.0, 1.0, 2.0]))
    (array([2, 0, 0, 0, 1]), 3)
    >>> [int(count) for count in np.bincount(_grouped(np.arange(100.0))[0])]
    [2, 16, 16, 16, 16, 16, 16, 2]
    """
    count = len(values)
    if not count:
        return np.zeros(0, dtype=np.int64), 0
    ordered = np.sort(values)
    outer = max(1, round(OUTER * count))
    smaller = np.searchsorted(ordered, values)  # how many are
    group = 1 + np.clip((smaller - outer) * INNER // max(count - 2 * outer, 1), 0, INNER - 1)
    group[values >= ordered[-outer]] = INNER + 1
    group[values <= ordered[outer - 1]] = 0
    found, group = np.unique(group, return_inverse=True)
    return group, len(found)
