"""Parts of series that are drawn by seed, counted by hand."""

import numpy as np
import pytest

from tempograd.core.errors import DataError, InputError
from tempograd_paper.datasets.parts import TEST, TRAIN, VALIDATION, locate, stratified_parts


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


def test_without_a_folder_the_sentence_says_how_to_give_one():
    with pytest.raises(DataError) as caught:
        locate(None, "Moon", ["moon/a.csv", "b.csv"], "the observatory")
    assert str(caught.value) == (
        "Moon is read from files, and no folder was given: pass root= (--root) or set TEMPOGRAD_DATA to the "
        "folder that holds moon/a.csv. Get it from the observatory."
    )


def test_the_first_place_that_exists_is_taken(tmp_path):
    names = ["moon/a.csv", "b.csv", "c.csv"]
    (tmp_path / "c.csv").touch()
    assert locate(tmp_path, "Moon", names, "the observatory") == tmp_path / "c.csv"
    (tmp_path / "b.csv").touch()
    assert locate(tmp_path, "Moon", names, "the observatory") == tmp_path / "b.csv"


@pytest.mark.parametrize(
    ("names", "others"),
    [(["a"], ""), (["a", "b"], " (b would do as well)"), (["a", "b", "c"], " (b, c would do as well)")],
)
def test_a_missing_file_is_told_where_to_go(tmp_path, names, others):
    with pytest.raises(DataError) as caught:
        locate(tmp_path, "Moon", names, "the observatory")
    place = tmp_path / "a"
    assert (
        str(caught.value) == f"Moon is not in {tmp_path}: put it at {place}{others}. Get it from the observatory."
    )
