"""Several targets in one call: which they are, and what comes back."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tempograd.core.checks import run_checks
from tempograd.core.errors import InputError, are_counted, brief, warn
from tempograd.core.findings import Finding, arg
from tempograd.engine import Ask, class_count, with_targets
from tempograd.engine.tasks import named_target
from tempograd.explainers.checks import TARGETS
from tempograd.explanation import Explanation, Explanations
from tempograd.explanation.messages import wrong_gradient
from tempograd.explanation.targets import key_of


def check_targets(target: Any, targets: Any) -> list[Any] | None:
    """Return the targets of a call, empty for all outputs; None if it is about one target.

    Examples
    --------
    >>> check_targets(None, [0, 5]), check_targets(None, "all"), check_targets(3, None)
    ([0, 5], [], None)
    """
    run_checks(TARGETS, {"target": target, "targets": targets})
    if targets is None:
        return None
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
    wrong = next(filter(None, map(wrong_gradient, explanations)), "")
    if wrong and not are_counted():
        finding = Finding("gradient.wrong", "warning", {"problem": f"{wrong[:1].upper()}{wrong[1:]}"})
        explanations = [replace(each, findings=(*each.findings, finding)) for each in explanations]
        warn(finding)
    if wanted is None:
        return explanations[0]
    asked = wanted or [each.question.target for each in explanations]
    return Explanations({key_of(asked[place], place): each for place, each in enumerate(explanations)})
