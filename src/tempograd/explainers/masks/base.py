"""What mask methods share: how masks are learnt, and what takes the place of a masked value."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tempograd._utils import validation
from tempograd._utils.progress import Advance, progress
from tempograd.engine import Block, Question, accumulate, both_logits, pieces, require_path
from tempograd.errors import InputError
from tempograd.explainers.base import Explainer
from tempograd.explainers.integration import Attribution

# How masks are learnt: a frozen model, clean answers read once, one loss per series, steps of Adam.

Error = Callable[[Tensor], Tensor]


class Piece(NamedTuple):
    """Some series that go through the model together, and how far the answers to others are from theirs."""

    block: Block
    error: Error  # (series, points, time, channel) to (series, points)


class Problem(NamedTuple):
    """A loss that depends on the epoch and on some leaves, and the series that it is about."""

    rows: slice
    leaves: Sequence[Tensor]
    loss: Callable[[int], Tensor]


Groups = Sequence[Sequence[Problem]]


def precision(question: Question) -> torch.dtype:
    """Return the precision of masks: that of the model, but no less than single."""
    return torch.promote_types(question.dtype, torch.float32)


def distance(clean: Tensor, output: str, steps: Tensor | None) -> Error:
    r"""Return the distance of raw answers (series, points, …, class) from the clean ones (series, …, class).

    Probabilities are compared by :math:`\mathrm{KL}(p_{clean} \| p)`, whose gradient is that of the cross-entropy
    and which is 0 for equal answers; raw outputs by the mean squared difference. Steps are averaged.
    """
    clean = both_logits(clean[:, None], output)
    log_clean = clean.log_softmax(-1)
    chance = log_clean.exp()

    def apart(answer: Tensor) -> Tensor:
        answer = both_logits(answer, output)
        if output == "raw":
            return over_steps((answer - clean).square().mean(-1), steps)
        return over_steps((chance * (log_clean - answer.log_softmax(-1))).sum(-1), steps)

    return apart


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
        """Return what tells how far answers are from the clean ones."""
        return distance(clean, output, steps)

    def _steps(self, question: Question, groups: Groups, leaves: Sequence[Tensor]) -> Groups:
        """Return the problems of each step of an epoch; one without any moves nothing."""
        return groups

    def _optimise(
        self,
        question: Question,
        groups: Groups,
        masks: Sequence[Tensor],
        networks: Iterable[Tensor] = (),
        *,
        done: Callable[[], None],
        bounded: bool = False,
    ) -> None:
        """Take one step of Adam per group and epoch; ``bounded`` keeps masks in [0, 1].

        The losses of a group add up, so that it does not matter how its series are cut into pieces. A mask that a
        group does not use rests during its step.
        """
        leaves = [*masks, *networks]
        groups = self._steps(question, groups, leaves)
        optimiser = torch.optim.Adam(leaves, lr=self.lr, fused=True)
        for epoch in range(self.epochs):
            for group in groups:
                for problem in group:
                    accumulate(problem.loss(epoch), problem.leaves)
                optimiser.step()
                optimiser.zero_grad()
                if bounded:
                    for mask in masks:
                        mask.detach().clamp_(0, 1)
            done()

    def _read(self, question: Question, rows: slice, *, empty: bool = False) -> Piece:
        """Read some series in a pass of their own; ``empty`` compares with the answers to the baseline instead."""
        block = question.block(rows)
        with torch.no_grad():
            answer = question.raw_answers(block.x[:, None])[:, 0]
            block = question.read(block, answer)
            if empty:
                answer = question.raw_answers(block.baseline[:, None])[:, 0]
        if isinstance(block.steps, str):
            raise InputError(
                "steps='own' asks for each step by itself, but this method explains all chosen steps together: "
                "pass steps=None or a list of steps."
            )
        apart = self._distance(answer.to(precision(question)), question.output, block.steps)

        def error(z: Tensor) -> Tensor:
            answers = question.raw_answers(z.to(question.dtype))
            if torch.is_grad_enabled() and "differentiable" not in question.shortcuts:
                require_path(answers, z)
                question.shortcuts["differentiable"] = True
            return apart(answers.to(precision(question)))

        return Piece(block, error)

    def _together(
        self,
        question: Question,
        fit: Callable[[list[list[Piece]], Advance], Iterable[Tensor]],
        batch: int | None = None,
        *,
        empty: bool = False,
    ) -> Attribution:
        """Fit all series at once, where they share a network; ``fit`` returns the maps of the pieces in order.

        Each batch is cut into pieces that fit the device; if they do not, all starts again with smaller ones.
        """
        values = torch.zeros(question.x.shape, device=question.x.device)
        total = len(question.x)

        def work(_: slice, size: int) -> None:
            groups = [
                [
                    self._read(question, slice(part.start + own.start, part.start + own.stop), empty=empty)
                    for own in pieces(part.stop - part.start, size)
                ]
                for part in pieces(total, batch or total)
            ]
            question.verify_once()
            with progress(self.epochs, f"explain with {self.name}") as advance:
                maps = fit(groups, advance)
            for piece, found in zip((piece for group in groups for piece in group), maps, strict=True):
                values[piece.block.rows] = found.detach().where(piece.block.observed, 0).to(values)

        question.chunks.each(slice(0, 1), 1, work, lambda _: None)
        return Attribution(values)


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
