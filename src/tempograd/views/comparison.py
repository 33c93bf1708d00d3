"""The table of scores: how well each method's explanations stand up to tests, and which method is better."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from tempograd.core.errors import InputError
from tempograd.explanation import Explanation
from tempograd.metrics import METRICS, Difference, Summary, compare, summarise
from tempograd.metrics.evaluation import measure
from tempograd.typing import Model

MetricScores = Mapping[str, Mapping[str, Tensor]]  # of each method, by metric, one per series
REMOVAL = ("cpd", "cpp")
AGAINST_TRUTH = ("auroc", "auprc")


@dataclass(frozen=True)
class Cell:
    """One method under one metric; ``difference`` is this method minus the first one, series by series.

    The ``best`` is better than every other method: the 95 % interval of their difference does not include 0.
    """

    summary: Summary
    best: bool
    difference: Difference | None  # None for the first


@dataclass(frozen=True)
class ScoreTable:
    """Methods by metrics. ``higher_is_better`` is None for a metric that is not in the registry."""

    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    higher_is_better: tuple[bool | None, ...]
    cells: Mapping[tuple[str, str], Cell]  # (method, metric)

    @property
    def heads(self) -> list[str]:
        """What stands above the columns: each metric with the direction that is better."""
        arrows = {True: " ↑", False: " ↓", None: ""}
        pairs = zip(self.metrics, self.higher_is_better, strict=True)
        return [f"{metric.upper()}{arrows[higher]}" for metric, higher in pairs]


def compute_scores(
    model: Model, explanations: Mapping[str, Explanation], x: Tensor, truth: Tensor | None
) -> dict[str, dict[str, Tensor]]:
    """Score every method by what its strongest cells do to the prediction and, where known, by the truth.

    It warns of no other model: the caller has done so, once for all methods.
    """
    metrics = [METRICS[name]() for name in (*REMOVAL, *(AGAINST_TRUTH if truth is not None else ()))]
    baseline = next(iter(explanations.values())).baseline  # the same removals for all, or differences mean nothing
    return {
        label: measure(model, explanation, x, metrics, baseline, truth=truth)
        for label, explanation in explanations.items()
    }


def score_table(scores: MetricScores, methods: tuple[str, ...] = ()) -> ScoreTable:
    """Summarise scores per series: mean, standard error, the best, and paired differences to the first.

    ``methods`` must be among them, and the first of these comes first.
    """
    if set(methods) - set(scores):
        raise InputError(
            f"scores must hold one entry per explanation, {', '.join(methods)}; got {', '.join(scores)}."
        )
    first = methods[0] if methods else next(iter(scores))
    methods = (first, *(method for method in scores if method != first))
    metrics = tuple(scores[first])
    directions = tuple(METRICS[metric].higher_is_better if metric in METRICS else None for metric in metrics)
    cells: dict[tuple[str, str], Cell] = {}
    for metric, higher in zip(metrics, directions, strict=True):
        found = {method: scores[method][metric] for method in methods}
        best = _best(found, higher)
        for method, values in found.items():
            gap = None if method == first else compare(values, found[first])
            cells[method, metric] = Cell(summarise(values), method == best, gap)
    return ScoreTable(methods, metrics, directions, cells)


def _best(scores: Mapping[str, Tensor], higher: bool | None) -> str | None:
    """Return the method that is better than every other by more than chance explains, if there is one."""
    means = {method: summarise(found).mean for method, found in scores.items()}
    known = {method: mean for method, mean in means.items() if not math.isnan(mean)}  # NaN has no rank
    if higher is None or len(known) < 2:
        return None
    best = (max if higher else min)(known, key=lambda method: known[method])
    gaps = [compare(scores[best], scores[other]) for other in known if other != best]
    return best if all(gap.low > 0 or gap.high < 0 for gap in gaps) else None
