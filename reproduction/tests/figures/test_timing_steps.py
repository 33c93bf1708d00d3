"""How TIMING works: the record is made of the explanation's own masks, points and gradients."""

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd_paper import figures
from tests.helpers.models import Product, Recurrent, RunningDifference, series


def slow_gradient(model, z, target):
    z = z.clone().requires_grad_()
    model(z[None]).softmax(-1)[0, target].backward()
    return z.grad


def test_points_and_gradients_follow_from_the_masks():
    """With one channel a point is known from the record alone, and so is its gradient."""
    x, baseline = series(3, 12, 1) + 1, torch.full((1, 12, 1), 0.5)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    explanation = tg.explain(
        model,
        x,
        n_samples=40,
        segments=2,
        min_length=2,
        max_length=4,
        anchored=0,
        control_variates=False,
        baseline=baseline,
        seed=3,
    )
    record = figures.timing_steps_record(model, explanation, 2, shown=40)
    assert record.alpha.tolist() == pytest.approx([(0.5 + point) / 40 for point in range(40)])
    assert 0 < record.held.mean() < 1
    for alpha, held, z, gradient in zip(record.alpha, record.held, record.z, record.gradient, strict=True):
        expected = np.where(held, record.x, record.baseline + alpha * (record.x - record.baseline))
        np.testing.assert_allclose(z, expected, atol=1e-6)
        slow = slow_gradient(
            model, torch.tensor(expected, dtype=torch.float32)[:, None], int(explanation.target[2])
        )
        np.testing.assert_allclose(gradient, slow[:, 0], atol=1e-6)
    free = ~record.held
    mean = (record.gradient * free).sum(0) / free.sum(0)
    np.testing.assert_allclose(record.mean_gradient, mean, atol=1e-6)
    np.testing.assert_allclose(record.values, (record.x - record.baseline) * mean, atol=1e-6)
    np.testing.assert_allclose(record.values, explanation.values[2, :, 0], atol=1e-6)


def test_what_comes_of_the_steps_is_the_explanation():
    """Also with anchored masks, missing values, padding and one output per step."""
    x = series(4, 16, 3)
    mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) > 0.3
    mask[1, 11:] = False
    cases = [
        (Recurrent().eval(), {"mask": mask, "anchored": 0.5, "control_variates": False}),
        (Recurrent().eval(), {"mask": mask, "n_samples": 5, "control_variates": False}),  # masks are redrawn
        (Product(), {"n_samples": 300, "target": 1, "segments": 3, "control_variates": False}),
        (RunningDifference(), {"steps": [3, 4, 5], "control_variates": False}),
        (RunningDifference(), {"steps": "own", "n_samples": 7, "control_variates": False}),
    ]
    for model, options in cases:
        explanation = tg.explain(
            model, tg.Series(x, mask=options.pop("mask", None), ids=[7, 3, 1, 9]), seed=5, **options
        )
        for i in range(4):
            for channel in range(3):
                record = figures.timing_steps_record(model, explanation, i, channel=channel)
                way = record.x - record.baseline
                np.testing.assert_allclose(record.values, explanation.values[i, :, channel], atol=1e-6)
                seen = record.observed
                np.testing.assert_allclose((record.mean_gradient * way)[seen], record.values[seen], atol=1e-6)


def test_with_controls_the_mean_is_over_the_points_that_a_series_got():
    """Where nothing is left to explain, the attribution is still the mean gradient times the way."""
    weights = torch.linspace(-1, 1, 12).view(12, 1)

    def model(z):
        return (z * weights).sum((1, 2))[:, None]

    x = series(2, 12, 1) + 1
    for options, points in (({"n_samples": 200}, 200), ({"tolerance": 0.5}, 50)):
        explanation = tg.explain(model, x, output="raw", target=0, **options)
        record = figures.timing_steps_record(model, explanation, 1)
        assert record.points == points
        np.testing.assert_allclose(record.values, (record.mean_gradient * record.x), atol=1e-5)


def test_the_strongest_channel_is_shown_and_points_are_spread_over_the_path():
    x = torch.ones(1, 6, 3)
    x[..., 1] = 3

    def model(z):
        return z.square().sum((1, 2))[:, None]

    explanation = tg.explain(model, tg.Series(x, channels=["a", "b", "c"]), output="raw", n_samples=40)
    record = figures.timing_steps_record(model, explanation)
    assert record.channel == "b"
    assert record.alpha.tolist() == pytest.approx([5.5 / 40, 15.5 / 40, 25.5 / 40, 35.5 / 40])
    picture = figures.draw_timing_steps(record)
    drawn = [axes.lines[1].get_ydata().tolist() for axes in picture.axes[1:5]]
    assert drawn == record.z.tolist()


def test_other_methods_are_refused():
    explanation = tg.explain(Product(), series(1, 4, 2), "integrated_gradients")
    with pytest.raises(tg.TempogradError, match="timing_steps shows TIMING without quirks"):
        figures.timing_steps(Product(), explanation)
