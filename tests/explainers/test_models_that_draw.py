"""Models that draw: noticed, and averaged with random numbers that all series and perturbations share."""

import os
import random
import traceback
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.explanation import diagnostics
from tests.helpers.models import AlongTheBatch, linear, series

X = series(6, 5, 2)
WEIGHT = series(1, 5, 2, seed=9)[0]
NOISE = 3.0


class Noisy(nn.Module):
    """A linear model with noise that is multiplied by the series and noise that is added: its mean is linear."""

    def __init__(self, noise=NOISE):
        super().__init__()
        self.weight = nn.Parameter(WEIGHT.clone())
        self.noise = noise

    def forward(self, x):
        drawn = 0.5 * self.noise / 3 * torch.randn_like(x)
        return ((self.weight + drawn) * x).sum((1, 2))[:, None] + self.noise * torch.randn(len(x), 1)


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = linear(5, 2)

    def forward(self, x):
        return self.net(nn.functional.dropout(x, 0.3, training=True))


class OwnGenerator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.generator = linear(5, 2), torch.Generator().manual_seed(5)

    def forward(self, x):
        return self.net(x) + torch.randn(len(x), 3, generator=self.generator)


class Samples(nn.Module):
    """A forecast by sampling, step by step, from a recurrent state."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.rnn, self.head = nn.GRU(2, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        state, total = self.rnn(x)[1], 0
        for _ in range(3):
            mean, width = self.head(state[0]).chunk(2, -1)
            value = torch.distributions.Normal(mean, width.exp()).rsample()
            total, state = total + value, self.rnn(value[:, None].expand(-1, -1, 2), state)[1]
        return total


class PositionSeeded(nn.Module):
    """Seeds itself, so that a series meets other numbers at another place of the batch."""

    def forward(self, x):
        torch.manual_seed(3)
        return x.flatten(1)[:, :3] + torch.randn(len(x), 3)


RULE = np.random.default_rng(7)
KINDS = {
    "noise": Noisy(),
    "dropout that stays on": Dropped(),
    "a generator of its own": OwnGenerator(),
    "sampled forecast": Samples(),
    "numpy": lambda z: z.flatten(1)[:, :3] + torch.tensor(np.random.normal(size=(len(z), 3)), dtype=z.dtype),  # noqa: NPY002
    "numpy's new kind": lambda z: z.flatten(1)[:, :3] + torch.tensor(RULE.normal(size=(len(z), 3)), dtype=z.dtype),
    "python": lambda z: z.flatten(1)[:, :3] * (1 + 0.3 * random.random()),  # once per call
    "small noise": Noisy(0.02),
}


def options(model):
    return {"output": "raw"} if isinstance(model, (Noisy, Samples)) else {}


@pytest.mark.parametrize("kind", [*KINDS, "seeds itself"])
@pytest.mark.parametrize("method", ["occlusion", "timing", "integrated_gradients"])
def test_models_that_draw_are_noticed(kind, method, tmp_path):
    model = PositionSeeded() if kind == "seeds itself" else KINDS[kind]
    with pytest.warns(tg.TempogradWarning, match="The model is stochastic.*Pass draws=32") as caught:
        found = tg.explain(model, X, method, **options(model))
    assert sum("stochastic" in str(each.message) for each in caught) == 1
    for said in (found.verdict(), found.verdict(0), tg.Explanation.load(found.save(tmp_path / "e")).verdict()):
        assert said == "noisy: the model is stochastic, so repeated calls on the same series differ; pass draws=32"
    assert diagnostics.poor(found)


def test_evaluate_notices_too():
    with pytest.warns(tg.TempogradWarning, match="The model is stochastic"):
        found = tg.explain(KINDS["dropout that stays on"], X, "occlusion")
    with pytest.warns(tg.TempogradWarning, match="so these scores contain noise"):
        tg.evaluate(KINDS["dropout that stays on"], found)


class Rounded(nn.Module):
    """Right to a few digits only, and another few in every batch, as coarse arithmetic is."""

    def __init__(self, size, kind=torch.float32):
        super().__init__()
        self.net, self.size = linear(5, 2).to(kind), size

    def forward(self, x):
        answer = self.net(x)
        return answer * (1 + self.size * torch.sin(torch.tensor(float(len(x)))))


@pytest.mark.parametrize(
    ("size", "kind", "explained"),
    [
        (3e-5, torch.float32, True),
        (1e-3, torch.float32, False),
        (3e-3, torch.float16, True),
        (0.1, torch.float16, False),
        (1e-3, torch.float64, False),
    ],
)
def test_what_rounding_explains_is_not_taken_for_a_batch_that_matters(size, kind, explained):
    """Sizes differ by at least a fifth of ``size`` between a batch of six series and one alone."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = tg.explain(Rounded(size, kind), X, "occlusion", target=0, output="raw")
    assert found.mixes_series == (not explained)
    assert [str(each.message)[:60] for each in caught] == ([] if explained else [BATCH])
    assert (found.varies, found.verdict()) == (False, "no sampling error")


