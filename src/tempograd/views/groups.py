r"""Groups of series: which channels matter, and when, which of their values push, and how two groups differ.

For the series :math:`n` of a group, with scores :math:`A_{n,t,d}`, a channel's push and size are

.. math:: p_{n,d} = \sum_t A_{n,t,d}, \qquad s_{n,d} = \sum_t |A_{n,t,d}|

and what is shown are their means over the group with standard errors; a block of steps is summed in the same way.
Student's interval of a mean is about series like these: it holds how much they differ, with the sampling error of
each. A cell that was not observed counts as 0: it did nothing. So does a score below 0 of a method without signs,
which says that the cell matters less than nothing.

Values of a channel: the lowest and the highest 2 % of those observed are a group each, since what matters is often
rare; those between are in six groups of about equally many. Equal values are in the same group. For the series
:math:`n` that have values in a group :math:`g`, :math:`m_{n,g}` is the mean score of these; shown is the mean of
:math:`m_{n,g}` over the series with Student's interval, since values of one series are not independent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from tempograd.core import stats, validation
from tempograd.core.errors import InputError, UnknownNameError, brief
from tempograd.core.formatting import alike, counted, short_number, table
from tempograd.explanation.core import Explanation, require
from tempograd.explanation.record import LISTED, Blocks, more_channels
from tempograd.typing import ArrayLike, Channels
from tempograd.views.labels import channel_names, short_times, time_names, when_text
from tempograd.views.series import (
    BLOCKS,
    Flags,
    Floats,
    Indices,
    group_rows,
    observed_cells,
    shown_values,
    sizes,
    to_numpy,
)


def push_and_size(explanation: Explanation, rows: Any = slice(None)) -> tuple[Tensor, Tensor]:
    """Return scores of some series on the CPU, (series, time, channel): with their signs, and as sizes."""
    size = sizes(explanation)[rows].detach().cpu()
    return explanation.values[rows].detach().cpu() if explanation.signed else size, size


def mean_and_error(totals: Tensor) -> tuple[Floats, Floats]:
    """Mean and standard error of each column (infinite below two series); what is not defined does not count."""
    totals = totals.double()
    known = ~totals.isnan()
    count = known.sum(0)
    mean = totals.nansum(0) / count
    squares = torch.where(known, (totals - mean) ** 2, 0).sum(0)
    error = torch.where(count > 1, (squares / (count * (count - 1))).sqrt(), torch.inf)
    return mean.numpy(), error.numpy()


def half_interval(error: Floats, freedom: Any, level: float = 0.95) -> Floats:
    """Return half the width of Student's interval; infinite where nothing is known of the spread."""
    factor = stats.t_quantile(level, torch.as_tensor(freedom, dtype=torch.float64)).numpy()
    return np.asarray(np.where(np.isfinite(error), np.where(error == 0, 0, factor * error), np.inf))


def channel_sums(explanation: Explanation, rows: ArrayLike | None = None) -> Blocks:
    """Return how far each channel moved the predictions of some series: one block of all steps."""
    return blocks_of(explanation, rows, steps=max(1, require(explanation).values.shape[1]))


def chosen_channels(
    wanted: Channels | None, names: Sequence[str], effect: Floats, most: int, *, ordered: bool
) -> list[int]:
    """Return the channels to show: how many of the strongest by ``effect``, or which; None: at most ``most``.

    Where nobody asked for an order the strongest come first, or, without ``ordered``, all keep their places.

    Examples
    --------
    >>> effect = np.array([1.0, 3.0, 2.0])
    >>> chosen_channels(2, "abc", effect, 8, ordered=False)
    [1, 2]
    >>> chosen_channels(["c", 0], "abc", effect, 8, ordered=False)
    [2, 0]
    """
    strongest = [int(d) for d in np.argsort(-effect, kind="stable")]
    if wanted is None:
        return list(range(len(names))) if len(names) <= most and not ordered else strongest[:most]
    if isinstance(wanted, str) or not isinstance(wanted, Sequence | np.ndarray | Tensor) or not len(wanted):
        return strongest[: validation.check_int(wanted, "channels", 1)]
    places: dict[Any, int] = {label: d for d, label in enumerate(names)}
    if unknown := [label for label in wanted if isinstance(label, str) and label not in places]:
        raise UnknownNameError("channel", unknown[0], names)
    found = [places[label] if isinstance(label, str) else label for label in wanted]
    return cast("list[int]", validation.check_positions(found, "channels", len(names)).tolist())


