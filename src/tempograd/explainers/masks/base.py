"""How masks are learnt: a frozen model, clean answers read once, one loss per series, steps of Adam."""

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from tempograd._utils.progress import Advance, progress
from tempograd.engine import Block, Question, accumulate, both_logits, pieces, require_path
from tempograd.errors import InputError
from tempograd.explainers.base import Explainer

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
        """Take one step of Adam per group and epoch.

        Parameters
        ----------
        question : Question
        groups : sequence of sequences of Problem
            The losses of a group add up, so that it does not matter how its series are cut into pieces.
        masks, networks : tensors
            The leaves. A mask that a group does not use rests during its step.
        done : function
            Called after each epoch.
        bounded : bool
            Keep masks in [0, 1] after each step.
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
    ) -> Tensor:
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
        return values
