"""Whether the batch of a series matters: no false alarm where a sound model rounds otherwise in another batch."""

import pytest
import torch

from tempograd.engine.outputs import forward
from tempograd.engine.second_look import FEW, look_again, outputs_differ
from tempograd.models import build
from tests.helpers.models import series

SIZES = (1, 3, 64, 4096)
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
        look = look_again(model, x[: min(size, FEW)], torch.zeros_like(x[:1]))
        said.append(outputs_differ(model, look, first.cpu()))
    return said


@pytest.mark.parametrize("larger", [1, 2])
@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_sound_models_raise_no_alarm_at_any_size_of_a_batch(kind, per_step, larger):
    assert differs(kind, "cpu", per_step=per_step, larger=larger) == [""] * len(SIZES)
