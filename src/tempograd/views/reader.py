"""What an explanation is about and how sure it is, for those who read it: no settings, and nothing to type.

``Explanation.verdict`` says how sure to those who can run it again. Both are about the same numbers, those of
:mod:`tempograd.explanation.diagnostics`.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from tempograd.core.errors import Dialect, said
from tempograd.core.formatting import counted, percent
from tempograd.core.validation import lengths
from tempograd.data import Series
from tempograd.engine.outputs import LINKS, link_words, outputs_of
from tempograd.explanation import Explanation
from tempograd.explanation.diagnostics import (
    AGAINST,
    MOST,
    SLACK,
    Errors,
    Verdict,
    judge,
    sentence,
)
from tempograd.explanation.record import Record
from tempograd.typing import Model
from tempograd.views.labels import channel_names, explained
from tempograd.views.prediction import model_outputs
from tempograd.views.series import certain_sizes, sizes

STRONGEST = 10  # values of each series whose signs are what people read first
Badge = Literal["converged", "rough", "exact", "unknown", "unreliable"]
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
    bad = len(wrong)
    badge: Badge = "rough" if bad > (1 - MOST) * count else "converged"
    where = f" in {bad:,} of {count:,} series" if bad < count else ""
    if found.top:
        moves = "no longer changes" if badge == "converged" else "still changes"
        return badge, f"{badge}: the strongest tenth of the values {moves} as samples are added"
    if 2 * sum(found.missed) > bad:
        return "rough", f"rough: a part of the change of the prediction was not seen{where}"
    if badge == "converged":
        most = f" in {count - bad:,} of {count:,} series" if bad else ""
        return badge, f"converged{most}: sizes are good to {_middle(found.error)}"
    if max(found.error) <= SLACK * found.goal:  # but some cells have no error, which are counted
        return badge, f"rough: sizes of some values are not known{where}"
    return badge, f"rough: sizes may be off by {_middle(wrong)}{where}"


def _middle(errors: Sequence[float]) -> str:
    error = sorted(errors)[(len(errors) - 1) // 2]
    if not math.isfinite(error):
        return "any amount, which is not known"
    return f"{'about ' * (0.001 <= error <= 1)}{percent(error)}"


def certain_signs(part: Record) -> tuple[int, int]:
    """Return of how many of the strongest values of each series the 95 % interval leaves 0 out, and of how many.

    None of none where there is no sign or no interval; a score of 0 has no sign.
    """
    if not part.signed or part.ess is None or part.standard_error is None:
        return 0, 0
    top = part.top(min(STRONGEST, part.values[0].numel()))
    places = (top.time * part.values.shape[2] + top.channel).clamp(min=0)
    low, high = (side.flatten(1).gather(1, places) for side in part.interval(0.95))
    known = (top.time >= 0) & (top.values != 0)
    return int((((low > 0) | (high < 0)) & known).sum()), int(known.sum())


def signs_text(part: Record) -> str:
    """Say of how many of the strongest values the sign is certain at 95 %; nothing where there is no sign."""
    sure, total = certain_signs(part)
    return f"the signs of {sure:,} of the {total:,} strongest values are certain" if total else ""


def most_telling(explanation: Explanation) -> int:
    """Return the position of the series that tells most, the first of equals.

    Its scores are the largest, summed by size; where their errors are known, only those with a certain sign count.
    """
    return int(certain_sizes(explanation).argmax())


# What an explanation is about and how far it can be trusted, as one mapping of plain data.

CHANNELS = 5  # that matter most


def explanation_summary(
    explanation: Explanation, model: Model, series: Series, dialect: Dialect = "python"
) -> dict[str, Any]:
    """Return what was explained of which series, what the model predicts, which channels matter, how sure it is.

    ``predicted`` and ``explained`` count classes, by their numbers as text, since JSON has no other keys.
    """
    x: Any = series.x if isinstance(series.x, Tensor) else explanation.x  # several inputs side by side
    said = model_outputs(model, explanation, x)
    errors, target, names = explanation.relative_error, explanation.target, channel_names(explanation)
    share = sizes(explanation).sum((0, 1)).double()
    share = share / share.sum() if bool(share.any()) else share
    error, kind = math.inf if errors is None else float(errors.median()), outputs_of(explanation.task).kind
    classes = target is not None and explanation.output == "probability" and kind == "classes"
    return {
        "method": explanation.method,
        "baseline": replace(explanation, x=x).baseline_kind,
        "series": len(explanation),
        "channels": explanation.values.shape[2],
        "predicted": _counts(said.argmax(-1)) if classes else None,
        "what": explained(explanation)
        + f", by {link_words(explanation.link, explanation.columns)}" * LINKS[explanation.link].probable,
        "explained": {} if target is None else _counts(target),
        "accuracy": label_accuracy(said, explanation, series),
        "verdict": sentence(explanation, dialect=dialect),
        "assumed": assumed([explanation]),
        "relative_error": error if math.isfinite(error) else None,
        "strongest_channels": [
            {"channel": names[d], "share": float(share[d])}
            for d in share.argsort(descending=True, stable=True)[:CHANNELS].tolist()
        ],
    }


def _counts(classes: Tensor) -> dict[str, int]:
    numbers, counts = torch.unique(classes, return_counts=True)
    return {str(n): c for n, c in zip(numbers.tolist(), counts.tolist(), strict=True)}


def label_accuracy(said: Tensor, explanation: Explanation, series: Series) -> float | None:
    """Return the share of labels that the model predicts; None without labels that are classes."""
    if series.y is None or outputs_of(explanation.task).kind != "classes":
        return None
    values = series.y.is_floating_point() or said.shape[-1] == 1  # one raw output says no class
    if values or said.shape[:-1] != series.y.shape:
        return None
    right = said.argmax(-1) == series.y
    if right.ndim == 2:  # steps of the padding have no label
        right = right[torch.arange(right.shape[1]) < lengths(explanation.mask, series.x)[:, None]]
    return float(right.double().mean())
