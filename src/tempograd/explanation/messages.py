"""The verdict in words: one line for people, on how good a map is and what to type to make it better."""

import math
from typing import TYPE_CHECKING

import torch

from tempograd.core import validation
from tempograd.core.errors import InputError
from tempograd.core.estimate import LOOKED, Found, GradientCheck
from tempograd.core.findings import Dialect, arg, said
from tempograd.core.formatting import counted, percent
from tempograd.explanation import diagnostics
from tempograd.explanation.diagnostics import GOAL, MOST, SLACK, Against, Errors

if TYPE_CHECKING:
    from tempograd.explanation.core import Explanation

CAUSES = "detached statistics, no_grad, rounding, thresholds, quantised layers, categories or tokens"
INSTEAD = "use a method without gradients, such as occlusion"


def sentence(explanation: "Explanation", i: int | None = None, dialect: Dialect = "python") -> str:
    """Return the verdict on series ``i``, by default on all of them, in the words of a reader."""
    return said(marked_sentence(explanation, i), dialect)


def marked_sentence(explanation: "Explanation", i: int | None = None) -> str:
    """Return the same with its arguments marked."""
    if i is not None and validation.check_int(i, "i", 0) >= len(explanation):
        raise InputError(f"There is no series {i}: the explanation holds {len(explanation)}, counted from 0.")
    part = explanation if i is None else explanation[i : i + 1]
    explained = diagnostics.has_content(part)
    if len(part) == 0 or not explained.any():
        why = "" if len(part) == 0 else f": {arg:question.steps} or the mask leave nothing to explain"
        return f"nothing was explained{why}"
    rest = "" if explained.all() else f"; nothing was explained in {int((~explained).sum()):,} series"
    part = part if explained.all() else part[explained]
    if diagnostics.noisy(part):
        advice = "" if part.mixes_series else f"; pass {arg:question.draws=32}"
        return f"noisy: {diagnostics.noise(part)}{advice}{rest}"
    against = diagnostics.against(part)
    rest = rest if part.background is None else f"; compared with other series{rest}"
    return (_objection(part, against) or _judged(part) + _few(against)) + rest


def _judged(part: "Explanation") -> str:
    if part.standard_error is None or (part.draws > 1 and diagnostics.incomplete(part)):
        return _without_draws(part)
    found = diagnostics.errors(part)
    text = _of_one(found, part) if len(part) == 1 else _of_many(found, part)
    return text if not any(found.unseen) else _with_unseen(found, part, text)


def _with_unseen(found: Errors, part: "Explanation", text: str) -> str:
    """Say of how many cells no error is known, which no verdict on the others makes up for."""
    told = f"{counted(sum(found.unseen), 'cell was', 'cells were')} seen less than twice"
    if not text.startswith(_reached(found)):
        return f"{text}; {told}"
    told += f", so {'its' if sum(found.unseen) == 1 else 'their'} error is not known"
    if found.good.count(False) <= (1 - MOST) * len(part):
        return f"{told}; {_of_many(found._replace(small=found.good), part)}"
    more = _advice(found, [4 * count for count in found.points[:1]], part) if "; pass " not in text else ""
    advice = more.replace(f" for {percent(found.goal)}", "")  # nobody knows what it takes
    return f"not {_reached(found)}: {told}; {text.partition(': ')[2]}{advice}"


def _few(against: Against) -> str:
    """Count the series that something speaks against, to be said behind a verdict on all of them."""
    parts = {
        "the gradient is not that of the prediction": against.wrong,
        "all scores are 0": against.empty,
        "the model gives no number at the baseline": against.undefined,
    }
    return "".join(f"; {what} in {int(bad.sum()):,} series" for what, bad in parts.items() if bad.any())


