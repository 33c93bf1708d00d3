"""captum, closed forms and a literal reading of the protocol."""

import json
import math
from pathlib import Path

import pytest
import torch
from captum.attr import IntegratedGradients as Captum
from settings import PAPER

from conftest import Recurrent, linear, series, smooth
from tempograd.errors import UnknownNameError
from tempograd.explainers import GradientShap, IntegratedGradients, Timing
from tempograd.models import MODELS


@pytest.mark.parametrize("architecture", ["gru", "cnn", "transformer"])
@pytest.mark.parametrize("rule", ["gauss-legendre", "midpoint"])
def test_integrated_gradients_agree_with_captum(architecture, rule):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = MODELS[architecture](3, 4).eval()
    x, target = series(3, 16, 3), torch.tensor([0, 3, 1])
    found = IntegratedGradients(300, rule)(model, x, target=target).values
    oracle = Captum(lambda z: model(z).softmax(-1)).attribute(x, target=target, n_steps=300)
    scale = oracle.abs().amax((1, 2), keepdim=True)
    assert ((found - oracle) / scale).abs().max() < 5e-3


def test_integrated_gradients_are_complete_and_exact_for_a_cubic():
    """Gauss–Legendre with 2 nodes integrates the quadratic gradient of a cubic exactly."""
    x, start = series(4, 5, 2, dtype=torch.float64), 0.3
    found = IntegratedGradients(2)(lambda z: (z**3).flatten(1).sum(1), x, baseline=start, output="raw").values
    torch.testing.assert_close(found.double(), x**3 - start**3, rtol=1e-5, atol=1e-6)
    model = smooth(5, 2)
    whole = IntegratedGradients(50)(model, x, target=1, baseline=start).values.sum((1, 2))
    change = model(x).softmax(-1)[:, 1] - model(torch.full_like(x, start)).softmax(-1)[:, 1]
    torch.testing.assert_close(whole.double(), change, rtol=1e-5, atol=1e-7)


def test_gradient_shap_averages_over_its_pool():
    """For a linear model the expectation is weight · (x - mean of the pool)."""
    model, x, pool = linear(6, 2), series(2, 6, 2), series(50, 6, 2, seed=9) + 1
    found = GradientShap(4000).fit(model, pool)(model, x, target=0, output="raw")
    weight = model[1].weight[0].view(6, 2)
    expected = (weight * (x - pool.mean(0))).detach()
    assert ((found.values - expected) / found.standard_error).abs().max() < 4.5
    spread = (weight * pool).std(0, correction=0) / math.sqrt(4000)
    torch.testing.assert_close(found.standard_error, spread.detach().expand(2, -1, -1), rtol=0.1, atol=0)


def test_gradient_shap_without_a_pool_is_midpoint_integrated_gradients():
    model, x = Recurrent(), series(3, 8, 3)
    plain = IntegratedGradients(30, "midpoint")(model, x, baseline="average").values
    torch.testing.assert_close(GradientShap(30)(model, x, baseline="average").values, plain, rtol=1e-4, atol=1e-8)


def test_gradient_shap_noise_has_the_given_size():
    """The input gradient is 1, so the score is the step itself."""
    x = torch.zeros(4, 6, 5)
    found = GradientShap(2000, noise=0.3)(lambda z: z.flatten(1).sum(1), x, output="raw")
    torch.testing.assert_close(found.standard_error * math.sqrt(2000), torch.full_like(x, 0.3), rtol=0.1, atol=0)
    assert (found.values / found.standard_error).abs().max() < 4.5


def test_published_wafer_leaves_half_of_the_cells_at_zero_and_all_of_the_first_step():
    found = Timing.published("wafer")(linear(152, 1), series(100, 152, 1), target=1, output="raw").values
    assert 0.45 < (found == 0).float().mean() < 0.57
    assert (found[:, 0] == 0).all()


@pytest.mark.parametrize("dataset", PAPER)
def test_published_settings_are_those_of_the_paper(dataset):
    preset = Timing.published(dataset)
    assert (preset.segments, preset.min_length, preset.max_length) == PAPER[dataset][2:]
    assert preset.points == 50
    assert preset.quirks == {"A3", "A4", "A5", "A7"}


def test_published_synthetic_settings_are_the_best_of_the_stored_sweep():
    rows = json.loads((Path(__file__).parents[2] / "benchmarks/results/published_cells.json").read_text())
    for dataset in ("state", "switch_feature"):
        totals: dict[tuple[int, int], float] = {}
        for row in rows:
            if row["data"] == dataset:
                cell = row["segments"], row["max_length"]
                totals[cell] = totals.get(cell, 0) + row["cpd"]
        preset = Timing.published(dataset)
        assert (preset.segments, preset.max_length) == max(totals, key=totals.__getitem__)
        assert preset.quirks == {"A3", "A4", "A5", "A6", "A7", "1.4"}


def test_published_grid_starts_at_the_baseline_and_epsilon_shrinks_the_mean():
    """f = sum x²/2: the gradient at αx is αx, and with one length of zero effect nothing else happens."""
    x = torch.full((1, 4, 1), 2.0)
    left = Timing(10, 0, quirks=frozenset({"A7"}))(lambda z: (z**2).sum((1, 2)) / 2, x, output="raw").values
    torch.testing.assert_close(left, torch.full_like(x, 4 * 0.45))
    shrunk = Timing(10, 0, quirks=frozenset({"A5"}))(lambda z: (z**2).sum((1, 2)) / 2, x, output="raw").values
    torch.testing.assert_close(shrunk, torch.full_like(x, 4 * 0.5 * 10 / (10 + 2**-10)))


def test_published_synthetic_variant_sums_magnitudes_over_prefixes():
    """Protocol 1.4, literally: every prefix explains its own last logit, magnitudes add up."""
    model, x = Recurrent(classes=2, per_step=True).double().eval(), series(3, 6, 3, dtype=torch.float64)
    preset = Timing(20, 2, 1, 3, anchored=0.0, quirks=frozenset({"A6", "1.4"}))
    found = preset(model, x, seed=4)
    expected = torch.zeros_like(x)
    for end in range(1, 7):
        part = x[:, :end]
        short = Timing(20, 2, 1, min(3, end), anchored=0.0)
        target = model(part)[:, -1].argmax(-1)
        step = short(model, part, target=target, steps=end - 1, output="raw", seed=4 + (end << 32)).values
        expected[:, :end] += step.abs()
    torch.testing.assert_close(found.values.double(), expected, rtol=1e-5, atol=1e-9)
    assert found.output == "probability"
    assert found.parameters["quirks"] == ["1.4", "A6"]


def test_published_integrated_gradients_keep_own_steps_of_the_logit():
    model, x = Recurrent(classes=2, per_step=True).double(), series(2, 5, 3, dtype=torch.float64)
    found = IntegratedGradients.published("state")(model, x)
    own = IntegratedGradients()(model, x, steps="own", output="raw")
    torch.testing.assert_close(found.values, own.values)
    with pytest.raises(UnknownNameError, match="wafer"):
        IntegratedGradients.published("waver")
