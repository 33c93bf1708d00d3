"""Folds equal scikit-learn's."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from tempograd.core.errors import InputError
from tempograd.data import fold_indices


@pytest.mark.parametrize("series", [5, 7, 150, 800, 1003])
def test_agree_with_scikit_learn(series):
    expected = KFold(5, shuffle=True, random_state=42).split(np.zeros(series))
    for fold, (train, validation) in enumerate(expected):
        ours = fold_indices(series, fold)
        np.testing.assert_array_equal(ours[0], train)
        np.testing.assert_array_equal(ours[1], validation)


def test_other_counts_and_seeds_agree_with_scikit_learn():
    expected = list(KFold(3, shuffle=True, random_state=9).split(np.zeros(11)))
    for fold in range(3):
        for ours, theirs in zip(fold_indices(11, fold, folds=3, seed=9), expected[fold], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_leave_the_global_generator_alone():
    before = np.random.get_state()  # noqa: NPY002
    fold_indices(100, 2)
    after = np.random.get_state()  # noqa: NPY002
    np.testing.assert_array_equal(after[1], before[1])
    assert after[2] == before[2]  # the position within the block of keys: few draws move nothing else


@pytest.mark.parametrize("fold", [-1, 5, "0", 0.5])
def test_refuse_other_folds(fold):
    with pytest.raises(InputError, match=r"^fold must be an integer from 0 to 4 or None, got "):
        fold_indices(100, fold)


def test_refuse_too_few_series():
    with pytest.raises(InputError, match="5 folds need at least 5 series, got 4"):
        fold_indices(4, 0)
