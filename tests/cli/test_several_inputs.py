"""Models of several inputs on the command line: arrays of one file by their names."""

import shlex
import sys

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.cli import main
from tests.helpers.models import series

CODE = """
import torch
from torch import nn

class Ward(nn.Module):
    "Weighs the past up to the length of a stay, and what is known of the patient."
    def forward(self, past, static, length):
        seen = (torch.arange(past.shape[1]) < length[:, None]).to(past)
        risk = (past[..., 0] * seen).sum(1) + 2 * static[:, 0] * static[:, 1]
        return {"logits": torch.stack([-risk, risk], 1), "seen": seen}
"""
LENGTH = np.array([5, 2, 4, 3, 5, 1])
CALL = ("--inputs", "past,static", "--fixed", "length")


@pytest.fixture
def arrays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "stays_net.py").write_text(CODE)
    found = {"past": series(6, 5, 2).numpy(), "static": series(6, 3, 1)[..., 0].numpy(), "length": LENGTH}
    np.savez("stays.npz", y=np.array([0, 1, 0, 1, 1, 0]), **found)
    yield found
    sys.modules.pop("stays_net", None)


def run(capsys, *argv):
    code = main([*argv, "--device", "cpu"])
    return code, capsys.readouterr()


def explain(capsys, *extra):
    argv = ["explain", "--model", "stays_net:Ward", "--data", "stays.npz", "--out", "E.safetensors"]
    return run(capsys, *argv, "--method", "integrated_gradients", "--task", "classification", *extra)


def test_the_file_holds_what_python_explains(arrays, capsys):
    code, told = explain(capsys, *CALL, "--pick", "logits", "--target", "1")
    assert code == 0, told.err
    assert "6 series (2 inputs, past (5 × 2), static (3 static values))" in told.out
    found = tg.Explanation.load("E.safetensors")
    import stays_net  # the module of the fixture

    expected = tg.explain(
        tg.Predictor(stays_net.Ward(), pick="logits", task="classification"),
        tg.Series(
            {name: torch.from_numpy(arrays[name]) for name in ("past", "static")},
            fixed={"length": torch.from_numpy(LENGTH)},
        ),
        "integrated_gradients",
        target=1,
    )
    assert torch.equal(found["static"].values, expected["static"].values)
    assert torch.equal(found["past"].values, expected["past"].values)
    following = shlex.split(told.out.splitlines()[-1].removeprefix("Next: "))
    assert run(capsys, *following[1:])[0] == 0  # the command that it proposes runs
    code, told = run(capsys, "evaluate", "E.safetensors", "--model", "stays_net:Ward", "--metrics", "cpd")
    assert code == 0, told.err


@pytest.mark.parametrize(
    ("case", "extra"),
    {
        "an array that is not there": ("--inputs", "past,age"),
        "no inputs": (),
        "fixed forgotten": ("--inputs", "past,static", "--pick", "logits"),
        "rows that differ": ("--inputs", "past,static", "--fixed", "short"),
        "two possible outputs": CALL,
    }.items(),
)
@pytest.mark.usefixtures("arrays")
def test_one_line_of_what_is_wrong(said, capsys, case, extra):
    with np.load("stays.npz") as stays:
        np.savez("stays.npz", **stays, short=LENGTH[:2])
    code, told = explain(capsys, *extra)
    assert code in {3, 5}
    said(told.err)
