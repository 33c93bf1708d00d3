"""What FIT and WinIT share: predictions on prefixes, and the training of what draws the values in between."""

import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from tempograd.core import validation
from tempograd.core.errors import InputError, ModelError, brief
from tempograd.core.estimate import Estimate
from tempograd.core.findings import arg
from tempograd.core.optimisers import Adam
from tempograd.core.progress import progress_bar
from tempograd.engine import Ask, Model, Prefixes, place, require_prefixes, slices
from tempograd.engine.guesses import is_probability
from tempograd.explainers.base import Explainer
from tempograd.models.training import batches


class PrefixExplainer(Explainer):
    """A method that compares predictions from step to step, with values drawn as training series have them."""

    needs_gradient: ClassVar[bool] = False
    needs_fit: ClassVar[bool] = True
    uses_baseline: ClassVar[bool] = False
    needs_prefixes: ClassVar[bool] = True
    signed: ClassVar[bool] = False
    targeted: ClassVar[bool] = False

    def _training_series(self, model: Model, x: Any) -> Tensor:
        """Check series to learn from, and that the model takes prefixes of them."""
        series = validation.check_series(x, name="the training series")
        if series.shape[1] < 2:
            raise InputError(
                f"{self.name} learns how a step follows from the past: fit with series of two steps or more."
            )
        require_prefixes(model, series)
        return series

    def _over_prefixes(self, ask: Ask, candidates: int, scores: Callable[[Prefixes], Tensor]) -> Estimate:
        """Score every series from its predictions at every step, which ``scores`` does for a block of series.

        For one series ``candidates`` windows per step go through the model.
        """
        steps = ask.question.steps
        if steps is not None and not (isinstance(steps, str) and steps == "own"):
            raise InputError(
                f"{self.name} scores a value by the predictions from its own step on, got "
                f"{arg:question.steps={brief(steps)}}: leave steps out, or use integrated_gradients."
            )
        values = torch.zeros(ask.x.shape, device=ask.x.device)

        @torch.no_grad()
        def work(rows: slice, size: int) -> None:
            block = ask.with_target(ask.block(rows))
            ask.verify_once()
            prefixes = Prefixes(ask, block, size)
            self._check_outputs(prefixes.outputs)
            if rows.start == 0:
                prefixes.require_past(self.name)
            values[rows] = scores(prefixes).where(block.observed, 0).to(values)

        ask.batching.run(len(ask.x), candidates, work, f"explain with {self.name}")
        return Estimate(values)

    def _check_outputs(self, outputs: Tensor) -> None:
        if outputs.ndim != 3:
            raise ModelError(
                f"{self.name} compares predictions (batch, classes) or (batch, time, classes), but the model "
                f"returned {outputs.ndim - 1} axes per step: wrap it in a function that flattens them."
            )
        if not bool(outputs.isfinite().all()):
            raise ModelError(
                f"{self.name} needs predictions on prefixes, but on some the model returned NaN or infinity: "
                "use a method that explains the final prediction, such as integrated_gradients."
            )

    def _require_probabilities(self, prefixes: Prefixes) -> None:
        """Refuse raw outputs that are no probabilities, and those of several labels, which sum to anything."""
        if prefixes.ask.output == "sigmoid":
            raise InputError(
                f"{self.name} compares probabilities of classes, one of which holds, and several labels can hold "
                f"at once: use winit with {arg:method.distance=pd}, or occlusion."
            )
        if prefixes.ask.output == "raw" and not is_probability(distributions(prefixes.outputs)):
            raise InputError(
                f"{self.name} compares probabilities, but with {arg:question.output=raw} the model's rows are "
                "none: leave output out if softmax belongs there, and use winit or occlusion for regression."
            )

    def _require_width(self, learnt: int, ask: Ask) -> None:
        """Refuse series with other channels than those learnt from."""
        if learnt != ask.x.shape[2]:
            raise InputError(
                f"{self.name} learnt from series with {learnt} channels, x has {ask.x.shape[2]}: "
                "fit with series that have the same channels."
            )


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

Network = TypeVar("Network", bound=nn.Module)


class FitSchedule(NamedTuple):
    """How to learn."""

    epochs: int
    batch_size: int
    rate: float = 1e-3
    decay: float = 0.0
    held_out: float = 0.1  # share of the series that only decides which epoch's weights are kept; 0: the last
    patience: int | None = None  # stop after so many epochs without a better one; None: never


