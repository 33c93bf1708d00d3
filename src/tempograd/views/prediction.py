"""What the model says of series, whole and with cells removed, and one series or forecast as pictures show it."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from tempograd.core.formatting import short_number
from tempograd.engine.outputs import outputs_of
from tempograd.explanation import Explanation
from tempograd.metrics.base import Evaluation
from tempograd.metrics.removal import RemovalOutputs, RemovalSchedule, remove_cells
from tempograd.typing import Channels, Model
from tempograd.views import series
from tempograd.views.groups import chosen_channels
from tempograd.views.labels import channel_names, class_name, output_name, output_unit
from tempograd.views.series import Flags, Floats, Indices, Scores, to_numpy

POSITIVE = 1  # of two classes: the one that an alarm is about


def true_values(explanation: Explanation, y: Tensor | None) -> Tensor | None:
    """Return what is true of the explained score of each series, (series,), where no output is a class.

    ``y`` holds one value per series, that of the score, or one for each output; None where it does neither.
    Without a task whole numbers are classes; real ones are no classes, and those of steps are not of outputs.
    """
    if y is None:
        return None
    kind = outputs_of(explanation.task).kind
    if kind == "classes" and (not y.is_floating_point() or explanation.steps is not None):
        return None
    y, target = y.cpu(), explanation.target
    if y.ndim == 1:
        return y if kind != "labels" or explanation.columns == 1 else None
    if target is not None and target.ndim == 1 and y[0].numel() == explanation.columns:
        return y.flatten(1).gather(1, target.cpu()[:, None])[:, 0]
    return None


def step_outputs(
    clean: Tensor, explanation: Explanation, y: Tensor | None, positive: str = "class 1"
) -> dict[str, Any] | None:
    """Follow class 1 of two, called ``positive``, the only output of one, and the explained class of more.

    ``clean`` is what the model says, (series, time, class), ``y`` the labels. Of the followed output these are its
    ``name``, its ``values``, where the label says the same (``labels``), which steps were ``explained``, whether
    values above one half are an ``alarm``, so that steps are right or wrong, and with an alarm where the explained
    class is the one that the model says (``agrees``): (series, time) each.
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
    return {
        "name": "the model's output" if classes == 1 else title,
        "values": values,
        "labels": labels,
        "explained": steps.cpu().numpy() if isinstance(steps, Tensor) else np.ones(shape, dtype=np.bool_),
        "alarm": alarm,
        "agrees": (values > 0.5) == (target == followed).numpy() if alarm else None,
    }


def compare_labels(
    outputs: Floats | None, explanation: Explanation, y: Tensor | None, *, per_step: bool
) -> dict[str, Any]:
    """Compare predictions with labels: ``predicted``, ``label``, ``outcome`` and ``trueValue``, (series,) each.

    None where they mean nothing. An outcome is right or wrong, or for two classes TP, FP, TN, FN.
    """
    known = true_values(explanation, y)
    found: dict[str, Any] = dict.fromkeys(("predicted", "label", "outcome"))
    found["trueValue"] = None if known is None else to_numpy(known)
    if outputs_of(explanation.task).kind != "classes":
        return found
    if y is not None and y.ndim == 1 and not y.is_floating_point():
        found["label"] = y.cpu().numpy()
    # raw outputs are classes where the task or labels say so; a single one says no class
    classes = explanation.output == "probability" or explanation.task is not None or found["label"] is not None
    if per_step or explanation.target is None or outputs is None or outputs.shape[1] < 2 or not classes:
        return found
    found["predicted"] = predicted = np.asarray(outputs.argmax(1))
    if (label := found["label"]) is not None and outputs.shape[1] > 2:
        found["outcome"] = np.where(predicted == label, "right", "wrong")
    elif label is not None:
        names = np.array([["TN", "FP"], ["FN", "TP"]])
        found["outcome"] = names[1 * (label == POSITIVE), 1 * (predicted == POSITIVE)]
    return found


class Said(NamedTuple):
    """What is known of the prediction of one series, in parts: for titles and sentences."""

    what: str  # the explained output
    output: float | None = None
    probable: bool = False  # whether that is a probability
    true: str | None = None
    unit: str = ""  # of the output, where it is a number that has one
    mean: bool = False  # whether the output is a mean over several steps
    counted: str = ""  # how the scores of a model with one output per step go together

    @property
    def text(self) -> str:
        """What is predicted and what is true, as far as they are known: a title, and the begin of a sentence."""
        text, mean = self.what, "mean " * self.mean
        if self.output is not None and self.probable:
            text = f"{percent_text(self.output)} {mean}probability of {text}"
        elif self.output is not None:
            text = f"{mean}{text} is {with_unit_of(self.output, self.unit)}"
        return text if self.true is None else f"{text} (true: {self.true})"


def percent_text(share: float) -> str:
    """Write a probability in percent, and never as 0 or 100 where it is neither.

    Examples
    --------
    >>> percent_text(0.884), percent_text(0.9997), percent_text(0.0004), percent_text(1.0)
    ('88 %', 'over 99 %', 'under 1 %', '100 %')
    """
    if 0 < share < 0.005:
        return "under 1 %"
    return "over 99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def with_unit_of(number: float, unit: str) -> str:
    """Write a number with its unit.

    Examples
    --------
    >>> with_unit_of(101.3, "days"), with_unit_of(0.25, "")
    ('101 days', '0.25')
    """
    return f"{short_number(number)} {unit}".rstrip()


