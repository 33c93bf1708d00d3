"""How good is this map? Numbers: how far it is from converged, and what speaks against it whatever its error."""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core.errors import InputError
from tempograd.core.estimate import LOOKED, Found, GradientCheck, hidden

if TYPE_CHECKING:
    from tempograd.explanation.core import Explanation

GOAL = 0.1  # relative error that is good enough where no tolerance was asked for
SLACK = 1.05  # an estimate of an error is rough itself
MOST = 0.95  # share of the series that must reach the goal
MOST_POINTS = 1_000_000  # beyond, an extrapolation from few points means nothing
MANY = 0.05  # share of the series beyond which the sentence about all of them begins with what speaks against them
TYPICAL, SEVERAL = 0.15, 5  # gap of the middle series that is none of chance, and how many series it takes
ROUNDING = 1e-6  # a change of a probability that is none


class Errors(NamedTuple):
    """Estimated relative errors of some series, and what they cost."""

    error: list[float]
    small: list[bool]  # whether each is good enough: below the goal or stable, and undisputed
    points: list[int]  # empty where nobody knows
    unit: str  # the setting that buys them, a word as well
    unseen: list[int]  # observed cells of each with fewer than two draws, of which no error is known
    goal: float
    top: bool  # whether the run stopped by the top tenth of the cells and not by the error
    missed: tuple[bool, ...] = ()  # whether no draw saw a change of the prediction that could be this large

    @property
    def good(self) -> list[bool]:
        """Whether each is small enough, and known of every cell."""
        return [small and not unseen for small, unseen in zip(self.small, self.unseen, strict=True)]


class ErrorCurve(NamedTuple):
    """How the estimated relative error falls as points are added."""

    points: NDArray[np.int64]  # (looks,)
    error: NDArray[np.float64]  # (series, looks); a series that stopped keeps its last error
    middle: NDArray[np.float64]  # (looks,), and the limits that hold nine of ten series
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    goal: float


class Against(NamedTuple):
    """What speaks against the maps of some series, and no number of samples can repair, (series,) each."""

    undefined: Tensor  # the model gives no number at the baseline, as where it divides by 0
    wrong: Tensor  # the gradient is not that of the prediction
    empty: Tensor  # all scores are 0 though the prediction changes

    def worst(self, check: GradientCheck | None) -> str:
        """Return what concerns more than a few series, the gravest first; nothing if nothing does."""
        many = {name: int(part.sum()) > MANY * len(part) for name, part in self._asdict().items()}
        many["wrong"] |= check is not None and mostly_wrong(check)
        return next((name for name in self._fields if many[name]), "")


def against(explanation: "Explanation") -> Against:
    """Tell for each series what speaks against its map."""
    nothing = torch.zeros(len(explanation), dtype=torch.bool)
    delta, check = explanation.delta, explanation.gradient_check
    wrong = nothing if check is None else check.failed.cpu()
    if delta is None:
        return Against(nothing, wrong, nothing)
    blank = ~explanation.values.flatten(1).any(1).cpu()
    return Against(~delta.isfinite().cpu(), wrong, blank & (delta.abs().cpu() > _rounding(explanation)))


def mostly_wrong(check: GradientCheck) -> bool:
    """Tell whether gradients of more than a few series are wrong, or all together show what one may by chance."""
    if int(check.failed.sum()) > MANY * len(check):
        return True
    told = check.found != Found.UNKNOWN
    if int(told.sum()) < SEVERAL:
        return False
    return any(float(part[told].median()) > TYPICAL for part in (check.gap, check.beyond))


def _rounding(explanation: "Explanation") -> float:
    """Return the change of the prediction that may be rounding; the scale of raw outputs is not known."""
    return ROUNDING if explanation.output == "probability" else 0.0


def has_content(explanation: "Explanation") -> Tensor:
    """Tell for each series whether ``steps`` and the mask leave anything to explain, (series,)."""
    found = torch.ones(len(explanation), dtype=torch.bool)
    for part in (explanation.mask, explanation.steps):
        if isinstance(part, Tensor):
            found &= part.flatten(1).any(1).cpu()
    return found


def noisy(explanation: "Explanation") -> bool:
    """Tell whether the scores hold the noise of a model that draws."""
    return explanation.varies and explanation.draws == 1


def noise(explanation: "Explanation") -> str:
    """Say why the model's answers to the same series differ."""
    if explanation.mixes_series:
        return "the model's answer to a series depends on the others in its batch"
    return "the model answers the same series differently each time"


def poor(explanation: "Explanation") -> bool:
    """Tell whether the scores cannot be relied on: too few series reach the goal, or something speaks against."""
    told = has_content(explanation)
    part = explanation if told.all() else explanation[told]
    if len(part) == 0:
        return False
    if noisy(part) or against(part).worst(part.gradient_check):
        return True
    if part.standard_error is None or (part.draws > 1 and incomplete(part)):
        return incomplete(part)
    return errors(part).good.count(False) > (1 - MOST) * len(part)


