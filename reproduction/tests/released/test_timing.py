"""TIMING as released: a literal reading of the protocol, closed forms, and the tabulated retention."""

import json
from pathlib import Path

import pytest
import torch

import tempograd as tg
from tempograd.core.errors import SettingError
from tempograd.core.rng import fold_in, keys
from tempograd.explainers import Timing
from tempograd.sampling.segments import SegmentSampler, SegmentSettings
from tempograd_paper.released.timing import ReleasedTiming
from tests.helpers.literal_methods import deviation
from tests.helpers.methods import PAPER
from tests.helpers.models import Recurrent, first_seed, linear, series


def test_released_wafer_leaves_half_of_the_cells_at_zero_and_all_of_the_first_step():
    found = ReleasedTiming.of("wafer")(linear(152, 1), series(100, 152, 1), target=1, output="raw").values
    assert 0.45 < (found == 0).float().mean() < 0.57
    assert (found[:, 0] == 0).all()


@pytest.mark.parametrize("dataset", PAPER)
def test_released_settings_are_those_of_the_paper(dataset):
    preset = ReleasedTiming.of(dataset)
    assert (preset.segments, preset.min_length, preset.max_length) == PAPER[dataset][2:]
    assert preset.n_samples == 50
    assert preset.quirks == {"A3", "A4", "A5", "A7"}


def test_released_synthetic_settings_are_the_best_of_the_stored_sweep():
    rows = json.loads((Path(__file__).parents[3] / "perf/results/published_cells.json").read_text())
    for dataset in ("state", "switch_feature"):
        totals: dict[tuple[int, int], float] = {}
        for row in rows:
            if row["data"] == dataset:
                cell = row["segments"], row["max_length"]
                totals[cell] = totals.get(cell, 0) + row["cpd"]
        preset = ReleasedTiming.of(dataset)
        assert (preset.segments, preset.max_length) == max(totals, key=totals.__getitem__)
        assert preset.quirks == {"A3", "A4", "A5", "A6", "A7", "1.4"}


def test_released_grid_starts_at_the_baseline_and_epsilon_shrinks_the_mean():
    """f = sum x²/2: the gradient at αx is αx, and with one length of zero effect nothing else happens."""
    x = torch.full((1, 4, 1), 2.0)
    left, shrunk = (
        ReleasedTiming(10, None, 0, quirks={key})(lambda z: (z**2).sum((1, 2)) / 2, x, output="raw").values
        for key in ("A7", "A5")
    )
    torch.testing.assert_close(left, torch.full_like(x, 4 * 0.45))
    torch.testing.assert_close(shrunk, torch.full_like(x, 4 * 0.5 * 10 / (10 + 2**-10)))


def test_released_synthetic_variant_sums_magnitudes_over_prefixes():
    """Protocol 1.4, literally: every prefix explains its own last logit, magnitudes add up."""
    model, x = Recurrent(classes=2, per_step=True).double().eval(), series(3, 6, 3, dtype=torch.float64)
    preset = ReleasedTiming(20, None, 2, 1, 3, anchored=0.0, quirks=frozenset({"A6", "1.4"}))
    found = preset(model, x, seed=4)
    expected = torch.zeros_like(x)
    for end in range(1, 7):
        part = x[:, :end]
        short = Timing(20, None, 2, 1, min(3, end), anchored=0.0, control_variates=False)
        target = model(part)[:, -1].argmax(-1)
        step = short(model, part, target=target, steps=end - 1, output="raw", seed=4 + (end << 32)).values
        expected[:, :end] += step.abs()
    torch.testing.assert_close(found.values.double(), expected, rtol=1e-5, atol=1e-9)
    assert found.output == "probability"
    assert found.parameters["quirks"] == ["1.4", "A6"]


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
    ids, call = [5, 3, 8, 1], {"baseline": torch.full((3,), 0.4)}
    preset = ReleasedTiming(20, None, 2, 1, 3, anchored=0.0, quirks=frozenset({"1.4", "A6"}))
    found = preset(model, tg.Series(x, mask=mask, ids=ids), seed=4, **call)
    expected = torch.zeros_like(x)
    for end in range(1, 7):
        part = x[:, :end]
        target = model(part)[:, -1].argmax(-1)
        # no warnings with quirks
        short = ReleasedTiming(20, None, 2, 1, min(3, end), anchored=0.0, quirks=frozenset({"A6"}))
        seen = tg.Series(part, mask=mask[:, :end], ids=ids)
        question = call | {"target": target, "steps": end - 1, "output": "raw"}
        step = short(model, seen, seed=4 + (end << 32), **question).values
        expected[:, :end] += step.abs()
    torch.testing.assert_close(found.values.double(), expected, rtol=1e-5, atol=1e-9)
    assert found.standard_error is None


def test_the_faults_of_the_sampler_reach_the_masks_of_timing():
    """A3: a segment of 4 steps on a series of 5 always starts at 0. Without quirks that would be refused."""
    found = ReleasedTiming(50, None, 1, 4, 4, anchored=0.0, quirks=frozenset({"A3"}))(
        linear(5, 1), series(3, 5, 1)
    )
    assert found.n_draws[0].flatten().tolist() == [0, 0, 0, 0, 50]


def masks_of(sampler, ids, points, *faults):
    """Masks of some series as the released code draws them with these faults."""
    streams = fold_in(keys(0, torch.tensor(ids), 0), points)
    return ReleasedTiming(points, anchored=0.0, quirks=frozenset(faults))._sample_masks(streams, sampler)


def draw(segments, points, *faults):
    """Masks of one series, (points, time, channel)."""
    x = torch.zeros(1, segments.time, segments.channels, dtype=torch.float64)
    return masks_of(SegmentSampler.table({segments.time: segments}, x, x.device, x.dtype), [0], points, *faults)[0]


@pytest.mark.parametrize("fault", ["A3", "A4"])
def test_each_released_fault_is_seen_by_that_check(fault):
    segments = SegmentSettings(*PAPER["freezer"])
    assert deviation(draw(segments, 6000, fault), segments) > 9


def test_faults_are_those_of_the_protocol():
    """Retention of the released sampler as tabulated in the protocol, section 1.6 (400 draws there)."""
    retained = 1 - draw(SegmentSettings(*PAPER["mimic3"]), 4000, "A3", "A4").double().mean((0, 2))
    expected = torch.tensor([0.797, 0.287, 0.736, 0.040], dtype=torch.float64)
    torch.testing.assert_close(retained[[0, 1, 24, 47]], expected, rtol=0, atol=0.015)
    assert retained.mean() == pytest.approx(0.600, abs=0.01)


def test_the_fault_of_step_0_needs_a_segment_that_is_shorter_than_the_longest():
    segments = SegmentSettings(10, 2, 3, 4, 4)
    assert torch.equal(draw(segments, 200, "A4"), draw(segments, 200))
    x = torch.zeros(2, 10, 2)
    none, some = SegmentSettings(8, 2, 0, 2, 6), SegmentSettings(10, 2, 3, 2, 6)
    sampler = SegmentSampler.table({8: none, 10: some}, x, x.device, x.dtype).of(torch.tensor([8, 10]))
    both = masks_of(sampler, [0, 1], 50, "A4")
    assert both[0].all()
    assert not both[1].all()


def test_stopping_early_and_faults_exclude_each_other():
    with pytest.raises(SettingError, match="tolerance"):
        ReleasedTiming(tolerance=0.1, quirks={"A3"})
    assert ReleasedTiming(tolerance=0.1).controlled
