"""How good is this map? Judged once, in numbers and a status, and said to each audience in its dialect."""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import Dialect, arg, said
from tempograd.core.estimate import LOOKED, MANY, Found, GradientCheck, hidden
from tempograd.core.formatting import counted, percent
from tempograd.explanation.record import Record

GOAL = 0.1  # relative error that is good enough where no tolerance was asked for
GIVEN_UP = 3200  # samples where a tolerance gives up, beyond which none are advised
SLACK = 1.05  # an estimate of an error is rough itself
MOST = 0.95  # share of the series that must reach the goal
MOST_POINTS = 1_000_000  # beyond, an extrapolation from few points means nothing
ROUNDING = 1e-6  # a change of a probability that is none

POOR = {"noisy", "mixed", "undefined", "wrong", "empty", "rough", "missed", "incomplete"}
AGAINST = {  # what no number of samples can repair, the gravest first
    "noisy": "the model is stochastic, so repeated calls on the same series differ",
    "mixed": "the model's answer to a series depends on the others in its batch",
    "undefined": "the model answers the baseline with NaN or infinity",
    "wrong": "the gradient is not that of the prediction",
    "empty": "all scores are 0, but the prediction changes",
}
CAUSES = "detached statistics, no_grad, rounding, thresholds, quantised layers, categories or tokens"
INSTEAD = "use a method without gradients, such as occlusion"
SAYS = {  # to those who can run it again
    "nothing": "nothing was explained",
    "noisy": f"noisy: {AGAINST['noisy']}; pass {arg:question.draws=32}",
    "mixed": f"noisy: {AGAINST['mixed']}",
    "wrong": f"{AGAINST['wrong']}{{where}}: it misses about {{gap}} of the changes ({CAUSES} in the model?): "
    f"{INSTEAD}",
    "undefined": f"not known: {AGAINST['undefined']}{{where}} (a division by its scale, a logarithm?); pass a "
    "baseline that it can answer, such as a typical series",
    "empty": f"{AGAINST['empty']}{{where}}: it is flat where the method looked (saturation, {CAUSES}); "
    "try another baseline",
    "missed": "not converged{where}: no point saw more than a part of the change of the prediction from the "
    "baseline to the series; try another baseline",
    "complete": "complete to {gap}: the scores sum to the change of the prediction",
    "incomplete": "not complete: the scores miss {gap} of the change of the prediction{advice}",
    "exact": "no sampling error",
    "unchecked": "no sampling error; whether the gradient is that of the prediction is not known",
    "unknown": "no error is known: explain again with another seed to see how much the scores move",
}


class Quality(NamedTuple):
    """How good the map of each of some series is, (series,) each, on the CPU."""

    error: Tensor  # its estimated relative error; NaN without Monte-Carlo error
    good: Tensor  # whether that is small or stable, and known of every cell, or the sum is right; and undisputed
    points: Tensor  # what it cost; 0 where nobody knows
    against: dict[str, Tensor]  # what no number of samples can repair, by the keys of AGAINST
    unit: str  # the setting that buys points, a word as well
    unseen: Tensor  # observed cells with fewer than two draws, of which no error is known
    missed: Tensor  # whether no draw saw a change of the prediction that could be this large
    goal: float = GOAL
    top: bool = False  # whether the run stopped by the top tenth of the cells and not by the error


class Verdict(NamedTuple):
    """How good the map of one series, or of all, is."""

    status: str  # a key of SAYS, "converged" or "rough"
    part: Record  # of the series of which anything was explained
    left_out: int  # how many others there are
    bad: int  # series that the status, or a good one not, is about
    quality: Quality
    gap: float | None

    @property
    def where(self) -> str:
        """Say in how many series; nothing where it is all of them, or what they show together."""
        return f" in {self.bad:,} of {len(self.part):,} series" if 0 < self.bad < len(self.part) else ""


