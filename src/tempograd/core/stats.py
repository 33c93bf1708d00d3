"""Quantiles and tails of Student's t, for intervals and tests with few and fractional degrees of freedom."""

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

_Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
_LARGE = 30.0  # beyond, the expansion in 1/freedom is exact to 1e-6
_GRID = 1 / np.linspace(1 / _LARGE, 20.0, 2000)  # log t is nearly linear in 1/freedom: good to 1e-4 between


def t_quantile(level: float, freedom: Tensor) -> Tensor:
    """Half-width :math:`t` with :math:`P(|T| < t) =` ``level``; infinite where ``freedom`` is not positive.

    Examples
    --------
    >>> [round(t, 3) for t in t_quantile(0.95, torch.tensor([1.0, 4.0, 49.0, 0.0])).tolist()]
    [12.706, 2.776, 2.01, inf]
    """
    near = np.interp(1 / freedom.double().clamp(_GRID[-1], _LARGE).cpu().numpy(), *_table(level))
    small = torch.as_tensor(np.exp(near)).to(freedom)
    return torch.where(freedom > 0, torch.where(freedom > _LARGE, _expansion(level, freedom), small), torch.inf)


def t_tail(size: float, freedom: float) -> float:
    """Return the probability :math:`P(|T| > t)` of a value as far from 0; 1 where ``freedom`` is not positive.

    Examples
    --------
    >>> round(t_tail(2.776, 4), 4), round(t_tail(-12.706, 1), 4), t_tail(0.0, 9)
    (0.05, 0.05, 1.0)
    """
    if freedom <= 0 or not size:
        return 1.0
    a, x = np.array([freedom / 2]), np.array([1 / (1 + size * size / freedom)])
    return float(_beta(a, np.full(1, 0.5), x, terms=40 + 4 * math.isqrt(math.ceil(freedom)))[0])


def _expansion(level: float, freedom: Tensor) -> Tensor:
    z = float(torch.special.ndtri(torch.tensor(0.5 + level / 2, dtype=torch.float64)))
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum((term / freedom**power for power, term in enumerate(terms)), torch.zeros_like(freedom))


@lru_cache(maxsize=16)
def _table(level: float) -> tuple[_Array, _Array]:
    low, high = np.full_like(_GRID, -7.0), np.full_like(_GRID, 160.0)
    for _ in range(40):
        middle = (low + high) / 2
        t = np.exp(middle)
        outside = _beta(_GRID / 2, np.full_like(t, 0.5), 1 / (1 + t * (t / _GRID)))  # P(|T| > t)
        inside = 1 - outside < level
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return 1 / _GRID, (low + high) / 2


def _beta(a: _Array, b: _Array, x: _Array, terms: int = 40) -> _Array:
    """I_x(a, b), by its continued fraction on the side where it converges fast."""
    swap = x > (a + 1) / (a + b + 2)
    a, b, x = np.where(swap, b, a), np.where(swap, a, b), np.where(swap, 1 - x, x)
    gamma = np.vectorize(math.lgamma)
    with np.errstate(divide="ignore"):
        front = np.exp(gamma(a + b) - gamma(a) - gamma(b) + a * np.log(x) + b * np.log1p(-x)) / a
    result = front * _fraction(a, b, x, terms)
    return np.asarray(np.where(swap, 1 - result, result))


def _fraction(a: _Array, b: _Array, x: _Array, terms: int) -> _Array:
    """Lentz's evaluation of the continued fraction of the incomplete beta function."""
    c, d = np.ones_like(x), 1 / (1 - (a + b) * x / (a + 1))
    value = d.copy()
    for m in range(1, terms):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 / (1 + step * d), 1 + step / c
            value = value * d * c
    return value
