"""Models that travel explain to the same bits where they are made again, and what cannot travel is said."""

import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import tempograd as tg
from tempograd.core.errors import DataError, InputError, ModelError, TempogradWarning, counted_warnings
from tempograd.engine import Call, fingerprint
from tempograd.models.specs import ModelSpec, spec_of
from tests.helpers.models import Recurrent, linear, series

CODE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, hidden=5, scale=1.0):
        super().__init__()
        self.hidden, self.scale = hidden, scale
        self.gru = nn.GRU(3, hidden, batch_first=True)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(hidden, 2)
        self.register_buffer("mix", 0.9 * torch.eye(3), persistent=False)

    def forward(self, x):
        return self.head(self.drop(self.gru(x @ self.mix)[0][:, -1])) * self.scale

class Forgetful(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.net = Net(hidden)

    def forward(self, x):
        if bool(x.sum() > 1e9):  # which torch.export cannot follow
            return x
        return self.net(x)

def small():
    return Forgetful(2)

def other():
    return Net(4, scale=2.0)

def predict(x):
    return x.sum(1)
"""


@pytest.fixture(autouse=True)
def net(tmp_path, monkeypatch):
    """Return a module of somebody's, in a folder of its own where the test works."""
    (tmp_path / "own_net.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    with torch.random.fork_rng():
        torch.manual_seed(3)
        import own_net  # written a moment ago

        yield own_net
    sys.modules.pop("own_net", None)


X = series(2, 10, 3)


def arrived(spec: ModelSpec) -> nn.Module:
    """Make the model from the folder and from what JSON keeps of its specification."""
    return ModelSpec.of(json.loads(json.dumps(spec.plain()))).build("run")


def same_scores(model: nn.Module, built: nn.Module, dtype=torch.float32) -> None:
    x = series(5, 10, 3, seed=8, dtype=dtype)
    one, two = (tg.explain(each, x, n_samples=6, seed=2) for each in (model, built))
    for part in ("values", "standard_error", "target", "delta"):
        assert torch.equal(getattr(one, part), getattr(two, part))


MODELS = {
    "no arguments": lambda net: net.Net(),
    "arguments that it keeps": lambda net: net.Net(hidden=3, scale=0.5),
    "double precision": lambda net: net.Net(hidden=3).double(),
    "gru of the library": lambda net: tg.MODELS["gru"](3, 2, hidden=4),
    "cnn of the library": lambda net: tg.MODELS["cnn"](3, 2, hidden=4),
    "of a library": lambda net: Recurrent(),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_module_is_made_again_by_its_class(name, net):
    model = MODELS[name](net).eval()
    dtype = next(model.parameters()).dtype
    state = torch.get_rng_state()
    spec = spec_of(model, "run", X)
    built = arrived(spec)
    assert torch.equal(torch.get_rng_state(), state)
    assert spec.fingerprint == fingerprint(built)() == fingerprint(model)()
    assert [file.name for file in Path("run").iterdir()] == ["model.safetensors"]
    assert not built.training
    same_scores(model, built, dtype)


def local(time: int = 10) -> nn.Module:
    class Local(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = linear(time, 3, classes=2)

        def forward(self, x):
            return self.head(x)

    return Local()


@pytest.mark.parametrize("model", [linear(10, 3), local()], ids=["sequential", "local class"])
def test_what_its_class_does_not_make_is_exported_and_that_is_said(model):
    with pytest.warns(TempogradWarning, match="travels as a program of torch.export, since its class"):
        spec = spec_of(model, "run", X)
    same_scores(model, arrived(spec))


def test_a_model_of_channels_first_is_exported_as_it_is_called():
    model = nn.Sequential(nn.Conv1d(3, 4, 3), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 2)).eval()
    call = Call(model_layout="BDT")
    with counted_warnings() as counts:
        spec = spec_of(model, "run", X, call=call)
    assert len(counts.plain()) == 1
    x = series(5, 10, 3)
    one, two = (tg.explain(tg.Predictor(each, layout="BDT"), x, n_samples=8) for each in (model, arrived(spec)))
    assert torch.equal(one.values, two.values)


def test_a_factory_makes_what_keeps_no_arguments(net):
    model = net.Forgetful(2)
    spec = spec_of(model, "run", X, factory="own_net:small")
    same_scores(model, arrived(spec))


def test_the_task_that_a_model_was_told_travels(net):
    model = net.Net()
    model.tempograd_task = "multilabel"
    assert arrived(spec_of(model, "run", X)).tempograd_task == "multilabel"


def test_code_with_weights_and_files_are_taken_along(net):
    model = net.Net().eval()
    torch.save(model.state_dict(), "weights.pt")
    spec = spec_of("own_net:Net", "run", X, weights="weights.pt")
    Path("weights.pt").unlink()
    same_scores(model, arrived(spec))
    saved = tg.MODELS["cnn"](3, 2, hidden=4).eval()
    spec = spec_of(tg.save_model(saved, "saved.safetensors"), "run", X)
    Path("saved.safetensors").unlink()
    same_scores(saved, arrived(spec))


def test_a_program_needs_trust_once(said):
    with counted_warnings():
        spec_of(linear(10, 3), "run", X)
    program = Path("run/model.pt2").rename("mine.pt2")
    said.refused(DataError, spec_of, program, "run", X)
    same_scores(linear(10, 3), arrived(spec_of(program, "run", X, trust=True)))


def test_a_new_process_makes_it_too(net, said):
    spec = spec_of(net.Net(hidden=3), "run", X, elsewhere=True)
    assert spec.arguments == {"hidden": 3, "scale": 1.0}
    model = net.Net(hidden=3)
    Path("own_net.py").write_text("gone = True")  # here the module is still known
    said.refused(ModelError, spec_of, model, "run", X, elsewhere=True)


def inner():
    weight = torch.ones(3)

    def score(x):
        return x @ weight

    return score


class Estimator:
    def predict(self, x):
        return x.mean((1, 2))


REFUSED = {
    "lambda": lambda net: lambda x: x.sum(1),
    "closure": lambda net: inner(),
    "function": lambda net: net.predict,
    "estimator": lambda net: Estimator(),
    "arguments that it does not keep": lambda net: net.Forgetful(2),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_travel_is_refused(name, net, said):
    text = said.refused(ModelError, spec_of, REFUSED[name](net), "run", X)
    assert "\n" not in text


@pytest.mark.parametrize("kind", ["local", "program"])
def test_a_class_that_no_other_process_finds(kind, net, said):
    class Inside(net.Forgetful):
        pass

    model = Inside(2)
    if kind == "program":
        Inside.__module__, Inside.__qualname__ = "__main__", "Inside"
    text = said.refused(ModelError, spec_of, model, "run", X)
    assert "Inside" in text


def test_what_does_not_belong_to_the_model(net, said):
    said.refused(DataError, spec_of, net.Net(), "run", X, factory="own_net:small")  # of other sizes
    said.refused(ModelError, spec_of, net.Net(4), "run", X, factory="own_net:other")  # twice its outputs
    said.refused(InputError, spec_of, net.Net(), "run", X, factory=net.small)
    said.refused(InputError, spec_of, net.Net(), "run", X, weights="weights.pt")
    said.refused(InputError, spec_of, "own_net:Net", "run", X, factory="own_net:small")


def test_a_changed_file_or_changed_code_is_refused(net, said):
    spec = spec_of(net.Net(), "run", X)
    file = Path("run/model.safetensors")
    weights = load_file(file)
    save_file(weights | {"head.bias": weights["head.bias"] + 1}, file)
    said.refused(DataError, spec.build, "run")
    said.refused(DataError, spec.build, ".")
    spec = spec_of(net.Net(), "run", X)

    class Other(net.Net):
        pass

    net.Net = Other
    with pytest.raises(ModelError, match="makes another model here"):
        spec.build("run")
    said.refused(DataError, ModelSpec.of, spec.plain() | {"more": 1})
