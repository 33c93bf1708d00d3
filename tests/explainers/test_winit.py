"""WinIT against closed forms and the literal loops of its definition."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.core.errors import InputError, ModelError, SettingError
from tempograd.core.rng import Stream, fold_in, keys, normal, randint
from tempograd.explainers.prefix import FitSchedule, WindowGenerator, learn, windows_of
from tests.helpers.models import Recurrent, linear, series

DOUBLE = torch.float64
TIME, CHANNELS = 9, 3


def delayed(channel, delay):
    """One output per step: the channel's value some steps ago."""
    model = lambda x: torch.nn.functional.pad(x[..., channel, None], (0, 0, delay, 0))[:, : x.shape[1]]  # noqa: E731
    return tg.Predictor(model, task="per_step")


BACKWARDS = tg.Predictor(lambda z: z.flip(1).cumsum(1), task="per_step")


def pool_draws(explainer, x, seed=0):
    """The values that replace, (series, time, sample, channel): any of the training values of the channel."""
    pool = explainer.source.flatten(0, 1)
    drawn = torch.zeros(*x.shape[:2], explainer.n_samples, x.shape[2], dtype=x.dtype)
    streams = fold_in(keys(seed, torch.arange(len(x)), Stream.REPLACEMENTS), explainer.n_samples)
    for t in range(x.shape[1]):
        for s in range(explainer.n_samples):
            for f in range(x.shape[2]):
                drawn[:, t, s, f] = pool[randint(streams[:, :, s], t * x.shape[2] + f, len(pool)), f].to(x)
    return drawn


@pytest.mark.parametrize("delay", [0, 2, 4])
def test_one_value_some_steps_ago_matters_with_that_delay_alone(delay):
    x = series(4, TIME, CHANNELS, dtype=DOUBLE)
    explainer = tg.WinIT(window=4, n_samples=2, sampler="marginal").fit(torch.sum, series(20, 5, CHANNELS, seed=1))
    found = explainer(delayed(1, delay), x, output="raw").values
    delta = (pool_draws(explainer, x) - x[:, :, None]).abs().mean(2)[..., 1]  # c of the value itself
    expected = torch.zeros_like(x)
    for u in range(1, TIME):
        if delay < 4 and u + delay < TIME:
            expected[:, u, 1] = delta[:, u] / min(4, TIME - u)
    torch.testing.assert_close(found, expected.float())


def literal(explainer, model, x, draws):
    """The definition; ``draws(n, u, s, f)`` gives the values of channel f from step u on."""
    window, (count, time, channels) = explainer.window, x.shape

    def distance(p, q):
        kl = lambda a, b: float((a * (a / b).log()).sum())  # noqa: E731
        if explainer.distance == "pd":
            return float((p - q).abs().sum())
        return kl(p, q) if explainer.distance == "kl" else (kl(p, (p + q) / 2) + kl(q, (p + q) / 2)) / 2

    predict = lambda z: model(z[None]).softmax(-1)[0]  # noqa: E731
    scores = torch.zeros(x.shape)
    total = torch.zeros(count, channels)
    for n in range(count):
        for f in range(channels):
            importance = torch.zeros(time, time)
            for t in range(1, time):
                before = 0.0
                for k in range(min(t, window)):
                    delta = 0.0
                    for s in range(explainer.n_samples):
                        z = x[n, : t + 1].clone()
                        z[t - k :, f] = draws(n, t - k, s, f)[: k + 1]
                        delta += distance(predict(x[n, : t + 1]), predict(z)) / explainer.n_samples
                    importance[t, k], before = delta - before, delta
                total[n, f] += before  # i of the longest window: the sum of all parts
            for u in range(1, time):
                parts = torch.stack([importance[t, t - u] for t in range(u, min(u + window, time))])
                best = {"mean": parts.mean(), "max": parts.max(), "absmax": parts[parts.abs().argmax()]}
                scores[n, u, f] = best[explainer.aggregation]
    return scores, total


SETTINGS = [
    {"sampler": "marginal"},
    {"sampler": "generator"},
    {"sampler": "marginal", "distance": "kl", "aggregation": "max"},
    {"sampler": "generator", "distance": "js", "aggregation": "absmax"},
    {"sampler": "marginal", "window": 12},
]


