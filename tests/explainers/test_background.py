"""Values of other series as the baseline, against closed forms, slow loops, captum and single baselines."""

import itertools

import captum.attr
import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.core.rng import Stream
from tempograd.engine.ask import Background, marks_of
from tests.helpers.models import Recurrent, linear, series, smooth

TIME, CHANNELS = 8, 3
METHODS = ["timing", "rand_ig", "integrated_gradients", "gradient_shap", "occlusion", "lime"]
PATHS = METHODS[:4]
POOL = series(40, TIME, CHANNELS, seed=11)


def against(model, x, method="timing", pool=POOL, **options):
    return tg.explain(model, x, method, baseline="background", background=pool, **options)


def draw_from(pool, x, seed=0):
    place = torch.device("cpu"), x.dtype
    return Background.of(pool, x, seed, place, Stream.BACKGROUND)


# Answers that are known


@pytest.mark.parametrize("method", METHODS[:5])
def test_a_linear_model_compares_with_the_mean_of_the_pool(method):
    model, x = linear(TIME, CHANNELS).double(), series(5, TIME, CHANNELS, dtype=torch.float64)
    found = against(model, x, method, target=1, output="raw")
    weights = model[1].weight[1].view(TIME, CHANNELS).detach()
    torch.testing.assert_close(found.values.double(), weights * (x - POOL.mean(0)), rtol=1e-4, atol=1e-6)
    assert float(found.relative_error.max()) < 1e-3


@pytest.mark.parametrize("method", [*METHODS, "deep_lift"])
@pytest.mark.filterwarnings("ignore:gradient_shap has no pool")
def test_a_baseline_that_was_named_is_the_one_that_counts(method, tmp_path):
    """Also for methods that learn one from the background, and for those that learnt it before."""
    model, x = linear(TIME, CHANNELS), series(5, TIME, CHANNELS)
    call, named = {"target": 1, "output": "raw"}, torch.full((CHANNELS,), 0.5)
    options = {"n_samples": 2000} if method == "lime" else {}
    found = tg.explain(model, x, method, baseline=named, background=POOL, **call, **options)
    expected = model[1].weight[1].view(TIME, CHANNELS).detach() * (x - 0.5)
    torch.testing.assert_close(found.values, expected, rtol=1e-3, atol=0.05 if method == "lime" else 1e-5)
    fitted = tg.EXPLAINERS[method](**options).fit(model, POOL)(model, x, baseline=named, **call)
    assert torch.equal(fitted.values, found.values)
    for known in (found, tg.Explanation.load(found.save(tmp_path / "e"))):
        torch.testing.assert_close(known.baseline, torch.full_like(x, 0.5))


@pytest.mark.parametrize("method", ["gradient_shap", "occlusion"])
def test_a_baseline_that_was_learnt_is_the_one_that_the_file_names(method):
    model, x = linear(TIME, CHANNELS), series(5, TIME, CHANNELS)
    found = tg.explain(model, x, method, background=POOL, target=1, output="raw")
    torch.testing.assert_close(found.baseline, POOL.mean(0).expand_as(x))
    weights = model[1].weight[1].view(TIME, CHANNELS).detach()
    error = (found.values.mean(0) - weights * (x - POOL.mean(0)).mean(0)).abs().max()
    assert error < 0.2 * weights.abs().max()  # 50 draws of 40 series


