"""One call for all metrics: a model, an explanation and what to measure in, one score per series out."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from tempograd.engine import Model, place, quiet
from tempograd.engine.findings import is_probability
from tempograd.engine.realisation import generators_kept
from tempograd.engine.second_look import FEW, asked_twice
from tempograd.errors import InputError, warn
from tempograd.explanation import Explanation, warn_of_another_model
from tempograd.metrics._reading import Reading
from tempograd.metrics._removal import walk
from tempograd.metrics._subject import Subject, given_series
from tempograd.metrics.base import METRICS, Metric
from tempograd.metrics.faithfulness import CumulativePredictionDifference, Faithfulness
from tempograd.metrics.localisation import Localisation, locate


def evaluate(
    model: Model,
    explanation: Explanation,
    x: Any = None,
    metrics: str | Metric | Iterable[str | Metric] = ("cpd", "cpp"),
    substitute: Any = "zero",
    k: int | float = 0.1,
    truth: Any = None,
    *,
    chunk: int | None = None,
) -> dict[str, Tensor]:
    """Score an explanation, one number per series and metric.

    All metrics that remove cells share one pass over the model: no series is shown to it twice in the same
    state. Unobserved cells are never ranked and never removed.

    Parameters
    ----------
    model : nn.Module or callable
        The model that was explained; a warning tells if its weights are not those that were.
    explanation : Explanation
        Its target, output, steps and mask are the ones that are measured.
    x : Tensor or array of shape (series, time, channel), optional
        The explained series, by default those kept with the explanation.
    metrics : names or metrics
        For example ``["cpd", METRICS["cpd"](k=100, scale="published", name="cpd100")]``.
    substitute : {"zero", "average"} or Tensor that broadcasts to ``x``
        What takes the place of a removed cell; the average is each channel's, over its observed steps.
    k : int or float
        How many cells are removed: a count, or a share of the observed cells of each series. A series with
        fewer observed cells loses all it has. A metric with a ``k`` of its own uses that.
    truth : Tensor or array like ``x``, optional
        1 where a cell is truly salient, for the metrics of localisation.
    chunk : int, optional
        Sequences per pass of the model; found automatically by default.

    Returns
    -------
    dict of str to Tensor
        float32, (series,) each; a metric with ``pooled=True`` gives one number for all series. NaN where a
        score is not defined.

    Examples
    --------
    >>> from tempograd.explainers import IntegratedGradients
    >>> total = lambda x: x.sum((1, 2))[:, None]
    >>> explanation = IntegratedGradients(points=1)(total, torch.tensor([[[1.0], [-4.0], [3.0]]]), output="raw")
    >>> evaluate(total, explanation, metrics=["cpd", "cpp", "prediction_difference"], k=2)
    {'cpd': tensor([7.]), 'cpp': tensor([4.]), 'prediction_difference': tensor([1.])}
    """
    chosen = _metrics(metrics)
    removing = [metric for metric in chosen if isinstance(metric, Faithfulness)]
    if removing:  # the others never ask the model
        warn_of_another_model(model, {explanation.method: explanation})
    with generators_kept(model):
        scores = measure(model, explanation, x, chosen, substitute, k, truth, chunk=chunk)
        if removing:
            _warn_of_doubts(model, explanation, x, removing)
    return scores


def _warn_of_doubts(model: Model, explanation: Explanation, x: Any, metrics: Sequence[Faithfulness]) -> None:
    """Warn of a model that draws, and of metrics that count more outputs than the explained one."""
    series = given_series(explanation, x)
    if series is None:
        return
    with quiet(model):
        seen = asked_twice(model, series[:FEW].to(*place(model, series)))
    if seen is None:
        return
    answer, varies = seen
    if varies:
        warn(
            "The model answers the same series differently when it is asked again, so these scores hold its "
            "noise: evaluate a function that averages over its random numbers, or that fixes them."
        )
    names = [metric.name for metric in metrics if isinstance(metric, CumulativePredictionDifference)]
    if names and explanation.output == "raw" and answer.shape[-1] > 1 and not is_probability(answer):
        verb = "counts" if len(names) == 1 else "count"
        what = "the explained one" if explanation.target is not None else "the score that a function picked"
        others = ": prediction_difference and comprehensiveness follow it alone"
        warn(
            f"{' and '.join(names)} {verb} the change of all {answer.shape[-1]} outputs of the model, not of "
            f"{what} only{others if explanation.target is not None else ''}."
        )


def measure(
    model: Model,
    explanation: Explanation,
    x: Any,
    chosen: Sequence[Metric],
    substitute: Any = "zero",
    k: int | float = 0.1,
    truth: Any = None,
    *,
    chunk: int | None = None,
) -> dict[str, Tensor]:
    """Score an explanation by metrics whose names differ, for a caller that has looked at the model itself."""
    scores: dict[str, Tensor] = {}
    local = [metric for metric in chosen if isinstance(metric, Localisation)]
    if local:
        given_series(explanation, x)
        scores |= locate(explanation, truth, local)
    removing = [metric for metric in chosen if isinstance(metric, Faithfulness)]
    if removing:
        scores |= _remove(Subject.of(model, explanation, x, substitute, chunk), k, removing)
    return {metric.name: scores[metric.name] for metric in chosen}


def _remove(subject: Subject, k: Any, metrics: Sequence[Faithfulness]) -> dict[str, Tensor]:
    cells, device = subject.x[0].numel(), subject.explanation.values.device
    routes = [metric.route(k, subject.observed, cells) for metric in metrics]
    scores = {metric.name: torch.empty(len(subject.x), device=device) for metric in metrics}

    def read(rows: slice, readings: list[Reading]) -> None:
        for metric, reading in zip(metrics, readings, strict=True):
            scores[metric.name][rows] = metric.read(reading).float().to(device)

    with quiet(subject.model):
        walk(subject, routes, read, "evaluate")
    return scores


def _metrics(metrics: str | Metric | Iterable[str | Metric]) -> list[Metric]:
    given = [metrics] if isinstance(metrics, (str, Metric)) else list(metrics)
    if not given:
        raise InputError(f"metrics is empty: name at least one of {', '.join(sorted(METRICS))}.")
    chosen = [METRICS[metric]() if isinstance(metric, str) else metric for metric in given]
    names: set[str] = set()
    for metric in chosen:
        if not isinstance(metric, (Faithfulness, Localisation)):
            raise InputError(
                f"metrics must hold names or metrics, got {metric!r}: write METRICS['cpd']() for a metric."
            )
        if metric.name in names:
            raise InputError(f"Two metrics are called {metric.name!r}: give one of them another name with name=.")
        names.add(metric.name)
    return chosen
