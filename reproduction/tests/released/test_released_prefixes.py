"""The fault of the released FIT and WinIT, and the settings of the paper."""

from dataclasses import replace

import pytest
import torch
from conftest import Recurrent, series
from test_generator import Known
from torch import nn

from tempograd.errors import UnknownNameError
from tempograd_paper.released.fit import ReleasedFit
from tempograd_paper.released.winit import ReleasedWinIT

DOUBLE = torch.float64


@pytest.mark.parametrize("kind", [ReleasedFit, ReleasedWinIT])
def test_the_released_layout_scrambles_steps_and_channels(kind):
    """B2."""
    model, x = Recurrent().double().eval(), series(2, 5, 3, dtype=DOUBLE)
    if kind is ReleasedFit:
        right = ReleasedFit(samples=1, generator=Known([0.0] * 3, torch.zeros(3, 3), 1e-12, last=True))
    else:
        right = ReleasedWinIT(samples=1, sampler="marginal").fit(model, series(20, 6, 3, seed=1))
    clean, wrong = (e(model, x).values for e in (right, replace(right, quirks=frozenset({"B2"}))))
    for t in range(5):
        for d in range(3):
            place = t * 3 + d
            assert torch.equal(wrong[:, t, d], clean[:, place % 5, place // 5])
    assert not torch.equal(wrong, clean)


def test_settings_of_fit():
    real, synthetic = ReleasedFit.of("pam"), ReleasedFit.of("state")
    assert real.quirks == {"B2"}
    assert (real.samples, real.hidden, real.batch_size, real.patience) == (10, None, 100, None)
    assert (real.epochs, real.recipe) == (301, "validated")
    assert not synthetic.quirks
    assert (synthetic.hidden, synthetic.epochs, synthetic.batch_size, synthetic.recipe) == (6, 200, 32, "plain")
    assert replace(synthetic, epochs=1).fit(nn.Identity(), series(9, 4, 3)).generator.gru.hidden_size == 6
    with pytest.raises(UnknownNameError, match="'state'"):
        ReleasedFit.of("stat")


def test_settings_of_winit():
    found = ReleasedWinIT.of("mimic3")
    assert (found.window, found.samples, found.distance, found.aggregation) == (10, 3, "pd", "mean")
    assert (found.sampler, found.quirks) == ("marginal", {"B2"})
    for dataset in ("state", "pam"):
        with pytest.raises(UnknownNameError, match="mimic3"):
            ReleasedWinIT.of(dataset)
