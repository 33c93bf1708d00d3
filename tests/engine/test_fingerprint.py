import pytest
import torch
from torch import nn

from tempograd.engine import fingerprint
from tempograd.explainers import IntegratedGradients
from tests.helpers.models import linear, series


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


def test_a_model_that_counts_its_calls_is_explained_under_the_name_it_has_outside():
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = linear(6, 2)
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls += 1
            return self.inner(x)

    model = Counting()
    assert IntegratedGradients(n_steps=2)(model, series(3, 6, 2)).fingerprint == fingerprint(model)()
