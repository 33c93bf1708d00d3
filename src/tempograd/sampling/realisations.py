r"""The mean map over the realisations of a model that draws, and its error.

With the map :math:`A_j` of realisation :math:`j` of :math:`J`, all of the same masks, and the Monte-Carlo error
:math:`s_j` that the method itself has,

.. math:: \bar A = \frac1J \sum_j A_j, \qquad
    s^2 = \frac{1}{J (J - 1)} \sum_j (A_j - \bar A)^2 + \Bigl(\frac1J \sum_j s_j\Bigr)^2.

Masks that all realisations share leave errors that do not average out, so the second part is not divided by
:math:`J`. The degrees of freedom are those of Welch and Satterthwaite.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tempograd.core.estimate import Estimate
from tempograd.engine import Ask, apply_link
from tempograd.engine.outputs import found_task, outputs_of
from tempograd.engine.second_look import Realisation
from tempograd.typing import Model


def over_draws(
    asks: Sequence[Ask], attribute: Callable[[Sequence[Ask]], list[Estimate]], draws: int
) -> tuple[list[Estimate], list[Ask]]:
    """Explain ``draws`` realisations of the requested model, and average.

    The asks are those to the last of them, which know target and steps.
    """
    first = Realisation(asks[0].model, asks[0].seed)
    targets = [ask.question.target for ask in asks]
    if targets == [None] and outputs_of(asks[0].task).target == "predicted":
        targets = [_predicted(asks[0], [first.draw(j) for j in range(draws)])]
    parts: list[list[Estimate]] = []
    said: list[list[Tensor | None]] = []
    realised: list[Ask] = []
    for j in range(draws):
        model, shortcuts = first.draw(j), dict[str, Any]()
        realised = [
            ask.replace(model=model, target=target, shortcuts=shortcuts)
            for ask, target in zip(asks, targets, strict=True)
        ]
        parts.append(attribute(realised))
        for ask, part in zip(realised, parts[-1], strict=True):
            ask.verify(part.values)
        said.append([ask.progress.prediction for ask in realised])
    for ask, each in zip(realised, zip(*said, strict=True), strict=True):
        ask.progress.prediction = None if None in each else _stacked(list(each)).mean(0)
    return [_mean(list(each), asks[0].mask) for each in zip(*parts, strict=True)], realised


def _predicted(ask: Ask, models: list[Model]) -> Tensor | None:
    """Return the class that the mean output predicts; None where there is one output only."""
    parts: dict[int, Tensor] = {}

    @torch.no_grad()
    def work(rows: slice, _: int) -> None:
        block = ask.block(rows)
        realised = [ask.replace(model=model) for model in models]
        linked = [apply_link(each.forward(block.x, block.index), each.output).double() for each in realised]
        parts[rows.start] = torch.stack(linked).sum(0)

    ask.batching.run(len(ask.x), 1, work, "read the predictions")
    mean = torch.cat([parts[start] for start in sorted(parts)])
    row = outputs_of(found_task(ask.task, ask.question, tuple(mean.shape[1:]), ask.time))
    mean = mean.flatten(1) if row.kind == "labels" else mean
    return mean.argmax(-1) if row.target == "predicted" and mean.shape[-1] > 1 else None


def _mean(parts: list[Estimate], mask: Tensor | None) -> Estimate:
    first, count = parts[0], len(parts)
    maps = torch.stack([part.values for part in parts]).double()
    between = maps.std(0) / count**0.5
    own = torch.zeros_like(between)
    freedom = torch.full_like(between, count - 1)
    if first.standard_error is not None:
        own = _stacked([part.standard_error for part in parts]).double().mean(0)
        inner = torch.inf if first.ess is None else (first.ess.double() - 1).clamp(min=0.5)
        whole = between.square() + own.square()
        spread = between**4 / (count - 1) + own**4 / inner
        freedom = whole.square() / spread.clamp(min=torch.finfo(whole.dtype).tiny)
        freedom = torch.where(own.isinf(), 0.0, freedom)
    ess, error = freedom + 1, torch.hypot(between, own)
    draws = torch.full_like(first.values, count, dtype=torch.int32) if first.n_draws is None else first.n_draws
    if mask is not None:
        error, ess, draws = (part.where(mask, 0) for part in (error, ess, draws))
    delta = None if first.delta is None else _stacked([part.delta for part in parts]).mean(0)
    mean, error, ess = (part.to(first.values) for part in (maps.mean(0), error, ess))
    check = first.gradient_check
    return Estimate(mean, error, draws, ess, first.signed, first.n_evals, delta, gradient_check=check)


def _stacked(parts: list[Tensor | None]) -> Tensor:
    return torch.stack([part for part in parts if part is not None])
