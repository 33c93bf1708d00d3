"""TIMING against known answers, a textbook loop and its own limits."""

import warnings
from dataclasses import replace

import pytest
import torch

import tempograd as tg
from tempograd.core.errors import TempogradWarning
from tempograd.core.rng import fold_in, keys
from tempograd.explainers import IntegratedGradients, MaskingIG, RandIG, Timing
from tempograd.sampling.segments import (
    SegmentSampler,
    complete,
    cover_all_cells,
    draw_masks,
    sample_masks,
)
from tempograd.views.drivers import drivers_of
from tests.helpers.methods import PAPER
from tests.helpers.models import Recurrent, linear, series, smooth


@pytest.mark.parametrize("setting", PAPER)
@pytest.mark.filterwarnings("ignore::tempograd.core.errors.TempogradWarning")
def test_a_linear_model_is_explained_exactly_in_every_cell(setting):
    time, channels, *lengths = PAPER[setting]
    model, x = linear(time, channels), series(8 if setting == "pam" else 60, time, channels)
    found = Timing(50, None, *lengths)(model, x, target=1, output="raw")
    torch.testing.assert_close(found.values, model[1].weight[1].view(time, channels) * x, rtol=1e-5, atol=0)
    assert found.n_draws.min() >= 1


def literal_timing(model, x, target, masks, anchors_free, points):
    """The estimate for one series, written slowly from the definition; ``masks`` are 1 where a cell moves."""
    gradients, weights = [], []
    for k in range(points):
        point = x.clone()
        moved = (k + 0.5) / points * x
        point[masks[k]] = moved[masks[k]]
        point.requires_grad_()
        model(point[None]).softmax(-1)[0, target].backward()
        gradients.append(point.grad)
        weights.append(anchors_free(masks[k]))
    values = torch.zeros_like(x)
    for cell in torch.cartesian_prod(torch.arange(x.shape[0]), torch.arange(x.shape[1])):
        i = tuple(cell.tolist())
        above = sum(w * g[i] for w, g, m in zip(weights, gradients, masks, strict=True) if m[i])
        below = sum(w for w, m in zip(weights, masks, strict=True) if m[i])
        values[i] = x[i] * above / below if below else 0.0
    return values


