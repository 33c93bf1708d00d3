"""Several targets in one call: which they are, and what comes back."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tempograd.core.errors import InputError, are_counted, brief, warn
from tempograd.engine import Request, class_count, with_targets
from tempograd.engine.tasks import named_target
from tempograd.explanation import Explanation, Explanations
from tempograd.explanation.messages import wrong_gradient
from tempograd.explanation.targets import key_of

ALL = "all"


def check_targets(target: Any, targets: Any) -> list[Any] | None:
    """Return the targets of a call, empty for all outputs; None if it is about one target.

    Examples
    --------
    >>> check_targets(None, [0, 5]), check_targets(None, "all"), check_targets(3, None)
    ([0, 5], [], None)
    """
    if targets is None:
        return None
    if target is not None:
        raise InputError("target= and targets= exclude each other: put all targets into targets=.")
    if isinstance(targets, str) and targets == ALL:
        return []
    if isinstance(targets, str) or not isinstance(targets, Sequence):
        raise InputError(f"targets must be 'all' or a list of targets, such as [0, 5], got {brief(targets)}.")
    if not targets:
        raise InputError("targets= is empty: list the targets, or pass 'all'.")
    if any(each is None for each in targets):
        raise InputError("targets= holds None: leave targets= out to explain the predicted class.")
    return list(targets)


def _refuse_twice(targets: Sequence[Any]) -> None:
    for place, each in enumerate(targets):
        if any(_same(each, other) for other in targets[:place]):
            raise InputError(f"targets= holds {brief(each)} twice: name each target once.")


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


def requests_of(request: Request, wanted: Sequence[Any], classes: Sequence[str] | None) -> list[Request]:
    """Return a request for each target; one series is read to see how many there are, or that all differ."""
    wanted = [named_target(each, classes) for each in wanted]
    _refuse_twice(wanted)
    if not wanted:
        wanted = _every_output(request)
    elif not all(type(each) is int or callable(each) for each in wanted):
        _refuse_same([request.of_target(each) for each in wanted])
    return [request.of_target(each) for each in wanted]


def _every_output(request: Request) -> list[Any]:
    """Return all outputs: by their numbers or, of an output with several axes, by their addresses."""
    first = request.block(slice(0, 1))
    with torch.no_grad():
        raw = request.forward(first.x, first.index)
    known = request.replace(requested_target=lambda output: output.flatten(1)[:, 0], requested_steps=None)
    known.read(first, raw)  # tells whether there is one output per step
    probe = request.of_target(0 if raw.ndim == 2 or known.per_step else (0,) * (raw.ndim - 1))
    probe.read(first, raw)
    if probe.output_shape:
        return list(np.ndindex(probe.output_shape))
    return list(range(class_count(probe.columns or 1, probe.output)))


def _refuse_same(probes: Sequence[Request]) -> None:
    """Refuse targets that are written differently and are the same output."""
    with_targets(probes, probes[0].block(slice(0, 1)))
    for place, probe in enumerate(probes):
        twin = next((other for other in probes[:place] if _same_target(probe, other)), None)
        if twin is not None:
            both = f"{brief(twin.requested_target)} and {brief(probe.requested_target)}"
            raise InputError(f"targets= holds the same target twice, {both}: name each target once.")


def _same_target(one: Request, other: Request) -> bool:
    parts = one.target, other.target
    return all(isinstance(part, Tensor) for part in parts) and torch.equal(*parts)  # type: ignore[arg-type]  # tensors


def together(explanations: Sequence[Explanation], wanted: Sequence[Any] | None) -> Any:
    """Return the explanation, or those of the targets that were ``wanted``; warn of gradients that are wrong.

    Where warnings are counted, as in runs over files, the verdict on all batches tells.
    """
    wrong = next(filter(None, map(wrong_gradient, explanations)), "")
    if wrong and not are_counted():
        warn(f"{wrong[:1].upper()}{wrong[1:]}.")
    if wanted is None:
        return explanations[0]
    asked = wanted or [each.question.target for each in explanations]
    return Explanations({key_of(asked[place], place): each for place, each in enumerate(explanations)})


def shares_passes(explainer: type) -> bool:
    """Tell whether a class explains several targets together in the way in which it explains one.

    One that overrides ``attribute`` alone, below one that has both, must explain several by its own ``attribute``.
    """
    one, several = (
        next(place for place, kind in enumerate(explainer.__mro__) if name in vars(kind))
        for name in ("attribute", "attribute_all")
    )
    return several <= one
