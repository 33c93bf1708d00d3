import copy

import pytest
import torch
from torch import nn
from torch.nn import Module

import tempograd as tg
from tempograd.engine import frozen, place
from tempograd.engine.model import parts_of
from tests.helpers.models import Recurrent, series


class Counting(nn.Module):
    """Keeps state in a buffer and draws random numbers, in evaluation mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return x.flatten(1).sum(1, keepdim=True) + 0 * torch.rand(1)


def snapshot(model: nn.Module) -> list:
    modes = [part.training for part in model.modules()]
    dropouts = [part.dropout for part in model.modules() if isinstance(part, nn.RNNBase)]
    flags = [(p.requires_grad, p.grad is None) for p in model.parameters()]
    return [modes, dropouts, flags, copy.deepcopy(model.state_dict())]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("mode", [False, True])
def test_everything_is_put_back(mode, fails):
    model = nn.ModuleDict({"net": Recurrent().train(mode), "count": Counting()})
    model["net"].head.bias.requires_grad_(False)
    before, rng, flag = snapshot(model), torch.get_rng_state(), torch.backends.cudnn.enabled
    try:
        with frozen(model):
            assert not any(p.requires_grad for p in model.parameters())
            assert model["net"].gru.training
            assert model["net"].gru.dropout == 0
            assert not model["net"].norm.training
            model["net"](series(4, 5, 3))
            model["count"](series(4, 5, 3))
            if fails:
                raise KeyError
    except KeyError:
        pass
    after = snapshot(model)
    assert before[:3] == after[:3]
    assert all(torch.equal(before[3][key], after[3][key]) for key in before[3])
    assert torch.equal(rng, torch.get_rng_state())
    assert torch.backends.cudnn.enabled == flag


def test_recurrent_layers_answer_as_in_evaluation_mode():
    model, x = Recurrent().eval(), series(4, 5, 3)
    expected = model(x)
    with frozen(model):
        torch.testing.assert_close(model(x), expected, rtol=1e-5, atol=1e-6)


def test_works_inside_no_grad_and_inference_mode():
    model = Recurrent()
    for context in (torch.no_grad(), torch.inference_mode()):
        with context, frozen(model):
            z = series(2, 5, 3).clone().requires_grad_()
            assert torch.autograd.grad(model(z).sum(), z)[0].abs().sum() > 0


def test_a_method_is_traced_to_its_module():
    class Net(Recurrent):
        def scores(self, x):
            return self(x).softmax(-1)

    net = Net().double().train()
    assert place(net.scores, torch.zeros(1))[1] == torch.float64
    with frozen(net.scores):
        assert not net.norm.training
    assert net.norm.training


def test_a_module_without_weights_computes_where_its_buffers_are():
    module = nn.Module()
    module.register_buffer("count", torch.zeros(1, dtype=torch.int64))
    module.register_buffer("scale", torch.ones(1, dtype=torch.float64))
    assert place(module, torch.zeros(1))[1] == torch.float64


@pytest.mark.parametrize("before", [False, True])
def test_tiny_numbers_are_zero_inside_and_as_before_outside(before):
    tiny = torch.tensor(1e-40)

    def failing():
        with frozen(Recurrent()):
            assert tiny * 1 == 0
            raise ArithmeticError

    if not torch.set_flush_denormal(before):
        pytest.skip("this CPU cannot flush denormal numbers")
    try:
        with pytest.raises(ArithmeticError):
            failing()
        assert bool(tiny * 1 == 0) == before
    finally:
        torch.set_flush_denormal(False)


def test_a_default_of_half_precision_does_not_leave_denormal_numbers_flushed():
    if not torch.set_flush_denormal(False):
        pytest.skip("this CPU cannot flush denormal numbers")
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        with frozen(Recurrent()):
            pass
    finally:
        torch.set_default_dtype(before)
    assert torch.tensor(1e-40) * 1 != 0


class Listing(nn.Sequential):
    """Hides a part, as wrappers for training do."""

    def named_modules(self, *given, **named):
        yield from list(super().named_modules(*given, **named))[:-1]


def shared() -> nn.Module:
    """The same layer and the same weight at several places, and places that are empty."""
    inner, last = nn.Linear(2, 2, bias=False), nn.BatchNorm1d(2)
    model = nn.Sequential(nn.Sequential(last, inner), nn.ReLU(), inner, nn.Linear(2, 2), last)
    model[3].weight = inner.weight
    model.register_module("none", None)
    model.register_buffer("gone", None)
    return model


@pytest.mark.parametrize(
    "make",
    [shared, lambda: Listing(nn.Linear(2, 2), nn.GRU(2, 2)), lambda: nn.Sequential(Listing(nn.ReLU(), shared()))],
)
def test_parts_are_those_that_torch_lists(make):
    model = make()
    listed = model.modules(), model.parameters(), model.buffers()
    for found, expected in zip(parts_of(model), listed, strict=True):
        assert list(map(id, found)) == list(map(id, expected))


class Streaming(nn.Module):
    """Goes on from the state that the last call has left, which is no buffer."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRU(2, 4, batch_first=True), nn.Linear(4, 2)
        self.state, self.seen = torch.full((1, 1, 4), 0.5), torch.zeros(())

    def forward(self, x):
        outputs, last = self.cell(x, self.state.expand(1, len(x), 4).contiguous())
        self.state = last[:, :1].detach()
        self.newest = last
        self.seen += 1
        return self.head(outputs[:, -1])


def test_tensors_in_plain_attributes_are_put_back():
    model = Streaming().eval()
    state, seen = model.state, model.seen
    expected = model(series(3, 5, 2)).detach()
    model.state, model.seen = state, seen
    model.seen.zero_()
    del model.newest
    with pytest.warns(tg.TempogradWarning):
        tg.explain(model, series(3, 5, 2), "occlusion")
    assert model.state is state
    assert model.seen is seen
    assert float(seen) == 0
    assert not hasattr(model, "newest")
    assert torch.equal(model(series(3, 5, 2)), expected)


@pytest.mark.parametrize(("before", "within"), [(torch.bfloat16, torch.half), (torch.double, torch.float)])
def test_weights_that_a_forward_casts_are_put_back_as_they_were(before, within):
    class Casting(nn.Linear):
        def forward(self, x):
            self.to(within)
            return super().forward(x.flatten(1).to(within)).float()

    model = Casting(6, 2).to(before).eval()
    weights = [(weight, weight.detach().clone()) for weight in model.parameters()]
    with pytest.raises(tg.TempogradError, match="they were put back"), frozen(model):
        model(series(3, 3, 2))
    for weight, value in weights:
        assert weight.dtype == before
        assert torch.equal(weight, value)


def test_a_buffer_that_a_forward_replaces_is_put_back():
    class Replacing(Counting):
        def forward(self, x):
            self.calls = self.calls + 1
            return x.flatten(1).sum(1, keepdim=True)

    model = Replacing()
    calls = model.calls
    with frozen(model):
        model(series(3, 5, 2))
    assert model.calls is calls
    assert float(calls) == 0


DEEP = {"a": {"b": {"c": {"d": nn.Sequential(nn.Flatten(), nn.Linear(10, 2), nn.Dropout()).train()}}}}


def test_a_module_inside_a_function_that_names_the_class_is_frozen():
    def model(x):
        net = DEEP["a"]["b"]["c"]["d"]
        assert isinstance(net, Module)
        return net(x)

    assert not tg.explain(model, series(3, 5, 2), "occlusion", target=0, output="raw").varies
    assert DEEP["a"]["b"]["c"]["d"].training
