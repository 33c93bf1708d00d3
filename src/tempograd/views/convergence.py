"""How sure the scores are: a line for all series and one for each, sums, signs, and how the error fell."""

from dataclasses import dataclass

from tempograd.explanation import Explanation
from tempograd.explanation.messages import Curve, complete, curve, goal, poor, sentence
from tempograd.views.series import Floats, plain


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
    goal : float
        The relative error to reach.
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

    @classmethod
    def of(cls, found: Explanation, shown: Explanation) -> "Certainty":
        """Judge a method over all series, and each of the shown ones."""
        single = [shown[i : i + 1] for i in range(len(shown))]
        error, change = shown.relative_error, shown.change
        return cls(
            whole=sentence(found),
            each=tuple(map(sentence, single)),
            rough=(poor(found), *map(poor, single)),
            complete=complete(found),
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