def said_of(explanation: Explanation, i: int) -> Said:
    """Tell the explained output of a series, its value and what is true, as far as they are known."""
    one = explanation[i : i + 1]
    if one.target is not None and one.target.ndim == 2:
        return _said_of_steps(one, one.target.cpu())
    output = None if one.prediction is None else float(one.prediction)
    probable = one.output == "probability" and one.target is not None
    what, unit = one.target_text or "a score of your own", ""
    if one.target is not None:
        column = int(one.target[0])
        what, unit = output_name(one, column), output_unit(one, column)
    return Said(what, output, probable, None if one.y is None else _truth(one, one.y.cpu(), unit), unit)


def _truth(one: Explanation, label: Tensor, unit: str) -> str | None:
    """Say what is true of the explained output, or of the class; None where labels do not tell that."""
    kind = outputs_of(one.task).kind
    if kind == "classes" and not (label.is_floating_point() and one.target is not None):
        return None if one.target is None or label.numel() != 1 else class_name(int(label), one.classes)
    found = true_values(one, label)
    if found is None or kind != "labels":
        return None if found is None else with_unit_of(float(found), unit)
    return "present" if bool(found > 0) else "absent"


def _said_of_steps(one: Explanation, target: Tensor) -> Said:
    """Tell the explained outputs of a model with one per step: their mean, and over which steps."""
    own = isinstance(one.steps, str)
    chosen = one.steps.cpu() if isinstance(one.steps, Tensor) else torch.ones(target.shape, dtype=torch.bool)
    kinds, total, count = set(target[chosen].tolist()), chosen.numel(), int(chosen.sum())
    what = output_name(one, kinds.pop()) if len(kinds) == 1 else "each step's class"
    output = None if one.prediction is None or not count else float(one.prediction) / count
    said = Said(what, output, one.output == "probability")
    if count == 1:
        name = one.times_of(0)[int(chosen[0].long().argmax())]
        return said._replace(what=f"{what} at {'step ' * (one.times is None)}{name}")
    over = f"{what} over {f'all {total}' if count == total else f'{count} of {total}'} steps"
    counted = "each value counts at its own step" if own else f"effects are summed over the {count} steps"
    return said._replace(what=over, mean=True, counted=counted)


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
    mask = explanation.mask if observed.all() else torch.from_numpy(observed)
    ask = Evaluation(model, replace(explanation, x=x, mask=mask), explanation.baseline).ask()

    def read(every: list[RemovalOutputs]) -> tuple[Tensor | None, ...]:
        (removed,) = every
        outputs, clean = removed.predictions, None
        if removed.steps is not None:
            clean = outputs[:, 0].cpu()
            outputs = removed.over_steps(outputs.movedim(-1, 0)).movedim(0, -1)
        score = removed.over_steps(removed.score).cpu() if ask.scored else None
        return outputs.cpu(), score, clean

    schedule = RemovalSchedule("absolute", True, ask.observed_cells, torch.from_numpy(counts))
    (outputs, score, clean), _ = remove_cells(ask, [schedule], read, "remove")
    return RemovedOutputs(to_numpy(cast("Tensor", outputs)), None if score is None else to_numpy(score), clean)


@dataclass(frozen=True)
class SeriesView:
    """One series, its channels in the order of the picture.

    Attributes
    ----------
    id : int or str
    said : Said
        What was explained.
    times, channels, units : tuple of str
    left_out : int
        How many channels are not shown.
    x : array of shape (time, channel)
        The values as people know them.
    observed : array of bool like ``x``
    scores : tuple of Scores
        Of each method, with 95 % intervals, like ``x``.
    truth : array of bool like ``x``, optional
        Cells that are known to decide the label.
    """

    id: int | str
    said: Said
    times: tuple[str, ...]
    channels: tuple[str, ...]
    units: tuple[str, ...]
    left_out: int
    x: Floats
    observed: Flags
    scores: tuple[Scores, ...]
    truth: Flags | None = None


def series_view(
    named: dict[str, Explanation],
    i: int | str,
    *,
    channels: Channels | None = None,
    most: int = 8,
) -> SeriesView:
    """Return what is shown of a series; arguments are those of :func:`tempograd.plots.series`.

    ``most`` channels are shown where nobody says how many, the strongest by the first method where there are more.
    """
    first = next(iter(named.values()))
    row, seen = series.position(first, i), series.observed_cells(first)
    values, names = series.shown_values(list(named.values())), channel_names(first)
    found = [series.scores(each, row, label) for label, each in named.items()]
    picked = chosen_channels(channels, names, found[0].effect, most, ordered=False)
    units = first.units or ("",) * len(names)
    return SeriesView(
        id=first.label(row),
        said=said_of(first, row),
        times=first.times_of(row),
        channels=tuple(names[d] for d in picked),
        units=tuple(units[d] for d in picked),
        left_out=len(names) - len(picked),
        x=to_numpy(values[row])[:, picked],
        observed=seen[row][:, picked],
        scores=tuple(each.channels(picked) for each in found),
        truth=None if first.truth is None else to_numpy(first.truth[row])[:, picked] > 0,
    )


def shaded(x: Floats, seen: Flags) -> Floats:
    """Scale each channel of a series from 0, its lowest observed value, to 1; one half where they are equal.

    Examples
    --------
    >>> x = np.array([[1.0, 7.0], [3.0, 7.0], [2.0, 9.0]])
    >>> seen = np.array([[True, True], [True, True], [True, False]])
    >>> shaded(x, seen).T
    array([[0. , 1. , 0.5],
           [0.5, 0.5, 0.5]])
    """
    low = np.min(x, axis=0, where=seen, initial=np.inf)
    spread = np.max(x, axis=0, where=seen, initial=-np.inf) - low
    usable = spread > 0
    shade = (x - np.where(usable, low, 0)) / np.where(usable, spread, 1)
    return np.asarray(np.where(seen & usable, shade, 0.5))
