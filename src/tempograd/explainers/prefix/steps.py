"""What the methods share that ask how a prediction changes from step to step."""

from collections.abc import Callable

import torch
from torch import Tensor

from tempograd.engine import Prefixes, Question, pieces
from tempograd.engine.guesses import is_probability
from tempograd.errors import InputError, ModelError, brief


def over_prefixes(
    question: Question, candidates: int, scores: Callable[[Prefixes], Tensor], method: str
) -> Tensor:
    """Score every series from its predictions at every step, (series, time, channel) like ``question.x``.

    Parameters
    ----------
    question : Question
    candidates : int
        Windows per step that go through the model for one series.
    scores : function
        Maps the predictions of a block of series to its scores.
    method : str
        Shown with the progress and in errors.
    """
    asked = question.asked_steps
    if asked is not None and not (isinstance(asked, str) and asked == "own"):
        raise InputError(
            f"{method} scores a value by the predictions from its own step on, got steps={brief(asked)}: leave "
            "steps out, or use integrated_gradients."
        )
    values = torch.zeros(question.x.shape, device=question.x.device)

    @torch.no_grad()
    def work(rows: slice, size: int) -> None:
        block = question.settled(question.block(rows))
        question.verify_once()
        prefixes = Prefixes(question, block, size)
        if prefixes.outputs.ndim != 3:
            raise ModelError(
                f"{method} compares predictions (batch, classes) or (batch, time, classes), but the model "
                f"returned {prefixes.outputs.ndim - 1} axes per step: wrap it in a function that flattens them."
            )
        if not bool(prefixes.outputs.isfinite().all()):
            raise ModelError(
                f"{method} needs predictions on prefixes, but on some the model returned NaN or infinity: "
                "use a method that explains the final prediction, such as integrated_gradients."
            )
        if rows.start == 0:
            prefixes.require_past(method)
        values[rows] = scores(prefixes).where(block.observed, 0).to(values)

    question.chunks.run(len(question.x), candidates, work, f"explain with {method}")
    return values


def replaced(prefixes: Prefixes, starts: slice, windows: Tensor) -> Tensor:
    """Predict with other values, in groups of candidates that fit through the model; see Prefixes.replaced."""
    groups = pieces(windows.shape[2], max(1, prefixes.size // len(windows)))
    return torch.cat([prefixes.replaced(starts, windows[:, :, group]) for group in groups], 2)


def distributions(outputs: Tensor) -> Tensor:
    """Return probabilities that sum to 1; one column p, of class 1, means (1 - p, p)."""
    return torch.cat([1 - outputs, outputs], -1) if outputs.shape[-1] == 1 else outputs


def require_probabilities(prefixes: Prefixes, method: str) -> None:
    """Refuse raw outputs that are no probabilities."""
    if prefixes.question.output != "raw":
        return
    if not is_probability(distributions(prefixes.outputs)):
        raise InputError(
            f"{method} compares probabilities, but with output='raw' the model's rows are none: leave output out "
            "if softmax belongs there, and use winit or occlusion for regression."
        )


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


def require_width(learnt: int, question: Question, method: str) -> None:
    """Refuse series with other channels than those learnt from."""
    if learnt != question.x.shape[2]:
        raise InputError(
            f"{method} learnt from series with {learnt} channels, x has {question.x.shape[2]}: "
            "fit with series that have the same channels."
        )
