"""The two tests of pairs against scipy's exact ones and by hand."""

import numpy as np
import pytest
from scipy import stats

from tempograd.core.errors import InputError
from tempograd_paper.statistics import sign_test, signed_rank_test


@pytest.mark.parametrize("count", [3, 7, 12, 20])
def test_against_scipy(count):
    differences = np.random.default_rng(count).normal(0.4, 1, count)
    exact = stats.wilcoxon(differences, method="exact").pvalue
    assert signed_rank_test(differences) == pytest.approx(exact, rel=1e-12)
    positive = int((differences > 0).sum())
    assert sign_test(differences) == pytest.approx(stats.binomtest(positive, count).pvalue, rel=1e-12)


def test_ties_and_zeros_by_hand():
    """Of 1, 1, -1, 2 the ranks are 2, 2, 2, 4: sums of negative ones up to 2 come from four of sixteen signs."""
    assert signed_rank_test([1.0, 1.0, -1.0, 2.0, 0.0]) == 2 * 4 / 16
    assert sign_test([1.0, 1.0, -1.0, 2.0, 0.0]) == 2 * 5 / 16


def test_nothing_can_be_told_from_nothing():
    assert (sign_test([0.0, 0.0]), signed_rank_test([0.0, 0.0])) == (1.0, 1.0)
    assert signed_rank_test([1.0, -1.0]) == 1.0


def test_a_gap_is_no_difference():
    with pytest.raises(InputError, match="one for each data set"):
        sign_test([1.0, float("nan")])
