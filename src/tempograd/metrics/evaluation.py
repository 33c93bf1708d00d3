"""One call for all metrics, one score per series out; and removal curves, for plots and for people."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tempograd._utils import validation
from tempograd.engine import frozen, place
from tempograd.engine.guesses import is_probability
from tempograd.engine.second_look import FEW, generators_kept, random_state, run_twice
from tempograd.errors import InputError, SettingError, brief, warn
from tempograd.explanation.core import Explanation, require, warn_of_another_model
from tempograd.metrics.base import METRICS, RANKS, Metric
from tempograd.metrics.faithfulness import CumulativePredictionDifference, Faithfulness
from tempograd.metrics.localisation import Localisation, locate
from tempograd.metrics.removal import (
    EvalTarget,
    RemovalOutputs,
    RemovalSchedule,
    given_series,
    n_removed,
    run_removals,
)
from tempograd.typing import Array, Baseline, Model, Rank


def evaluate(
    model: Model,
    explanation: Explanation,
    x: Array | None = None,
    metrics: str | Metric | Iterable[str | Metric] = ("cpd", "cpp"),
    baseline: Baseline | None = None,
    k: int | float = 0.1,
    truth: Array | None = None,
    *,
    batch_size: int | None = None,
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
        For example ``["cpd", METRICS["cpd"](k=100, name="cpd100")]``.
    baseline : {"zero", "average"} or Tensor that broadcasts to ``x``, optional
        What takes the place of a removed cell, by default the baseline that the explanation compares with; the
        average is each channel's, over its observed steps.
    k : int or float
        How many cells are removed: a count, or a share of the observed cells of each series. A series with
        fewer observed cells loses all it has. A metric with a ``k`` of its own uses that.
    truth : Tensor or array like ``x``, optional
        1 where a cell is truly salient, for the metrics of localisation.
    batch_size : int, optional
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
    >>> explanation = IntegratedGradients(n_steps=1)(total, torch.tensor([[[1.0], [-4.0], [3.0]]]), output="raw")
    >>> evaluate(total, explanation, metrics=["cpd", "cpp", "prediction_difference"], k=2)
    {'cpd': tensor([7.]), 'cpp': tensor([4.]), 'prediction_difference': tensor([1.])}
    """
    require(explanation)
    chosen = _metrics(metrics)
    removing = [metric for metric in chosen if isinstance(metric, Faithfulness)]
    if removing:  # the others never run the model
        validation.check_model(model)
        warn_of_another_model(model, {explanation.method: explanation})
    with generators_kept(model) if removing else nullcontext():
        seen = Seen()
        scores = measure(model, explanation, x, chosen, baseline, k, truth, batch_size=batch_size, seen=seen)
        if removing:
            _warn_of_doubts(model, explanation, x, removing, seen)
    return scores


@dataclass
class Seen:
    """What a pass over the model showed beside the scores."""

    clean: Tensor | None = None  # outputs for the first series, (series, …, output)
    drew: bool = False  # whether random numbers were drawn


def _warn_of_doubts(
    model: Model, explanation: Explanation, x: Any, metrics: Sequence[Faithfulness], seen: Seen
) -> None:
    """Warn of a model that draws, and of metrics that count more outputs than the explained one."""
    if explanation.varies or (seen.drew and _varies(model, explanation, x)):
        warn(
            "The model answers the same series differently when it is asked again, so these scores hold its "
            "noise: evaluate a function that averages over its random numbers, or that fixes them."
        )
    names = [metric.name for metric in metrics if isinstance(metric, CumulativePredictionDifference)]
    if seen.clean is None or not names or explanation.output != "raw" or explanation.target is None:
        return
    outputs = seen.clean.shape[-1]
    if outputs > 1 and not is_probability(seen.clean):
        warn(
            f"{' and '.join(names)} {'counts' if len(names) == 1 else 'count'} the change of all {outputs} "
            "outputs of the model, not of the explained one only: prediction_difference and comprehensiveness "
            "follow it alone."
        )


def _varies(model: Model, explanation: Explanation, x: Any) -> bool:
    series = given_series(explanation, x)
    if series is None:
        return False
    with frozen(model):
        found = run_twice(explanation.call.adapt(model), series[:FEW].to(*place(model, series)))
    return found is not None and found[1]


def measure(
    model: Model,
    explanation: Explanation,
    x: Any,
    chosen: Sequence[Metric],
    baseline: Baseline | None = None,
    k: int | float = 0.1,
    truth: Any = None,
    *,
    batch_size: int | None = None,
    seen: Seen | None = None,
) -> dict[str, Tensor]:
    """Score an explanation by metrics whose names differ, for a caller that has looked at the model itself."""
    scores: dict[str, Tensor] = {}
    local = [metric for metric in chosen if isinstance(metric, Localisation)]
    if local:
        given_series(explanation, x)
        scores |= locate(explanation, truth, local)
    removing = [metric for metric in chosen if isinstance(metric, Faithfulness)]
    if removing:
        scores |= _remove(EvalTarget.of(model, explanation, x, baseline, batch_size), k, removing, seen or Seen())
    return {metric.name: scores[metric.name] for metric in chosen}


