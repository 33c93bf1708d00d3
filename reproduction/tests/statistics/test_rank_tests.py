"""Friedman and Nemenyi against scipy, published tables and examples worked out by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from tempograd.core.errors import InputError
from tempograd_paper.statistics import critical_difference, friedman, inseparable, mean_ranks, range_quantile


@pytest.mark.parametrize(
    ("blocks", "methods", "ties"), [(7, 6, False), (3, 3, False), (20, 4, True), (5, 13, True)]
)
def test_friedman_is_scipy_s(blocks, methods, ties):
    rng = np.random.default_rng(blocks * methods)
    scores = rng.normal(size=(blocks, methods)) + np.linspace(0, 1, methods)
    scores = scores.round() if ties else scores
    found, expected = friedman(scores), stats.friedmanchisquare(*scores.T)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert (found.freedom, found.blocks) == (methods - 1, blocks)
    assert found.ranks == pytest.approx(stats.rankdata(-scores, axis=1).mean(axis=0))


def test_friedman_by_hand():
    """Ranks 1 2 3, 1 2 3, 2 1 3: sums 4, 5, 9; 12 / (3·3·4) · (16 + 25 + 81) - 3·3·4 = 14/3."""
    found = friedman([[9.0, 5.0, 1.0], [0.3, 0.2, 0.1], [4.0, 7.0, 2.0]])
    assert found.ranks == pytest.approx((4 / 3, 5 / 3, 3))
    assert found.statistic == pytest.approx(14 / 3)
    assert found.p_value == pytest.approx(math.exp(-7 / 3))  # χ² with two degrees is an exponential law


def test_equal_scores_share_their_ranks_and_tell_nothing():
    assert mean_ranks([[1.0, 1.0, 0.0], [2.0, 1.0, 3.0]]).tolist() == [1.75, 2.25, 2.0]
    found = friedman([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])
    assert (found.statistic, found.p_value) == (0.0, 1.0)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("groups", [2, 3, 6, 10, 20])
def test_range_quantile_is_scipy_s(groups, level):
    assert range_quantile(level, groups) == pytest.approx(
        stats.studentized_range.ppf(level, groups, 1e6), rel=1e-4
    )


@pytest.mark.parametrize(
    ("methods", "value"),
    [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (7, 2.949), (8, 3.031), (9, 3.102), (10, 3.164)],
)
def test_the_printed_quantiles_of_nemenyi(methods, value):
    """Demšar 2006, table 5 (a), α = 0.05: the quantile of the studentised range over √2."""
    assert range_quantile(0.95, methods) / math.sqrt(2) == pytest.approx(value, abs=1.1e-3)


def test_the_printed_critical_differences():
    """Demšar 2006, four classifiers on fourteen data sets; and two, where it is the test of a difference."""
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert critical_difference(4, 14, 0.9) == pytest.approx(1.12, abs=0.005)
    assert critical_difference(2, 25) == pytest.approx(1.959964 / 5, rel=1e-5)


def test_nemenyi_is_wrong_in_one_family_of_twenty():
    """Known coverage: with all methods alike, some pair is told apart in about 5 % of the draws."""
    rng = np.random.default_rng(3)
    methods, blocks, draws = 6, 30, 4000
    order = rng.random((draws, blocks, methods)).argsort(axis=2).argsort(axis=2) + 1
    means = order.mean(axis=1)
    alarms = np.ptp(means, axis=1) > critical_difference(methods, blocks)
    assert 0.03 < alarms.mean() < 0.06  # ± four standard errors and what ranks lack of normal numbers


def test_groups_are_the_largest_and_in_order():
    assert inseparable([3.0, 1.0, 2.0], 5.0) == [(1, 2, 0)]
    assert inseparable([1.0, 2.0, 3.0], 0.5) == []
    assert inseparable([1.0, 1.4, 1.8, 3.0, 3.2], 0.9) == [(0, 1, 2), (3, 4)]
    assert inseparable([1.0, 1.5, 2.0, 2.4], 1.0) == [(0, 1, 2), (1, 2, 3)]


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        ([1.0, 2.0], "scores must be of shape"),
        ([[1.0, 2.0]], "at least two of both"),
        ([[1.0, math.nan], [1.0, 2.0]], "A score is missing"),
    ],
)
def test_what_cannot_be_ranked_is_refused(scores, sentence):
    with pytest.raises(InputError, match=sentence):
        friedman(scores)