def _objection(part: "Explanation", against: Against) -> str:
    """Say what no number of samples can repair; nothing if at most a few series are concerned."""
    count, check, worst = len(part), part.gradient_check, against.worst(part.gradient_check)
    if not worst:
        return ""
    bad = int(getattr(against, worst).sum())
    if worst == "wrong" and check is not None:
        return _about_gradient(check, bad)
    if worst == "undefined":
        where = "" if count == 1 else f" of {bad:,} of {count:,} series"
        return (
            f"not known: the model answers the baseline{where} with NaN or infinity (a division by its scale, a "
            "logarithm?); pass a baseline that it can answer, such as a typical series"
        )
    where = "" if count == 1 else f" in {bad:,} of {count:,} series"
    size = "" if count > 1 or part.delta is None else f" by {float(part.delta):.2g}"
    what = f"all scores are 0{where}, but the prediction changes{size} from the baseline to the series"
    if part.facts.needs_gradient:
        return f"{what}: it is flat where its gradient was taken (saturation, {CAUSES}); try another baseline"
    return f"{what}: no part that was taken away changes it alone; try another baseline"


def wrong_gradient(explanation: "Explanation") -> str:
    """Say that the gradient of more than a few series is not that of the prediction; nothing where it is.

    Nor where paths were hardly looked at: with few points about one honest series in a hundred is accused.
    """
    check, points = explanation.gradient_check, explanation.n_evals
    if check is None or diagnostics.noisy(explanation) or (points is not None and bool((points < LOOKED).any())):
        return ""
    against = diagnostics.against(explanation)
    return _about_gradient(check, int(against.wrong.sum())) if against.worst(check) == "wrong" else ""


def _about_gradient(check: GradientCheck, bad: int) -> str:
    """Say that the gradient is not that of the prediction, by how much, and what it may be."""
    count, off = len(check), check.found == Found.WRONG
    where = "" if bad in (0, count) else f" in {bad:,} of {count:,} series"
    if 2 * int(off.sum()) < bad:
        return (
            f"the prediction jumps where its gradient sees nothing{where} ({CAUSES}, or a step too steep for "
            f"these points): try more points, or {INSTEAD}"
        )
    part = check[off] if bool(off.any()) else check
    share = torch.maximum(torch.maximum(part.gap, part.beyond), part.missing.abs()).clamp(max=1)
    return (
        f"the gradient is not that of the prediction{where}: it misses about {percent(float(share.median()))} of "
        f"the changes ({CAUSES} in the model?): {INSTEAD}"
    )


def _of_one(found: Errors, explanation: "Explanation") -> str:
    error, used = about_error(found.error[0]), _points(found)
    if any(found.missed):
        return _missed(explanation)
    if all(found.small):
        return f"{_reached(found)}: {error}{_seen(used)}"
    advice = _advice(found, diagnostics.needs(found), explanation)
    return f"not {_reached(found)}: {error}{used and f' with {used}'}{advice}"


