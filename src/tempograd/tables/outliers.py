"""Folds whose model is so unlike the others that no method is to blame."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

from torch import Tensor

from tempograd.benchmark.record import Record

LIMIT = 3.0


class Outlier(NamedTuple):
    """A fold and how many times the median over folds its random CPD is."""

    dataset: str
    model: str
    fold: int
    ratio: float


def outlier_folds(records: Iterable[Record]) -> tuple[Outlier, ...]:
    """Return the folds whose ``random`` CPD exceeds three times the median over the folds.

    The rule looks at no method: random scores know nothing of the series, so what they reach tells about the
    model of the fold alone. The first CPD of the record counts. Below three folds there are none.
    """
    groups: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for record in records:
        cell = record.cell
        measure = next((measure for measure in cell.measures if measure.metric == "cpd"), None)
        if cell.method == "random" and measure is not None:
            groups[cell.dataset, cell.model][cell.fold] = fold_value(record.scores[measure.name])
    found = []
    for (dataset, model), values in groups.items():
        middle = median(values.values())
        found += [
            Outlier(dataset, model, fold, value / middle if middle else float("inf"))
            for fold, value in values.items()
            if value > LIMIT * middle
        ]
    return tuple(found)


def fold_value(scores: Tensor) -> float:
    """Return the one number of a fold: the mean over the series whose score is defined."""
    return float(scores.double().nanmean())
