"""Cross-validation folds by the published rule, so that fold k means the same series everywhere."""

import numpy as np
from numpy.typing import NDArray

from tempograd.errors import InputError

FOLDS = 5
SEED = 42


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
    if fold not in range(folds):
        raise InputError(f"fold must be an integer from 0 to {folds - 1} or None, got {fold!r}.")
    if series < folds:
        raise InputError(f"{folds} folds need at least {folds} series, got {series}.")
    order = np.arange(series)
    np.random.RandomState(seed).shuffle(order)
    fold = int(fold)
    start = fold * (series // folds) + min(fold, series % folds)
    stop = start + series // folds + (fold < series % folds)
    return np.sort(np.delete(order, np.s_[start:stop])), np.sort(order[start:stop])