def judge(explanation: Record, i: int | None = None) -> Verdict:
    """Judge series ``i``, by default all of them."""
    part = explanation if i is None else explanation[validation.check_int(i, "i", 0, len(explanation) - 1)]
    content = torch.ones(len(part), dtype=torch.bool)  # whether steps and the mask leave anything to explain
    for cells in (part.mask, part.steps):
        if isinstance(cells, Tensor):
            content &= cells.flatten(1).any(1).cpu()
    left_out = int((~content).sum())
    part = part[content] if left_out else part
    quality, gap, check = quality_of(part), completeness_gap(part), part.gradient_check
    bad, counts = int((~quality.good).sum()), {name: int(flaw.sum()) for name, flaw in quality.against.items()}
    many = {name for name, count in counts.items() if count > MANY * len(part)}
    if check is not None and check.mostly_wrong:
        many, gap = many | {"wrong"}, missed_share(check)
    if not len(part):
        status = "nothing"
    elif many:
        status = min(many, key=[*AGAINST].index)  # the gravest
        bad = counts[status]
    elif part.standard_error is None or (part.draws > 1 and gap is not None and gap > GOAL):
        status = without_error(part, gap)
    elif bad > (1 - MOST) * len(part):
        status = "missed" if 2 * int(quality.missed.sum()) > bad else "rough"
    else:
        status = "converged"
    return Verdict(status, part, left_out, bad, quality, gap)


def poor(explanation: Record) -> bool:
    """Tell whether the scores cannot be relied on: too few series reach the goal, or something speaks against."""
    return judge(explanation).status in POOR


def without_error(explanation: Record, gap: float | None) -> str:
    """Judge scores without Monte-Carlo error: by their sum where that is promised."""
    facts = explanation.facts
    if gap is not None:
        return "complete" if gap <= GOAL else "incomplete"
    if not facts.deterministic:
        return "unknown"
    return "unchecked" if facts.needs_gradient and explanation.gradient_check is None else "exact"


# The numbers


def against(explanation: Record) -> dict[str, Tensor]:
    """Tell for each series what speaks against its map, by the keys of :data:`AGAINST`."""
    nothing = torch.zeros(len(explanation), dtype=torch.bool)
    found, delta, check = dict.fromkeys(AGAINST, nothing), explanation.delta, explanation.gradient_check
    if explanation.varies and explanation.draws == 1:  # the scores hold the noise of a model that draws
        found["mixed" if explanation.mixes_series else "noisy"] = ~nothing
    if check is not None:
        found["wrong"] = check.failed.cpu()
    if delta is not None:
        blank = ~explanation.values.flatten(1).any(1).cpu()
        found["undefined"] = ~delta.isfinite().cpu()
        found["empty"] = blank & (delta.abs().cpu() > _rounding(explanation))
    return found


def _rounding(explanation: Record) -> float:
    """Return the change of the prediction that may be rounding; the scale of raw outputs is not known."""
    return ROUNDING if explanation.output == "probability" else 0.0


def completeness_gap(explanation: Record) -> float | None:
    r"""Return by how much the scores of a complete method miss the change of the prediction.

    .. math:: \frac{\sum_n |\sum_{t,d} A_{ntd} - (F(x_n) - F(x'_n))|}{\sum_n |F(x_n) - F(x'_n)|}

    None for methods that promise no such sum, and where the prediction does not change.
    """
    residual, delta = explanation.convergence_delta, explanation.delta
    if residual is None or delta is None or not explanation.facts.complete:
        return None
    total = float(delta.double().abs().sum())
    return float(residual.double().abs().sum()) / total if total else None


def goal(explanation: Record) -> float:
    """Return the relative error to reach: the tolerance that was asked for, else :data:`GOAL`."""
    requested = tolerance(explanation)
    return GOAL if requested is None or _by_top(explanation) else requested


def tolerance(explanation: Record) -> float | None:
    """Return the error that was asked for; what methods that are not adaptive call so is something else."""
    requested = explanation.parameters.get("tolerance")
    return float(requested) if requested is not None and explanation.facts.adaptive else None


def _by_top(explanation: Record) -> bool:
    by_top = tolerance(explanation) is not None and explanation.parameters.get("stop_when") == "top"
    return by_top and explanation.draws == 1


