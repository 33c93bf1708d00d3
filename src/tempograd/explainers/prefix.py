"""FIT and WinIT: predictions from step to step, with values drawn as training series have them."""

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple, Self, TypeVar, cast

import torch
from torch import Tensor, nn

from tempograd.core import validation
from tempograd.core.errors import InputError, ModelError, arg, brief
from tempograd.core.estimate import Estimate
from tempograd.core.optimisers import Adam
from tempograd.core.progress import progress_bar
from tempograd.core.rng import Stream, fold_in, keys, normal, randint
from tempograd.engine import Ask, Block, Prefixes, place, slices
from tempograd.engine.prefixes import require_prefixes
from tempograd.explainers.base import EXPLAINERS, Explainer, check_training, one_by_one, require_probabilities
from tempograd.explainers.files import LearntNetwork
from tempograd.models.training import batches
from tempograd.typing import Model, Setting, WinITAggregation, WinITDistance, WinITSampler


class PrefixExplainer(Explainer):
    """A method that compares predictions from step to step, with values drawn as training series have them."""

    needs_gradient: ClassVar[bool] = False
    needs_fit: ClassVar[bool] = True
    uses_baseline: ClassVar[bool] = False
    needs_prefixes: ClassVar[bool] = True
    signed: ClassVar[bool] = False
    targeted: ClassVar[bool] = False

    def _over_prefixes(self, ask: Ask, candidates: int, scores: Callable[[Prefixes], Tensor]) -> Estimate:
        """Score every series from its predictions at every step, which ``scores`` does for a block of series.

        For one series ``candidates`` windows per step go through the model.
        """
        steps = ask.question.steps
        if steps is not None and not (isinstance(steps, str) and steps == "own"):
            given = f"{arg:question.steps={brief(steps)}}: leave it out, or use integrated_gradients."
            raise InputError(f"{self.name} scores a value by the predictions from its own step on, got {given}")
        values = torch.zeros(ask.x.shape, device=ask.x.device)

        @torch.no_grad()
        def work(rows: slice, size: int) -> None:
            block = ask.with_target(ask.block(rows))
            ask.verify_once()
            prefixes = Prefixes(ask, block, size)
            if prefixes.outputs.ndim != 3 or not bool(prefixes.outputs.isfinite().all()):
                odd = f"{self.name} needs a row of finite numbers for each prefix, which the model does not return"
                raise ModelError(f"{odd}: flatten its outputs in a function, or use integrated_gradients.")
            if rows.start == 0:
                prefixes.require_past(self.name)
            values[rows] = scores(prefixes).where(block.observed, 0).to(values)

        ask.batching.run(len(ask.x), candidates, work, f"explain with {self.name}")
        return Estimate(values)