def _of_many(found: Errors, explanation: "Explanation") -> str:
    ordered, count, bad = sorted(found.error), len(found.error), found.small.count(False)
    middle, worst, used = about_error(ordered[(count - 1) // 2]), ordered[-1], _points(found)
    if not bad:
        return f"{_reached(found)}: {middle}, at most {percent(worst)}{_seen(used)}"
    if 2 * sum(found.missed) > bad:
        return _missed(explanation, sum(found.missed))
    few = bad <= (1 - MOST) * count
    enough = sorted(diagnostics.needs(found))[math.ceil(MOST * count) - 1 :]  # empty if too many cannot be told
    if few and diagnostics.tolerance(explanation) is None:
        enough = []  # a few hard series are no reason to pay for more points of all
    advice = _advice(found, enough[-1:] if few else enough[:1], explanation)
    if few:
        where = explanation.label(found.error.index(worst))
        but = f", but {percent(worst)} in series {where}" if worst > SLACK * found.goal else ""
        return f"{_reached(found)} in {count - bad:,} of {count:,} series: {middle}{_seen(used)}{but}{advice}"
    what = "" if found.top else f"above {percent(found.goal)} "
    return (
        f"not {_reached(found)}: {middle}{used and f' with {used}'}, {what}in {bad:,} of {count:,} series{advice}"
    )


def _missed(explanation: "Explanation", bad: int = 1) -> str:
    """Say that the change of the prediction was met by no draw."""
    check, delta = explanation.gradient_check, explanation.delta
    if len(explanation) == 1 and check is not None and delta is not None:
        return (
            f"not converged: the prediction changes by {float(delta):.2g} from the baseline to the series, and "
            f"no point saw more than {float(check.seen):.2g} of it; try another baseline"
        )
    return (
        f"not converged: in {bad:,} of {len(explanation):,} series no point saw more than a part of the change of "
        "the prediction from the baseline to the series; try another baseline"
    )


def _seen(used: str) -> str:
    """Say that an error is what these points show of it: they may have missed something."""
    pause = "," if "average" in used else ""
    return used and f" (as far as {used}{pause} can see)"


def _reached(found: Errors) -> str:
    return "stable in its top tenth" if found.top else "converged"


def _advice(found: Errors, enough: list[int], explanation: "Explanation") -> str:
    """Say what to type: more points, or a tolerance where the method takes one and has none."""
    if found.unit == "draws":
        return f"; pass {arg:question.draws={enough[0]}} for {percent(found.goal)}" if enough else ""
    requested = diagnostics.tolerance(explanation) is not None
    for_goal = "" if found.top else f" for {percent(found.goal)}"
    setting = "max_samples" if requested else found.unit
    ways = [f"{arg:method.{setting}={enough[0]}}{for_goal}"] if enough else []
    if explanation.facts.adaptive and not requested:
        first = 0 if len(found.error) > 1 else 1  # of many series the easy ones then cost less
        ways.insert(first, f"{arg:method.tolerance={found.goal:g}}")
    return f"; pass {', or '.join(ways)}" if ways else ""


def about_error(error: float) -> str:
    """Say how large a relative error is.

    Examples
    --------
    >>> about_error(0.1), about_error(0.0002), about_error(math.inf)
    ('error about 10 %', 'error under 0.1 %', 'error not known')
    """
    if not math.isfinite(error):
        return "error not known"
    return f"error {'' if error > 1 or error < 0.001 else 'about '}{percent(error)}"


def _points(found: Errors) -> str:
    if not found.points:
        return ""
    low, high, mean = min(found.points), max(found.points), sum(found.points) / len(found.points)
    unit = found.unit.removeprefix("n_")
    if low == high:
        return f"{low:,} {unit if low != 1 else unit[:-1]}"
    return f"{low:,} to {high:,} {unit}, {mean:,.0f} on average"


def _without_draws(explanation: "Explanation") -> str:
    """Judge scores without Monte-Carlo error: by their sum where that is promised."""
    gap = diagnostics.completeness_gap(explanation)
    if gap is not None and gap <= GOAL:
        return f"complete to {percent(max(gap, 0.001))}: the scores sum to the change of the prediction"
    if gap is not None:
        unit = explanation.facts.unit
        points = explanation.parameters.get(unit)
        advice = f"; pass {arg:method.{unit}={4 * points}}" if isinstance(points, int) else ""
        return f"not complete: the scores miss {percent(gap)} of the change of the prediction{advice}"
    if explanation.facts.deterministic:
        return without_samples(explanation)
    known = explanation.facts.deterministic is not None
    return "no error is known" + known * ": explain again with another seed to see how much the scores move"


def without_samples(explanation: "Explanation") -> str:
    """Say that a method draws nothing, and where nobody looked at the gradient that its scores are made of."""
    looked = not explanation.facts.needs_gradient or explanation.gradient_check is not None
    return "no sampling error" + (
        "" if looked else "; whether the gradient is that of the prediction is not known"
    )