def test_eight_bits_mix_series_by_rounding_alone():
    """Layers of 8 bits choose their scale from all that they are shown, and stay as they are."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that this place of the function is an old one
        small = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    together, alone = small(X)[-1], small(X[-1:])[0]
    assert float((together - alone).abs().max()) > 1e-4 * float(small(X).abs().max())  # else nothing is tested
    assert not tg.explain(small, X, "occlusion").mixes_series


def exact(x=X):
    """Occlusion of the mean of the noisy model: weight times value."""
    return WEIGHT * x


def correlation(first, second):
    return float(torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1])


def test_draws_find_the_map_without_noise():
    plain, shared, inside = [], [], []
    for seed in range(4):
        torch.manual_seed(seed)
        with pytest.warns(tg.TempogradWarning, match="stochastic"):
            plain.append(correlation(tg.explain(Noisy(), X, "occlusion", output="raw", seed=seed).values, exact()))
        found = tg.explain(Noisy(), X, "occlusion", output="raw", seed=seed, draws=32)
        shared.append(correlation(found.values, exact()))
        low, high = found.interval(0.95)
        inside.append(float(((low <= exact()) & (exact() <= high)).double().mean()))
    assert min(shared) > 0.96
    assert max(plain) < 0.7
    assert sum(inside) / 4 > 0.8  # the cells of a run share its draws, so that four runs are few
    assert "(32 draws)" in found.verdict() or "with 32 draws" in found.verdict()
    assert found.draws == 32
    assert "draws=32" in repr(found)


def test_common_random_numbers_beat_independent_ones():
    """Occlusion by hand, 32 draws of the model as it is, against 32 shared ones."""
    torch.manual_seed(0)
    model, total = Noisy(), torch.zeros_like(X)
    with torch.no_grad():
        for _ in range(32):
            clean = model(X)[:, 0]
            for t in range(5):
                for d in range(2):
                    z = X.clone()
                    z[:, t, d] = 0
                    total[:, t, d] += (clean - model(z)[:, 0]) / 32
    shared = tg.explain(model, X, "occlusion", output="raw", draws=32).values
    assert (shared - exact()).square().mean() < 0.2 * (total - exact()).square().mean()


@pytest.mark.parametrize(
    "kind", ["noise", "dropout that stays on", "a generator of its own", "sampled forecast", "numpy"]
)
def test_a_realisation_is_a_function_of_the_series_alone(kind):
    model, x = KINDS[kind], X[:3]
    found = tg.explain(model, x, "occlusion", draws=2, **options(model))
    others = tg.explain(model, x.flip(0), "occlusion", draws=2, batch_size=2, **options(model))
    alone = tg.explain(model, x[2:], "occlusion", draws=2, **options(model))
    assert torch.allclose(found.values, others.values.flip(0), atol=1e-5)
    assert torch.allclose(found.values[2:], alone.values, atol=1e-5)
    assert torch.equal(found.target.flip(0), others.target)
    again = tg.explain(model, x, "occlusion", draws=2, seed=1, **options(model))
    assert not torch.allclose(found.values, again.values, atol=1e-3)


def test_draws_write_no_traceback_at_every_call(monkeypatch):
    """``torch.manual_seed`` writes one for each kind of device that is not in use, slower than small models."""
    noted, model = [], KINDS["a generator of its own"]
    monkeypatch.setattr(traceback, "format_stack", lambda *_: noted.append(1))
    tg.explain(model, X, "occlusion", draws=2, **options(model))
    assert noted == []


def test_the_error_is_that_of_the_mean_over_realisations():
    """By hand: one seeded realisation after the other, one call for each series."""
    from tempograd.engine.second_look import Realisation  # the numbers of each draw

    model, maps = Noisy(), []
    with torch.no_grad():
        for j in range(5):
            one = Realisation(model, 0, j)
            rows = torch.zeros_like(X)
            for n in range(6):
                for t in range(5):
                    for d in range(2):
                        z = X[n : n + 1].clone()
                        z[:, t, d] = 0
                        rows[n, t, d] = (one(X[n : n + 1]) - one(z)).item()
            maps.append(rows)
    found = tg.explain(model, X, "occlusion", output="raw", draws=5)
    assert torch.allclose(found.values, torch.stack(maps).mean(0), atol=1e-5)
    assert torch.allclose(found.standard_error, torch.stack(maps).std(0) / 5**0.5, atol=1e-5)
    assert bool((found.ess == 5).all())


def test_the_error_of_a_random_method_holds_both_parts():
    """TIMING of a noisy model: neither part alone is the whole."""
    bent = nn.Sequential(nn.Flatten(), nn.Linear(10, 1), nn.Tanh()).requires_grad_(False)
    model = lambda z: 3 * bent(z) + 0.3 * (torch.randn_like(z) * z).sum((1, 2))[:, None]  # noqa: E731
    both = tg.explain(model, X, n_samples=20, draws=8, output="raw")
    own = tg.explain(lambda z: 3 * bent(z), X, n_samples=20, output="raw")
    assert bool((both.standard_error > 0.5 * own.standard_error).all())
    assert both.standard_error.mean() > 1.5 * own.standard_error.mean()
    assert bool((both.ess > 1).all())


def test_the_target_is_the_class_that_the_mean_predicts():
    class Flips(nn.Module):
        def forward(self, x):
            rare = (torch.rand(1) < 0.3).float()  # then class 0 wins by far
            return torch.stack([9 * rare, 3 * (1 - rare)], 1) + 0 * x.sum((1, 2))[:, None]

    target = tg.explain(Flips(), X, "occlusion", draws=40).target
    assert target.tolist() == [1] * 6  # probability 0.33 of class 0 on average, though not its mean logit


def test_generators_are_left_as_they_were():
    own = KINDS["a generator of its own"]
    torch.manual_seed(1), np.random.seed(1), random.seed(1)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate(), own.generator.get_state()  # noqa: NPY002
    for kind in ("numpy", "python", "a generator of its own"):
        tg.explain(KINDS[kind], X, "occlusion", draws=3)
        with pytest.warns(tg.TempogradWarning, match="stochastic"):
            tg.explain(KINDS[kind], X, "occlusion")
    after = torch.get_rng_state(), np.random.get_state()[1], random.getstate(), own.generator.get_state()  # noqa: NPY002
    assert torch.equal(before[0], after[0])
    assert np.array_equal(before[1], after[1])
    assert before[2] == after[2]
    assert torch.equal(before[3], after[3])


def test_draws_without_noise_make_no_difference():
    model = linear(5, 2)
    with pytest.warns(tg.TempogradWarning, match="draws=8 makes no difference"):
        found = tg.explain(model, X, "occlusion", draws=8)
    assert torch.equal(found.values, tg.explain(model, X, "occlusion").values)
    assert (found.draws, found.standard_error) == (1, None)


def test_a_generator_out_of_reach_is_refused():
    def model(z):
        return z.flatten(1)[:, :3] * (1 + int.from_bytes(os.urandom(4), "big") / 2**32)

    with pytest.raises(tg.TempogradError, match="draws= cannot repeat the random numbers of this model"):
        tg.explain(model, X, "occlusion", draws=3)


def test_draws_must_be_a_count():
    for wrong in (0, 1.5, True):
        with pytest.raises(tg.TempogradError, match="draws must be"):
            tg.explain(Noisy(), X, draws=wrong)


def test_a_module_that_gave_no_reason_for_doubt_is_not_looked_at_twice():
    """Only while it is what it was: noise that is switched on later is noticed, whatever was seen before."""

    class Model(nn.Module):
        asked = 0

        def __init__(self):
            super().__init__()
            self.net, self.noise = linear(5, 2), 0.0

        def forward(self, x):
            Model.asked += 1
            return self.net(x) if self.noise == 0 else self.net(x) + self.noise * torch.randn(len(x), 3)

    def calls(x):
        before = Model.asked
        tg.explain(model, x, "occlusion")
        return Model.asked - before

    model = Model()
    first, again, more = calls(X), calls(X), calls(series(9, 5, 2))
    assert again == first - 3  # a few series, two of them behind others, and one of these by itself
    assert more == first  # of another number, which was not looked at
    assert calls(series(20, 5, 2)) == again  # beyond a few it is always the same few
    model.noise = 1.0
    with pytest.warns(tg.TempogradWarning, match="is stochastic"):
        tg.explain(model, X, "occlusion")
    model.noise = 0.0
    assert calls(X) == again


# models whose answer to a series depends on its batch, or on its place there

WEIGHTED = linear(5, 2)
BATCH = "The model's answer to a series depends on the other series of its batch"[:60]
PLACES = series(5000, 5, 2, seed=3)
RAW = {"output": "raw", "target": 1}
FEW = {"integrated_gradients": {"n_steps": 8}, "lime": {"n_samples": 30}, "timing": {"n_samples": 10}}


class StartState(nn.Module):
    """Learnt start states, one for each place of the batches that it was trained with."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(2)
            self.rnn, self.head = nn.GRU(2, 4, batch_first=True), nn.Linear(4, 2)
        self.start = nn.Parameter(PLACES.flatten(1)[None, :, :4].contiguous())

    def forward(self, z):
        return self.head(self.rnn(z, self.start[:, : len(z)])[0][:, -1])


