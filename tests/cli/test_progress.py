"""Long commands show their progress and the time left on a terminal, and nothing anywhere else."""

import os
import pty
import re
import threading
from contextlib import contextmanager, redirect_stderr

import pytest

import tempograd as tg
from tempograd.cli import main
from tempograd.core import progress
from tempograd.models import build

LINE = re.compile(r"\r(\w[\w .]*) \[[#.]{24}\] +\d+ %  \d+:\d\d elapsed, \S+ left")
PLAN = """
title = "The least that is a plan"
protocol = "fair"
datasets = ["switch_feature"]
models = ["cnn"]
folds = [0]
series = 1
explainers = ["random"]
metrics = [{ metric = "cpd", k = 0.1, baseline = "zero" }]

[training]
epochs = 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("bars")
    tg.save_model(build("gru", 3, 2, per_step=True, hidden=4), path / "m.safetensors")
    x = tg.load_dataset("switch_feature").test.x[:4]
    tg.explain(tg.load_model(path / "m.safetensors"), x, n_samples=8).save(path / "e.safetensors")
    rows = [f"{i},{t},{i + t}" for i in range(3) for t in range(4)]
    (path / "s.csv").write_text("\n".join(["id,time,a", *rows]))
    (path / "plan.toml").write_text(PLAN)
    return path


def commands(folder, out):
    cpu, e = ["--device", "cpu"], str(folder / "e.safetensors")
    model = ["--model", str(folder / "m.safetensors"), *cpu]
    return {
        "train": ["train", "switch_feature", "--epochs", "1", "--model", "cnn", "--out", str(out / "m"), *cpu],
        "explain": ["explain", *model, "--data", "switch_feature", "--limit", "2", "--out", str(out / "e")],
        "evaluate": ["evaluate", e, *model],
        "report": ["report", e, *model, "--out", str(out / "r.html")],
        "bench": ["bench", str(folder / "plan.toml"), "--out", str(out / "runs"), *cpu],
    }


@contextmanager
def terminal():
    """Put a real pseudo-terminal in place of standard error; yield a list that ends up with what it showed."""
    master, slave = pty.openpty()
    parts, shown = [], []

    def drain():
        try:
            while part := os.read(master, 4096):
                parts.append(part)
        except OSError:  # the other end was closed
            pass

    reader = threading.Thread(target=drain)
    reader.start()
    with os.fdopen(slave, "w", encoding="utf-8") as stream, redirect_stderr(stream):
        yield shown
    reader.join()
    os.close(master)
    shown += LINE.findall(b"".join(parts).decode())


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Draw every bar, however short the work."""
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "PERIOD", 0.0)


SHOWN = {
    "train": ["train cnn on switch_feature"],
    "explain": ["explain with timing"],
    "evaluate": ["evaluate"],
    "report": ["evaluate"],
    "bench": ["read the data", "bench"],
}


@pytest.mark.parametrize(
    "command", ["train", "explain", "evaluate", "report", pytest.param("bench", marks=pytest.mark.slow)]
)
def test_bars_on_a_terminal(command, folder, tmp_path):
    """Those of the demo are looked at where it is interrupted."""
    with terminal() as shown:
        assert main(commands(folder, tmp_path)[command]) == 0
    assert [label for label in SHOWN[command] if label not in shown] == []


@pytest.mark.parametrize("command", ["explain", "evaluate", "report"])
def test_no_bars_in_a_file(command, folder, tmp_path, capsys):
    """The tests of the other commands look at standard error themselves."""
    assert main(commands(folder, tmp_path)[command]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "\r" not in captured.out
