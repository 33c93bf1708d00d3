"""Means with errors and paired differences, against scipy."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from tempograd.core.errors import InputError
from tempograd.metrics import compare, summarise
from tests.helpers.literal_metrics import randn


@pytest.mark.parametrize("count", [2, 5, 400])
def test_summary_equals_scipy(count):
    scores = randn(count, dtype=torch.float32) + 3
    summary = summarise(scores)
    assert summary.mean == pytest.approx(float(np.mean(scores.double().numpy())), rel=1e-12)
    assert summary.standard_error == pytest.approx(stats.sem(scores.double().numpy()), rel=1e-12)
    assert summary.count == count


@pytest.mark.parametrize("count", [2, 3, 20, 500])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_difference_equals_the_paired_t_interval_of_scipy(count, level):
    first, second = randn(count, seed=1), randn(count, seed=2) * 0.3
    difference = compare(first, second, level)
    expected = stats.ttest_rel(first.numpy(), second.numpy()).confidence_interval(level)
    assert difference.mean == pytest.approx(float((first - second).mean()))
    assert difference.standard_error == pytest.approx(stats.sem((first - second).numpy()))
    assert difference.low == pytest.approx(expected.low, rel=1e-3)
    assert difference.high == pytest.approx(expected.high, rel=1e-3)
    assert difference.count == count


def test_undefined_scores_are_left_out_in_pairs():
    first, second = randn(6, seed=1), randn(6, seed=2)
    whole = compare(first[[0, 2, 5]], second[[0, 2, 5]])
    first[[1, 3]], second[[3, 4]] = torch.nan, torch.nan
    assert compare(first, second) == whole
    assert whole.count == 3
    assert summarise(first) == summarise(first[[0, 2, 4, 5]])


def test_few_scores_have_no_error_bar():
    one = summarise(torch.tensor(0.25))
    assert (one.mean, one.standard_error, one.count) == (0.25, math.inf, 1)
    nothing = summarise(torch.tensor([torch.nan]))
    assert math.isnan(nothing.mean)
    assert (nothing.standard_error, nothing.count) == (math.inf, 0)
    single = compare(torch.tensor([2.0]), torch.tensor([0.5]))
    assert (single.mean, single.low, single.high) == (1.5, -math.inf, math.inf)


def test_equal_methods_differ_by_exactly_nothing():
    scores = randn(10)
    difference = compare(scores, scores)
    assert (difference.mean, difference.standard_error, difference.low, difference.high) == (0, 0, 0, 0)


def test_scores_that_do_not_pair_are_refused():
    with pytest.raises(InputError):
        compare(torch.zeros(3), torch.zeros(4))
    with pytest.raises(InputError):
        summarise(torch.zeros(2, 2))
    with pytest.raises(InputError):
        compare(torch.zeros(3), torch.zeros(3), 95)
