"""An interval that knows both that other models and that other series would have come out differently."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike

from tempograd.core.errors import InputError
from tempograd.core.stats import t_quantile


@dataclass(frozen=True)
class CrossedInterval:
    """A mean over models and series, and its interval.

    Attributes
    ----------
    mean, low, high : float
    models, series : int
        With one model the interval is over series alone: it does not know how another model would come out.
    freedom : float
        Degrees of freedom of Student's t.
    """

    mean: float
    low: float
    high: float
    models: int
    series: int
    freedom: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of zero."""
        return self.low > 0 or self.high < 0


def crossed_interval(values: ArrayLike, *, shared: bool, level: float = 0.95) -> CrossedInterval:
    r"""Estimate the mean over models and series with an interval for both.

    With shared test series a value is :math:`\mu + a_m + b_i + e_{mi}`, all parts random, and the variance of
    the grand mean is :math:`(M_a + M_b - M_e) / mn` in mean squares of models, series and the rest, with
    Satterthwaite's degrees of freedom. When each model has test series of its own, the spread of the models'
    means says all: :math:`M_a / mn` with m - 1 degrees.

    Parameters
    ----------
    values : array of shape (models, series)
        One score, or difference of two methods, of each model on each series.
    shared : bool
        Whether a column is the same series for all models.
    level : float
        Of the interval.

    Notes
    -----
    The models must be independent draws. Folds that start from the same initial weights share part of their
    fate, which no interval over folds can see. With shared series, made values of 3 to 5 models are covered in
    0.94 to 0.95 of the draws, of two models in 0.88.
    """
    table = np.asarray(values, dtype=float)
    if table.ndim != 2 or np.isnan(table).any():
        raise InputError("values must be numbers of shape (models, series).")
    models, series = table.shape
    if series < 2:
        raise InputError("An interval needs two series at least.")
    mean = float(table.mean())
    square, freedom = _mean_square(table, shared=shared)
    half = float(t_quantile(level, torch.tensor(freedom, dtype=torch.float64))) * math.sqrt(square / table.size)
    return CrossedInterval(mean, mean - half, mean + half, models, series, freedom)


def _mean_square(table: np.ndarray[tuple[int, ...], np.dtype[np.float64]], *, shared: bool) -> tuple[float, float]:
    """Return mn times the variance of the grand mean, and its degrees of freedom."""
    models, series = table.shape
    if models == 1:
        return float(table.var(ddof=1)), series - 1.0
    rows, columns = table.mean(axis=1), table.mean(axis=0)
    of_models = float(series * rows.var(ddof=1))
    if not shared:
        return of_models, models - 1.0
    of_series = float(models * columns.var(ddof=1))
    rest = table - rows[:, None] - columns[None, :] + table.mean()
    freedoms = models - 1.0, series - 1.0, (models - 1.0) * (series - 1.0)
    of_rest = float((rest**2).sum() / freedoms[2])
    total = of_models + of_series - of_rest
    if total <= max(of_models, of_series):  # no variance of one of the two is to be seen: the other says all
        return (of_models, freedoms[0]) if of_models >= of_series else (of_series, freedoms[1])
    parts = zip((of_models, of_series, of_rest), freedoms, strict=True)
    return total, total**2 / sum(part**2 / freedom for part, freedom in parts)
