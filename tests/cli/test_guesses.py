"""What the command line says about the output it explains, in its own words."""

import json

import numpy as np
import pytest

from tempograd.cli import main

NET = """
from torch import nn

class Net(nn.Module):
    def __init__(self, outputs={outputs}):
        super().__init__()
        self.map = nn.Sequential(nn.Flatten(), nn.Linear(6, outputs))

    def forward(self, x):
        y = self.map(x)
        return {answer}
"""


@pytest.fixture
def net(tmp_path, monkeypatch):
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).normal(size=(8, 3, 2)).astype(np.float32))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

    def write(name, outputs, answer="y"):
        (tmp_path / f"{name}.py").write_text(NET.format(outputs=outputs, answer=answer))
        return ["explain", "--model", f"{name}:Net", "--data", "x.npz", "--method", "occlusion"]

    return write


def told(shown):
    """Return the line that says what was explained."""
    (line,) = (line for line in shown.out.splitlines() if "explained: " in line)
    return line


def test_one_number_needs_a_task_in_the_words_of_the_command_line(net, capsys):
    command = net("net_of_a_regression", 1, "150 + y")
    assert main(command) == 5
    line = capsys.readouterr().err.splitlines()[0]
    assert "pass --task binary if it is a logit" in line
    assert "--task regression" in line
    assert main([*command, "--output", "raw"]) == 0
    shown = capsys.readouterr()
    assert "sigmoid" not in shown.out + shown.err
    assert main([*command, "--output", "probability"]) == 0
    assert "flat" not in capsys.readouterr().err


def test_a_classifier_is_told_plainly(net, capsys):
    command = net("net_of_a_classifier", 3)
    assert main([*command, "--json"]) == 0
    shown = capsys.readouterr()
    assert "softmax over 3 outputs" in json.loads(shown.out)["what"]
    assert "probability" not in shown.err


def test_errors_use_options_too(net, capsys, said):
    assert main(net("net_with_softmax", 3, "y.softmax(-1)")) == 5
    said(capsys.readouterr().err)


def test_a_model_that_draws_is_told_what_to_type(net, capsys):
    command = net("net_that_draws", 3, "y + 0.5 * __import__('torch').randn_like(y)")
    assert main(command) == 0
    shown = capsys.readouterr()
    assert "Pass --draws 32 to average" in shown.err
    assert "on the same series differ; pass --draws 32" in shown.out
    assert main([*command, "--draws", "8"]) == 0
    shown = capsys.readouterr()
    assert "draws" in shown.out
    assert "noise" not in shown.err


def test_a_forecast_has_addresses_and_no_classes(net, capsys, said):
    command = net("net_with_axes", 12, "y.view(-1, 4, 3)")
    assert main([*command, "--task", "forecast", "--target", "3,1"]) == 0
    shown = capsys.readouterr()
    assert "--task" not in shown.err
    assert "class" not in shown.out
    assert main([*command, "--target", "mean"]) == 0
    shown = capsys.readouterr()
    assert "--task" not in shown.err
    assert main(command) == 5
    assert "pass --task forecast" in capsys.readouterr().err
    assert main([*command, "--task", "forecast"]) == 0
    assert "--target" in capsys.readouterr().err
    assert main([*command, "--task", "forecast", "--target", "3,4"]) == 5
    said(capsys.readouterr().err)


def test_a_class_is_called_by_its_name(net, capsys, said):
    command = [*net("net_with_names", 3), "--classes", "stable,worse,died", "--json"]
    assert main([*command, "--target", "died"]) == 0
    assert "“died”" in json.loads(capsys.readouterr().out)["what"]
    assert main([*command, "--target", "dead"]) == 2
    said(capsys.readouterr().err)


def test_labels_are_told_as_labels(net, capsys, said):
    assert main([*net("net_of_labels", 3), "--task", "multilabel"]) == 0
    shown = capsys.readouterr()
    assert "--task" not in shown.err
    assert "class" not in shown.out
