"""What goes wrong is said in one line, with the right exit code."""

import re
import subprocess
import sys

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.cli import main
from tempograd.models import build, save_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of which each has something wrong, and a sound model."""
    path = tmp_path_factory.mktemp("errors")
    save_model(build("gru", 3, 2, hidden=4), path / "model.safetensors")
    torch.save(torch.nn.Linear(2, 2).state_dict(), path / "weights.pt")
    (path / "weights.ckpt").write_bytes((path / "weights.pt").read_bytes())
    for name in ("bad.safetensors", "bad.npz", "bad.npy", "series.xlsx"):
        (path / name).write_bytes(b"not what it says")
    np.savez(path / "objects.npz", x=np.array([{"a": 1}], dtype=object))
    np.savez(path / "values.npz", values=np.zeros((2, 3, 3)))
    np.savez(path / "complex.npz", x=np.zeros((2, 3, 3)), y=np.array([1j, 2]))
    tg.explain(lambda x: x[:, 0], np.zeros((2, 3, 3)), "random").save(path / "e.safetensors")
    return path


def fails(capsys, *argv):
    """Run a command that must fail; return the one line it prints."""
    assert main([str(part) for part in argv]) in {2, 3, 5}
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tempograd: ")
    assert captured.err.count("\n") == 1
    return captured.err


EXPLAIN = "explain --model model.safetensors --data"
FAULTS = [
    "train stat --out m.safetensors",
    "train state --model grue",
    f"{EXPLAIN} state --method timming",
    f"{EXPLAIN} state --set n_sample=3",
    f"{EXPLAIN} missing.npz",
    f"{EXPLAIN} missing.npy",
    f"{EXPLAIN} objects.npz",
    f"{EXPLAIN} values.npz",
    "explain --model gone.safetensors --data state",
    "explain --model gone.pt --data state",
    "explain --model weights.pt --data state",
    "explain --model weights.ckpt --data state",
    "evaluate gone.safetensors --model model.safetensors",
    "report gone.safetensors --model model.safetensors",
    "report gone.safetensors --model gone.safetensors",
    "demo --series 201",
]


@pytest.mark.parametrize("command", FAULTS)
def test_a_fault_is_told_in_one_line(command, folder, monkeypatch, capsys, said):
    monkeypatch.chdir(folder)
    said(fails(capsys, *command.split()))


def test_damaged_files(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder)
    found = fails(capsys, "evaluate", "bad.safetensors", "--model", "model.safetensors")
    assert "not a readable safetensors file" in found
    for name in ("bad.npz", "bad.npy"):
        assert "is damaged" in fails(capsys, *EXPLAIN.split(), name)


def test_other_endings_name_what_is_supported(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder)
    line = fails(capsys, *EXPLAIN.split(), "series.xlsx")
    assert ".parquet" in line


def test_device_that_is_not_there(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder)
    line = fails(capsys, *EXPLAIN.split(), "state", "--device", "abacus")
    assert "There is no device 'abacus' here" in line


@pytest.mark.parametrize("command", ["explain"])
def test_help_names_the_arrays_of_a_file(command, capsys):
    """Every key that is read, and no other."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    (line,) = re.findall(r"arrays by name: (.*)", capsys.readouterr().out)
    assert re.findall(r"\b(?!and|any|of)\w+", line) == [
        "x",
        "mask",
        "y",
        "truth",
        "ids",
        "channels",
        "times",
        "units",
        "raw",
    ]


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["dance"],
        ["list", "colours"],
        ["train"],
        ["explain", "--model", "m", "--data", "state", "--set", "n_samples"],
        ["explain", "--model", "m", "--data", "state", "--steps", "first"],
        ["evaluate", "e", "--model", "m", "--k", "many"],
    ],
)
def test_wrong_usage_is_exit_code_two(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    assert "usage: tempograd" in capsys.readouterr().err


def test_interrupt(monkeypatch, capsys):
    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("tempograd.cli.commands.load_dataset", interrupt)
    assert main(["train", "state"]) == 130
    assert capsys.readouterr().err.startswith("tempograd: interrupted")


def test_other_errors_keep_their_traceback(monkeypatch):
    def fault(*_args, **_options):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("tempograd.cli.commands.load_dataset", fault)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        main(["train", "state"])


def test_a_reader_that_stops_early_is_no_error():
    program = [sys.executable, "-m", "tempograd", "--help"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_one_core_is_left_to_other_programs(monkeypatch):
    used = []
    monkeypatch.setattr("tempograd.cli.os.cpu_count", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("torch.get_num_threads", lambda: 4)
    monkeypatch.setattr("torch.set_num_threads", used.append)
    main(["list", "models"])
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    main(["list", "models"])
    assert used == [3]
