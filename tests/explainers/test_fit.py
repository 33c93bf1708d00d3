"""FIT against closed forms, quadrature and the literal loops of its definition."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from conftest import Recurrent, linear, series
from tempograd.draws import Purpose, keys, normal, per_point
from tempograd.errors import InputError, ModelError, SettingError, TempogradWarning, UnknownNameError
from tempograd.explainers._generator import Generator, nearest_past
from tempograd.explainers._learning import Plan, learn

DOUBLE = torch.float64


class Known(Generator):
    """A generator whose guess is given: one mean and factor for every step, or the last value as mean."""

    def __init__(self, mean, factor, noise=1e-4, *, last=False):
        super().__init__(len(mean), 2, noise)
        self.latents, self.last = 1, last
        self.register_buffer("m", torch.as_tensor(mean, dtype=DOUBLE))
        self.register_buffer("a", torch.as_tensor(factor, dtype=DOUBLE))

    def past(self, x):
        return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)

    def moments(self, past, noise):
        mean = past if self.last else self.m.expand(len(past), -1)
        return mean, self.a.expand(len(past), -1, -1)


def last_value(channels):
    return Known([0.0] * channels, torch.zeros(channels, channels), 1e-12, last=True)


def kl(p, q):
    return float((p * (p / q).log()).sum())


def squash(delta):
    return 2 / (1 + math.exp(-5 * delta)) - 1


class Now(nn.Module):
    """Depends on one channel of the current step alone."""

    def __init__(self, channel):
        super().__init__()
        self.channel, self.scale = channel, nn.Parameter(torch.tensor([1.5, 0.0], dtype=DOUBLE))

    def forward(self, x):
        return x[:, -1, self.channel, None] * self.scale + torch.tensor([0.3, 0.0], dtype=DOUBLE)


def test_a_prediction_from_one_channel_of_the_current_step_in_closed_form_and_by_quadrature():
    x, mean, spread = series(2, 3, 2, dtype=DOUBLE), [0.5, -0.4], [0.7, 1.2]
    explainer = tg.Fit(samples=40000, generator=Known(mean, torch.diag(torch.tensor(spread)), 1e-6))
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


def test_draws_given_one_value_have_the_conditional_mean_and_covariance():
    factor = torch.tensor([[0.8, 0.3, 0.0], [0.2, 0.9, 0.5], [0.0, 0.4, 0.6]], dtype=DOUBLE)
    mean, x = torch.tensor([1.0, -2.0, 0.5], dtype=DOUBLE), series(1, 2, 3, dtype=DOUBLE)
    known, samples = Known(mean, factor, 0.05).double(), 100000
    drawn = known.candidates(x, known.past(x), slice(1, 2), torch.tensor([4]), 0, samples)[0, 0]
    covariance = factor @ factor.T + 0.05 * torch.eye(3, dtype=DOUBLE)
    for i in range(3):
        rest = [j for j in range(3) if j != i]
        assert (drawn[i, :, i] == x[0, 1, i]).all()
        expected = mean[rest] + covariance[rest, i] / covariance[i, i] * (x[0, 1, i] - mean[i])
        left = covariance[rest][:, rest] - torch.outer(covariance[rest, i], covariance[i, rest]) / covariance[i, i]
        torch.testing.assert_close(drawn[i][:, rest].mean(0), expected, rtol=0, atol=0.02)
        torch.testing.assert_close(drawn[i][:, rest].T.cov(), left, rtol=0, atol=0.02)


PULL, FACTOR = torch.tensor([[0.8, 0.0], [0.3, 0.5]]), torch.tensor([[0.5, 0.1], [0.3, 0.4]])


def linear_process(count, time):
    rng = torch.Generator().manual_seed(1)
    steps = [torch.randn(count, 2, generator=rng)]
    for _ in range(time - 1):
        steps.append(steps[-1] @ PULL.T + torch.randn(count, 2, generator=rng) @ FACTOR.T)
    return torch.stack(steps, 1)


class Itself(Known):
    """The law of the linear process itself."""

    def moments(self, past, noise):
        return past @ PULL.to(past).T, self.a.expand(len(past), -1, -1)


def test_the_right_generator_is_surprised_by_the_entropy():
    x = linear_process(4000, 6).double()
    law = Itself([0.0, 0.0], FACTOR, 1e-9)
    entropy = 0.5 * float(torch.logdet(2 * math.pi * math.e * FACTOR @ FACTOR.T))
    values, past = x[:, 1:].flatten(0, 1), law.past(x)[:, 1:].flatten(0, 1)
    surprise = float(law.surprise(values, past, torch.zeros(1)))
    assert surprise == pytest.approx(entropy, abs=4 / math.sqrt(len(values)))  # half a chi-square of 2: spread 1
    oracle = torch.distributions.MultivariateNormal(past @ PULL.double().T, (FACTOR @ FACTOR.T).double())
    assert surprise == pytest.approx(float(-oracle.log_prob(values).mean()), abs=1e-6)


def test_the_generator_learns_what_follows_from_the_past():
    x = linear_process(400, 8)
    task = lambda network: nearest_past(network, random_step=False)  # noqa: E731
    generator = learn(lambda: Generator(2, 6), task, nn.Linear(2, 2), x[:300], Plan(15, 50, rate=5e-3), 0, "g")
    values, past = x[300:, 3:].flatten(0, 1), generator.past(x[300:])[:, 3:].flatten(0, 1)
    noise = torch.randn(len(past), generator.latents, generator=torch.Generator().manual_seed(0))
    mean = generator.moments(past, noise)[0]
    new, all_of_it, left = (c.trace() for c in (FACTOR @ FACTOR.T, values.T.cov(), (values - mean).T.cov()))
    assert new < left < new + 0.5 * (all_of_it - new)


def literal(explainer, model, x, seed, ids):
    """The definition, one step, channel and draw at a time, with the generator run on every prefix."""
    generator, (count, time, channels) = explainer.generator, x.shape
    generator = generator.double()
    scores = torch.zeros(x.shape)
    eye = torch.eye(channels, dtype=DOUBLE)
    for n in range(count):
        streams = [
            per_point(keys(seed, torch.tensor([ids[n]]), purpose), explainer.samples)[:, 0]
            for purpose in (Purpose.LATENTS, Purpose.REPLACEMENTS)
        ]
        for t in range(1, time):
            p = [model(x[n : n + 1, : s + 1]).softmax(-1)[0] for s in (t - 1, t)]
            state = generator.gru(x[n : n + 1, :t])[0][:, -1]
            for i in range(channels):
                left = 0.0
                for s in range(explainer.samples):
                    latent = normal(streams[0][:, s], t * 100 + torch.arange(100))
                    u, v = normal(streams[1][:, s], t * 2 * channels + torch.arange(2 * channels)).chunk(2)
                    centre, spread = generator.latent(state).chunk(2, -1)
                    z = centre + spread * latent
                    mean, factor = generator.mean(z)[0], generator.factor(z).view(channels, channels)
                    covariance = factor @ factor.T + generator.noise * eye
                    joint = mean + factor @ u + math.sqrt(generator.noise) * v
                    drawn = joint + covariance[:, i] / covariance[i, i] * (x[n, t, i] - joint[i])
                    changed = torch.cat([x[n, :t], drawn[None]])[None]
                    left += kl(p[1], model(changed).softmax(-1)[0]) / explainer.samples
                scores[n, t, i] = squash(kl(p[1], p[0]) - left)
    return scores


@torch.no_grad()
@pytest.mark.parametrize("recipe", ["validated", "plain"])
def test_remembered_states_and_plain_runs_give_the_literal_loops(recipe):
    model, x = Recurrent().double().eval(), series(2, 5, 3, dtype=DOUBLE) * 3
    explainer = tg.Fit(samples=2, epochs=3, recipe=recipe).fit(model, series(30, 6, 3, seed=1), seed=2)
    assert explainer.generator.noise == (1e-4 if recipe == "validated" else 1e-5)
    expected = literal(explainer, model, x, 7, (4, 9))
    assert expected.abs().max() > 0.005
    call = {"seed": 7, "ids": [4, 9]}
    for form in (model, lambda z: model(z) * 1):  # a function hides its recurrent layer
        torch.testing.assert_close(explainer(form, x, **call).values, expected, rtol=1e-4, atol=1e-6)
    steps = Recurrent(per_step=True).double().eval()
    torch.testing.assert_close(explainer(steps, x, **call).values, expected, rtol=1e-4, atol=1e-6)


def test_scores_move_with_the_channels():
    model, x = Recurrent().double().eval(), series(4, 6, 3, dtype=DOUBLE)
    explainer, order = tg.Fit(samples=1, generator=last_value(3)), torch.tensor([2, 0, 1])
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
    found = explainer(lambda z: z.sum(1), x).values
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


def test_the_released_layout_scrambles_steps_and_channels():
    model, x = Recurrent().double().eval(), series(2, 5, 3, dtype=DOUBLE)
    right = tg.Fit(samples=1, generator=last_value(3))
    clean, wrong = (e(model, x).values for e in (right, replace(right, quirks=frozenset({"B2"}))))
    for t in range(5):
        for d in range(3):
            place = t * 3 + d
            assert torch.equal(wrong[:, t, d], clean[:, place % 5, place // 5])
    assert not torch.equal(wrong, clean)


def test_published_settings():
    real, synthetic = tg.Fit.published("pam"), tg.Fit.published("state")
    assert real.quirks == {"B2"}
    assert (real.samples, real.hidden, real.batch_size, real.patience, real.recipe) == (
        10,
        None,
        100,
        None,
        "validated",
    )
    assert not synthetic.quirks
    assert (synthetic.hidden, synthetic.epochs, synthetic.batch_size, synthetic.recipe) == (6, 200, 32, "plain")
    assert tg.Fit(epochs=1).fit(nn.Identity(), series(9, 4, 2)).generator.gru.hidden_size == 6
    assert replace(synthetic, epochs=1).fit(nn.Identity(), series(9, 4, 3)).generator.gru.hidden_size == 6
    with pytest.raises(UnknownNameError, match="'state'"):
        tg.Fit.published("stat")


def weights(seed):
    return tg.Fit(epochs=2).fit(nn.Identity(), series(20, 5, 2), seed=seed).generator.state_dict()


def test_learning_depends_on_the_seed_alone_and_disturbs_no_other_numbers():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first = weights(3)
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(6)
    with torch.inference_mode():
        again = weights(3)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["gru.weight_ih_l0"], weights(4)["gru.weight_ih_l0"])


class Two(nn.Module):
    """Two numbers that rise by the rate in every epoch."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2, 1))


