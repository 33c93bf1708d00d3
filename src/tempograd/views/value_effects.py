r"""Whether high values of a channel push a prediction up: its values against their scores, over a group of series.

Values are put into groups of about equally many, equal values into the same one. For the series :math:`n` that
have values in a group :math:`g`, :math:`m_{n,g}` is the mean score of these; shown is the mean of :math:`m_{n,g}`
over the series with Student's interval, since values of one series are no independent witnesses.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tempograd.core import stats
from tempograd.core.errors import InputError
from tempograd.explanation import Explanation
from tempograd.typing import Array
from tempograd.views.channels import Effects, mean_and_error
from tempograd.views.series import Floats, Indices, observed_cells, shown_values, to_numpy

GROUPS = 8  # of values


@dataclass(frozen=True, eq=False)
class ValueEffect:
    """Observed values of a channel with their scores, and the means of groups of them.

    Attributes
    ----------
    values, scores : array of shape (observed values,)
    rows : array of shape (observed values,)
        Which series each is from.
    centre, mean, low, high : array of shape (groups,)
        Median value of a group, its mean score over the series, and the 95 % interval of that.
    signed : bool
    """

    values: Floats
    scores: Floats
    rows: Indices
    centre: Floats
    mean: Floats
    low: Floats
    high: Floats
    signed: bool

    @property
    def direction(self) -> int:
        """Return 1 or -1 where the group of the highest values scores more or less than that of the lowest.

        That is where their intervals do not touch; else 0.
        """
        if len(self.mean) < 2:
            return 0
        return int(self.low[-1] > self.high[0]) - int(self.high[-1] < self.low[0])

    @property
    def words(self) -> str:
        """Say in a few words in which direction high values push."""
        if not len(self.values):
            return "no value observed"
        if not self.direction:
            return "no clear direction"
        up = self.direction > 0
        if not self.signed:
            return f"{'high' if up else 'low'} values matter more"
        return f"high values push {'up' if up else 'down'}"


def value_effect(explanation: Explanation, channel: int, rows: Tensor, *, x: Array | None = None) -> ValueEffect:
    """Collect the observed values of one channel in some series with their scores."""
    depth = explanation.values.shape[2]
    if not 0 <= channel < depth:
        raise InputError(f"There is no channel {channel}: the explanation has {depth}, counted from 0.")
    index = rows.numpy()
    seen = observed_cells(explanation)[index][..., channel]
    value = to_numpy(shown_values([explanation], x)[rows, :, channel]).astype(np.float64)
    score = to_numpy(Effects.of(explanation, rows).push[..., channel]).astype(np.float64)
    row = np.broadcast_to(index[:, None], seen.shape)[seen]
    value, score = value[seen], score[seen]
    group, count = _grouped(value)
    means = np.full((len(index), count), np.nan)
    for place, series in enumerate(index):
        for each in range(count):
            inside = score[(row == series) & (group == each)]
            means[place, each] = inside.mean() if len(inside) else np.nan
    mean, error = mean_and_error(torch.from_numpy(means))
    known = torch.from_numpy((~np.isnan(means)).sum(0) - 1.0)
    factor, finite = stats.t_quantile(0.95, known).numpy(), np.isfinite(error)
    half = np.full(count, np.inf)
    half[finite] = factor[finite] * error[finite]
    centre = np.array([np.median(value[group == each]) for each in range(count)])
    return ValueEffect(value, score, row, centre, mean, mean - half, mean + half, explanation.signed)


def _grouped(values: Floats) -> tuple[Indices, int]:
    """Return the group of each value, and how many there are; equal values are in the same one.

    Examples
    --------
    >>> _grouped(np.array([5.0, 1.0, 1.0, 1.0, 2.0])), _grouped(np.arange(16.0))[0]
    ((array([2, 0, 0, 0, 1]), 3), array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]))
    """
    if not len(values):
        return np.zeros(0, dtype=np.int64), 0
    rank = np.searchsorted(np.sort(values), values)  # how many are smaller
    found, group = np.unique(rank * GROUPS // len(values), return_inverse=True)
    return group, len(found)
