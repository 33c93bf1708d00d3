"""One call for all metrics, one score per series out; and removal curves, for plots and for people."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, SettingError, brief, warn
from tempograd.core.findings import arg
from tempograd.core.series import Series
from tempograd.engine import frozen
from tempograd.engine.guesses import is_probability
from tempograd.engine.outputs import PassCount, counting
from tempograd.engine.predictor import Predictor
from tempograd.engine.second_look import FEW, Varying, generators_kept, look_again, outputs_differ, trust, trusted
from tempograd.explanation.core import Explanation, require, warn_of_another_model
from tempograd.explanation.same import as_explained
from tempograd.metrics.base import KINDS, METRICS, RANKS, MeasuredMetric, Metric
from tempograd.metrics.faithfulness import CumulativePredictionDifference, Faithfulness
from tempograd.metrics.localisation import Localisation, locate
from tempograd.metrics.removal import (
    MEASURED,
    EvalTarget,
    RemovalOutputs,
    RemovalSchedule,
    given_series,
    laid_out,
    n_removed,
    run_removals,
)
from tempograd.typing import InputBaselines, Inputs, Measured, Model, Picker, Rank


def evaluate(
    model: Model | Predictor,
    explanation: Explanation,
    x: Inputs | Series | None = None,
    metrics: str | Metric | Iterable[str | Metric] = ("cpd", "cpp"),
    baseline: InputBaselines | Series | None = None,
    k: int | float = 0.1,
    truth: Inputs | None = None,
    *,
    batch_size: int | None = None,
    of: Measured | None = None,
    target: Picker | None = None,
    background: Inputs | None = None,
    draws: int | None = None,
) -> dict[str, Tensor]:
    """Score an explanation, one number per series and metric.

    All metrics that remove cells share one pass over the model: no series is shown to it twice in the same
    state, but for a few that tell beforehand whether their batch matters. Unobserved cells are never ranked and
    never removed.

    Parameters
    ----------
    model : nn.Module or callable
        The model that was explained; a warning tells if its weights are not those that were.
    explanation : Explanation
        Its target, output, steps and mask are the ones that are measured.
    x : Tensor or array of shape (series, time, channel), optional
        The explained series, or inputs, by default those kept with the explanation.
    metrics : names or metrics
        For example ``["cpd", METRICS["cpd"](k=100, name="cpd100")]``.
    baseline : {"zero", "average", "background"}, Tensor that broadcasts to ``x``, or mapping, optional
        What takes the place of a removed cell, by default the baseline that the explanation compares with; the
        average is each channel's, over its observed steps, and the background are values of other series at the
        same place.
    k : int or float
        How many cells are removed: a count, or a share of the observed cells of each series. A series with
        fewer observed cells loses all it has. A metric with a ``k`` of its own uses that.
    truth : Tensor or array like ``x``, optional
        1 where a cell is truly salient, for the metrics of localisation.
    batch_size : int, optional
        Sequences per pass of the model; found automatically by default.
    of : {"score", "output"}, optional
        What ``cpd`` and ``cpp`` sum the changes of: the explained score alone, or all outputs of the model as in
        the paper. By default all outputs for a classification and for one output per step, where they say
        something of each other; the score for a regression, a forecast, several labels, and where a function
        picked it. The other metrics follow the score in any case.
    target : callable, optional
        The function that picked the score, for an explanation from a file, which could not keep it.
    background : Tensor or array of shape (batch, time, channel), or inputs like ``x``, optional
        The other series of ``baseline="background"``, which an explanation against a background needs again. A row
        that equals the explained series is never drawn for it.
    draws : int, optional
        How many of them each series meets, by default 8: all removals are made with the values of each in turn,
        and scores are means over the draws. Draws depend on the ids of the series and on nothing else, so that all
        explanations of the same series are scored by the same removals.

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

    Of a model with several outputs, one of which was explained:

    >>> both = lambda x: torch.stack([x.sum((1, 2)), x[:, 0, 0] * 10], 1)
    >>> evaluate(both, explanation, metrics="cpd", k=3, of="score")
    {'cpd': tensor([8.])}
    >>> evaluate(both, explanation, metrics="cpd", k=3, of="output")
    {'cpd': tensor([18.])}
    """
    require(explanation)
    if of is not None:
        validation.check_choice(of, "of", MEASURED)
    chosen = _metrics(metrics)
    removing = [metric for metric in chosen if isinstance(metric, Faithfulness)]
    model = as_explained(model, explanation)
    background = None if background is None else Series.of(background).filled
    x = x.filled if isinstance(x, Series) else x
    baseline = baseline.filled if isinstance(baseline, Series) else baseline
    if removing:  # the others never run the model
        validation.check_model(model)
        warn_of_another_model(model, {explanation.method: explanation})
    with generators_kept(model) if removing else nullcontext():
        seen = Seen()
        options: dict[str, Any] = {"batch_size": batch_size, "of": of, "target": target}
        options |= {"background": background, "draws": draws}
        scores = measure(model, explanation, x, chosen, baseline, k, truth, seen=seen, **options)
        if removing:
            _warn_of_noise(seen.varies, by_itself=batch_size is None)
            if of is None and seen.measured == "output":
                _warn_of_other_outputs(explanation, removing, seen)
    return scores


@dataclass
class Seen:
    """What a pass over the model showed beside the scores."""

    clean: Tensor | None = None  # outputs for the first series, (series, …, output)
    varies: Varying = ""  # whether the model's outputs for the same series differ
    measured: Measured | None = None  # what cumulative metrics followed


def _warn_of_noise(varies: Varying, *, by_itself: bool) -> None:
    """Warn of a model that draws, or mixes the series of a batch."""
    if varies == "batch":
        end = (
            "so each was run by itself"
            if by_itself
            else f"and so do these scores: leave {arg:question.batch_size} out"
        )
        warn(
            "The model's answer to a series depends on the other series of its batch or on its place among them, "
            f"{end}."
        )
    elif varies:
        warn(
            "The model is stochastic: repeated calls on the same series differ, so these scores contain that "
            "noise. Evaluate a function that averages over its random numbers, or that fixes them."
        )


def _varying(evaluated: EvalTarget) -> Varying:
    """Tell whether outputs for the same series differ: what the explanation knows, or else a look tells."""
    explanation, size = evaluated.explanation, evaluated.batch_size or FEW
    if explanation.varies or explanation.mixes_series or size == 1:
        return "batch" if explanation.mixes_series else "drawn" if explanation.varies else ""
    model, place = evaluated.model, (evaluated.device, evaluated.dtype)
    count = min(FEW, size)
    x, baseline = evaluated.x[:count], evaluated.baseline[:count]
    if evaluated.mask is not None:
        baseline = baseline.where(evaluated.mask[:count], x)
    if trusted(model, x.to(*place), "evaluate"):
        return ""
    with counting(PassCount()):  # which no budget pays for
        look = look_again(model, x.to(*place), baseline.to(*place), evaluated.at)
        found = "" if look is None else outputs_differ(model, look, at=evaluated.at)
    if look is not None and not found:
        trust(model, look, "evaluate")
    return found


def _warn_of_other_outputs(explanation: Explanation, metrics: Sequence[Faithfulness], seen: Seen) -> None:
    """Warn of metrics that count more outputs than the explained one, where nobody said that they shall."""
    names = [metric.name for metric in metrics if isinstance(metric, CumulativePredictionDifference)]
    if seen.clean is None or not names:
        return
    outputs, lost = seen.clean.shape[-1], explanation.target is None
    if not lost and (explanation.output != "raw" or outputs == 1 or is_probability(seen.clean)):
        return
    which = f"all {outputs} outputs" if outputs > 1 else "the output"
    other = "the score that a function picked" if lost else "the explained one only"
    instead = f"{arg:question.target} with that function" if lost else f"{arg:call.of=score} to follow it alone"
    warn(
        f"{' and '.join(names)} {'counts' if len(names) == 1 else 'count'} the change of {which} of the model, "
        f"not of {other}: pass {instead}, or {arg:call.of=output} if that is what you want."
    )


def measure(
    model: Model,
    explanation: Explanation,
    x: Any,
    chosen: Sequence[Metric],
    baseline: InputBaselines | Series | None = None,
    k: int | float = 0.1,
    truth: Any = None,
    *,
    batch_size: int | None = None,
    of: Measured | None = None,
    target: Picker | None = None,
    background: Inputs | None = None,
    draws: int | None = None,
    seen: Seen | None = None,
) -> dict[str, Tensor]:
    """Score an explanation by metrics whose names differ, for a caller that has looked at the model itself."""
    scores: dict[str, Tensor] = {}
    local = [metric for metric in chosen if isinstance(metric, Localisation)]
    if local:
        given_series(explanation, x)
        scores |= locate(explanation, laid_out(explanation, truth, "truth"), local)
    removing = [metric for metric in chosen if isinstance(metric, Faithfulness)]
    if removing:
        options: dict[str, Any] = {"of": of, "target": target, "background": background, "draws": draws}
        evaluated = EvalTarget.of(model, explanation, x, baseline, batch_size, **options)
        scores |= _remove(evaluated, k, removing, seen)
    return {metric.name: scores[metric.name] for metric in chosen}


def _remove(
    evaluated: EvalTarget, k: Any, metrics: Sequence[Faithfulness], seen: Seen | None
) -> dict[str, Tensor]:
    device = evaluated.explanation.values.device
    schedules = [metric.schedule(k, evaluated.observed, evaluated.cells) for metric in metrics]
    each: dict[str, list[Tensor]] = {metric.name: [] for metric in metrics}  # by draw

    def read(rows: slice, outputs: list[RemovalOutputs]) -> None:
        if seen is not None and seen.clean is None:
            seen.clean = outputs[0].predictions[:, 0]
        for metric, output in zip(metrics, outputs, strict=True):
            each[metric.name][-1][rows] = metric.read(output).float().to(device)

    with frozen(evaluated.given) as restore_buffers:
        if seen is not None:
            seen.measured, seen.varies = evaluated.measured, _varying(evaluated)
            evaluated = evaluated.one_by_one_if(seen.varies == "batch")
            restore_buffers()
        for drawn in evaluated.each_draw():
            for found in each.values():
                found.append(torch.empty(len(evaluated.x), device=device))
            run_removals(drawn, schedules, read, "evaluate")
    return {name: mean_over(found) for name, found in each.items()}


def mean_over(parts: Sequence[Tensor]) -> Tensor:
    """Return the mean over draws, as float32; a single one as it is."""
    return parts[0] if len(parts) == 1 else torch.stack(list(parts)).double().mean(0).float()


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
        if not isinstance(metric, MeasuredMetric):
            raise InputError(
                f"metrics must hold names or metrics, got {brief(metric)}: write METRICS['cpd'](), or an object "
                f"of {KINDS}."
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
        The explained score, averaged over the explained steps; None if the function that picked it was lost with
        the process that knew it, and not given as ``target``.
    delta : Tensor of shape (series, K)
        Distance of consecutive states, averaged over the explained steps: of the score, or with ``of="output"``
        L1 of all outputs. Its sum over the removals is the CPD (least important first: the CPP).
    predictions : Tensor of shape (series, K + 1, outputs), optional
        Every output, both classes of a single probability; None for models with one output per step.
    """

    removed: Tensor
    limit: Tensor
    score: Tensor | None
    delta: Tensor
    predictions: Tensor | None


