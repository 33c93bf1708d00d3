"""One series in the terminal: ``top`` and ``plot``, and the sentence that ``explain`` prints."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.cli import main
from tempograd.views.drivers import most_telling
from tests.helpers.report_page import Page

CODE = """
from torch import nn

class Alarm(nn.Module):
    "One logit: pulse at hours 2 and 3 pushes up, sodium at hour 5 pushes down."
    tempograd_task = "binary"

    def forward(self, x):
        return 2 * x[:, 2, 0] + x[:, 3, 0] - 3 * x[:, 5, 1]
"""
NAMES = ("Ada", "Ben", "Cy")
HOURS = tuple(f"{hour} h" for hour in range(8))


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("alarm_net.py").write_text(CODE)
    x = np.zeros((3, 8, 2), np.float32)
    x[:, 2, 0], x[:, 3, 0], x[:, 5, 1] = [0.1, 1.0, 0.2], [0.1, 0.5, 0.2], [0.05, 0.25, 0.2]
    mask = np.ones_like(x)
    mask[:, 7] = 0
    np.savez(
        "ward.npz",
        x=x,
        mask=mask,
        raw=x * 10 + 80,
        y=np.array(["alive", "died", "alive"]),
        ids=np.array(NAMES),
        times=np.array(HOURS),
        channels=np.array(["pulse", "sodium"]),
        units=np.array(["bpm", "mmol/L"]),
    )
    yield tmp_path
    sys.modules.pop("alarm_net", None)


MODEL = ("--model", "alarm_net:Alarm", "--data", "ward.npz", "--classes", "alive,died")


def run(capsys, *argv):
    assert main([str(word) for word in argv]) == 0
    return capsys.readouterr().out


@pytest.fixture
def explained(place, capsys):
    """Integrated gradients of the raw output, which are weights times values."""
    options = ("--method", "integrated_gradients", "--output", "raw", "--out", "E.safetensors", "--device", "cpu")
    return run(capsys, "explain", *MODEL[:4], *options)


def test_explain_prints_the_sentence_of_the_most_telling_series(explained):
    found = tg.Explanation.load("E.safetensors")
    assert most_telling(found) == int(found.values.abs().sum((1, 2)).argmax()) == 1
    (line,) = re.findall(r"^  most telling, series Ben: (.*)$", explained, re.MULTILINE)
    assert found.describe(1).startswith(f"{line}; assumed: ")
    assert "pulse 85–90 bpm at 2–3 h" in line


def test_the_most_telling_series_has_certain_scores():
    found = tg.explain(lambda x: (x**2).sum((1, 2)), torch.ones(3, 4, 1), n_samples=4, output="raw")
    values = torch.tensor([1.0, 3.0, 2.0])[:, None, None].expand(3, 4, 1)
    error = torch.tensor([0.0, 9.0, 0.0])[:, None, None].expand(3, 4, 1)
    noisy = tg.Explanation(**{**vars(found), "values": values, "standard_error": error})
    assert most_telling(noisy) == 2


@pytest.mark.usefixtures("explained")
def test_top_lists_the_strongest_values(capsys):
    shown = run(capsys, "top", "E.safetensors", "--series", "Ada", "--k", "2")
    assert len([line for line in shown.splitlines() if line.startswith("| ")]) == 4  # with head and rule
    facts = json.loads(run(capsys, "top", "E.safetensors", "--json"))
    assert facts["series"] == "Ben"
    rows = [(row["time"], row["channel"], row["value"], row["unit"]) for row in facts["strongest"][:3]]
    assert rows == [
        ("2 h", "pulse", 90.0, "bpm"),
        ("5 h", "sodium", 82.5, "mmol/L"),
        ("3 h", "pulse", 85.0, "bpm"),
    ]
    found = tg.Explanation.load("E.safetensors").top(10)
    assert [row["attribution"] for row in facts["strongest"]] == found.values[1, :3].tolist()
    assert [row["attribution"] for row in facts["strongest"][:3]] == pytest.approx([2.0, -0.75, 0.5])


DETACHED = """

class Detached(Alarm):
    "Its gradient knows nothing of the pulse."
    def forward(self, x):
        return super().forward(x * torch.tensor([0.0, 1.0]) + x.detach() * torch.tensor([1.0, 0.0]))
