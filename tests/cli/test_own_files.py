"""``explain``, ``evaluate`` and ``report`` on one's own files and models."""

import json
import shlex
import sys

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

import tempograd as tg
from tempograd.cli import main
from tempograd.explanation.diagnostics import sentence
from tests.helpers.models import series

CODE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(2, 4, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])
"""
NAMES = ("bed 3", "bed 1", "bed 2")
LENGTHS = (5, 3, 4)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with code, weights and a CSV file, as a user has them; the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "ward_net.py").write_text(CODE)
    x = series(3, 5, 2)
    rows = ["bed,hour,pulse,sodium,state"]
    for name, length, values in zip(NAMES, LENGTHS, x.tolist(), strict=True):
        label = "ill" if name == "bed 1" else "well"
        rows += [
            f"{name},{t},{values[t][0]!r},{'' if t == 1 else repr(values[t][1])},{label}" for t in range(length)
        ]
    (tmp_path / "ward.csv").write_text("\n".join(rows))
    yield tmp_path
    sys.modules.pop("ward_net", None)


@pytest.fixture
def net(folder):
    """The user's model, with weights that no fresh one has."""
    sys.path.insert(0, str(folder))
    model = tg.load_model("ward_net:Net")
    sys.path.remove(str(folder))  # the command finds it by itself
    sys.modules.pop("ward_net")
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    torch.save(model.state_dict(), folder / "w.pt")
    safetensors.torch.save_file(model.state_dict(), folder / "w.safetensors")
    return model


DATA = ["--data", "ward.csv", "--id", "bed", "--label", "state"]


@pytest.mark.parametrize("weights", ["w.pt", "w.safetensors"])
@pytest.mark.usefixtures("net")
def test_explain_own_code_on_an_own_table(weights, net, folder, capsys):
    argv = [
        "explain",
        "--lengths",
        "padded",
        "--model",
        "ward_net:Net",
        "--weights",
        weights,
        *DATA,
        "--device",
        "cpu",
    ]
    assert main([*argv, "--out", "e.safetensors", "--classes", "ill,well"]) == 0
    own = tg.read_series("ward.csv", id="bed", label="state").padded()
    expected = tg.explain(net, own)
    found = tg.Explanation.load(folder / "e.safetensors")
    assert torch.equal(found.values, expected.values)
    assert torch.equal(found.mask, own.mask)
    assert (found.names, found.channels, found.times) == (NAMES, ("pulse", "sodium"), ("0", "1", "2", "3", "4"))
    out = capsys.readouterr().out
    assert out.startswith("Explained 3 series (5 steps × 2 channels) with timing, baseline: zero.\n")
    assert f"  {sentence(expected, dialect='shell')}\n" in out
    assert "Wrote e.safetensors.\n" in out


@pytest.mark.usefixtures("net")
def test_the_next_command_works(folder, capsys):
    argv = [
        "explain",
        "--lengths",
        "padded",
        "--model",
        "ward_net:Net",
        "--weights",
        "w.pt",
        *DATA,
        "--device",
        "cpu",
        "--json",
    ]
    assert main([*argv, "--out", "my e.safetensors"]) == 0
    printed = json.loads(capsys.readouterr().out)
    words = shlex.split(printed["next"])
    assert words[:3] == ["tempograd", "report", "my e.safetensors"]
    assert main([*words[1:], "--device", "cpu"]) == 0
    assert capsys.readouterr().err == ""  # no warning of another model
    assert (folder / "report.html").stat().st_size > 10_000


FIRST = """
from torch import nn

class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv1d(2, 3, 2), nn.Linear(3, 2)

    def forward(self, z):
        hidden = self.conv(z).tanh().mean(2)
        return {"hidden": hidden, "logits": self.head(hidden)}
"""


