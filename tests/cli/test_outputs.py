"""Commands never destroy what they read or what is not theirs, and know beforehand whether they can write."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.cli import main
from tempograd.cli.demo import claim_folder
from tempograd.core import io
from tempograd.core.errors import OutputError
from tempograd.models import build, load_model

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x.mean(1))
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with everything that commands read, which is the current one."""
    monkeypatch.chdir(tmp_path)
    x = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(0))
    np.savez("d.npz", x=x.numpy())
    Path("mynet.py").write_text(NET)
    tg.save_model(build("gru", 2, 2, hidden=4), "m.safetensors")
    layer = torch.nn.Linear(2, 2)
    torch.save({"layer.weight": layer.weight, "layer.bias": layer.bias}, "w.pt")
    tg.explain(load_model("m.safetensors"), x, "random").save("E.safetensors")
    Path("letter.txt").write_text("Dear Ada")
    trained = build("gru", 3, 2, hidden=4, per_step=True)  # as the data set asks for, but at once
    monkeypatch.setattr("tempograd.cli.commands.train", lambda *_args, **_options: trained)
    return tmp_path


OWN = ["explain", "--model", "mynet:Net", "--weights", "w.pt", "--data", "d.npz", "--method", "random"]
STORED = ["explain", "--model", "m.safetensors", "--data", "d.npz", "--method", "random"]
REPORT = ["report", "E.safetensors", "--model", "m.safetensors"]
TRAIN = ["train", "switch_feature", "--epochs", "1", "--device", "cpu"]
WORK = {"explain": STORED, "report": REPORT, "train": TRAIN}


def contents():
    """Return everything below the current folder, byte by byte."""
    found = (path for path in Path().rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path: path.read_bytes() for path in found}


def fails(capsys, *argv):
    """Run a command that must fail; return the one line it prints."""
    capsys.readouterr()
    assert main([str(word) for word in argv]) == 5
    captured = capsys.readouterr()
    assert captured.err.startswith("tempograd: ")
    assert captured.err.count("\n") == 1
    assert len(captured.err) <= 320
    return captured.err


# inputs


@pytest.mark.parametrize(
    ("argv", "out"),
    [
        (OWN, "d.npz"),
        (STORED, "m.safetensors"),
        (OWN, "w.pt"),
        (OWN, "mynet.py"),
        ([*STORED, "--background", "E.safetensors"], "E.safetensors"),
        (REPORT, "E.safetensors"),
        (REPORT, "m.safetensors"),
    ],
)
@pytest.mark.parametrize("link", [None, "hard"])
def test_an_input_is_never_overwritten(capsys, argv, out, link):
    if link is not None:
        Path("link").hardlink_to(out)
    path, before = "link" if link else out, contents()
    assert f"{path} is one of the inputs, which are never overwritten" in fails(
        capsys, *argv, "--out", path, "--force"
    )
    assert contents() == before


def test_a_report_from_python_overwrites_no_explanation():
    found, before = tg.Explanation.load("E.safetensors"), contents()
    with pytest.raises(OutputError, match=r"E\.safetensors exists and is no report that tempograd wrote"):
        tg.report("E.safetensors", None, [found])
    with pytest.raises(OutputError, match=r"m\.safetensors exists and is no explanation that tempograd wrote"):
        found.save("m.safetensors")
    with pytest.raises(OutputError, match=r"d\.npz exists and is no model that tempograd wrote"):
        tg.save_model(load_model("m.safetensors"), "d.npz")
    assert contents() == before
    found.save("E.safetensors")  # over its own file
    assert tg.Explanation.load("E.safetensors").values.tolist() == found.values.tolist()
    found.save("letter.txt", force=True)
    assert tg.Explanation.load("letter.txt").values.tolist() == found.values.tolist()


# files of others


@pytest.mark.parametrize("command", WORK)
def test_files_of_others_are_overwritten_only_with_force(capsys, command):
    argv = WORK[command]
    assert main([*argv, "--out", "result"]) == 0
    first = Path("result").read_bytes()
    assert main([*argv, "--out", "result"]) == 0  # over what it wrote itself
    Path("result").unlink()
    others = {"explain": "m.safetensors", "train": "E.safetensors", "report": "d.npz"}
    Path("other").write_bytes(Path(others[command]).read_bytes())  # a result of another kind, or data
    for other in ("letter.txt", "other"):
        kept = Path(other).read_bytes()
        said = fails(capsys, *argv, "--out", other)
        assert f"{other} exists and is no " in said
        assert "or pass --force to overwrite it" in said
        assert Path(other).read_bytes() == kept
        assert main([*argv, "--out", other, "--force"]) == 0
        assert len(Path(other).read_bytes()) > len(first) / 2


