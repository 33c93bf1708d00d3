"""How sure the scores are: a line for all series and one for each, sums, signs, and how the error fell."""

from dataclasses import dataclass

from tempograd.explanation import Explanation
from tempograd.explanation.diagnostics import Curve, curve, goal, poor
from tempograd.explanation.messages import sentence
from tempograd.views.series import Floats, plain


@dataclass(frozen=True)
class Certainty:
    """What one method says about the quality of its scores, those of each shown series as (series,)."""

    whole: str  # the verdict on all series
    each: tuple[str, ...]
    rough: tuple[bool, ...]  # whether the scores of all, and of each shown one, are too rough to rely on
    complete: bool  # whether the method promises that scores sum to the change of the prediction
    error: Floats | None
    total: Floats | None  # sum of the scores
    change: Floats | None  # of the prediction
    course: Floats | None  # (series, looks), the error as points were added
    curve: Curve | None  # the same for all series together
    goal: float  # the relative error to reach

    @classmethod
    def of(cls, found: Explanation, shown: Explanation) -> "Certainty":
        """Judge a method over all series, and each of the shown ones."""
        single = [shown[i : i + 1] for i in range(len(shown))]
        error, change = shown.relative_error, shown.change
        return cls(
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


def sign_certain(explanation: Explanation, cells: int) -> float | None:
    """Return the share of each series' strongest values whose 95 % interval leaves 0 out; 0 itself has no sign."""
    if explanation.standard_error is None or explanation.effective_points is None or not explanation.signed:
        return None
    top = explanation.top(min(cells, explanation.values[0].numel()))
    places = (top.time * explanation.values.shape[2] + top.channel).clamp(min=0)
    low, high = (side.flatten(1).gather(1, places) for side in explanation.interval(0.95))
    certain = ((low > 0) | (high < 0))[top.values != 0]
    return float(certain.double().mean()) if certain.numel() else None
