"""What a call was given, brought into the form that methods ask in: nouns, one input, targets, assumptions."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from tempograd.core.errors import Finding, InputError, are_counted, arg, listed, note, quote, warn
from tempograd.core.question import Question
from tempograd.core.series import Series
from tempograd.core.validation import unexpanded
from tempograd.data import read_series
from tempograd.data.readers.frame import is_frame
from tempograd.engine import Ask, Call
from tempograd.engine.inputs import argument_names, labels_of, pack_inputs
from tempograd.engine.model import owner
from tempograd.engine.outputs import class_count, found_task, named_target, one_logit
from tempograd.engine.predictor import Predictor
from tempograd.explanation import Explanation, Explanations
from tempograd.explanation.diagnostics import wrong_gradient
from tempograd.explanation.targets import key_of
from tempograd.targets import TargetScore
from tempograd.typing import Model

# Models whose outputs were read as scores of three classes or more
_warned: "WeakValueDictionary[int, object]" = WeakValueDictionary()


def nouns(model: Any, x: Any) -> tuple[Predictor, Series]:
    """Return the model as a predictor, and what else than series was given as series."""
    if isinstance(x, list):
        _refuse_other_columns(x)
    elif not isinstance(x, Tensor | Series) and is_frame(x):
        x = _from_frame(x)
    return Predictor.of(model), Series.of(x)


def _from_frame(frame: Any) -> Series:
    """Read a table of series, and say which columns were taken for what."""
    if not all(isinstance(name, str) for name in frame.columns):
        raise InputError(
            "x is a data frame whose columns have no names that tell what they are: pass an array (batch, time, "
            "channel), or name the columns with the series, the time and the channels."
        )
    series = read_series(frame, labels=False)
    channels = listed(map(quote, series.channels or ()), 60) or "of its columns"
    warn("series.frame", count=len(series), steps=series.shape[1], channels=channels)
    return series


def _refuse_other_columns(parts: list[Any]) -> None:
    """Refuse data frames whose columns are not in the same order, which arrays would not tell."""
    named = {place: list(map(str, part.columns)) for place, part in enumerate(parts) if is_frame(part)}
    first = next(iter(named.values()), [])
    for place, columns in named.items():
        if columns != first:
            raise InputError(f"x[{place}] has the columns {listed(columns, 60)}, others have {listed(first, 60)}.")


def as_one_input(
    predictor: Predictor, series: Series, baseline: Any
) -> tuple[Call, Tensor, Any, Tensor | None, Tensor | None, dict[str, Any]]:
    """Pad series of unequal length, and lay several inputs out as one.

    Return how the model is called with it, the series, baseline, mask and raw values, and the labels.
    """
    lengths = packing = None
    if isinstance(series.x, list):
        if series.fixed is not None:
            raise InputError(
                f"Series of unequal length cannot be combined with {arg:series.fixed}: pass "
                f"{arg:series.lengths=padded}, and what the model needs to know of their "
                f"lengths as {arg:series.fixed}."
            )
        lengths = tuple(map(len, series.x))
        told = {"count": len(set(lengths)), "least": min(lengths), "most": max(lengths)}
        warn(Finding("series.lengths", "assumption", told))
        series = series.padded()
    x, mask, raw = series.x, series.mask, series.raw
    labels = {"channels": series.channels, "times": series.times, "units": series.units}
    if not isinstance(x, Tensor):
        names = argument_names(predictor.model, len(x)) if isinstance(x, tuple) else ()
        packing, x, baseline, mask, raw = pack_inputs(
            x, baseline=baseline, mask=mask, raw=raw, names=names, empty=series.fill
        )
        labels = labels_of(packing, len(x), **labels)
    call = Call(packing, series.fixed, predictor.pick, predictor.layout, lengths)
    if series.fill is None:
        call, x = call.reading(x)
    return call, x, baseline, mask, raw, labels


def told_of_outputs(
    model: Model, predictor: Predictor, series: Series, question: Question
) -> tuple[Any, str | None, Sequence[str] | None]:
    """Return what question, predictor, estimator, model or targets say of the outputs: output, task, classes."""
    output, task, classes = predictor.told(model, question.output)
    targets = (question.target,) if question.targets in (None, "all") else question.targets or ()
    scores = [target for target in targets if isinstance(target, TargetScore) and output is None]
    tasks = {task} if task is not None else {score.task for score in scores} - {None}
    if len(tasks) > 1:
        names = " and ".join(sorted(map(str, tasks)))
        raise InputError(f"These targets are of several tasks, {names}: explain them one by one.")
    unsaid = not tasks and output is None and question.steps is None
    if unsaid and isinstance(series.y, Tensor) and series.y.is_floating_point():
        raise InputError(
            "The labels are real numbers, so the outputs are hardly classes: pass "
            f"{arg:predictor.task=regression} or {arg:predictor.task=forecast}, or "
            f"{arg:predictor.task=classification} if they are.",
            code="model.task",
        )
    return output, next(iter(tasks), None), classes


def asks_of(ask: Ask, targets: Any) -> list[Ask]:
    """Return an ask for each target; one series is read to see how many there are where all are asked for."""
    if isinstance(targets, str):
        return [ask.replace(target=target) for target in _every_output(ask)]
    keys = [key_of(target, place) for place, target in enumerate(targets)]
    twice = next((key for place, key in enumerate(keys) if key in keys[:place]), None)
    if twice is not None:
        raise InputError(f"{arg:question.targets} holds {quote(twice)} twice: name each target once.")
    return [ask.replace(target=named_target(target, ask.classes)) for target in targets]


def _every_output(ask: Ask) -> list[Any]:
    """Return all outputs: by their numbers or, of an output with several axes, by their addresses."""
    first = ask.block(slice(0, 1))
    with torch.no_grad():
        raw = ask.forward(first.x, first.index)
    flat = raw.ndim == 2 or found_task(ask.task, ask.question, tuple(raw.shape[1:]), ask.time) == "per_step"
    resolved = ask.replace(target=0 if flat else (0,) * (raw.ndim - 1)).resolve(raw)
    if resolved.shape:
        return list(np.ndindex(resolved.shape))
    return list(range(class_count(resolved.columns, resolved.output)))


def together(explanations: Sequence[Explanation], targets: Any) -> Explanation:
    """Return the explanation, or those of several ``targets``; warn of gradients that are wrong.

    Where warnings are counted, as in runs over files, the verdict on all batches tells.
    """
    problem = next(filter(None, map(wrong_gradient, explanations)), "")
    if problem and not are_counted():
        finding = Finding("gradient.wrong", "warning", {"problem": f"{problem[:1].upper()}{problem[1:]}"})
        explanations = [replace(part, findings=(*part.findings, finding)) for part in explanations]
        warn(finding)
    if targets is None:
        return explanations[0]
    asked = [part.question.target for part in explanations] if isinstance(targets, str) else targets
    keys = (key_of(target, place) for place, target in enumerate(asked))
    return cast("Explanation", Explanations(dict(zip(keys, explanations, strict=True))))


def note_assumptions(
    predictor: Predictor, series: Series, question: Question, ask: Ask, *, targeted: bool, uses_baseline: bool
) -> None:
    """List what was assumed for an explanation."""
    columns, task = ask.resolved.columns, ask.resolved.task
    asked = question.target is not None or question.targets is not None
    unsaid = ask.task is None and ask.question.output is None
    if (task == "classification" and unsaid) or (task is None and not asked):  # the highest of several raw outputs
        finding = Finding("task.classes", "assumption", {"columns": columns})
        certain = ask.classes is not None or series.y is not None  # which is no real number
        model: object = owner(predictor.model) or predictor.model
        if columns > 2 and not certain and _warned.get(id(model)) is not model:
            warn(finding)
            with suppress(TypeError):  # what takes no weak reference is warned of again
                _warned[id(model)] = model
        note(finding)
    if ask.resolved.averaged:
        warn(_mean_of(ask.resolved.averaged))
    elif not asked and targeted and one_logit(columns, ask.resolved.output):
        note(Finding("target.one", "assumption"))
    elif not asked and targeted and columns > 1:
        note(Finding("target.label" if task == "multilabel" else "target.predicted", "assumption"))
    learnt = ask.background is not None or bool(unexpanded(ask.baseline).any())  # in the place of zeros
    if uses_baseline and not ask.named_baseline and not learnt:
        note(Finding("baseline.zero", "assumption"))


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
