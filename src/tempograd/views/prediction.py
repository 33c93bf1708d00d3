"""The model's outputs for series, whole and with cells removed, what was requested, and what is known."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, brief
from tempograd.core.formatting import probability, short_number
from tempograd.engine import select_target
from tempograd.engine.outputs import outputs_of
from tempograd.explanation import Explanation
from tempograd.explanation.targets import as_explained
from tempograd.metrics.asking import AskAgain, Evaluation
from tempograd.metrics.removal import RemovalOutputs, RemovalSchedule, remove_cells
from tempograd.typing import Model
from tempograd.views.labels import class_name, known_classes, output_name, output_unit, target_name
from tempograd.views.series import Flags, Floats, Indices, to_numpy

POSITIVE = 1  # of two classes: the one that an alarm is about


def model_outputs(model: Model, explanation: Explanation, x: Tensor) -> Tensor:
    """Return what the model says about the explained series with these values: (series, class), or with time.

    These are probabilities where such were explained. An output with several axes is a row of columns, as targets
    count them.
    """
    ask = AskAgain.of(model, explanation, x)
    return ask.predictions(ask.clean_outputs())


def completed(explanation: Explanation, model: Model, x: Tensor) -> Explanation:
    """Run the model to see how many outputs it has if the explanation, of an earlier version, does not know."""
    if explanation.columns is not None:
        return explanation
    ask = AskAgain.of(model, explanation, x)
    ask.clean_outputs(1)
    columns, target = ask.resolved.columns, ask.resolved.target
    if not isinstance(target, Tensor):
        return replace(explanation, columns=columns)
    return replace(explanation, columns=columns, target=target.to(explanation.values.device))


def true_values(explanation: Explanation, y: Tensor | None, shape: tuple[int, ...] = ()) -> Tensor | None:
    """Return what is true of the explained score of each series, (series,), where no output is a class.

    ``y`` holds one value per series, that of the score, or one for each output; None where it does neither. If a
    function picked the score from outputs of this ``shape``, it picks from true ones too. Where nobody told the
    task, whole numbers are classes; real ones are no classes, and those of steps are not of outputs.
    """
    if y is None:
        return None
    kind = outputs_of(explanation.task).kind
    if kind == "classes" and (not y.is_floating_point() or explanation.steps is not None):
        return None
    y, target, picker = y.cpu(), explanation.target, explanation.picker
    if y.ndim == 1:
        return y if kind != "labels" or explanation.columns == 1 else None
    if target is not None and target.ndim == 1 and y[0].numel() == explanation.columns:
        return y.flatten(1).gather(1, target.cpu()[:, None])[:, 0]
    fits = shape == tuple(y.shape[1:]) and explanation.output == "raw"
    of_outputs = picker is not None and not getattr(picker, "takes_input", False)
    return select_target(y, picker) if fits and picker is not None and of_outputs else None


@dataclass(frozen=True)
class StepOutputs:
    """What the model says at each step, (series, time), or (time,) for one series: the output that is followed."""

    title: str
    values: Floats
    labels: Flags | None  # where the label is what ``title`` says
    explained: Flags
    alarm: bool  # whether values above one half say "class 1", so that steps are right or wrong
    agrees: Flags | None  # with an alarm: where the explained class is the one that the model says


def step_outputs(
    clean: Tensor, explanation: Explanation, y: Tensor | None, positive: str = "class 1"
) -> StepOutputs | None:
    """Follow class 1 of two, called ``positive``, the only output of one, and the explained class of more.

    ``clean`` is what the model says, (series, time, class), ``y`` the labels.
    """
    if explanation.target is None:
        return None
    *shape, classes = clean.shape
    target = explanation.target.cpu()
    target = target if target.ndim == 2 else target[:, None].expand(shape)
    followed = target if classes > 2 else torch.full_like(target, classes - 1)
    labels = None
    if y is not None and y.ndim == 2 and not y.is_floating_point():
        labels = (y.cpu() == (POSITIVE if classes == 1 else followed)).numpy()
    kind = "probability" if explanation.output == "probability" else "output"
    title = f"{kind} of {'the explained class' if classes > 2 else positive}"
    steps = explanation.steps
    values = to_numpy(clean.gather(-1, followed[..., None]).squeeze(-1))
    alarm = labels is not None and classes <= 2 and kind == "probability"
    return StepOutputs(
        title="the model's output" if classes == 1 else title,
        values=values,
        labels=labels,
        explained=steps.cpu().numpy() if isinstance(steps, Tensor) else np.ones(shape, dtype=np.bool_),
        alarm=alarm,
        agrees=(values > 0.5) == (target == followed).numpy() if alarm else None,
    )


@dataclass(frozen=True)
class LabelComparison:
    """Labels beside predictions, (series,) each; None where they mean nothing."""

    predicted: Indices | None
    label: Indices | None
    true_value: Floats | None  # of a regression
    outcome: tuple[str, ...] | None  # right or wrong, or for two classes TP, FP, TN, FN


def compare_labels(
    outputs: Floats | None, explanation: Explanation, y: Tensor | None, *, per_step: bool
) -> LabelComparison:
    """Compare predictions with labels, one of each per series."""
    label = predicted = outcome = None
    known = true_values(explanation, y)
    true_value = None if known is None else to_numpy(known)
    if outputs_of(explanation.task).kind != "classes":
        return LabelComparison(None, None, true_value, None)
    if y is not None and y.ndim == 1 and not y.is_floating_point():
        label = y.cpu().numpy()
    # raw outputs are classes where the task or labels say so; a single one says no class
    classes = explanation.output == "probability" or explanation.task is not None or label is not None
    told = classes and not per_step and explanation.target is not None
    if told and outputs is not None and outputs.shape[1] > 1:
        predicted = np.asarray(outputs.argmax(1))
        if label is not None:
            outcome = _outcomes(predicted, label, two=outputs.shape[1] == 2)
    return LabelComparison(predicted, label, true_value, outcome)


def _outcomes(predicted: Indices, label: Indices, *, two: bool) -> tuple[str, ...]:
    if not two:
        return tuple("right" if hit else "wrong" for hit in predicted == label)
    names = {(1, 1): "TP", (1, 0): "FP", (0, 0): "TN", (0, 1): "FN"}
    return tuple(
        names[int(guess == POSITIVE), int(true == POSITIVE)] for guess, true in zip(predicted, label, strict=True)
    )


@dataclass(frozen=True)
class PredictionText:
    """The model's outputs for one series, and what was requested.

    ``text`` is the sentence for the title: the explained class, its probability and the true class, as far as they
    are known. ``output`` is the explained output, ``steps`` what it is for a model with one output per step,
    (time,) each.
    """

    text: str
    output: float | None = None
    steps: StepOutputs | None = None


def prediction_text(
    explanation: Explanation,
    i: int,
    model: Model | None = None,
    x: Tensor | None = None,
    y: Any = None,
    classes: Sequence[str] | None = None,
) -> PredictionText:
    """Tell what was explained of a series: the class, the model's output, the true label, if known."""
    said = said_of(explanation, i, model, x, y, classes)
    text = f"explained: {said.what}"
    if said.output is not None:
        mean = "mean " * said.mean
        text += f", {mean}{f'probability {probability(said.output, 2)}' if said.probable else said.number}"
    return PredictionText(text if said.true is None else f"{text} (true: {said.true})", said.output, said.steps)


