"""Intervals over models and series hold as often as they say, on made values whose mean is known."""

import numpy as np
import pytest
from scipy import stats

from tempograd.core.errors import InputError
from tempograd_paper.statistics import crossed_interval

DRAWS = 1500
ERROR = 4 * (0.95 * 0.05 / DRAWS) ** 0.5  # four standard errors of a share of 0.95


def coverage(models, series, of_models, of_series, of_rest, *, shared=True, told=None):
    """Return the share of intervals that hold the true mean; ``told`` replaces the truth about sharing."""
    rng = np.random.default_rng(models * series)
    held = 0
    for _ in range(DRAWS):
        table = 0.3 + of_models * rng.normal(size=(models, 1)) + of_rest * rng.normal(size=(models, series))
        table += of_series * rng.normal(size=(1, series) if shared else (models, series))
        found = crossed_interval(table, shared=shared if told is None else told)
        held += found.low <= 0.3 <= found.high
    return held / DRAWS


@pytest.mark.parametrize(
    ("models", "series", "parts"),
    [
        (5, 60, (0.3, 1.0, 1.0)),  # both count
        (5, 60, (0.5, 0.2, 0.5)),  # models count most
        (3, 200, (0.05, 1.0, 0.5)),  # series count most
    ],
)
def test_shared_series(models, series, parts):
    assert abs(coverage(models, series, *parts) - 0.95) < ERROR + 0.015  # Satterthwaite's law is approximate


def test_models_with_series_of_their_own():
    assert abs(coverage(4, 50, 0.3, 0.5, 1.0, shared=False) - 0.95) < ERROR  # exactly Student's t


def test_one_model_is_over_its_series():
    assert abs(coverage(1, 40, 0.0, 1.0, 1.0) - 0.95) < ERROR
    values = np.random.default_rng(0).normal(size=40)
    low, high = stats.t.interval(0.95, 39, values.mean(), stats.sem(values))
    found = crossed_interval(values[None], shared=True)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-4)
    assert (found.models, found.series) == (1, 40)


def test_the_spread_of_folds_alone_would_not_hold():
    """What tables of folds on one test set print: that error does not know that the series were drawn."""
    assert coverage(5, 60, 0.05, 1.0, 0.3, told=False) < 0.8


def test_mean_squares_by_hand():
    """Rows 1 3 and 5 11: means 2 and 8, columns 3 and 7; squares 36 and 16, rest 4; (36 + 16 - 4) / 4 = 12."""
    found = crossed_interval([[1.0, 3.0], [5.0, 11.0]], shared=True)
    freedom = 48**2 / (36**2 + 16**2 + 4**2)
    assert found.mean == 5
    assert found.freedom == pytest.approx(freedom)
    assert found.high - 5 == pytest.approx(stats.t.ppf(0.975, freedom) * 12**0.5, rel=1e-3)
    alone = crossed_interval([[1.0, 3.0], [5.0, 11.0]], shared=False)
    assert (alone.freedom, alone.high - 5) == (1, pytest.approx(stats.t.ppf(0.975, 1) * 3, rel=1e-3))
    assert not alone.excludes_zero


def test_what_has_no_interval_is_refused():
    with pytest.raises(InputError, match="two series"):
        crossed_interval([[1.0], [2.0]], shared=True)
    with pytest.raises(InputError, match="shape"):
        crossed_interval([[1.0, float("nan")]], shared=True)