@pytest.mark.parametrize(("patience", "kept", "epochs"), [(None, [4.0, 1.0], 5), (2, [2.0, 1.0], 4)])
def test_each_part_keeps_its_best_epoch(patience, kept, epochs):
    checked = iter(([3.0, 1.0], [2.0, 2.0], [2.5, 1.5], [9.0, 1.5], [1.0, 1.5]))
    best = {None: [5.0, 1.0], 2: [2.0, 1.0]}[patience]

    def task(network):
        from tempograd.explainers._learning import Task

        def losses(x, rng):
            yield -network.w.sum()

        return Task(losses, lambda x, rng: torch.tensor(next(checked)))

    plan = Plan(5, 100, rate=1.0, held_out=0.2, patience=patience)
    network = learn(Two, task, nn.Identity(), series(10, 3, 1), plan, 0, "two numbers")
    torch.testing.assert_close(network.w.flatten(), torch.tensor(best), rtol=1e-4, atol=0)
    assert len(list(checked)) == 5 - epochs


def test_held_out_series_are_not_learnt_from():
    seen, held = [], []

    def task(network):
        inner = nearest_past(network, random_step=False)

        def losses(x, rng):
            seen.append(x[:, 0, 0])
            yield from inner.losses(x, rng)

        def check(x, rng):
            held.append(x[:, 0, 0])
            return inner.check(x, rng)

        return inner._replace(losses=losses, check=check)

    x = torch.arange(21.0)[:, None, None].expand(21, 4, 2) / 21
    learn(lambda: Generator(2, 4), task, nn.Identity(), x, Plan(2, 9), 0, "split")
    held, seen = torch.cat(held[:1]).sort().values, torch.cat(seen[:2]).sort().values
    assert len(held) == 3
    assert torch.equal(torch.cat([held, seen]).sort().values, x[:, 0, 0])


