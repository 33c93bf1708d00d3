"""What takes the place of a masked value: what its surroundings suggest, or what a small network learns."""

import math
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tempograd._utils import validation
from tempograd.engine import Block, Question

# A small network that learns what to put in the place of a value, shared by all series it is trained on.

Net = TypeVar("Net", bound=nn.Module)


class Replacement(nn.Module):
    """A bidirectional GRU as wide as the series, its states scaled to length 1, and a linear layer."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gru = nn.GRU(channels, channels, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * channels, channels)

    def forward(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """Return replacements; ``lengths`` (on the CPU) keeps the way back in time from padding."""
        if lengths is None:
            states = self.gru(x)[0]
        else:
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            states, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=x.shape[1])
        answer: Tensor = self.head(normalize(states, dim=-1))
        return answer


class Trend(nn.Module):
    """One network per channel that sees its whole course: time to 32 to time, all channels at once."""

    HIDDEN = 32

    def __init__(self, time: int, channels: int) -> None:
        super().__init__()
        self.time = time
        self.first = _uniform(time, channels, time, self.HIDDEN)
        self.first_bias = _uniform(time, channels, self.HIDDEN)
        self.second = _uniform(self.HIDDEN, channels, self.HIDDEN, time)
        self.second_bias = _uniform(self.HIDDEN, time, channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return the trend of the first ``time`` steps and 0 for padding after them."""
        hidden = (torch.einsum("ntd,dth->ndh", x[:, : self.time], self.first) + self.first_bias).relu()
        trend = torch.einsum("ndh,dht->ntd", hidden, self.second) + self.second_bias
        return pad(trend, (0, 0, 0, x.shape[1] - self.time))


def _uniform(inputs: int, *shape: int) -> nn.Parameter:
    """Weights as a linear layer with so many inputs has them at first."""
    return nn.Parameter(torch.empty(shape).uniform_(-(inputs**-0.5), inputs**-0.5))


def seeded(question: Question, dtype: torch.dtype, make: Callable[[], Net]) -> Net:
    """Make a network whose first weights depend on the seed alone, on the model's device."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(question.seed & 0x7FFFFFFFFFFFFFFF)
        return make().to(question.device, dtype)


def ends(question: Question, block: Block) -> Tensor | None:
    """Return the lengths of a block's series on the CPU, None if none is padded."""
    lengths = question.lengths[block.rows]
    return None if bool((lengths == question.x.shape[1]).all()) else lengths.clamp(min=1)


# What a mask does to a series: 1 keeps a value, 0 replaces it by what its surroundings suggest.

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
        towards = validation.average(x, block.observed) if kind == "mean" else block.baseline.to(dtype)
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
