"""The fault of the released FIT and WinIT, and the settings of the paper."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.core.errors import SettingError, UnknownNameError
from tempograd_paper.released.fit import PlainGenerator, ReleasedFit
from tempograd_paper.released.winit import ReleasedWinIT
from tests.helpers.literal_methods import Known, literal_fit
from tests.helpers.models import Recurrent, series

DOUBLE = torch.float64


@pytest.mark.parametrize("kind", [ReleasedFit, ReleasedWinIT])
def test_the_released_layout_scrambles_steps_and_channels(kind):
    """B2."""
    model, x = Recurrent().double().eval(), series(2, 5, 3, dtype=DOUBLE)
    if kind is ReleasedFit:
        right = ReleasedFit(n_samples=1, generator=Known([0.0] * 3, torch.zeros(3, 3), 1e-12, last=True))
    else:
        right = ReleasedWinIT(n_samples=1, sampler="marginal").fit(model, series(20, 6, 3, seed=1))
    clean, wrong = (e(model, x).values for e in (right, replace(right, quirks=frozenset({"B2"}))))
    for t in range(5):
        for d in range(3):
            place = t * 3 + d
            assert torch.equal(wrong[:, t, d], clean[:, place % 5, place // 5])
    assert not torch.equal(wrong, clean)


@torch.no_grad()
def test_the_plain_generator_gives_the_literal_loops():
    model, x = Recurrent().double().eval(), series(2, 5, 3, dtype=DOUBLE) * 3
    explainer = ReleasedFit(n_samples=2, epochs=3, recipe="plain").fit(model, series(30, 6, 3, seed=1), seed=2)
    assert explainer.generator.noise == 1e-5
    assert isinstance(explainer.generator.latent[-1], nn.Tanh)
    expected = literal_fit(explainer, model, x, 7, (4, 9))
    assert expected.abs().max() > 0.001
    found = explainer(model, tg.Series(x, ids=[4, 9]), seed=7).values
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_the_plain_generator_learns_one_late_step_of_each_batch_and_keeps_the_last_weights():
    class Spy(PlainGenerator):
        def surprise_at(self, t, x, rng):
            return torch.tensor(t)

    rng, losses = torch.Generator().manual_seed(0), Spy(3, 4).losses
    for time, late in ((7, {4, 5, 6}), (3, {2})):
        drawn = [[int(t) for t in losses(series(2, time, 3), rng)] for _ in range(60)]
        assert {t for (t,) in drawn} == late
    assert ReleasedFit(recipe="plain")._fit_schedule().held_out == 0
    assert ReleasedFit()._fit_schedule().held_out == 0.1
    with pytest.raises(SettingError, match="'validated' or 'plain'"):
        ReleasedFit(recipe="fast")


def test_settings_of_fit():
    real, synthetic = ReleasedFit.of("pam"), ReleasedFit.of("state")
    assert real.quirks == {"B2"}
    assert (real.n_samples, real.hidden, real.fit_batch_size, real.patience) == (10, None, 100, None)
    assert (real.epochs, real.recipe) == (301, "validated")
    assert not synthetic.quirks
    found = (synthetic.hidden, synthetic.epochs, synthetic.fit_batch_size, synthetic.recipe)
    assert found == (6, 200, 32, "plain")
    assert replace(synthetic, epochs=1).fit(nn.Identity(), series(9, 4, 3)).generator.gru.hidden_size == 6
    with pytest.raises(UnknownNameError, match="'state'"):
        ReleasedFit.of("stat")


def test_settings_of_winit():
    found = ReleasedWinIT.of("mimic3")
    assert (found.window, found.n_samples, found.distance, found.aggregation) == (10, 3, "pd", "mean")
    assert (found.sampler, found.quirks) == ("marginal", {"B2"})
    for dataset in ("state", "pam"):
        with pytest.raises(UnknownNameError, match="mimic3"):
            ReleasedWinIT.of(dataset)
