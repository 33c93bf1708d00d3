"""How good the explained models are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tempograd.benchmark.record import Record
from tempograd.metrics import Summary, summarise

Grid = Mapping[tuple[int, int], Record]
"""The records of one data set and model, by row and fold."""


@dataclass(frozen=True)
class Quality:
    """Test accuracy, share of the largest class and AUROC over folds, and the folds with a model at chance level.

    What the records do not tell is None. With one fold the error of the AUROC is that over its series.
    """

    accuracy: Summary | None
    majority: Summary | None
    auroc: Summary | None
    at_chance: tuple[int, ...]


def quality(grid: Grid, folds: Sequence[int]) -> Quality:
    """Summarise the facts of the models of some folds."""
    facts: dict[int, Mapping[str, Any]] = {
        fold: next((record.facts.get("model", {}) for (_, found), record in grid.items() if found == fold), {})
        for fold in folds
    }
    auroc = _over_folds(facts, "auroc")
    if auroc is not None and auroc.count == 1:
        error = _over_folds(facts, "auroc_error")
        auroc = auroc if error is None else Summary(auroc.mean, error.mean, 1)
    return Quality(
        accuracy=_over_folds(facts, "accuracy"),
        majority=_over_folds(facts, "majority"),
        auroc=auroc,
        at_chance=tuple(fold for fold in folds if facts[fold].get("at_chance")),
    )


def _over_folds(facts: Mapping[int, Mapping[str, Any]], name: str) -> Summary | None:
    values = [fact[name] for fact in facts.values() if fact.get(name) is not None]
    return summarise(torch.tensor(values, dtype=torch.float64)) if values else None
