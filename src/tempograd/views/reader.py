"""What an explanation is about and how sure it is, for those who read it: no settings, and nothing to type."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tempograd.core.errors import Dialect
from tempograd.core.validation import lengths
from tempograd.data import Series
from tempograd.engine.outputs import LINKS, link_words, outputs_of
from tempograd.explanation import Explanation
from tempograd.explanation.diagnostics import AGAINST, judge, sentence, verdict_text
from tempograd.typing import Model
from tempograd.views.labels import explained
from tempograd.views.prediction import model_outputs
from tempograd.views.series import certain_sizes

BADGES = {  # by the status of the verdict; of any other nothing is known
    **dict.fromkeys(("complete", "exact"), "exact"),
    **dict.fromkeys(("rough", "missed", "incomplete"), "rough"),
    **dict.fromkeys(("noisy", "mixed", "wrong", "empty"), "unreliable"),
    "converged": "converged",
}


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
    return dict.fromkeys(finding.say("reader") for finding in kind)


class ReaderVerdict(NamedTuple):
    """How sure an explanation is: one word for a badge, and a sentence."""

    badge: str
    text: str


def reader_verdict(explanation: Explanation, i: int | None = None) -> ReaderVerdict:
    """Return how sure series ``i`` is, by default all of them: the verdict, and nothing to type."""
    verdict = judge(explanation, i)
    return ReaderVerdict(BADGES.get(verdict.status, "unknown"), verdict_text(verdict, "reader"))


def doubt(explanation: Explanation, row: int) -> str:
    """Say what no further samples would mend of a series, or of most of them; nothing where nothing is known."""
    verdict, check = judge(explanation, row), explanation.gradient_check
    if verdict.status not in {*AGAINST, "nothing"} and check is not None and check.mostly_wrong:
        verdict = judge(explanation)
    return f"{AGAINST[verdict.status]}{verdict.where}" if verdict.status in AGAINST else ""


def most_telling(explanation: Explanation) -> int:
    """Return the position of the series that tells most, the first of equals.

    Its scores are the largest, summed by size; where their errors are known, only those with a certain sign count.
    """
    return int(certain_sizes(explanation).argmax())


# What an explanation is about and how far it can be trusted, as one mapping of plain data.


def explanation_summary(
    explanation: Explanation, model: Model, series: Series, dialect: Dialect = "python"
) -> dict[str, Any]:
    """Return what was explained of which series, how often the model is right, and how sure it is."""
    x: Any = series.x if isinstance(series.x, Tensor) else explanation.x  # of unequal length
    said = model_outputs(model, explanation, x)
    error = math.inf if explanation.relative_error is None else float(explanation.relative_error.median())
    return {
        "method": explanation.method,
        "baseline": replace(explanation, x=x).baseline_kind,
        "series": len(explanation),
        "what": explained(explanation)
        + f", by {link_words(explanation.link, explanation.columns)}" * LINKS[explanation.link].probable,
        "accuracy": label_accuracy(said, explanation, series),
        "verdict": sentence(explanation, dialect=dialect),
        "assumed": assumed([explanation]),
        "relative_error": error if math.isfinite(error) else None,
    }


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
