"""A function around a module is as safe as the module: same scores to the bit, and the module as it was."""

import copy
import functools
import types
import weakref

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.engine.model import place
from tests.helpers.models import series


class Disturbed(nn.Module):
    """Channels first, with everything that training mode disturbs: batch statistics and two kinds of dropout."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.conv, self.norm, self.drop = nn.Conv1d(3, 8, 3), nn.BatchNorm1d(8), nn.Dropout(0.5)
            self.gru = nn.GRU(8, 6, 2, dropout=0.5, batch_first=True)
            self.head = nn.Linear(6, 2)
            for _ in range(10):
                self(torch.randn(16, 3, 9) * 2 + 1)  # running statistics that are not those of the series

    def forward(self, z):
        hidden = self.drop(self.norm(self.conv(z)).relu()).transpose(1, 2)
        return nn.functional.dropout(self.head(self.gru(hidden)[0][:, -1]), 0.5, self.training)


class Turned(nn.Module):
    """The honest twin: the same function as a module."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, z):
        return self.net(z.transpose(1, 2))


class Holder:
    """An object whose method uses a module."""

    def __init__(self, net: nn.Module) -> None:
        self.net, self.other = net, nn.Linear(1, 1).double()

    def predict(self, z):
        return self.net(z.transpose(1, 2))


class Hidden:
    """An object that cannot be looked into."""

    __slots__ = ("net",)

    def __init__(self, net: nn.Module) -> None:
        self.net = net

    def __call__(self, z):
        return self.net(z.transpose(1, 2))


