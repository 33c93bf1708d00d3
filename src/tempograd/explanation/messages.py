"""How good is this map? One line for people: how far the scores are from converged, and what to type."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tempograd._utils import validation
from tempograd._utils.formatting import percent
from tempograd.engine import Found, hidden
from tempograd.errors import InputError
from tempograd.explainers import EXPLAINERS
from tempograd.explanation import diagnostics
from tempograd.explanation.core import Explanation

GOAL = 0.1  # relative error that is good enough where no tolerance was asked for
SLACK = 1.05  # an estimate of an error is rough itself
MOST = 0.95  # share of the series that must reach the goal
MOST_POINTS = 1_000_000  # beyond, an extrapolation from few points means nothing
SETTINGS = ("points", "samples")  # what methods call their number of draws


class Errors(NamedTuple):
    """Estimated relative errors of some series, and what they cost."""

    error: list[float]
    good: list[bool]  # whether each is good enough: below the goal or stable, and undisputed
    points: list[int]  # empty where nobody knows
    unit: str  # the setting that buys them, a word as well
    unseen: int  # observed cells with fewer than two draws
    goal: float
    top: bool  # whether the run stopped by the top tenth of the cells and not by the error
    missed: tuple[bool, ...] = ()  # whether no draw saw a change of the prediction that could be this large


class Curve(NamedTuple):
    """How the estimated relative error falls as points are added."""

    points: NDArray[np.int64]  # (looks,)
    error: NDArray[np.float64]  # (series, looks); a series that stopped keeps its last error
    middle: NDArray[np.float64]  # (looks,), and the limits that hold nine of ten series
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    goal: float


def sentence(explanation: Explanation, i: int | None = None, *, option: str = "") -> str:
    """Return the verdict on series ``i``, by default on all of them.

    ``option`` stands before what is to be typed: nothing in Python, ``--set`` and a space on the command line.
    """
    if i is not None and validation.whole(i, "i", 0) >= len(explanation):
        raise InputError(f"There is no series {i}: the explanation holds {len(explanation)}, counted from 0.")
    part = explanation if i is None else explanation[i : i + 1]
    asked = diagnostics.asked(part)
    if len(part) == 0 or not asked.any():
        why = "" if len(part) == 0 else ": steps= or mask= leave nothing to explain"
        return f"nothing was explained{why}"
    rest = ""
    if not asked.all():
        part, rest = part[asked], f"; nothing was explained in {int((~asked).sum()):,} series"
    return (_noise(part, option) or diagnostics.objection(part) or _judged(part, option)) + rest


def _noise(part: Explanation, option: str) -> str:
    if not part.varies or part.draws > 1:
        return ""
    return f"noisy: the model answers the same series differently each time; pass {option}draws=32"


def _judged(part: Explanation, option: str) -> str:
    if part.standard_error is None or (part.draws > 1 and _incomplete(part)):
        return _without_draws(part, option) + diagnostics.few(part)
    found = errors(part)
    text = _of_one(found, part, option) if len(part) == 1 else _of_many(found, part, option)
    if found.unseen:
        text += f"; {found.unseen:,} {'cell was' if found.unseen == 1 else 'cells were'} seen less than twice"
    return text + diagnostics.few(part)


def poor(explanation: Explanation) -> bool:
    """Tell whether the scores cannot be relied on: too few series reach the goal, or something speaks against."""
    asked = diagnostics.asked(explanation)
    explanation = explanation if asked.all() else explanation[asked]
    if len(explanation) == 0 or _noise(explanation, "") or diagnostics.objection(explanation):
        return len(explanation) > 0
    if explanation.standard_error is None:
        gap = completeness_gap(explanation)
        return gap is not None and gap > GOAL
    if explanation.draws > 1 and _incomplete(explanation):
        return True
    return errors(explanation).good.count(False) > (1 - MOST) * len(explanation)


def goal(explanation: Explanation) -> float:
    """Return the relative error to reach: the tolerance that was asked for, else :data:`GOAL`."""
    asked = explanation.parameters.get("tolerance")
    return GOAL if asked is None or _by_top(explanation) else float(asked)


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
    unmet = _unmet(explanation, points)
    if explanation.draws > 1:
        unit, points = "draws", [explanation.draws] * len(explanation)
    unseen = error.isinf() if explanation.mask is None else error.isinf() & explanation.mask
    aim, top = goal(explanation), _by_top(explanation)
    relative = torch.maximum(relative.cpu(), _steep(explanation))
    good = [value <= SLACK * aim for value in relative.tolist()]
    # where the error is too large anyway, more points come first
    missed = [value > SLACK * aim and fine for value, fine in zip(unmet, good, strict=True)]
    if top:  # a run that was not stopped by its top had all the points there were
        good = [count < explanation.parameters.get("max_points", 0) for count in points]
    against = diagnostics.against(explanation).tolist()
    good = [fine and not (bad or blind) for fine, bad, blind in zip(good, against, missed, strict=True)]
    worst = [max(value, more * blind) for value, more, blind in zip(relative.tolist(), unmet, missed, strict=True)]
    return Errors(worst, good, points, unit, int(unseen.sum()), aim, top, tuple(missed))


def _unmet(explanation: Explanation, points: list[int]) -> list[float]:
    """Return what a change that no draw has met may add to each map, as a share of it."""
    check, change = explanation.gradient_check, explanation.change
    if check is None or change is None or not points:
        return [0.0] * len(explanation)
    rest = change.double().abs() - check.seen.to(change.device)
    share = hidden(
        explanation.values, change, check.seen.to(change.device), torch.tensor(points, device=change.device)
    )
    return torch.where(rest > diagnostics.rounding(explanation), share, 0).tolist()


def _steep(explanation: Explanation) -> torch.Tensor:
    """Return the share of the change that slopes miss, where steep places were met, (series,)."""
    check = explanation.gradient_check
    if check is None:
        return torch.zeros(len(explanation))
    return torch.where(check.found == Found.STEEP, check.missing.abs(), 0).cpu()


def _by_top(explanation: Explanation) -> bool:
    given = explanation.parameters
    by_top = given.get("tolerance") is not None and given.get("until") == "top"
    return by_top and explanation.draws == 1


def curve(explanation: Explanation) -> Curve | None:
    """Return how the error fell; None where nobody looked on the way."""
    if explanation.curve_points is None or explanation.curve_error is None:
        return None
    error = explanation.curve_error.double().cpu().numpy().copy()
    for look in range(1, error.shape[1]):
        stopped = np.isnan(error[:, look])
        error[stopped, look] = error[stopped, look - 1]
    started = error[~np.isnan(error).all(1)]
    if started.size == 0 or started.shape[1] < 2:  # one look is no curve
        return None
    ordered, last = np.sort(started, axis=0), len(started) - 1
    places = (math.floor((1 - MOST) * last), last // 2, math.ceil(MOST * last))
    low, middle, high = (ordered[place] for place in places)
    points = explanation.curve_points.long().cpu().numpy()
    return Curve(points, error, middle, low, high, goal(explanation))


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


def complete(explanation: Explanation) -> bool:
    """Tell whether the method promises that scores sum to the change; with known faults switched on none does."""
    kind = EXPLAINERS.get(explanation.method)
    return kind is not None and kind.complete and not explanation.parameters.get("quirks")


def completeness_gap(explanation: Explanation) -> float | None:
    r"""Return by how much the scores of a complete method miss the change of the prediction.

    .. math:: \frac{\sum_n |\sum_{t,d} A_{ntd} - (F(x_n) - F(x'_n))|}{\sum_n |F(x_n) - F(x'_n)|}

    None for methods that promise no such sum, and where the prediction does not change.
    """
    residual, change = explanation.residual, explanation.change
    if residual is None or change is None or not complete(explanation):
        return None
    total = float(change.double().abs().sum())
    return float(residual.double().abs().sum()) / total if total else None


def _incomplete(explanation: Explanation) -> bool:
    gap = completeness_gap(explanation)
    return gap is not None and gap > GOAL


def _of_one(found: Errors, explanation: Explanation, option: str) -> str:
    (error,) = found.error
    if any(found.missed):
        return _missed(explanation)
    if all(found.good):
        return f"{_reached(found)}: {_about(error)}{_in_brackets(found)}"
    advice = _advice(found, needs(found), explanation.parameters, option)
    return f"not {_reached(found)}: {_about(error)}{_with(found)}{advice}"


def _of_many(found: Errors, explanation: Explanation, option: str) -> str:
    ordered, count, bad = sorted(found.error), len(found.error), found.good.count(False)
    middle, worst = ordered[(count - 1) // 2], ordered[-1]
    if not bad:
        return f"{_reached(found)}: {_about(middle)}, at most {percent(worst)}{_in_brackets(found)}"
    few, given = bad <= (1 - MOST) * count, explanation.parameters
    if 2 * sum(found.missed) > bad:
        return _missed(explanation, sum(found.missed))
    enough = sorted(needs(found))[math.ceil(MOST * count) - 1 :]  # empty if too many cannot be told
    if few and given.get("tolerance") is None:
        enough = []  # a few hard series are no reason to pay for more points of all
    advice = _advice(found, enough[-1:] if few else enough[:1], given, option)
    if few:
        where = explanation.called(found.error.index(worst))
        return (
            f"{_reached(found)} in {count - bad:,} of {count:,} series: {_about(middle)}{_in_brackets(found)}, "
            f"but {percent(worst)} in series {where}{advice}"
        )
    what = "" if found.top else f"above {percent(found.goal)} "
    return f"not {_reached(found)}: {_about(middle)}{_with(found)}, {what}in {bad:,} of {count:,} series{advice}"


def _missed(explanation: Explanation, bad: int = 1) -> str:
    """Say that the change of the prediction was met by no draw."""
    check, change = explanation.gradient_check, explanation.change
    if len(explanation) == 1 and check is not None and change is not None:
        return (
            f"not converged: the prediction changes by {float(change):.2g} from the baseline to the series, and "
            f"no point saw more than {float(check.seen):.2g} of it; try another baseline"
        )
    return (
        f"not converged: in {bad:,} of {len(explanation):,} series no point saw more than a part of the change of "
        "the prediction from the baseline to the series; try another baseline"
    )


def _reached(found: Errors) -> str:
    return "stable in its top tenth" if found.top else "converged"


def needs(found: Errors) -> list[int]:
    """Return the points that each series needs to reach the goal; nothing where that cannot be told."""
    if found.top:  # how much longer the ranking moves cannot be told: look once more
        return [2 * count for count in found.points]
    pairs = zip(found.points, found.error, strict=False)
    points = [needed(n, e, found.goal) if e else n for n, e in pairs if math.isfinite(e) and n > 0]
    return [count for count in points if count <= MOST_POINTS]


def _advice(found: Errors, enough: list[int], parameters: dict[str, Any], option: str) -> str:
    """Say what to type: more points, or a tolerance where the method takes one and has none."""
    if found.unit == "draws":
        return f"; pass {option}draws={enough[0]} for {percent(found.goal)}" if enough else ""
    asked = parameters.get("tolerance") is not None
    takes = "tolerance" in parameters and parameters.get("segments") != 0 and parameters.get("controls", True)
    for_goal = "" if found.top else f" for {percent(found.goal)}"
    ways = [f"{option}{'max_points' if asked else found.unit}={enough[0]}{for_goal}"] if enough else []
    if takes and not asked and not parameters.get("quirks"):
        first = 0 if len(found.error) > 1 else 1  # of many series the easy ones then cost less
        ways.insert(first, f"{option}tolerance={found.goal:g}")
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
