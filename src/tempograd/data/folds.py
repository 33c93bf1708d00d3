"""Which series train, validate and test: the published rule, and a seeded one where none can be had."""

import math

import numpy as np
from numpy.typing import NDArray

from tempograd.errors import DataError, InputError

FOLDS = 5
SEED = 42
TRAIN, VALIDATION, TEST = range(3)
HANDS = FOLDS**2


def fold_indices(
    series: int, fold: int, *, folds: int = FOLDS, seed: int = SEED
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    r"""Positions of the training and of the validation series of one fold.

    The published experiments cut the training file with a shuffled five-fold split; the classifiers, and with
    them every number of the paper, depend on which series fall into which fold. The rule: shuffle
    :math:`0, \dots, n-1` with the legacy Mersenne generator, cut the result into contiguous blocks of
    :math:`\lfloor n/K \rfloor` (the first :math:`n \bmod K` blocks are one longer); block :math:`k`
    validates, the rest trains, both in ascending order.

    Parameters
    ----------
    series : int
        How many series there are.
    fold : int
        Which fold, from 0 to ``folds - 1``.
    folds, seed : int, default=5 and 42
        The published choice.

    Notes
    -----
    Equal to scikit-learn's ``KFold(folds, shuffle=True, random_state=seed)``, which the tests use as the
    oracle.

    Examples
    --------
    >>> fold_indices(7, 0)
    (array([2, 3, 4, 5, 6]), array([0, 1]))
    """
    _check_fold(fold, folds)
    if series < folds:
        raise InputError(f"{folds} folds need at least {folds} series, got {series}.")
    order = np.arange(series)
    np.random.RandomState(seed).shuffle(order)
    fold = int(fold)
    start = fold * (series // folds) + min(fold, series % folds)
    stop = start + series // folds + (fold < series % folds)
    return np.sort(np.delete(order, np.s_[start:stop])), np.sort(order[start:stop])


def stratified_parts(
    strata: NDArray[np.int64], fold: int | None, *, validation: float, seed: int = SEED
) -> NDArray[np.int8]:
    r"""Tell which groups train (0), validate (1) and test (2) where the published split files cannot be had.

    The groups are shuffled within their stratum, laid out stratum by stratum, and dealt like cards into 25 hands:
    the one at position :math:`p` goes to hand :math:`h = p \bmod 25`. In fold :math:`k` the five hands with
    :math:`h \equiv k \pmod 5` test, so the five test parts are disjoint and hold everything once; the first
    of the hands with :math:`h \equiv k + 1` validate, and the rest trains. The part of a stratum in every hand is
    within one group of its share.

    Parameters
    ----------
    strata : array of shape (groups,)
        The class of each group, or whatever else is to be spread evenly.
    fold : int or None
        Which fold, from 0 to 4; None: the split of fold 0.
    validation : float
        The share that validates, a multiple of 1/25 up to 1/5.
    seed : int, default=42

    Examples
    --------
    >>> np.bincount(stratified_parts(np.zeros(500), 0, validation=0.08))
    array([360,  40, 100])
    """
    fold = 0 if fold is None else fold
    _check_fold(fold, FOLDS)
    hands = round(validation * HANDS)
    if not math.isclose(hands, validation * HANDS) or not 0 <= hands <= FOLDS:
        raise InputError(f"validation must be a multiple of 1/{HANDS} up to 1/{FOLDS}, got {validation!r}.")
    if len(strata) < HANDS:
        raise DataError(f"Splits need at least {HANDS} groups of series, got {len(strata)}: fetch the whole file.")
    rng = np.random.RandomState(seed)
    order = np.concatenate([rng.permutation(np.flatnonzero(strata == stratum)) for stratum in np.unique(strata)])
    hand = np.empty(len(strata), dtype=np.int64)
    hand[order] = np.arange(len(strata)) % HANDS
    part = np.full(len(strata), TRAIN, dtype=np.int8)
    part[(hand % FOLDS == (fold + 1) % FOLDS) & (hand // FOLDS < hands)] = VALIDATION
    part[hand % FOLDS == fold] = TEST
    return part


def _check_fold(fold: int, folds: int) -> None:
    if fold not in range(folds):
        raise InputError(f"fold must be an integer from 0 to {folds - 1} or None, got {fold!r}.")
