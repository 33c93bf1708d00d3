"""The picture of a forecast: numbers of a linear forecaster by hand, and what stands in it."""

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd import plots
from tempograd.core.errors import InputError
from tempograd.views.prediction import horizon_view
from tests.helpers.pictures import linear_forecast, texts

TIME, CHANNELS, HORIZON = 8, 2, 5
X = torch.randn(3, TIME, CHANNELS, generator=torch.Generator().manual_seed(1))
WEIGHT = torch.randn(HORIZON, TIME, CHANNELS, generator=torch.Generator().manual_seed(2))


def model(z):
    return torch.einsum("btd,htd->bh", z, WEIGHT)


def grid(z):
    """Forecast both channels: each by its own past."""
    return torch.einsum("btd,htd->bhd", z, WEIGHT)


FORECASTER = tg.Predictor(grid, task="forecast")


def explained(targets="all", of=model, mask=None, **options):
    return tg.explain(
        of, tg.Series(X, mask=mask), "integrated_gradients", n_steps=3, output="raw", targets=targets, **options
    )


def named(explanations, **names):
    return tg.Explanations({target: part.with_names(**names) for target, part in explanations.items()})


def test_rows_are_steps_ahead_and_columns_are_the_past():
    record = horizon_view(explained(), 1, model=model)
    by_hand = (WEIGHT * X[1]).sum(2)  # (horizon, time)
    np.testing.assert_allclose(record.scores.values, by_hand.T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(record.totals, by_hand.sum(1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(record.forecast, model(X[1:2])[0], rtol=1e-5)
    np.testing.assert_array_equal(record.past.x, X[1])
    assert (record.steps, record.names) == ((0, 1, 2, 3, 4), ("0", "1", "2", "3", "4"))
    assert (record.pushed_by, record.forecast_of, record.past.left_out) == ("all 2 channels", None, 0)


def test_one_channel_and_some_steps_in_their_order():
    found = named(explained([4, 0]), channels=["load", "wind"])
    record = horizon_view(found, channel="wind")
    np.testing.assert_allclose(record.scores.values, (WEIGHT[[0, 4], :, 1] * X[0, :, 1]).T, rtol=1e-4, atol=1e-5)
    assert record.steps == (0, 4)
    assert (record.past.names, record.past.left_out, record.pushed_by) == (("wind",), 1, "wind")
    assert record.forecast is None


def test_the_forecast_of_a_variable_continues_its_channel():
    found = explained(of=FORECASTER)
    record = horizon_view(found, 2, model=grid, variable=1)
    np.testing.assert_allclose(record.forecast, grid(X[2:3])[0, :, 1], rtol=1e-5)
    np.testing.assert_allclose(record.scores.values, (WEIGHT[..., 1] * X[2, :, 1]).T, rtol=1e-4, atol=1e-5)
    assert (record.forecast_of, record.variable, record.steps) == (1, 1, (0, 1, 2, 3, 4))
    one = horizon_view(explained([(2, 0), (1, 0)], of=FORECASTER))
    assert (one.steps, one.variable) == ((1, 2), 0)


@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        ("all", {"variable": None}, r"variable= must be that of some of these targets, \[0, 1\]"),
        ("all", {"variable": 2}, r"variable= must be that of some of these targets, \[0, 1\]"),
        ([(0, 0)], {"channel": "wind"}, "wind"),
        ([tg.targets.mean()], {}, "A horizon needs the steps of a forecast as targets, got 'the mean over"),
        ("all", {"i": 3, "variable": 0}, "i must be a position in 0 … 2, got 3"),
    ],
)
def test_what_is_no_horizon_is_refused(targets, options, message):
    found = explained(targets, of=FORECASTER)
    with pytest.raises(InputError, match=message):
        plots.horizon(found, **options)


def test_cells_that_were_not_observed_are_hatched_where_no_channel_was():
    mask = torch.ones_like(X, dtype=torch.bool)
    mask[0, 3], mask[0, 5, 0] = False, False
    record = horizon_view(explained(mask=mask))
    assert np.flatnonzero(~record.seen).tolist() == [3]
    assert not record.scores.values[3].any()
    assert any("hatched: not observed" in text for text in texts(plots.horizon(explained(mask=mask))))


def test_raw_values_units_and_names_are_shown():
    found = named(explained(), channels=["load", "wind"], raw=100 + X, units=["MW", ""])
    record = horizon_view(found, model=model)
    assert record.past.names == ("load [MW]", "wind")
    np.testing.assert_array_equal(record.past.x, 100 + X[0])
    assert record.forecast_of is None  # it is on the model's scale
    written = texts(plots.horizon(found, model=model))
    assert {"load [MW]", "wind", "forecast", "sum of each row"} <= set(written)
    several = explained("all", of=FORECASTER).with_names(raw=100 + X, units=["MW", ""])
    assert horizon_view(several, variable=0).forecast_of is None
    passed = horizon_view(several, x=X, variable=0)  # on the model's scale, where units mean nothing
    np.testing.assert_array_equal(passed.past.x, X[0])
    assert (passed.past.units, passed.forecast_of) == (("", ""), 0)


def test_bars_and_dots_are_those_of_the_record():
    found, forecast = linear_forecast()
    record = horizon_view(found, model=forecast)
    picture = plots.horizon(found, model=forecast)
    heads = {axes.get_title("left"): axes for axes in picture.axes}
    bars = sorted(heads["sum of each row"].patches, key=lambda bar: bar.get_y())
    np.testing.assert_allclose([bar.get_width() for bar in bars], record.totals, rtol=1e-6)
    line, dots = heads["forecast"].lines
    np.testing.assert_allclose(line.get_ydata(), record.forecast)
    assert dots.get_xdata().tolist() == list(record.steps)
    assert (
        heads["sum of each row"].get_ylim()[0] > heads["sum of each row"].get_ylim()[1]
    )  # downwards, as the rows
