"""Half-right calls that ended badly once, by name: each is refused in one sentence."""

import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.cli import main
from tempograd.data import Dataset, Series
from tempograd.models import build
from tests.fuzz.trials import sentence
from tests.fuzz.worlds import CHANNELS, CLASSES, TIME, Flat

X = torch.linspace(-1, 1, 2 * TIME * CHANNELS).view(2, TIME, CHANNELS)
TWO = Series(X, torch.tensor([0, 1]))
DATA = Dataset("two", TWO, None, TWO, CLASSES, ("a", "b"))


def refused(call, *words) -> None:
    """Make a call that must be refused in one sentence that holds some words."""
    with pytest.raises(tg.TempogradError) as caught:
        call()
    said = str(caught.value)
    assert sentence(said) == ""
    assert all(word in said for word in words), said


@pytest.mark.parametrize("path", [None, 5, 1.5, b"x", [], torch.zeros(2), len])
def test_what_is_no_path(path):
    found = tg.explain(Flat().eval(), X, "random")
    for call in (
        lambda: found.save(path),
        lambda: tg.report(path, None, found),
        lambda: tg.save_model(build("gru", 2, 2, hidden=2), path),
        lambda: tg.Explanation.load(path),
    ):
        refused(call, "path must be the name of a file, as a text or a pathlib.Path, got ")


@pytest.mark.parametrize("root", [5, b"x", "a\0b", "a\nb"])
def test_roots_that_cannot_be(root):
    refused(lambda: tg.load_dataset("wafer", root=root))


@pytest.mark.parametrize("path", ["x" * 5000, "a\nb", "\x1b[31m"])
def test_paths_in_sentences(path, capsys):
    refused(lambda: tg.Explanation.load(path))
    assert main(["report", path]) == 3
    assert sentence(capsys.readouterr().err.removesuffix("\n")) == ""


@pytest.mark.parametrize("flag", ["series", "force"])
def test_flags_of_saving(flag, tmp_path):
    found = tg.explain(Flat().eval(), X, "random")
    refused(lambda: found.save(tmp_path / "e.safetensors", **{flag: "yes"}), f"{flag} must be True or False")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": None}, "No model is called None."),
        ({"data": "state"}, "data must be a Dataset, as load_dataset returns it, got 'state'"),
        ({"seed": None}, "seed must be an integer, got None"),
        ({"epochs": None}, "epochs must be an integer, got None"),
        ({"epochs": [1]}, "epochs must be an integer"),
        ({"batch_size": True}, "batch_size must be an integer, got True"),
        ({"learning_rate": "a"}, "learning_rate must be a number, got 'a'"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number above 0, got nan"),
        ({"shuffle": 1}, "shuffle must be True or False, got 1"),
    ],
)
def test_training(changes, said):
    given = {"model": "gru", "data": DATA, "epochs": 1} | changes
    refused(lambda: tg.train(given.pop("model"), given.pop("data"), **given), said)


@pytest.mark.parametrize("method", ["integrated_gradients", "occlusion", "lime", "timing"])
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda out: out[:, 1] > 0, "target(output) must return real numbers"),
        (lambda out: out[:, 1].to_sparse(), "target(output) must return real numbers in a dense tensor"),
        (lambda out: out[:, 1].to("meta"), "torch.strided on meta"),
        (lambda out: torch.complex(out[:, 1], out[:, 1]), "target(output) must return real numbers"),
        (lambda out: out[:, 1] * torch.nan, ""),
        (lambda out: out, "target(output) must return one score per series"),
    ],
)
def test_functions_as_target(method, function, said):
    refused(lambda: tg.explain(Flat().eval(), X, method, output="raw", target=function), *([said] * bool(said)))


@pytest.mark.parametrize("call", [lambda: None, lambda a, b, c: a])
def test_wrapped_functions_of_nothing(call):
    refused(
        lambda: tg.explain(tg.Predictor(call, modules=[Flat().eval()]), X), "cannot be called with series alone"
    )


def test_arrays_in_lists_are_not_printed():
    for part, said in (
        (X, "a Tensor of shape (2, 4, 2) and"),
        (np.zeros((9, 9)), "an ndarray of shape (9, 9) and"),
    ):
        refused(lambda part=part: tg.Predictor(Flat(), pick=[part]), f"got [{said} float")


def test_timex_learns_from_series_that_the_model_cannot_take():
    model = nn.Sequential(nn.Flatten(), nn.Linear(TIME * CHANNELS, CLASSES)).eval()
    short = torch.zeros(6, 1, CHANNELS)
    refused(lambda: tg.TimeX(epochs=1).fit(model, short), "The model cannot take x of shape (1, 1, 2)")


@pytest.mark.parametrize(
    "words",
    [
        ["bench", "smok", "--out", "folder"],
        ["table", "x" * 400],
        ["table", "table1", "--results", "x" * 400],
        ["explain", "--model", "worlds:Flat", "--data", "x" * 400],
        ["explain", "--model", "worlds:WORLDS", "--data", "series.npz"],
        ["explain", "--model", "..:x", "--data", "series.npz"],
        ["demo", "--epochs", "-1"],
        ["demo", "--device", "nowhere"],
        ["evaluate", "a\nb", "--model", "worlds:Flat"],
    ],
)
def test_commands(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words) in {2, 3, 5}
    printed = capsys.readouterr()
    assert printed.out == ""
    assert sentence(printed.err.removeprefix("tempograd: ").removesuffix("\n")) == ""
    assert not list(tmp_path.iterdir())  # no folder was made for nothing


def test_letters_that_no_font_has():
    found = tg.explain(Flat().eval(), tg.Series(X, ids=["\N{CHART WITH UPWARDS TREND}", "b"]), "random")
    assert found._repr_html_().startswith("<")  # and matplotlib warns of nothing, which would be an error here


def test_names_of_all_kinds_in_sentences():
    found = tg.explain(Flat().eval(), tg.Series(X, channels=["a\nb", "x" * 500]), "random")
    refused(lambda: tg.plots.compare(found, channels=["c"]), "No channel is called 'c'", "a b, x")
    metric = tg.METRICS["cpd"](name="x" * 90)
    refused(lambda: tg.evaluate(Flat().eval(), found, metrics=[metric, metric]), "Two metrics are called")
