"""ContraLSP against its definition and models with known answers."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from tempograd.core.errors import InputError, ModelError, SettingError
from tempograd.core.question import Question
from tempograd.engine import Ask
from tempograd.explainers import ContraLSP, masks
from tempograd.explainers.masks import Replacement, SharingPart, Trend, contrast, seeded, two_means
from tests.helpers.literal_methods import blind, first_network, literal_contralsp
from tests.helpers.models import Recurrent, series, smooth

DOUBLE = torch.float64


def gates(settings, model=blind, x=None, seed=0):
    x = series(4, 6, 3, dtype=DOUBLE) if x is None else x
    ask = Ask.create(model, x, Question(output="raw"), seed=seed)
    networks = seeded(ask, lambda: [Replacement(3), Trend(x.shape[1], 3)])
    return SharingPart(ask, settings._read(ask, slice(0, len(x))), networks)


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
    settings = ContraLSP()
    part = gates(settings)
    torch.testing.assert_close(settings._mask(part), masks._trend(part).sigmoid())
    flat(monkeypatch)
    for sigma, chance in ((0.5, 0.8413447), (0.8, 0.5 + 0.5 * math.erf(0.5 / 0.8 / 2**0.5)), (1e-9, 1.0)):
        settings = ContraLSP(1.0, 0.0, sigma)
        loss = settings._loss(gates(settings), 0)
        torch.testing.assert_close(loss, torch.tensor(4 * chance, dtype=DOUBLE), rtol=1e-6, atol=0)


def test_without_noise_only_open_gates_count(monkeypatch):
    flat(monkeypatch)
    settings = ContraLSP(1.0, 0.0, 1e-9)
    part = gates(settings)
    part.learnt.data = series(4, 6, 3, seed=3, dtype=DOUBLE)
    share = (part.learnt.detach() + 0.5 > 0).double().mean((1, 2)).sum()
    torch.testing.assert_close(settings._loss(part, 0).detach(), share)


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
    settings = ContraLSP(1.0, 0.6)
    part = gates(settings)
    settings._loss(part, 0).backward()
    gru, head = first_network(0, 3)
    (0.6 * head(normalize(gru(part.x)[0], dim=-1)).abs().mean((1, 2)).sum()).backward()
    torch.testing.assert_close(part.networks[0].head.weight.grad, head.weight.grad)
    torch.testing.assert_close(part.networks[0].gru.weight_hh_l0.grad, gru.weight_hh_l0.grad)


@pytest.mark.parametrize("batch_size", [3, 100])
@pytest.mark.parametrize("contrastive", ["none", "triplet"])
def test_masks_follow_the_definition(contrastive, batch_size):
    """Groups and their anchors may be a matter of rounding, so one of three batches of series may differ."""
    model, alike = smooth(5, 3), 0
    settings = ContraLSP(0.4, 0.6, epochs=5, lr=0.05, contrastive=contrastive)
    for draw in range(3):
        x = series(7, 5, 3, draw, DOUBLE)
        x[:3] += 2  # two groups of more than two series
        found = settings(model, x, seed=6, batch_size=batch_size).values
        alike += torch.allclose(found, literal_contralsp(model, x, settings, 6), rtol=1e-3, atol=2e-5)
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


@pytest.mark.slow  # a second; what is learnt is compared with its definition above
def test_finds_the_cells_that_a_linear_model_reads():
    salient = torch.zeros(8, 3)
    salient[2:5, 1], salient[6, 0] = 1, 1
    x = series(6, 8, 3, dtype=DOUBLE)
    x = x + 2 * x.sign()
    model = lambda z: (z * salient)[:, salient.bool()]  # noqa: E731
    found = ContraLSP(1.0, 1.0, epochs=150, lr=0.05)(model, x, output="raw").values
    assert found[:, salient.bool()].mean() > 0.9
    assert found[:, ~salient.bool()].mean() < 0.05


def test_mistakes_get_one_sentence():
    with pytest.raises(SettingError, match="'none' or 'triplet'"):
        ContraLSP(contrastive="pairs")
    with pytest.raises(SettingError, match="sigma must be a finite number above 0"):
        ContraLSP(sigma=0.0)
    with pytest.raises(InputError, match="explains steps together"):
        ContraLSP(epochs=2)(Recurrent(per_step=True), series(2, 6, 3), steps="own")
    with pytest.raises(ModelError, match="in a way autograd can see"):
        ContraLSP(epochs=2)(lambda z: z.detach().flatten(1)[:, :2], series(2, 6, 3))
    with pytest.raises(ModelError, match="gradient is NaN"):
        ContraLSP(epochs=2)(lambda z: (z - z).sqrt().flatten(1)[:, :2], series(2, 6, 3))
