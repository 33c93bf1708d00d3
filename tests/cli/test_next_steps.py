"""Every line under "Next:" runs as it was printed, and so does what a warning says to pass."""

import csv
import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.cli import main
from tests.helpers.models import series

PRINTING = {"explaining.py": 3}  # how many lines of each file, run below
CODE = """
import torch
from torch import nn

class Alarm(nn.Module):
    "One logit: class 1 where channel 0 is high at step 2 and channel 1 low at step 4."
    def forward(self, x):
        return 3 * x[:, 2, 0] - 2 * x[:, 4, 1]

class Three(nn.Module):
    def forward(self, x):
        total = x.sum((1, 2))
        return torch.stack([-total, 0 * total, total], -1)

class Steps(nn.Module):
    "One logit per step."
    def forward(self, x):
        return x.cumsum(1)[..., :1]

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(2, 1)

    def forward(self, x):
        return self.last(x[:, -1])
"""
COUNT, TIME = 12, 6


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "next_net.py").write_text(CODE)
    torch.save({"last.weight": torch.tensor([[1.0, -1.0]]), "last.bias": torch.zeros(1)}, "the weights.pt")
    x = series(COUNT, TIME, 2)
    high = (3 * x[:, 2, 0] - 2 * x[:, 4, 1] > 0).numpy()
    steps = (x.cumsum(1)[..., 0] > 0).numpy().astype(int)
    np.savez("wards.npz", x=x.numpy(), y=np.where(high, "died", "alive"))
    np.savez("numbers.npz", x=x.numpy(), y=high.astype(int))
    np.savez("signs.npz", x=x.numpy(), y=np.where(high, "1", "-1"))
    np.savez("steps.npz", x=x.numpy(), y=steps)
    np.savez("values.npz", x=x.numpy(), y=x.sum((1, 2)).numpy())
    np.savez("faulty.npz", x=x.numpy(), y=np.arange(COUNT) * 1j)
    np.save("-bare.npy", x.numpy())
    with Path("ward.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["bed", "hour", "pulse", "sodium", "state"])
        rows.writerows(
            [f"bed {i}", t, *map(float, x[i, t]), "died" if high[i] else "alive"]
            for i in range(COUNT)
            for t in range(TIME)
        )
    yield tmp_path
    sys.modules.pop("next_net", None)


MODEL = ("--model", "next_net:Alarm")
ALARM = (*MODEL, "--task", "binary")
NET = ("--model", "next_net:Net", "--task", "binary")
STEPS = ("--model", "next_net:Steps", "--task", "per_step", "--data", "steps.npz")
TABLE = ("--data", "ward.csv", "--id", "bed", "--time", "hour", "--label", "state")
FORMS = {
    "one logit": (*ALARM, "--data", "wards.npz"),
    "one logit, labels that are numbers": (*ALARM, "--data", "numbers.npz"),
    "class 0 of one logit": (*ALARM, "--data", "wards.npz", "--target", "0"),
    "class 1 of one logit": (*ALARM, "--data", "wards.npz", "--target", "1"),
    "some series": (*ALARM, "--data", "wards.npz", "--limit", "5"),
    "a table": (*ALARM, *TABLE),
    "a table with classes": (*ALARM, *TABLE, "--classes", "alive,died"),
    "a table with its channels": (*ALARM, *TABLE, "--channels", "pulse,sodium"),
    "names that look like options": (*ALARM, "--data", "signs.npz", "--classes=-1,1"),
    "the logit itself": (*ALARM, *TABLE, "--output", "raw"),
    "regression": (*MODEL, "--data", "values.npz", "--output", "raw"),
    "labels of another number of classes": ("--model", "next_net:Three", *TABLE),
    "faulty labels": (*ALARM, "--data", "faulty.npz", "--no-labels"),
    "no labels, odd names": (*ALARM, "--data=-bare.npy", "--out=-e.safetensors"),
    "weights": (*NET, "--weights", "the weights.pt", "--data", "wards.npz"),
    "one logit per step": STEPS,
    "own steps": (*STEPS, "--steps", "own", "--target", "0"),
    "some steps": (*STEPS, "--steps", "3,4"),
    "raw steps": (*STEPS, "--output", "raw"),
    "training series of a data set": (
        "--model",
        "gru.safetensors",
        "--data",
        "switch_feature",
        "--split",
        "train",
    ),
}


def following(printed):
    """Run the line under "Next:" and return its words."""
    (line,) = re.findall(r"^Next: (.*)$", printed, re.MULTILINE)
    program, *words = shlex.split(line)
    assert program == "tempograd"
    assert main(words) == 0
    return words


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.usefixtures("folder")
def test_the_report_that_explain_proposes(form, capsys):
    if "gru.safetensors" in form:
        tg.save_model(tg.models.build("gru", 3, 2, hidden=4, per_step=True), "gru.safetensors")
        form = (*form, "--limit", "4")
    assert main(["explain", *form, "--method", "random", "--device", "cpu"]) == 0
    words = following(capsys.readouterr().out)
    assert words[0] == "report"
    assert "Wrote report.html" in capsys.readouterr().out
    assert main(["explain", *form, "--method", "random", "--device", "cpu", "--json"]) == 0
    assert shlex.split(json.loads(capsys.readouterr().out)["next"])[1:] == words


@pytest.mark.usefixtures("folder")
def test_from_a_folder_of_files_to_a_report(capsys):
    Path("in").mkdir()
    for part, x in enumerate(series(COUNT, TIME, 2).split(5)):
        np.save(f"in/{part}.npy", x.numpy())
    model = (*NET, "--weights", "the weights.pt", "--device", "cpu")
    argv = ["explain", *model, "--data", "in", "--out", "the run/", "--method", "random"]
    assert main(argv) == 0
    assert following(capsys.readouterr().out)[:2] == ["report", "the run/"]
    assert "Wrote report.html" in capsys.readouterr().out


@pytest.mark.usefixtures("folder")
def test_from_a_data_set_to_a_report(folder, capsys, monkeypatch):
    """Where the data set lies is not forgotten: the training data of the first command are those of the second."""
    seen = []
    load = tg.load_dataset

    def noted(name, *, root=None, variant=None, fold=None):
        seen.append((name, root, variant))
        return load(name, fold=fold)

    for door in ("commands", "inputs"):
        monkeypatch.setattr(f"tempograd.cli.{door}.load_dataset", noted)
    place = ["--root", str(folder / "the data"), "--variant", "raw"]
    assert (
        main(
            [
                "train",
                "switch_feature",
                "--out",
                "my model.safetensors",
                "--epochs",
                "1",
                "--device",
                "cpu",
                *place,
            ]
        )
        == 0
    )
    capsys.readouterr()
    words = ["explain", "--model", "my model.safetensors", "--data", "switch_feature", *place]
    assert main([*words, "--limit", "2", "--method", "random"]) == 0
    following(capsys.readouterr().out)
    assert seen == [("switch_feature", folder / "the data", "raw")] * 2
    assert Path("report.html").exists()


@pytest.mark.parametrize(
    ("more", "outputs", "names"),
    [(("--classes", "alive,died,lost"), 2, 3), (("--output", "raw", "--classes", "alive,died"), 1, 2)],
)
@pytest.mark.usefixtures("folder")
def test_names_of_classes_that_do_not_fit_are_refused(more, outputs, names, capsys):
    words = (*ALARM, "--data", "wards.npz", *more, "--method", "random", "--device", "cpu")
    assert main(["explain", *words]) == 5
    said = f"tempograd: classes must hold one name per output of the model, {outputs}, got {names}.\n"
    assert capsys.readouterr().err == said


@pytest.mark.usefixtures("folder")
def test_names_of_labels_that_do_not_fit_are_left_out_in_words_too(capsys):
    model = ("--model", "next_net:Three", "--device", "cpu")
    assert main(["explain", *model, *TABLE, "--method", "random"]) == 0
    found = capsys.readouterr()
    assert "The labels name 2 classes, but the model has 3 outputs: names and labels are left out" in found.err
    assert "right on" not in found.out  # nobody knows which class a label is
    assert "alive" not in found.out.split("Next:")[0]


@pytest.mark.usefixtures("folder")
def test_what_warnings_say_to_pass(capsys):
    far = torch.rand(4, TIME, 2) + 50
    np.savez("far.npz", x=far.numpy())
    argv = ["explain", *ALARM, "--data", "far.npz", "--device", "cpu", "--output", "probability"]
    assert main([*argv, "--method", "occlusion"]) == 0
    (advice,) = re.findall(r"pass (--baseline [a-z]+) for a model of natural units", capsys.readouterr().err)
    assert main([*argv, "--method", "occlusion", *shlex.split(advice)]) == 0
    assert capsys.readouterr().err == ""
    assert main(["evaluate", "explanation.safetensors", *MODEL, "--device", "cpu"]) == 0
    assert capsys.readouterr().err == ""
    assert main([*argv, "--method", "random", "--out", "other.safetensors"]) == 0
    both = ["evaluate", "explanation.safetensors", "other.safetensors", *MODEL, "--device", "cpu"]
    assert main(both) == 0
    advice = re.findall(r"(--baseline [a-z]+)", capsys.readouterr().err)
    assert len(advice) == 2
    for each in advice:
        assert main([*both, *shlex.split(each)]) == 0
        assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("folder")
def test_what_the_verdict_says_to_pass(capsys):
    argv = ["explain", *ALARM, "--data", "wards.npz", "--device", "cpu", "--method", "rand_ig"]
    assert main([*argv, "--n-samples", "4"]) == 0
    found = capsys.readouterr().out
    (advice,) = re.findall(r"(--n-samples \d+)", found)
    assert "not converged" in found
    assert main([*argv, *shlex.split(advice)]) == 0
    assert advice not in capsys.readouterr().out


def test_every_place_that_prints_a_next_line_is_known():
    """A new one gets a test that runs it, then its file a place in the list."""
    sources = Path(tg.__file__).parent.rglob("*.py")
    found = {path.name: len(re.findall(r"[\"n]Next:", path.read_text(encoding="utf-8"))) for path in sources}
    assert {name: count for name, count in found.items() if count} == PRINTING