@pytest.mark.usefixtures("folder")
def test_the_order_of_axes_and_the_part_of_the_answer_are_said_once(folder, capsys):
    """The explanation remembers them for the other commands."""
    (folder / "first_net.py").write_text(FIRST)
    torch.manual_seed(0)
    sys.path.insert(0, str(folder))
    net = tg.load_model("first_net:First")
    torch.save(net.state_dict(), folder / "first.pt")
    model = ["--model", "first_net:First", "--weights", "first.pt", "--device", "cpu"]
    said = ["--model-layout", "BDT", "--pick", "logits"]
    assert (
        main(
            [
                "explain",
                "--lengths",
                "padded",
                *model,
                *said,
                *DATA,
                "--out",
                "e.safetensors",
                "--set",
                "n_samples=9",
            ]
        )
        == 0
    )
    own = tg.read_series("ward.csv", id="bed", label="state").padded()
    by_hand = tg.explain(lambda z: net(z.mT.contiguous())["logits"], own, n_samples=9)
    found = tg.Explanation.load("e.safetensors")
    assert torch.equal(found.values, by_hand.values)
    capsys.readouterr()
    assert main(["evaluate", "e.safetensors", *model, "--metrics", "cpd,accuracy", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["explanations"][0]["metrics"]
    expected = tg.evaluate(lambda z: net(z.mT.contiguous())["logits"], by_hand, metrics=["cpd", "accuracy"])
    assert {name: scores[name]["scores"] for name in scores} == {name: s.tolist() for name, s in expected.items()}
    assert main(["report", "e.safetensors", *model]) == 0
    assert main(["explain", "--lengths", "padded", *model, *said[:3], "1.5", *DATA]) == 5
    told = capsys.readouterr().err
    assert all(part in told for part in ("hidden (batch, 3)", "logits (batch, 2)", "'1.5'", "--pick"))
    sys.modules.pop("first_net")


@pytest.mark.usefixtures("net")
def test_the_summary_as_json(net, capsys):
    argv = [
        "explain",
        "--lengths",
        "padded",
        "--model",
        "ward_net:Net",
        "--weights",
        "w.pt",
        *DATA,
        "--device",
        "cpu",
        "--json",
    ]
    assert main([*argv, "--target", "1", "--set", "n_samples=20"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["series"] == 3
    assert found["what"] == "“well”, as a probability, by softmax over 2 outputs"


def test_the_only_output_is_a_class_as_a_probability_and_none_as_it_is(folder, capsys):
    model = tg.models.build("gru", 2, 1, hidden=3)
    tg.save_model(model, folder / "m.safetensors")
    argv = [
        "explain",
        "--lengths",
        "padded",
        "--model",
        "m.safetensors",
        *DATA,
        "--device",
        "cpu",
        "--method",
        "random",
    ]
    assert main(argv) == 0
    assert tg.Explanation.load("explanation.safetensors").output == "probability"
    assert main([*argv, "--output", "raw"]) == 0
    assert tg.Explanation.load("explanation.safetensors").output == "raw"


def test_exported_programs_in_every_command(folder, net, capsys):
    program = torch.export.export(
        nn.Sequential(nn.Flatten(), nn.Linear(10, 2)).eval(),
        (torch.zeros(4, 5, 2),),
        dynamic_shapes=({0: torch.export.Dim.AUTO},),
    )
    torch.export.save(program, folder / "m.pt2")
    model = ["--model", "m.pt2", "--trust", "--device", "cpu"]
    assert main(["explain", "--lengths", "padded", *model, *DATA, "--out", "e.safetensors"]) == 0
    own = tg.read_series("ward.csv", id="bed", label="state").padded()
    expected = tg.explain(program.module(), own)
    assert torch.equal(tg.Explanation.load("e.safetensors").values, expected.values)
    assert "Next: tempograd report e.safetensors --model m.pt2 --trust\n" in capsys.readouterr().out
    assert main(["evaluate", "e.safetensors", *model, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["explanations"][0]["metrics"]["cpd"]["scores"]
    assert scores == tg.evaluate(program.module(), expected)["cpd"].tolist()
    assert main(["report", "e.safetensors", *model, "--out", "r.html"]) == 0
    assert (folder / "r.html").stat().st_size > 10_000


def test_report_shows_the_users_own_units(folder, monkeypatch):
    tg.save_model(tg.models.build("gru", 2, 2, hidden=3), folder / "m.safetensors")
    x = series(3, 5, 2)
    np.savez("scaled.npz", x=x.numpy(), raw=100 * x.numpy(), ids=[7, 9, 8], y=np.array(["b", "a", "b"]))
    argv = [
        "explain",
        "--lengths",
        "padded",
        "--model",
        "m.safetensors",
        "--data",
        "scaled.npz",
        "--method",
        "random",
        "--device",
        "cpu",
    ]
    assert main([*argv, "--limit", "2"]) == 0
    shown = {}
    monkeypatch.setattr("tempograd.cli.commands.report", lambda out, model, named, *_, **__: shown.update(named))
    argv = ["report", "explanation.safetensors"]
    assert main([*argv, "--units", "mmol/L,bpm"]) == 0
    found = shown["random"]
    assert torch.equal(found.series.raw, 100 * x[:2])
    assert (list(found.units), found.classes) == (["mmol/L", "bpm"], ("a", "b"))


def test_own_training_series_and_settings_in_plain_words(folder, net):
    argv = [
        "explain",
        "--lengths",
        "padded",
        "--model",
        "ward_net:Net",
        "--weights",
        "w.pt",
        *DATA,
        "--background",
        "ward.csv",
        "--device",
        "cpu",
    ]
    argv += [
        "--method",
        "gradient_shap",
        "--set",
        "n_samples=3",
        "--set",
        "noise=0.5",
        "--out",
        "e.safetensors",
    ]
    assert main(argv) == 0
    own = tg.read_series("ward.csv", id="bed", label="state").padded()
    expected = tg.explain(
        net,
        tg.Series(own.x, mask=own.mask, ids=own.ids),
        "gradient_shap",
        background=own.x,
        n_samples=3,
        noise=0.5,
    )
    assert torch.equal(tg.Explanation.load("e.safetensors").values, expected.values)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--data", "ward.csv"], "pass --id bed --label state"),
        (["--data", "ward.csv", "--id", "bett"], "No column of ward.csv is called 'bett'"),
        ([*DATA, "--channels", "pulse,sodum"], "No column of ward.csv is called 'sodum'"),
        ([*DATA, "--weights", "gone.pt"], "gone.pt does not exist"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_mistakes_are_one_line(extra, message, capsys):
    assert main(["explain", "--lengths", "padded", "--model", "ward_net:Net", "--device", "cpu", *extra]) in {
        2,
        3,
        5,
    }
    captured = capsys.readouterr()
    assert message in captured.err
    assert (captured.out, captured.err.count("\n")) == ("", 1)
