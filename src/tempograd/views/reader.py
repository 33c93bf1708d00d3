"""What an explanation is about and how sure it is, for those who read it: no settings, and nothing to type."""

from collections.abc import Iterable
from typing import NamedTuple

import torch

from tempograd.core.validation import lengths
from tempograd.engine.outputs import outputs_of
from tempograd.explanation import Explanation
from tempograd.explanation.diagnostics import AGAINST, judge, texts_of, verdict_text
from tempograd.views.series import certain_sizes

BADGES = {  # by the status of the verdict; of any other nothing is known
    **dict.fromkeys(("complete", "exact"), "exact"),
    **dict.fromkeys(("rough", "missed", "incomplete"), "rough"),
    **dict.fromkeys(("noisy", "mixed", "wrong", "empty"), "unreliable"),
    "converged": "converged",
}


def doubts(explanations: Iterable[Explanation]) -> str:
    """Say what was found out about model and baseline, in whole sentences; the rest is for whoever runs it."""
    texts = texts_of(explanations, "warning", ("model.", "baseline."))
    return " ".join(text if text.endswith("?") else f"{text}." for text in texts)


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


def label_accuracy(explanation: Explanation) -> float | None:
    """Return the share of labels that the model predicts; None without labels, or where a target was asked for."""
    y, classes = explanation.y, outputs_of(explanation.task).kind == "classes"
    predicted, probability = explanation.target, explanation.prediction
    if explanation.columns == 1 and probability is not None:  # that of class 1
        predicted = probability > 0.5
    if y is None or predicted is None or explanation.question.target is not None or not classes:
        return None
    if y.is_floating_point() or explanation.n_outputs == 1 or predicted.shape != y.shape:
        return None  # one raw output says no class
    right = predicted.cpu() == y.cpu()
    if right.ndim == 2:  # steps of the padding have no label
        right = right[torch.arange(right.shape[1]) < lengths(explanation.mask, explanation.values)[:, None]]
    return float(right.double().mean())
