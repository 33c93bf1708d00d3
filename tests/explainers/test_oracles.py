"""captum, closed forms and a literal reading of the protocol."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from captum.attr import IntegratedGradients as Captum
from conftest import Recurrent, first_seed, linear, series, smooth
from settings import PAPER, run

from tempograd.errors import TempogradWarning, UnknownNameError
from tempograd.explainers import GradientShap, IntegratedGradients, MaskingIG, RandIG, Timing
from tempograd.models import MODELS


@pytest.mark.parametrize("architecture", ["gru", "cnn", "transformer"])
@pytest.mark.parametrize("rule", ["gauss-legendre", "midpoint"])
def test_integrated_gradients_agree_with_captum(architecture, rule):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = MODELS[architecture](3, 4).eval()
    x, target = series(3, 16, 3), torch.tensor([0, 3, 1])
    found = IntegratedGradients(600, rule)(model, x, target=target).values
    oracle = Captum(lambda z: model(z).softmax(-1)).attribute(x, target=target, n_steps=600)
    scale = oracle.abs().amax((1, 2), keepdim=True)
    assert ((found - oracle) / scale).abs().max() < 1e-2


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
    with pytest.warns(TempogradWarning, match="no pool of baselines, so its scores are those of integrated"):
        found = GradientShap(30)(model, x, baseline="average").values
    torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize(
    ("dataset", "batch", "size"), [("wafer", 10, 25), ("state", 50, 60), ("switch_feature", None, 25)]
)
def test_published_gradient_shap_draws_half_of_its_baselines_from_the_batch(dataset, batch, size):
    """For a linear model the expectation is weight · (x - half the mean of the series' batch)."""
    model, x = linear(4, 2, classes=1), series(size, 4, 2) + 2 * torch.arange(size)[:, None, None] / size
    preset = GradientShap.published(dataset)
    assert (preset.points, preset.noise, preset.batch) == (50, 1e-4, batch)
    found = replace(preset, points=3000)(model, x, output="raw")
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


def test_published_gradient_shap_takes_uniform_positions():
    """A batch of one has 0 and x as baselines; draws from 0 show where they are on their way to 1."""
    x, seen = torch.ones(1, 4, 2), []

    def model(z):
        seen.append(z.detach())
        return z.sum((1, 2))

    GradientShap(4000, 0.0, 1, quirks=frozenset({"9"}))(model, x, output="raw")
    rows = torch.cat(seen).flatten(1)
    assert (rows == rows[:, :1]).all()  # one position per draw
    position = rows[rows[:, 0] < 1, 0].sort().values.double()
    assert abs(len(position) - 2000) < 4.5 * math.sqrt(1000)
    rank = (torch.arange(len(position)) + 0.5) / len(position)
    assert (position - rank).abs().max() * math.sqrt(len(position)) < 2  # Kolmogorov
    assert ((position * 4000) % 1 - 0.5).abs().mean() > 0.2  # on no grid


def test_published_gradient_shap_on_synthetic_data_keeps_own_steps_of_the_logit():
    model, x = Recurrent(classes=2, per_step=True).double(), series(4, 5, 3, dtype=torch.float64)
    preset = GradientShap.published("state")
    assert preset.quirks == {"9", "A6", "B7"}
    assert GradientShap.published("pam").quirks == {"9"}
    own = replace(preset, quirks=frozenset({"9"}))(model, x, steps="own", output="raw")
    torch.testing.assert_close(preset(model, x).values, own.values, rtol=0, atol=0)
    assert (replace(preset, quirks=frozenset({"9"}))(model, x).values != own.values).any()


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
    rows = json.loads((Path(__file__).parents[2] / "perf/results/published_cells.json").read_text())
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
        short = Timing(20, 2, 1, min(3, end), anchored=0.0, controls=False)
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


@pytest.mark.parametrize("explainer", [IntegratedGradients(), Timing(), RandIG(), GradientShap()])
def test_the_sum_of_the_series_is_explained_by_the_series(explainer):
    """Its gradient is a view of a single 1."""
    x = series(3, 6, 2)
    torch.testing.assert_close(run(explainer, lambda z: z.sum((1, 2)), x, output="raw").values, x)


def test_prefixes_keep_mask_baseline_ids_and_their_own_predictions():
    """Protocol 1.4 with everything a call can say; the predicted class changes along the series."""
    model = Recurrent(classes=3, per_step=True).double().eval()
    with torch.no_grad():
        model.head.weight *= 20

    def made(seed):
        return 3 * series(4, 6, 3, seed=seed, dtype=torch.float64)

    x = made(first_seed(lambda seed: bool((model(made(seed)).argmax(-1).diff(dim=1) != 0).any())))
    mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.8
    mask[:, 0] = True
    call = {"ids": [5, 3, 8, 1], "baseline": torch.full((3,), 0.4)}
    preset = Timing(20, 2, 1, 3, anchored=0.0, quirks=frozenset({"1.4", "A6"}))
    found = preset(model, x, mask=mask, seed=4, **call)
    expected = torch.zeros_like(x)
    for end in range(1, 7):
        part = x[:, :end]
        target = model(part)[:, -1].argmax(-1)
        short = Timing(20, 2, 1, min(3, end), anchored=0.0, quirks=frozenset({"A6"}))  # no warnings with quirks
        step = short(model, part, target=target, steps=end - 1, mask=mask[:, :end], output="raw",
                      seed=4 + (end << 32), **call).values  # fmt: skip
        expected[:, :end] += step.abs()
    torch.testing.assert_close(found.values.double(), expected, rtol=1e-5, atol=1e-9)
    assert found.standard_error is None


def test_starved_masks_of_many_series_are_repaired_too():
    x = series(1200, 60, 1)  # more masks than are remembered between calls
    with pytest.warns(UserWarning, match="is free in only"):
        found = Timing(20, 5, 4, 60, anchored=0.05)(linear(60, 1), x)
    assert found.free_points.min() >= 1


def test_the_error_of_a_cell_at_its_baseline_is_zero_or_unknown_but_never_nan():
    x = series(3, 6, 2)
    x[:, ::2] = 0
    with pytest.warns(UserWarning, match="use points"):
        found = RandIG(3, p=0.4)(linear(6, 2), x)
    assert (found.free_points[:, ::2] < 2).any()
    assert not found.standard_error.isnan().any()
    assert (found.standard_error >= 0).all()


def test_half_precision_models_are_averaged_in_single_precision():
    model, x = linear(6, 2), series(2, 6, 2)
    low = IntegratedGradients(1000, "midpoint")(model.bfloat16(), x, target=0, output="raw").values
    expected = model[1].weight[0].view(6, 2).float() * x.bfloat16().float()
    torch.testing.assert_close(low, expected.detach(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("dataset", ["switch_feature", "state"])
def test_published_synthetic_presets_show_every_fault(dataset):
    preset = Timing.published(dataset)
    assert preset.quirks == Timing.known_quirks
    assert preset.anchored == 0
    assert IntegratedGradients.published(dataset).quirks == {"A6", "B7"}


def test_published_presets_of_the_real_sets():
    assert IntegratedGradients.published("wafer").quirks == frozenset()
    assert all(Timing.published(name).anchored == 0 for name in ("mimic3", "wafer"))
    preset = RandIG.published("mimic3")
    assert (preset.points, preset.p, preset.quirks) == (50, 0.7, {"A7", "A11"})


def test_the_left_grid_of_rand_ig_starts_at_the_baseline():
    x = torch.full((1, 4, 1), 2.0)
    left = RandIG(10, 1.0, quirks=frozenset({"A7"}))(lambda z: (z**2).sum((1, 2)) / 2, x, output="raw").values
    torch.testing.assert_close(left, torch.full_like(x, 4 * 0.45))


def test_masking_follows_the_rows_of_its_series():
    model, x = smooth(6, 2), series(20, 6, 2, dtype=torch.float64)
    moving = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.5
    together = MaskingIG(moving)(model, x, chunk=150).values
    alone = [MaskingIG(moving[i])(model, x[i : i + 1]).values for i in range(20)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-4, atol=1e-7)


def test_remembered_draws_belong_to_seed_and_ids():
    model, x = smooth(9, 2), series(2, 9, 2, dtype=torch.float64)
    maps = [Timing()(model, x, seed=seed, ids=ids).values for seed, ids in ((0, [0, 1]), (1, [0, 1]), (0, [2, 3]))]
    assert all((first != second).any() for i, first in enumerate(maps) for second in maps[:i])
    torch.testing.assert_close(Timing()(model, x, ids=[0, 1]).values, maps[0], rtol=0, atol=0)


def test_the_faults_of_the_sampler_reach_the_masks_of_timing():
    """A3: a segment of 4 steps on a series of 5 always starts at 0. Without quirks that would be refused."""
    found = Timing(50, 1, 4, 4, anchored=0.0, quirks=frozenset({"A3"}))(linear(5, 1), series(3, 5, 1))
    assert found.free_points[0].flatten().tolist() == [0, 0, 0, 0, 50]