@pytest.mark.parametrize("method", METHODS[:5])
def test_rows_that_are_the_series_itself_are_left_out(method):
    model, x = linear(TIME, CHANNELS), series(3, TIME, CHANNELS)
    within = torch.cat([POOL[:20], x, x[:1], POOL[20:]])  # the first twice
    found = against(model, x, method, pool=within, target=1, output="raw").values
    weights, total = model[1].weight[1].view(TIME, CHANNELS).detach(), within.sum(0)
    times = torch.tensor([2, 1, 1])[:, None, None]
    others = (total - times * x) / (len(within) - times)
    torch.testing.assert_close(found, weights * (x - others), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("model", [linear(TIME, CHANNELS), Recurrent()])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:gradient_shap has no pool:tempograd.core.errors.TempogradWarning")
def test_a_pool_of_one_series_is_that_baseline(method, model):
    x, mask = series(4, TIME, CHANNELS), torch.rand(4, TIME, CHANNELS) < 0.8
    one = against(model, tg.Series(x, mask=mask), method, pool=POOL[:1])
    single = tg.explain(model, tg.Series(x, mask=mask), method, baseline=POOL[0])
    torch.testing.assert_close(one.values, single.values, rtol=1e-5, atol=1e-8)
    if single.standard_error is not None:
        torch.testing.assert_close(one.standard_error, single.standard_error, rtol=0.5, atol=1e-6)
    assert one.baseline_kind == "background"


def exact_timing(model, x, target, pool, hidden):
    """Average over every mask that fixes ``hidden`` neighbouring steps, every series of the pool and the path."""
    position, weight = torch.linspace(0.0005, 0.9995, 1000).double(), 1e-3
    total, count = torch.zeros_like(x), torch.zeros_like(x)
    for start, z in itertools.product(range(len(x) - hidden + 1), pool):
        free = torch.ones_like(x)
        free[start : start + hidden] = 0
        points = (x + free * (1 - position)[:, None, None] * (z - x)).requires_grad_()
        model(points).softmax(-1)[:, target].sum().backward()
        total += free * (x - z) * (points.grad * weight).sum(0)
        count += free
    return total / count


def test_timing_equals_all_masks_and_all_series_one_by_one():
    model, x, pool = (
        smooth(5, 1),
        series(2, 5, 1, dtype=torch.float64),
        series(3, 5, 1, seed=4, dtype=torch.float64),
    )
    method = tg.Timing(20_000, segments=1, min_length=2, max_length=2)
    found = method(model, x, target=2, baseline="background", background=pool)
    slow = torch.stack([exact_timing(model, each, 2, pool, 2) for each in x])
    error = (found.values - slow).abs() / slow.abs().amax((1, 2), keepdim=True)
    assert float(error.max()) < 0.01
    zero = method(model, x, target=2).values
    assert float((zero - slow).abs().max() / slow.abs().max()) > 0.1  # which is another question


# Errors and what random numbers depend on


def rows_of(pool, x, samples, ids=None):
    ids = torch.arange(len(x)) if ids is None else torch.tensor(ids)
    background = draw_from(pool, x)
    return background.pool[background.rows(x, ids, samples)]


def test_every_row_comes_as_often_as_any_other():
    x, pool = series(2, TIME, CHANNELS), torch.cat([POOL, series(2, TIME, CHANNELS)[:1]])
    for samples, most in ((20, 2), (40, 2), (400, 11)):
        drawn = marks_of(rows_of(pool, x, samples).flatten(0, 1)).view(2, -1)
        for row, own in zip(drawn, marks_of(x), strict=True):
            marks, counts = row.unique(return_counts=True)
            assert own not in marks
            assert counts.max() <= most
            assert samples < 400 or (counts.min() >= 9 and len(marks) in (40, 41))


def test_every_sample_is_as_likely_to_get_any_row():
    ids = list(range(4000))
    background = draw_from(POOL[:5], series(1, TIME, CHANNELS))
    rows = background.rows(series(1, TIME, CHANNELS).expand(4000, -1, -1), torch.tensor(ids), 3)
    share = torch.stack([(rows == row).double().mean(0) for row in range(5)])
    assert float((share - 0.2).abs().max()) < 4 * (0.2 * 0.8 / 4000) ** 0.5


@pytest.mark.parametrize("method", METHODS)
def test_neither_company_nor_order_nor_batches_change_a_score(method):
    model, x = Recurrent(), series(6, TIME, CHANNELS)
    mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.8
    mask[3:] = True
    whole = against(model, tg.Series(x, mask=mask), method).values
    other = POOL[torch.randperm(len(POOL), generator=torch.Generator().manual_seed(0))]
    part = against(model, tg.Series(x, mask=mask).take([4, 1]), method, pool=other, batch_size=5).values
    torch.testing.assert_close(part, whole[[4, 1]], rtol=1e-4, atol=1e-7)
    again = against(model, tg.Series(x, mask=mask), method, seed=1).values
    assert not torch.allclose(again, whole, rtol=1e-3)


def test_every_stage_has_draws_of_its_own(monkeypatch):
    asked, starts = [], Background.starts

    def noted(self, block, samples, stage=0, **options):
        asked.append((samples, stage))
        return starts(self, block, samples, stage, **options)

    monkeypatch.setattr(Background, "starts", noted)
    x = series(2, TIME, CHANNELS)
    against(smooth(TIME, CHANNELS).float(), x, n_samples=200, gradient_check=False)
    assert asked[:3] == [(50, 0), (50, 1), (100, 2)]
    first, second = (draw_from(POOL, x).rows(x, torch.arange(2), 50, stage) for stage in (0, 1))
    assert not torch.equal(first, second)


def test_lime_draws_do_not_depend_on_how_many_masks_others_need():
    model, x, pool = linear(60, 1), series(2, 60, 1), series(30, 60, 1, seed=1)
    mask = torch.ones_like(x, dtype=torch.bool)
    mask[0, 20:] = False  # 50 masks, and 120 of the other
    x = tg.Series(x, mask=mask)
    both = against(model, x, "lime", pool=pool).values
    torch.testing.assert_close(against(model, x.take([0]), "lime", pool=pool).values, both[:1])


MANY = {"integrated_gradients": {"n_steps": 2000, "rule": "midpoint"}, "occlusion": {"n_samples": 40}}


@pytest.mark.parametrize("method", METHODS[:5])
def test_intervals_hold_the_mean_over_the_whole_pool(method):
    model, x = smooth(TIME, CHANNELS).float(), series(1, TIME, CHANNELS, seed=5)
    options = {"target": 0, "gradient_check": False}
    truth = against(model, x, method, **options, **MANY.get(method, {"n_samples": 2000})).values
    found = against(model, x.expand(60, -1, -1), method, **options)
    low, high = found.interval()
    assert float(((low <= truth) & (truth <= high)).double().mean()) > 0.88
    error = (found.values - truth).square().mean().sqrt()
    assert 0.6 < float(found.standard_error.square().mean().sqrt() / error) < 2.5


def test_expected_gradients_are_those_of_captum():
    model, x = smooth(TIME, CHANNELS).float(), series(3, TIME, CHANNELS)
    method = captum.attr.GradientShap(lambda z: model(z).softmax(-1))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002  # which captum draws from
        runs = [method.attribute(x, POOL, n_samples=250, stdevs=0.0, target=1) for _ in range(16)]
    drawn = torch.stack(runs).double()
    fitted = tg.explain(model, x, "gradient_shap", background=POOL, target=1, n_samples=2000)
    for name in ("integrated_gradients", "gradient_shap"):
        found = against(model, x, name, target=1, **MANY.get(name, {"n_samples": 2000})).values
        assert float(((found - drawn.mean(0)) / (drawn.std(0) / 16**0.5)).abs().max()) < 6
        assert float(((found - fitted.values) / fitted.standard_error).abs().max()) < 5


# Where it meets the rest of a call


def test_unobserved_cells_are_never_moved():
    x, seen = series(4, TIME, CHANNELS), []
    mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(3)) < 0.6
    net = smooth(TIME, CHANNELS).float()

    def model(z):
        seen.append(z.detach().clone())
        return net(z)

    for method in METHODS:
        seen.clear()
        found = against(model, tg.Series(x[:1], mask=mask[:1]), method, output="probability")
        asked = torch.cat(seen)
        assert (asked[:, ~mask[0]] == x[0][~mask[0]]).all(), method
        assert (found.values[~mask[:1]] == 0).all()
        assert len(asked[:, mask[0]].unique(dim=0)) > 5


