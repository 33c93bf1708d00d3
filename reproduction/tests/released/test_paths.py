"""Integrated gradients, GradientSHAP and RandIG as released."""

import math
from dataclasses import replace

import pytest
import torch

from tempograd.core.errors import UnknownNameError
from tempograd.explainers import IntegratedGradients, RandIG
from tempograd_paper.released.gradient_shap import ReleasedGradientShap
from tempograd_paper.released.integrated_gradients import ReleasedIntegratedGradients
from tempograd_paper.released.rand_ig import ReleasedRandIG
from tempograd_paper.released.timing import ReleasedTiming
from tests.helpers.models import Recurrent, linear, series, smooth


def test_released_integrated_gradients_keep_own_steps_of_the_logit():
    model, x = Recurrent(classes=2, per_step=True).double(), series(2, 5, 3, dtype=torch.float64)
    found = ReleasedIntegratedGradients.of("state")(model, x)
    own = IntegratedGradients()(model, x, steps="own", output="raw")
    torch.testing.assert_close(found.values, own.values)
    with pytest.raises(UnknownNameError, match="wafer"):
        ReleasedIntegratedGradients.of("waver")


@pytest.mark.parametrize(
    ("dataset", "batch", "size"), [("wafer", 10, 25), ("state", 50, 60), ("switch_feature", None, 25)]
)
def test_released_gradient_shap_draws_half_of_its_baselines_from_the_batch(dataset, batch, size):
    """For a linear model the expectation is weight · (x - half the mean of the series' batch)."""
    model, x = linear(4, 2, classes=1), series(size, 4, 2) + 2 * torch.arange(size)[:, None, None] / size
    preset = ReleasedGradientShap.of(dataset)
    assert (preset.n_samples, preset.noise, preset.batch) == (50, 1e-4, batch)
    found = replace(preset, n_samples=3000)(model, x, output="raw")
    batches = x.split(batch or size)
    centre = torch.cat([part.mean(0, keepdim=True).expand_as(part) / 2 for part in batches])
    expected = (model[1].weight[0].view(4, 2) * (x - centre)).detach()
    assert ((found.values - expected) / found.standard_error).abs().max() < 4.8
    pools = [torch.cat([torch.zeros_like(part), part]) for part in batches]
    spread = torch.cat([
        pool.std(0, correction=0).expand_as(part) for pool, part in zip(pools, batches, strict=True)
    ])  # fmt: skip
    expected = model[1].weight[0].view(4, 2).abs().detach() * spread
    torch.testing.assert_close(found.standard_error * math.sqrt(3000), expected, rtol=0.1, atol=0)


def test_training_series_are_no_baselines_of_released_gradient_shap():
    """Its copies are of the call's baseline, also where it was fitted as every method is that can be."""
    model, x, preset = smooth(4, 2), series(6, 4, 2), ReleasedGradientShap.of("wafer")
    fitted = preset.fit(model, series(9, 4, 2, seed=1) + 3)(model, x)
    plain = preset(model, x)
    assert torch.equal(fitted.values, plain.values)
    assert torch.equal(fitted.baseline, plain.baseline)


def test_released_gradient_shap_takes_uniform_positions():
    """A batch of one has 0 and x as baselines; draws from 0 show where they are on their way to 1."""
    x, seen = torch.ones(1, 4, 2), []

    def model(z):
        seen.append(z.detach())
        return z.sum((1, 2))

    ReleasedGradientShap(4000, 0.0, batch=1, quirks={"9"})(model, x, output="raw")
    rows = torch.cat(seen).flatten(1)
    assert (rows == rows[:, :1]).all()  # one position per draw
    position = rows[rows[:, 0] < 1, 0].sort().values.double()
    assert abs(len(position) - 2000) < 4.5 * math.sqrt(1000)
    rank = (torch.arange(len(position)) + 0.5) / len(position)
    assert (position - rank).abs().max() * math.sqrt(len(position)) < 2  # Kolmogorov
    assert ((position * 4000) % 1 - 0.5).abs().mean() > 0.2  # on no grid


def test_released_gradient_shap_on_synthetic_data_keeps_own_steps_of_the_logit():
    model, x = Recurrent(classes=2, per_step=True).double(), series(4, 5, 3, dtype=torch.float64)
    preset = ReleasedGradientShap.of("state")
    assert preset.quirks == {"9", "A6", "B7"}
    assert ReleasedGradientShap.of("pam").quirks == {"9"}
    own = replace(preset, quirks=frozenset({"9"}))(model, x, steps="own", output="raw")
    torch.testing.assert_close(preset(model, x).values, own.values, rtol=0, atol=0)
    assert (replace(preset, quirks=frozenset({"9"}))(model, x).values != own.values).any()


@pytest.mark.parametrize("dataset", ["switch_feature", "state"])
def test_released_synthetic_presets_show_every_fault(dataset):
    preset = ReleasedTiming.of(dataset)
    assert preset.quirks == set(ReleasedTiming.faults)
    assert preset.anchored == 0
    assert ReleasedIntegratedGradients.of(dataset).quirks == {"A6", "B7"}


def test_released_presets_of_the_real_sets():
    assert ReleasedIntegratedGradients.of("wafer").quirks == frozenset()
    assert all(ReleasedTiming.of(name).anchored == 0 for name in ("mimic3", "wafer"))
    preset = ReleasedRandIG.of("mimic3")
    assert (preset.n_samples, preset.p, preset.quirks) == (50, 0.7, {"A7", "A11"})


def test_the_left_grid_of_rand_ig_starts_at_the_baseline():
    x = torch.full((1, 4, 1), 2.0)
    left = ReleasedRandIG(10, 1.0, quirks={"A7"})(lambda z: (z**2).sum((1, 2)) / 2, x, output="raw").values
    torch.testing.assert_close(left, torch.full_like(x, 4 * 0.45))


def test_both_readings_of_p_are_each_others_complement():
    model, x = smooth(15, 2, seed=1), series(20, 15, 2, seed=2, dtype=torch.float64)
    found = RandIG(50, p=0.3)(model, x, target=0)
    other = ReleasedRandIG(50, p=0.7, quirks=frozenset({"A11"}))(model, x, target=0)
    torch.testing.assert_close(other.values, found.values)
