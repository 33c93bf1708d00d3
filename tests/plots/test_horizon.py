"""The picture of a forecast: numbers of a linear forecaster by hand, and what stands in it."""

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd import plots
from tests.helpers.pictures import texts

TIME, CHANNELS, HORIZON = 8, 2, 5
X = torch.randn(3, TIME, CHANNELS, generator=torch.Generator().manual_seed(1))
WEIGHT = torch.randn(HORIZON, TIME, CHANNELS, generator=torch.Generator().manual_seed(2))


def model(z):
    return torch.einsum("btd,htd->bh", z, WEIGHT)


def explained(targets="all", mask=None):
    series = tg.Series(X, mask=mask, channels=["load", "wind"])
    return tg.explain(model, series, "integrated_gradients", n_steps=3, output="raw", targets=targets)


def heat(picture):
    return next(axes for axes in picture.axes if axes.images)


def test_rows_are_steps_ahead_and_columns_are_the_past():
    picture = plots.horizon(explained([4, 0]), 1)
    pushes = (WEIGHT[[4, 0]] * X[1]).sum(2)  # (step, time)
    limit = max(np.quantile(pushes.abs(), 0.98, method="higher"), float(pushes.abs().max()) / 4)
    np.testing.assert_allclose(heat(picture).images[0].get_array(), (pushes / limit).clip(-1, 1), atol=1e-4)
    assert [label.get_text() for label in heat(picture).get_yticklabels()] == ["4", "0"]
    strongest = sorted((0, 1), key=lambda d: -float((WEIGHT[[4, 0]] * X[1])[..., d].abs().sum()))
    for axes, d in zip(picture.axes, strongest, strict=False):  # the past of the strongest channel first
        np.testing.assert_array_equal(axes.lines[1].get_ydata(), X[1, :, d])
    (beside,) = [axes for axes in picture.axes if "forecast" in [text.get_text() for text in axes.texts]]
    numbers = [float(label.get_text().replace("−", "-")) for label in beside.get_yticklabels()]
    assert numbers == pytest.approx(model(X[1:2])[0, [4, 0]].tolist(), abs=0.01)


def test_one_channel_pushes_alone():
    picture = plots.horizon(explained(), channels=["wind"])
    pushes = WEIGHT[..., 1] * X[0, :, 1]
    limit = np.quantile(pushes.abs(), 0.98, method="higher")
    np.testing.assert_allclose(heat(picture).images[0].get_array(), (pushes / limit).clip(-1, 1), atol=1e-4)
    assert any("values of wind" in text for text in texts(picture))


def test_cells_that_were_not_observed_are_hatched_where_no_channel_was():
    mask = torch.ones_like(X, dtype=torch.bool)
    mask[0, 3], mask[0, 5, 0] = False, False
    picture = plots.horizon(explained(mask=mask))
    hidden = np.ma.getmaskarray(heat(picture).images[0].get_array())
    assert np.flatnonzero(hidden.all(0)).tolist() == [3]
    assert any("hatched: not observed" in text for text in texts(picture))
