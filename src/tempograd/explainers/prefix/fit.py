"""FIT: how much of a prediction's change at a step one value explains by itself."""

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, cast

import torch
from torch import Tensor, nn

from tempograd.core import settings
from tempograd.core.estimate import Estimate
from tempograd.core.rng import Stream, fold_in, keys, normal
from tempograd.engine import Ask, Prefixes
from tempograd.explainers.base import EXPLAINERS, one_by_one
from tempograd.explainers.files import LearntParts, network_of, parts_of_network
from tempograd.explainers.prefix.base import (
    FitSchedule,
    FitTask,
    PrefixExplainer,
    distributions,
    divergence,
    learn,
    replaced,
)
from tempograd.typing import Inputs, Model

# A Gaussian guess of the next values from the past: the joint conditional generator of FIT.
#
# A GRU reads :math:`x_{<t}`, its state gives a random latent :math:`z = \mu_z + \sigma_z \epsilon`, and :math:`z`
# gives the mean and the factor of :math:`x_t \sim N(m(z), A(z) A(z)^\top + \nu I)`.

LATENT = 100
MIDDLE = 10  # units of the hidden layers between state, latent and values
CHECKED = 10  # steps at which held-out series are looked at


class Generator(nn.Module):
    """The joint distribution of the channels at a step, given the steps before.

    ``noise`` is a variance added to every channel.
    """

    def __init__(self, channels: int, hidden: int, noise: float = 1e-4) -> None:
        super().__init__()
        self.channels, self.noise, self.latents = channels, noise, LATENT
        self.gru = nn.GRU(channels, hidden, batch_first=True)
        for name, weight in self.gru.named_parameters():
            if name.startswith("weight"):
                nn.init.normal_(weight, std=0.02)
        self.latent = nn.Sequential(_tanh(hidden), nn.Linear(MIDDLE, 2 * LATENT))
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

    def surprise_at(self, t: int, x: Tensor, rng: torch.Generator) -> Tensor:
        """Return the mean negative log-density of step t of some series."""
        noise = torch.randn(len(x), self.latents, generator=rng).to(x)
        return self.surprise(x[:, t], self.gru(x[:, :t])[0][:, -1], noise)

    def candidates(self, x: Tensor, past: Tensor, at: slice, ids: Tensor, seed: int, samples: int) -> Tensor:
        r"""Draw each step of ``at`` given its past and a value of its own, (series, steps, kept, sample, channel).

        One joint draw :math:`\tilde x = m + A u + \sqrt\nu v` serves every kept channel :math:`i` by Matheron's
        rule, :math:`\tilde x + C_{\cdot i} C_{ii}^{-1} (x_i - \tilde x_i)` with :math:`C = A A^\top + \nu I`.
        """
        steps = torch.arange(at.start, at.stop, device=x.device)
        series, count, channels = len(x), len(steps), self.channels
        hidden = past[:, at, None].expand(-1, -1, samples, -1).flatten(0, 2)
        latent = _noise(seed, ids, Stream.LATENTS, samples, steps, self.latents).to(x).flatten(0, 2)
        mean, factor = self.moments(hidden, latent)
        u, v = (
            _noise(seed, ids, Stream.REPLACEMENTS, samples, steps, 2 * channels).to(x).flatten(0, 2).chunk(2, -1)
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


def nearest_past(generator: Generator) -> FitTask:
    """Learn the density of single steps, at three log-spaced steps of every batch."""

    def losses(x: Tensor, rng: torch.Generator) -> Iterator[Tensor]:
        for t in log_spaced(x.shape[1], 3):
            yield generator.surprise_at(t, x, rng)

    def check(x: Tensor, rng: torch.Generator) -> Tensor:
        at = log_spaced(x.shape[1], CHECKED)
        values, past = x[:, at].flatten(0, 1), generator.past(x)[:, at].flatten(0, 1)
        return generator.surprise(values, past, torch.randn(len(past), generator.latents, generator=rng).to(x))[
            None
        ]

    return FitTask(losses, check)


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
    streams = fold_in(keys(seed, ids, purpose), samples)[:, :, None, :, None]
    counter = steps[:, None, None] * width + torch.arange(width, device=steps.device)
    return normal(streams, counter)


WIDEST = 8192  # hidden units of the generator


@EXPLAINERS.register("fit")
@dataclass(frozen=True)
class Fit(PrefixExplainer):
    r"""Feature importance in time: the shift of the prediction from step to step that one value explains.

    .. math:: \Delta_{t,i} = \mathrm{KL}(p_t \,\|\, p_{t-1})
        - \frac{1}{S} \sum_s \mathrm{KL}\big(p_t \,\|\, \hat p_t^{(i,s)}\big), \qquad
        A_{t,i} = \frac{2}{1 + e^{-5 \Delta_{t,i}}} - 1,

    where :math:`p_t` is the prediction from :math:`x_{0 \ldots t}`, and :math:`\hat p_t^{(i,s)}` the one in which
    at step :math:`t` only :math:`x_{t,i}` is as observed and the other channels are drawn given it and the past.
    Scores lie in (-1, 1), larger ones matter more, and a negative one says that the value alone leads further
    away from the prediction than no value at all; they are 0 at the first step.

    Parameters
    ----------
    n_samples : int, default=10
        Draws S per value; each costs one step of the model.
    hidden : int, optional
        Size of the generator's recurrent state, by default three per channel.
    epochs : int, default=300
        At most so many passes over the training series.
    patience : int or None, default=30
        Stop after so many epochs without a better one; None never does.
    fit_batch_size : int, default=100

    Notes
    -----
    :meth:`fit` learns the generator from training series, at three log-spaced steps of every batch, and does not
    look at the model; the weights with the lowest loss on a tenth of the series are kept. Explained series may
    be longer or shorter than those. With one channel there is nothing to draw:
    :math:`\Delta_t = \mathrm{KL}(p_t \| p_{t-1})`.

    Models with one output per series predict on every prefix. The scores are about the whole
    distribution, so a target makes no difference.

    A score tells how much of the prediction one knows once the value is known, not whether the model reads it. A
    channel that the model ignores scores by what it tells of those that are read: more than each of them, if it is
    their sum. Whatever the generator has learnt, no score of a step is above

    .. math:: A_{t,i} \le \frac{2}{1 + e^{-5 \, \mathrm{KL}(p_t \| p_{t-1})}} - 1,

    which a channel has that is read alone: then no other one scores more.

    References
    ----------
    .. [1] S. Tonekaboni et al., "What went wrong and when? Instance-wise feature importance for time-series
       black-box models", NeurIPS 2020. https://arxiv.org/abs/2003.02821

    Examples
    --------
    One channel, a prediction that depends on the current value alone:

    >>> now = lambda x: x[:, -1] * torch.tensor([1.0, 0.0])
    >>> x = torch.tensor([[[0.0], [0.0], [2.0]]])
    >>> explainer = Fit(epochs=1).fit(now, torch.randn(20, 3, 1))
    >>> explainer(now, x).values.flatten()
    tensor([0.0000, 0.0000, 0.6748])
    """

    needs_probabilities: ClassVar[bool] = True

    n_samples: int = settings.integer(10)
    hidden: int | None = settings.integer(None, most=WIDEST)
    epochs: int = settings.integer(300)
    patience: int | None = settings.integer(30, optional=True)
    fit_batch_size: int = settings.integer(100, least=2)
    generator: Generator | None = field(default=None, metadata={"fitted": True}, repr=False, compare=False)

    def _fit(self, model: Model, x: Inputs, seed: int) -> Self:
        """Return a new explainer that has learnt the distribution of a step given the steps before it."""
        series = self._training_series(model, x)
        channels, schedule = series.shape[2], self._fit_schedule()
        generator = learn(
            lambda: self._generator(channels),
            self._task,
            model,
            series,
            schedule._replace(epochs=0) if channels == 1 else schedule,  # nothing is ever drawn from it
            seed,
            f"train the generator of {self.name}",
        )
        return replace(self, generator=generator)

    def _learnt_parts(self) -> LearntParts | None:
        learnt = self.generator
        if learnt is None:
            return None
        return parts_of_network(learnt, channels=learnt.channels, hidden=learnt.gru.hidden_size)

    def _with_learnt(self, parts: LearntParts) -> Self:
        def make(channels: int, hidden: int) -> Generator:
            return replace(self, hidden=hidden)._generator(channels)

        return replace(self, generator=network_of(parts, make))

    def _fit_schedule(self) -> FitSchedule:
        return FitSchedule(self.epochs, self.fit_batch_size, patience=self.patience)

    def _generator(self, channels: int) -> Generator:
        """Return a generator that has not learnt yet."""
        return Generator(channels, self.hidden or 3 * channels)

    def _task(self, generator: Generator) -> FitTask:
        """Return what the generator learns."""
        return nearest_past(generator)

    @one_by_one
    def attribute(self, ask: Ask) -> Estimate:
        channels = ask.x.shape[2]
        learnt = cast("Generator", self.generator)  # no call gets here before fit
        self._require_width(learnt.channels, ask)
        # draws given a value that is nearly certain magnify rounding, which depends on a series' company
        generator = deepcopy(learnt).to(ask.device, torch.float64)

        def scores(prefixes: Prefixes) -> Tensor:
            self._require_probabilities(prefixes)
            p = distributions(prefixes.outputs)
            shift = divergence(p[:, 1:], p[:, :-1])[..., None]
            delta = shift - self._left(prefixes, p, generator)[:, 1:] if channels > 1 else shift
            return torch.nn.functional.pad(2 * torch.sigmoid(5 * delta) - 1, (0, 0, 1, 0))

        candidates = channels * self.n_samples if channels > 1 else 1
        return self._over_prefixes(ask, candidates, scores)

    def _left(self, prefixes: Prefixes, p: Tensor, generator: Generator) -> Tensor:
        """Return the shift that is left when one value is known, (series, time, channel)."""
        block, channels = prefixes.block, prefixes.block.x.shape[2]
        x = block.x.double()
        left, past = torch.zeros_like(x), generator.past(x)
        for at in prefixes.starts(channels * self.n_samples, 1):
            drawn = generator.candidates(x, past, at, block.ids, prefixes.ask.seed, self.n_samples).to(block.x)
            drawn = drawn.where(block.observed[:, at, None, None], block.x[:, at, None, None]).flatten(2, 3)
            outputs = distributions(replaced(prefixes, at, drawn[:, :, :, None])[..., 0, :])
            shift = divergence(p[:, at, None], outputs)
            left[:, at] = shift.view(*shift.shape[:2], channels, self.n_samples).mean(-1)
        return left
