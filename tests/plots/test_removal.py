"""Removal curves against removing cell by cell, and the example in which effects cancel, in closed form."""

import numpy as np
import pytest
import torch
from scipy import stats

import tempograd as tg
from tempograd import plots
from tempograd_paper import figures
from tests.helpers.explanations import made
from tests.helpers.models import RunningDifference, linear, series


def slow_curve(model, explanation, i, weakest_first):
    """Take the observed cells of a series away one by one and add up what the prediction moves."""
    x, mask = explanation.x[i].clone(), explanation.mask[i]
    order = sorted(mask.nonzero().tolist(), key=lambda cell: float(explanation.values[i][tuple(cell)].abs()))
    order = order if weakest_first else order[::-1]
    total, curve, before = 0.0, [0.0], model(x[None]).softmax(-1)[0]
    for cell in order[: len(order) // 2]:
        x[tuple(cell)] = 0
        after = model(x[None]).softmax(-1)[0]
        total += float((after - before).abs().sum())
        curve.append(total)
        before = after
    return curve


def masked():
    x = series(4, 5, 2)
    mask = torch.ones_like(x, dtype=torch.bool)
    mask[1, :3] = False  # this series has fewer cells to lose
    model = linear(5, 2)
    return model, tg.explain(model, tg.Series(x, mask=mask), n_samples=5)


@pytest.mark.parametrize("name", ["cpd", "cpp"])
def test_curves_are_the_mean_over_series_of_what_a_loop_adds_up(name):
    model, explanation = masked()
    with torch.no_grad():
        slow = [slow_curve(model, explanation, i, name == "cpp") for i in range(4)]
    longest = max(len(curve) for curve in slow)
    slow = np.array([curve + [curve[-1]] * (longest - len(curve)) for curve in slow])  # flat once nothing is left
    axes = plots.removal(model, explanation, k=0.5).axes[("cpd", "cpp").index(name)]
    (line,), (band,) = axes.lines, axes.collections
    assert line.get_xdata().tolist() == list(range(longest))
    np.testing.assert_allclose(line.get_ydata(), slow.mean(0), atol=1e-6)
    half = slow.std(0, ddof=1) / 2 * stats.t.ppf(0.975, 3)
    top = dict(sorted(band.get_paths()[0].vertices.tolist()))
    np.testing.assert_allclose([top[x] for x in range(1, longest)], (slow.mean(0) + half)[1:], rtol=1e-3)


@pytest.mark.parametrize("per_step", [False, True])
def test_curves_end_at_the_mean_that_evaluate_gives(per_step):
    model, x = (RunningDifference(), series(9, 30, 2)) if per_step else (linear(30, 2), series(9, 30, 2))
    found = {method: tg.explain(model, x, method) for method in ("timing", "occlusion", "random")}
    panels = plots.removal(model, found, k=0.3).axes
    for place, explanation in enumerate(found.values()):
        scores = tg.evaluate(model, explanation, metrics=["cpd", "cpp"], k=0.3)
        for name, axes in zip(("cpd", "cpp"), panels, strict=True):
            assert axes.lines[place].get_ydata()[-1] == pytest.approx(tg.summarise(scores[name]).mean)


def test_one_series_has_a_curve_and_no_band():
    model, explanation = masked()
    picture = plots.removal(model, explanation[:1], k=2)
    assert [len(axes.collections) for axes in picture.axes] == [0, 0]
    assert len(picture.axes[0].lines[0].get_ydata()) == 3


def test_in_the_example_removing_all_at_once_prefers_the_wrong_method():
    model, explanations = figures.cancel_out_example()
    right, wrong = explanations.values()
    for explanation, difference, cpd in ((right, 0, 20), (wrong, 5, 5)):
        scores = tg.evaluate(model, explanation, metrics=["prediction_difference", "cpd"], k=20)
        assert float(scores["prediction_difference"]) == pytest.approx(difference, abs=1e-5)
        assert float(scores["cpd"]) == pytest.approx(cpd, abs=1e-4)


def test_the_example_is_exact_and_so_is_its_record():
    model, explanations = figures.cancel_out_example()
    right = explanations["right order, both signs"]
    for t in range(60):  # what the model loses with one step is what integrated gradients say
        without = right.x.clone()
        without[0, t] = 0
        assert float(model(right.x) - model(without)) == pytest.approx(float(right.values[0, t]), abs=1e-5)
    record = figures.cancel_out_record(model, explanations)
    strong = set(range(1, 60, 3))
    assert set(record.methods[0].top.tolist()) == strong
    assert not strong & set(record.methods[1].top.tolist())
    order = record.methods[0].top
    running = np.abs(np.cumsum(right.values.flatten().numpy()[order]))
    np.testing.assert_allclose(record.methods[0].difference, [0, *running], atol=1e-5)
    np.testing.assert_allclose(record.methods[0].cumulative, np.arange(21), atol=1e-5)
    np.testing.assert_allclose(record.methods[1].difference, np.arange(21) * 0.25, atol=1e-5)
    np.testing.assert_allclose(record.methods[1].cumulative, np.arange(21) * 0.25, atol=1e-5)


def test_cancel_out_of_ones_own_series():
    def total(x):
        return x.sum((1, 2))[:, None]

    x = torch.tensor([[[9.0], [9.0]], [[2.0], [-3.0]]])
    explanation = tg.IntegratedGradients(n_steps=1)(total, tg.Series(x, ids=[5, 6]), output="raw")
    record = figures.cancel_out_record(total, explanation, 1, k=2)
    (found,) = record.methods
    assert (record.id, found.top.tolist()) == (6, [1, 0])
    assert (found.difference.tolist(), found.cumulative.tolist()) == ([0, 3, 1], [0, 3, 5])


def test_cancel_out_needs_a_model_and_its_explanations():
    with pytest.raises(tg.TempogradError, match="Pass a model and its explanations, or neither"):
        figures.cancel_out(explanations=made([[[1.0]]]))