def quality_of(explanation: Record) -> Quality:
    """Judge each series by itself: how far it is from its converged map, and what else speaks against that."""
    count, check, delta = len(explanation), explanation.gradient_check, explanation.delta
    unit, settings, error = explanation.facts.unit, explanation.parameters, explanation.standard_error
    points = torch.full((count,), settings[unit] if isinstance(settings.get(unit), int) else 0)
    points = points if explanation.n_evals is None else explanation.n_evals.cpu()
    flaws, missed = against(explanation), torch.zeros(count, dtype=torch.bool)
    good, relative = ~torch.stack([*flaws.values()]).any(0), explanation.relative_error
    if error is None or relative is None:
        residual = explanation.convergence_delta
        if explanation.facts.complete and residual is not None and delta is not None:
            good &= ((residual.abs() <= GOAL * delta.abs()) | (delta == 0)).cpu()
        return Quality(torch.full((count,), torch.nan), good, points, flaws, unit, missed.int(), missed)
    relative, limit, top = relative.cpu().double(), SLACK * goal(explanation), _by_top(explanation)
    if check is not None:  # what slopes miss of the change where steep places were met
        relative = torch.maximum(relative, torch.where(check.found == Found.STEEP, check.missing.abs(), 0).cpu())
    small, known = relative <= limit, bool(points.any())
    if check is not None and delta is not None and known:  # what a change that no draw has met may add
        seen, drawn = check.seen.to(delta.device), points.to(delta.device)
        unmet = hidden(explanation.values, delta, seen, drawn)
        unmet = torch.where(delta.double().abs() - seen > _rounding(explanation), unmet, 0).cpu()
        blind = ((2 * seen.to(delta) < delta.abs()) & (drawn >= LOOKED)).cpu()
        missed = (unmet > limit) & (small | blind)  # else more points come first
        relative = torch.where(missed, torch.maximum(relative, unmet), relative)
    if top and known:  # a run that was not stopped by its top had all the points there were
        small = points < (settings.get("max_samples") or 0)
    unseen = (error.isinf() if explanation.mask is None else error.isinf() & explanation.mask).flatten(1).sum(1)
    good &= small & ~missed & (unseen == 0).cpu()
    if explanation.draws > 1:
        unit, points = "draws", torch.full_like(points, explanation.draws)
    return Quality(
        relative, good, points, flaws, unit or "n_samples", unseen.cpu(), missed, goal(explanation), top
    )


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


def needs(quality: Quality) -> list[int]:
    """Return the points that each series needs to reach the goal; nothing where that cannot be told."""
    points, each = [], (quality.points.tolist(), quality.error.tolist(), quality.unseen.tolist())
    for count, error, unseen in zip(*each, strict=True):
        if count > 0 and quality.top:  # how much longer the ranking moves cannot be told: look once more
            points.append(2 * count)
        elif count > 0 and math.isfinite(error):
            points.append(max(needed(count, error, quality.goal) if error else count, 4 * count * bool(unseen)))
    return [count for count in points if count <= MOST_POINTS]


# What was found out beside the scores


def assumed(explanations: Iterable[Record]) -> str:
    """List what nobody said and was assumed; empty where that is nothing."""
    return "; ".join(f"{text[:1].lower()}{text[1:]}" for text in texts_of(explanations, "assumption", ""))


def texts_of(explanations: Iterable[Record], severity: str, codes: str | tuple[str, ...]) -> dict[str, None]:
    """Return findings, each once, without what is to be typed."""
    findings = [finding for explanation in explanations for finding in explanation.findings]
    kind = [finding for finding in findings if finding.severity == severity and finding.code.startswith(codes)]
    return dict.fromkeys(finding.say("reader") for finding in kind)


# The verdict in one line


def sentence(explanation: Record, i: int | None = None, dialect: Dialect = "python") -> str:
    """Return the verdict on series ``i``, by default on all of them."""
    return verdict_text(judge(explanation, i), dialect)


