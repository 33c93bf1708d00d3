"""What a call assumes where nothing was said: listed, and warned of where it is often wrong."""

import math
from typing import TYPE_CHECKING
from weakref import WeakSet

from torch import Tensor

from tempograd.core.errors import InputError, note, warn
from tempograd.core.findings import Finding, arg
from tempograd.core.series import Series
from tempograd.engine import Ask, one_logit
from tempograd.engine.model import owner
from tempograd.engine.predictor import Predictor

if TYPE_CHECKING:
    from tempograd.explainers.base import Explainer

_warned: "WeakSet[object]" = WeakSet()  # models whose outputs were read as scores of three classes or more


def check_labels(series: Series, task: str | None, output: str | None, steps: object) -> None:
    """Refuse labels that are real numbers where neither task nor output says what the model returns."""
    real = isinstance(series.y, Tensor) and series.y.is_floating_point()
    if real and task is None and output is None and steps is None:
        raise InputError(
            "The labels are real numbers, so the outputs are hardly classes: pass "
            f"{arg:predictor.task=regression} or {arg:predictor.task=forecast}, or "
            f"{arg:predictor.task=classification} if they are.",
            code="model.task",
        )


def note_assumptions(
    explainer: "Explainer", predictor: Predictor, series: Series, ask: Ask, *, asked: bool
) -> None:
    """List what was assumed for an explanation; ``asked`` tells whether the caller chose a target."""
    columns = ask.resolved.columns
    unsaid = ask.task is None and ask.question.output is None
    read_as_classes = ask.resolved.task == "classification" and unsaid
    guessed_highest = ask.resolved.task is None and not asked  # of several raw outputs
    if read_as_classes or guessed_highest:
        finding = Finding("task.classes", "assumption", {"columns": columns})
        certain = ask.classes is not None or series.y is not None  # which is no real number
        if columns > 2 and not certain and not _was_warned(predictor):
            warn(finding)
        note(finding)
    if ask.resolved.averaged:
        warn(_mean_of(ask.resolved.averaged))
    elif not asked and explainer.targeted and one_logit(columns, ask.resolved.output):
        note(Finding("target.one", "assumption"))
    elif not asked and explainer.targeted and columns > 1:
        note(Finding("target.predicted", "assumption"))
    drawn = ask.background is not None or (explainer.draws_baselines and explainer.learnt is not None)
    if explainer.uses_baseline and not ask.named_baseline and not drawn:
        note(Finding("baseline.zero", "assumption"))


def _was_warned(predictor: Predictor) -> bool:
    """Tell whether a model was warned of, and remember it; what takes no weak reference never was."""
    model: object = owner(predictor.model) or predictor.model
    try:
        known = model in _warned
        _warned.add(model)
    except TypeError:
        return False
    return known


def _mean_of(shape: tuple[int, ...]) -> Finding:
    """Say that the mean of outputs of this shape was explained, with the address of one as an example.

    Examples
    --------
    >>> print(_mean_of((24, 7)).say()[:62])
    No target was given, so the mean of the forecast's 168 outputs
    """
    example = tuple(min(size - 1, 3 - place) if place < 3 else 0 for place, size in enumerate(shape))
    one = str(example[0]) if len(example) == 1 else str(example)
    return Finding("target.mean", "assumption", {"outputs": math.prod(shape), "shape": str(shape), "example": one})