def test_kinds_do_not_take_each_other_for_themselves():
    """A trained model is lost as much under an explanation as under anything else."""
    from tempograd.core.io import EXPLANATION, MODEL
    from tempograd.core.io import REPORT as PAGE

    tg.report("R.html", None, [tg.Explanation.load("E.safetensors")])
    right = {"E.safetensors": EXPLANATION, "m.safetensors": MODEL, "R.html": PAGE}
    Path("foreign.html").write_text("<!doctype html><title>tempograd</title>")
    Path("foreign.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    Path("huge.safetensors").write_bytes((2**60).to_bytes(8, "little") + b"{}")
    Path("nested.safetensors").write_bytes((10**5).to_bytes(8, "little") + b"[" * 10**5)
    Path("list.safetensors").write_bytes((2).to_bytes(8, "little") + b"[]")
    for path in [path for path in Path().iterdir() if path.is_file()]:
        assert [kind.name for kind in (EXPLANATION, MODEL, PAGE) if kind.wrote(path)] == [
            kind.name for name, kind in right.items() if name == path.name
        ]


@pytest.mark.parametrize("name", ["model.safetensors", "timing.safetensors", "report.html", "table.md"])
def test_a_demo_leaves_files_of_others_alone(capsys, name, monkeypatch):
    Path("demo").mkdir()
    Path("demo", name).write_text("mine")
    monkeypatch.setattr("tempograd.cli.demo.Demo.run", None)
    assert f"{name} exists and is no " in fails(capsys, "demo")
    assert Path("demo", name).read_text() == "mine"
    claim_folder(Path("demo"), force=True)


# places


@pytest.fixture
def no_work(monkeypatch):
    """Fail if a command computes anything."""

    def work(*_args, **_options):
        raise AssertionError("this was to be found out before the work")

    places = ("explaining.explain", "commands.train", "commands.report", "demo.Demo.run")
    for name in places:
        monkeypatch.setattr(f"tempograd.cli.{name}", work)


@pytest.mark.parametrize("command", WORK)
@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("typo/deep/out", "The folder typo/deep does not exist"),
        (".", "is a folder"),
        ("", "is a folder"),
        ("letter.txt/out", "Not a directory"),
        ("n" * 300, "File name too long"),
        ("pipe", "is a device or a pipe"),
    ],
)
def test_places_that_cannot_be_written_are_found_before_the_work(capsys, no_work, command, out, said):
    os.mkfifo("pipe")
    before = sorted(Path().rglob("*"))
    assert said in fails(capsys, *WORK[command], "--out", out)
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("command", [*WORK, "demo"])
def test_a_disk_that_takes_nothing_is_found_before_the_work(capsys, no_work, monkeypatch, command, number):
    def full(**_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(io.tempfile, "mkdtemp", full)
    said = fails(capsys, *{**WORK, "demo": ["demo"]}[command], "--out", "new")
    assert os.strerror(number) in said
    assert re.search(r"cannot be written:|is no folder that can be written to:", said)
    assert not Path("new").is_file()


def test_a_file_that_appears_during_the_work_is_not_overwritten(capsys, monkeypatch):
    explain = tg.explain

    def slow(*args, **options):
        Path("out").write_text("mine")
        return explain(*args, **options)

    monkeypatch.setattr("tempograd.cli.explaining.explain", slow)
    said = fails(capsys, *STORED, "--out", "out")
    assert "out exists and is no explanation" in said
    assert Path("out").read_text() == "mine"


# what is printed


def tempograd(*argv, **options):
    return subprocess.run(
        [sys.executable, "-m", "tempograd", *argv], stderr=subprocess.PIPE, text=True, check=False, **options
    )


@pytest.mark.slow  # a process of its own
def test_names_that_are_no_text_can_be_written_and_printed():
    name = os.fsdecode(b"caf\xe9.html")
    done = tempograd(*REPORT, "--out", name, stdout=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (0, "")
    assert Path(name).is_file()