def test_gaps_are_not_filled_from_the_pool():
    x = series(2, TIME, CHANNELS)
    x[0, 2, 1] = torch.nan
    found = against(Recurrent(), tg.Series(x, mask="nan"))
    assert found.x[0, 2, 1] == 0
    assert found.values[0, 2, 1] == 0


def test_axes_inputs_and_what_goes_along():
    x, time = series(3, TIME, CHANNELS), series(3, TIME, 1, seed=2)
    model = smooth(TIME, CHANNELS).float()
    expected = against(model, x, target=0)
    turned = against(model, tg.Series(x.mT, layout="BDT"), pool=tg.Series(POOL.mT, layout="BDT"), target=0)
    torch.testing.assert_close(turned.values, expected.values)
    gained = tg.Series(x, fixed={"gain": torch.ones(3)})
    beside = against(lambda z, gain: model(z) * gain[:, None], gained, target=0, output="raw")
    alone = against(model, x, target=0, output="raw")
    torch.testing.assert_close(beside.values, alone.values, rtol=1e-4, atol=1e-7)

    def several(past, other):
        return model(past) + other.sum((1, 2))[:, None] * 0.1

    pools = {"past": POOL, "other": series(40, TIME, 1, seed=5)}
    found = against(
        several, {"past": x, "other": time}, "integrated_gradients", pool=pools, target=0, output="raw"
    )
    exact = 0.1 * (time - pools["other"].mean(0))
    torch.testing.assert_close(found["other"].values, exact, rtol=1e-4, atol=1e-6)