class Said(NamedTuple):
    """What is known of the prediction of one series, in parts: for titles and sentences."""

    what: str  # the explained output
    output: float | None = None
    probable: bool = False  # whether that is a probability
    true: str | None = None
    steps: StepOutputs | None = None
    unit: str = ""  # of the output, where it is a number that has one
    mean: bool = False  # whether the output is a mean over several steps
    counted: str = ""  # how the scores of a model with one output per step go together

    @property
    def number(self) -> str:
        """The output as it is, with its unit."""
        return "" if self.output is None else with_unit_of(self.output, self.unit)


def with_unit_of(number: float, unit: str) -> str:
    """Write a number with its unit.

    Examples
    --------
    >>> with_unit_of(101.3, "days"), with_unit_of(0.25, "")
    ('101 days', '0.25')
    """
    return f"{short_number(number)} {unit}".rstrip()


def said_of(
    explanation: Explanation,
    i: int,
    model: Model | None = None,
    x: Tensor | None = None,
    y: Any = None,
    classes: Sequence[str] | None = None,
) -> Said:
    """Tell the explained output of a series, its value and what is true, as far as they are known."""
    ask = answer = None
    if model is not None and x is not None:
        validation.check_model(as_explained(model, explanation))
        explanation = completed(explanation, model, x)
        ask = AskAgain.of(model, explanation[i : i + 1], x[i : i + 1])
        answer = ask.clean_outputs()
    classes = known_classes(explanation, classes)
    one = explanation[i : i + 1]
    label = None if y is None else _label(explanation, i, y)
    if one.target is not None and one.target.ndim == 2:
        told = None if ask is None or answer is None else ask.predictions(answer)
        return _said_of_steps(one, one.target.cpu(), told, label, classes)
    output = None if one.prediction is None else float(one.prediction)
    if ask is not None and answer is not None:
        output = float(ask.clean_scores(answer)) if ask.scored else None
    probable = one.output == "probability" and one.target is not None
    shape = () if answer is None else tuple(answer.shape[1:])
    unit = "" if one.target is None else output_unit(one, int(one.target[0]), classes)
    true = None if label is None else _truth(one, label, shape, classes, unit)
    return Said(target_name(one, 0, classes), output, probable, true, unit=unit)


