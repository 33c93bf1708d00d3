"""What a mask does to a series: 1 keeps a value, 0 replaces it by what its surroundings suggest."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from tempograd import checks
from tempograd.engine import Block

PERTURBATIONS = ("blur", "mean", "window", "reference")
Perturb = Callable[[Tensor], Tensor]
_SHARPEST = 1e-6  # width of the blur at mask 1, as a share of the widest


def perturbation(kind: str, block: Block, width: float, dtype: torch.dtype) -> Perturb:
    """Return the operator of a block: masks (series, areas, time, channel) to perturbed series of that shape.

    Only observed values take part in a blend, and only they are replaced.

    Parameters
    ----------
    kind : {"blur", "mean", "window", "reference"}
    block : Block
    width : float
        Standard deviation of the widest blur, or steps to either side of the window.
    dtype : torch.dtype
        Precision of the masks.
    """
    x = block.x.to(dtype)
    if kind == "blur":
        return blur(x, block.observed, width)
    if kind == "window":
        kept, count = _neighbours(x, block.observed, math.floor(width))
        towards = kept.sum(-1) / count.sum(-1).clamp(min=1)
    else:
        towards = checks.average(x, block.observed) if kind == "mean" else block.baseline.to(dtype)
    return fade(x, block.observed, towards)


def fade(x: Tensor, observed: Tensor, towards: Tensor) -> Perturb:
    r"""Return :math:`a + m (x - a)` for what to fade to, :math:`a`."""
    away = ((x - towards) * observed)[:, None]
    return lambda mask: x[:, None] - (1 - mask) * away


def blur(x: Tensor, observed: Tensor, widest: float) -> Perturb:
    r"""Return the blur whose width each mask cell sets itself.

    .. math:: \pi(x, m)_{t} = \frac{\sum_{t'} e^{-(t - t')^2 / 2 s^2} x_{t'}}{\sum_{t'} e^{-(t - t')^2 / 2 s^2}},
        \qquad s = s_{\max} (1 - m_t).

    Neighbours further than four widths away weigh less than 0.04 % and are left out.
    """
    radius = min(math.ceil(4 * widest), x.shape[1] - 1)
    values, count = _neighbours(x, observed, radius)
    values, count = _both_sides(values)[:, None], _both_sides(count)[:, None]
    squares = torch.arange(radius + 1, device=x.device).to(x.dtype).square()
    fixed = ~observed[:, None]

    def perturb(mask: Tensor) -> Tensor:
        spread = widest * (1 + _SHARPEST - mask)
        weight = (spread.square().mul(-2).reciprocal()[..., None] * squares).exp()
        blurred = (weight * values).sum(-1) / (weight * count).sum(-1).clamp(min=_SHARPEST)
        return torch.where(fixed, x[:, None], blurred)

    return perturb


def _neighbours(x: Tensor, observed: Tensor, radius: int) -> tuple[Tensor, Tensor]:
    """Observed values around each cell and their number, (series, time, channel, 2 radius + 1)."""
    both = torch.stack([x * observed, observed.to(x)])
    both = torch.nn.functional.pad(both, (0, 0, radius, radius)).unfold(2, 2 * radius + 1, 1)
    return both[0], both[1]


def _both_sides(around: Tensor) -> Tensor:
    """Add the neighbours at equal distance: distance 0, 1, … radius along the last axis."""
    radius = around.shape[-1] // 2
    after, before = around[..., radius:], around[..., : radius + 1].flip(-1)
    return torch.cat([after[..., :1], after[..., 1:] + before[..., 1:]], -1)
