import pytest
import torch
from torch import nn

from conftest import linear
from tempograd.engine import fingerprint


def mixed() -> nn.Module:
    """Weights of several widths, an odd number of each."""
    model = linear(3, 1, classes=1)
    model.register_buffer("narrow", torch.ones(3, dtype=torch.float16))
    model.register_buffer("flags", torch.ones(5, dtype=torch.bool))
    model.register_buffer("wide", torch.ones(1, dtype=torch.float64))
    return model


@pytest.mark.parametrize("name", ["1.weight", "1.bias", "narrow", "flags", "wide"])
def test_weights_of_every_width_are_part_of_the_name(name):
    model, other = mixed(), mixed()
    assert fingerprint(model)() == fingerprint(other)()
    with torch.no_grad():
        other.state_dict()[name].view(-1)[0].zero_()
    assert fingerprint(model)() != fingerprint(other)()


def test_shapes_and_names_are_part_of_the_name():
    wide, tall = nn.Linear(2, 3, bias=False), nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        tall.weight.copy_(wide.weight.view(2, 3))
    assert fingerprint(wide)() != fingerprint(tall)()


def test_asking_twice_gives_the_same_name():
    name = fingerprint(mixed())
    assert name() == name()


def test_a_function_is_named_by_its_name():
    def scores(x):
        return x

    assert fingerprint(scores)().endswith("scores")