class FitTask(NamedTuple):
    """What to learn; random numbers come from the generator.

    ``losses`` yields what each optimiser step lowers. ``check`` gives the loss of each independent part of the
    network, (parts,); a part owns an equal, consecutive share of the rows of every weight.
    """

    losses: Callable[[Tensor, torch.Generator], Iterator[Tensor]]
    check: Callable[[Tensor, torch.Generator], Tensor]


def learn(
    make: Callable[[], Network],
    task: Callable[[Network], FitTask],
    model: Model,
    x: Tensor,
    schedule: FitSchedule,
    seed: int,
    label: str,
) -> Network:
    """Make a network and train it where the explained model is, in the model's precision.

    The same seed gives the same weights on a CPU; the global random state is neither used nor changed.
    """
    seed, (device, dtype) = validation.check_seed(seed), place(model, x)
    dtype = torch.promote_types(dtype, torch.float32)
    rng = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=rng)
    held = math.ceil(len(x) * schedule.held_out)
    if len(x) - held < 2:
        raise InputError(f"Too few series to {label}: got {len(x)}, fit with ten or more.")
    with torch.inference_mode(mode=False), torch.enable_grad():
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed every GPU
            network = make().to(device, dtype)
        _train(network, task(network), x, (order[held:], order[:held]), schedule, rng, label)
    return network.eval().requires_grad_(requires_grad=False)


def _train(
    network: nn.Module,
    task: FitTask,
    x: Tensor,
    rows: tuple[Tensor, Tensor],
    schedule: FitSchedule,
    rng: torch.Generator,
    label: str,
) -> None:
    like = next(network.parameters())
    optimiser = Adam(network.parameters(), lr=schedule.rate, weight_decay=schedule.decay)
    best, since, seed = _Best(), 0, rng.initial_seed()
    with progress_bar(schedule.epochs, label) as advance:
        for _ in range(schedule.epochs):
            network.train()
            total = torch.zeros((), device=like.device)
            for batch in batches(rows[0][torch.randperm(len(rows[0]), generator=rng)], schedule.batch_size):
                for loss in task.losses(x[batch.to(x.device)].to(like).clone(), rng):
                    optimiser.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]  # torch has no types here
                    optimiser.step()
                    total += loss.detach()
            if not bool(total.isfinite()):
                raise InputError(
                    f"{label}: the loss became {float(total)}, so bring the series to a common scale."
                )
            advance()
            if not len(rows[1]):
                continue
            since = 0 if best.offer(network, _mean_check(network, task, x, rows[1], schedule, seed)) else since + 1
            if schedule.patience is not None and since >= schedule.patience:
                break
    if best.weights:
        network.load_state_dict(best.weights)


def _mean_check(
    network: nn.Module, task: FitTask, x: Tensor, rows: Tensor, schedule: FitSchedule, seed: int
) -> Tensor:
    """Return the loss of the held-out series, with the same random numbers every time."""
    like, rng = next(network.parameters()), torch.Generator().manual_seed(seed)
    network.eval()
    with torch.no_grad():
        parts = [
            len(batch) * task.check(x[batch.to(x.device)].to(like), rng)
            for batch in torch.split(rows, schedule.batch_size)
        ]
    return torch.stack(parts).sum(0) / len(rows)


class _Best:
    """The best weights so far of every independent part of a network."""

    def __init__(self) -> None:
        self.loss: Tensor | None = None
        self.weights: dict[str, Tensor] = {}

    def offer(self, network: nn.Module, loss: Tensor) -> bool:
        """Keep what is better; tell whether anything was."""
        better = loss.isfinite() if self.loss is None else loss < self.loss
        for name, tensor in network.state_dict().items():
            old = self.weights.get(name)
            if old is None or tensor.ndim == 0:
                self.weights[name] = tensor.clone()
                continue
            rows = better.repeat_interleave(len(tensor) // len(better))
            self.weights[name] = torch.where(rows.view(-1, *[1] * (tensor.ndim - 1)), tensor, old)
        self.loss = loss if self.loss is None else torch.where(better, loss, self.loss)
        return bool(better.any())
