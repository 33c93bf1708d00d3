"""How sure the scores are, for the page: a line for all series and one for each, sums, and how the error fell."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tempograd.explanation import Explanation
from tempograd.explanation.diagnostics import Curve, curve, goal, poor
from tempograd.explanation.messages import sentence
from tempograd.html_report.packing import Pack
from tempograd.html_report.records import Floats
from tempograd.shown import plain


@dataclass(frozen=True)
class Certainty:
    """What one method says about the quality of its scores.

    Attributes
    ----------
    whole, each : str and tuple of str
        The verdict on all series, and on each shown one.
    rough : tuple of bool
        Whether the scores of all series, and of each shown one, are too rough to rely on.
    complete : bool
        Whether the method promises that its scores sum to the change of the prediction.
    error, total, change : Floats of shape (series,), optional
        Relative error, sum of the scores, and change of the prediction of each shown series.
    course : Floats of shape (series, looks), optional
        The error of each shown series as points were added.
    curve : Curve, optional
        The same for all series together.
    """

    whole: str
    each: tuple[str, ...]
    rough: tuple[bool, ...]
    complete: bool
    error: Floats | None
    total: Floats | None
    change: Floats | None
    course: Floats | None
    curve: Curve | None
    goal: float


def certainties(explanations: Mapping[str, Explanation], shown: Mapping[str, Explanation]) -> dict[str, Certainty]:
    """Judge every method: over all series, and each of the shown ones."""
    return {label: _certainty(found, shown[label]) for label, found in explanations.items()}


def _certainty(found: Explanation, shown: Explanation) -> Certainty:
    single = [shown[i : i + 1] for i in range(len(shown))]
    error, change = shown.relative_error, shown.change
    return Certainty(
        whole=sentence(found),
        each=tuple(map(sentence, single)),
        rough=(poor(found), *map(poor, single)),
        complete=found.facts.complete,
        error=None if error is None else plain(error),
        total=None if change is None else plain(shown.values.sum((1, 2))),
        change=None if change is None else plain(change),
        course=None if shown.curve_error is None else plain(shown.curve_error),
        curve=curve(found),
        goal=goal(found),
    )


def packed_certainty(pack: Pack, found: Certainty) -> dict[str, Any]:
    """Return what the page's script reads."""
    return {
        "whole": found.whole,
        "each": found.each,
        "rough": found.rough,
        "goal": found.goal,
        "complete": found.complete,
        "error": None if found.error is None else pack.add(found.error),
        "total": None if found.total is None else pack.add(found.total),
        "change": None if found.change is None else pack.add(found.change),
        "curve": None if found.curve is None or found.course is None else _curve(pack, found.curve, found.course),
    }


def _curve(pack: Pack, found: Curve, course: Floats) -> dict[str, Any]:
    parts = {"middle": found.middle, "low": found.low, "high": found.high}
    return {
        "points": found.points.tolist(),
        "each": pack.add(course),
        **{name: pack.add(part.astype(np.float32)) for name, part in parts.items()},
    }