def replaced(prefixes: Prefixes, starts: slice, windows: Tensor) -> Tensor:
    """Predict with other values, in groups of candidates that fit through the model; see Prefixes.replaced."""
    groups = slices(windows.shape[2], max(1, prefixes.size // len(windows)))
    return torch.cat([prefixes.replaced(starts, windows[:, :, group]) for group in groups], 2)


def distributions(outputs: Tensor) -> Tensor:
    """Return probabilities that sum to 1; one column p, of class 1, means (1 - p, p)."""
    return torch.cat([1 - outputs, outputs], -1) if outputs.shape[-1] == 1 else outputs


def divergence(p: Tensor, q: Tensor) -> Tensor:
    r"""Kullback–Leibler divergence :math:`\sum_c p_c \ln (p_c / q_c)` over the last axis.

    Examples
    --------
    >>> round(float(divergence(torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75]))), 4)
    0.1438
    >>> bool(divergence(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])).isfinite())
    True
    """
    p, q = p.double(), q.double()
    tiny = torch.finfo(torch.float32).tiny  # a probability that was rounded to 0 is not impossible
    ratio = (p.clamp(min=tiny) / q.clamp(min=tiny)).log()
    return (p * ratio - p + q).sum(-1)  # both sum to 1, but rounded sums would drown a small divergence


# One training loop for the networks that learn to draw


# A network that learns to draw has ``losses(x, rng)``, what each optimiser step lowers for some series, and
# ``check(x, rng)``, the loss of each independent part, (parts,); it owns an equal, consecutive share of all rows.
Network = TypeVar("Network", bound="Generator | WindowGenerator")


class FitSchedule(NamedTuple):
    """How to learn."""

    epochs: int
    batch_size: int
    rate: float = 1e-3
    decay: float = 0.0
    held_out: float = 0.1  # share of the series that only decides which epoch's weights are kept; 0: the last
    patience: int | None = None  # stop after so many epochs without a better one; None: never


def learn(
    make: Callable[[], Network], model: Model, x: Tensor, schedule: FitSchedule, seed: int, label: str
) -> Network:
    """Make a network and train it where the explained model is, in the model's precision.

    The same seed gives the same weights on a CPU; the global random state is neither used nor changed.
    """
    if x.shape[1] < 2:
        raise InputError(f"Too few steps to {label}: a step follows the past, so fit with two steps or more.")
    require_prefixes(model, x)
    device, dtype = place(model, x)
    dtype = torch.promote_types(dtype, torch.float32)
    rng = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=rng)
    held = math.ceil(len(x) * schedule.held_out)
    if len(x) - held < 2:
        raise InputError(f"Too few series to {label}: got {len(x)}, fit with ten or more.")
    with torch.inference_mode(mode=False), torch.enable_grad():
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed every GPU
            network = make()
            network.to(device, dtype)
        _train(network, [x[rows.to(x.device)] for rows in (order[held:], order[:held])], schedule, rng, label)
    network.eval().requires_grad_(requires_grad=False)
    return network


def _train(network: Network, data: list[Tensor], schedule: FitSchedule, rng: torch.Generator, label: str) -> None:
    """Learn from the first part of the data, and keep the weights that the second part chooses."""
    learning, watched = data
    like = next(network.parameters())
    optimiser = Adam(network.parameters(), lr=schedule.rate, weight_decay=schedule.decay)
    weights, lowest, since = dict[str, Tensor](), torch.tensor(torch.inf, device=like.device), 0
    with progress_bar(schedule.epochs, label) as advance:
        for _ in range(schedule.epochs):
            network.train()
            total = torch.zeros((), device=like.device)
            for batch in batches(torch.randperm(len(learning), generator=rng), schedule.batch_size):
                for loss in network.losses(learning[batch.to(learning.device)].to(like), rng):
                    optimiser.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]  # torch has no types here
                    optimiser.step()
                    total += loss.detach()
            if not bool(total.isfinite()):
                raise InputError(f"{label}: the loss became {float(total)}, bring the series to a common scale.")
            advance()
            if not len(watched):
                continue
            network.eval()
            same = torch.Generator().manual_seed(rng.initial_seed())  # the same random numbers every time
            with torch.no_grad():
                some = torch.split(watched, schedule.batch_size)
                parts = [len(batch) * network.check(batch.to(like), same) for batch in some]
            loss = torch.stack(parts).sum(0) / len(watched)
            better = loss < lowest
            weights, lowest = _best_parts(network, better, weights), torch.where(better, loss, lowest)
            since = 0 if bool(better.any()) else since + 1
            if schedule.patience is not None and since >= schedule.patience:
                break
    if weights:
        network.load_state_dict(weights)


