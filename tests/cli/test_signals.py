"""Ctrl-C and SIGTERM end a command with one line and the shell's exit code, from the first moment on."""

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from tempograd.bulk import engines
from tempograd.cli import main
from tempograd.core.progress import Terminated, stoppable, uninterrupted
from tempograd_paper.runner import running

pytestmark = pytest.mark.usefixtures("interruptible")
ROOT = Path(__file__).parents[2]
SIGNALS = {signal.SIGINT: (130, "interrupted"), signal.SIGTERM: (143, "terminated")}
NUMBERS = pytest.mark.parametrize("number", SIGNALS, ids=["Ctrl-C", "SIGTERM"])
LOADING = """
import os, time
try:
    os.kill(os.getpid(), {number})
    time.sleep(20)
except BaseException:  # as some libraries do while they are loaded
    raise ImportError("torch is damaged")
"""
NET = """
import os
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        os.kill(os.getpid(), {number})
        return x.sum(1)
"""


def program(folder, *argv, package="tempograd"):
    """Run the program as its script does, in a folder that Python looks for modules in first."""
    start = f"import sys\nfrom {package}.__main__ import run_from_shell\nsys.exit(run_from_shell())"
    return subprocess.run(
        [sys.executable, "-c", start, *argv],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@NUMBERS
def test_a_signal_while_torch_is_loaded_is_one_line(tmp_path, number):
    (tmp_path / "torch.py").write_text(LOADING.format(number=int(number)))
    done = program(tmp_path, "list", "models")
    code, word = SIGNALS[number]
    assert done.stderr == f"tempograd: {word}, nothing half-written was left behind.\n"
    assert (done.returncode, done.stdout) == (code, "")


def test_the_script_is_the_one_that_takes_care_of_it():
    made = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert made == {"tempograd": "tempograd.__main__:run_from_shell"}


def test_help_and_wrong_usage_do_not_load_torch(tmp_path):
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was loaded')")
    for words, code in ((["--help"], 0), (["explain", "--help"], 0), (["bench", "--help"], 0), (["dance"], 2)):
        assert program(tmp_path, *words).returncode == code
    for words, code in ((["--help"], 0), (["run", "--help"], 0), (["table", "--help"], 0), (["dance"], 2)):
        assert program(tmp_path, *words, package="tempograd_paper").returncode == code


@NUMBERS
def test_a_signal_during_the_work_is_one_line_and_leaves_nothing(tmp_path, number, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = f"net{int(number)}"  # modules are imported once
    (tmp_path / f"{name}.py").write_text(NET.format(number=int(number)))
    np.save(tmp_path / "x.npy", np.zeros((2, 3, 2)))
    before = {number: signal.getsignal(number) for number in SIGNALS}
    code, word = SIGNALS[number]
    assert main(["explain", "--model", f"{name}:Net", "--data", "x.npy", "--device", "cpu", "--out", "e"]) == code
    assert capsys.readouterr().err.splitlines()[-1] == f"tempograd: {word}, nothing half-written was left behind."
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {f"{name}.py", "x.npy"}
    assert {number: signal.getsignal(number) for number in SIGNALS} == before


@NUMBERS
def test_a_demo_ends_at_a_signal(tmp_path, number, capsys, monkeypatch):
    monkeypatch.setattr("tempograd.cli.demo.Demo.train", lambda *_: signal.raise_signal(number))
    code, word = SIGNALS[number]
    assert main(["demo", "--out", str(tmp_path)]) == code
    assert f"tempograd: {word}" in capsys.readouterr().err


@NUMBERS
def test_an_ignored_signal_stays_ignored(number):
    """As nohup asks for it, and shells for what runs in the background."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with stoppable(), uninterrupted():
            signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("enter", [lambda: engines._enter(b"", 0), lambda: running._enter_worker(1)])
@pytest.mark.parametrize(("ignored", "code"), [(True, 0), (False, 1)])
def test_workers_leave_an_ignored_signal_ignored_too(enter, ignored, code):
    """Ctrl-C reaches them all: those of a run in the background go on with it."""
    child = os.fork()
    if not child:
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)
            enter()
            signal.raise_signal(signal.SIGINT)
            os._exit(0)
        finally:  # or it would go on with the tests
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code


def test_a_signal_waits_for_files_that_belong_together():
    written = []
    with pytest.raises(Terminated), stoppable():  # noqa: PT012
        with uninterrupted():
            signal.raise_signal(signal.SIGTERM)
            written.append("both")
        written.append("more")
    assert written == ["both"]


def test_a_second_request_does_not_wait():
    """Whoever asks while a command tidies up gets his way, with the same exit code."""
    child = os.fork()
    if not child:
        with stoppable():
            try:
                signal.raise_signal(signal.SIGTERM)
            except Terminated:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                signal.raise_signal(signal.SIGTERM)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 143
