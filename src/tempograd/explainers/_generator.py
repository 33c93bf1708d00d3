r"""A Gaussian guess of the next values from the past: the joint conditional generator of FIT.

A GRU reads :math:`x_{<t}`, its state gives a random latent :math:`z = \mu_z + \sigma_z \epsilon`, and :math:`z`
gives the mean and the factor of :math:`x_t \sim N(m(z), A(z) A(z)^\top + \nu I)`.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from tempograd.draws import Purpose, keys, normal, per_point
from tempograd.explainers._learning import Task

LATENT = 100
MIDDLE = 10  # units of the hidden layers between state, latent and values
CHECKED = 10  # steps at which held-out series are looked at


class Generator(nn.Module):
    """The joint distribution of the channels at a step, given the steps before.

    Parameters
    ----------
    channels, hidden : int
    noise : float
        Variance added to every channel.
    bounded : bool
        Whether the latents' mean and spread are held in (-1, 1).
    """

    def __init__(self, channels: int, hidden: int, noise: float = 1e-4, *, bounded: bool = False) -> None:
        super().__init__()
        self.channels, self.noise, self.latents = channels, noise, LATENT
        self.gru = nn.GRU(channels, hidden, batch_first=True)
        for name, weight in self.gru.named_parameters():
            if name.startswith("weight"):
                nn.init.normal_(weight, std=0.02)
        self.latent = nn.Sequential(_tanh(hidden), nn.Linear(MIDDLE, 2 * LATENT), *[nn.Tanh()] * bounded)
        self.mean = nn.Sequential(_tanh(LATENT), nn.Linear(MIDDLE, channels))
        self.factor = nn.Sequential(_tanh(LATENT), nn.Linear(MIDDLE, channels * channels), nn.ReLU())

    def past(self, x: Tensor) -> Tensor:
        """Return what is known before each step, (series, time, hidden); zeros before the first."""
        states: Tensor = self.gru(x)[0]
        return torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], 1)

    def moments(self, past: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return m (rows, channel) and A (rows, channel, channel) for latents with ``noise`` (rows, latent)."""
        centre, spread = self.latent(past).chunk(2, -1)
        z = centre + spread * noise
        return self.mean(z), self.factor(z).unflatten(-1, (self.channels, self.channels))

    def surprise(self, x: Tensor, past: Tensor, noise: Tensor) -> Tensor:
        """Return the mean negative log-density of values (rows, channel)."""
        mean, factor = self.moments(past, noise)
        factor = factor.double()  # the added variance would be lost beside large factors in single precision
        added = self.noise * torch.eye(self.channels, dtype=factor.dtype, device=factor.device)
        root: Tensor = torch.linalg.cholesky_ex(factor @ factor.mT + added).L  # NaN is met by the training loop
        away = torch.linalg.solve_triangular(root, (x - mean).double()[..., None], upper=False)[..., 0]
        volume = root.diagonal(dim1=-2, dim2=-1).log() + 0.5 * math.log(2 * math.pi)
        surprise: Tensor = (0.5 * away.square() + volume).sum(-1)
        return surprise.mean()

    def candidates(self, x: Tensor, past: Tensor, at: slice, ids: Tensor, seed: int, samples: int) -> Tensor:
        r"""Draw each step of ``at`` given its past and one of its own values.

        One joint draw :math:`\tilde x = m + A u + \sqrt\nu v` serves every kept channel :math:`i` by Matheron's
        rule, :math:`\tilde x + C_{\cdot i} C_{ii}^{-1} (x_i - \tilde x_i)` with :math:`C = A A^\top + \nu I`.

        Returns
        -------
        Tensor of shape (series, steps, kept channel, sample, channel)
        """
        steps = torch.arange(at.start, at.stop, device=x.device)
        series, count, channels = len(x), len(steps), self.channels
        hidden = past[:, at, None].expand(-1, -1, samples, -1).flatten(0, 2)
        latent = _noise(seed, ids, Purpose.LATENTS, samples, steps, self.latents).to(x).flatten(0, 2)
        mean, factor = self.moments(hidden, latent)
        u, v = (
            _noise(seed, ids, Purpose.REPLACEMENTS, samples, steps, 2 * channels).to(x).flatten(0, 2).chunk(2, -1)
        )
        drawn = mean + torch.einsum("rij,rj->ri", factor, u) + self.noise**0.5 * v
        added = self.noise * torch.eye(channels, dtype=x.dtype, device=x.device)
        covariance = factor @ factor.mT + added
        gain = covariance / covariance.diagonal(dim1=-2, dim2=-1)[..., None]  # row i: C_i. / C_ii
        value = x[:, at, None].expand(-1, -1, samples, -1).reshape(-1, channels)
        found = drawn[:, None] + gain * (value - drawn)[..., None]
        kept = torch.eye(channels, dtype=torch.bool, device=x.device)
        found = torch.where(kept, value[:, None], found)  # the kept value itself, without rounding
        return found.view(series, count, samples, channels, channels).transpose(2, 3)


def nearest_past(generator: Generator, *, random_step: bool) -> Task:
    """Learn the density of single steps, at three log-spaced steps of every batch or at one random step."""

    def surprise(x: Tensor, t: int, rng: torch.Generator) -> Tensor:
        noise = torch.randn(len(x), generator.latents, generator=rng).to(x)
        return generator.surprise(x[:, t], generator.gru(x[:, :t])[0][:, -1], noise)

    def losses(x: Tensor, rng: torch.Generator) -> Iterator[Tensor]:
        time = x.shape[1]
        if random_step:
            yield surprise(x, int(torch.randint(min(4, time - 1), time, (), generator=rng)), rng)
            return
        for t in log_spaced(time, 3):
            yield surprise(x, t, rng)

    def check(x: Tensor, rng: torch.Generator) -> Tensor:
        at = log_spaced(x.shape[1], CHECKED)
        values, past = x[:, at].flatten(0, 1), generator.past(x)[:, at].flatten(0, 1)
        return generator.surprise(values, past, torch.randn(len(past), generator.latents, generator=rng).to(x))[
            None
        ]

    return Task(losses, check)


def log_spaced(time: int, count: int) -> list[int]:
    """Return steps from 10 (earlier in short series) to the last one.

    Examples
    --------
    >>> log_spaced(48, 3), log_spaced(7, 3), log_spaced(2, 3)
    ([10, 21, 47], [3, 4, 6], [1])
    """
    first, last = max(1, min(10, (time - 1) // 2)), time - 1
    points = [int(first * (last / first) ** (i / (count - 1)) + 1e-9) for i in range(count)]
    return sorted(set(points))


def _tanh(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, MIDDLE), nn.Tanh(), nn.BatchNorm1d(MIDDLE))


def _noise(seed: int, ids: Tensor, purpose: int, samples: int, steps: Tensor, width: int) -> Tensor:
    """Return standard normal numbers, (series, steps, samples, width), that depend on the step itself."""
    streams = per_point(keys(seed, ids, purpose), samples)[:, :, None, :, None]
    counter = steps[:, None, None] * width + torch.arange(width, device=steps.device)
    return normal(streams, counter)