def blocks_of(explanation: Explanation, rows: ArrayLike | None = None, *, steps: int | None = None) -> Blocks:
    """Sum scores up over blocks of steps, and average over a group of series.

    Parameters
    ----------
    explanation : Explanation
    rows : sequence of int or bool, optional
        The series of the group, by position or as one flag each; by default all.
    steps : int, optional
        How many steps a block has, the last one perhaps fewer. By default there are eight blocks.
    """
    chosen = group_rows(require(explanation), rows, "rows")
    edges = block_edges(steps, explanation.values.shape[1])
    push, size = (_summed(part, edges) for part in push_and_size(explanation, chosen))
    seen = torch.from_numpy(observed_cells(explanation)[chosen.numpy()]).double()
    mean, error = mean_and_error(push)
    half = half_interval(error, len(chosen) - 1)
    names = short_times(time_names(explanation, chosen.tolist()))
    numbered = names == tuple(map(str, range(len(names))))
    whens = (when_text(names[first:last], numbered=numbered) for first, last in pairwise(edges))
    return Blocks(
        channels=channel_names(explanation),
        times=tuple(when.removeprefix("at ") for when in whens),
        edges=edges,
        series=len(chosen),
        signed=explanation.signed,
        mean=mean,
        error=error,
        low=mean - half,
        high=mean + half,
        size=size.mean(0).numpy(),
        present=(_summed(seen, edges) > 0).double().mean(0).numpy(),
    )


def _summed(cells: Tensor, edges: Sequence[int]) -> Tensor:
    """Sum (series, time, channel) up over blocks, to (series, channel, block)."""
    return torch.stack([cells[:, first:last].double().sum(1) for first, last in pairwise(edges)], -1)


def block_edges(steps: int | None, time: int) -> tuple[int, ...]:
    """Return where blocks of steps begin, and where the last one ends.

    Examples
    --------
    >>> block_edges(20, 48), block_edges(None, 48)
    ((0, 20, 40, 48), (0, 6, 12, 18, 24, 30, 36, 42, 48))
    """
    length = math.ceil(time / BLOCKS) if steps is None else validation.check_int(steps, "steps", 1)
    return (*range(0, time, max(1, length)), time)


# Two groups


@dataclass(frozen=True, eq=False)
class GroupComparison:
    """What differs between two groups of series, channel by channel; arrays are (channel,).

    Attributes
    ----------
    channels : tuple of str
    names : tuple of str
        What the groups are called.
    counts : tuple of int
        How many series each has.
    first, second : array
        Mean over the series of a group of the scores of a channel, summed over time.
    difference, error, low, high : array
        First minus second, its standard error and 95 % interval (Welch); infinite where a group has one series.
    certain_together : array of bool
        For which channels intervals that hold for all of them at once (Bonferroni) leave 0 out: of a hundred
        channels, intervals of 95 % each do so in five by chance.
    """

    channels: tuple[str, ...]
    names: tuple[str, str]
    counts: tuple[int, int]
    first: Floats
    second: Floats
    difference: Floats
    error: Floats
    low: Floats
    high: Floats
    certain_together: Flags

    @property
    def order(self) -> list[int]:
        """Return the channels by the size of their difference, the largest first."""
        return [int(d) for d in np.argsort(-np.abs(self.difference), kind="stable")]

    def verdict(self) -> str:
        """Say in one line in which channels the groups differ, by more than chance explains in any of them."""
        groups = " and ".join(f"{label} ({count:,})" for label, count in zip(self.names, self.counts, strict=True))
        if min(self.counts) < 2:
            return f"{groups} cannot be compared: a group needs two series or more"
        said = [f"{self.channels[d]} {_interval(self, d)}" for d in self.order if self.certain_together[d]]
        if not said:
            return f"{groups} differ in no channel by more than chance explains"
        more = f" and {counted(len(said) - 3, 'more channel')}" if len(said) > 3 else ""
        return f"{groups} differ in {', '.join(said[:3])}{more}"

    def __repr__(self) -> str:
        rows = [["channel", *self.names, "difference [95 % interval]"]]
        for d in self.order[:LISTED]:
            means = (short_number(float(f"{part[d]:.3g}")) for part in (self.first, self.second))
            rows.append([self.channels[d], *means, _interval(self, d)])
        return f"GroupComparison: {self.verdict()}\n{table(rows)}{more_channels(len(self.channels))}"


