"""Cells sorted by their score, and how many salient ones lie above each threshold."""

from typing import NamedTuple, Self

import torch
from torch import Tensor

MARGIN = 1e-5  # keeps the highest score below 1, where its information is finite


class Thresholds(NamedTuple):
    """Each cell of a row as a threshold, highest first; everything is (row, cell) in float64.

    Equal scores are one threshold, so they share its counts. Places beyond the observed cells repeat the
    lowest threshold: they add nothing to an area.
    """

    score: Tensor
    salient: Tensor  # whether the cell itself is
    hits: Tensor  # salient cells at or above the threshold
    above: Tensor  # cells at or above the threshold

    @classmethod
    def of(cls, score: Tensor, salient: Tensor, observed: Tensor) -> Self:
        """Sort the cells of each row; unobserved ones are left out.

        Examples
        --------
        >>> score = torch.tensor([[0.2, 0.9, 0.2, 0.7]], dtype=torch.float64)
        >>> salient = torch.tensor([[True, True, False, True]])
        >>> table = Thresholds.of(score, salient, torch.tensor([[True, True, True, False]]))
        >>> table.score.tolist(), table.hits.tolist()
        ([[0.9, 0.2, 0.2, 0.2]], [[1.0, 2.0, 2.0, 2.0]])
        """
        score, order = score.masked_fill(~observed, -torch.inf).sort(1, descending=True)
        salient = (salient & observed).gather(1, order)
        place = torch.arange(score.shape[1], device=score.device).expand_as(order)
        last = (observed.sum(1, keepdim=True) - 1).clamp(min=0)
        ends = torch.ones_like(salient)
        ends[:, :-1] = score[:, :-1] != score[:, 1:]
        # the last place of each run of equal scores, found from the right
        end = torch.where(ends, place, score.shape[1]).flip(1).cummin(1).values.flip(1).minimum(last)
        hits = salient.to(score).cumsum(1)
        return cls(score.gather(1, end), salient, hits.gather(1, end), (end + 1).to(score))

    @property
    def precision(self) -> Tensor:
        """Share of salient cells among those at or above each threshold."""
        return self.hits / self.above

    @property
    def positives(self) -> Tensor:
        """How many cells of each row are salient, (row, 1)."""
        return self.salient.sum(1, keepdim=True).to(self.hits)

    @property
    def recall(self) -> Tensor:
        """Share of the salient cells at or above each threshold; NaN where there is none."""
        return self.hits / self.positives


def scaled(score: Tensor, observed: Tensor, published: bool = False) -> Tensor:
    r"""Min–max scale the observed cells of each row into [0, 1), in float64.

    .. math:: m = \frac{a - \min a}{(1 + \varepsilon)(\max a - \min a)}, \qquad \varepsilon = 10^{-5},

    which does not depend on the unit of :math:`a`; published numbers have :math:`\max a - \min a +
    \varepsilon` below the line instead. A constant row becomes 0.

    Examples
    --------
    >>> scaled(torch.tensor([[1.0, 3.0, 2.0]]), torch.ones(1, 3, dtype=torch.bool))
    tensor([[0.0000, 1.0000, 0.5000]], dtype=torch.float64)
    """
    score = score.double()
    low = score.masked_fill(~observed, torch.inf).amin(1, keepdim=True)
    high = score.masked_fill(~observed, -torch.inf).amax(1, keepdim=True)
    span = high - low
    unit = span + MARGIN if published else span * (1 + MARGIN)
    return torch.where(observed & (span > 0), (score - low) / unit, 0)


def trapezoid(height: Tensor, position: Tensor) -> Tensor:
    """Area under ``height`` along ``position``, by the trapezoid rule in each row."""
    return torch.trapezoid(height, position, dim=1)
