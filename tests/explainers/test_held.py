"""The share of cells that masks hold: exact, the same family from integrated gradients to single cells."""

from itertools import product

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.core.errors import SettingError, TempogradWarning
from tempograd.core.rng import keys
from tempograd.explainers import IntegratedGradients, RandIG, Timing
from tempograd.explainers.timing import draw_whole
from tempograd.sampling.segments import SegmentSampler, SegmentSettings, complete
from tests.helpers.models import Recurrent, series, smooth


def masks(method: Timing, time: int, channels: int, many: int, stage: int = 0):
    """Draw the masks of many series of one shape."""
    setting = method.segment_settings(time, channels, time)
    return draw_whole(method, setting, torch.arange(many), 0, torch.float64, stage)


# The share is exact


@pytest.mark.parametrize("held", [0.01, 0.25, 0.4, 0.5, 0.75, 0.9])
@pytest.mark.parametrize(
    ("time", "channels", "low", "high"),
    [(48, 1, 16, 24), (48, 8, None, None), (152, 1, 7, 15), (10, 3, 10, 10), (5, 2, 1, 3), (30, 4, None, 1)],
)
def test_the_mean_held_share_is_the_one_that_was_asked_for(held, time, channels, low, high):
    setting = complete(time, channels, None, low, high, time, held)
    assert 1 - setting.p_active().mean() == pytest.approx(held, abs=1e-8)


def placements(setting: SegmentSettings) -> list[tuple[float, np.ndarray]]:
    """All segments with their probabilities, each as a mask of what it covers."""
    found = []
    lengths = range(setting.low, setting.high + 1)
    for length, channel in product(lengths, range(setting.channels)):
        for start in range(setting.time - length + 1):
            covered = np.zeros((setting.time, setting.channels), dtype=bool)
            covered[start : start + length, channel] = True
            found.append((1 / len(lengths) / setting.channels / (setting.time - length + 1), covered))
    return found


def enumerated(setting: SegmentSettings) -> dict[bytes, float]:
    """The probability of every mask, from all ways to place segments, one after the other."""
    one_more = setting.more / 2**32
    nothing = np.zeros((setting.time, setting.channels), dtype=bool)
    ways, total = {nothing.tobytes(): 1.0}, dict.fromkeys([nothing.tobytes()], 0.0)
    for count in range(setting.count + 2):
        share = {setting.count: 1 - one_more, setting.count + 1: one_more}.get(count, 0.0)
        for covered, probability in ways.items():
            total[covered] = total.get(covered, 0.0) + share * probability
        longer: dict[bytes, float] = {}
        for (covered, before), (probability, more) in product(ways.items(), placements(setting)):
            both = (np.frombuffer(covered, dtype=bool) | more.flatten()).tobytes()
            longer[both] = longer.get(both, 0.0) + before * probability
        ways = longer
    return total


SMALL = [(5, 1, 2, 3, 0.6), (3, 2, 1, 2, 0.7), (6, 1, 3, 4, 0.35)]


@pytest.mark.parametrize(("time", "channels", "low", "high", "held"), SMALL)
def test_closed_form_equals_all_ways_to_place_segments(time, channels, low, high, held):
    setting = complete(time, channels, None, low, high, time, held)
    assert 0 < setting.more < 2**32
    active = np.zeros((time, channels))
    for covered, probability in enumerated(setting).items():
        active += probability * ~np.frombuffer(covered, dtype=bool).reshape(time, channels)
    np.testing.assert_allclose(active, np.repeat(setting.p_active()[:, None], channels, 1), atol=1e-9)
    assert active.mean() == pytest.approx(1 - held, abs=1e-9)


