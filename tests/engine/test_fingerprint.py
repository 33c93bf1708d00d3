from copy import deepcopy

import pytest
import torch
from torch import nn

from tempograd.engine import fingerprint
from tempograd.engine.model import bits_of
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


def plain() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3))
    model.register_buffer("kept", torch.zeros(2))
    return model


def swap(model: nn.Module) -> None:
    model[0], model[2] = model[2], model[0]


def rename(model: nn.Module) -> None:
    buffer = model.kept
    del model.kept
    model.register_buffer("other", buffer)


def forget(_, state: dict, *__) -> None:
    del state["kept"]


CHANGES = {
    "nothing": lambda model: None,
    "in place": lambda model: model[0].weight.detach().mul_(2),
    "without a trace": lambda model: model[0].weight.data[0, 0].add_(1),
    "zero gets a sign": lambda model: model.kept.data.neg_(),
    "a count": lambda model: model[1].num_batches_tracked.add_(1),
    "another tensor": lambda model: setattr(model[0], "weight", nn.Parameter(torch.ones(3, 3))),
    "other storage": lambda model: setattr(model[0].weight, "data", torch.ones(3, 3)),
    "transposed": lambda model: setattr(model[0].weight, "data", model[0].weight.data.T),
    "places of layers": swap,
    "name of a buffer": rename,
    "a buffer that is not saved": lambda model: model._non_persistent_buffers_set.add("kept"),
    "precision": lambda model: model.double(),
    "class": lambda model: setattr(model, "__class__", type("Other", (nn.Sequential,), {})),
    "a new layer": lambda model: model.append(nn.Linear(1, 1)),
    "a hook": lambda model: model.register_state_dict_post_hook(forget),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_model_that_was_named_before_has_the_name_of_its_copy(change):
    """The copy was never named, so that its name is made anew."""
    model = plain()
    before = fingerprint(model)()
    change(model)
    for _ in range(2):
        assert fingerprint(model)() == fingerprint(deepcopy(model))()
    assert (fingerprint(model)() == before) == (change is CHANGES["nothing"])


def test_a_name_is_that_of_the_moment_it_was_asked_for():
    model = plain()
    before = fingerprint(model)()
    model[0].weight.data.mul_(2)
    later, expected = fingerprint(model), fingerprint(deepcopy(model))()
    model[0].weight.data.mul_(2)
    assert later() == expected != before


def test_tensors_of_every_kind_are_told_apart_by_their_bits():
    kinds = (
        torch.float32,
        torch.float64,
        torch.bfloat16,
        torch.complex64,
        torch.complex128,
        torch.bool,
        torch.int64,
    )
    tensors = [torch.ones(3, 2).to(kind) for kind in kinds]
    tensors += [torch.arange(6.0).view(2, 3).T, torch.tensor(torch.nan), torch.zeros(0, 3)]
    copies = deepcopy(tensors)
    assert all(map(torch.equal, bits_of(tensors), bits_of(copies)))
    for tensor in (tensor for tensor in copies if tensor.numel()):
        before = tensor.clone()
        tensor.zero_()
        assert not all(map(torch.equal, bits_of(tensors), bits_of(copies)))
        tensor.copy_(before)
