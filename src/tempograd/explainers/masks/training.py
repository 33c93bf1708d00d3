"""How masks are learnt: a frozen model, clean answers read once, one loss per series, steps of Adam."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from tempograd._utils.progress import Advance, progress
from tempograd.engine import Block, Question, accumulate, both_logits, link, pieces, require_path
from tempograd.errors import InputError

Error = Callable[[Tensor], Tensor]


class Piece(NamedTuple):
    """Some series that go through the model together, and how far the answers to others are from theirs."""

    block: Block
    error: Error  # (series, points, time, channel) to (series, points)


class Problem(NamedTuple):
    """A loss that depends on the epoch and on some leaves."""

    leaves: Sequence[Tensor]
    loss: Callable[[int], Tensor]


def precision(question: Question) -> torch.dtype:
    """Return the precision of masks: that of the model, but no less than single."""
    return torch.promote_types(question.dtype, torch.float32)


def read(question: Question, rows: slice, *, hard: bool = False, empty: bool = False) -> Piece:
    """Read some series in a pass of their own.

    Parameters
    ----------
    question : Question
    rows : slice
    hard : bool
        Compare as the released code does, see :func:`distance`.
    empty : bool
        Whether answers are compared with those to the baseline rather than to the clean series.
    """
    block = question.block(rows)
    with torch.no_grad():
        answer = question.raw_answers(block.x[:, None])[:, 0]
        block = question.read(block, answer)
        if empty:
            answer = question.raw_answers(block.baseline[:, None])[:, 0]
    if isinstance(block.steps, str):
        raise InputError(
            "steps='own' asks for each step by itself, but this method explains all chosen steps together: pass "
            "steps=None or a list of steps."
        )
    apart = distance(answer.to(precision(question)), question.output, block.steps, hard=hard)

    def error(z: Tensor) -> Tensor:
        answers = question.raw_answers(z.to(question.dtype))
        if torch.is_grad_enabled() and "differentiable" not in question.shortcuts:
            require_path(answers, z)
            question.shortcuts["differentiable"] = True
        return apart(answers.to(precision(question)))

    return Piece(block, error)


def distance(clean: Tensor, output: str, steps: Tensor | None, *, hard: bool) -> Error:
    r"""Return the distance of raw answers (series, points, …, class) from the clean ones (series, …, class).

    Probabilities are compared by :math:`\mathrm{KL}(p_{clean} \| p)`, whose gradient is that of the cross-entropy
    and which is 0 for equal answers; raw outputs by the mean squared difference. Steps are averaged. ``hard``
    is what the released code does (0.3.6): softmax of the probabilities, against the most likely class.
    """
    clean = both_logits(clean[:, None], output)
    winner, log_clean = clean.argmax(-1, keepdim=True), clean.log_softmax(-1)
    chance = log_clean.exp()

    def apart(answer: Tensor) -> Tensor:
        answer = both_logits(answer, output)
        if hard:
            wanted = winner.expand(*answer.shape[:-1], 1)
            each = -link(answer, output).log_softmax(-1).gather(-1, wanted)[..., 0]
        elif output == "raw":
            each = (answer - clean).square().mean(-1)
        else:
            each = (chance * (log_clean - answer.log_softmax(-1))).sum(-1)
        if steps is not None:
            return (each * steps[:, None]).sum(-1) / steps.sum(-1, keepdim=True).clamp(min=1)
        return each.flatten(2).mean(-1) if each.ndim > 2 else each

    return apart


def descend(
    groups: Sequence[Sequence[Problem]],
    masks: Sequence[Tensor],
    networks: Iterable[Tensor] = (),
    *,
    epochs: int,
    lr: float,
    done: Callable[[], None],
    drift: bool = False,
    bounded: bool = False,
) -> None:
    """Take one step of Adam per group and epoch.

    Parameters
    ----------
    groups : sequence of sequences of Problem
        The losses of a group add up, so that it does not matter how its series are cut into pieces.
    masks, networks : tensors
        The leaves. A mask that a group does not use rests during its step.
    epochs : int
    lr : float
    done : function
        Called after each epoch.
    drift : bool
        Let all masks move with their momentum at every step, as the released code does (0.3.5).
    bounded : bool
        Keep masks in [0, 1] after each step.
    """
    leaves = [*masks, *networks]
    optimiser = torch.optim.Adam(leaves, lr=lr, fused=True)
    if drift:
        for leaf in leaves:
            leaf.grad = torch.zeros_like(leaf)
    for epoch in range(epochs):
        for group in groups:
            for problem in group:
                accumulate(problem.loss(epoch), problem.leaves)
            optimiser.step()
            optimiser.zero_grad(set_to_none=not drift)
            if bounded:
                for mask in masks:
                    mask.detach().clamp_(0, 1)
        done()


def together(
    question: Question,
    fit: Callable[[list[list[Piece]], Advance], Iterable[Tensor]],
    *,
    epochs: int,
    label: str,
    batch: int | None = None,
    hard: bool = False,
    empty: bool = False,
) -> Tensor:
    """Fit all series at once, where they share a network; ``fit`` returns the maps of the pieces in their order.

    Each batch is cut into pieces that fit the device; if they do not, all starts again with smaller ones.
    """
    values = torch.zeros(question.x.shape, device=question.x.device)
    total = len(question.x)

    def work(_: slice, size: int) -> None:
        groups = [
            [
                read(question, slice(part.start + own.start, part.start + own.stop), hard=hard, empty=empty)
                for own in pieces(part.stop - part.start, size)
            ]
            for part in pieces(total, batch or total)
        ]
        question.verify_once()
        with progress(epochs, label) as advance:
            maps = fit(groups, advance)
        for piece, found in zip((piece for group in groups for piece in group), maps, strict=True):
            values[piece.block.rows] = found.detach().where(piece.block.observed, 0).to(values)

    question.chunks.each(slice(0, 1), 1, work, lambda _: None)
    return values
