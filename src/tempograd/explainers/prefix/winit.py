"""WinIT: how much a value matters to the predictions at its step and for a while after it."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, cast

import torch
from torch import Tensor, nn

from tempograd.core import settings, validation
from tempograd.core.errors import InputError
from tempograd.core.estimate import Estimate
from tempograd.core.rng import Stream, fold_in, keys, normal, randint
from tempograd.engine import Ask, Block, Prefixes
from tempograd.explainers.base import EXPLAINERS, one_by_one
from tempograd.explainers.files import LearntParts, inputs_of, network_of, parts_of_network
from tempograd.explainers.prefix.base import (
    FitSchedule,
    FitTask,
    PrefixExplainer,
    distributions,
    divergence,
    learn,
    replaced,
)
from tempograd.typing import Inputs, Model, Setting, WinITAggregation, WinITDistance, WinITSampler

# A guess of one channel's next values from the past of all: the window generators of WinIT.
#
# Each channel :math:`f` has a GRU of its own that reads :math:`x_{<u}`, and a head that gives
# :math:`\mu` and :math:`\sigma` of :math:`x_{u, f}, \ldots, x_{u+W-1, f}`. The networks share no weight but have
# the same shape, so they run side by side: every weight has one consecutive share of rows per channel.

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


def next_values(generator: WindowGenerator) -> FitTask:
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

    return FitTask(losses, errors)


_Sampler = Callable[
    [slice], Tensor
]  # steps → values from each of them on, (series, steps, sample, channel, window)


@EXPLAINERS.register("winit")
@dataclass(frozen=True)
class WinIT(PrefixExplainer):
    r"""Windowed importance in time: the part of a value in the predictions of the next few steps.

    .. math:: i(f, n, t) = \frac{1}{S} \sum_s d\big(p_t,
        p(x_{0 \ldots t} \text{ with } x_{f, t-n \ldots t} \leftarrow \hat x^{(s)})\big), \quad
        I(f, t, n) = i(f, n, t) - i(f, n - 1, t), \quad
        A_{u,f} = \operatorname*{mean}_{t = u \ldots u + W - 1} I(f, t, t - u),

    with :math:`i(f, -1, t) = 0` and :math:`p_t` the prediction from :math:`x_{0 \ldots t}`. The first step is
    never replaced and scores 0. Larger scores matter more; a negative one says that replacing the value, too,
    brings the prediction back.

    Parameters
    ----------
    window : int, default=10
        Steps W over which a value may have its effect.
    n_samples : int, default=3
        Draws S of the replacements.
    distance : {"pd", "kl", "js"}
        Distance d of two predictions: sum of the absolute differences, Kullback–Leibler or Jensen–Shannon
        divergence. Only ``"pd"`` takes outputs that are no probabilities.
    aggregation : {"mean", "max", "absmax"}
        What becomes of the importance of a value for several predictions; ``"absmax"`` takes the one of the
        largest size, with its sign.
    sampler : {"generator", "marginal"}
        Where replacements come from: one learnt recurrent network per channel that continues it from the past of
        all channels, or any values that the channel has in the training series.
    epochs : int, default=300
        At most so many passes over the training series, for the generator.
    patience : int or None, default=30
        Stop after so many epochs without a better one; None never does.
    fit_batch_size : int, default=100

    Notes
    -----
    A replacement depends on the step at which the window begins, so a recurrent model goes on from its remembered
    state there, and W steps give the terms of W predictions. Windows that overlap share their random numbers.
    Learning the generator takes longer than explaining; marginal replacements need none of it.

    Models with one output per series predict on every prefix. The scores are about the whole
    output, so a target makes no difference.

    References
    ----------
    .. [1] K. K. Leung et al., "Temporal Dependencies in Feature Importance for Time Series Prediction", ICLR 2023.
       https://arxiv.org/abs/2107.14317

    Examples
    --------
    The output repeats the value of the step before, and all replacements are 1:

    >>> late = lambda x: torch.nn.functional.pad(x, (0, 0, 1, 0))[:, :-1]
    >>> x = torch.tensor([[[5.0], [3.0], [9.0], [1.0]]])
    >>> explainer = WinIT(window=2, sampler="marginal").fit(late, torch.ones(20, 4, 1))
    >>> explainer(late, x, output="raw").values.flatten()
    tensor([0., 1., 4., 0.])
    """

    zero_if_ignored: ClassVar[bool] = True

    window: int = settings.integer(10)
    n_samples: int = settings.integer(3)
    distance: WinITDistance = settings.choice("pd", WinITDistance)
    aggregation: WinITAggregation = settings.choice("mean", WinITAggregation)
    sampler: WinITSampler = settings.choice("generator", WinITSampler)
    epochs: int = settings.integer(300)
    patience: int | None = settings.integer(30, optional=True)
    fit_batch_size: int = settings.integer(100, least=2)
    source: Tensor | WindowGenerator | None = field(
        default=None, metadata={"fitted": True}, repr=False, compare=False
    )

    @classmethod
    def grid(cls, shape: tuple[int, int]) -> list[dict[str, Setting]]:
        """Return windows that fit, and the largest importance instead of the mean."""
        windows: list[dict[str, Setting]] = [{"window": steps} for steps in (2, 5, 20) if steps < shape[0]]
        return [*windows, {"aggregation": "absmax"}]

    def _fit(self, model: Model, x: Inputs, seed: int) -> Self:
        """Return a new explainer that has learnt to continue each channel, or draws from these series."""
        if self.sampler == "marginal":
            return replace(self, source=validation.check_series(x, name="the training series"))
        series = self._training_series(model, x)
        generator = learn(
            lambda: WindowGenerator(series.shape[2], self.window),
            next_values,
            model,
            series,
            FitSchedule(self.epochs, self.fit_batch_size, rate=1e-4, decay=1e-3, patience=self.patience),
            seed,
            f"train the generators of {self.name}",
        )
        return replace(self, source=generator)

    def _learnt_parts(self) -> LearntParts | None:
        if isinstance(self.source, WindowGenerator):
            return parts_of_network(self.source, channels=self.source.channels, window=self.source.window)
        return super()._learnt_parts()

    def _with_learnt(self, parts: LearntParts) -> Self:
        if "sizes" in parts.facts:
            return replace(self, source=network_of(parts, WindowGenerator))
        return replace(self, source=validation.check_series(inputs_of(parts)))

    @one_by_one
    def attribute(self, ask: Ask) -> Estimate:
        drawn = self._drawn(ask)

        def scores(prefixes: Prefixes) -> Tensor:
            if self.distance != "pd":
                self._require_probabilities(prefixes)
            return self._aggregated(self._changes(prefixes, drawn(prefixes.block)), prefixes.block.lengths)

        return self._over_prefixes(ask, ask.x.shape[2] * self.n_samples, scores)

    def _changes(self, prefixes: Prefixes, draw: _Sampler) -> Tensor:
        """Return i(f, n, u + n), the change by a window from u on, as (series, time u, channel f, window n)."""
        block, raw = prefixes.block, prefixes.ask.output != "probability" and self.distance == "pd"
        (series, time, channels), samples = block.x.shape, self.n_samples
        compared = (lambda outputs: outputs) if raw else distributions
        clean = windows_of(compared(prefixes.outputs), self.window).movedim(-1, 2)  # (series, time, window, class)
        x, observed = (windows_of(part, self.window) for part in (block.x, block.observed))
        one = torch.eye(channels, dtype=torch.bool, device=x.device)[..., None]
        changes = torch.zeros(series, time, channels, self.window, dtype=clean.dtype, device=x.device)
        for at in prefixes.starts(samples * channels, self.window):
            moved = one & observed[:, at, None, None]  # the channel that is replaced, where it was observed
            windows = torch.where(moved, draw(at)[..., None, :], x[:, at, None, None])
            outputs = compared(replaced(prefixes, at, windows.flatten(2, 3).mT))
            apart = self._distance(clean[:, at, None], outputs)
            changes[:, at] = apart.view(*apart.shape[:2], samples, channels, -1).mean(2)
        return changes

    def _distance(self, p: Tensor, q: Tensor) -> Tensor:
        if self.distance == "pd":
            return (p - q).abs().sum(-1)
        if self.distance == "kl":
            return divergence(p, q)
        middle = (p + q) / 2
        return (divergence(p, middle) + divergence(q, middle)) / 2

    def _aggregated(self, changes: Tensor, lengths: Tensor) -> Tensor:
        """Take differences between windows that end together, then join those that begin together."""
        later = torch.nn.functional.pad(changes[:, 1:, :, :-1], (1, 0, 0, 0, 0, 1))  # begins one step later
        part = changes - later
        time = changes.shape[1]
        reached = torch.arange(time)[:, None] + torch.arange(self.window)
        inside = (reached.to(lengths.device) < lengths[:, None, None])[:, :, None]
        if self.aggregation == "mean":
            result = part.where(inside, 0).sum(-1) / inside.sum(-1).clamp(min=1)
        elif self.aggregation == "max":
            result = part.where(inside, -torch.inf).amax(-1)
        else:
            largest = part.where(inside, 0).abs().argmax(-1, keepdim=True)
            result = part.gather(-1, largest).squeeze(-1)
        started = torch.arange(time, device=lengths.device) > 0  # the first step is never replaced
        return result.where(inside.any(-1) & started[:, None], 0)

    def _drawn(self, ask: Ask) -> Callable[[Block], _Sampler]:
        """Return what makes the replacements of a block."""
        source = cast("Tensor | WindowGenerator", self.source)  # no call gets here before fit
        seed = ask.seed
        if isinstance(source, Tensor) != (self.sampler == "marginal") or (
            isinstance(source, WindowGenerator) and source.window != self.window
        ):
            raise InputError(f"{self.name} was fitted with another sampler or window: fit it again.")
        if isinstance(source, Tensor):
            self._require_width(source.shape[2], ask)
            return lambda block: self._from_pool(block, source, seed)
        self._require_width(source.channels, ask)
        generator = deepcopy(source).to(ask.device, ask.dtype)
        return lambda block: self._from_generator(block, generator, seed)

    def _from_pool(self, block: Block, pool: Tensor, seed: int) -> _Sampler:
        streams, counter = self._streams(block, seed)
        row = randint(streams, counter, len(pool) * pool.shape[1]).to(pool.device)
        channel = torch.arange(pool.shape[2], device=pool.device)
        values = pool[row // pool.shape[1], row % pool.shape[1], channel].to(block.x)
        return lambda at: windows_of(values, self.window)[:, at]

    def _from_generator(self, block: Block, generator: WindowGenerator, seed: int) -> _Sampler:
        noise = windows_of(normal(*self._streams(block, seed)).to(block.x), self.window)
        mean, spread = generator.moments(generator.past(block.x))
        return lambda at: mean[:, at, None] + spread[:, at, None] * noise[:, at]

    def _streams(self, block: Block, seed: int) -> tuple[Tensor, Tensor]:
        """Return streams and counters for numbers (series, time, sample, channel), the same for every window."""
        _, time, channels = block.x.shape
        streams = fold_in(keys(seed, block.ids, Stream.REPLACEMENTS), self.n_samples)[:, :, None, :, None]
        cell = torch.arange(time * channels, device=block.x.device).view(time, 1, channels)
        return streams, cell
