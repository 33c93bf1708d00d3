"""Tests and intervals over data sets, models and series, from plain arrays."""

from tempograd_paper.statistics.crossed_errors import CrossedInterval, crossed_interval
from tempograd_paper.statistics.rank_tests import (
    Friedman,
    critical_difference,
    friedman,
    inseparable,
    mean_ranks,
    range_quantile,
)
from tempograd_paper.statistics.sign_tests import sign_test, signed_rank_test

__all__ = [
    "CrossedInterval",
    "Friedman",
    "critical_difference",
    "crossed_interval",
    "friedman",
    "inseparable",
    "mean_ranks",
    "range_quantile",
    "sign_test",
    "signed_rank_test",
]
