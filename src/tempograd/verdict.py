"""How good is this map? One line for people: how far the scores are from converged, and what to type."""

import math
from typing import Any, NamedTuple

from tempograd import checks
from tempograd.errors import InputError
from tempograd.explainers import EXPLAINERS
from tempograd.explanation import Explanation

GOAL = 0.1  # relative error that is good enough where no tolerance was asked for
SLACK = 1.05  # an estimate of an error is rough itself
MOST = 0.95  # share of the series that must reach the goal
SETTINGS = ("points", "samples")  # what methods call their number of draws


class Errors(NamedTuple):
    """Estimated relative errors of some series, and what they cost."""

    error: list[float]
    points: list[int]  # empty where nobody knows
    unit: str  # the setting that buys them, a word as well
    unseen: int  # observed cells with fewer than two draws
    goal: float


def sentence(explanation: Explanation, i: int | None = None, *, option: str = "") -> str:
    """Return the verdict on series ``i``, by default on all of them.

    ``option`` stands before what is to be typed: nothing in Python, ``--set`` and a space on the command line.
    """
    if i is not None and checks.whole(i, "i", 0) >= len(explanation):
        raise InputError(f"There is no series {i}: the explanation holds {len(explanation)}, counted from 0.")
    part = explanation if i is None else explanation[i : i + 1]
    if len(part) == 0:
        return "nothing was explained"
    if part.standard_error is None:
        return _without_draws(part, option)
    found = errors(part)
    text = _of_one(found, part, option) if len(part) == 1 else _of_many(found, part, option)
    if found.unseen:
        text += f"; {found.unseen:,} {'cell was' if found.unseen == 1 else 'cells were'} seen less than twice"
    return text


def goal(explanation: Explanation) -> float:
    """Return the relative error to reach: the tolerance that was asked for, else :data:`GOAL`."""
    asked = explanation.parameters.get("tolerance")
    return float(asked) if isinstance(asked, (int, float)) and asked > 0 else GOAL


def errors(explanation: Explanation) -> Errors:
    """Return how far each series of a random method is from its converged map."""
    relative, error = explanation.relative_error, explanation.standard_error
    if relative is None or error is None:
        raise InputError(f"{explanation.method} has no Monte-Carlo error.")
    unit = next((name for name in SETTINGS if name in explanation.parameters), SETTINGS[0])
    asked = explanation.parameters.get(unit)
    points = [asked] * len(explanation) if isinstance(asked, int) else []
    if explanation.passes is not None:
        points = explanation.passes.tolist()
    unseen = error.isinf() if explanation.mask is None else error.isinf() & explanation.mask
    return Errors(relative.tolist(), points, unit, int(unseen.sum()), goal(explanation))


def needed(points: int, error: float, goal: float) -> int:
    r"""Return the points that bring ``error`` to ``goal``, :math:`n (e / g)^2`, rounded up to two digits.

    Examples
    --------
    >>> needed(50, 0.22, 0.08), needed(50, 0.1, 0.1), needed(3, 0.2, 0.1)
    (380, 50, 12)
    """
    exact = points * (error / goal) ** 2
    digit = int(10 ** max(math.floor(math.log10(exact)) - 1, 0))
    return math.ceil(exact / digit * (1 - 1e-6)) * digit  # errors are float32: no digit more for the rounding


def completeness_gap(explanation: Explanation) -> float | None:
    r"""Return by how much the scores of a complete method miss the change of the prediction.

    .. math:: \frac{\sum_n |\sum_{t,d} A_{ntd} - (F(x_n) - F(x'_n))|}{\sum_n |F(x_n) - F(x'_n)|}

    None for methods that promise no such sum, and where the prediction does not change.
    """
    residual, change = explanation.residual, explanation.change
    promised = explanation.method in EXPLAINERS and EXPLAINERS[explanation.method].complete
    if residual is None or change is None or not promised or explanation.parameters.get("quirks"):
        return None
    total = float(change.double().abs().sum())
    return float(residual.double().abs().sum()) / total if total else None


