"""Scores as the rows of a table."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tempograd.pages.numbers import with_error

if TYPE_CHECKING:
    from torch import Tensor


def score_rows(scores: Mapping[str, Mapping[str, "Tensor"]]) -> list[list[str]]:
    """Return a head and one row per method: mean ± standard error of every metric."""
    from tempograd.metrics import METRICS, summarise

    metrics = list(next(iter(scores.values())))
    head = ["method", *(f"{name.upper()} {'↑' if METRICS[name].higher_is_better else '↓'}" for name in metrics)]
    body = []
    for method, found in scores.items():
        summaries = [summarise(found[name]) for name in metrics]
        body.append([method, *(with_error(s.mean, s.standard_error) for s in summaries)])
    return [head, *body]
