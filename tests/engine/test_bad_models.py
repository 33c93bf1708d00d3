"""What is no model, what a model may not return, and where none can be asked: one sentence each."""

import re

import pytest
import torch
from torch import nn

import tempograd as tg
from tests.helpers.models import linear, series

pytestmark = pytest.mark.filterwarnings("ignore:.*explained another model")
X = series(4, 5, 3)
WEIGHTS = series(1, 15, 2)[0]


def base(z):
    return z.flatten(1) @ WEIGHTS


@pytest.fixture(scope="module")
def explained():
    return tg.explain(base, X)


@pytest.fixture
def calls(explained, tmp_path):
    """Every public call that asks a model about series, as functions of the model."""
    return {
        "timing": lambda model: tg.explain(model, X),
        "occlusion": lambda model: tg.explain(model, X, "occlusion", output="raw"),
        "dynamask": lambda model: tg.explain(model, X, "dynamask", epochs=1),
        "fit": lambda model: tg.explain(model, X, "gradient_shap", background=X),
        "evaluate": lambda model: tg.evaluate(model, explained),
        "removal_curve": lambda model: tg.removal_curve(model, explained),
        "report": lambda model: tg.report(tmp_path / "report.html", model, [explained]),
    }


def refused(match, call, *given):
    with pytest.raises(tg.TempogradError, match=match) as error:
        call(*given)
    message = str(error.value)
    assert "\n" not in message
    assert len(message) <= 300
    return message


UNUSABLE = {
    "nothing": (lambda z: None, "returned one NoneType, and nothing tells which part is its output"),
    "text": (lambda z: "yes", "The model returned one str, and nothing tells"),
    "dict": (lambda z: {"classes": 3}, r"returned one dict that holds classes \(int\), and nothing tells"),
    "empty": (lambda z: (), "The model returned one tuple, and nothing tells"),
    "outputs": (
        lambda z: (base(z), z),
        r"one tuple that holds 0 \(batch, 2\), 1 \(batch, 5, 3\), and .*: pass pick= with",
    ),
    "scalar": (lambda z: base(z).sum(), r"must return one row per series: \d+ series gave shape \(\)"),
    "other batch": (lambda z: base(z)[:1].repeat(len(z) + 1, 1), "must return one row per series"),
    "no column": (lambda z: base(z)[:, :0], r"must return at least one number per series: .* shape \(\d+, 0\)"),
    "no step": (lambda z: z[:, :0], "must return at least one number per series"),
    "complex": (lambda z: base(z) + 0j, "must return real numbers in a dense tensor, got torch.complex64"),
    "bool": (lambda z: base(z) > 0, "must return real numbers in a dense tensor, got torch.bool"),
    "float8": (
        lambda z: base(z).to(torch.float8_e5m2),
        "must return real numbers in a dense tensor, got torch.float8_e5m2",
    ),
    "sparse": (lambda z: base(z).to_sparse(), "a dense tensor, got torch.float32, torch.sparse_coo"),
    "compressed": (
        lambda z: base(z).to_sparse_csr(),
        "a dense tensor, got torch.float32, torch.sparse_csr",
    ),
    "nested": (
        lambda z: torch.nested.as_nested_tensor(list(base(z))),
        "a dense tensor, got a nested tensor",
    ),
    "meta": (lambda z: base(z).to("meta"), "a dense tensor, got torch.float32, torch.strided on meta"),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("name", UNUSABLE)
def test_outputs_that_nobody_can_explain(name, calls):
    model, match = UNUSABLE[name]
    for call in calls.values():
        refused(match, call, model)
    split = tg.Series(X, torch.zeros(4, dtype=torch.int64))
    refused(match, tg.accuracy, _Module(model), split)


class _Module(nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, z):
        return self.call(z)


def test_whole_numbers_are_numbers():
    """A model that counts, and the same in floating point."""

    def counts(z):
        return (z > 0).sum(1)

    found = tg.explain(counts, X, "occlusion", output="raw", target=1).values
    expected = tg.explain(lambda z: counts(z).float(), X, "occlusion", output="raw", target=1).values
    assert expected.abs().max() > 0
    assert torch.equal(found, expected)


def test_what_is_no_model(calls):
    cases = {
        "but it is None": None,
        "but it is of type int": 5,
        "but it is of type str: read a file with tg.load_model": "model.pt2",
        "The model is the class Flatten: pass an object of it": nn.Flatten,
    }
    for match, model in cases.items():
        for name, call in calls.items():
            if not (name == "report" and model is None):  # a report needs no model
                refused(re.escape(match), call, model)


MISFITS = {
    "matrix": (linear(7, 2), "shapes cannot be multiplied"),
    "view": (lambda z: z.view(-1, 14), "is invalid for input of size"),
    "index": (lambda z: z[:, :, 7], "index 7 is out of bounds for dimension 2 with size 3"),
    "axis": (lambda z: z.sum(7), "Dimension out of range"),
    "layer": (nn.Conv1d(4, 2, 2), "to have 4 channels"),
    "one series": (lambda z: torch.bmm(z, WEIGHTS[None, :3])[:, 0], "batch2 tensor to be"),  # after a first one
}


@pytest.mark.parametrize("name", MISFITS)
def test_models_that_do_not_fit_the_series(name, calls):
    model, match = MISFITS[name]
    for call in calls.values():
        message = refused(r"The model cannot take x of shape \(4, 5, 3\), read as \(batch, time,", call, model)
        assert match in message


def test_models_that_need_more_than_the_series(calls):
    for call in calls.values():
        refused("cannot be called with series alone .*missing 1 required", call, lambda z, mask: z)
        refused("cannot be called with series alone .*missing 1 required", call, nn.Bilinear(3, 3, 1))


def test_faults_inside_a_model_keep_their_traceback(calls):
    def inner(a, b):
        return a

    def outer(z):
        return inner(z)

    for model, kind in ((lambda z: 1 / 0, ZeroDivisionError), (outer, TypeError)):
        for call in calls.values():
            with pytest.raises(kind) as error:
                call(model)
            assert not isinstance(error.value, tg.TempogradError)


def test_weights_that_hold_no_numbers(calls):
    half = nn.Sequential(nn.Flatten(), nn.Linear(15, 2), nn.Linear(2, 2).to("meta"))
    for model in (linear(5, 3).to("meta"), half):
        for call in calls.values():
            refused("weights that hold no numbers yet, on the device meta", call, model)


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature:UserWarning")
def test_weights_that_are_not_there_yet(calls):
    lazy = nn.Sequential(nn.Flatten(), nn.LazyLinear(2))
    for call in calls.values():
        for model in (lazy, lambda z: lazy(z), _Module(lazy)):  # noqa: PLW0108
            refused("weights that hold no numbers yet, .* in lazy layers: .*or call the model once", call, model)
    lazy(X)
    assert tg.explain(lazy, X).values.abs().max() > 0


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.vmap, torch.func.jacrev])
def test_inside_a_transform_of_torch(transform, calls):
    for call in calls.values():

        def inside(_, call=call):
            call(base)
            return torch.zeros(())

        refused("inside a transform of torch.func.*outside", transform(inside), torch.ones(1))
    assert torch.equal(tg.explain(base, X).values, calls["timing"](base).values)