@pytest.mark.parametrize(("time", "channels", "low", "high", "held"), SMALL)
@pytest.mark.parametrize("anchored", [0.0, 0.8])
def test_every_mask_comes_as_often_as_its_probability_says(time, channels, low, high, held, anchored):
    """With anchors: by weight, which must know that a mask with one segment more is less likely to miss a cell."""
    method = Timing(25, held=held, min_length=low, max_length=high, anchored=anchored)
    drawn = masks(method, time, channels, 4000)
    weights = torch.ones(drawn.masks.shape[:2]).double() if drawn.weights is None else drawn.weights
    assert (drawn.weights is None) == (anchored == 0)
    held_cells = (~drawn.masks).flatten(2)
    for covered, probability in enumerated(complete(time, channels, None, low, high, time, held)).items():
        same = (held_cells == torch.from_numpy(np.frombuffer(covered, dtype=bool).copy())).all(2)
        each = (same * weights).mean(1)  # of one series, whose masks belong together
        assert (
            abs(each.mean() - probability) < 5 * each.std() / len(each) ** 0.5 + 1.5e-4
        )  # the rarest: 15 of 100,000


# Single cells


@pytest.mark.parametrize("held", [0.2, 0.5, 0.6, 0.75, 0.9])
@pytest.mark.parametrize("anchored", [None, 0.0])
def test_each_mask_alone_holds_single_cells_independently(held, anchored):
    drawn = masks(Timing(50, held=held, max_length=1, anchored=anchored), 2, 2, 6000).masks.flatten(2)
    for point, cells in product((0, 1, 24, 49), product([False, True], repeat=4)):
        found = (drawn[:, point] == torch.tensor(cells)).all(1).double().mean()
        expected = held ** (4 - sum(cells)) * (1 - held) ** sum(cells)
        assert abs(found - expected) < 5 * (expected * (1 - expected) / len(drawn)) ** 0.5


@pytest.mark.parametrize(
    ("held", "turns"), [(0.97, (1, 2)), (0.9, (5, 5)), (0.75, (12, 13)), (0.5, (25, 25)), (0.1, (45, 45))]
)
def test_each_cell_is_active_equally_often(held, turns):
    drawn = masks(Timing(50, held=held, max_length=1), 12, 3, 300).masks
    count = drawn.sum(1)
    assert (count.min(), count.max()) == turns
    assert count.double().mean() == pytest.approx(50 * (1 - held), abs=0.05)


def test_turns_of_a_cell_go_on_from_stage_to_stage():
    """Of four points in a thousand the first hundred samples leave most cells out; 1,000 give each its four."""
    method = Timing(1000, held=0.996, max_length=1)
    stages = range(len(method.schedule.stages))
    assert len(stages) > 3
    count = sum(masks(method, 6, 2, 300, stage).masks.sum(1) for stage in stages)
    assert (count >= 3).all()  # 0.996 is rounded: a cell in a million may be one short
    assert (count == 4).double().mean() > 0.99


@pytest.mark.parametrize("held", [0.9, 0.75, 0.5])
def test_turns_of_a_cell_are_spread_over_the_path_and_no_two_cells_take_theirs_together(held):
    drawn = masks(Timing(50, held=held, max_length=1), 10, 2, 300).masks.flatten(2)
    own = round(1 / (1 - held))  # one turn in so many points
    for turns in drawn.transpose(1, 2).flatten(0, 1)[:500]:
        place = turns.nonzero()[:, 0]
        gaps = torch.cat([place, place[:1] + 50]).diff()
        assert gaps.max() < 3 * own
    together = (drawn[..., :1] & drawn[..., 1:]).double().sum(1)  # of the first cell and another
    assert together.mean() == pytest.approx(50 * (1 - held) ** 2, rel=0.05)
    assert (together == drawn[..., :1].sum(1)).double().mean() < 0.01  # as one in ten would on a lattice
    assert together.std() < 1.1 * (50 * (1 - held) ** 2 * (1 - (1 - held) ** 2)) ** 0.5  # if they were independent


