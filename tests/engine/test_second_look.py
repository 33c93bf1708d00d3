"""Whether the batch of a series matters: no false alarm where a sound model rounds otherwise in another batch."""

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.engine.predictor import forward
from tempograd.engine.second_look import FEW, look_again
from tempograd.models import build
from tests.helpers.models import Recurrent, series, smooth

SIZES = (1, 3, 64, 1024)
KINDS = ("gru", "cnn", "transformer")


def differs(kind, device, *, per_step, larger, sizes=SIZES):
    """Ask what a second look says of a bundled model after a first pass of each size."""
    torch.manual_seed(0)
    model = build(kind, channels=3, classes=4, per_step=per_step).eval().to(device)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(larger)  # trained ones are larger than those of the start
    x = series(max(sizes), 12, 3).to(device)
    said = []
    for size in sizes:
        with torch.no_grad():
            first = forward(model, x[:size])
        few = x[: min(size, FEW)]
        look = look_again(model, lambda _: model, few, torch.zeros_like(few))
        said.append(look.varies(first.cpu()))
    return said


@pytest.mark.parametrize("larger", [1, 2])
@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_sound_models_raise_no_alarm_at_any_size_of_a_batch(kind, per_step, larger):
    assert differs(kind, "cpu", per_step=per_step, larger=larger) == [""] * len(SIZES)


class ByTheLargest(nn.Module):
    """Scales series by the largest value of their batch, which the series that has it does not notice."""

    def __init__(self, *, least):
        super().__init__()
        self.least, self.net = least, smooth(6, 2).float()

    def forward(self, z):
        low = z.min() if self.least else 0.0
        return self.net((z - low) / (z - low).abs().max())


@pytest.mark.parametrize("count", [1, 2, 4, 20])
@pytest.mark.parametrize("least", [False, True])
def test_a_scale_that_a_batch_shares_is_noticed_whoever_sets_it(count, least):
    model, x = ByTheLargest(least=least), series(count, 6, 2)
    for place in range(min(count, FEW)):  # of the largest value
        largest = torch.cat([x[:place], 3 * x[place : place + 1], x[place + 1 :]])
        look = look_again(model, lambda _: model, largest[:FEW], torch.zeros_like(largest[:FEW]))
        assert look.varies() == "batch"


@pytest.mark.filterwarnings("ignore:The series have 3 different lengths")
@pytest.mark.parametrize("lengths", [(3, 6, 4), (5,)])
@pytest.mark.parametrize("method", ["occlusion", "integrated_gradients"])
def test_places_matter_to_series_that_share_their_length_with_none(lengths, method):
    """By the definition: each series by itself, as batch_size=1 runs it."""

    class Encoded(Recurrent):
        def forward(self, z):
            return super().forward(z + encoding[: len(z)])

    encoding, model = series(5000, 1, 3, seed=3), Encoded(classes=2)
    x = [series(1, length, 3, seed=length)[0] for length in lengths]
    with pytest.warns(tg.TempogradWarning, match="batch"):
        found = tg.explain(model, x, method, target=1)
    assert found.mixes_series
    assert torch.equal(found.values, tg.explain(model, x, method, target=1, batch_size=1).values)