class OfOneSize(nn.Module):
    """Answers batches of one size otherwise."""

    def __init__(self, size):
        super().__init__()
        self.net, self.size = linear(5, 2), size

    def forward(self, z):
        return self.net(z) * (1 if len(z) == self.size else 2)


MIXING = {
    "divides by the spread of the batch": lambda z: WEIGHTED(z) / (0.01 + WEIGHTED(z).std(0, correction=0)),
    "subtracts the mean of the batch": lambda z: WEIGHTED(z - z.mean(0)),
    "divides by the size of the batch": lambda z: WEIGHTED(z) / len(z),
    "encodes places along the batch": AlongTheBatch(5, 2),
    "starts from a state for each place": StartState().eval(),
}


def one_by_one(model):
    return lambda z: torch.cat([model(each[None]) for each in z])


def explain_mixing(model, x, method, **options):
    with pytest.warns(tg.TempogradWarning, match=BATCH) as caught:
        found = tg.explain(model, x, method, **RAW, **FEW.get(method, {}), **options)
    assert len(caught) == 1
    assert found.mixes_series
    return found


@pytest.mark.parametrize(
    ("method", "kind", "count"),
    [
        *(("occlusion", kind, 9) for kind in MIXING),
        ("timing", "starts from a state for each place", 1),
        ("timing", "divides by the spread of the batch", 9),
        ("integrated_gradients", "encodes places along the batch", 9),
        ("lime", "subtracts the mean of the batch", 1),
    ],
)
def test_where_the_batch_matters_each_series_is_run_by_itself(kind, method, count, tmp_path):
    """draws= would average nothing, and was once advised; the scores are those of one call per series."""
    model, x = MIXING[kind], series(count, 5, 2)
    found = explain_mixing(model, x, method)
    expected = tg.explain(one_by_one(model), x, method, **RAW, **FEW.get(method, {}))
    torch.testing.assert_close(found.values, expected.values, rtol=1e-4, atol=1e-6)
    assert (found.varies, found.verdict()) == (False, expected.verdict())
    kept = tg.Explanation.load(found.save(tmp_path / "e"))
    for known in (found, kept, expected):  # the last knows nothing of batches
        with pytest.warns(tg.TempogradWarning, match=BATCH):
            scores = tg.evaluate(model, known, of="score")
        right = tg.evaluate(one_by_one(model), expected, of="score")
        for name, score in right.items():
            torch.testing.assert_close(scores[name], score, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", MIXING)
def test_a_batch_size_that_was_chosen_is_kept(kind):
    model = MIXING[kind]
    found = explain_mixing(model, X, "occlusion", batch_size=3)
    assert found.verdict() == "noisy: the model's answer to a series depends on the others in its batch"
    assert diagnostics.poor(found)
    alone = tg.explain(model, X, "occlusion", batch_size=1, **RAW)  # which mixes nothing
    torch.testing.assert_close(alone.values, tg.explain(one_by_one(model), X, "occlusion", **RAW).values)
    with pytest.warns(tg.TempogradWarning, match=BATCH):
        tg.evaluate(model, found, batch_size=3, of="score")


@pytest.mark.parametrize("method", ["occlusion", "timing"])
@pytest.mark.parametrize("before", ["integrated_gradients", "timing", "occlusion"])
def test_what_ran_before_hides_nothing(before, method):
    model = OfOneSize(6).eval()
    explain_mixing(model, X, before)
    tg.explain(model, X[:3], before, **RAW)  # of which nothing can be seen
    explain_mixing(model, X, method)


def test_explainers_are_ranked_by_series_that_run_by_themselves():
    model, x = MIXING["encodes places along the batch"], series(8, 5, 2)
    methods = ["occlusion", "integrated_gradients", "random"]
    with pytest.warns(tg.TempogradWarning, match=BATCH):
        found = tg.rank(model, x, methods, of="score", **RAW)
    expected = tg.rank(one_by_one(model), x, methods, of="score", **RAW)
    assert found.verdict() == expected.verdict()
    for row, right in zip(found.table, expected.table, strict=True):
        assert row.method == right.method
        assert row.score == pytest.approx(right.score, rel=1e-4)


def test_a_removal_curve_runs_series_by_themselves():
    model, x = MIXING["starts from a state for each place"], series(4, 5, 2)
    expected = tg.explain(one_by_one(model), x, "occlusion", **RAW)
    right = tg.removal_curve(one_by_one(model), expected, k=5)
    torch.testing.assert_close(tg.removal_curve(model, expected, k=5).delta, right.delta)


def test_deep_lift_which_needs_two_series_at_once_says_so():
    """It compares layers at the series with layers at its baseline, in one pass."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(10, 4), nn.ReLU(), nn.Linear(4, 2)).eval()

    class Divides(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, z):
            return self.net(z) / len(z)

    with pytest.warns(tg.TempogradWarning) as caught:
        found = tg.explain(Divides(), X, "deep_lift", target=1)
    assert any(str(each.message).startswith(BATCH) for each in caught)
    assert found.verdict().startswith("noisy")


def test_series_that_a_model_refuses_alone_stay_in_their_batch():
    class InCompany(nn.Module):
        def forward(self, z):
            if len(z) == 1:
                raise RuntimeError("expected more than one series")
            return WEIGHTED(z / z.mean(0).abs())

    with pytest.warns(tg.TempogradWarning, match="one series at a time"):
        assert tg.explain(InCompany(), X, "integrated_gradients", **RAW).verdict().startswith("noisy")