def percent(share: float) -> str:
    """Write an error with two digits.

    Examples
    --------
    >>> percent(0.0183), percent(0.224), percent(0.0002), percent(1.5)
    ('1.8 %', '22 %', 'under 0.1 %', 'over 100 %')
    """
    if share > 1:
        return "over 100 %"
    return f"{float(f'{100 * share:.2g}'):g} %" if share >= 0.001 else "under 0.1 %"


def _of_one(found: Errors, explanation: Explanation, option: str) -> str:
    (error,) = found.error
    if error <= SLACK * found.goal:
        return f"converged: {_about(error)}{_in_brackets(found)}"
    advice = _advice(found, needs(found), explanation.parameters, option)
    return f"not converged: {_about(error)}{_with(found)}{advice}"


def _of_many(found: Errors, explanation: Explanation, option: str) -> str:
    ordered, count = sorted(found.error), len(found.error)
    middle, worst = ordered[(count - 1) // 2], ordered[-1]
    above = sum(error > SLACK * found.goal for error in ordered)
    if not above:
        return f"converged: {_about(middle)}, at most {percent(worst)}{_in_brackets(found)}"
    where = explanation.called(found.error.index(worst))
    if above <= (1 - MOST) * count:
        return (
            f"converged in {count - above:,} of {count:,} series: {_about(middle)}{_in_brackets(found)}, but "
            f"{percent(worst)} in series {where}{_advice(found, None, explanation.parameters, option)}"
        )
    enough = sorted(needs(found))[math.ceil(MOST * count) - 1 :][:1]
    advice = _advice(found, enough, explanation.parameters, option)
    return (
        f"not converged: {_about(middle)}{_with(found)}, above {percent(found.goal)} in {above:,} of {count:,} "
        f"series{advice}"
    )


def needs(found: Errors) -> list[int]:
    """Return the points that each series needs to reach the goal; nothing where that cannot be told."""
    pairs = zip(found.points, found.error, strict=False)
    return [needed(n, e, found.goal) if e else n for n, e in pairs if math.isfinite(e) and n > 0]


def _advice(found: Errors, enough: list[int] | None, parameters: dict[str, Any], option: str) -> str:
    """Say what to type: more points, a tolerance, or both; None for points where a few series are no reason."""
    stops, tolerance = parameters.get("tolerance") is not None, f"{option}tolerance={found.goal:g}"
    setting = "max_points" if stops else found.unit
    more = [f"{option}{setting}={enough[0]} for {percent(found.goal)}"] if enough else []
    ways = more + ([tolerance] if "tolerance" in parameters and not stops else [])
    return f"; pass {', or '.join(ways)}" if ways else ""


def _about(error: float) -> str:
    if not math.isfinite(error):
        return "error not known"
    return f"error {'' if error > 1 or error < 0.001 else 'about '}{percent(error)}"


def _with(found: Errors) -> str:
    return f" with {_points(found)}" if found.points else ""


def _in_brackets(found: Errors) -> str:
    return f" ({_points(found)})" if found.points else ""


def _points(found: Errors) -> str:
    low, high = min(found.points), max(found.points)
    if low == high:
        return f"{low:,} {found.unit if low != 1 else found.unit[:-1]}"
    mean = sum(found.points) / len(found.points)
    return f"{low:,} to {high:,} {found.unit}, {mean:,.0f} on average"


def _without_draws(explanation: Explanation, option: str) -> str:
    """Judge scores without Monte-Carlo error: by their sum where that is promised."""
    gap = completeness_gap(explanation)
    if gap is not None and gap <= GOAL:
        return f"complete to {percent(max(gap, 0.001))}: the scores sum to the change of the prediction"
    if gap is not None:
        points = explanation.parameters.get("points")
        advice = f"; pass {option}points={4 * points}" if isinstance(points, int) else ""
        return f"not complete: the scores miss {percent(gap)} of the change of the prediction{advice}"
    kind = EXPLAINERS.get(explanation.method)
    if kind is None:
        return "no error is known"
    if kind.deterministic:
        return "no sampling error"
    return "no error is known: explain again with another seed to see how much the scores move"
