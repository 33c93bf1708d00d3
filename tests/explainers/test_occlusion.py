"""Occlusion and augmented occlusion: closed forms, captum, and literal loops over cells and prefixes."""

import itertools

import pytest
import torch
from captum.attr import FeatureAblation
from captum.attr import Occlusion as Captum

import tempograd as tg
import tempograd.explainers.occlusion as single_cells
from tempograd.core.errors import ModelError
from tempograd.core.rng import Stream, fold_in, keys, randint
from tempograd.engine import Prefixes
from tempograd.explainers import AugmentedOcclusion, Occlusion
from tempograd.models import build
from tests.helpers.literal_methods import with_value
from tests.helpers.models import Recurrent, any_length, linear, numpy_running, series, smooth

TIME, CHANNELS = 6, 3


def weights(model, target):
    return model[1].weight[target].view(-1, *X.shape[1:]).detach()


X, TRAIN = (
    series(5, TIME, CHANNELS, dtype=torch.float64),
    series(9, TIME, CHANNELS, seed=1, dtype=torch.float64) + 1,
)


# What the two methods compute


def test_a_linear_model_loses_its_weight_times_the_difference():
    model, target = linear(TIME, CHANNELS).double(), torch.tensor([0, 2, 1, 1, 0])
    weight = weights(model, target)
    for explainer, baseline, absent in (
        (Occlusion(), 0.3, 0.3),
        (Occlusion().fit(model, TRAIN), None, TRAIN.mean(0)),
    ):
        found = explainer(model, X, target=target, baseline=baseline, output="raw")
        torch.testing.assert_close(found.values.double(), weight * (X - absent), rtol=1e-5, atol=1e-7)
        assert found.signed
        assert found.standard_error is None
        size = Occlusion(absolute=True)
        size = size if explainer.means is None else size.fit(model, TRAIN)
        sizes = size(model, X, target=target, baseline=baseline, output="raw")
        torch.testing.assert_close(sizes.values, found.values.abs(), rtol=0, atol=0)
        assert not sizes.signed


