"""What a call was given, brought into the form that methods ask in: nouns, one input, other series, targets."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor

from tempograd.core.checks import run_checks
from tempograd.core.errors import InputError, are_counted, brief, listed, note, quote, warn
from tempograd.core.findings import Finding, arg
from tempograd.core.rng import Stream
from tempograd.core.series import Series
from tempograd.core.validation import unexpanded
from tempograd.data import read_series
from tempograd.data.readers.frame import is_frame
from tempograd.engine import Ask, Call, one_logit
from tempograd.engine.ask import with_targets
from tempograd.engine.background import Background, in_time_order, is_background
from tempograd.engine.inputs import (
    argument_names,
    channel_labels,
    is_several,
    pack_inputs,
    time_labels,
    unit_labels,
)
from tempograd.engine.model import owner
from tempograd.engine.outputs import class_count, named_target
from tempograd.engine.predictor import Predictor
from tempograd.explainers.checks import BACKGROUND, TARGETS
from tempograd.explanation import Explanation, Explanations
from tempograd.explanation.messages import wrong_gradient
from tempograd.explanation.targets import key_of
from tempograd.typing import InputBaselines, Inputs, Times

if TYPE_CHECKING:
    from tempograd.explainers.base import Explainer

# The two nouns, and the series as one input


def nouns(model: Any, x: Any) -> tuple[Predictor, Series]:
    """Return the model as a predictor, and what else than series was given as series."""
    if not isinstance(x, (Tensor, Series)) and is_frame(x):
        return Predictor.of(model), _from_frame(x)
    if isinstance(x, list):
        _refuse_other_columns(x)
    return Predictor.of(model), Series.of(x)


class OneInput(NamedTuple):
    """The series of a call as one input, and how the model is called with it."""

    call: Call
    x: Tensor
    baseline: Any
    mask: Tensor | None
    raw: Tensor | None
    channels: tuple[str, ...] | None
    times: Times | None
    units: tuple[str, ...] | None

    @property
    def labels(self) -> dict[str, Any]:
        """Return what people call channels and steps, and the units."""
        return {"channels": self.channels, "times": self.times, "units": self.units}


def as_one_input(predictor: Predictor, series: Series, baseline: Any) -> OneInput:
    """Pad series of unequal length, and lay several inputs out as one."""
    lengths = tuple(map(len, series.x)) if isinstance(series.x, list) else None
    if lengths is not None:
        series = _padded(series, lengths)
    call = Call(pick=predictor.pick, model_layout=predictor.layout, lengths=lengths)
    if isinstance(series.x, Tensor):
        labels, x = (series.channels, series.times, series.units), series.x
        if series.fill is None:
            call, x = call.reading(x)
        return OneInput(replace(call, fixed=series.fixed), x, baseline, series.mask, series.raw, *labels)
    names = argument_names(predictor.model, len(series.x)) if isinstance(series.x, tuple) else ()
    packed = pack_inputs(
        series.x, baseline=baseline, mask=series.mask, raw=series.raw, names=names, empty=series.fill
    )
    packing = packed.packing
    call = replace(call, packing=packing, fixed=series.fixed)
    call, x = call.reading(packed.x) if series.fill is None else (call, packed.x)
    channels, units = channel_labels(series.channels, packing), unit_labels(series.units, packing)
    times = time_labels(series.times, packing, len(x))
    return OneInput(call, x, packed.baseline, packed.mask, packed.raw, channels, times, units)


def _padded(series: Series, lengths: tuple[int, ...]) -> Series:
    """Pad series, and say so; what goes beside them has one length."""
    if series.fixed is not None:
        raise InputError(
            f"Series of unequal length cannot be combined with {arg:series.fixed}: pass "
            f"{arg:series.lengths=padded}, and what the model needs to know of their lengths as "
            f"{arg:series.fixed}."
        )
    warn(
        Finding(
            "series.lengths",
            "assumption",
            {"count": len(set(lengths)), "least": min(lengths), "most": max(lengths)},
        )
    )
    return series.padded()


# Data frames


def _from_frame(frame: Any) -> Series:
    """Read a table of series, and say which columns were taken for what."""
    if not all(isinstance(name, str) for name in (*frame.columns, *_index_names(frame))):
        raise InputError(
            "x is a data frame whose columns have no names that tell what they are: pass an array (batch, time, "
            "channel), or name the columns with the series, the time and the channels."
        )
    series = read_series(frame, labels=False)
    channels = series.channels or ()
    told = ", ".join(map(quote, channels[:4])) + ("" if len(channels) <= 4 else ", …")
    warn("series.frame", count=len(series), steps=series.shape[1], channels=told or "of its columns")
    return series


def _index_names(frame: Any) -> list[Any]:
    names = getattr(getattr(frame, "index", None), "names", ())
    return [name for name in names if name is not None]


def _refuse_other_columns(parts: list[Any]) -> None:
    """Refuse data frames whose columns are not in the same order, which arrays would not tell."""
    named = {place: list(map(str, part.columns)) for place, part in enumerate(parts) if is_frame(part)}
    first = next(iter(named.values()), [])
    for place, columns in named.items():
        if columns != first:
            raise InputError(f"x[{place}] has the columns {listed(columns, 60)}, others have {listed(first, 60)}.")


# Other series as the baseline


def drawn_from(
    explainer: "Explainer",
    x: Series,
    baseline: InputBaselines | None,
    background: Inputs | Series | None,
) -> tuple[Inputs | None, InputBaselines | None]:
    """Check the series that baselines are drawn from; return them, and the baseline on average."""
    if background is not None or is_background(baseline):
        facts = {"method": explainer.name, "facts": explainer, "baseline": baseline, "background": background}
        run_checks(BACKGROUND, facts)
    if background is None:
        return None, baseline
    pool = in_time_order(Series.of(background).filled)
    require_like(pool, x)
    return pool, mean_of(pool)


def require_like(pool: Inputs, x: Series) -> None:
    """Refuse a pool of other inputs or of another shape than the series."""
    if is_several(pool) != is_several(x.x):
        one, other = ("several inputs", "one") if is_several(pool) else ("one input", "several")
        raise InputError(f"The background series are of {one}, x is of {other}: pass series like x.")
    if isinstance(pool, Mapping) and isinstance(x.x, Mapping) and set(pool) != set(x.x):
        raise InputError(f"The background series must be of the same inputs as x: {', '.join(map(str, x.x))}.")
    if isinstance(pool, Tensor) and tuple(pool.shape[1:]) != x.shape[1:]:
        raise InputError(
            f"The background series have shape {tuple(pool.shape[1:])}, x has {x.shape[1:]}: pass series of the "
            f"same length and channels as {arg:question.background}."
        )


def mean_of(pool: Inputs) -> InputBaselines:
    """Return the mean of a pool at each cell."""
    if isinstance(pool, Mapping):
        return {name: _mean(each) for name, each in pool.items()}
    if isinstance(pool, tuple):
        return cast("InputBaselines", tuple(map(_mean, pool)))
    return _mean(pool)


def _mean(pool: Any) -> Tensor:
    mean: Tensor = pool.mean(0, keepdim=True, dtype=torch.float64)
    if not bool(mean.isfinite().all()):
        raise InputError(
            "background must not hold NaN or infinity: put a number there, or leave those series out."
        )
    return mean


def laid_ready(ask: Ask, pool: Inputs) -> Background:
    """Lay a pool ready for the series of an ask."""
    where = ask.device, ask.dtype
    return Background.of(pool, ask.x, ask.call, ask.seed, where, Stream.BACKGROUND)


# Several targets


def check_targets(target: Any, targets: Any) -> list[Any] | None:
    """Return the targets of a call, empty for all outputs; None if it is about one target.

    Examples
    --------
    >>> check_targets(None, [0, 5]), check_targets(None, "all"), check_targets(3, None)
    ([0, 5], [], None)
    """
    if targets is None:
        return None
    run_checks(TARGETS, {"target": target, "targets": targets})
    return [] if isinstance(targets, str) else list(targets)


def _refuse_twice(targets: Sequence[Any]) -> None:
    for place, each in enumerate(targets):
        if any(_same(each, other) for other in targets[:place]):
            raise InputError(f"{arg:question.targets} holds {brief(each)} twice: name each target once.")


def _same(one: Any, other: Any) -> bool:
    """Tell whether two targets are written alike."""
    if isinstance(one, Tensor | np.ndarray) or isinstance(other, Tensor | np.ndarray):
        return np.array_equal(np.asarray(one), np.asarray(other)) if type(one) is type(other) else False
    return bool(one == other)


def common_task(target: Any, wanted: Sequence[Any] | None, told: Callable[[Any], str | None]) -> str | None:
    """Return the task that is told, of several targets the one that they agree upon."""
    if not wanted:
        return told(target)
    tasks = sorted({task for task in map(told, wanted) if task is not None})
    if len(tasks) > 1:
        raise InputError(f"These targets are of several tasks, {' and '.join(tasks)}: explain them one by one.")
    return tasks[0] if tasks else None


def asks_of(ask: Ask, wanted: Sequence[Any], classes: Sequence[str] | None) -> list[Ask]:
    """Return an ask for each target; one series is read to see how many there are, or that all differ."""
    wanted = [named_target(each, classes) for each in wanted]
    _refuse_twice(wanted)
    if not wanted:
        wanted = _every_output(ask)
    elif not all(type(each) is int or callable(each) for each in wanted):
        _refuse_same([ask.replace(target=each) for each in wanted])
    return [ask.replace(target=each) for each in wanted]


def _every_output(ask: Ask) -> list[Any]:
    """Return all outputs: by their numbers or, of an output with several axes, by their addresses."""
    first = ask.block(slice(0, 1))
    with torch.no_grad():
        raw = ask.forward(first.x, first.index)
    flat = raw.ndim == 2 or ask.task_of(tuple(raw.shape[1:])) == "per_step"
    probe = ask.replace(target=0 if flat else (0,) * (raw.ndim - 1))
    probe.read(first, raw)
    found = probe.resolved
    return list(np.ndindex(found.shape)) if found.shape else list(range(class_count(found.columns, found.output)))


def _refuse_same(probes: Sequence[Ask]) -> None:
    """Refuse targets that are written differently and are the same output."""
    with_targets(probes, probes[0].block(slice(0, 1)))
    for place, probe in enumerate(probes):
        twin = next((other for other in probes[:place] if _same_target(probe, other)), None)
        if twin is not None:
            both = f"{brief(twin.question.target)} and {brief(probe.question.target)}"
            raise InputError(f"{arg:question.targets} holds the same target twice, {both}: name each target once.")


def _same_target(one: Ask, other: Ask) -> bool:
    parts = one.resolved.target, other.resolved.target
    return all(isinstance(part, Tensor) for part in parts) and torch.equal(*parts)  # type: ignore[arg-type]  # tensors


def together(explanations: Sequence[Explanation], wanted: Sequence[Any] | None) -> Any:
    """Return the explanation, or those of the targets that were ``wanted``; warn of gradients that are wrong.

    Where warnings are counted, as in runs over files, the verdict on all batches tells.
    """
    wrong = next(
        filter(None, (wrong_gradient(each) for each in explanations if each.gradient_check is not None)), ""
    )
    if wrong and not are_counted():
        finding = Finding("gradient.wrong", "warning", {"problem": f"{wrong[:1].upper()}{wrong[1:]}"})
        explanations = [replace(each, findings=(*each.findings, finding)) for each in explanations]
        warn(finding)
    if wanted is None:
        return explanations[0]
    asked = wanted or [each.question.target for each in explanations]
    return Explanations({key_of(asked[place], place): each for place, each in enumerate(explanations)})


# What is assumed where nothing was said

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
        labels = ask.resolved.task == "multilabel"
        note(Finding("target.label" if labels else "target.predicted", "assumption"))
    learnt = ask.background is not None or bool(unexpanded(ask.baseline).any())  # in the place of zeros
    if explainer.uses_baseline and not ask.named_baseline and not learnt:
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
