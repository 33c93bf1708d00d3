"""Extremal masks against their definition and models with known answers."""

import pytest
import torch
from torch.nn.functional import normalize

from tempograd.core.errors import InputError, ModelError, SettingError
from tempograd.core.question import Question
from tempograd.engine import Ask
from tempograd.explainers import ExtremalMask
from tempograd.explainers.masks import Replacement, seeded
from tests.helpers.literal_methods import blind, first_network, literal_extremal_mask
from tests.helpers.models import Recurrent, series, smooth

DOUBLE = torch.float64


def test_without_a_model_masks_fall_by_one_step_of_adam():
    for epochs in (1, 7, 40):
        found = ExtremalMask(epochs=epochs, lr=0.01)(blind, series(3, 5, 2), output="raw").values
        torch.testing.assert_close(found, torch.full_like(found, 0.5 - 0.01 * epochs), rtol=0, atol=1e-5)


ALL, THREES = [slice(0, 7)], [slice(0, 3), slice(3, 6), slice(6, 7)]


@pytest.mark.parametrize("batch_size", [2, 100])
@pytest.mark.parametrize("batch", [None, 3])
def test_masks_follow_the_definition(batch, batch_size):
    model, x = smooth(5, 3), series(7, 5, 3, dtype=DOUBLE)
    settings = ExtremalMask(0.4, 0.6, epochs=10, lr=0.03, fit_batch_size=batch)
    expected = literal_extremal_mask(model, x, settings, ALL if batch is None else THREES, dense=False)
    found = settings(model, x, seed=5, batch_size=batch_size).values
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-5)


def test_deletion_goes_for_the_prediction_of_the_baseline():
    model, x, start = smooth(5, 3), series(7, 5, 3, dtype=DOUBLE), series(1, 5, 3, seed=8, dtype=DOUBLE)
    settings = ExtremalMask(0.4, 0.6, epochs=10, lr=0.03, deletion=True)
    expected = literal_extremal_mask(model, x, settings, ALL, dense=True, start=start.expand_as(x), empty=True)
    found = settings(model, x, seed=5, baseline=start).values
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-5)


def test_a_large_weight_closes_every_mask():
    found = ExtremalMask(1000.0, epochs=120, lr=0.02)(smooth(6, 2), series(3, 6, 2, dtype=DOUBLE)).values
    assert found.max() < 0.05


def test_without_replacements_it_is_a_mask_on_a_zero_baseline(monkeypatch):
    monkeypatch.setattr(Replacement, "forward", lambda self, x, lengths: x * 0 * self.head.bias)
    model, x = smooth(5, 3), series(2, 5, 3, dtype=DOUBLE)
    mask = torch.full_like(x, 0.5, requires_grad=True)
    optimiser, clean = torch.optim.Adam([mask], lr=0.02), model(x).detach()
    for _ in range(12):
        optimiser.zero_grad()
        wrong = (model(mask.clamp(0, 1) * x) - clean).square().mean(-1)
        (wrong + 0.3 * mask.abs().mean((1, 2))).sum().backward()
        optimiser.step()
    found = ExtremalMask(0.3, epochs=12, lr=0.02)(model, x, output="raw").values
    torch.testing.assert_close(found, mask.detach().clamp(0, 1).float(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("deletion", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_finds_the_cells_that_a_linear_model_reads(deletion):
    salient = torch.zeros(8, 3)
    salient[2:5, 1], salient[6, 0] = 1, 1
    x = series(6, 8, 3, dtype=DOUBLE)
    x = x + 2 * x.sign()
    model = lambda z: (z * salient)[:, salient.bool()]  # noqa: E731
    found = ExtremalMask(1.0, 10.0, epochs=150, lr=0.02, deletion=deletion)(model, x, output="raw").values
    assert found[:, salient.bool()].min() > 0.6
    assert found[:, ~salient.bool()].max() < 0.2


def test_the_backward_pass_in_time_does_not_start_in_the_padding():
    gru, head = first_network(0, 3)
    network = Replacement(3).double()
    network.gru.load_state_dict(gru.state_dict())
    network.head.load_state_dict(head.state_dict())
    x, lengths = series(3, 8, 3, dtype=DOUBLE), torch.tensor([8, 5, 2])
    found = network(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = head(normalize(gru(x[row : row + 1, :length])[0], dim=-1))
        torch.testing.assert_close(found[row : row + 1, :length], alone)


def test_the_seed_of_the_network_leaves_other_generators_alone():
    ask = Ask.create(smooth(4, 2), series(2, 4, 2), Question(), seed=-(2**63))
    before = torch.get_rng_state()
    (one,), (two,) = (seeded(ask, lambda: [Replacement(2)]) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one.head.weight, two.head.weight)


def test_mistakes_get_one_sentence():
    with pytest.raises(SettingError, match="mask_weight must be finite and not negative"):
        ExtremalMask(-1.0)
    with pytest.raises(InputError, match="fit_batch_size must be at least 1"):
        ExtremalMask(fit_batch_size=0)
    with pytest.raises(InputError, match="explains steps together"):
        ExtremalMask(epochs=2)(Recurrent(per_step=True), series(2, 6, 3), steps="own")
    with pytest.raises(ModelError, match="in a way autograd can see"):
        ExtremalMask(epochs=2)(lambda z: z.detach().flatten(1)[:, :2], series(2, 6, 3))
    with pytest.raises(ModelError, match="gradient is NaN"):
        ExtremalMask(epochs=2)(lambda z: (z - z).sqrt().flatten(1)[:, :2], series(2, 6, 3))