def _interval(found: GroupComparison, d: int) -> str:
    middle, low, high = alike(*(float(part[d]) for part in (found.difference, found.low, found.high)))
    return f"{'+' if found.difference[d] > 0 else ''}{middle} [{low}, {high}]"


def compare_groups(
    explanation: Explanation, first: ArrayLike, second: ArrayLike, *, names: Sequence[str] = ("A", "B")
) -> GroupComparison:
    r"""Tell which channels push the predictions of two groups of series differently.

    Parameters
    ----------
    explanation : Explanation
    first, second : sequence of int or bool
        The series of each group, by position or as one flag each. No series may be in both.
    names : sequence of str
        What the groups are called.

    Returns
    -------
    GroupComparison
        It prints itself; ``verdict()`` is its sentence.

    Notes
    -----
    With the sums of a channel's scores over time :math:`s_{n,d}`, the difference of the groups' means has the
    standard error :math:`\sqrt{v_A / N_A + v_B / N_B}` with the variances :math:`v` over the series of each group,
    and the interval is Student's t with the degrees of freedom of Welch. Scores are compared as they are: in both
    groups they should be about the same output, such as the probability of class 1.

    Examples
    --------
    >>> x = torch.tensor([3.0, 5.0, 0.0, 2.0]).view(4, 1, 1)
    >>> from tempograd import Predictor, explain
    >>> model = Predictor(lambda z: z[:, :, 0], task="regression")
    >>> found = compare_groups(explain(model, x, "occlusion"), [0, 1], [2, 3])
    >>> float(found.difference[0]), round(float(found.error[0]), 3)
    (3.0, 1.414)
    """
    rows = [group_rows(require(explanation), part, what) for part, what in ((first, "first"), (second, "second"))]
    if shared := {*rows[0].tolist()} & {*rows[1].tolist()}:
        raise InputError(f"A series can be in one group only; in both: {len(shared)}.")
    if isinstance(names, str) or len(names) != 2:
        raise InputError(f"names must be two, one for each group, got {brief(names)}.")
    sums = [push_and_size(explanation, part)[0].sum(1, dtype=torch.float64) for part in rows]
    (one, one_error), (other, other_error) = map(mean_and_error, sums)
    counts = len(rows[0]), len(rows[1])
    error = np.sqrt(one_error**2 + other_error**2)
    freedom = _welch(one_error, other_error, counts)
    half = half_interval(error, freedom)
    return GroupComparison(
        channels=channel_names(explanation),
        names=(str(names[0]), str(names[1])),
        counts=counts,
        first=one,
        second=other,
        difference=one - other,
        error=error,
        low=one - other - half,
        high=one - other + half,
        certain_together=np.abs(one - other) > half_interval(error, freedom, 1 - 0.05 / len(one)),
    )


def _welch(one: Floats, other: Floats, counts: tuple[int, int]) -> Floats:
    """Return the degrees of freedom of a difference of means with these standard errors, by Satterthwaite."""
    variances = [np.where(np.isfinite(error), error, 0) ** 2 for error in (one, other)]
    parts = [variance**2 / max(count - 1, 1) for variance, count in zip(variances, counts, strict=True)]
    total = np.asarray(parts[0] + parts[1])
    return np.asarray(np.where(total > 0, (variances[0] + variances[1]) ** 2 / np.where(total > 0, total, 1), 1.0))


