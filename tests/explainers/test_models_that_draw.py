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
from tests.helpers.models import linear, series

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
    with pytest.warns(tg.TempogradWarning, match="differently when it is asked again.*pass draws=32") as caught:
        found = tg.explain(model, X, method, **options(model))
    assert len(caught) == 1
    for said in (found.verdict(), found.verdict(0), tg.Explanation.load(found.save(tmp_path / "e")).verdict()):
        assert said == "noisy: the model answers the same series differently each time; pass draws=32"
    assert diagnostics.poor(found)


def test_evaluate_notices_too():
    with pytest.warns(tg.TempogradWarning, match="when it is asked again"):
        found = tg.explain(KINDS["dropout that stays on"], X, "occlusion")
    with pytest.warns(tg.TempogradWarning, match="so these scores hold its noise"):
        tg.evaluate(KINDS["dropout that stays on"], found)


class Rounded(nn.Module):
    """Right to a few digits only, and another few in every batch, as half precision on a GPU is."""

    def __init__(self, size):
        super().__init__()
        self.net, self.size = linear(5, 2), size

    def forward(self, x):
        answer = self.net(x)
        return answer * (1 + self.size * torch.sin(torch.tensor(float(len(x)))))


@pytest.mark.parametrize("size", [1e-6, 1e-3])
def test_rounding_of_another_batch_is_no_draw(size):
    found = tg.explain(Rounded(size), X, "occlusion")
    assert found.verdict() == "no sampling error"
    assert not found.varies


def exact(x=X):
    """Occlusion of the mean of the noisy model: weight times value."""
    return WEIGHT * x


def correlation(first, second):
    return float(torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1])


def test_draws_find_the_map_without_noise():
    plain, shared, inside = [], [], []
    for seed in range(6):
        torch.manual_seed(seed)
        with pytest.warns(tg.TempogradWarning, match="differently"):
            plain.append(correlation(tg.explain(Noisy(), X, "occlusion", output="raw", seed=seed).values, exact()))
        found = tg.explain(Noisy(), X, "occlusion", output="raw", seed=seed, draws=32)
        shared.append(correlation(found.values, exact()))
        low, high = found.interval(0.95)
        inside.append(float(((low <= exact()) & (exact() <= high)).double().mean()))
    assert min(shared) > 0.96
    assert max(plain) < 0.7
    assert sum(inside) / 6 > 0.8  # the cells of a run share its draws, so that six runs are few
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
        with pytest.warns(tg.TempogradWarning, match="differently"):
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
    first, again, longer_batch = calls(X), calls(X), calls(series(9, 5, 2))
    assert again == first - 1
    assert longer_batch == again
    model.noise = 1.0
    with pytest.warns(tg.TempogradWarning, match="answers the same series differently"):
        tg.explain(model, X, "occlusion")
    model.noise = 0.0
    assert calls(X) == again


# models that mix the series of a batch

WEIGHTED = linear(5, 2)
MIXING = {
    "divides by the spread of the batch": lambda z: WEIGHTED(z) / (0.01 + WEIGHTED(z).std(0, correction=0)),
    "subtracts the mean of the batch": lambda z: WEIGHTED(z - z.mean(0)),
}


@pytest.mark.parametrize("count", [2, 4, 6])  # all series in one batch that the second look repeats, or more
@pytest.mark.parametrize("kind", MIXING)
@pytest.mark.parametrize("method", ["occlusion", "timing"])
def test_models_that_mix_series_are_not_taken_for_noisy_ones(kind, method, count, tmp_path):
    """They answer the same batch the same: draws= would average nothing, and was once advised."""
    with pytest.warns(tg.TempogradWarning, match="depends on the other series of its batch") as caught:
        found = tg.explain(MIXING[kind], X[:count], method)
    assert len(caught) == 1
    for said in (found.verdict(), found.verdict(0), tg.Explanation.load(found.save(tmp_path / "e")).verdict()):
        assert said == "noisy: the model's answer to a series depends on the others in its batch"
    assert diagnostics.poor(found)
    with pytest.warns(tg.TempogradWarning, match="evaluate a function that calls it with one series at a time"):
        tg.evaluate(MIXING[kind], found)


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = linear(5, 2)

    def forward(self, z):
        return self.net(z - z.mean(0))


def test_one_series_that_was_explained_before_hides_nothing():
    """Alone it cannot show what a batch does, and the module is looked at once for each."""
    model = Centred().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tg.explain(model, X[:1], "occlusion", output="raw", target=0)
    with pytest.warns(tg.TempogradWarning, match="depends on the other series of its batch"):
        assert tg.explain(model, X, "occlusion", output="raw", target=0).mixes_series


def test_one_series_at_a_time_mends_it():
    """The spread of one series is 0, which leaves a plain linear model."""
    model = MIXING["divides by the spread of the batch"]
    found = tg.explain(
        lambda z: torch.cat([model(each[None]) for each in z]), X, "occlusion", output="raw", target=1
    )
    expected = tg.explain(lambda z: WEIGHTED(z) / 0.01, X, "occlusion", output="raw", target=1)
    assert torch.allclose(found.values, expected.values, atol=1e-3)
    assert "noisy" not in found.verdict()