def test_several_targets_share_their_draws():
    model, x = smooth(TIME, CHANNELS).float(), series(2, TIME, CHANNELS)
    for method in METHODS:
        both = against(model, x, method, targets=[0, 2])
        torch.testing.assert_close(both[2].values, against(model, x, method, target=2).values)


def square(z):
    return z.square().sum((1, 2))


def test_the_change_is_that_from_other_series():
    x = series(5, TIME, CHANNELS)
    model = tg.Predictor(square, task="regression")
    found = against(model, x, "integrated_gradients", output="raw", **MANY["integrated_gradients"])
    change, spread = square(x) - square(POOL).mean(), float(square(POOL).std())
    assert float((found.delta - change).abs().max()) < 4 * spread / 16**0.5  # sixteen of them are asked
    assert float(square(POOL.mean(0)[None])) < square(POOL).mean() - 10 * spread / 16**0.5  # and not their mean
    torch.testing.assert_close(found.values.sum((1, 2)), change, rtol=0.05, atol=0.6)
    assert not found.facts.complete
    assert found.facts.deterministic is False


def test_what_was_explained_is_kept(tmp_path):
    model, x = smooth(TIME, CHANNELS).float(), series(4, TIME, CHANNELS)
    found = against(model, x)
    again = tg.Explanation.load(found.save(tmp_path / "e.safetensors"))
    assert again.background == found.background == against(model, x, pool=POOL.flip(0)).background
    assert again.background != against(model, x, pool=POOL[1:]).background
    torch.testing.assert_close(again.baseline, POOL.double().mean(0).float().expand(4, -1, -1))
    assert "baseline='background'" in repr(again)
    parts = [against(model, x[:2]), against(model, tg.Series(x[2:], ids=[2, 3]))]
    assert tg.concat(parts).background == found.background
    with pytest.raises(tg.TempogradError, match="differs from part 0 in background"):
        tg.concat([parts[0], against(model, tg.Series(x[2:], ids=[2, 3]), pool=POOL[1:])])


def test_methods_without_a_baseline_of_their_own_keep_the_question():
    model, x = smooth(TIME, CHANNELS).float(), series(2, TIME, CHANNELS)
    plain = tg.explain(model, x, "augmented_occlusion", background=POOL)
    asked = against(model, x, "augmented_occlusion")
    assert torch.equal(plain.values, asked.values)
    assert (plain.background, asked.background) == (None, against(model, x).background)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda m, x: tg.explain(m, x, baseline="background"), "draws from background=: pass both"),
        (lambda m, x: against(m, x, "dynamask"), "dynamask compares with one baseline and draws none"),
        (lambda m, x: against(m, x[:1], pool=x[:1]), "nothing but the explained series itself"),
        (lambda m, x: against(m, x, pool=POOL[:, 1:]), r"have shape \(7, 3\), x has \(8, 3\)"),
        (lambda m, x: against(m, x, pool=POOL / 0), "background must not hold NaN"),
        (lambda m, x: tg.explain(m, x, "occlusion", n_samples=3), "n_samples=3 makes no difference"),
        (lambda m, x: against(m, x, pool={"a": POOL}), "are of several inputs, x is of one"),
    ],
)
def test_bad_calls_get_one_sentence(call, sentence):
    with pytest.raises(tg.TempogradError, match=sentence):
        call(smooth(TIME, CHANNELS).float(), series(2, TIME, CHANNELS))
