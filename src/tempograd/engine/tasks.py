"""What a model's outputs are: one table of tasks, and what of it a caller, a model or a target says."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tempograd.core import validation
from tempograd.core.checks import Check
from tempograd.core.errors import InputError, ModelError, UnknownNameError, brief
from tempograd.core.findings import arg
from tempograd.engine.model import Model, owner
from tempograd.targets import TargetScore

DECLARED = "tempograd_task"  # the attribute by which a model says its task


@dataclass(frozen=True)
class Outputs:
    """What the outputs of a task are.

    Attributes
    ----------
    words : str
        What a reader is told that the outputs are.
    shape : str
        What the model returns.
    fits : callable
        Whether one series' output of this shape, for series of so many steps, can be that.
    link : {"probability", "sigmoid", "raw"}
        What is applied to them.
    columns : callable
        How many of them there are to choose from, given the shape of one series' output.
    target : {"predicted", "one", "mean", "none"}
        What is explained by default: the predicted class, class 1, the mean, or, of several outputs, nothing.
    """

    words: str
    shape: str
    fits: Callable[[tuple[int, ...], int], bool]
    link: Literal["probability", "sigmoid", "raw"]
    columns: Callable[[tuple[int, ...]], int]
    target: Literal["predicted", "one", "mean", "none"]


def _last(shape: tuple[int, ...]) -> int:
    return shape[-1]


TASKS = {
    "classification": Outputs(
        "scores of classes",
        "(batch, classes)",
        lambda shape, _: len(shape) == 1,
        "probability",
        _last,
        "predicted",
    ),
    "binary": Outputs(
        "the logit of class 1", "(batch, 1)", lambda shape, _: shape == (1,), "probability", _last, "one"
    ),
    "multilabel": Outputs("one logit per label", "(batch, …)", lambda *_: True, "sigmoid", math.prod, "predicted"),
    "regression": Outputs("numbers as they are", "(batch, …)", lambda *_: True, "raw", math.prod, "none"),
    "forecast": Outputs("numbers as they are", "(batch, …)", lambda *_: True, "raw", math.prod, "mean"),
    "per_step": Outputs(
        "scores of classes at each step",
        "(batch, time, classes)",
        lambda shape, time: len(shape) < 3 and shape[0] == time,
        "probability",
        _last,
        "predicted",
    ),
}
AS_THEY_ARE = tuple(name for name, row in TASKS.items() if row.link == "raw")


def told_task(task: Any, model: Model, target: Any, output: str | None) -> str | None:
    """Return the task that the call, the model or a target for one task says, in this order.

    A target does not say more than the ``output`` that somebody chose.
    """
    if task is not None:
        validation.check_choice(task, "task", tuple(TASKS))
        return str(task)
    declared = getattr(model, DECLARED, None) or getattr(owner(model), DECLARED, None)
    if declared is not None:
        validation.check_choice(declared, f"{DECLARED} of the model", tuple(TASKS))
        return str(declared)
    return target.task if isinstance(target, TargetScore) and output is None else None


def link_for(output: str | None, task: str | None) -> str:
    """Return what is applied to the model's raw outputs: "probability", "sigmoid" or "raw".

    Examples
    --------
    >>> link_for(None, "forecast"), link_for("probability", "multilabel"), link_for("raw", None)
    ('raw', 'sigmoid', 'raw')
    """
    link = "probability" if task is None else TASKS[task].link
    if output == "probability" and link == "raw":
        raise InputError(
            f"{arg:question.output=probability} contradicts the task {task!r}, whose outputs are explained as "
            f"they are: leave {arg:question.output} out, or pass {arg:predictor.task=classification} or "
            f"{arg:predictor.task=multilabel} if they are logits."
        )
    return "raw" if output == "raw" else link


STEPS = (
    Check(
        "steps.function",
        ("target", "steps"),
        lambda target, steps: steps is None or not callable(target),
        "{arg:question.steps} cannot be combined with a function as target",
        "pick the steps in the function",
        {"target": sum, "steps": 3},
    ),
)


def check_steps(steps: Any, task: str | None) -> None:
    """Refuse steps of a model that has none."""
    if steps is not None and task not in {None, "per_step"}:
        raise InputError(
            f"{arg:question.steps} is for models with one output per time step, {arg:predictor.task=per_step}, "
            f"and the task is {task!r}: pass {arg:question.target} to choose an output."
        )


def named_target(target: Any, classes: Sequence[str] | None) -> Any:
    """Return the number of the output that a name means; any other target as it is."""
    if isinstance(target, TargetScore):
        return target.named(classes)
    if not isinstance(target, str):
        return target
    if classes is None:
        raise InputError(
            f"The target {brief(target)} is a name, and the outputs have none: pass {arg:predictor.classes} with "
            "their names, or the number of one."
        )
    names = list(classes)
    if names.count(target) > 1:
        raise InputError(f"The target {brief(target)} is the name of several outputs: pass the number of one.")
    if target not in names:
        raise UnknownNameError("output", target, names)
    return names.index(target)


def found_task(
    task: str | None, shape: tuple[int, ...], time: int, output: str | None, *, picked: bool, steps: bool
) -> str | None:
    """Return the task of a model whose output for one series has this shape, where the shape leaves no doubt.

    ``task`` and ``output`` are what was said, ``picked`` that a function picks the score, which it may from any
    shape, ``steps`` that some were chosen. None for several raw outputs, which may be classes or not.

    Examples
    --------
    >>> found_task(None, (3,), 48, None, picked=False, steps=False)
    'classification'
    >>> found_task(None, (48, 3), 48, None, picked=False, steps=True)
    'per_step'
    """
    if task is not None:
        if not picked and not TASKS[task].fits(shape, time):
            raise _contradiction(task, shape, time)
        return "binary" if task == "classification" and shape == (1,) else task
    by_step = len(shape) == 2 and shape[0] == time  # or a forecast of as many steps
    if steps and by_step:
        return "per_step"
    if len(shape) == 1 and shape[0] > 1:
        return None if output == "raw" else "classification"
    if output == "raw" and (picked or not by_step):
        return "regression" if shape == (1,) else "forecast"
    if output is not None and shape == (1,):
        return "binary"
    if output is not None and picked:
        return "per_step" if by_step else None
    raise _unclear(shape, time)


def _contradiction(task: str, shape: tuple[int, ...], time: int) -> ModelError:
    shape = shape[:-1] if task == "per_step" and shape[1:] == (1,) else shape  # without the axis it was given
    others = [name for name, row in TASKS.items() if row.fits(shape, time)]
    steps = f" with {time} steps" if task == "per_step" else ""
    return ModelError(
        f"The model's output for one series has shape {shape}, and the task {task!r} means "
        f"{TASKS[task].shape}{steps}: pass {arg:predictor.task} as {', '.join(others[:-1])} or {others[-1]}, or a "
        "function as target.",
        code="model.task",
    )


def _unclear(shape: tuple[int, ...], time: int) -> ModelError:
    """Return the refusal of an output whose shape does not tell what it is."""
    if shape == (1,):
        return ModelError(
            f"The model returns one number per series: pass {arg:predictor.task=binary} if it is a logit, whose "
            f"sigmoid is explained, or {arg:predictor.task=regression} for the number as it is.",
            code="model.task",
        )
    per_step = len(shape) == 2 and shape[0] == time
    steps = f"{arg:predictor.task=per_step} for scores of classes at each step, " if per_step else ""
    return ModelError(
        f"The model's output for one series has shape {shape}: pass {steps}{arg:predictor.task=forecast} for "
        f"numbers as they are, or {arg:predictor.task=multilabel} for one logit per label.",
        code="model.task",
    )