def removal_curve(
    model: Model | Predictor,
    explanation: Explanation,
    x: Inputs | Series | None = None,
    k: int | float = 0.1,
    baseline: InputBaselines | Series | None = None,
    rank: Rank = "absolute",
    descending: bool = True,
    batch_size: int | None = None,
    *,
    of: Measured | None = None,
    target: Picker | None = None,
    background: Inputs | None = None,
    draws: int | None = None,
) -> RemovalCurve:
    """Remove cells in the order of their scores and record what the model says.

    Parameters
    ----------
    model, explanation, x, k, baseline, batch_size, of, target, background, draws
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
    model = as_explained(model, require(explanation))
    background = None if background is None else Series.of(background).filled
    x = x.filled if isinstance(x, Series) else x
    baseline = baseline.filled if isinstance(baseline, Series) else baseline
    validation.check_model(model)
    validation.check_choice(rank, "rank", RANKS, SettingError)
    descending = validation.check_flag(descending, "descending")
    warn_of_another_model(model, {explanation.method: explanation})
    options: dict[str, Any] = {"of": of, "target": target, "background": background, "draws": draws}
    evaluated = EvalTarget.of(model, explanation, x, baseline, batch_size, **options)
    limit = n_removed(k, evaluated.observed, evaluated.cells)
    parts: dict[int, tuple[Tensor | None, Tensor, Tensor | None]] = {}
    device = explanation.values.device

    def read(rows: slice, outputs: list[RemovalOutputs]) -> None:
        (output,) = outputs
        parts[rows.start] = (
            output.over_steps(output.score).float().to(device) if output.scored else None,
            output.delta.float().to(device),
            None if output.steps is not None else output.predictions.float().to(device),
        )

    schedule = RemovalSchedule(rank, descending, limit, every=True)
    each: list[tuple[Tensor | None, ...]] = []  # by draw
    with frozen(model) as restore_buffers:
        evaluated = evaluated.one_by_one_if(_varying(evaluated) == "batch")
        restore_buffers()
        for drawn in evaluated.each_draw():
            parts.clear()
            run_removals(drawn, [schedule], read, "remove cells")
            each.append(tuple(_joined(found) for found in zip(*parts.values(), strict=True)))
    score, delta, predictions = (_mean_of_draws(found) for found in zip(*each, strict=True))
    if delta is None:
        raise RuntimeError("Nothing was removed.")
    return RemovalCurve(torch.arange(schedule.width), limit, score, delta, predictions)


def _mean_of_draws(parts: Sequence[Tensor | None]) -> Tensor | None:
    known = [part for part in parts if part is not None]
    return mean_over(known) if known else None


def _joined(parts: tuple[Tensor | None, ...]) -> Tensor | None:
    present = [part for part in parts if part is not None]
    return torch.cat(present) if present else None