class Unregistered(nn.Module):
    """A module that keeps another one where torch does not see it."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.nets = [net]

    def forward(self, z):
        return self.nets[0](z.transpose(1, 2))


def _from(nets):
    return lambda z: nets[0]["a"](z.transpose(1, 2))


def _around(inner):
    return lambda z: inner(z) + 0


def _with_default(net):
    def call(z, net=net):
        return net(z.transpose(1, 2))

    return call


def _named_globally(net):
    source = "def call(z):\n    return holder.nets['one'](z.transpose(1, 2))"
    scope = {"holder": types.SimpleNamespace(nets={"one": net})}
    exec(source, scope)  # a function whose globals are not those of this file
    return scope["call"]


class Trainer:
    """Holds a module, a weak proxy of it and one whose module is gone, as trainers do after training."""

    def __init__(self, net: nn.Module) -> None:
        self.net, self.proxy, self.gone = net, weakref.proxy(net), weakref.proxy(nn.Linear(1, 1))

    def predict(self, z):
        return self.proxy(z.transpose(1, 2))


def _trained(net):
    trainer = Trainer(net)
    return lambda z: trainer.net(z.transpose(1, 2))


FUNCTIONS = {
    "lambda": lambda net: lambda z: net(z.transpose(1, 2)),
    "direct forward": lambda net: lambda z: net.forward(z.transpose(1, 2)),
    "default": _with_default,
    "partial": lambda net: functools.partial(lambda model, z: model(z.transpose(1, 2)), net),
    "container": lambda net: _from([{"a": net}]),
    "global": _named_globally,
    "method": lambda net: Holder(net).predict,
    "function of a function": lambda net: _around(lambda z: net(z.transpose(1, 2))),
    "proxy beside it": _trained,
    "method through a proxy": lambda net: Trainer(net).predict,
    "hidden": Hidden,
    "unregistered": Unregistered,
    "predictor": lambda net: tg.Predictor(Hidden(net), modules=[net]),
}
METHODS = {
    "timing": {"n_samples": 8},
    "integrated_gradients": {"n_steps": 5},
    "occlusion": {},
    "lime": {"n_samples": 60},
}


def state(net: nn.Module) -> list:
    modes = [part.training for part in net.modules()]
    return [modes, net.gru.dropout, [p.requires_grad for p in net.parameters()], copy.deepcopy(net.state_dict())]


def same_state(before: list, after: list) -> bool:
    return before[:3] == after[:3] and all(torch.equal(before[3][key], after[3][key]) for key in before[3])


@pytest.mark.parametrize(
    ("kind", "method"), [*((kind, "timing") for kind in FUNCTIONS), *(("lambda", method) for method in METHODS)]
)
def test_a_function_is_as_safe_as_its_module(kind, method):
    net, x = Disturbed().train(), series(3, 9, 3)
    expected = tg.explain(Turned(net), x, method, **METHODS[method]).values
    before = state(net)
    found = tg.explain(FUNCTIONS[kind](net), x, method, **METHODS[method])
    assert torch.equal(found.values, expected)
    assert same_state(before, state(net))


@pytest.mark.parametrize("kind", ["lambda", "hidden", "unregistered"])
def test_metrics_pictures_and_reports_are_as_safe(kind, tmp_path):
    net, x = Disturbed().train(), series(3, 9, 3)
    model, before = FUNCTIONS[kind](net), state(net)
    found = tg.explain(model, x, n_samples=8)
    twin = tg.explain(Turned(net), x, n_samples=8)
    scores, expected = tg.evaluate(model, found), tg.evaluate(Turned(net), twin)
    assert all(torch.equal(scores[name], expected[name]) for name in expected)
    tg.plots.series(found, 0)
    tg.report(tmp_path / "report.html", model, [found])
    assert same_state(before, state(net))


@pytest.mark.parametrize("kind", [kind for kind in FUNCTIONS if kind not in {"hidden", "method", "unregistered"}])
def test_the_precision_of_a_module_is_followed(kind):
    net = Disturbed().double()
    found = tg.explain(FUNCTIONS[kind](net), series(3, 9, 3), n_samples=5)
    expected = tg.explain(Turned(net), series(3, 9, 3), n_samples=5)
    assert torch.equal(found.values, expected.values)
    model = FUNCTIONS[kind](net)
    assert place(getattr(model, "called", model), torch.zeros(1))[1] == torch.float64


def test_a_module_that_cannot_be_found_in_another_precision_gets_a_sentence():
    net = Disturbed().double()
    with pytest.raises(tg.TempogradError, match=r"float32 on cpu .* tg\.Predictor\(model, modules=\[module\]\)"):
        tg.explain(Hidden(net), series(3, 9, 3))
    found = tg.explain(tg.Predictor(Hidden(net), modules=[net]), series(3, 9, 3), n_samples=5)
    assert torch.equal(found.values, tg.explain(Turned(net), series(3, 9, 3), n_samples=5).values)


def test_a_weak_proxy_is_the_module():
    net, x = Turned(Disturbed()), series(3, 9, 3)
    found = tg.explain(weakref.proxy(net), x, "occlusion")
    assert torch.equal(found.values, tg.explain(net, x, "occlusion").values)
    assert found.fingerprint == tg.explain(net, x, "occlusion").fingerprint


def test_the_name_of_the_weights_is_that_of_the_module():
    net, x = Disturbed(), series(3, 9, 3)
    found = tg.explain(lambda z: net(z.transpose(1, 2)), x, n_samples=8)
    assert found.fingerprint == tg.explain(tg.Predictor(net, layout="BDT"), x, n_samples=8).fingerprint
    with torch.no_grad():
        net.head.bias += 1
    with pytest.warns(tg.TempogradWarning, match="another model"):
        tg.evaluate(lambda z: net(z.transpose(1, 2)), found)


def test_plain_weights_in_a_function_are_followed_too():
    weight = nn.Parameter(torch.randn(27, 2, dtype=torch.float64))
    found = tg.explain(lambda z: z.flatten(1) @ weight, series(2, 9, 3), n_samples=8, target=0, output="raw")
    expected = weight[:, 0].detach().view(9, 3) * series(2, 9, 3)
    torch.testing.assert_close(found.values, expected.float())
    assert weight.requires_grad


@pytest.mark.parametrize("method", ["timing", "integrated_gradients", "rand_ig", "dynamask"])
@pytest.mark.parametrize("owned", [True, False])
def test_no_gradient_is_an_error_and_no_map_of_zeros(method, owned):
    """Tokens end the graph; weights that want gradients of their own must not hide that."""
    table = nn.Embedding(4, 2)
    weight = torch.randn(4, 2, requires_grad=True)

    def tokens(z):
        token = z.sum(2).round().long().remainder(4)
        return (table(token) if owned else weight[token]).mean(1)

    with pytest.raises(tg.TempogradError, match="autograd can see"):
        tg.explain(tokens, series(3, 9, 3), method)


def test_a_step_without_gradient_for_own_steps_is_an_error_if_all_are():
    weight = torch.ones(3, 2, requires_grad=True)
    with pytest.raises(tg.TempogradError, match="autograd can see"):
        tg.explain(lambda z: z.detach() @ weight, series(3, 5, 3), steps="own")


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # by torch's compiler, about what it reads itself
@pytest.mark.filterwarnings("ignore:Guards may run slower")  # by the same, in Python 3.13.0
@pytest.mark.exact_draws  # the hook that rounds would be compiled as well
@pytest.mark.slow  # the compiler
def test_compiled_models_are_not_compiled_again():
    net, x, runs = Disturbed().train(), series(3, 9, 3), []

    def backend(graph, _):
        runs.append(1)
        return graph.forward

    compiled = torch.compile(net, backend=backend)
    expected, before = tg.explain(Turned(net), x, n_samples=8).values, state(net)
    found = tg.explain(lambda z: compiled(z.transpose(1, 2)), x, n_samples=8)
    first = len(runs)
    tg.explain(lambda z: compiled(z.transpose(1, 2)), x, n_samples=8)
    assert first > 0
    assert len(runs) == first
    torch.testing.assert_close(found.values, expected)
    assert same_state(before, state(net))


class Learning(nn.Module):
    """Changes its own weights when it runs."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.head = how, nn.Linear(6, 2)

    def forward(self, z):
        with torch.no_grad():
            if self.how == "data":  # leaves no trace in the version of the tensor
                self.head.weight.data.mul_(0.9)
            else:
                self.head.weight.mul_(0.9)
        return self.head(z.flatten(1))


@pytest.mark.parametrize("how", ["data", "in place"])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("method", ["timing", "occlusion"])
def test_a_forward_that_changes_its_weights_is_told_and_undone(how, inside, method):
    net, x = Learning(how), series(2, 3, 2)
    before = copy.deepcopy(net.state_dict())
    with pytest.raises(tg.TempogradError, match="weights of Learning changed while the model ran"):
        tg.explain((lambda z: net(z) + 0) if inside else net, x, method)
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())


def test_weights_are_put_back_after_an_error_too():
    net = Learning("data")
    before = copy.deepcopy(net.state_dict())

    def fails(z):
        raise ArithmeticError(net(z).sum())

    with pytest.raises(ArithmeticError):
        tg.explain(fails, series(2, 3, 2))
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())


@pytest.mark.parametrize("modules", ["net", [], [nn.Linear(1, 1).forward]])
def test_modules_that_are_none_are_refused(modules):
    with pytest.raises(tg.TempogradError, match="modules must hold the modules that the function runs, got"):
        tg.Predictor(torch.sum, modules=modules)
