r"""A guess of one channel's next values from the past of all: the window generators of WinIT.

Each channel :math:`f` has a GRU of its own that reads :math:`x_{<u}`, and a head that gives
:math:`\mu` and :math:`\sigma` of :math:`x_{u, f}, \ldots, x_{u+W-1, f}`. The networks share no weight but have the
same shape, so they run side by side: every weight has one consecutive share of rows per channel.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from tempograd.explainers._learning import Task

HIDDEN = 50


class WindowGenerator(nn.Module):
    """As many recurrent networks as there are channels, each for the next ``window`` values of its channel."""

    def __init__(self, channels: int, window: int, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.channels, self.window, self.hidden = channels, window, hidden
        self.reads = nn.Linear(channels, channels * 3 * hidden)  # gates: reset, update, new
        self.recurrent = _Many(channels, hidden, 3 * hidden)
        self.first = _Many(channels, hidden, hidden)
        self.norm = nn.BatchNorm1d(channels * hidden)
        self.last = _Many(channels, hidden, 2 * window)
        for weight in (self.reads.weight, self.reads.bias):
            nn.init.uniform_(weight, -(hidden**-0.5), hidden**-0.5)

    def past(self, x: Tensor) -> Tensor:
        """Return what each network knows before each step, (channel, series, time, hidden); zeros at first."""
        h = x.new_zeros(self.channels, len(x), self.hidden)
        states = [h]
        for t in range(x.shape[1] - 1):
            read = self.reads(x[:, t]).view(len(x), self.channels, 3, self.hidden).permute(2, 1, 0, 3)
            reset, update, new = self.recurrent(h).chunk(3, -1)
            update = (read[1] + update).sigmoid()
            new = (read[2] + (read[0] + reset).sigmoid() * new).tanh()
            h = (1 - update) * new + update * h
            states.append(h)
        return torch.stack(states, 2)

    def moments(self, past: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and spread of the values from each step on, (series, time, channel, window) each."""
        channels, series, time, hidden = past.shape
        middle = self.first(past.flatten(1, 2)).tanh()
        middle = self.norm(middle.transpose(0, 1).flatten(1)).unflatten(1, (channels, hidden)).transpose(0, 1)
        found = self.last(middle).view(channels, series, time, 2, self.window)
        return found[:, :, :, 0].permute(1, 2, 0, 3), found[:, :, :, 1].permute(1, 2, 0, 3)


class _Many(nn.Module):
    """A linear layer for each channel, (channel, rows, inputs) → (channel, rows, outputs)."""

    def __init__(self, channels: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, inputs, outputs).uniform_(-1, 1) * inputs**-0.5)
        self.bias = nn.Parameter(torch.empty(channels, 1, outputs).uniform_(-1, 1) * inputs**-0.5)

    def forward(self, rows: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, rows, self.weight)


def windows_of(x: Tensor, window: int) -> Tensor:
    """Return the values from each step on, (series, time, …, window), zeros beyond the end.

    Examples
    --------
    >>> windows_of(torch.tensor([[1, 2, 3]]), 2).tolist()
    [[[1, 2], [2, 3], [3, 0]]]
    """
    beyond = x.new_zeros(len(x), window - 1, *x.shape[2:])
    return torch.cat([x, beyond], 1).unfold(1, window, 1)


def next_values(generator: WindowGenerator) -> Task:
    """Learn to draw values near those that follow, from every step on but the first."""

    def errors(x: Tensor, rng: torch.Generator) -> Tensor:
        """Return the mean squared error of each channel's draws."""
        mean, spread = (part[:, 1:] for part in generator.moments(generator.past(x)))
        drawn = mean + spread * torch.randn(mean.shape, generator=rng).to(x)
        inside = windows_of(torch.ones_like(x[:1]), generator.window)[:, 1:]
        wrong = (drawn - windows_of(x, generator.window)[:, 1:]).square() * inside
        return wrong.sum((0, 1, 3)) / (len(x) * inside.sum((0, 1, 3)))

    def losses(x: Tensor, rng: torch.Generator) -> Iterator[Tensor]:
        yield errors(x, rng).sum()  # no weight is shared, so each network learns as if it were alone

    return Task(losses, errors)