"""


@pytest.mark.usefixtures("place")
def test_every_command_says_first_that_scores_are_not_reliable(capsys):
    Path("alarm_net.py").write_text(f"import torch\n{CODE}{DETACHED}")
    doubt = "The gradient is not that of the prediction"
    options = ("--method", "integrated_gradients", "--output", "raw", "--out", "E.safetensors", "--device", "cpu")
    assert main(["explain", "--model", "alarm_net:Detached", "--data", "ward.npz", *options]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("tempograd: warning: The gradient is not that of the prediction") == 1
    (line,) = re.findall(r"^  most telling, series \w+: (.*)$", captured.out, re.MULTILINE)
    assert line.startswith(doubt)
    for command in ("top", "plot"):
        assert run(capsys, command, "E.safetensors").startswith(f"Series Ben: {doubt}")
    run(capsys, "report", "E.safetensors", "--out", "r.html")
    sentences = Page(Path("r.html")).content["maps"][0]["sentences"]
    assert [sentence.startswith(doubt) for sentence in sentences] == [True] * 3


@pytest.mark.usefixtures("explained")
def test_a_name_of_two_series_chooses_neither(capsys, said):
    """Ids are distinct, but a file may hold anything."""
    found = replace(tg.Explanation.load("E.safetensors"), ids=torch.arange(3), names=("Ada", "Ben", "Ben"))
    found.save("E.safetensors", force=True)
    assert main(["top", "E.safetensors", "--series", "Ben"]) == 2
    said(capsys.readouterr().err)
    for call in (found.describe, found.plot):
        with pytest.raises(tg.TempogradError, match=r"^No single series is called 'Ben'"):
            call("Ben")
    assert found.describe("Ada") == found.describe(0)
    assert tg.concat([found[:1], found[1:]]).names == ("Ada", "Ben", "Ben")


def test_top_knows_prediction_and_label(place, capsys):
    run(capsys, "explain", *MODEL, "--out", "P.safetensors", "--device", "cpu", "--n-samples", "40")
    out = run(capsys, "top", "P.safetensors", "--series", "Ben")
    risk = 1 / (1 + np.exp(-(2 * 1.0 + 0.5 - 3 * 0.25)))
    assert out.startswith(f"Series Ben: {100 * risk:.0f} % probability of “died” (true: “died”), raised")
    rows = json.loads(run(capsys, "top", "P.safetensors", "--series", "Ben", "--json"))["strongest"]
    stored = tg.Explanation.load("P.safetensors")
    low, high = (side[1, 2, 0].item() for side in stored.interval(0.95))
    assert (rows[0]["low"], rows[0]["high"]) == (low, high)


def test_labels_go_by_the_names_of_the_classes_that_were_explained(place, capsys):
    """A file numbers its labels in the order of the alphabet, the model its classes in its own."""
    turned = (*MODEL[:4], "--classes", "died,alive")
    run(capsys, "explain", *turned, "--out", "P.safetensors", "--device", "cpu", "--n-samples", "40")
    for command in ("top", "plot"):
        out = run(capsys, command, "P.safetensors", "--series", "Ben")
        assert "(true: “died”)" in out


@pytest.mark.usefixtures("explained")
@pytest.mark.parametrize(("ending", "start"), [("svg", b"<?xml"), ("PNG", b"\x89PNG")])
def test_a_picture_in_a_file_replaces_its_own_kind_only(ending, start, capsys):
    argv = ["plot", "E.safetensors", "--out", f"p.{ending}", "--series", "Ada"]
    for _ in range(2):
        assert f"Wrote p.{ending}." in run(capsys, *argv)
        assert Path(f"p.{ending}").read_bytes().startswith(start)
    Path(f"p.{ending}").write_text("Dear Ada")
    assert main(argv) == 5
    assert f"p.{ending} exists and is no picture that tempograd wrote" in capsys.readouterr().err
    assert Path(f"p.{ending}").read_text() == "Dear Ada"
    run(capsys, *argv, "--force")
    assert Path(f"p.{ending}").read_bytes().startswith(start)


@pytest.mark.usefixtures("explained")
def test_what_goes_wrong(capsys, said):
    tg.Explanation.load("E.safetensors").save("bare.safetensors", series=False)
    for argv in (
        ["top", "E.safetensors", "--series", "Bne"],
        ["top", "E.safetensors", "--k", "0"],
        ["plot", "E.safetensors", "--out", "p.txt"],
        ["plot", "E.safetensors", "--out", "nowhere/p.png"],
        ["plot", "E.safetensors", "--shown", "pluse"],
        ["plot", "bare.safetensors"],
    ):
        assert main(argv) in {2, 5}
        said(capsys.readouterr().err)
    assert "attribution" in run(capsys, "top", "bare.safetensors")
