"""Several targets on the command line: explained in one call, and one of them evaluated and shown."""

import json
import shlex
import sys

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.cli import main
from tempograd.cli.arguments import target, targets
from tests.helpers.models import series

CODE = """
import torch
from torch import nn

class Ahead(nn.Module):
    "Four steps ahead."
    def forward(self, x):
        return torch.stack([x[:, -1 - step].sum(1) * (1 + step) for step in range(4)], 1)

class Grid(Ahead):
    "The same of two variables."
    tempograd_task = "forecast"

    def forward(self, x):
        ahead = super().forward(x)
        return torch.stack([ahead, -ahead], 2)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "ahead_net.py").write_text(CODE)
    np.savez("series.npz", x=series(6, 5, 2).numpy())
    yield tmp_path
    sys.modules.pop("ahead_net", None)


def run(capsys, *argv):
    code = main([*argv, "--device", "cpu"])
    return code, capsys.readouterr()


def explain(capsys, model, *extra):
    argv = ["explain", "--model", f"ahead_net:{model}", "--data", "series.npz", "--method", "integrated_gradients"]
    code, told = run(capsys, *argv, "--output", "raw", "--out", "E.safetensors", *extra)
    assert code == 0, told.err
    return told.out


@pytest.mark.usefixtures("folder")
def test_targets_are_saved_and_one_is_evaluated(capsys):
    out = explain(capsys, "Ahead", "--targets", "0,3")
    assert "targets: 0, 3; below, the first of them" in out
    found = tg.Explanations.load("E.safetensors")
    assert list(found) == [0, 3]
    x = series(6, 5, 2)
    expected = torch.zeros_like(x)
    expected[:, 1] = 4 * x[:, 1]  # three steps before the last, four times
    torch.testing.assert_close(found[3].values, expected)

    code, told = run(capsys, "evaluate", "E.safetensors", "--model", "ahead_net:Ahead", "--json")
    assert code != 0
    assert "E.safetensors has several targets, 0, 3: pass one as --target." in told.err
    code, told = run(capsys, "evaluate", "E.safetensors", "--model", "ahead_net:Ahead", "--target", "3", "--json")
    assert code == 0, told.err
    code, told = run(capsys, "evaluate", "E.safetensors", "--model", "ahead_net:Ahead", "--target", "7")
    assert code != 0
    assert "No target is called 7. Known names: 0, 3." in told.err


@pytest.mark.usefixtures("folder")
def test_what_comes_next_can_be_typed(capsys):
    following = json.loads(explain(capsys, "Grid", "--targets", "all", "--json"))["next"]
    assert following.endswith(" --target 0,0")
    code, told = run(capsys, *shlex.split(following)[1:])
    assert code == 0, told.err


@pytest.mark.usefixtures("folder")
def test_addresses(capsys):
    facts = json.loads(explain(capsys, "Grid", "--targets", "3,1;0,0", "--json"))
    assert facts["targets"] == [[3, 1], [0, 0]]
    found = tg.Explanations.load("E.safetensors")
    torch.testing.assert_close(found[(3, 1)].values[:, 1], -4 * series(6, 5, 2)[:, 1])


@pytest.mark.usefixtures("folder")
def test_the_mean_and_names_among_several(capsys):
    argv = ["explain", "--model", "ahead_net:Ahead", "--data", "series.npz", "--method", "integrated_gradients"]
    classes = "--classes=one,two,three,four"
    code, told = run(
        capsys, *argv, classes, "--task", "forecast", "--targets", "mean,three", "--out", "M.safetensors"
    )
    assert code == 0, told.err
    assert "targets: target 0 (the mean over all outputs), three; below" in told.out
    assert list(tg.Explanations.load("M.safetensors")) == ["target 0", "three"]
    scores = ("evaluate", "M.safetensors", "--model", "ahead_net:Ahead", "--json", "--target")
    for name in ("target 0", "three"):
        code, told = run(capsys, *scores, name)
        assert code == 0, told.err
    code, told = run(capsys, *scores, "two")
    assert "No target is called 'two'." in told.err


@pytest.mark.parametrize("text", ["", ";", "3,x;4,1"])
@pytest.mark.usefixtures("folder")
def test_targets_that_nobody_can_read(text, capsys):
    argv = ["explain", "--model", "ahead_net:Grid", "--data", "series.npz"]
    code, shown = run(capsys, *argv, f"--targets={text}")
    assert code in {2, 5}
    assert "target" in shown.err


def test_names_and_numbers():
    assert targets("survived, died") == ["survived", "died"]
    assert targets("1,died") == [1, "died"]
    assert target("left, right") == "left, right"