def _remove(evaluated: EvalTarget, k: Any, metrics: Sequence[Faithfulness], seen: Seen) -> dict[str, Tensor]:
    cells, device = evaluated.x[0].numel(), evaluated.explanation.values.device
    schedules = [metric.schedule(k, evaluated.observed, cells) for metric in metrics]
    scores = {metric.name: torch.empty(len(evaluated.x), device=device) for metric in metrics}

    def read(rows: slice, outputs: list[RemovalOutputs]) -> None:
        if seen.clean is None:
            seen.clean = outputs[0].predictions[:, 0]
        for metric, output in zip(metrics, outputs, strict=True):
            scores[metric.name][rows] = metric.read(output).float().to(device)

    with frozen(evaluated.model):
        state = random_state(evaluated.model)
        run_removals(evaluated, schedules, read, "evaluate")
        seen.drew = random_state(evaluated.model) != state
    return scores


def _metrics(metrics: str | Metric | Iterable[str | Metric]) -> list[Metric]:
    if isinstance(metrics, (str, Metric)):
        metrics = [metrics]
    try:
        given = list(metrics)
    except TypeError:
        raise InputError(
            f"metrics must hold names or metrics, got {brief(metrics)}: write ['cpd', 'cpp']."
        ) from None
    if not given:
        raise InputError(f"metrics is empty: name at least one of {', '.join(sorted(METRICS))}.")
    chosen = [METRICS[metric]() if isinstance(metric, str) else metric for metric in given]
    names: set[str] = set()
    for metric in chosen:
        if not isinstance(metric, (Faithfulness, Localisation)):
            raise InputError(
                f"metrics must hold names or metrics, got {brief(metric)}: write METRICS['cpd']() for a metric."
            )
        if metric.name in names:
            raise InputError(
                f"Two metrics are called {brief(metric.name)}: give one of them another name with name=."
            )
        names.add(metric.name)
    return chosen


# Removal curves: the prediction as cells go one by one


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
    delta : Tensor of shape (series, K)
        L1 distance of consecutive predictions, averaged over the explained steps. Its sum over the
        removals is the CPD (least important first: the CPP).
    predictions : Tensor of shape (series, K + 1, outputs), optional
        Every output, both classes of a single probability; None for models with one output per step.
    """

    removed: Tensor
    limit: Tensor
    score: Tensor | None
    delta: Tensor
    predictions: Tensor | None


def removal_curve(
    model: Model,
    explanation: Explanation,
    x: Array | None = None,
    k: int | float = 0.1,
    baseline: Baseline | None = None,
    rank: Rank = "absolute",
    descending: bool = True,
    batch_size: int | None = None,
) -> RemovalCurve:
    """Remove cells in the order of their scores and record what the model says.

    Parameters
    ----------
    model, explanation, x, k, baseline, batch_size
        See :func:`tempograd.evaluate`.
    rank : {"absolute", "signed"}
        Whether the size of an attribution makes a cell important, or its value.
    descending : bool
        Whether the most important cells go first.

    Examples
    --------
    >>> from tempograd.explainers import IntegratedGradients
    >>> total = lambda x: x.sum((1, 2))[:, None]
    >>> explanation = IntegratedGradients(n_steps=1)(total, torch.tensor([[[1.0], [-4.0], [3.0]]]), output="raw")
    >>> curve = removal_curve(total, explanation, k=3)
    >>> curve.score, curve.delta
    (tensor([[0., 4., 1., 0.]]), tensor([[4., 3., 1.]]))
    """
    validation.check_model(model)
    require(explanation)
    validation.check_choice(rank, "rank", RANKS, SettingError)
    descending = validation.check_flag(descending, "descending")
    warn_of_another_model(model, {explanation.method: explanation})
    evaluated = EvalTarget.of(model, explanation, x, baseline, batch_size)
    limit = n_removed(k, evaluated.observed, evaluated.x[0].numel())
    parts: dict[int, tuple[Tensor | None, Tensor, Tensor | None]] = {}
    device = explanation.values.device

    def read(rows: slice, outputs: list[RemovalOutputs]) -> None:
        (output,) = outputs
        parts[rows.start] = (
            None if output.target is None else output.over_steps(output.score).float().to(device),
            output.delta.float().to(device),
            None if output.steps is not None else output.predictions.float().to(device),
        )

    schedule = RemovalSchedule(rank, descending, limit, every=True)
    with frozen(model):
        run_removals(evaluated, [schedule], read, "remove cells")
    score, delta, predictions = zip(*parts.values(), strict=True)
    return RemovalCurve(
        torch.arange(schedule.width), limit, _joined(score), torch.cat(delta), _joined(predictions)
    )


def _joined(parts: tuple[Tensor | None, ...]) -> Tensor | None:
    present = [part for part in parts if part is not None]
    return torch.cat(present) if present else None