@torch.no_grad()
@pytest.mark.parametrize("settings", SETTINGS)
def test_remembered_states_and_plain_runs_give_the_literal_loops(settings):
    model, x = Recurrent().double().eval(), series(2, 7, CHANNELS, dtype=DOUBLE) * 2
    explainer = tg.WinIT(**{"window": 3, "n_samples": 2, "epochs": 2} | settings)
    explainer = explainer.fit(model, series(20, 6, CHANNELS, seed=1))
    if settings["sampler"] == "marginal":
        pool = pool_draws(explainer, x, seed=5)
        draws = lambda n, u, s, f: pool[n, u:, s, f]  # noqa: E731
    else:
        streams = fold_in(keys(5, torch.arange(2), Stream.REPLACEMENTS), 2)

        def draws(n, u, s, f):
            at = torch.arange(u, u + 3)
            noise = normal(streams[:, n, s, None], at * CHANNELS + f)
            mean, spread = explainer.source.moments(explainer.source.past(x[n : n + 1, : u + 1]))
            return mean[0, u, f] + spread[0, u, f] * noise

    expected, total = literal(explainer, model, x, draws)
    assert expected.abs().max() > 1e-5
    for form in (model, lambda z: model(z) * 1, Recurrent(per_step=True).double().eval()):
        found = explainer(form, x, seed=5).values
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)
    if explainer.aggregation == "mean":  # the parts of a prediction telescope
        count = torch.arange(7, 0, -1).clamp(max=explainer.window)
        torch.testing.assert_close((found * count[:, None]).sum(1), total, rtol=1e-4, atol=1e-6)


def test_a_window_of_one_step_is_occlusion_of_that_step():
    model, x = Recurrent(classes=1).double().eval(), series(3, 6, CHANNELS, dtype=DOUBLE)
    explainer = tg.WinIT(window=1, n_samples=1, sampler="marginal").fit(model, series(20, 6, CHANNELS, seed=1))
    found, drawn = explainer(model, x).values, pool_draws(explainer, x)
    for u in range(1, 6):
        for f in range(CHANNELS):
            z = x[:, : u + 1].clone()
            z[:, u, f] = drawn[:, u, 0, f]
            delta = (model(z).sigmoid() - model(x[:, : u + 1]).sigmoid()).abs()[:, 0]
            torch.testing.assert_close(found[:, u, f].double(), 2 * delta, rtol=1e-5, atol=1e-8)  # p and 1 - p


def test_marginal_replacements_are_all_training_values_of_the_channel_alike():
    pool = torch.arange(12.0).view(3, 4, 1) + torch.tensor([0.0, 100.0])
    x, seen = torch.full((1, 2, 2), -5.0), []

    def model(z):
        seen.append(z[:, -1])
        return z[:, -1]

    tg.WinIT(window=1, n_samples=6000, sampler="marginal").fit(model, pool)(
        model, x, output="raw", batch_size=20000
    )
    last = torch.cat(seen[:-2])  # the last two are the second look at the model
    for channel, values in enumerate(pool.flatten(0, 1).T):
        replaced = last[last[:, channel] != -5, channel]
        counts = torch.stack([(replaced == value).sum() for value in values])
        assert counts.sum() == len(replaced)
        assert ((counts - counts.sum() / 12).abs() < 5 * (counts.sum() / 12).sqrt()).all()


def test_the_networks_side_by_side_are_networks_of_their_own():
    many, x = WindowGenerator(CHANNELS, 4, hidden=5).double().eval(), series(2, 6, CHANNELS, dtype=DOUBLE)
    with torch.no_grad():
        many.norm.running_mean.uniform_(-1, 1)
        many.norm.running_var.uniform_(0.5, 2)
        mean, spread = many.moments(many.past(x))
        for f in range(CHANNELS):
            gru, rows = nn.GRU(CHANNELS, 5, batch_first=True).double(), slice(f * 15, f * 15 + 15)
            gru.weight_ih_l0.copy_(many.reads.weight[rows])
            gru.bias_ih_l0.copy_(many.reads.bias[rows])
            gru.weight_hh_l0.copy_(many.recurrent.weight[f].T)
            gru.bias_hh_l0.copy_(many.recurrent.bias[f, 0])
            share = slice(f * 5, f * 5 + 5)
            for u in range(1, 6):
                h = gru(x[:, :u])[0][:, -1] @ many.first.weight[f] + many.first.bias[f]
                h = (h.tanh() - many.norm.running_mean[share]) / (many.norm.running_var[share] + 1e-5).sqrt()
                found = h @ many.last.weight[f] + many.last.bias[f]
                torch.testing.assert_close(mean[:, u, f], found[:, :4])
                torch.testing.assert_close(spread[:, u, f], found[:, 4:])


