r"""A weighted mean over path points, with its standard error, in one pass.

The points of a series are ordered along the path, so their gradients carry a trend that is not noise.
With :math:`z_i = v_i (y_i - \hat y)`, the residual of point :math:`i` with weight :math:`v_i`, the
variance of the mean :math:`\hat y = \sum v_i y_i / \sum v_i` is estimated from pairs of neighbours,

.. math:: \widehat{\mathrm{var}}(\hat y) = \frac{n}{n - 1} \,
    \frac{\sum_j (z_{2j+1} - z_{2j})^2}{(\sum_i v_i)^2}, \qquad n = \frac{(\sum v_i)^2}{\sum v_i^2},

in which a smooth trend cancels; where few points count, neighbours do not matter and it is the usual
estimate of a ratio. :math:`n` is the effective sample size. A last point without neighbour is its own pair.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Estimate(NamedTuple):
    """Per cell: the mean, its standard error, how many points counted, and how many they are worth."""

    mean: Tensor
    error: Tensor
    points: Tensor
    effective: Tensor


class WeightedMean:
    """Accumulates points, piece by piece in path order; ``errors=False`` leaves the error out (it is 0 then)."""

    def __init__(self, *, errors: bool = True) -> None:
        self._errors = errors
        self._sums: list[Tensor] = []
        self._pairs: list[tuple[Tensor, Tensor]] = []  # differences of weighted values and of weights
        self._single: tuple[Tensor, Tensor] | None = None

    def add(self, y: Tensor, weight: Tensor | None = None, free: Tensor | None = None) -> None:
        """Take points.

        Parameters
        ----------
        y : Tensor of shape (series, points, time, channel)
        weight : Tensor that broadcasts to (series, points), optional
            By default all points weigh the same.
        free : Tensor like ``y``, optional
            1 for the cells each point counts for, 0 for others; by default all count.
        """
        count = torch.full_like(y[:, 0], y.shape[1]) if free is None else free.sum(1)
        v, sums = torch.ones_like(y[:1, :1]).expand_as(y) if free is None else free, [count, count]
        if weight is not None:
            v = weight[..., None, None] * v
            sums = [v.sum(1), _squares(v)]
        p = torch.mul(y, v, out=torch.empty(y.shape, dtype=y.dtype, device=y.device))  # whatever y's layout
        parts = [p.sum(1), *sums, count]
        self._sums = [old + new for old, new in zip(self._sums, parts, strict=True)] if self._sums else parts
        if self._errors:
            self._pair(p, v)

    def result(self) -> Estimate:
        """Return the estimate; a cell no point counted for has mean 0 and an infinite error."""
        if self._single is not None:
            self._pairs.append(self._single)
        total, weight, squares, points = self._sums
        weight = weight.clamp(min=torch.finfo(weight.dtype).tiny)
        mean = total / weight
        residuals = (torch.addcmul(dp, dv, mean[:, None], value=-1) for dp, dv in self._pairs)
        spread = sum((_squares(residual) for residual in residuals), torch.zeros_like(mean))
        effective = weight * (weight / squares.clamp(min=torch.finfo(weight.dtype).tiny))
        error = (effective / (effective - 1).clamp(min=1e-6) * spread).sqrt() / weight
        return Estimate(mean, error.masked_fill_(points < 2, torch.inf), points, effective)

    def _pair(self, p: Tensor, v: Tensor) -> None:
        """Take differences of neighbours; a point left over waits for the next piece."""
        if self._single is not None:
            p, v = torch.cat([self._single[0], p], 1), torch.cat([self._single[1], v], 1)
        even = p.shape[1] // 2 * 2
        self._single = (p[:, even:], v[:, even:]) if even < p.shape[1] else None
        self._pairs.append((p[:, 1:even:2] - p[:, 0:even:2], v[:, 1:even:2] - v[:, 0:even:2]))


def _squares(part: Tensor) -> Tensor:
    """Sum of squares over the points; on a GPU without writing the squares down, which is slower on a CPU."""
    if not part.is_cuda:
        return part.square().sum(1)
    norm: Tensor = torch.linalg.vector_norm(part, dim=1)
    return norm.square_()
