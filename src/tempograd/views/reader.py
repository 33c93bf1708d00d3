"""How sure an explanation is, for those who read it: no settings, and nothing to type.

``Explanation.verdict`` says the same to those who can run it again. Both are about the same numbers, those of
:mod:`tempograd.explanation.diagnostics`.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from tempograd.core.errors import said
from tempograd.core.formatting import counted, percent
from tempograd.explanation import Explanation
from tempograd.explanation.diagnostics import AGAINST, MOST, SLACK, Errors, Verdict, judge
from tempograd.explanation.record import Record

STRONGEST = 10  # values of each series whose signs are what people read first
Badge = Literal["converged", "rough", "exact", "unknown", "unreliable"]
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
SAYS: dict[str, tuple[Badge, str]] = {  # by the status of the verdict
    "nothing": ("unknown", "nothing was explained"),
    "noisy": ("unreliable", f"noisy: {AGAINST['noisy']}"),
    "mixed": ("unreliable", f"noisy: {AGAINST['mixed']}"),
    "undefined": ("unknown", "not known: the model has no answer at the baseline that values are compared with"),
    "wrong": (
        "unreliable",
        "not reliable: the model's slopes, which scores are made of, do not match its predictions",
    ),
    "empty": ("unreliable", "nothing was found: the prediction changes, but no value alone changes it"),
    "incomplete": ("rough", "rough: the scores miss {gap} of the change of the prediction"),
    "complete": ("exact", "exact: the scores add up to the change of the prediction{close}"),
    "exact": ("exact", "exact: the method takes no random samples, so there is no sampling error"),
    "unchecked": ("unknown", "not known: nobody compared the model's slopes with its predictions"),
    "unknown": ("unknown", "not known: the method tells no error of its scores"),
}

ADVICE = re.compile(r"(?<=[:.;?]) (?=[^:.;?]*\{arg:)")  # where what is to be typed begins


def assumed(explanations: Iterable[Explanation]) -> str:
    """List what nobody said and was assumed; empty where that is nothing."""
    return "; ".join(f"{text[:1].lower()}{text[1:]}" for text in _texts(explanations, "assumption", ""))


def doubts(explanations: Iterable[Explanation]) -> str:
    """Say what was found out about model and baseline, in whole sentences; the rest is for whoever runs it."""
    texts = _texts(explanations, "warning", ("model.", "baseline."))
    return " ".join(text if text.endswith("?") else f"{text}." for text in texts)


def _texts(explanations: Iterable[Explanation], severity: str, codes: str | tuple[str, ...]) -> dict[str, None]:
    """Return findings, each once, without what is to be typed."""
    findings = [finding for explanation in explanations for finding in explanation.findings]
    kind = [finding for finding in findings if finding.severity == severity and finding.code.startswith(codes)]
    return dict.fromkeys(said(ADVICE.split(finding.marked)[0]).rstrip(".:;") for finding in kind)


class ReaderVerdict(NamedTuple):
    """How sure an explanation is: one word for a badge, and a sentence that begins with such a word."""

    badge: Badge
    text: str


def reader_verdict(explanation: Explanation, i: int | None = None) -> ReaderVerdict:
    """Return how sure series ``i`` is, by default all of them, in words for readers."""
    verdict = judge(explanation, i)
    if verdict.errors is None:
        return _plain(verdict)
    badge, text = _sizes(verdict.errors)
    signs, unseen = signs_text(verdict.part), sum(verdict.errors.unseen)
    hardly = f"; {counted(unseen, 'value was', 'values were')} hardly looked at" if unseen else ""
    return ReaderVerdict(badge, f"{text}{f', {signs}' if signs else ''}{hardly}")


def doubt(explanation: Explanation, row: int) -> str:
    """Say what no further samples would mend of a series, or of most of them; nothing where nothing is known."""
    verdict, check = judge(explanation, row), explanation.gradient_check
    if verdict.status not in {*AGAINST, "nothing"} and check is not None and check.mostly_wrong:
        verdict = judge(explanation)
    return _plain(verdict).text if verdict.status in AGAINST else ""


def _plain(verdict: Verdict) -> ReaderVerdict:
    """Say what is not about the size of errors."""
    badge, text = SAYS[verdict.status]
    gap = verdict.gap or 0.0
    close = "" if gap < 0.001 else f" to {percent(gap)}"
    return ReaderVerdict(badge, text.format(gap=percent(gap), close=close) + verdict.where)


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
    large = worst > SLACK * found.goal  # else some cells have no error, which are counted
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


def signs_text(part: Record) -> str:
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