def all_masks(model, x, held):
    """The family's answer for single cells, from all masks and Gauss–Legendre nodes: exact for smooth models."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    cells, total = x[0].numel(), torch.zeros_like(x[0]).flatten()
    for moves in product([False, True], repeat=cells):
        active = torch.tensor(moves).view(x.shape[1:])
        probability = held ** (cells - sum(moves)) * (1 - held) ** sum(moves)
        for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
            z = torch.where(active, node * x[0], x[0]).requires_grad_()
            (slope,) = torch.autograd.grad(model(z[None])[0, 1], z)
            total += probability * weight / (1 - held) * (active * slope * x[0]).flatten()
    return total.view(x.shape[1:])


@pytest.mark.parametrize("held", [*(pytest.param(held, marks=pytest.mark.slow) for held in (0.3, 0.9)), 0.75])
def test_single_cells_are_what_rand_ig_estimates(held):
    model, x = smooth(3, 2, seed=2), 2 * series(1, 3, 2, seed=4, dtype=torch.float64)
    expected = all_masks(model, x, held)
    single = {"held": held, "max_length": 1}
    methods = {  # and how many series; the controls cost a bias, which many samples have little of
        "balanced": (Timing(50, **single, control_variates=False), 1000),
        "independent": (Timing(50, **single, control_variates=False, anchored=0), 1000),
        "controlled": (Timing(1000, **single), 60),
        "rand_ig": (RandIG(50, p=1 - held), 1000),
    }
    for name, (method, many) in methods.items():
        found = method(model, x.expand(many, -1, -1), target=1, output="raw", gradient_check=False).values.double()
        found = found[(found != 0).flatten(1).all(1)]  # without those of which a cell never moved
        error = found.std(0) / len(found) ** 0.5
        slack = {"controlled": 0.01}.get(name, 0.0) * expected.abs().max()
        assert ((found.mean(0) - expected).abs() < 5 * error + slack).all(), name


def test_balanced_cells_have_smaller_errors_than_independent_ones():
    model, x = smooth(6, 2, seed=2), 2 * series(1, 6, 2, seed=4, dtype=torch.float64)
    spread = {}
    for anchored in (None, 0.0):
        method = Timing(50, held=0.9, max_length=1, anchored=anchored)
        found = method(model, x.expand(300, -1, -1), target=1, output="raw", gradient_check=False)
        spread[anchored] = found.values.double().std(0).square().mean().sqrt()
        if anchored is None:
            assert found.n_draws.unique().tolist() == [5]
    assert spread[None] < 0.8 * spread[0.0]


# The ends of the family, and what it meets


@pytest.mark.parametrize("settings", [{}, {"max_length": 1}, {"min_length": 3}])
def test_nothing_held_is_integrated_gradients(settings):
    model, x = Recurrent(), series(5, 10, 3)
    found = Timing(40, held=0, **settings)(model, x)
    assert torch.equal(found.values, Timing(40, segments=0)(model, x).values)
    plain = IntegratedGradients(n_steps=40, rule="midpoint")(model, x).values
    torch.testing.assert_close(found.values, plain, rtol=1e-5, atol=1e-9)


def test_nearly_everything_held_is_the_ablation_of_one_cell():
    model, x = smooth(6, 2), series(1, 6, 2, dtype=torch.float64)
    gone = x.repeat(12, 1, 1).flatten(1).fill_diagonal_(0).view(12, 6, 2)
    ablation = (model(x) - model(gone))[:, 1].view(6, 2).detach()
    method = Timing(20_000, held=0.999, max_length=1)
    found = method(model, x, target=1, output="raw", gradient_check=False).values[0].double()
    torch.testing.assert_close(found, ablation, atol=0.03 * float(ablation.abs().max()), rtol=0)


@pytest.mark.parametrize("settings", [{"max_length": 1}, {"min_length": 2, "max_length": 4}, {}])
def test_a_series_has_its_own_masks_whatever_is_beside_it(settings):
    """Of a batch in which one ends sooner, with cells never observed, in another order, in passes of 7."""
    model, x = Recurrent().double(), series(4, 12, 3, dtype=torch.float64)
    mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.8
    mask[1, 3:], mask[0, 11, 0], mask[1, 2, 0] = False, True, True
    x = x.where(mask, 0)
    method = Timing(30, held=0.7, **settings)
    call = {"output": "raw", "target": 1, "seed": 3}
    found = method(model, tg.Series(x, mask=mask, ids=[4, 5, 6, 7]), **call)
    order = [2, 0, 3, 1]
    other = method(model, tg.Series(x[order], mask=mask[order], ids=[6, 4, 7, 5]), batch_size=7, **call)
    torch.testing.assert_close(found.values[order], other.values)
    assert torch.equal(found.n_draws[order], other.n_draws)
    last = masks(method, 12, 3, 1).masks
    setting = method.segment_settings(3, 3, 12)
    alone = draw_whole(method, setting, torch.arange(1), 0, torch.float64).masks
    assert 1 - setting.p_active().mean() == pytest.approx(0.7, abs=1e-8)
    if settings == {"max_length": 1}:
        assert torch.equal(last[:, :, :3], alone)


def test_a_short_series_of_single_cells_beside_long_ones_of_segments():
    """With automatic lengths three steps are held one by one, twelve in segments."""
    method = Timing(40, held=0.75)
    by_length = {length: method.segment_settings(length, 2, 12) for length in (3, 12)}
    assert [setting.single for setting in by_length.values()] == [True, False]
    x, ids = torch.zeros(2, 12, 2), torch.tensor([8, 9])
    sampler = SegmentSampler.table(by_length, x, x.device, x.dtype).of(torch.tensor([12, 3]))
    drawn = method.draw(keys(0, ids, 0), sampler, torch.ones(2, 12, 2, dtype=torch.bool))
    for place, length in enumerate((12, 3)):
        alone = draw_whole(method, by_length[length], ids[[place]], 0, x.dtype).masks
        assert torch.equal(drawn.masks[[place], :, :length], alone)
    assert drawn.masks[1, :, :3].sum(0).unique().tolist() == [10]


def test_several_inputs_hold_the_same_share():
    """A product of one cell of each has a closed form: x · (1 - p / 2), with p what is left of the other."""
    held = 0.75
    found = tg.explain(
        lambda past, static: past[:, 1, :1] * static[:, :1],
        {"past": torch.ones(60, 4, 1), "static": torch.ones(60, 3)},
        output="raw",
        n_samples=200,
        held=held,
        max_length=1,
        gradient_check=False,
    )
    for name, cell in (("static", (slice(None), 0)), ("past", (slice(None), 1, 0))):
        values = found[name].values[cell]
        error = found[name].standard_error[cell].square().mean().sqrt() / 60**0.5
        assert abs(float(values.mean()) - (1 - (1 - held) / 2)) < 5 * float(error) + 1e-3, name


def test_what_cannot_be_estimated_is_refused_with_what_can(said):
    model, x = Recurrent(1), series(2, 48, 1)
    said.refused(SettingError, lambda: Timing(held=1.0))
    said.refused(SettingError, lambda: Timing(held=-0.1))
    said.refused(SettingError, lambda: Timing(held=0.5, segments=3))
    said.refused(SettingError, lambda: Timing(20, held=0.97, max_length=1)(model, x))
    said.refused(SettingError, lambda: Timing(held=0.97, min_length=16, max_length=24)(model, x))
    said.refused(SettingError, lambda: Timing(held=0.5, max_length=49)(model, x))
    for method in (Timing(34, held=0.97, max_length=1), Timing(50, held=0.9, min_length=5, max_length=16)):
        with pytest.warns(TempogradWarning) as told:
            method(model, x)
        said(told[0].message)


def test_the_setting_is_kept_with_the_result(tmp_path):
    found = tg.explain(Recurrent(), series(2, 10, 3), held=0.75, n_samples=20)
    assert found.parameters["held"] == 0.75
    found.save(tmp_path / "kept.safetensors")
    assert tg.Explanation.load(tmp_path / "kept.safetensors").parameters == found.parameters
