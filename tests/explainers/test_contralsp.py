"""ContraLSP against its definition and models with known answers."""

import math

import pytest
import torch
from conftest import Recurrent, series, smooth
from mask_parts import blind, first_network
from torch import nn
from torch.nn.functional import normalize

from tempograd._utils.rng import Purpose, keys, normal, split
from tempograd.engine import Question
from tempograd.errors import InputError, ModelError, SettingError, UnknownNameError
from tempograd.explainers import ContraLSP
from tempograd.explainers.masks.contralsp import _Gates, contrast, two_means
from tempograd.explainers.masks.replacement import Replacement, Trend, seeded
from tempograd.explainers.masks.training import read

DOUBLE = torch.float64


def gates(settings, model=blind, x=None, seed=0):
    x = series(4, 6, 3, dtype=DOUBLE) if x is None else x
    question = Question.ask(model, x, output="raw", seed=seed)
    networks = seeded(question, DOUBLE, lambda: nn.ModuleList([Replacement(3), Trend(x.shape[1], 3)]))
    return _Gates(settings, question, read(question, slice(0, len(x))), networks, 1.0)


def flat(monkeypatch):
    monkeypatch.setattr(Trend, "forward", lambda self, x: x * 0 * self.second_bias.sum())


def test_trends_are_one_small_network_per_channel():
    trend, x = Trend(7, 3).double(), series(5, 9, 3, dtype=DOUBLE)
    found = trend(x)
    for d in range(3):
        first, second = nn.Linear(7, 32).double(), nn.Linear(32, 7).double()
        first.weight.data, first.bias.data = trend.first[d].T, trend.first_bias[d]
        second.weight.data, second.bias.data = trend.second[d].T, trend.second_bias[:, d]
        torch.testing.assert_close(found[:, :7, d], second(first(x[:, :7, d]).relu()))
    assert (found[:, 7:] == 0).all()
    assert trend.first.abs().max() <= 7**-0.5
    assert trend.second.abs().max() <= 32**-0.5


def test_at_first_a_mask_is_the_sigmoid_of_the_trend(monkeypatch):
    part = gates(ContraLSP())
    torch.testing.assert_close(part.mask(part.mu + 0.5, part.trend()), part.trend().sigmoid())
    flat(monkeypatch)
    for sigma, chance in ((0.5, 0.8413447), (0.8, 0.5 + 0.5 * math.erf(0.5 / 0.8 / 2**0.5)), (1e-9, 1.0)):
        loss = gates(ContraLSP(1.0, 0.0, sigma)).loss(0)
        torch.testing.assert_close(loss, torch.tensor(4 * chance, dtype=DOUBLE), rtol=1e-6, atol=0)


def test_without_noise_only_open_gates_count(monkeypatch):
    flat(monkeypatch)
    part = gates(ContraLSP(1.0, 0.0, 1e-9))
    part.mu.data = series(4, 6, 3, seed=3, dtype=DOUBLE)
    share = (part.mu.detach() + 0.5 > 0).double().mean((1, 2)).sum()
    torch.testing.assert_close(part.loss(0).detach(), share)


def test_without_a_model_gates_close(monkeypatch):
    flat(monkeypatch)
    found = ContraLSP(epochs=150, lr=0.02)(blind, series(3, 5, 2), output="raw").values
    assert (found == 0).all()


def test_maps_are_masks_without_noise():
    model, x = smooth(6, 3), series(4, 6, 3, dtype=DOUBLE)
    noisy = ContraLSP(epochs=15, lr=0.1, sigma=5.0)(model, x)
    assert noisy.values.min() >= 0
    assert noisy.values.max() <= 1
    assert torch.equal(noisy.values, ContraLSP(epochs=15, lr=0.1, sigma=5.0)(model, x).values)


def test_the_released_contrast_is_the_size_of_replacements():
    """The gradient for the network's weights is that of lambda_2 mean |r|, where the model sees nothing."""
    part = gates(ContraLSP(1.0, 0.6))
    part.loss(0).backward()
    gru, head = first_network(0, 3)
    (0.6 * head(normalize(gru(part.x)[0], dim=-1)).abs().mean((1, 2)).sum()).backward()
    torch.testing.assert_close(part.replacement.head.weight.grad, head.weight.grad)
    torch.testing.assert_close(part.replacement.gru.weight_hh_l0.grad, gru.weight_hh_l0.grad)


