"""What the model says about series, what was asked of it, and what is known: labels, steps, and outcomes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tempograd._utils import validation
from tempograd._utils.formatting import number, probability
from tempograd.data import Split
from tempograd.engine import Chunks, Model, asked, by_class, nested, pieces, place, quiet, wider
from tempograd.errors import InputError, brief
from tempograd.explanation import Explanation
from tempograd.metrics.removal import Reading, Subject, rankings
from tempograd.views.labels import check_classes, class_name, completed, plain, tells_class
from tempograd.views.series import Flags, Floats, Whole

# What the model says about a series, and what was asked of it: the sentence above a picture.


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
        answer = _answer_to_one(model, x[i : i + 1], explanation.output)
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


def _answer_to_one(model: Model, x: Tensor, output: str) -> Tensor:
    with quiet(model), torch.no_grad():
        return by_class(asked(model, x.to(*place(model, x)), shape=x.shape), output)[0].cpu()


def _label(explanation: Explanation, i: int, y: Any) -> Tensor:
    labels = validation.numbers(y, "y")
    if labels.ndim not in {1, 2} or len(labels) != len(explanation):
        raise InputError(f"y must hold a label for each of the {len(explanation)} series, got {brief(y)}.")
    return labels[i].cpu()


# What the model says about the series of a report, as they are and with the strongest cells removed.

POSITIVE = 1  # of two classes: the one that an alarm is about


@dataclass(frozen=True)
class Removal:
    """The model's outputs as the cells that a method ranks highest give way to the baseline.

    Attributes
    ----------
    outputs : Floats of shape (series, state, output)
        After ``counts[state]`` cells, or all that a series has; averaged over the explained steps.
    score : Floats of shape (series, state), optional
        The explained output; None if a function picked it.
    clean_steps : Tensor, optional
        The clean series' outputs per step, (series, time, output), where the model has such.
    """

    outputs: Floats
    score: Floats | None
    clean_steps: Tensor | None


@dataclass(frozen=True)
class StepOutputs:
    """What the model says at each step: the output that is followed, and what is known about the steps."""

    name: str
    values: Floats  # (series, time)
    labels: Flags | None  # where the label is what ``name`` says
    explained: Flags
    alarm: bool = False  # whether values above one half say "class 1", so that steps are right or wrong
    agrees: Flags | None = None  # with an alarm: where the explained class is the one that the model says


@dataclass(frozen=True)
class Verdict:
    """Labels beside predictions, (series,) each; None where they mean nothing."""

    predicted: Whole | None
    label: Whole | None
    true_value: Floats | None  # of a regression
    outcome: tuple[str, ...] | None  # right or wrong, or for two classes TP, FP, TN, FN


def removal(model: Model, explanation: Explanation, x: Tensor, observed: Flags, counts: Whole) -> Removal:
    """Ask the model about every series with each number of its strongest cells at the baseline."""
    subject = Subject.of(model, explanation, x, explanation.baseline, None)
    parts: dict[int, tuple[Tensor, Tensor | None, Tensor | None]] = {}
    cells_seen = torch.from_numpy(observed).flatten(1)

    def work(rows: slice, size: int) -> None:
        strength = explanation.strength[rows].detach().cpu().flatten(1)
        rank = rankings(strength, cells_seen[rows], explanation.ids[rows].cpu())
        allowed = torch.minimum(torch.from_numpy(counts), cells_seen[rows].sum(1)[:, None])  # (series, state)
        gone = (rank[:, None] < allowed[..., None]).view(len(rank), len(counts), *x.shape[1:])
        states = torch.where(gone, subject.substitute[rows].cpu()[:, None], subject.x[rows].cpu()[:, None])
        states, alike = states.flatten(0, 1), nested(gone.flatten(0, 1), _owner(gone))
        raw = torch.cat([_answer(subject, states[some], alike[some]) for some in pieces(len(states), size)])
        parts[rows.start] = _read(subject, rows, raw.view(len(rank), len(counts), *raw.shape[1:]))

    with quiet(model):
        plan = wider(Chunks(subject.device, x[0].numel()), model)
        plan.run(len(x), len(counts), work, "remove")
    outputs, score, clean = zip(*(parts[start] for start in sorted(parts)), strict=True)
    return Removal(
        outputs=plain(torch.cat(outputs)),
        score=None if score[0] is None else plain(torch.cat(score)),
        clean_steps=None if clean[0] is None else torch.cat(clean),
    )


def _owner(gone: Tensor) -> Tensor:
    """Which series each state is of, (series · state,)."""
    return torch.arange(len(gone)).repeat_interleave(gone.shape[1])


def _answer(subject: Subject, states: Tensor, alike: Tensor) -> Tensor:
    with torch.no_grad():
        z = states.to(subject.device, subject.dtype)
        return asked(subject.model, z, alike, shape=subject.x.shape).cpu()


def _read(subject: Subject, rows: slice, raw: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
    steps = subject.steps(rows, raw[:, 0])
    steps = None if steps is None else steps.cpu()
    target = subject.target(rows, raw[:, 0], steps)
    reading = Reading(raw, subject.explanation.output, None if target is None else target.cpu(), steps)
    outputs = reading.predictions
    if steps is not None:
        outputs = reading.over_steps(outputs.movedim(-1, 0)).movedim(0, -1)
    score = None if target is None else reading.over_steps(reading.score)
    return outputs, score, None if steps is None else reading.predictions[:, 0]


def step_outputs(
    clean: Tensor, explanation: Explanation, split: Split | None, names: Sequence[str] | None = None
) -> StepOutputs | None:
    """Follow class 1 of two, the only output of one, and the explained class of more."""
    if explanation.target is None:
        return None
    count, time, classes = clean.shape
    target = explanation.target.cpu()
    target = target if target.ndim == 2 else target[:, None].expand(count, time)
    followed = target if classes > 2 else torch.full_like(target, classes - 1)
    labels = None
    if split is not None and split.y.ndim == 2 and not split.y.is_floating_point():
        labels = (split.y.cpu() == (POSITIVE if classes == 1 else followed)).numpy()
    kind = "probability" if explanation.output == "probability" else "output"
    positive = "class 1" if names is None else names[POSITIVE] if classes == 2 else ""
    name = f"{kind} of the explained class" if classes > 2 else f"{kind} of {positive}"
    steps = explanation.steps
    values = plain(clean.gather(-1, followed[..., None]).squeeze(-1))
    alarm = labels is not None and classes <= 2 and kind == "probability"
    return StepOutputs(
        name="the model's output" if classes == 1 else name,
        values=values,
        labels=labels,
        explained=steps.cpu().numpy() if isinstance(steps, Tensor) else np.ones((count, time), dtype=np.bool_),
        alarm=alarm,
        agrees=(values > 0.5) == (target == followed).numpy() if alarm else None,
    )


def verdict(outputs: Floats | None, explanation: Explanation, split: Split | None, per_step: bool) -> Verdict:
    """Compare predictions with labels, one of each per series."""
    label = true_value = predicted = outcome = None
    if split is not None and split.y.ndim == 1:
        if split.y.is_floating_point():
            true_value = plain(split.y)
        else:
            label = split.y.cpu().numpy()
    if outputs is not None and not per_step and explanation.target is not None:
        predicted = _predicted(outputs)
    if predicted is not None and label is not None:
        outcome = _outcomes(predicted, label, two=outputs.shape[1] == 2)  # type: ignore[union-attr]
    return Verdict(predicted, label, true_value, outcome)


def _predicted(outputs: Floats) -> Whole | None:
    """Return the class with the largest output; a single output, which is a raw one, says no class."""
    return np.asarray(outputs.argmax(1)) if outputs.shape[1] > 1 else None


def _outcomes(predicted: Whole, label: Whole, *, two: bool) -> tuple[str, ...]:
    if not two:
        return tuple("right" if hit else "wrong" for hit in predicted == label)
    names = {(1, 1): "TP", (1, 0): "FP", (0, 0): "TN", (0, 1): "FN"}
    return tuple(
        names[int(guess == POSITIVE), int(true == POSITIVE)] for guess, true in zip(predicted, label, strict=True)
    )
