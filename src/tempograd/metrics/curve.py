"""Removal curves: the prediction as cells go one by one, for plots and for people."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from tempograd._utils import validation
from tempograd.engine import Model, quiet
from tempograd.errors import SettingError
from tempograd.explanation.core import Explanation, require, warn_of_another_model
from tempograd.metrics.base import RANKS
from tempograd.metrics.removal import Reading, Route, Subject, amounts, walk


class RemovalCurve(NamedTuple):
    """How predictions move while cells are removed; all but ``removed`` and ``limit`` are float32.

    Attributes
    ----------
    removed : Tensor of shape (K + 1,)
        Cells removed, 0 … K.
    limit : Tensor of shape (series,)
        Where each series stops: from there on its curve is flat.
    score : Tensor of shape (series, K + 1), optional
        The explained output, averaged over the explained steps; None if a function picked the score.
    change : Tensor of shape (series, K)
        L1 distance of consecutive predictions, averaged over the explained steps. Its sum over the
        removals is the CPD (least important first: the CPP).
    predictions : Tensor of shape (series, K + 1, outputs), optional
        Every output, both classes of a single probability; None for models with one output per step.
    """

    removed: Tensor
    limit: Tensor
    score: Tensor | None
    change: Tensor
    predictions: Tensor | None


def removal_curve(
    model: Model,
    explanation: Explanation,
    x: Any = None,
    k: int | float = 0.1,
    substitute: Any = "zero",
    rank: str = "absolute",
    descending: bool = True,
    chunk: int | None = None,
) -> RemovalCurve:
    """Remove cells in the order of their scores and record what the model says.

    Parameters
    ----------
    model : nn.Module or callable
        The model that was explained.
    explanation : Explanation
    x : Tensor or array of shape (series, time, channel), optional
        The explained series, by default those kept with the explanation.
    k : int or float
        How many cells: a count, or a share of the observed cells of each series.
    substitute : {"zero", "average"} or Tensor that broadcasts to ``x``
        What takes the place of a removed cell.
    rank : {"absolute", "signed"}
        Whether the size of an attribution makes a cell important, or its value.
    descending : bool
        Whether the most important cells go first.
    chunk : int, optional
        Sequences per pass of the model; found automatically by default.

    Examples
    --------
    >>> from tempograd.explainers import IntegratedGradients
    >>> total = lambda x: x.sum((1, 2))[:, None]
    >>> explanation = IntegratedGradients(points=1)(total, torch.tensor([[[1.0], [-4.0], [3.0]]]), output="raw")
    >>> curve = removal_curve(total, explanation, k=3)
    >>> curve.score, curve.change
    (tensor([[0., 4., 1., 0.]]), tensor([[4., 3., 1.]]))
    """
    validation.model(model)
    require(explanation)
    validation.one_of(rank, "rank", RANKS, SettingError)
    descending = validation.flag(descending, "descending")
    warn_of_another_model(model, {explanation.method: explanation})
    subject = Subject.of(model, explanation, x, substitute, chunk)
    limit = amounts(k, subject.observed, subject.x[0].numel())
    parts: dict[int, tuple[Tensor | None, Tensor, Tensor | None]] = {}
    device = explanation.values.device

    def read(rows: slice, readings: list[Reading]) -> None:
        (reading,) = readings
        parts[rows.start] = (
            None if reading.target is None else reading.over_steps(reading.score).float().to(device),
            reading.change.float().to(device),
            None if reading.steps is not None else reading.predictions.float().to(device),
        )

    route = Route(rank, descending, limit, every=True)
    with quiet(model):
        walk(subject, [route], read, "remove cells")
    score, change, predictions = zip(*parts.values(), strict=True)
    return RemovalCurve(torch.arange(route.width), limit, _joined(score), torch.cat(change), _joined(predictions))


def _joined(parts: tuple[Tensor | None, ...]) -> Tensor | None:
    present = [part for part in parts if part is not None]
    return torch.cat(present) if present else None