def literal_fit(model, x, settings, seed):
    """The definition, with a loop over channels and torch's Adam."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        replacement, trend = Replacement(x.shape[2]), Trend(x.shape[1], x.shape[2])
    gru, head = replacement.gru.double(), replacement.head.double()
    parts = [
        p.detach().double().requires_grad_()
        for p in (trend.first, trend.first_bias, trend.second, trend.second_bias)
    ]
    first, first_bias, second, second_bias = parts
    mu = torch.full_like(x, 0.5, requires_grad=True)
    optimiser = torch.optim.Adam([mu, *replacement.parameters(), *parts], lr=settings.lr)
    clean = model(x).softmax(-1).detach()

    def mask(gate):
        tau = []
        for d in range(x.shape[2]):
            hidden = (x[:, :, d] @ first[d] + first_bias[d]).relu()
            tau.append(hidden @ second[d] + second_bias[:, d])
        return gate * torch.sigmoid(gate * torch.stack(tau, -1))

    for epoch in range(settings.epochs):
        noise = []
        for name in range(len(x)):
            stream = split(keys(seed, torch.tensor([name]), Purpose.GATES), epoch)
            noise.append(normal(stream, torch.arange(x[0].numel())).view(x[0].shape))
        kept = mask(mu + 0.5 + settings.sigma * torch.stack(noise)).clamp(0, 1)
        moved = head(normalize(gru(x)[0], dim=-1))
        wrong = -(clean * model(kept * x + (1 - kept) * moved).log_softmax(-1)).sum(-1).mean()
        chance = torch.special.ndtr(mask(mu + 0.5) / settings.sigma).mean()
        loss = wrong + settings.mask_weight * chance + settings.replacement_weight * moved.abs().mean()
        if settings.contrastive == "triplet":
            loss = loss + settings.replacement_weight * literal_contrast(moved.flatten(1))
        optimiser.zero_grad()
        (loss if settings.quirks else loss * len(x)).backward()  # Adam's guard sees the difference
        optimiser.step()
    return mask(mu + 0.5).clamp(0, 1).detach().float()


def literal_contrast(points):
    first, _ = two_means(points.detach())
    total = 0.0
    for group in (first, ~first):
        members, others = group.nonzero()[:, 0].tolist(), (~group).nonzero()[:, 0].tolist()
        if len(members) < 2 or not others:
            continue
        centre = points[members].mean(0).detach()
        anchor = min(members, key=lambda i: float((points[i].detach() - centre).square().sum()))
        near = sum((points[i] - points[anchor]).abs().mean() for i in members if i != anchor) / (len(members) - 1)
        far = sum((points[i] - points[anchor]).abs().mean() for i in others) / len(others)
        total = total + max(near - far + 1, torch.zeros(())) / 2
    return total


@pytest.mark.parametrize("chunk", [3, 100])
@pytest.mark.parametrize("contrastive", ["none", "triplet"])
@pytest.mark.parametrize("quirks", [(), ("0.3.5",)])
def test_masks_follow_the_definition(contrastive, chunk, quirks):
    """Groups and their anchors may be a matter of rounding, so one of three batches of series may differ."""
    model, alike = smooth(5, 3), 0
    settings = ContraLSP(0.4, 0.6, epochs=10, lr=0.05, contrastive=contrastive, quirks=frozenset(quirks))
    for draw in range(3):
        x = series(7, 5, 3, draw, DOUBLE)
        x[:3] += 2  # two groups of more than two series
        found = settings(model, x, seed=6, chunk=chunk).values
        alike += torch.allclose(found, literal_fit(model, x, settings, 6), rtol=1e-3, atol=2e-5)
    assert alike >= (3 if contrastive == "none" else 2)


def test_the_triplet_loss_reaches_the_masks_and_one_series_has_none():
    model, x = smooth(5, 3), series(7, 5, 3, dtype=DOUBLE)
    plain, triplet = (ContraLSP(epochs=10, lr=0.05, contrastive=kind) for kind in ("none", "triplet"))
    assert (plain(model, x).values - triplet(model, x).values).abs().max() > 1e-6  # in single precision 0, or 6e-8
    assert torch.equal(plain(model, x[:1]).values, triplet(model, x[:1]).values)


def test_groups_are_those_that_lie_apart():
    points = torch.cat([series(5, 1, 4)[:, 0] + 30, series(4, 1, 4, seed=1)[:, 0] - 30])
    first, centres = two_means(points)
    assert len(first[:5].unique()) == len(first[5:].unique()) == 1
    assert first[0] != first[5]
    torch.testing.assert_close(centres[int(~first[0])], points[:5].mean(0))
    assert contrast(points) == 0
    close = points * 0.001
    assert 0.5 < contrast(close) < 1.01


def test_finds_the_cells_that_a_linear_model_reads():
    salient = torch.zeros(8, 3)
    salient[2:5, 1], salient[6, 0] = 1, 1
    x = series(6, 8, 3, dtype=DOUBLE)
    x = x + 2 * x.sign()
    model = lambda z: (z * salient)[:, salient.bool()]  # noqa: E731
    found = ContraLSP(1.0, 1.0, epochs=150, lr=0.05)(model, x, output="raw").values
    assert found[:, salient.bool()].mean() > 0.9
    assert found[:, ~salient.bool()].mean() < 0.05


def test_published_settings_and_mistakes():
    mimic, state, switch = (ContraLSP.published(name) for name in ("mimic3", "state", "switch_feature"))
    weights = [(one.mask_weight, one.replacement_weight, one.sigma) for one in (mimic, state, switch)]
    assert weights == [(0.005, 0.01, 0.5), (2, 1, 0.5), (1, 2, 0.8)]
    assert [(one.epochs, one.lr) for one in (mimic, state, switch)] == [(200, 0.1), (500, 0.01), (500, 0.01)]
    assert mimic.quirks == {"0.3.5", "0.3.6"}
    assert state.quirks == switch.quirks | {"B6"} == {"A6", "B6", "0.3.5"}
    with pytest.raises(UnknownNameError, match="Did you mean 'wafer'"):
        ContraLSP.published("waffer")
    with pytest.raises(SettingError, match="'none' or 'triplet'"):
        ContraLSP(contrastive="pairs")
    with pytest.raises(SettingError, match="sigma must be a finite number above 0"):
        ContraLSP(sigma=0.0)
    with pytest.raises(InputError, match="explains all chosen steps together"):
        ContraLSP(epochs=2)(Recurrent(per_step=True), series(2, 6, 3), steps="own")
    with pytest.raises(ModelError, match="in a way autograd can see"):
        ContraLSP(epochs=2)(lambda z: z.detach().flatten(1)[:, :2], series(2, 6, 3))
    with pytest.raises(ModelError, match="gradient is NaN"):
        ContraLSP(epochs=2)(lambda z: (z - z).sqrt().flatten(1)[:, :2], series(2, 6, 3))
