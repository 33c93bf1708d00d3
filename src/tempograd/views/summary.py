"""What an explanation is about and how far it can be trusted, for all series and for each."""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tempograd.core.errors import Dialect
from tempograd.core.validation import lengths
from tempograd.data import Series
from tempograd.engine import select_target
from tempograd.engine.outputs import LINKS, link_words, outputs_of
from tempograd.explanation import Explanation
from tempograd.explanation.diagnostics import ErrorCurve, completeness_gap, error_curve, goal, sentence
from tempograd.typing import Model
from tempograd.views.channels import channel_shares
from tempograd.views.labels import class_name, output_name
from tempograd.views.prediction import model_outputs
from tempograd.views.reader import ReaderVerdict, assumed, reader_verdict
from tempograd.views.series import Floats, to_numpy

# How sure the scores are: a line for all series and one for each, sums, signs, and how the error fell.


@dataclass(frozen=True)
class Certainty:
    """What one method says about the quality of its scores, those of each shown series as (series,)."""

    said: tuple[ReaderVerdict, ...]  # about all series, and about each shown one
    complete: bool  # whether the method promises that scores sum to the change of the prediction
    error: Floats | None
    total: Floats | None  # sum of the scores
    delta: Floats | None  # of the prediction
    course: Floats | None  # (series, looks), the error as points were added
    curve: ErrorCurve | None  # the same for all series together
    goal: float  # the relative error to reach

    @classmethod
    def of(cls, found: Explanation, shown: Explanation) -> "Certainty":
        """Judge a method over all series, and each of the shown ones."""
        error, delta = shown.relative_error, shown.delta
        return cls(
            said=(reader_verdict(found), *(reader_verdict(shown, i) for i in range(len(shown)))),
            complete=found.facts.complete,
            error=None if error is None else to_numpy(error),
            total=None if delta is None else to_numpy(shown.values.sum((1, 2))),
            delta=None if delta is None else to_numpy(delta),
            course=None if shown.curve_error is None else to_numpy(shown.curve_error),
            curve=error_curve(found),
            goal=goal(found),
        )


def sign_certain(explanation: Explanation, cells: int) -> float | None:
    """Return the share of each series' strongest values whose 95 % interval leaves 0 out; 0 itself has no sign."""
    if explanation.standard_error is None or explanation.ess is None or not explanation.signed:
        return None
    top = explanation.top(min(cells, explanation.values[0].numel()))
    places = (top.time * explanation.values.shape[2] + top.channel).clamp(min=0)
    low, high = (side.flatten(1).gather(1, places) for side in explanation.interval(0.95))
    certain = ((low > 0) | (high < 0))[top.values != 0]
    return float(certain.double().mean()) if certain.numel() else None


def most_telling(explanation: Explanation) -> int:
    """Return the position of the series that tells most, the first of equals.

    Its scores are the largest, summed by size; where their errors are known, only those with a certain sign count.
    """
    size = explanation.importance.clamp(min=0).double()
    if explanation.signed and explanation.standard_error is not None and explanation.ess is not None:
        low, high = explanation.interval(0.95)
        size = size.where((low > 0) | (high < 0), 0)
    return int(size.sum((1, 2)).argmax())


# What an explanation is about and how far it can be trusted, as one mapping of plain data.

STRONGEST = 5  # channels
CELLS = 10  # of each series, whose signs are what people read first


def explanation_summary(
    explanation: Explanation, model: Model, series: Series, dialect: Dialect = "python"
) -> dict[str, Any]:
    """Return what was explained of which series, what the model predicts, which channels matter, how sure it is.

    ``predicted`` and ``explained`` count classes, by their numbers as text, since JSON has no other keys.
    """
    x: Any = series.x if isinstance(series.x, Tensor) else explanation.x  # several inputs side by side
    said = model_outputs(model, explanation, x)
    if explanation.delta is None:
        explanation = replace(explanation, delta=mean_delta(explanation, model, said, x))
    errors, target = explanation.relative_error, explanation.target
    error, kind = math.inf if errors is None else float(errors.median()), outputs_of(explanation.task).kind
    classes = target is not None and explanation.output == "probability" and kind == "classes"
    return {
        "method": explanation.method,
        "baseline": replace(explanation, x=x).baseline_kind,
        "series": len(explanation),
        "steps": explanation.values.shape[1],
        "channels": explanation.values.shape[2],
        "missing": 0.0 if explanation.mask is None else 1 - float(explanation.mask.double().mean()),
        "outputs": said.shape[-1],
        "predicted": _counts(said.argmax(-1)) if classes else None,
        "task": explanation.task,
        "output": explanation.output,
        "what": explained_output(explanation),
        "explained": {} if target is None else _counts(target),
        "accuracy": label_accuracy(said, explanation, series),
        "verdict": sentence(explanation, dialect=dialect),
        "assumed": assumed([explanation]),
        "relative_error": error if math.isfinite(error) else None,
        "sign_certain": sign_certain(explanation, CELLS),
        "completeness_gap": completeness_gap(explanation),
        "strongest_channels": [
            {"channel": name, "share": share} for name, share in channel_shares(explanation, STRONGEST)
        ],
    }


def _counts(classes: Tensor) -> dict[str, int]:
    numbers, counts = torch.unique(classes, return_counts=True)
    return {str(n): c for n, c in zip(numbers.tolist(), counts.tolist(), strict=True)}


def explained_output(explanation: Explanation) -> str:
    """Say what was explained: which of the model's outputs, and what was made of them."""
    target, link, one = explanation.target, explanation.link, explanation.columns == 1
    words, probable = link_words(link, explanation.columns), LINKS[link].probable
    if target is None:
        score = explanation.target_text or "a score of your own"
        made = "outputs as they are" if link == "raw" else f"{'probabilities by ' * probable}{words}"
        return f"{score}, from {made}"
    same = target.numel() > 0 and bool((target == target.flatten()[0]).all())
    if not probable:
        which = f"{output_name(explanation, int(target.flatten()[0]))}, " if same and not one else ""
        return f"{which}{words}"
    if one and link == "probability":
        return f"the probability of {class_name(int(bool(target.any())), explanation.classes)} by {words}"
    what = "label" if outputs_of(explanation.task).kind == "labels" else "class"
    return f"the probability of a {what} by {words}"


def label_accuracy(said: Tensor, explanation: Explanation, series: Series) -> float | None:
    """Return the share of labels that the model predicts; None without labels that are classes."""
    if series.y is None or outputs_of(explanation.task).kind != "classes":
        return None
    values = series.y.is_floating_point() or said.shape[-1] == 1  # one raw output says no class
    if values or said.shape[:-1] != series.y.shape:
        return None
    right = said.argmax(-1) == series.y
    if right.ndim == 2:  # steps of the padding have no label
        right = right[torch.arange(right.shape[1]) < lengths(explanation.mask, series.x)[:, None]]
    return float(right.double().mean())


def mean_delta(explanation: Explanation, model: Model, said: Tensor, x: Tensor) -> Tensor | None:
    """Return the explained score of each series minus that of its baseline; None where no one number is it.

    ``said`` is what the model says about the series ``x``.
    """
    steps, target = explanation.steps, explanation.target
    if target is None or isinstance(steps, str) or explanation.background is not None:
        return None
    start = explanation.baseline
    if explanation.mask is not None:  # what was not observed stays as it is
        start = torch.where(explanation.mask, start, x)
    found = select_target(said, target.cpu()) - select_target(
        model_outputs(model, explanation, start), target.cpu()
    )
    return (found * steps.cpu()).sum(-1) if isinstance(steps, Tensor) else found
