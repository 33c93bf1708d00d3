"""One call for all metrics, one score per series out; and removal curves, for plots and for people."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, SettingError, arg, brief, warn
from tempograd.core.series import Series
from tempograd.engine.outputs import is_probability
from tempograd.engine.predictor import Predictor
from tempograd.explanation.core import Explanation, require, warn_of_another_model
from tempograd.explanation.targets import as_explained
from tempograd.metrics.base import KINDS, METRICS, RANKS, Evaluation, Metric
from tempograd.metrics.faithfulness import CumulativePredictionDifference
from tempograd.metrics.removal import RemovalOutputs, RemovalSchedule, n_removed, remove_cells, what_is_measured
from tempograd.typing import InputBaselines, Inputs, Measured, Model, Picker, Rank


def evaluate(
    model: Model | Predictor,
    explanation: Explanation,
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
    metrics : names or metrics
        For example ``["cpd", METRICS["cpd"](k=100, name="cpd100")]``.
    baseline : {"zero", "average", "background"}, Tensor that broadcasts to the series, or mapping, optional
        What takes the place of a removed cell, by default the baseline that the explanation compares with; the
        average is each channel's, over its observed steps, and the background are values of other series at the
        same place.
    k : int or float
        How many cells are removed: a count, or a share of the observed cells of each series. A series with
        fewer observed cells loses all it has. A metric with a ``k`` of its own uses that.
    truth : Tensor or array like the series, optional
        1 where a cell is truly salient, for the metrics of localisation; by default what the series told.
    batch_size : int, optional
        Sequences per pass of the model; found automatically by default.
    of : {"score", "output"}, optional
        What ``cpd`` and ``cpp`` sum the changes of: the explained score alone, or all outputs of the model as in
        the paper. By default all outputs for a classification and for one output per step, where they say
        something of each other; the score for a regression, a forecast, several labels, and where a function
        picked it. The other metrics follow the score in any case.
    target : callable, optional
        The function that picked the score, for an explanation from a file, which could not keep it.
    background : Tensor or array of shape (batch, time, channel), or inputs like the series, optional
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
    chosen, bare = _metrics(metrics), as_explained(model, require(explanation))
    evaluation = Evaluation(bare, explanation, baseline, k, truth, batch_size, of, target, background, draws)
    if any(metric.runs_model for metric in chosen):
        warn_of_another_model(bare, {explanation.method: explanation})
    scores = _scores(chosen, evaluation)
    if evaluation.varies == "drawn":
        warn("The model is stochastic, so these scores contain noise: evaluate a function that averages over it.")
    elif evaluation.varies:
        warn("model.alone" if batch_size is None else "model.mixes")
    if of is None and evaluation.measured == "output":
        _warn_of_other_outputs(explanation, chosen, evaluation.clean)
    return scores


def _warn_of_other_outputs(explanation: Explanation, metrics: Sequence[Metric], clean: Tensor | None) -> None:
    """Warn of metrics that count more outputs than the explained one, where nobody said that they shall."""
    names = [metric.name for metric in metrics if isinstance(metric, CumulativePredictionDifference)]
    if clean is None or not names:
        return
    outputs, lost = clean.shape[-1], explanation.target is None
    if not lost and (explanation.output != "raw" or outputs == 1 or is_probability(clean)):
        return
    instead = f"{arg:question.target} with the function that picks it" if lost else f"{arg:call.of=score}"
    start = f"Scores of {' and '.join(names)} count all {outputs} outputs, not the explained score alone"
    warn(f"{start}: pass {instead}, or {arg:call.of=output} if that is what you want.")


def measure(
    model: Model | Predictor, explanation: Explanation, chosen: Sequence[Metric], *rest: Any, **more: Any
) -> dict[str, Tensor]:
    """Score an explanation by metrics whose names differ, without a warning.

    Baseline, ``k``, truth and what else there is follow as an :class:`Evaluation` has them.
    """
    return _scores(chosen, Evaluation(model, explanation, *rest, **more))


def _scores(chosen: Sequence[Metric], evaluation: Evaluation) -> dict[str, Tensor]:
    """Return the scores of each metric by its name; those of one kind are measured together."""
    kinds: dict[Any, list[Metric]] = {}
    for metric in chosen:
        kinds.setdefault(getattr(metric.measure, "__func__", None), []).append(metric)
    scores: dict[str, Tensor] = {}
    for metrics in kinds.values():
        scores |= metrics[0].measure(metrics, evaluation)
    return {metric.name: scores[metric.name] for metric in chosen}


def _metrics(metrics: Any) -> list[Metric]:
    several = isinstance(metrics, Iterable) and not isinstance(metrics, str)
    chosen = [as_metric(metric) for metric in (metrics if several else [metrics])]
    names = [metric.name for metric in chosen]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise InputError(f"Two metrics are called {brief(repeated[0])}: give one of them another name with name=.")
    return chosen


def as_metric(metric: Any) -> Metric:
    """Return a metric, which may be given by its name."""
    found = METRICS[metric]() if isinstance(metric, str) else metric
    if not isinstance(found, Metric):
        raise InputError(f"A metric is a name, such as 'cpd', or an object of {KINDS}; got {brief(metric)}.")
    return found


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
    model, explanation, k, baseline, batch_size, of, target, background, draws
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
    bare = as_explained(model, require(explanation))
    validation.check_choice(rank, "rank", RANKS, SettingError)
    warn_of_another_model(bare, {explanation.method: explanation})
    evaluation = Evaluation(bare, explanation, baseline, k, None, batch_size, of, target, background, draws)
    ask = evaluation.ask()
    limit = n_removed(k, ask.observed_cells, ask.cells)
    removed = torch.arange(int(limit.max()) + 1)

    def read(outputs: list[RemovalOutputs]) -> list[Tensor | None]:
        (output,) = outputs
        score = output.over_steps(output.score) if ask.scored else None
        told = (score, output.delta, output.predictions if output.steps is None else None)
        return [None if part is None else part.float().to(explanation.values.device) for part in told]

    schedule, measured = RemovalSchedule(rank, descending, limit, removed), what_is_measured(ask, evaluation.of)
    found, _ = remove_cells(ask, [schedule], read, "remove cells", of=measured, draws=evaluation.removals)
    return RemovalCurve(removed, limit, *found)  # type: ignore[arg-type]  # of which delta is never None
