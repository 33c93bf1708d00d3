"""How sure an explanation is, for those who read it: no settings, and nothing to type.

``Explanation.verdict`` says the same to those who can run it again. Both are about the same numbers, those of
:mod:`tempograd.explanation.diagnostics`.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from tempograd.core import validation
from tempograd.core.errors import InputError
from tempograd.core.formatting import counted, percent
from tempograd.explanation import Explanation, diagnostics
from tempograd.explanation.diagnostics import GOAL, MOST, SLACK, Errors

STRONGEST = 10  # values of each series whose signs are what people read first
Badge = Literal["converged", "rough", "exact", "unknown", "unreliable"]
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class ReaderVerdict(NamedTuple):
    """How sure an explanation is: one word for a badge, and a sentence that begins with such a word."""

    badge: Badge
    text: str


def reader_verdict(explanation: Explanation, i: int | None = None) -> ReaderVerdict:
    """Return how sure series ``i`` is, by default all of them, in words for readers."""
    if i is not None and validation.check_int(i, "i", 0) >= len(explanation):
        raise InputError(f"There is no series {i}: the explanation holds {len(explanation)}, counted from 0.")
    part = explanation if i is None else explanation[i]
    told = diagnostics.has_content(part)
    if not bool(told.any()):
        return ReaderVerdict("unknown", "nothing was explained")
    part = part if bool(told.all()) else part[told]
    return _objection(part) or _judged(part)


def doubt(explanation: Explanation, row: int) -> str:
    """Say what no further samples would mend of a series, or of most of them; nothing where nothing is known."""
    one, check = explanation[row], explanation.gradient_check
    if not bool(diagnostics.has_content(one).all()):
        return ""
    found = _objection(one)
    if found is None and check is not None and diagnostics.mostly_wrong(check):
        found = _objection(explanation)
    return "" if found is None else found.text


def _objection(part: Explanation) -> ReaderVerdict | None:
    """Say what no further samples would mend."""
    if diagnostics.noisy(part):
        return ReaderVerdict("unreliable", f"noisy: {diagnostics.noise(part)}")
    against = diagnostics.against(part)
    worst = against.worst(part.gradient_check)
    if not worst:
        return None
    bad = int(getattr(against, worst).sum())
    where = f" in {bad:,} of {len(part):,} series" if 0 < bad < len(part) else ""
    said = {
        "undefined": "not known: the model has no answer at the baseline that values are compared with",
        "wrong": "not reliable: the model's slopes, which scores are made of, do not match its predictions",
        "empty": "nothing was found: the prediction changes, but no value alone changes it",
    }
    return ReaderVerdict("unknown" if worst == "undefined" else "unreliable", said[worst] + where)


def _judged(part: Explanation) -> ReaderVerdict:
    if part.standard_error is None or (part.draws > 1 and diagnostics.incomplete(part)):
        return _without_error(part)
    found = diagnostics.errors(part)
    badge, text = _sizes(found)
    signs = signs_text(part)
    return ReaderVerdict(badge, f"{text}{f', {signs}' if signs else ''}{_unseen(found)}")


def _sizes(found: Errors) -> tuple[Badge, str]:
    """Say how good the sizes of scores are; of many series, those of the middle one."""
    count, wrong = len(found.error), [e for e, good in zip(found.error, found.good, strict=True) if not good]
    bad, missed, middle, worst = len(wrong), sum(found.missed), _middle(found.error), max(found.error)
    badge: Badge = "rough" if bad > (1 - MOST) * count else "converged"
    if found.top:
        moves = "no longer changes" if badge == "converged" else "still changes"
        return badge, f"{badge}: the strongest tenth of the values {moves} as samples are added"
    if 2 * missed > bad:
        return "rough", f"rough: a part of the change of the prediction was not seen{_of(missed, count)}"
    large = worst > SLACK * found.goal  # else some cells have no error, and :func:`_unseen` tells how many
    if badge == "rough":
        off = f"sizes may be off by {_about(_middle(wrong))}" if large else "sizes of some values are not known"
        return badge, f"rough: {off}{_of(bad, count)}"
    if bad:
        rest = f", in the others they may be off by up to {percent(worst)}" if large else ""
        return badge, f"converged in {count - bad:,} of {count:,} series: sizes are good to {_about(middle)}{rest}"
    at_worst = f" and to {percent(worst)} at worst" if count > 1 and percent(worst) != percent(middle) else ""
    return badge, f"converged: sizes are good to {_about(middle)}{at_worst}"


def _middle(errors: Sequence[float]) -> float:
    return sorted(errors)[(len(errors) - 1) // 2]


def _about(error: float) -> str:
    if not math.isfinite(error):
        return "any amount, which is not known"
    return f"{'about ' * (0.001 <= error <= 1)}{percent(error)}"


def _of(bad: int, count: int) -> str:
    return f" in {bad:,} of {count:,} series" if bad < count else ""


def _unseen(found: Errors) -> str:
    count = sum(found.unseen)
    return f"; {counted(count, 'value was', 'values were')} hardly looked at" if count else ""


def signs_text(part: Explanation) -> str:
    """Say of how many of the strongest values the sign is certain at 95 %; nothing where there is no sign."""
    if not part.signed or part.ess is None or part.standard_error is None:
        return ""
    top = part.top(min(STRONGEST, part.values[0].numel()))
    places = (top.time * part.values.shape[2] + top.channel).clamp(min=0)
    low, high = (side.flatten(1).gather(1, places) for side in part.interval(0.95))
    known = (top.time >= 0) & (top.values != 0)
    sure, total = int((((low > 0) | (high < 0)) & known).sum()), int(known.sum())
    if len(part) > 1 and total:
        share = "all" if sure == total else f"{percent(sure / total)} of the"
        return f"the signs of {share} strongest values are certain"
    if total < 2:
        return "" if not total else f"the sign of the only value is {'' if sure else 'not '}certain"
    which = f"the {NUMBERS[total]} strongest values"
    if sure in {0, 1}:
        return f"the sign of {'one' if sure else 'none'} of {which} is certain"
    return f"the signs of {'' if sure == total else f'{NUMBERS[sure]} of '}{which} are certain"


def _without_error(part: Explanation) -> ReaderVerdict:
    """Judge scores without a sampling error: by their sum where that is promised."""
    gap = diagnostics.completeness_gap(part)
    if gap is not None and gap > GOAL:
        return ReaderVerdict("rough", f"rough: the scores miss {percent(gap)} of the change of the prediction")
    if gap is not None:
        close = "" if gap < 0.001 else f" to {percent(gap)}"
        return ReaderVerdict("exact", f"exact: the scores add up to the change of the prediction{close}")
    if part.facts.deterministic and part.facts.needs_gradient and part.gradient_check is None:
        return ReaderVerdict(
            "unknown",
            "not known: there is no sampling error, but nobody compared the model's slopes, which scores are made "
            "of, with its predictions",
        )
    if part.facts.deterministic:
        return ReaderVerdict("exact", "exact: the method takes no random samples, so there is no sampling error")
    return ReaderVerdict("unknown", "not known: the method tells no error of its scores")