def verdict_text(verdict: Verdict, dialect: Dialect = "python") -> str:
    """Write a verdict, for a reader without what to type."""
    status, part = verdict.status, verdict.part
    if status in {"converged", "rough"}:
        text = _error_text(verdict)
    else:
        points = part.parameters.get(part.facts.unit)
        text = SAYS[status].format(
            arg=arg,
            where=verdict.where,
            gap=percent(max(verdict.gap or 0, 0.001)),
            advice=f"; pass {arg:method.{part.facts.unit}={4 * points}}" if isinstance(points, int) else "",
        )
    if status not in AGAINST:
        text += in_few({name: int(flaw.sum()) for name, flaw in verdict.quality.against.items()})
    if verdict.left_out and len(part):
        text += f"; nothing was explained in {verdict.left_out:,} series"
    return said(text, dialect)


def in_few(counts: Mapping[str, int]) -> str:
    """Count the series that something speaks against, to be said behind a verdict on all of them."""
    return "".join(f"; {what} in {counts[name]:,} series" for name, what in AGAINST.items() if counts.get(name))


def wrong_gradient(explanation: Record) -> str:
    """Say that the gradient of more than a few series is not that of the prediction; nothing where it is.

    Nor where paths were hardly looked at: with few points about one honest series in a hundred is accused.
    """
    points, verdict = explanation.n_evals, judge(explanation)
    hardly = points is not None and bool((points < LOOKED).any())
    return "" if hardly or verdict.status != "wrong" else verdict_text(verdict)


def missed_share(check: GradientCheck) -> float:
    """Return which share of the changes wrong gradients miss, that of the middle series."""
    off = check.found == Found.WRONG
    part = check[off] if bool(off.any()) else check
    return float(torch.maximum(torch.maximum(part.gap, part.beyond), part.missing.abs()).clamp(max=1).median())


def _error_text(verdict: Verdict) -> str:
    """Say how large the error of the middle series is, and what to type to make it smaller.

    That is more points, or a tolerance where the method takes one and has none.
    """
    part, bad, quality, requested = verdict.part, verdict.bad, verdict.quality, tolerance(verdict.part) is not None
    count, unit, worst = len(part), quality.unit.removeprefix("n_"), float(quality.error.max())
    low, high = int(quality.points.min()), int(quality.points.max())
    used = f"{low:,} to {high:,} {unit}" if low < high else counted(high, unit[:-1]) * bool(high)
    reached, error = "stable in its top tenth" if quality.top else "converged", float(quality.error.median())
    enough = sorted(needs(quality))[math.ceil(MOST * count) - 1 :]  # empty if too many cannot be told
    if verdict.status == "rough":
        text = f"not {reached}{verdict.where}: {about_error(error)}{used and f' with {used}'}"
        enough = enough[:1]
    else:
        where = f" in {count - bad:,} of {count:,} series" if bad else ""
        most = f", at most {percent(worst)}" if count > 1 and not bad else ""
        text = f"{reached}{where}: {about_error(error)}{most}{used and f' (as far as {used} can see)'}"
        if bad and worst > SLACK * quality.goal:
            text += f", but {percent(worst)} in series {part.label(int(quality.error.argmax()))}"
        # a few hard series are no reason to pay for more points of all
        enough = enough[-1:] if requested else []
    noun = "question" if quality.unit == "draws" else "method"
    setting = "max_samples" if requested and noun == "method" else quality.unit
    stops = part.facts.adaptive and not requested and noun == "method"
    ways = [f"{arg:{noun}.{setting}={enough[0]}}"] if enough and not (stops and enough[0] > GIVEN_UP) else []
    if stops:
        ways.append(f"{arg:method.tolerance={quality.goal:g}}")
    text += f"; pass {', or '.join(ways)}" if bad and ways else ""
    unseen = int(quality.unseen.sum())
    return text + (f"; {counted(unseen, 'cell was', 'cells were')} seen less than twice" if unseen else "")


def about_error(error: float) -> str:
    """Say how large a relative error is.

    Examples
    --------
    >>> about_error(0.1), about_error(0.0002), about_error(math.inf)
    ('error about 10 %', 'error under 0.1 %', 'error not known')
    """
    about = "" if error > 1 or error < 0.001 else "about "
    return f"error {about}{percent(error)}" if math.isfinite(error) else "error not known"
