"""Do several methods differ over data sets, and which of them: Friedman's test and Nemenyi's critical difference.

References
----------
.. [1] J. Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7, 2006.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from tempograd.core.errors import InputError

_Floats = NDArray[np.float64]
_GRID = np.linspace(-8.0, 8.0, 4001)  # beyond, the normal density is below 1e-14


@dataclass(frozen=True)
class Friedman:
    """Friedman's test that all methods are alike.

    Attributes
    ----------
    statistic, p_value : float
        χ², corrected for ties, and the chance of more than that if all methods were alike. The χ² law is an
        approximation that errs towards large p-values when there are few data sets.
    freedom : int
        One less than there are methods.
    ranks : tuple of float
        Mean rank of each method; 1 is best.
    blocks : int
        Data sets.
    """

    statistic: float
    p_value: float
    freedom: int
    ranks: tuple[float, ...]
    blocks: int


def mean_ranks(scores: ArrayLike) -> _Floats:
    """Return the mean rank of each method over data sets; the highest score has rank 1, equal ones share theirs.

    Parameters
    ----------
    scores : array of shape (data sets, methods)
    """
    return np.asarray(_ranks(scores).mean(axis=0))


def friedman(scores: ArrayLike) -> Friedman:
    """Test whether methods differ, by their ranks within each data set.

    Parameters
    ----------
    scores : array of shape (data sets, methods)
        Higher is better; only comparisons within a row count.

    Examples
    --------
    >>> found = friedman([[0.9, 0.5, 0.1], [0.8, 0.7, 0.2], [0.6, 0.4, 0.3], [0.9, 0.2, 0.1]])
    >>> found.ranks, found.statistic, round(found.p_value, 4)
    ((1.0, 2.0, 3.0), 8.0, 0.0183)
    """
    ranks = _ranks(scores)
    blocks, methods = ranks.shape
    middle = (methods + 1) / 2
    between = blocks**2 * ((ranks.mean(axis=0) - middle) ** 2).sum()
    within = ((ranks - middle) ** 2).sum()
    statistic = (methods - 1) * between / within if within else 0.0  # all scores of every data set tie
    halves = torch.tensor([(methods - 1) / 2, statistic / 2], dtype=torch.float64)
    p_value = float(torch.special.gammaincc(halves[0], halves[1]))
    return Friedman(float(statistic), p_value, methods - 1, tuple(ranks.mean(axis=0).tolist()), blocks)


def critical_difference(methods: int, blocks: int, level: float = 0.95) -> float:
    r"""Return Nemenyi's critical difference: mean ranks closer than this are not told apart at this level.

    :math:`q\,\sqrt{k(k+1) / 12 N}` for k methods on N data sets, with q the quantile of the studentised range.

    Examples
    --------
    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    return range_quantile(level, methods) * math.sqrt(methods * (methods + 1) / (12 * blocks))


def range_quantile(level: float, groups: int) -> float:
    r"""Return the quantile of the range of ``groups`` standard normal numbers.

    It solves :math:`k \int \varphi(z) [\Phi(z) - \Phi(z - q)]^{k-1} dz =` ``level``.
    """
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _range_probability(middle, groups) < level else (low, middle)
    return (low + high) / 2


def inseparable(ranks: ArrayLike, difference: float) -> list[tuple[int, ...]]:
    """Return the largest groups whose mean ranks all lie within ``difference``, as positions, best first.

    Groups of one are left out, and so are those that lie within another.

    Examples
    --------
    >>> inseparable([1.0, 1.8, 2.5, 4.0], 1.0)
    [(0, 1), (1, 2)]
    """
    values = np.asarray(ranks, dtype=float)
    order = np.argsort(values, kind="stable")
    groups: list[tuple[int, ...]] = []
    last = 0
    for first in range(len(order)):
        end = first + int((values[order[first:]] <= values[order[first]] + difference).sum())
        if end > last and end - first > 1:
            groups.append(tuple(int(index) for index in order[first:end]))
        last = max(last, end)
    return groups


def _ranks(scores: ArrayLike) -> _Floats:
    values = np.asarray(scores, dtype=float)
    if values.ndim != 2 or min(values.shape) < 2:
        raise InputError("scores must be of shape (data sets, methods), with at least two of both.")
    if np.isnan(values).any():
        raise InputError("A score is missing: compare methods on the data sets that all of them have.")
    above = (values[:, None, :] > values[:, :, None]).sum(axis=2)
    equal = (values[:, None, :] == values[:, :, None]).sum(axis=2)
    return np.asarray(above + (equal + 1) / 2)


def _range_probability(width: float, groups: int) -> float:
    density = np.exp(-(_GRID**2) / 2) / math.sqrt(2 * math.pi)
    inside = _normal(_GRID) - _normal(_GRID - width)
    return float(
        groups * (density * inside ** (groups - 1)).sum() * (_GRID[1] - _GRID[0])
    )  # nothing is left at the ends


def _normal(values: _Floats) -> _Floats:
    return np.asarray(torch.special.ndtr(torch.from_numpy(values)).numpy())