def incomplete(explanation: "Explanation") -> bool:
    """Tell whether scores that promise to sum to the change of the prediction do not."""
    gap = completeness_gap(explanation)
    return gap is not None and gap > GOAL


def completeness_gap(explanation: "Explanation") -> float | None:
    r"""Return by how much the scores of a complete method miss the change of the prediction.

    .. math:: \frac{\sum_n |\sum_{t,d} A_{ntd} - (F(x_n) - F(x'_n))|}{\sum_n |F(x_n) - F(x'_n)|}

    None for methods that promise no such sum, and where the prediction does not change.
    """
    residual, delta = explanation.convergence_delta, explanation.delta
    if residual is None or delta is None or not explanation.facts.complete:
        return None
    total = float(delta.double().abs().sum())
    return float(residual.double().abs().sum()) / total if total else None


def goal(explanation: "Explanation") -> float:
    """Return the relative error to reach: the tolerance that was asked for, else :data:`GOAL`."""
    requested = tolerance(explanation)
    return GOAL if requested is None or _by_top(explanation) else requested


def errors(explanation: "Explanation") -> Errors:
    """Return how far each series of a random method is from its converged map."""
    relative, error = explanation.relative_error, explanation.standard_error
    if relative is None or error is None:
        raise InputError(f"{explanation.method} has no Monte-Carlo error.")
    unit = explanation.facts.unit or "n_samples"
    requested = explanation.parameters.get(explanation.facts.unit)
    points = [requested] * len(explanation) if isinstance(requested, int) else []
    if explanation.n_evals is not None:
        points = explanation.n_evals.tolist()
    unmet = _unmet(explanation, points)
    if explanation.draws > 1:
        unit, points = "draws", [explanation.draws] * len(explanation)
    unseen = error.isinf() if explanation.mask is None else error.isinf() & explanation.mask
    aim, top = goal(explanation), _by_top(explanation)
    relative, check, delta = relative.cpu(), explanation.gradient_check, explanation.delta
    if check is not None:  # what slopes miss of the change where steep places were met
        relative = torch.maximum(relative, torch.where(check.found == Found.STEEP, check.missing.abs(), 0).cpu())
    good = [value <= SLACK * aim for value in relative.tolist()]
    # where the error is too large for other reasons, more points come first
    blind = [False] * len(good)
    if check is not None and delta is not None and points:
        blind = (2 * check.seen.to(delta) < delta.abs()).tolist()
        blind = [bad and count >= LOOKED for bad, count in zip(blind, points, strict=True)]
    missed = [value > SLACK * aim and (fine or most) for value, fine, most in zip(unmet, good, blind, strict=True)]
    if top and points:  # a run that was not stopped by its top had all the points there were
        good = [count < (explanation.parameters.get("max_samples") or 0) for count in points]
    against_them = torch.stack(against(explanation)).any(0).tolist()
    good = [fine and not (bad or blind) for fine, bad, blind in zip(good, against_them, missed, strict=True)]
    worst = [max(value, more * blind) for value, more, blind in zip(relative.tolist(), unmet, missed, strict=True)]
    return Errors(worst, good, points, unit, unseen.flatten(1).sum(1).tolist(), aim, top, tuple(missed))


def _unmet(explanation: "Explanation", points: list[int]) -> list[float]:
    """Return what a change that no draw has met may add to each map, as a share of it."""
    check, delta = explanation.gradient_check, explanation.delta
    if check is None or delta is None or not points:
        return [0.0] * len(explanation)
    seen, drawn = check.seen.to(delta.device), torch.tensor(points, device=delta.device)
    rest = delta.double().abs() - seen
    return torch.where(rest > _rounding(explanation), hidden(explanation.values, delta, seen, drawn), 0).tolist()


def _by_top(explanation: "Explanation") -> bool:
    by_top = tolerance(explanation) is not None and explanation.parameters.get("stop_when") == "top"
    return by_top and explanation.draws == 1


def tolerance(explanation: "Explanation") -> float | None:
    """Return the error that was asked for; what methods that are not adaptive call so is something else."""
    requested = explanation.parameters.get("tolerance")
    return float(requested) if requested is not None and explanation.facts.adaptive else None


def error_curve(explanation: "Explanation") -> ErrorCurve | None:
    """Return how the error fell; None where nobody looked on the way."""
    if explanation.curve_samples is None or explanation.curve_error is None:
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
    points = explanation.curve_samples.long().cpu().numpy()
    return ErrorCurve(points, error, middle, low, high, goal(explanation))


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


def needs(found: Errors) -> list[int]:
    """Return the points that each series needs to reach the goal; nothing where that cannot be told."""
    if found.top:  # how much longer the ranking moves cannot be told: look once more
        return [2 * count for count in found.points]
    pairs = zip(found.points, found.error, strict=False)
    points = [needed(n, e, found.goal) if e else n for n, e in pairs if math.isfinite(e) and n > 0]
    return [count for count in points if count <= MOST_POINTS]
