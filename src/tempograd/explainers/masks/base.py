"""What mask methods share: how masks are learnt, and what takes the place of a masked value."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn.functional import pad

from tempograd.core import validation
from tempograd.core.errors import InputError
from tempograd.core.estimate import Estimate
from tempograd.core.findings import arg
from tempograd.core.optimisers import Adam
from tempograd.core.progress import Advance, progress_bar
from tempograd.engine import Ask, Block, accumulate, both_logits, require_path, slices
from tempograd.engine.model import by_lists
from tempograd.explainers.base import Explainer
from tempograd.typing import MaskPerturbation

# How masks are learnt: clean outputs are read once, each series has one loss, Adam takes the steps

Error = Callable[[Tensor], Tensor]


class MaskBatch(NamedTuple):
    """Some series that go through the model together, and how far the outputs of others are from theirs."""

    block: Block
    error: Error  # (series, points, time, channel) to (series, points)


class LossTerm(NamedTuple):
    """A loss that depends on the epoch and on some leaves, and the series that it is about."""

    rows: slice
    leaves: Sequence[Tensor]
    loss: Callable[[int], Tensor]


Groups = Sequence[Sequence[LossTerm]]


def over_steps(each: Tensor, steps: Tensor | None) -> Tensor:
    """Return the mean of (series, points, …) over the explained steps, or over all there are."""
    if steps is not None:
        return (each * steps[:, None]).sum(-1) / steps.sum(-1, keepdim=True).clamp(min=1)
    return each.flatten(2).mean(-1) if each.ndim > 2 else each


class LearntMask(Explainer):
    """A method that learns a mask for each explained series."""

    signed: ClassVar[bool] = False
    targeted: ClassVar[bool] = False

    epochs: int  # fields of every such method
    lr: float

    def _distance(self, clean: Tensor, output: str, steps: Tensor | None) -> Error:
        r"""Return the distance of raw outputs (series, points, …, class) from the clean ones (series, …, class).

        Probabilities are compared by :math:`\mathrm{KL}(p_{clean} \| p)`, whose gradient is that of the
        cross-entropy and which is 0 for equal outputs, and which of several labels is the sum of that of each; raw
        outputs by the mean squared difference. Steps are averaged.
        """
        if output == "sigmoid":  # a label is there or not: two classes of its own
            labels = self._distance(clean.flatten(1)[..., None], "probability", None)
            count = clean[0].numel()
            return lambda raw: count * labels(raw.flatten(2)[..., None])
        clean = both_logits(clean[:, None], output)
        log_clean = clean.log_softmax(-1)
        chance = log_clean.exp()

        def apart(raw: Tensor) -> Tensor:
            raw = both_logits(raw, output)
            if output == "raw":
                return over_steps((raw - clean).square().mean(-1), steps)
            return over_steps((chance * (log_clean - raw.log_softmax(-1))).sum(-1), steps)

        return apart

    def _steps(self, ask: Ask, groups: Groups, leaves: Sequence[Tensor]) -> Groups:
        """Return the loss terms of each step of an epoch; one without any moves nothing."""
        return groups

    def _optimize(
        self,
        ask: Ask,
        groups: Groups,
        masks: Sequence[Tensor],
        networks: Iterable[Tensor] = (),
        *,
        done: Callable[[], None],
        bounded: bool = False,
    ) -> None:
        """Take one step of Adam per group and epoch; ``bounded`` keeps masks in [0, 1].

        The losses of a group add up, so that it does not matter how its series are cut into batches. A mask that a
        group does not use rests during its step.
        """
        leaves = [*masks, *networks]
        groups = self._steps(ask, groups, leaves)
        optimiser = Adam(leaves, lr=self.lr, foreach=by_lists(), fused=by_lists() is None)
        for epoch in range(self.epochs):
            for group in groups:
                for term in group:
                    accumulate(term.loss(epoch), term.leaves)
                optimiser.step()
                optimiser.zero_grad()
                if bounded:
                    for mask in masks:
                        mask.detach().clamp_(0, 1)
            done()

    def _read(self, ask: Ask, rows: slice, *, empty: bool = False) -> MaskBatch:
        """Read some series in a pass of their own; ``empty`` compares with the outputs of the baseline instead."""
        block = ask.block(rows)
        with torch.no_grad():
            raw = ask.raw_outputs(block.x[:, None], block)[:, 0]
            block = ask.read(block, raw)
            if empty:
                raw = ask.raw_outputs(block.baseline[:, None], block)[:, 0]
        if isinstance(block.steps, str):
            raise InputError(
                f"{arg:question.steps=own} asks for each step by itself, but this method explains all chosen "
                f"steps together: leave {arg:question.steps} out, or pass a list of steps."
            )
        apart = self._distance(raw.to(ask.precision), ask.output, block.steps)

        def error(z: Tensor) -> Tensor:
            raw = ask.raw_outputs(z.to(ask.dtype), block)
            if torch.is_grad_enabled() and "differentiable" not in ask.shortcuts:
                require_path(raw, z)
                ask.shortcuts["differentiable"] = True
            return apart(raw.to(ask.precision))

        return MaskBatch(block, error)

    def _fit_jointly(
        self,
        ask: Ask,
        fit: Callable[[list[list[MaskBatch]], Advance], Iterable[Tensor]],
        batch: int | None = None,
        *,
        empty: bool = False,
    ) -> Estimate:
        """Fit all series at once, where they share a network; ``fit`` returns the maps batch by batch.

        Series are cut into batches that fit the device; if they do not, all starts again with smaller ones.
        """
        values = torch.zeros(ask.x.shape, device=ask.x.device)
        total = len(ask.x)

        def work(_: slice, size: int) -> None:
            groups = [
                [
                    self._read(ask, slice(part.start + own.start, part.start + own.stop), empty=empty)
                    for own in slices(part.stop - part.start, size)
                ]
                for part in slices(total, batch or total)
            ]
            ask.verify_once()
            with progress_bar(self.epochs, f"explain with {self.name}") as advance:
                maps = fit(groups, advance)
            for one, found in zip((one for group in groups for one in group), maps, strict=True):
                values[one.block.rows] = found.detach().where(one.block.observed, 0).to(values)

        ask.batching.run(1, 1, work)
        return Estimate(values)


# What a mask does to a series: 1 keeps a value, 0 replaces it by what its surroundings suggest

PERTURBATIONS: tuple[MaskPerturbation, ...] = get_args(MaskPerturbation)
Perturb = Callable[[Tensor], Tensor]
_SHARPEST = 1e-6  # width of the blur at mask 1, as a share of the widest


def perturbation(kind: str, block: Block, width: float, dtype: torch.dtype) -> Perturb:
    """Return the operator of a block: masks (series, areas, time, channel) to perturbed series of that shape.

    Only observed values take part in a blend, and only they are replaced. ``width`` is the standard deviation of
    the widest blur, or the steps to either side of the window; ``dtype`` is that of the masks.
    """
    x = block.x.to(dtype)
    if kind == "blur":
        return blur(x, block.observed, width)
    if kind == "window":
        kept, count = _neighbours(x, block.observed, math.floor(width))
        towards = kept.sum(-1) / count.sum(-1).clamp(min=1)
    else:
        towards = validation.average(x, block.observed) if kind == "mean" else block.baseline.to(dtype)
    away = ((x - towards) * block.observed)[:, None]
    return lambda mask: x[:, None] - (1 - mask) * away  # a + m (x - a) for what to fade to, a


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
    both = pad(both, (0, 0, radius, radius)).unfold(2, 2 * radius + 1, 1)
    return both[0], both[1]


def _both_sides(around: Tensor) -> Tensor:
    """Add the neighbours at equal distance: distance 0, 1, … radius along the last axis."""
    radius = around.shape[-1] // 2
    after, before = around[..., radius:], around[..., : radius + 1].flip(-1)
    return torch.cat([after[..., :1], after[..., 1:] + before[..., 1:]], -1)