def _truth(
    one: Explanation, label: Tensor, shape: tuple[int, ...], classes: Sequence[str] | None, unit: str
) -> str | None:
    """Say what is true of the explained output, or of the class; None where labels do not tell that."""
    kind = outputs_of(one.task).kind
    if kind != "classes" or (label.is_floating_point() and one.target is not None):
        found = true_values(one, label, shape)
        if found is None:
            return None
        if kind == "labels":
            return "present" if bool(found > 0) else "absent"
        return with_unit_of(float(found), unit)
    return None if one.target is None or label.numel() != 1 else class_name(int(label), classes)


def _first(steps: StepOutputs) -> StepOutputs:
    parts = {name: part[0] for name, part in vars(steps).items() if isinstance(part, np.ndarray)}
    return replace(steps, **parts)


def _said_of_steps(
    one: Explanation, target: Tensor, told: Tensor | None, label: Tensor | None, classes: Sequence[str] | None
) -> Said:
    """Tell the explained outputs of a model with one per step: their mean, over which steps, and what they are."""
    own = isinstance(one.steps, str)
    chosen = one.steps.cpu() if isinstance(one.steps, Tensor) else torch.ones(target.shape, dtype=torch.bool)
    kinds, total, count = set(target[chosen].tolist()), chosen.numel(), int(chosen.sum())
    what = output_name(one, kinds.pop(), classes) if len(kinds) == 1 else "each step's class"
    output = None if one.prediction is None or not count else float(one.prediction) / count
    if told is not None and count:
        output = float(told.gather(-1, target[..., None])[..., 0][chosen].mean())
    steps = None if told is None else step_outputs(told, one, label, class_name(POSITIVE, classes))
    said = Said(what, output, one.output == "probability", steps=None if steps is None else _first(steps))
    if count == 1:
        name = one.times_of(0)[int(chosen[0].long().argmax())]
        return said._replace(what=f"{what} at {'step ' * (one.times is None)}{name}")
    over = f"{what} over {f'all {total}' if count == total else f'{count} of {total}'} steps"
    counted = "each value counts at its own step" if own else f"effects are summed over the {count} steps"
    return said._replace(what=over, mean=True, counted=counted)


def _label(explanation: Explanation, i: int, y: Any) -> Tensor:
    """Return the labels of a series, (1,) or (1, time)."""
    labels = validation.check_numbers(y, "y")
    most = 2 if outputs_of(explanation.task).kind == "classes" else labels.ndim
    if not 1 <= labels.ndim <= most or len(labels) != len(explanation):
        raise InputError(f"y must hold a label for each of the {len(explanation)} series, got {brief(y)}.")
    return labels[i : i + 1].cpu()


# The model's outputs while the strongest cells of each series give way to the baseline


@dataclass(frozen=True)
class RemovedOutputs:
    """The model's outputs after each count of removed cells, or all that a series has, averaged over its steps."""

    outputs: Floats  # (series, state, output)
    score: Floats | None  # (series, state), the explained score; None if the function that picked it is not known
    clean_steps: Tensor | None  # (series, time, output) of the clean series, where the model has such


def removal_counts(most: int) -> Indices:
    """Return the numbers of removed cells that are looked at: each of the first ten, then ever fewer.

    Examples
    --------
    >>> removal_counts(3)
    array([0, 1, 2, 3])
    >>> len(removal_counts(400)), removal_counts(400)[[9, 10, 11, -1]]
    (40, array([  9,  10,  11, 400]))
    """
    if most <= 10:
        return np.arange(most + 1)
    return np.unique(np.concatenate([np.arange(11), np.rint(np.geomspace(10, most, 30)).astype(np.int64)]))


def removal_outputs(
    model: Model, explanation: Explanation, x: Tensor, observed: Flags, counts: Indices
) -> RemovedOutputs:
    """Run the model on every series with each number of its strongest cells at the baseline."""
    if not observed.all():
        explanation = replace(explanation, mask=torch.from_numpy(observed))
    ask = Evaluation(model, explanation, x, explanation.baseline).ask()

    def read(every: list[RemovalOutputs]) -> tuple[Tensor | None, ...]:
        (removed,) = every
        outputs, clean = removed.predictions, None
        if removed.steps is not None:
            clean = outputs[:, 0].cpu()
            outputs = removed.over_steps(outputs.movedim(-1, 0)).movedim(0, -1)
        score = removed.over_steps(removed.score).cpu() if removed.scored else None
        return outputs.cpu(), score, clean

    schedule = RemovalSchedule("absolute", True, ask.observed_cells, torch.from_numpy(counts))
    (outputs, score, clean), _ = remove_cells(ask, [schedule], read, "remove")
    return RemovedOutputs(
        outputs=to_numpy(cast("Tensor", outputs)),
        score=None if score is None else to_numpy(score),
        clean_steps=clean,
    )
