"""FIT against closed forms, quadrature and the literal loops of its definition."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.core.errors import InputError, ModelError, TempogradWarning
from tests.helpers.literal_methods import Known, kl, literal_fit, squash
from tests.helpers.models import Recurrent, linear, series

DOUBLE = torch.float64


def last_value(channels):
    return Known([0.0] * channels, torch.zeros(channels, channels), 1e-12, last=True)


class Now(nn.Module):
    """Depends on one channel of the current step alone."""

    def __init__(self, channel):
        super().__init__()
        self.channel, self.scale = channel, nn.Parameter(torch.tensor([1.5, 0.0], dtype=DOUBLE))

    def forward(self, x):
        return x[:, -1, self.channel, None] * self.scale + torch.tensor([0.3, 0.0], dtype=DOUBLE)


def test_a_prediction_from_one_channel_of_the_current_step_in_closed_form_and_by_quadrature():
    x, mean, spread = series(2, 3, 2, dtype=DOUBLE), [0.5, -0.4], [0.7, 1.2]
    explainer = tg.Fit(n_samples=40000, generator=Known(mean, torch.diag(torch.tensor(spread)), 1e-6))
    found = explainer(Now(1), x).values
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    for n in range(2):
        assert (found[n, 0] == 0).all()
        for t in (1, 2):
            now, before = (Now(1)(x[n : n + 1, : s + 1]).softmax(-1)[0].detach() for s in (t, t - 1))
            assert float(found[n, t, 1]) == pytest.approx(squash(kl(now, before)), abs=1e-6)
            values = torch.from_numpy(mean[1] + spread[1] * nodes)[:, None] * Now(1).scale.detach()
            drawn = (values + torch.tensor([0.3, 0.0], dtype=DOUBLE)).softmax(-1)
            left = [kl(now, row) for row in drawn]
            expected = np.sum(weights * left) / math.sqrt(2 * math.pi)
            error = np.sqrt(np.sum(weights * (left - expected) ** 2) / math.sqrt(2 * math.pi) / 40000)
            assert abs(float(found[n, t, 0]) - squash(kl(now, before) - expected)) < 4 * 2.5 * error


class Mixed(nn.Module):
    """Reads some channels of all steps so far."""

    def __init__(self, channels, seed):
        super().__init__()
        self.channels = channels
        rng = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(2 * torch.randn(len(channels), 3, generator=rng, dtype=DOUBLE))

    def forward(self, x):
        return x[..., self.channels].tanh().mean(1) @ self.weight + x[:, -1, self.channels] @ self.weight


def any_generator(seed):
    """A generator that knows nothing of the data: of any means, spreads and correlations."""
    rng = torch.Generator().manual_seed(seed)
    mean, factor = torch.randn(3, generator=rng), 2 * torch.randn(3, 3, generator=rng)
    return Known(mean, factor, 1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_no_score_is_above_the_shift_which_a_channel_that_is_read_alone_has(seed):
    """Whatever the generator does, learnt or not: this is what FIT promises of channels that the model ignores."""
    x = 2 * series(6, 7, 3, seed=seed, dtype=DOUBLE)
    learnt = tg.Fit(epochs=1).fit(Mixed([0], seed), series(20, 8, 3, seed=seed), seed=seed).generator
    for generator in (any_generator(seed), learnt):
        explainer = tg.Fit(n_samples=5, generator=generator)
        for read in ([0], [2], [0, 1], [0, 1, 2]):
            model = Mixed(read, seed)
            found = explainer(model, x, seed=seed).values.double()
            p = torch.stack([model(x[:, : t + 1]).softmax(-1) for t in range(7)], 1).detach()
            shift = (p[:, 1:] * (p[:, 1:] / p[:, :-1]).log()).sum(-1)
            most = torch.nn.functional.pad(2 * torch.sigmoid(5 * shift) - 1, (1, 0))[..., None]
            assert (found <= most + 1e-6).all()
            if len(read) == 1:
                torch.testing.assert_close(found[..., read], most, rtol=0, atol=1e-6)
                ignored = [channel for channel in range(3) if channel not in read]
                assert found[..., ignored].mean() < found[..., read].mean() - 0.01


def test_an_ignored_channel_that_tells_more_than_each_that_is_read_scores_more():
    """The third channel is the sum of the first two, which the model reads: it tells all, and each of them half.

    The generator is the true law, so neither a better one nor more series make the ignored channel score less.
    """
    x = series(200, 4, 3, dtype=DOUBLE)
    x[..., 2] = x[..., 0] + x[..., 1]
    law = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    explainer = tg.Fit(n_samples=10, generator=Known([0.0] * 3, law, 1e-8))
    found = explainer(lambda z: z[:, -1, :2].sum(1, keepdim=True) * torch.tensor([2.0, 0.0]), x).values[:, 1:]
    assert (found[..., 2] >= found[..., :2].amax(-1) - 0.01).all()
    assert found[..., 2].mean() > found[..., :2].mean() + 0.2


@torch.no_grad()
def test_remembered_states_and_plain_runs_give_the_literal_loops():
    model, x = Recurrent().double().eval(), series(2, 5, 3, dtype=DOUBLE) * 3
    explainer = tg.Fit(n_samples=2, epochs=3).fit(model, series(30, 6, 3, seed=1), seed=2)
    assert explainer.generator.noise == 1e-4
    assert not isinstance(explainer.generator.latent[-1], nn.Tanh)
    expected = literal_fit(explainer, model, x, 7, (4, 9))
    assert expected.abs().max() > 0.001
    given = tg.Series(x, ids=[4, 9])
    for form in (model, lambda z: model(z) * 1):  # a function hides its recurrent layer
        torch.testing.assert_close(explainer(form, given, seed=7).values, expected, rtol=1e-4, atol=1e-6)
    steps = Recurrent(per_step=True).double().eval()
    torch.testing.assert_close(explainer(steps, given, seed=7).values, expected, rtol=1e-4, atol=1e-6)


def test_scores_move_with_the_channels():
    model, x = Recurrent().double().eval(), series(4, 6, 3, dtype=DOUBLE)
    explainer, order = tg.Fit(n_samples=1, generator=last_value(3)), torch.tensor([2, 0, 1])
    back = order.argsort()
    found = explainer(model, x).values
    turned = explainer(lambda z: model(z[..., back]), x[..., order]).values
    torch.testing.assert_close(turned, found[..., order], rtol=1e-5, atol=1e-8)
    assert not torch.allclose(turned, found, atol=1e-4)


def test_scores_lie_between_minus_one_and_one_and_are_zero_for_a_constant_prediction():
    x = series(5, 6, 2, dtype=DOUBLE)
    explainer = tg.Fit(generator=last_value(2))
    found = explainer(lambda z: z[:, -1] * 4, x).values
    assert (found[:, 0] == 0).all()
    assert (found.abs() <= 1).all()  # float32 rounds to 1 what is nearly there
    assert found.max() > 0.9
    assert found.min() < -0.1
    assert (explainer(lambda z: torch.ones(len(z), 3, dtype=DOUBLE), x).values == 0).all()


def test_one_channel_leaves_nothing_to_draw_and_one_column_has_a_complement():
    x = series(3, 6, 1, dtype=DOUBLE)
    explainer = tg.Fit().fit(nn.Identity(), series(9, 4, 1))
    found = explainer(tg.Predictor(lambda z: z.sum(1), task="classification"), x).values
    p = x.cumsum(1).sigmoid()
    p = torch.cat([p, 1 - p], -1)
    for n in range(3):
        for t in range(1, 6):
            assert float(found[n, t, 0]) == pytest.approx(squash(kl(p[n, t], p[n, t - 1])), abs=1e-6)
    for form in (
        lambda z: z.sum(1).sigmoid(),
        lambda z: torch.cat([z.sum(1).sigmoid(), 1 - z.sum(1).sigmoid()], 1),
    ):
        torch.testing.assert_close(explainer(form, x, output="raw").values, found, rtol=1e-5, atol=1e-8)


def test_the_generator_is_three_times_as_wide_as_the_series():
    assert tg.Fit(epochs=1).fit(nn.Identity(), series(9, 4, 2)).generator.gru.hidden_size == 6


FITTED = tg.Fit(n_samples=1, generator=last_value(2))
GRU = Recurrent(2, per_step=True)
BACKWARDS = tg.Predictor(lambda z: z.flip(1).cumsum(1), task="per_step")
X = series(4, 6, 2)
CASES = {
    "unfitted": (lambda: tg.explain(GRU, X, "fit"), InputError, "learns from training series"),
    "steps": (lambda: FITTED(GRU, X, steps=2), InputError, "own step on, got steps=2"),
    "steps list": (lambda: FITTED(GRU, X, steps=[1, 2]), InputError, "leave it out"),
    "logits": (lambda: FITTED(GRU, X, output="raw"), InputError, "compares probabilities"),
    "width": (lambda: FITTED(Recurrent(3), series(2, 6, 3)), InputError, r"shape \(2,\), x has \(3,\)"),
    "prefixes": (lambda: FITTED(linear(6, 2), X), ModelError, "rejects the first 1 of 6 steps"),
    "NaN": (lambda: FITTED(lambda z: z.sum(1) / (z.shape[1] - 1), X), ModelError, "a row of finite numbers"),
    "seed": (lambda: tg.Fit().fit(GRU, X, seed=0.5), InputError, "seed must be an integer"),
    "looks ahead": (lambda: FITTED(BACKWARDS, X), ModelError, "fit needs predictions"),
    "samples": (lambda: tg.Fit(n_samples=0), InputError, "samples must be at least 1"),
    "hidden": (lambda: tg.Fit(hidden=0), InputError, "hidden must be at least 1"),
    "one step": (lambda: tg.Fit().fit(GRU, X[:, :1]), InputError, "two steps or more"),
    "two series": (lambda: tg.Fit().fit(GRU, X[:2]), InputError, "Too few series to train the .* of fit: got 2"),
    "scale": (lambda: tg.Fit().fit(GRU, X * 1e30), InputError, "loss became"),
    "rows": (
        lambda: FITTED(lambda z: torch.ones(len(z), 4, 2), X, target=lambda y: y[:, 0, 0], output="probability"),
        ModelError,
        "flatten its outputs",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:fit explains the model.s whole output")
@pytest.mark.parametrize("case", CASES)
def test_one_sentence_that_says_what_to_do(case):
    call, kind, text = CASES[case]
    with pytest.raises(kind, match=text) as caught:
        call()
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_a_target_makes_no_difference_and_own_steps_are_what_it_explains():
    plain = FITTED(GRU, X).values
    with pytest.warns(TempogradWarning, match="whole output"):
        torch.testing.assert_close(FITTED(GRU, X, target=1).values, plain)
    torch.testing.assert_close(FITTED(GRU, X, steps="own").values, plain)


@pytest.mark.parametrize("explainer", [tg.Fit(), tg.WinIT()])
def test_a_model_that_rejects_prefixes_is_refused_before_anything_is_learnt(explainer, monkeypatch):
    monkeypatch.setattr("tempograd.explainers.prefix._train", lambda *_: pytest.fail("it learnt"))
    with pytest.raises(ModelError, match="rejects the first 1 of 6 steps"):
        explainer.fit(linear(6, 2), X)