def _best_parts(network: nn.Module, better: Tensor, before: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of the independent parts of a network that are better, and the others as ``before``."""
    weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    for name, old in before.items():
        if old.ndim > 0:
            rows = better.repeat_interleave(len(old) // len(better)).view(-1, *[1] * (old.ndim - 1))
            weights[name] = torch.where(rows, weights[name], old)
    return weights


# A Gaussian guess of the next values from the past: the joint conditional generator of FIT.
#
# A GRU reads :math:`x_{<t}`, its state gives a random latent :math:`z = \mu_z + \sigma_z \epsilon`, and :math:`z`
# gives the mean and the factor of :math:`x_t \sim N(m(z), A(z) A(z)^\top + \nu I)`.

LATENT = 100
MIDDLE = 10  # units of the hidden layers between state, latent and values
CHECKED = 10  # steps at which held-out series are looked at


class Generator(LearntNetwork):
    """The joint distribution of the channels at a step, given the steps before.

    ``noise`` is a variance added to every channel.
    """

    def __init__(self, channels: int, hidden: int, noise: float = 1e-4) -> None:
        super().__init__(channels=channels, hidden=hidden)
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

    def losses(self, x: Tensor, rng: torch.Generator) -> Iterator[Tensor]:
        """Yield the density of single steps, at three log-spaced steps."""
        for t in log_spaced(x.shape[1], 3):
            yield self.surprise_at(t, x, rng)

    def check(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Return the mean density at several log-spaced steps."""
        at = log_spaced(x.shape[1], CHECKED)
        values, past = x[:, at].flatten(0, 1), self.past(x)[:, at].flatten(0, 1)
        return self.surprise(values, past, torch.randn(len(past), self.latents, generator=rng).to(x))[None]

    def candidates(self, x: Tensor, past: Tensor, at: slice, ids: Tensor, seed: int, samples: int) -> Tensor:
        r"""Draw each step of ``at`` given its past and a value of its own, (series, steps, kept, sample, channel).

        One joint draw :math:`\tilde x = m + A u + \sqrt\nu v` serves every kept channel :math:`i` by Matheron's
        rule, :math:`\tilde x + C_{\cdot i} C_{ii}^{-1} (x_i - \tilde x_i)` with :math:`C = A A^\top + \nu I`.
        """
        steps = torch.arange(at.start, at.stop, device=x.device)
        series, count, channels = len(x), len(steps), self.channels
        latent = normal(*_streams(seed, ids, Stream.LATENTS, samples, steps, self.latents)).to(x).flatten(0, 2)
        mean, factor = self.moments(past[:, at, None].expand(-1, -1, samples, -1).flatten(0, 2), latent)
        noise = normal(*_streams(seed, ids, Stream.REPLACEMENTS, samples, steps, 2 * channels)).to(x)
        u, v = noise.flatten(0, 2).chunk(2, -1)
        drawn = mean + torch.einsum("rij,rj->ri", factor, u) + self.noise**0.5 * v
        covariance = factor @ factor.mT + self.noise * torch.eye(channels, dtype=x.dtype, device=x.device)
        gain = covariance / covariance.diagonal(dim1=-2, dim2=-1)[..., None]  # row i: C_i. / C_ii
        value = x[:, at, None].expand(-1, -1, samples, -1).reshape(-1, channels)
        found = drawn[:, None] + gain * (value - drawn)[..., None]
        kept = torch.eye(channels, dtype=torch.bool, device=x.device)
        found = torch.where(kept, value[:, None], found)  # the kept value itself, without rounding
        return found.view(series, count, samples, channels, channels).transpose(2, 3)


def log_spaced(time: int, count: int) -> list[int]:
    """Return steps from 10 (earlier in short series) to the last one.

    Examples
    --------
    >>> log_spaced(48, 3), log_spaced(7, 3), log_spaced(2, 3)
    ([10, 21, 47], [3, 4, 6], [1])
    """
    first, last = max(1, min(10, (time - 1) // 2)), time - 1
    return sorted({int(first * (last / first) ** (i / (count - 1)) + 1e-9) for i in range(count)})


def _tanh(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, MIDDLE), nn.Tanh(), nn.BatchNorm1d(MIDDLE))


def _streams(seed: int, ids: Tensor, use: int, samples: int, steps: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return where random numbers come from, (series, steps, samples, width), that depend on the step itself."""
    streams = fold_in(keys(seed, ids, use), samples)[:, :, None, :, None]
    return streams, steps[:, None, None] * width + torch.arange(width, device=steps.device)


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

    n_samples: int = validation.integer(10)
    hidden: int | None = validation.integer(None, most=WIDEST)
    epochs: int = validation.integer(300)
    patience: int | None = validation.integer(30, optional=True)
    fit_batch_size: int = validation.integer(100, least=2)
    generator: Generator | None = validation.learnt()

    def _fit(self, model: Model, x: Tensor, seed: int) -> Self:
        """Return a new explainer that has learnt the distribution of a step given the steps before it."""
        channels, schedule = x.shape[2], self._fit_schedule()
        if channels == 1:  # nothing is ever drawn from it
            schedule = schedule._replace(epochs=0)
        make = partial(self._network(), channels, self.hidden or 3 * channels)
        generator = learn(make, model, x, schedule, seed, f"train the generator of {self.name}")
        return replace(self, generator=generator)

    def _fit_schedule(self) -> FitSchedule:
        return FitSchedule(self.epochs, self.fit_batch_size, patience=self.patience)

    def _network(self) -> type[Generator]:
        return Generator

    @one_by_one
    def attribute(self, ask: Ask) -> Estimate:
        channels = ask.x.shape[2]
        learnt = cast("Generator", self.generator)  # no call gets here before fit
        check_training((learnt.channels,), ask)
        # draws given a value that is nearly certain magnify rounding, which depends on a series' company
        generator = deepcopy(learnt).to(ask.device, torch.float64)

        def scores(prefixes: Prefixes) -> Tensor:
            p = distributions(prefixes.outputs)
            require_probabilities(self.name, ask, lambda: p)
            shift = divergence(p[:, 1:], p[:, :-1])[..., None]
            delta = shift - self._left(prefixes, p, generator)[:, 1:] if channels > 1 else shift
            return torch.nn.functional.pad(2 * torch.sigmoid(5 * delta) - 1, (0, 0, 1, 0))

        return self._over_prefixes(ask, channels * self.n_samples if channels > 1 else 1, scores)

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


# A guess of one channel's next values from the past of all: the window generators of WinIT.
#
# Each channel :math:`f` has a GRU of its own that reads :math:`x_{<u}`, and a head that gives
# :math:`\mu` and :math:`\sigma` of :math:`x_{u, f}, \ldots, x_{u+W-1, f}`. The networks share no weight but have
# the same shape, so they run side by side: every weight has one consecutive share of rows per channel.

HIDDEN = 50


class WindowGenerator(LearntNetwork):
    """As many recurrent networks as there are channels, each for the next ``window`` values of its channel."""

    def __init__(self, channels: int, window: int, hidden: int = HIDDEN) -> None:
        super().__init__(channels=channels, window=window)
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

    def check(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Return the mean squared error of each channel's draws of what follows, from every step but the first."""
        mean, spread = (part[:, 1:] for part in self.moments(self.past(x)))
        drawn = mean + spread * torch.randn(mean.shape, generator=rng).to(x)
        inside = windows_of(torch.ones_like(x[:1]), self.window)[:, 1:]
        wrong = (drawn - windows_of(x, self.window)[:, 1:]).square() * inside
        return wrong.sum((0, 1, 3)) / (len(x) * inside.sum((0, 1, 3)))

    def losses(self, x: Tensor, rng: torch.Generator) -> Iterator[Tensor]:
        """Yield the error of all channels together."""
        yield self.check(x, rng).sum()  # no weight is shared, so each network learns as if it were alone


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
    return torch.cat([x, x.new_zeros(len(x), window - 1, *x.shape[2:])], 1).unfold(1, window, 1)


_Sampler = Callable[[slice], Tensor]  # steps to values from each on, (series, steps, sample, channel, window)


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

    >>> import tempograd as tg
    >>> late = tg.Predictor(lambda x: torch.nn.functional.pad(x, (0, 0, 1, 0))[:, :-1], task="per_step")
    >>> x = torch.tensor([[[5.0], [3.0], [9.0], [1.0]]])
    >>> explainer = WinIT(window=2, sampler="marginal").fit(late, torch.ones(20, 4, 1))
    >>> explainer(late, x, output="raw").values.flatten()
    tensor([0., 1., 4., 0.])
    """

    zero_if_ignored: ClassVar[bool] = True

    window: int = validation.integer(10)
    n_samples: int = validation.integer(3)
    distance: WinITDistance = validation.choice("pd", WinITDistance)
    aggregation: WinITAggregation = validation.choice("mean", WinITAggregation)
    sampler: WinITSampler = validation.choice("generator", WinITSampler)
    epochs: int = validation.integer(300)
    patience: int | None = validation.integer(30, optional=True)
    fit_batch_size: int = validation.integer(100, least=2)
    source: Tensor | WindowGenerator | None = validation.learnt()

    @classmethod
    def grid(cls, shape: tuple[int, int]) -> list[dict[str, Setting]]:
        """Return windows that fit, and the largest importance instead of the mean."""
        windows: list[dict[str, Setting]] = [{"window": steps} for steps in (2, 5, 20) if steps < shape[0]]
        return [*windows, {"aggregation": "absmax"}]

    def _fit(self, model: Model, x: Tensor, seed: int) -> Self:
        """Return a new explainer that has learnt to continue each channel, or draws from these series."""
        if self.sampler == "marginal":
            return replace(self, source=x)
        schedule = FitSchedule(self.epochs, self.fit_batch_size, rate=1e-4, decay=1e-3, patience=self.patience)
        make = partial(WindowGenerator, x.shape[2], self.window)
        return replace(self, source=learn(make, model, x, schedule, seed, f"train the generator of {self.name}"))

    def _network(self) -> type[WindowGenerator]:
        return WindowGenerator

    @one_by_one
    def attribute(self, ask: Ask) -> Estimate:
        drawn = self._drawn(ask)

        def scores(prefixes: Prefixes) -> Tensor:
            if self.distance != "pd":
                require_probabilities(self.name, ask, partial(distributions, prefixes.outputs))
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
            # the channel that is replaced, where it was observed
            windows = torch.where(one & observed[:, at, None, None], draw(at)[..., None, :], x[:, at, None, None])
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
        part = changes - torch.nn.functional.pad(changes[:, 1:, :, :-1], (1, 0, 0, 0, 0, 1))
        step = torch.arange(changes.shape[1])
        reached = step[:, None] + torch.arange(self.window)
        inside = (reached.to(lengths.device) < lengths[:, None, None])[:, :, None]
        if self.aggregation == "mean":
            result = part.where(inside, 0).sum(-1) / inside.sum(-1).clamp(min=1)
        elif self.aggregation == "max":
            result = part.where(inside, -torch.inf).amax(-1)
        else:
            result = part.gather(-1, part.where(inside, 0).abs().argmax(-1, keepdim=True)).squeeze(-1)
        # the first step is never replaced
        return result.where(inside.any(-1) & (step > 0).to(lengths.device)[:, None], 0)

    def _drawn(self, ask: Ask) -> Callable[[Block], _Sampler]:
        """Return what makes the replacements of a block."""
        source = cast("Tensor | WindowGenerator", self.source)  # no call gets here before fit
        marginal = isinstance(source, Tensor)
        if marginal != (self.sampler == "marginal") or getattr(source, "window", self.window) != self.window:
            raise InputError(f"{self.name} was fitted with another sampler or window: fit it again.")
        check_training((source.shape[2] if isinstance(source, Tensor) else source.channels,), ask)
        placed = source if isinstance(source, Tensor) else deepcopy(source).to(ask.device, ask.dtype)
        return partial(self._sampler, placed, ask.seed)

    def _sampler(self, source: Tensor | WindowGenerator, seed: int, block: Block) -> _Sampler:
        """Return what draws the values of a block, from those of a pool or by a generator."""
        (_, time, channels), device = block.x.shape, block.x.device
        steps = torch.arange(time, device=device)
        streams = _streams(seed, block.ids, Stream.REPLACEMENTS, self.n_samples, steps, channels)
        if isinstance(source, Tensor):
            row = randint(*streams, len(source) * source.shape[1]).to(source.device)
            channel = torch.arange(channels, device=source.device)
            values = source[row // source.shape[1], row % source.shape[1], channel].to(block.x)
            return lambda at: windows_of(values, self.window)[:, at]
        noise = windows_of(normal(*streams).to(block.x), self.window)
        mean, spread = source.moments(source.past(block.x))
        return lambda at: mean[:, at, None] + spread[:, at, None] * noise[:, at]
