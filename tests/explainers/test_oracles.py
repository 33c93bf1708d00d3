"""captum, closed forms and a literal reading of the protocol."""

import math

import pytest
import torch
from captum.attr import IntegratedGradients as Captum

import tempograd as tg
from tempograd.core.errors import TempogradWarning
from tempograd.explainers import GradientShap, IntegratedGradients, MaskingIG, RandIG, Timing
from tempograd.models import MODELS
from tests.helpers.methods import run
from tests.helpers.models import Recurrent, linear, series, smooth


@pytest.mark.parametrize(
    ("architecture", "rule"),
    [("gru", "midpoint"), ("cnn", "midpoint"), ("transformer", "midpoint"), ("transformer", "gauss-legendre")],
)
def test_integrated_gradients_agree_with_captum(architecture, rule):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = MODELS[architecture](3, 4).eval()
    x, target = series(3, 16, 3), torch.tensor([0, 3, 1])
    found = IntegratedGradients(300, rule)(model, x, target=target).values
    oracle = Captum(lambda z: model(z).softmax(-1)).attribute(x, target=target, n_steps=300)
    scale = oracle.abs().amax((1, 2), keepdim=True)
    assert ((found - oracle) / scale).abs().max() < 1e-2


def test_integrated_gradients_are_complete_and_exact_for_a_cubic():
    """Gauss–Legendre with 2 nodes integrates the quadratic gradient of a cubic exactly."""
    x, start = series(4, 5, 2, dtype=torch.float64), 0.3
    found = IntegratedGradients(2)(lambda z: (z**3).flatten(1).sum(1), x, baseline=start, output="raw").values
    torch.testing.assert_close(found.double(), x**3 - start**3, rtol=1e-5, atol=1e-6)
    model = smooth(5, 2)
    whole = IntegratedGradients(50)(model, x, target=1, baseline=start).values.sum((1, 2))
    delta = model(x).softmax(-1)[:, 1] - model(torch.full_like(x, start)).softmax(-1)[:, 1]
    torch.testing.assert_close(whole.double(), delta, rtol=1e-5, atol=1e-7)


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
    with pytest.warns(TempogradWarning, match="no pool of baselines, so its scores are those of integrated"):
        found = GradientShap(30)(model, x, baseline="average").values
    torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-8)


def test_gradient_shap_noise_has_the_given_size():
    """The input gradient is 1, so the score is the step itself."""
    x = torch.zeros(4, 6, 5)
    found = GradientShap(2000, noise=0.3)(lambda z: z.flatten(1).sum(1), x, output="raw")
    torch.testing.assert_close(found.standard_error * math.sqrt(2000), torch.full_like(x, 0.3), rtol=0.1, atol=0)
    assert (found.values / found.standard_error).abs().max() < 4.5


@pytest.mark.parametrize("explainer", [IntegratedGradients(), Timing(), RandIG(), GradientShap()])
def test_the_sum_of_the_series_is_explained_by_the_series(explainer):
    """Its gradient is a view of a single 1."""
    x = series(3, 6, 2)
    torch.testing.assert_close(run(explainer, lambda z: z.sum((1, 2)), x, output="raw").values, x)


def test_starved_masks_of_many_series_are_resampled_too():
    x = series(1200, 60, 1)  # more masks than are remembered between calls
    with pytest.warns(UserWarning, match="is active in only"):
        found = Timing(20, None, 5, 4, 60, anchored=0.05)(linear(60, 1), x)
    assert found.n_draws.min() >= 1


def test_the_error_of_a_cell_at_its_baseline_is_zero_or_unknown_but_never_nan():
    x = series(3, 6, 2)
    x[:, ::2] = 0
    with pytest.warns(UserWarning, match="use n_samples"):
        found = RandIG(3, p=0.4)(linear(6, 2), x)
    assert (found.n_draws[:, ::2] < 2).any()
    assert not found.standard_error.isnan().any()
    assert (found.standard_error >= 0).all()


def test_half_precision_models_are_averaged_in_single_precision():
    model, x = linear(6, 2), series(2, 6, 2)
    low = IntegratedGradients(1000, "midpoint")(model.bfloat16(), x, target=0, output="raw").values
    expected = model[1].weight[0].view(6, 2).float() * x.bfloat16().float()
    torch.testing.assert_close(low, expected.detach(), rtol=1e-5, atol=0)


def test_masking_follows_the_rows_of_its_series():
    model, x = smooth(6, 2), series(20, 6, 2, dtype=torch.float64)
    moving = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.5
    together = MaskingIG(moving)(model, x, batch_size=150).values
    alone = [MaskingIG(moving[i])(model, x[i : i + 1]).values for i in range(20)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-4, atol=1e-7)


def test_remembered_draws_belong_to_seed_and_ids():
    model, x = smooth(9, 2), series(2, 9, 2, dtype=torch.float64)
    maps = [
        Timing()(model, tg.Series(x, ids=ids), seed=seed).values
        for seed, ids in ((0, [0, 1]), (1, [0, 1]), (0, [2, 3]))
    ]
    assert all((first != second).any() for i, first in enumerate(maps) for second in maps[:i])
    torch.testing.assert_close(Timing()(model, tg.Series(x, ids=[0, 1])).values, maps[0], rtol=0, atol=0)