def test_the_loss_is_the_error_of_draws_of_values_that_exist():
    many, x = WindowGenerator(2, 3, hidden=4).double().eval(), series(3, 5, 2, dtype=DOUBLE)
    with torch.no_grad():
        found = many.check(x, torch.Generator().manual_seed(1))
        mean, spread = many.moments(many.past(x))
    noise = torch.randn(3, 4, 2, 3, generator=torch.Generator().manual_seed(1))
    for f in range(2):
        errors = [
            (mean[n, u, f, j] + spread[n, u, f, j] * noise[n, u - 1, f, j] - x[n, u + j, f]) ** 2
            for n in range(3)
            for u in range(1, 5)
            for j in range(3)
            if u + j < 5
        ]
        torch.testing.assert_close(found[f], torch.stack(errors).mean())


def test_networks_learn_together_as_if_each_were_alone():
    """A channel that repeats itself becomes known; one of noise stays at its variance."""
    x = series(120, 6, 2)
    x[..., 0] = x[:, :1, 0]
    generator = learn(lambda: WindowGenerator(2, 3, 8), nn.Identity(), x, FitSchedule(60, 40, 1e-2), 0, "g")
    new = series(200, 6, 2, seed=3)
    new[..., 0] = new[:, :1, 0]
    mean, spread = (part[:, 1:4] for part in generator.moments(generator.past(new)))
    error = (mean - windows_of(new, 3)[:, 1:4]).square().mean((0, 1, 3))
    assert error[0] < 0.1
    assert 0.8 < error[1] < 1.3
    assert spread.square().mean() < 0.1  # the loss drives it to 0


X, GRU = series(4, 6, 2), Recurrent(2)
FITTED = tg.WinIT(sampler="marginal").fit(GRU, X)
LEARNT = tg.WinIT(epochs=1).fit(GRU, series(12, 6, 2))
CASES = {
    "unfitted": (lambda: tg.explain(GRU, X, "winit"), InputError, "learns from training series"),
    "steps": (lambda: FITTED(Recurrent(2, per_step=True), X, steps=2), InputError, "leave it out"),
    "logits": (lambda: replace(FITTED, distance="js")(GRU, X, output="raw"), InputError, "compares probabilities"),
    "width": (lambda: FITTED(Recurrent(3), series(2, 6, 3)), InputError, r"shape \(2,\), x has \(3,\)"),
    "width learnt": (lambda: LEARNT(Recurrent(3), series(2, 6, 3)), InputError, r"shape \(2,\), x has \(3,\)"),
    "other sampler": (lambda: replace(FITTED, sampler="generator")(GRU, X), InputError, "fit it again"),
    "other window": (lambda: replace(LEARNT, window=4)(GRU, X), InputError, "fit it again"),
    "prefixes": (lambda: FITTED(linear(6, 2), X), ModelError, "rejects the first 1 of 6 steps"),
    "looks ahead": (lambda: FITTED(BACKWARDS, X), ModelError, "winit needs predictions from"),
    "window": (lambda: tg.WinIT(window=0), InputError, "window must be at least 1"),
    "distance": (lambda: tg.WinIT(distance="l2"), SettingError, "must be 'pd', 'kl' or 'js', got 'l2'"),
    "aggregation": (lambda: tg.WinIT(aggregation="sum"), SettingError, "must be 'mean', 'max' or 'absmax'"),
    "sampler": (lambda: tg.WinIT(sampler="joint"), SettingError, "must be 'generator' or 'marginal'"),
    "one step": (lambda: tg.WinIT().fit(GRU, X[:, :1]), InputError, "two steps or more"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_that_says_what_to_do(case):
    call, kind, text = CASES[case]
    with pytest.raises(kind, match=text) as caught:
        call()
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
