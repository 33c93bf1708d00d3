"""Is one method better than another over data sets: the sign test and Wilcoxon's signed-rank test, both exact."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempograd.core.errors import InputError


def sign_test(differences: ArrayLike) -> float:
    """Return the two-sided p-value of as many or more differences of one sign; zeros do not count.

    Examples
    --------
    >>> sign_test([0.2, 0.1, 0.3, 0.5, 0.4, 0.1, 0.2])  # seven of seven: 2 / 2⁷
    0.015625
    """
    values = _nonzero(differences)
    count, rarer = len(values), min(int((values > 0).sum()), int((values < 0).sum()))
    tail = sum(math.comb(count, k) for k in range(rarer + 1))
    return float(min(1.0, 2 * tail / 2**count))


def signed_rank_test(differences: ArrayLike) -> float:
    """Return Wilcoxon's exact two-sided p-value; zeros do not count, ties share ranks.

    Examples
    --------
    >>> signed_rank_test([1.0, 2.0, 3.0, -4.0, 5.0])
    0.4375
    """
    values = _nonzero(differences)
    sizes = np.abs(values)
    below = (sizes[None, :] < sizes[:, None]).sum(axis=1)
    equal = (sizes[None, :] == sizes[:, None]).sum(axis=1)
    doubled = 2 * below + equal + 1  # ranks are halves at ties
    ways = [1] + [0] * int(doubled.sum())  # of choosing which differences are positive, by the sum of their ranks
    for rank in map(int, doubled):
        ways = [way + (ways[total - rank] if total >= rank else 0) for total, way in enumerate(ways)]
    positive = int(doubled[values > 0].sum())
    rarer = min(positive, int(doubled.sum()) - positive)
    return float(min(1.0, 2 * sum(ways[: rarer + 1]) / 2 ** len(values)))


def _nonzero(differences: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(differences, dtype=float)
    if values.ndim != 1 or np.isnan(values).any():
        raise InputError("differences must be numbers in one row, one for each data set.")
    return np.asarray(values[values != 0])