FITTED = tg.Fit(samples=1, generator=last_value(2))
GRU = Recurrent(2, per_step=True)
X = series(4, 6, 2)
CASES = {
    "unfitted": (lambda: tg.explain(GRU, X, "fit"), InputError, "learns from training series"),
    "steps": (lambda: FITTED(GRU, X, steps=2), InputError, "own step and after it, got steps=2"),
    "steps list": (lambda: FITTED(GRU, X, steps=[1, 2]), InputError, "leave steps out"),
    "logits": (lambda: FITTED(GRU, X, output="raw"), InputError, "compares probabilities"),
    "width": (lambda: FITTED(Recurrent(3), series(2, 6, 3)), InputError, "2 channels, x has 3"),
    "prefixes": (lambda: FITTED(linear(6, 2), X), ModelError, "rejects the first 1 of 6 steps"),
    "looks ahead": (lambda: FITTED(lambda z: z.flip(1).cumsum(1), X), ModelError, "fit needs predictions"),
    "samples": (lambda: tg.Fit(samples=0), InputError, "samples must be at least 1"),
    "hidden": (lambda: tg.Fit(hidden=0), InputError, "hidden must be at least 1"),
    "recipe": (lambda: tg.Fit(recipe="fast"), SettingError, "'validated' or 'plain'"),
    "one step": (lambda: tg.Fit().fit(GRU, X[:, :1]), InputError, "two steps or more"),
    "two series": (lambda: tg.Fit().fit(GRU, X[:2]), InputError, "needs more series, got 2"),
    "scale": (lambda: tg.Fit().fit(GRU, X * 1e30), InputError, "loss became"),
    "rows": (
        lambda: FITTED(lambda z: torch.ones(len(z), 4, 2), X, target=lambda y: y[:, 0, 0]),
        ModelError,
        "function that flattens",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:fit explains the whole output")
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
