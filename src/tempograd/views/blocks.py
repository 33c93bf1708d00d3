r"""Which channels, at which times, over a group of series: sums over blocks of steps, with intervals over series.

For the series :math:`n` of a group and a block :math:`b` of steps,

.. math:: s_{n,d,b} = \sum_{t \in b} A_{n,t,d}, \qquad
    \bar s_{d,b} = \frac1N \sum_n s_{n,d,b}, \qquad
    \bar s_{d,b} \pm t_{N-1} \sqrt{\frac{\sum_n (s_{n,d,b} - \bar s_{d,b})^2}{N (N - 1)}}.

The interval is about series like these: it holds how much they differ, with the sampling error of each. A cell
that was not observed counts as 0: it did nothing. So does a score below 0 of a method without signs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, brief
from tempograd.core.formatting import alike, counted, short_number, table
from tempograd.explanation.answers import LISTED, Blocks, as_table, more_channels
from tempograd.explanation.core import Explanation, require
from tempograd.typing import ArrayLike, BlockSteps
from tempograd.views.channels import Effects, half_interval, mean_and_error
from tempograd.views.drivers import when_text
from tempograd.views.labels import channel_names, time_names
from tempograd.views.series import BLOCKS, Flags, Floats, observed_cells

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.95


def blocks_of(
    explanation: Explanation, rows: ArrayLike | None = None, *, steps: BlockSteps | None = None
) -> Blocks:
    """Sum scores up over blocks of steps, and average over a group of series.

    Parameters
    ----------
    explanation : Explanation
    rows : sequence of int or bool, optional
        The series of the group, by position or as one flag each; by default all.
    steps : int or sequence of int, optional
        How many steps a block has, the last one perhaps fewer; or where blocks begin and the last one ends, such
        as ``[0, 24, 48]``. By default there are eight blocks.
    """
    chosen = group_rows(require(explanation), rows, "rows")
    edges = block_edges(steps, explanation.values.shape[1])
    push, size = (_summed(part, edges) for part in Effects.of(explanation, chosen))
    seen = torch.from_numpy(observed_cells(explanation)[chosen.numpy()]).double()
    mean, error = mean_and_error(push)
    half = half_interval(error, len(chosen) - 1)
    names = time_names(explanation, chosen.tolist())
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
    sums = [cells[:, first:last].double().sum(1) for first, last in pairwise(edges)]
    return torch.stack(sums, -1)


def group_rows(explanation: Explanation, rows: ArrayLike | None, what: str) -> Tensor:
    """Return the positions of the series of a group, each once."""
    count = len(explanation)
    found = torch.arange(count) if rows is None else validation.check_positions(rows, what, count)
    if not len(found):
        raise InputError(f"{what} chooses no series: there is nothing to average over.")
    if len(set(found.tolist())) < len(found):
        raise InputError(f"{what} must name each series once, got {brief(rows)}.")
    return found


def block_edges(steps: BlockSteps | None, time: int) -> tuple[int, ...]:
    """Return where blocks of steps begin, and where the last one ends.

    Examples
    --------
    >>> block_edges(20, 48), block_edges([0, 24, 48], 48), block_edges(None, 48)
    ((0, 20, 40, 48), (0, 24, 48), (0, 6, 12, 18, 24, 30, 36, 42, 48))
    """
    if steps is None:
        steps = max(1, math.ceil(time / BLOCKS))
    if isinstance(steps, (str, bool)) or not isinstance(steps, Sequence | np.ndarray | Tensor):
        return (*range(0, time, validation.check_int(steps, "steps", 1)), time)
    tensor = validation.check_numbers(steps, "steps").cpu()
    found = [] if tensor.ndim != 1 or tensor.is_floating_point() else [int(edge) for edge in tensor.tolist()]
    ordered = all(first < last for first, last in pairwise(found))
    if len(found) < 2 or not ordered or found[0] < 0 or found[-1] > time:
        raise InputError(
            f"steps must be how many steps a block has, or where blocks begin and the last one ends, rising from "
            f"0 to at most {time}, got {brief(steps)}."
        )
    return tuple(found)


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
    signed : bool
    first, second : array
        Mean over the series of a group of the scores of a channel, summed over time.
    difference, error, low, high : array
        First minus second, its standard error and 95 % interval (Welch); infinite where a group has one series.
    freedom : array
        Degrees of freedom of that interval.
    """

    channels: tuple[str, ...]
    names: tuple[str, str]
    counts: tuple[int, int]
    signed: bool
    first: Floats
    second: Floats
    difference: Floats
    error: Floats
    low: Floats
    high: Floats
    freedom: Floats

    @property
    def certain(self) -> Flags:
        """Tell for which channels the interval leaves 0 out, (channel,)."""
        return np.asarray((self.low > 0) | (self.high < 0))

    @property
    def order(self) -> list[int]:
        """Return the channels by the size of their difference, the largest first."""
        return [int(d) for d in np.argsort(-np.abs(self.difference), kind="stable")]

    @property
    def certain_together(self) -> Flags:
        """Tell the same by intervals that hold for all channels at once (Bonferroni), (channel,).

        Of a hundred channels, intervals of 95 % each leave 0 out in five by chance.
        """
        level = 1 - (1 - LEVEL) / len(self.channels)
        return np.asarray(np.abs(self.difference) > half_interval(self.error, self.freedom, level))

    def verdict(self) -> str:
        """Say in one line in which channels the groups differ, by more than chance explains in any of them."""
        certain = [d for d in self.order if self.certain_together[d]]
        groups = " and ".join(f"{label} ({count:,})" for label, count in zip(self.names, self.counts, strict=True))
        alone = [d for d in self.order if self.certain[d]]
        if min(self.counts) < 2:
            return f"{groups} cannot be compared: a group needs two series or more"
        if not alone:
            return f"{groups} differ in no channel by more than chance explains"
        named = certain or alone
        said = ", ".join(f"{self.channels[d]} {_interval(self, d)}" for d in named[:3])
        more = f" and {counted(len(named) - 3, 'more channel')}" if len(named) > 3 else ""
        if certain:
            return f"{groups} differ in {said}{more}"
        chance = f"of {len(self.channels)} channels, {(1 - LEVEL) * len(self.channels):.2g} do so by chance"
        return f"{groups} may differ in {said}{more}: {chance}"

    def __repr__(self) -> str:
        rows = [["channel", *self.names, "difference [95 % interval]"]]
        for d in self.order[:LISTED]:
            means = (short_number(float(f"{part[d]:.3g}")) for part in (self.first, self.second))
            rows.append([self.channels[d], *means, _interval(self, d)])
        return f"GroupComparison: {self.verdict()}\n{table(rows)}{more_channels(len(self.channels))}"

    def to_dataframe(self) -> "pd.DataFrame":
        """Return one row per channel, with the columns ``channel``, ``first`` to ``high``, and ``certain``."""
        names = ("first", "second", "difference", "low", "high")
        columns = {"channel": list(self.channels)} | {name: getattr(self, name) for name in names}
        return as_table(columns | {"standard_error": self.error, "certain": self.certain})


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
        It prints itself; ``verdict()`` is its sentence, and :func:`tempograd.plots.group_difference` draws it.

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
    shared = set(rows[0].tolist()) & set(rows[1].tolist())
    if shared:
        raise InputError(f"A series can be in one group only; in both: {len(shared)}.")
    if isinstance(names, str) or len(names) != 2:
        raise InputError(f"names must be two, one for each group, got {brief(names)}.")
    sums = [Effects.of(explanation, part).push.sum(1, dtype=torch.float64) for part in rows]
    (one, one_error), (other, other_error) = map(mean_and_error, sums)
    counts = len(rows[0]), len(rows[1])
    error = np.sqrt(one_error**2 + other_error**2)
    freedom = _welch(one_error, other_error, counts)
    half = half_interval(error, freedom)
    return GroupComparison(
        channels=channel_names(explanation),
        names=(str(names[0]), str(names[1])),
        counts=counts,
        signed=explanation.signed,
        first=one,
        second=other,
        difference=one - other,
        error=error,
        low=one - other - half,
        high=one - other + half,
        freedom=freedom,
    )


def _welch(one: Floats, other: Floats, counts: tuple[int, int]) -> Floats:
    """Return the degrees of freedom of a difference of means with these standard errors, by Satterthwaite."""
    variances = [np.where(np.isfinite(error), error, 0) ** 2 for error in (one, other)]
    parts = [variance**2 / max(count - 1, 1) for variance, count in zip(variances, counts, strict=True)]
    total = np.asarray(parts[0] + parts[1])
    return np.asarray(np.where(total > 0, (variances[0] + variances[1]) ** 2 / np.where(total > 0, total, 1), 1.0))
