r"""The mean map over the realisations of a model that draws, and its error.

With the map :math:`A_j` of realisation :math:`j` of :math:`J`, all of the same masks, and the Monte-Carlo error
:math:`s_j` that the method itself has,

.. math:: \bar A = \frac1J \sum_j A_j, \qquad
    s^2 = \frac{1}{J (J - 1)} \sum_j (A_j - \bar A)^2 + \Bigl(\frac1J \sum_j s_j\Bigr)^2.

Masks that all realisations share leave errors that do not average out, so the second part is not divided by
:math:`J`. The degrees of freedom are those of Welch and Satterthwaite.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from tempograd.engine import Question, link
from tempograd.engine.realisation import realisation
from tempograd.explainers._path import Attribution


class Averaged(NamedTuple):
    """The mean over realisations, and the question to the last of them, which knows target and steps."""

    attribution: Attribution
    question: Question


def over_draws(question: Question, attribute: Callable[[Question], Attribution], draws: int) -> Averaged:
    """Explain ``draws`` realisations of the model in question, and average."""
    take = realisation(question.model, question.seed)
    target, parts = question.asked_target, []
    if target is None:
        target = _predicted(question, [take(j) for j in range(draws)])
    asked = question
    for j in range(draws):
        asked = question.but(model=take(j), asked_target=target, shortcuts={})
        part = attribute(asked)
        asked.verify(part.values)
        parts.append(part)
    return Averaged(_mean(parts, question.mask), asked)


def _predicted(question: Question, models: list[Callable[[Tensor], Tensor]]) -> Tensor | None:
    """Return the class that the mean output predicts; None where there is one output only."""
    parts: dict[int, Tensor] = {}

    @torch.no_grad()
    def work(rows: slice, _: int) -> None:
        x = question.block(rows).x
        asked = [question.but(model=model) for model in models]
        parts[rows.start] = sum(link(each.call(x), each.output).double() for each in asked)  # type: ignore[assignment]

    question.chunks.run(len(question.x), 1, work, "read the predictions")
    mean = torch.cat([parts[start] for start in sorted(parts)])
    return None if mean.shape[-1] == 1 else mean.argmax(-1)


def _mean(parts: list[Attribution], mask: Tensor | None) -> Attribution:
    first, count = parts[0], len(parts)
    maps = torch.stack([part.values for part in parts]).double()
    between = maps.std(0) / count**0.5
    own = torch.zeros_like(between)
    freedom = torch.full_like(between, count - 1)
    if first.standard_error is not None:
        own = _stacked([part.standard_error for part in parts]).double().mean(0)
        effective = first.effective_points
        inner = (
            torch.full_like(between, torch.inf) if effective is None else (effective.double() - 1).clamp(min=0.5)
        )
        whole = between.square() + own.square()
        freedom = whole.square() / (between**4 / (count - 1) + own**4 / inner).clamp(
            min=torch.finfo(whole.dtype).tiny
        )
        freedom = torch.where(own.isinf(), 0.0, freedom)
    effective_points, error = freedom + 1, torch.hypot(between, own)
    draws = torch.full_like(first.values, count, dtype=torch.int32)
    free = draws if first.free_points is None else first.free_points
    if mask is not None:
        error, effective_points, free = (each.where(mask, 0) for each in (error, effective_points, free))
    change = None if first.change is None else _stacked([part.change for part in parts]).mean(0)
    return Attribution(
        maps.mean(0).to(first.values),
        error.to(first.values),
        free,
        effective_points.to(first.values),
        signed=first.signed,
        passes=first.passes,
        change=change,
        gradient_check=first.gradient_check,
    )


def _stacked(parts: list[Tensor | None]) -> Tensor:
    return torch.stack([part for part in parts if part is not None])