@pytest.mark.parametrize("architecture", ["gru", "cnn", "transformer"])
def test_occlusion_agrees_with_captum(architecture):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build(architecture, 4, 3).eval()
    x, target = series(3, 16, 4), torch.tensor([0, 2, 1])
    found = Occlusion()(model, x, target=target, baseline=0.5).values
    predict = lambda z: model(z).softmax(-1)  # noqa: E731
    one = FeatureAblation(predict).attribute(x, target=target, baselines=0.5)
    two = Captum(predict).attribute(x, (1, 1), target=target, baselines=0.5)
    torch.testing.assert_close(found, one, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(found, two, rtol=1e-3, atol=1e-6)
    assert found.abs().max() > 1e-4


@pytest.mark.parametrize("steps", [None, 4, [1, 5]])
@pytest.mark.parametrize("kind", ["gru", "cnn", "numpy"])
def test_the_chosen_steps_are_explained_together(kind, steps):
    model, target = any_length(kind, CHANNELS, per_step=True), torch.arange(5 * TIME).view(5, TIME) % 3
    chosen = list(range(TIME)) if steps is None else [steps] if isinstance(steps, int) else steps

    def score(z):
        return model(z).softmax(-1).gather(-1, target[..., None])[:, chosen, 0].sum(1)

    found = Occlusion()(model, X, target=target, steps=steps, baseline=0.2).values.double()
    moved = AugmentedOcclusion(2).fit(model, TRAIN[:1])(model, X, target=target, steps=steps).values.double()
    spread = AugmentedOcclusion(2, over="all").fit(model, TRAIN[:1])(model, X, steps=steps).values.double()
    for t in range(TIME):
        for d in range(CHANNELS):
            fall = (score(X) - score(with_value(X, t, d, 0.2))).detach()
            torch.testing.assert_close(found[:, t, d], fall, rtol=1e-5, atol=1e-8)
            z = with_value(X, t, d, TRAIN[0, t, d])
            torch.testing.assert_close(moved[:, t, d], (score(X) - score(z)).abs().detach(), rtol=1e-5, atol=1e-8)
            moves = (model(X).softmax(-1) - model(z).softmax(-1))[:, chosen].sum(1).abs().mean(-1)
            torch.testing.assert_close(spread[:, t, d], moves.detach(), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(("kind", "channels"), [("gru", 3), ("two layers", 1), ("numpy", 2), ("cnn", 3)])
def test_own_steps_are_what_replacing_one_value_does_to_the_output_of_its_step(kind, channels):
    model, x, train = any_length(kind, channels, per_step=True), X[..., :channels], TRAIN[..., :channels]
    before = model(x).softmax(-1)
    target = before.argmax(-1)
    found = Occlusion().fit(model, train)(model, x, steps="own").values.double()
    moved = AugmentedOcclusion(3).fit(model, train[:1])(model, x, steps="own").values.double()
    spread = AugmentedOcclusion(3, over="all").fit(model, train[:1])(model, x, steps="own").values.double()
    for t in range(TIME):
        end = TIME if kind == "cnn" else t + 1  # the others do not look ahead: a prefix is enough
        for d in range(channels):
            after = model(with_value(x, t, d, train.mean(0)[t, d])[:, :end]).softmax(-1)[:, t]
            fall = (before[:, t] - after).gather(-1, target[:, t, None])[:, 0].detach()
            torch.testing.assert_close(found[:, t, d], fall, rtol=1e-5, atol=1e-8)
            after = model(with_value(x, t, d, train[0, t, d])[:, :end]).softmax(-1)[:, t]
            moves = (before[:, t] - after).abs().detach()
            own = moves.gather(-1, target[:, t, None])[:, 0]
            torch.testing.assert_close(moved[:, t, d], own, rtol=1e-5, atol=1e-8)
            torch.testing.assert_close(spread[:, t, d], moves.mean(-1), rtol=1e-5, atol=1e-8)


def test_own_steps_follow_the_requested_target():
    model, target = any_length("gru", CHANNELS, per_step=True), torch.arange(5 * TIME).view(5, TIME) % 3
    found = Occlusion()(model, X, steps="own", target=target).values
    for t in range(TIME):
        alone = Occlusion()(model, X, steps=t, target=target).values
        torch.testing.assert_close(found[:, t], alone[:, t], rtol=1e-5, atol=1e-8)


def test_the_mean_move_over_all_outputs():
    model = smooth(TIME, CHANNELS)
    found = AugmentedOcclusion(2, over="all").fit(model, TRAIN[:1])(model, X).values.double()
    for t in range(TIME):
        for d in range(CHANNELS):
            move = model(X).softmax(-1) - model(with_value(X, t, d, TRAIN[0, t, d])).softmax(-1)
            torch.testing.assert_close(found[:, t, d], move.abs().mean(-1).detach(), rtol=1e-5, atol=1e-8)


# What augmented occlusion draws


def test_moves_converge_to_the_mean_over_the_training_series():
    model, x = linear(TIME, CHANNELS).double(), X[:2]
    moves = (weights(model, [1]) * (x[:, None] - TRAIN)).abs()  # (series, rows, time, channel)
    found = AugmentedOcclusion(4000).fit(model, TRAIN)(model, x, target=1, output="raw")
    assert ((found.values - moves.mean(1)) / found.standard_error).abs().max() < 4
    error = moves.std(1, correction=0) / 4000**0.5
    torch.testing.assert_close(found.standard_error.double(), error, rtol=0.1, atol=0)
    assert not found.signed


def test_pooled_moves_converge_to_the_mean_over_all_steps_of_the_channel():
    model, x = linear(TIME, CHANNELS).double(), X[:2]
    others = TRAIN.flatten(0, 1)[None, :, None]  # (1, rows and steps, 1, channel)
    moves = (weights(model, [1])[:, None] * (x[:, None] - others)).abs()
    found = AugmentedOcclusion(4000, "pooled").fit(model, TRAIN)(model, x, target=1, output="raw")
    assert ((found.values - moves.mean(1)) / found.standard_error).abs().max() < 4


def test_the_draws_are_those_of_the_seed_the_series_the_cell_and_the_sample():
    """The whole method once more, cell by cell, from the definition."""
    model, ids = smooth(TIME, CHANNELS), torch.tensor([4, -2, 9, 0, 7])
    found = AugmentedOcclusion(3).fit(model, TRAIN)(model, tg.Series(X, ids=ids), target=2, seed=11)
    for i in range(5):
        for t in range(TIME):
            for d in range(CHANNELS):
                moves, far = [], []
                for sample in range(3):
                    stream = fold_in(keys(11, ids[i : i + 1], Stream.REPLACEMENTS), 3)[:, 0, sample]
                    row = randint(stream, t * CHANNELS + d, len(TRAIN))
                    z = with_value(X[i : i + 1], t, d, TRAIN[row, t, d])
                    moves.append((model(X[i : i + 1]).softmax(-1) - model(z).softmax(-1))[0, 2].abs())
                    far.append((TRAIN[row, t, d] - X[i, t, d]).abs().squeeze())
                moves, far = torch.stack(moves).detach(), torch.stack(far)
                torch.testing.assert_close(found.values[i, t, d].double(), moves.mean(), rtol=1e-5, atol=1e-8)
                missed = (TRAIN[:, t, d] - X[i, t, d]).abs().var(unbiased=False) - far.var()
                spread = moves.var() + (moves.sum() / far.sum()) ** 2 * max(missed, 0)
                error = (spread / 3) ** 0.5
                torch.testing.assert_close(found.standard_error[i, t, d].double(), error, rtol=1e-4, atol=1e-8)
    assert (found.n_draws == 3).all()
    assert (found.ess == 3).all()


def test_intervals_hold_the_mean_over_the_training_series():
    model, x = linear(20, 10), series(10, 20, 10)
    train = torch.rand(50, 20, 10, generator=torch.Generator().manual_seed(3))
    expected = (model[1].weight[0].view(20, 10) * (x[:, None] - train)).abs().mean(1).detach()
    low, high = AugmentedOcclusion(12).fit(model, train)(model, x, target=0, output="raw").interval(0.95)
    # where moves are in proportion to distances, the error is never below the true one, and too large by chance
    assert 0.93 < ((low <= expected) & (expected <= high)).float().mean() < 0.99


def saturating(z):
    return torch.tanh(z.sum((1, 2)))


def rectified(z):
    return (z * torch.tensor([1.0, -0.7])).sum(2).relu().sum(1)


def means_over_the_pool(model, x, pool, marginal):
    """Put every value of the pool into every cell of a series, (1, time, channel)."""
    expected, clean = torch.zeros(x.shape[1:]), model(x)
    for t, d in itertools.product(*map(range, x.shape[1:])):
        values = pool[:, t, d] if marginal == "per_time" else pool[..., d].flatten()
        z = x.repeat(len(values), 1, 1)
        z[:, t, d] = values
        expected[t, d] = (model(z) - clean).abs().mean()
    return expected


@pytest.mark.parametrize("marginal", ["per_time", "pooled"])
@pytest.mark.parametrize(
    ("model", "draws", "least"),
    [
        (saturating, 5, 0.93),
        pytest.param(saturating, 10, 0.93, marks=pytest.mark.slow),
        pytest.param(saturating, 30, 0.95, marks=pytest.mark.slow),
        (rectified, 5, 0.83),  # few values move it here, and draws that miss them cannot know it
        pytest.param(rectified, 10, 0.87, marks=pytest.mark.slow),
        pytest.param(rectified, 30, 0.9, marks=pytest.mark.slow),
    ],
)
def test_intervals_hold_the_mean_over_a_skewed_pool(model, draws, least, marginal):
    """Over ten pools, each with another series; of the draws alone, Student's t is too narrow."""
    held = []
    for number in range(10):
        pool = torch.randn(60, 4, 2, generator=torch.Generator().manual_seed(200 + number)).exp() - 1
        x = 0.3 * series(1, 4, 2, seed=300 + number)
        explainer, many = AugmentedOcclusion(draws, marginal).fit(model, pool), x.expand(40, 4, 2)
        low, high = explainer(model, many, output="raw").interval(0.95)
        expected = means_over_the_pool(model, x, pool, marginal)
        held.append(((low <= expected) & (expected <= high)).float().mean())
    assert least < torch.stack(held).mean() < 0.995


def test_draws_of_the_series_own_value_tell_nothing_of_the_others_of_a_pool():
    x, mask = torch.zeros(50, 3, 1), torch.ones(50, 3, 1)
    pool = torch.zeros(20, 3, 1)
    pool[:2, ::2] = 1.0  # rare in the first step and in the last, which is masked
    mask[:, 2] = 0
    found = AugmentedOcclusion(4).fit(saturating, pool)(saturating, tg.Series(x, mask=mask), output="raw")
    never = found.values[:, 0] == 0
    assert 0 < int(never.sum()) < 50
    assert found.standard_error[:, 0][never].isinf().all()
    assert found.standard_error[:, 0][~never].isfinite().all()
    assert (found.standard_error[:, 1:] == 0).all()


def test_distances_of_a_pool_are_those_of_all_its_values(monkeypatch):
    table, x = series(1, 40, 3)[0] ** 3 + 1e4, series(1, 3, 7, seed=1)[0] + 1e4
    for limit, rows in ((2**22, table), (60, table[::2])):
        monkeypatch.setattr(single_cells, "POOL", limit)
        mean, spread = single_cells.pool_distances(table)(x)
        far = (rows.double()[:, :, None] - x.double()).abs()
        torch.testing.assert_close(mean, far.mean(0))
        torch.testing.assert_close(spread, far.var(0, unbiased=False))


def test_one_draw_has_an_unknown_error():
    mask = torch.ones_like(X)
    mask[:, 2] = 0
    model = smooth(TIME, CHANNELS)
    found = AugmentedOcclusion(1).fit(model, TRAIN)(model, tg.Series(X, mask=mask))
    assert (found.standard_error[:, 2] == 0).all()
    assert found.standard_error[:, 3].isinf().all()


# What is run, and what scores exactly 0


@pytest.mark.parametrize("explainer", [Occlusion(), AugmentedOcclusion(4)])
@pytest.mark.parametrize("batch_size", [1, 5, 40, None])
def test_one_observed_value_changes_at_a_time_and_no_pass_is_larger_than_asked(explainer, batch_size):
    inner, passes, mask = smooth(TIME, CHANNELS), [], series(5, TIME, CHANNELS, seed=3) > 1
    mask[1] = False

    def model(z):
        passes.append(z.clone())
        return inner(z)

    explainer.fit(model, TRAIN)(model, tg.Series(X, mask=mask), batch_size=batch_size)
    assert max(map(len, passes)) <= max(1, int((batch_size or 256) * 1.05))
    rows = torch.cat(passes if batch_size == 1 else passes[:-2])  # the last two tell whether the batch matters
    other = (rows[:, None] != X).flatten(2).sum(2)  # cells in which a row differs from a series
    owner = other.argmin(1)
    place = rows != X[owner]
    assert ((place.sum((1, 2)) <= 1) & ~(place & ~mask[owner]).any((1, 2))).all()
    assert place.sum() == mask.sum() * (getattr(explainer, "n_samples", None) or 1)
    new = TRAIN if isinstance(explainer, AugmentedOcclusion) else TRAIN.mean(0)[None]
    assert ((rows[:, None] == new).any(1) | ~place).all()


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("channels", [4, 5, 7])
def test_ignored_values_score_exactly_zero_in_single_precision(count, channels):
    """Rows at the end of a matrix product may be rounded in another way than the rest."""
    model = linear(30, channels, 1)
    with torch.no_grad():
        model[1].weight.view(-1, 30, channels)[..., -1] = 0
    x = series(count, 30, channels)
    for explainer in (Occlusion(), AugmentedOcclusion(7).fit(model, series(9, 30, channels, seed=1))):
        found = explainer(model, x, output="raw").values
        assert (found[..., -1] == 0).all()
        assert (found[..., 0] != 0).all()


@pytest.mark.parametrize("steps", [None, "own"])
def test_training_series_equal_to_the_explained_one_change_nothing(steps):
    model, x = Recurrent(per_step=True), series(1, TIME, CHANNELS)
    train = x.expand(3, -1, -1)
    for explainer in (Occlusion(), AugmentedOcclusion(3)):
        found = explainer.fit(model, train)(model, x, steps=steps)
        assert (found.values == 0).all()
    assert found.standard_error.abs().max() == 0


@pytest.mark.parametrize("kind", ["gru", "numpy"])
def test_missing_values_and_padding_at_own_steps(kind):
    model, mask = any_length(kind, CHANNELS, per_step=True), series(5, TIME, CHANNELS, seed=8) > -0.5
    mask[1, 3:], mask[2] = False, False
    for explainer in (Occlusion(), AugmentedOcclusion(2)):
        whole = explainer.fit(model, TRAIN)(model, X, steps="own")
        found = explainer.fit(model, TRAIN)(model, tg.Series(X, mask=mask), steps="own")
        torch.testing.assert_close(found.values, whole.values * mask, rtol=1e-5, atol=1e-8)
        if found.standard_error is not None:
            torch.testing.assert_close(found.standard_error, whole.standard_error * mask, rtol=1e-5, atol=1e-8)


def test_unobserved_values_stay_where_they_are_and_score_exactly_zero_at_own_steps():
    """A model whose rows differ a little by their place, as rounding may have it."""
    mask, seen = series(5, TIME, CHANNELS, seed=8) > 0, []

    def model(z):
        seen.append(z)
        return numpy_running(z) + 1e-9 * torch.arange(len(z))[:, None, None] * torch.tensor([1, 0, 0])

    for explainer in (Occlusion(), AugmentedOcclusion(2)):
        found = explainer.fit(model, TRAIN)(model, tg.Series(X, mask=mask), steps="own")
        assert (found.values[~mask] == 0).all()
        assert (found.values[mask] != 0).all()
    for batch in seen:
        assert ((batch[:, None] == X) | mask).flatten(2).all(2).any(1).all()


@pytest.mark.parametrize(("kind", "batch_size"), [("gru", None), ("gru", 9), ("two layers", None)])
def test_remembered_states_make_no_difference(kind, batch_size, monkeypatch):
    model, mask = any_length(kind, CHANNELS, per_step=True), series(5, TIME, CHANNELS, seed=8) > -1
    explainers = [e.fit(model, TRAIN) for e in (Occlusion(), AugmentedOcclusion(4))]
    x, call = tg.Series(X, mask=mask), {"seed": 2, "batch_size": batch_size, "steps": "own"}
    fast = [explainer(model, x, **call).values for explainer in explainers]
    used = []

    class Slow(Prefixes):
        def __init__(self, ask, block, size):
            super().__init__(ask, block, size, fast=False)
            used.append(self._stepper)

    monkeypatch.setattr(single_cells, "Prefixes", Slow)
    slow = [explainer(model, x, **call).values for explainer in explainers]
    assert used
    assert set(used) == {None}
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-8)


def test_a_model_that_breaks_on_replaced_values_gets_one_sentence():
    def model(x):
        return torch.stack([x.sum((1, 2)), 1 / x.abs().amin((1, 2))], 1)

    with pytest.raises(ModelError, match="when one value of a series was replaced"):
        Occlusion()(model, X, target=1, output="raw")
