"""What the model says about a series, and what was asked of it: the sentence above a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tempograd._utils import validation
from tempograd._utils.formatting import number, probability
from tempograd.engine import Model, asked, by_class, place, quiet
from tempograd.errors import InputError, brief
from tempograd.explanation import Explanation
from tempograd.plots.subject import Flags, Floats
from tempograd.plots.wording import class_name
from tempograd.shown import check_classes, completed, plain, tells_class


@dataclass(frozen=True)
class StepOutput:
    """What the model says at each step: the output that is followed, and where it was explained."""

    title: str
    values: Floats  # (time,)
    explained: Flags
    labels: Flags | None  # where the label is the followed class


@dataclass(frozen=True)
class Said:
    """What the model says about one series, and what was asked.

    ``text`` is the sentence for the title: the explained class, its probability and the true class, as far as they
    are known. ``output`` is the explained output, ``steps`` what it is for a model with one output per step.
    """

    text: str
    output: float | None = None
    steps: StepOutput | None = None


def said(
    explanation: Explanation,
    i: int,
    model: Model | None = None,
    x: Tensor | None = None,
    y: Any = None,
    classes: Sequence[str] | None = None,
) -> Said:
    """Tell what was explained of a series: the class, the model's output, the true label, if known."""
    answer = None
    if model is not None and x is not None:
        validation.model(model)
        explanation = completed(explanation, model, x)
        answer = _answer(model, x[i : i + 1], explanation.output)
    check_classes(explanation, classes)
    target = None if explanation.target is None else explanation.target[i].cpu()
    label = None if y is None else _label(explanation, i, y)
    if target is not None and target.ndim == 1:
        steps = None if answer is None else _per_step(explanation, i, answer, target, label, classes)
        return Said(_steps_text(explanation, i, classes), steps=steps)
    if target is None:
        return Said("explained: a score of your own")
    text, output = f"explained: {_explained(explanation, int(target), classes)}", None
    if answer is not None:
        output = float(answer[int(target)])
        written = (
            f"probability {probability(output, 2)}" if explanation.output == "probability" else number(output)
        )
        text += f", {written}"
    if label is not None:
        true = number(float(label)) if label.is_floating_point() else class_name(int(label), classes)
        text += f" (true: {true})"
    return Said(text, output)


def _explained(explanation: Explanation, target: int, classes: Sequence[str] | None) -> str:
    if tells_class(explanation) or (explanation.output == "raw" and classes is not None):
        return class_name(target, classes)
    return "the model's output" if explanation.n_outputs == 1 else f"output {target}"  # need not be a class


def _steps_text(explanation: Explanation, i: int, classes: Sequence[str] | None) -> str:
    steps, target = explanation.steps, explanation.target
    chosen = (
        steps[i].cpu() if isinstance(steps, Tensor) else torch.ones(explanation.values.shape[1], dtype=torch.bool)
    )
    kinds = set() if target is None else set(target[i].cpu()[chosen].tolist())
    one = _explained(explanation, kinds.pop(), classes) if len(kinds) == 1 else None
    if isinstance(steps, str):
        return f"explained: each cell's effect on {'' if one is None else f'{one} at '}its own step"
    total, count = len(chosen), int(chosen.sum())
    what = "each step's class" if one is None else one
    over = f"summed over {'all' if count == total else f'{count} of {total}'} steps"
    return f"explained: {what}, {over}"


def _per_step(
    explanation: Explanation,
    i: int,
    answer: Tensor,
    target: Tensor,
    label: Tensor | None,
    classes: Sequence[str] | None,
) -> StepOutput:
    """Follow class 1 of two, the only output of one, and the explained class of more."""
    count = answer.shape[-1]
    followed = target if count > 2 else torch.full_like(target, count - 1)
    kind = "probability" if explanation.output == "probability" else "output"
    what = "the explained class" if count > 2 else class_name(1, classes)
    title = "the model's output" if count == 1 else f"{kind} of {what}"
    steps = explanation.steps[i].cpu() if isinstance(explanation.steps, Tensor) else torch.ones(len(answer))
    labels = None
    if label is not None and label.ndim == 1 and not label.is_floating_point():
        labels = (label == (1 if count <= 2 else followed)).numpy()
    values = plain(answer.gather(-1, followed[:, None])[:, 0])
    return StepOutput(title, values, steps.bool().numpy(), labels)


def _answer(model: Model, x: Tensor, output: str) -> Tensor:
    with quiet(model), torch.no_grad():
        return by_class(asked(model, x.to(*place(model, x)), shape=x.shape), output)[0].cpu()


def _label(explanation: Explanation, i: int, y: Any) -> Tensor:
    labels = validation.numbers(y, "y")
    if labels.ndim not in {1, 2} or len(labels) != len(explanation):
        raise InputError(f"y must hold a label for each of the {len(explanation)} series, got {brief(y)}.")
    return labels[i].cpu()