OUTER = 0.02  # share of the values that each of the outer groups has
INNER = 6  # groups between them
SLIGHT = 0.1  # of the largest push: what pushes less is not named


@dataclass(frozen=True, eq=False)
class ValueEffect:
    """Groups of the observed values of a channel, and how far they push.

    Attributes
    ----------
    centre, mean, low, high : array of shape (groups,)
        Median value of a group, its mean score over the series, and the 95 % interval of that.
    counts, series : array of shape (groups,)
        How many values a group has, and from how many series.
    strength : float
        How far the channel certainly moved a series, up or down, by which channels are ranked: the limit of each
        group's interval that is nearer to 0, times the values that a series has there.
    signed : bool
    """

    centre: Floats
    mean: Floats
    low: Floats
    high: Floats
    counts: Indices
    series: Indices
    strength: float
    signed: bool

    @property
    def pushes(self) -> tuple[int, int]:
        """Return where the lowest and the highest values certainly push: up (1), down (-1), or nowhere (0).

        Of the two outer groups at each end the first one with a certain score tells.
        """
        near, certain = min(2, max(1, len(self.mean) // 2)), (self.low > 0) | (self.high < 0)
        effect = np.where(certain, self.mean, 0.0)
        ends = [next(filter(None, side[:near].tolist()), 0.0) for side in (effect, effect[::-1])]
        slight = SLIGHT * max(map(abs, ends))
        low, high = (int(np.sign(end)) if abs(end) >= slight else 0 for end in ends)
        return low, high

    @property
    def words(self) -> str:
        """Say in a few words which values push, and where."""
        if not len(self.mean):
            return "no value observed"
        if not self.signed:
            if self.low[-1] > self.high[0]:
                return "high values matter more"
            return "low values matter more" if self.high[-1] < self.low[0] else "no clear direction"
        low, high = self.pushes
        if not low and not high:
            return "no clear direction"
        sides = {1: "up", -1: "down"}
        if low == -high:
            return f"high values push {sides[high]}, low values {sides[low]}"
        which = "high and low" if low == high else "high" if high else "low"
        return f"{which} values push {sides[high or low]}"

    def data(self) -> dict[str, Any]:
        """Return words, numbers and groups as plain data for a page; None stands for an unknown limit."""
        groups = zip(self.centre, self.mean, self.low, self.high, self.counts, self.series, strict=True)
        return {
            "words": self.words,
            "strength": self.strength,
            "groups": [[float(part) if np.isfinite(part) else None for part in group] for group in groups],
        }


def value_effects(explanation: Explanation) -> tuple[ValueEffect, ...]:
    """Return which values of each channel push; channels in their own order."""
    push, observed = to_numpy(push_and_size(explanation)[0]), observed_cells(explanation)
    values = to_numpy(shown_values([explanation]))
    return tuple(
        _value_effect(observed[..., d], values[..., d], push[..., d], signed=explanation.signed)
        for d in range(values.shape[2])
    )


def _value_effect(seen: Flags, values: Floats, push: Floats, *, signed: bool) -> ValueEffect:
    """Group the observed values of one channel, (series, time), and average their scores."""
    value, score = (part.astype(np.float64)[seen] for part in (values, push))
    group, count = _grouped(value)
    cell, shape = np.nonzero(seen)[0] * count + group, (len(seen), count)
    members = np.bincount(cell, minlength=len(seen) * count).reshape(shape)
    sums = np.bincount(cell, score, minlength=len(seen) * count).reshape(shape)
    means = np.divide(sums, members, out=np.full(shape, np.nan), where=members > 0)
    mean, error = mean_and_error(torch.from_numpy(means))
    series, counts = (members > 0).sum(0), members.sum(0)
    half = half_interval(error, series - 1)
    nearer = np.maximum(np.maximum(mean - half, -(mean + half)), 0)
    return ValueEffect(
        centre=np.array([np.median(value[group == each]) for each in range(count)]),
        mean=mean,
        low=mean - half,
        high=mean + half,
        counts=counts,
        series=series,
        strength=float(nearer @ counts) / max(int(seen.any(1).sum()), 1),
        signed=signed,
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
