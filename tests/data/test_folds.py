"""The folds equal scikit-learn's; the seeded parts are counted by hand."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from tempograd.data import fold_indices
from tempograd.data.base import TEST, TRAIN, VALIDATION, stratified_parts
from tempograd.errors import DataError, InputError


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


def test_parts_of_whole_decks_have_their_shares_in_every_stratum():
    strata = np.repeat([3, 1, 2], [100, 50, 25])
    for fold in range(5):
        part = stratified_parts(strata, fold, validation=0.08)
        for stratum, (train, validation, test) in {3: (72, 8, 20), 1: (36, 4, 10), 2: (18, 2, 5)}.items():
            assert np.bincount(part[strata == stratum]).tolist() == [train, validation, test]


@pytest.mark.parametrize(("share", "expected"), [(0.2, (6, 2, 2)), (0.04, (7.6, 0.4, 2)), (0, (8, 0, 2))])
def test_validation_takes_the_share_that_was_asked_for(share, expected):
    part = stratified_parts(np.zeros(250), 4, validation=share)
    assert [(part == code).sum() for code in (TRAIN, VALIDATION, TEST)] == [25 * count for count in expected]


def test_odd_strata_are_within_one_of_their_share():
    strata = np.random.RandomState(0).choice(4, p=[0.7, 0.2, 0.07, 0.03], size=333)
    parts = [stratified_parts(strata, fold, validation=0.2) for fold in range(5)]
    assert all((part == TEST).sum() in (66, 67) for part in parts)
    for stratum in range(4):
        for part in parts:
            for code, share in ((TEST, 0.2), (VALIDATION, 0.2), (TRAIN, 0.6)):
                count = ((part == code) & (strata == stratum)).sum()
                assert abs(count - share * (strata == stratum).sum()) <= (3 if code == TRAIN else 1)


def test_the_five_test_parts_hold_every_group_once():
    strata = np.arange(107) % 3
    tests = np.stack([stratified_parts(strata, fold, validation=0.08) == TEST for fold in range(5)])
    assert (tests.sum(0) == 1).all()


def test_parts_are_shuffled_and_depend_on_the_seed_alone():
    strata = np.zeros(1000)
    first, again = (stratified_parts(strata, 1, validation=0.2) for _ in range(2))
    other = stratified_parts(strata, 1, validation=0.2, seed=7)
    np.testing.assert_array_equal(first, again)
    # independent parts of shares .6, .2, .2 agree in .44 of the groups, with a deviation of .016
    assert 0.37 < (first == other).mean() < 0.51
    assert 0.37 < (first[:-5] == first[5:]).mean() < 0.51  # unshuffled, every fifth group would be alike


def test_groups_are_dealt_like_cards():
    strata, rng = np.array([5, 2, 2, 5, 5, 2, 9] * 8), np.random.RandomState(42)
    deck = []
    for stratum in (2, 5, 9):
        deck += rng.permutation([place for place in range(56) if strata[place] == stratum]).tolist()
    hands = [deck[first::25] for first in range(25)]
    part = stratified_parts(strata, 3, validation=0.12)
    assert sorted(np.flatnonzero(part == TEST)) == sorted(hands[3] + hands[8] + hands[13] + hands[18] + hands[23])
    assert sorted(np.flatnonzero(part == VALIDATION)) == sorted(hands[4] + hands[9] + hands[14])


def test_no_fold_is_the_split_of_fold_0():
    strata = np.arange(60) % 2
    np.testing.assert_array_equal(
        stratified_parts(strata, None, validation=0.2), stratified_parts(strata, 0, validation=0.2)
    )


def test_parts_refuse_what_they_cannot_do():
    with pytest.raises(InputError, match="fold must be an integer from 0 to 4 or None, got 5"):
        stratified_parts(np.zeros(50), 5, validation=0.2)
    for share in (0.1, 0.24, -0.04):
        with pytest.raises(InputError, match=f"validation must be a multiple of 1/25 up to 1/5, got {share}"):
            stratified_parts(np.zeros(50), 0, validation=share)
    with pytest.raises(DataError, match="at least 25 groups of series, got 24: fetch the whole file"):
        stratified_parts(np.zeros(24), 0, validation=0.2)
