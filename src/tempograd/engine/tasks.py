"""What a model's output is: the task that somebody told, or that the output's shape tells."""

from collections.abc import Sequence
from typing import Any, get_args

from tempograd.core import validation
from tempograd.core.errors import InputError, ModelError, UnknownNameError, brief
from tempograd.engine.model import Model, owner
from tempograd.targets import TargetScore
from tempograd.typing import Task

TASKS: tuple[Task, ...] = get_args(Task)
DECLARED = "tempograd_task"  # the attribute by which a model tells its task
AS_THEY_ARE = ("regression", "forecast")  # outputs that no softmax or sigmoid belongs to
ADDRESSED = ("multilabel", "regression", "forecast")  # outputs whose axes, where they are several, are one row


def told_task(task: Any, model: Model, target: Any, output: str | None) -> str | None:
    """Return the task that somebody told: the call, the model, or a target that is for one task only.

    A target does not say more than the ``output`` that somebody chose.
    """
    if task is not None:
        validation.check_choice(task, "task", TASKS)
        return str(task)
    declared = getattr(model, DECLARED, None) or getattr(owner(model), DECLARED, None)
    if declared is not None:
        validation.check_choice(declared, f"{DECLARED} of the model", TASKS)
        return str(declared)
    return target.task if isinstance(target, TargetScore) and output is None else None


def link_for(output: str | None, task: str | None) -> str:
    """Return what is applied to the model's raw outputs: "probability", "sigmoid" or "raw".

    Examples
    --------
    >>> link_for(None, "forecast"), link_for("probability", "multilabel"), link_for("raw", None)
    ('raw', 'sigmoid', 'raw')
    """
    if output is None:
        output = "raw" if task in AS_THEY_ARE else "probability"
    if task in AS_THEY_ARE and output == "probability":
        raise InputError(
            f"output='probability' contradicts task={task!r}, whose outputs are explained as they are: leave "
            "output out, or pass task='classification' or 'multilabel' if they are logits."
        )
    return "sigmoid" if task == "multilabel" and output == "probability" else output


def check_steps(steps: Any, task: str | None) -> None:
    """Refuse steps of a model that has none."""
    if steps is not None and task not in {None, "per_step"}:
        raise InputError(
            f"steps= is for models with one output per time step, task='per_step', and the task is {task!r}: pass "
            "target= to choose an output."
        )


def named_target(target: Any, classes: Sequence[str] | None) -> Any:
    """Return the number of the output that a name means; any other target as it is."""
    if isinstance(target, TargetScore):
        return target.named(classes)
    if not isinstance(target, str):
        return target
    if classes is None:
        raise InputError(
            f"target={brief(target)} is a name, and nobody said what the outputs are called: pass classes= with "
            "their names, or the number of one."
        )
    names = list(classes)
    if names.count(target) > 1:
        raise InputError(f"target={brief(target)} is the name of several outputs: pass the number of one.")
    if target not in names:
        raise UnknownNameError("output", target, names)
    return names.index(target)


def found_task(told: str | None, shape: tuple[int, ...], time: int, link: str, *, picked: bool) -> str | None:
    """Return the task of a model whose output for one series has this shape; None where nothing tells it.

    What contradicts a task that was told is refused. A function picks from outputs of any shape.
    """
    wanted = {
        "classification": (len(shape) == 1, "(batch, classes)"),
        "binary": (shape == (1,), "(batch, 1), one logit"),
        "per_step": (shape[0] == time and len(shape) < 3, f"(batch, time, classes) with {time} steps"),
    }
    if told is not None:
        fits, expected = wanted.get(told, (True, ""))
        if not fits and not picked:
            shape = (
                shape[:-1] if told == "per_step" and shape[1:] == (1,) else shape
            )  # without the axis it was given
            raise ModelError(
                f"The model's output for one series has shape {shape}, and task={told!r} means {expected}: pass "
                f"task={_advised(shape, time)}, or a function as target."
            )
        one = shape == (1,) and link == "probability"
        return "binary" if told == "classification" and one else told
    if len(shape) == 2 and shape[0] == time:
        return "per_step"
    if len(shape) == 1:
        one = shape[0] == 1
        if link == "probability":
            return "binary" if one else "classification"
        return "regression" if one else None
    if link == "probability" and not picked:
        raise ModelError(
            f"The model's output for one series has shape {shape}, of which no probabilities can be made: pass "
            "task='forecast', or 'multilabel' for a sigmoid of each, or a function as target."
        )
    return "forecast" if link == "raw" else None


def _advised(shape: tuple[int, ...], time: int) -> str:
    if len(shape) == 2 and shape[0] == time:
        return "'per_step' or 'forecast'"
    return "'forecast'" if len(shape) > 1 else "'classification' or 'forecast'"