@pytest.mark.parametrize("lengths", [(3, 2, 5), (12, 2, 5)])
@pytest.mark.parametrize("anchored", [0.0, 0.8])
def test_equals_a_textbook_loop_with_the_same_draws(lengths, anchored):
    time, channels, points = 9, 2, 15
    model, x = smooth(time, channels), series(3, time, channels, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TempogradWarning)
        method = Timing(points, None, *lengths, anchored=anchored, control_variates=False)
        found = method(model, tg.Series(x, ids=[7, 8, 9]), target=2, seed=5).values
    segments = replace(complete(time, channels, *lengths, time), anchored=anchored)
    free = torch.from_numpy(segments.p_active()).repeat_interleave(channels)
    sampler = SegmentSampler.table({time: segments}, x, x.device, x.dtype).of(torch.full((3,), time))
    stream = keys(5, torch.tensor([7, 8, 9]), 0)
    drawn = draw_masks(stream, sampler, torch.ones_like(x, dtype=torch.bool), points)
    drawn = cover_all_cells(drawn, sampler, torch.ones_like(x, dtype=torch.bool))
    if not anchored:
        drawn = drawn._replace(
            masks=sample_masks(fold_in(stream, points), sampler), anchors=torch.full((3, points), -1)
        )
    for i in range(3):

        def weight(mask, i=i):
            """p(M)/q(M) of the mixture, from the anchors."""
            anchors = drawn.anchors[i].tolist()
            alone = sum(a < 0 for a in anchors) / points
            return 1 / (alone + sum(mask.flatten()[a].item() / free[a].item() for a in anchors if a >= 0) / points)

        slow = literal_timing(model, x[i], 2, drawn.masks[i], weight, points)
        torch.testing.assert_close(found[i].double(), slow, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("lengths", [(6, 2, 6), (12, 2, 6)])
def test_anchors_change_the_error_but_not_the_answer(lengths):
    model, x = smooth(12, 2), series(1, 12, 2, seed=3, dtype=torch.float64)
    maps = []
    for anchored in (0.0, None, 0.3, 0.8):
        found = Timing(500, None, *lengths, anchored=anchored)(
            model, x.expand(40, -1, -1), target=0
        ).values.double()
        maps.append((found.mean(0), found.std(0) / 40**0.5))
    reference, spread = maps[0]
    for mean, error in maps[1:]:
        assert ((mean - reference) / (error**2 + spread**2).sqrt()).abs().max() < 4.5


def test_every_observed_cell_is_seen_even_where_independent_masks_see_half():
    model, x = linear(152, 1), series(300, 152, 1)
    mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.7
    with pytest.warns(TempogradWarning, match="is active in only"):
        found = Timing(50, None, 5, 10, 152)(model, tg.Series(x, mask=mask))
    assert found.n_draws[mask].min() >= 1
    assert (found.n_draws[~mask] == 0).all()
    with pytest.warns(TempogradWarning, match="use n_samples="):
        independent = Timing(50, None, 5, 10, 152, anchored=0.0)(model, tg.Series(x, mask=mask))
    assert (independent.n_draws[mask] == 0).float().mean() > 0.4


@pytest.mark.parametrize("model", [linear(10, 3), Recurrent(), Recurrent().double()])
def test_without_segments_it_is_midpoint_integrated_gradients(model):
    x = series(5, 10, 3)
    plain = IntegratedGradients(n_steps=40, rule="midpoint")(model, x).values
    torch.testing.assert_close(Timing(40, segments=0)(model, x).values, plain, rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(RandIG(40, p=1.0)(model, x).values, plain, rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(MaskingIG(torch.ones(10, 3), 40)(model, x).values, plain, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(
    ("shape", "lengths", "anchored"),
    [
        pytest.param((20, 2), (1, 1, 3), 0.0, marks=pytest.mark.slow),
        ((20, 2), (1, 1, 3), 0.8),
        pytest.param((20, 2), (6, 2, 6), 0.8, marks=pytest.mark.slow),
        ((20, 2), (6, 2, 6), None),
        ((20, 2), (12, 3, 10), 0.0),
        pytest.param((20, 2), (12, 3, 10), 0.8, marks=pytest.mark.slow),
        pytest.param((60, 1), (5, 4, 60), None, marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore::tempograd.core.errors.TempogradWarning")
def test_intervals_cover_the_converged_value(shape, lengths, anchored):
    """Light to starved masking, three models. Draws depend on the id, so 100 ids of one series are 100 seeds."""
    call, inside = {"target": 0, "batch_size": 4000}, {False: [], True: []}
    for seed in (1, 11, 21):
        model, x = smooth(*shape, seed=seed), series(1, *shape, seed=seed, dtype=torch.float64)
        many = Timing(1500, None, *lengths)(model, tg.Series(x.expand(15, -1, -1), ids=range(1000, 1015)), **call)
        converged, x = many.values.mean(0), x.expand(100, -1, -1)
        for controls, hits in inside.items():
            found = Timing(50, None, *lengths, anchored=anchored, control_variates=controls)(model, x, **call)
            low, high = found.interval(0.95)
            hits.append(((low <= converged) & (converged <= high))[found.n_draws >= 2].float().mean())
    assert 0.92 <= sum(inside[False]) / 3 <= 0.97
    assert 0.93 <= sum(inside[True]) / 3 <= 0.99  # what may be missing makes them wider


def test_rand_ig_intervals_cover():
    model, x = smooth(15, 2, seed=1), series(1, 15, 2, seed=2, dtype=torch.float64).expand(200, -1, -1)
    converged = RandIG(2000, p=0.3)(
        model, tg.Series(x[:30], ids=range(1000, 1030)), target=0, batch_size=4000
    ).values.mean(0)
    found = RandIG(50, p=0.3)(model, x, target=0, batch_size=4000)
    low, high = found.interval(0.95)
    assert 0.93 <= ((low <= converged) & (converged <= high)).float().mean() <= 0.97
    assert found.n_draws.float().mean() == pytest.approx(15, abs=0.3)


def test_masks_are_anchored_by_default_only_where_cells_are_starved():
    """Where cells are free often enough, all points count alike."""
    model, x = linear(12, 3), series(5, 12, 3)
    found = Timing(60)(model, x)
    torch.testing.assert_close(found.ess, found.n_draws.float())
    with pytest.warns(TempogradWarning, match="use n_samples="):
        starved = Timing(20, None, 20, 2, 6)(model, x)
    assert (starved.ess < starved.n_draws - 0.01).any()


def test_by_default_a_series_stops_where_its_answer_is_certain():
    """The first of 50, 100, 200 and 400 samples with an error of 10 %, or of 30 % and certain drivers."""
    model, x = smooth(24, 3), 20 * series(60, 24, 3, dtype=torch.float64)
    found, counts = tg.explain(model, x), (50, 100, 200, 400)
    fixed = [tg.explain(model, x, n_samples=count) for count in counts]
    for i in range(len(x)):
        for exp in fixed:
            error, drivers = float(exp.relative_error[i]), drivers_of(exp, i)
            named = [each for each in drivers if abs(each.total) >= 0.1 * abs(drivers[0].total)]
            if error <= 0.1 or (error <= 0.3 and all(each.certain for each in named)):
                break
        assert int(found.n_evals[i]) == int(exp.n_evals[i])
        torch.testing.assert_close(found.values[i], exp.values[i])
    assert {int(count) for count in found.n_evals} == {*counts}
    one = tg.explain(model, tg.Series(x[7:8], ids=[7]))  # whoever comes with it
    assert (int(one.n_evals), one.relative_error) == (int(found.n_evals[7]), found.relative_error[7:8])


def test_whether_masks_are_anchored_depends_on_the_series_alone():
    """A short series in the company of a long one, with segments that starve the short one only."""
    model, x, mask = linear(40, 1), series(2, 40, 1), torch.ones(2, 40, 1)
    mask[0, 9:] = 0
    with pytest.warns(TempogradWarning, match="use n_samples="):
        together, alone = (Timing(30, None, 3, 2, 7)(model, tg.Series(x[:n], mask=mask[:n])) for n in (2, 1))
    torch.testing.assert_close(together.values[:1], alone.values)
    torch.testing.assert_close(together.ess[:1], alone.ess)
    assert (alone.ess[0, :9] < alone.n_draws[0, :9] - 0.01).any()
    torch.testing.assert_close(together.ess[1], together.n_draws[1].float())
