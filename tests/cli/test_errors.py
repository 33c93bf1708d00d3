"""What goes wrong is said in one line, with the right exit code."""

import re
import subprocess
import sys

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.cli import main
from tempograd.errors import short_path
from tempograd.models import build, save_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_model(build("gru", 3, 2, hidden=4), tmp_path_factory.mktemp("m") / "model.safetensors"))


def fails(capsys, *argv):
    """Run a command that must fail; return the one line it prints."""
    assert main([str(part) for part in argv]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tempograd: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_unknown_dataset(capsys, tmp_path):
    line = fails(capsys, "train", "stat", "--out", tmp_path / "m.safetensors")
    assert "No dataset is called 'stat'. Did you mean 'state'?" in line


def test_unknown_model_method_and_option(capsys, model, tmp_path):
    assert "No model is called 'grue'" in fails(capsys, "train", "state", "--model", "grue")
    argv = ["explain", "--model", model, "--data", "state", "--out", tmp_path / "e.safetensors"]
    assert "No explainer is called 'timming'" in fails(capsys, *argv, "--method", "timming")
    assert "No option of timing is called 'point'" in fails(capsys, *argv, "--set", "point=3")


@pytest.mark.parametrize("name", ["missing.npz", "missing.npy"])
def test_missing_data_file(capsys, model, tmp_path, name):
    assert "does not exist" in fails(capsys, "explain", "--model", model, "--data", tmp_path / name)


def test_missing_model_and_explanation(capsys, model, tmp_path):
    gone = tmp_path / "gone.safetensors"
    argvs = (
        ["explain", "--model", gone, "--data", "state"],
        ["evaluate", gone, "--model", model],
        ["report", gone, "--model", model],
        ["report", gone, "--model", gone],
    )
    for argv in argvs:
        assert fails(capsys, *argv) in {
            f"tempograd: {short_path(gone, most)} does not exist.\n" for most in (80, 120)
        }


def test_weights_alone_are_no_model(capsys, tmp_path):
    path = tmp_path / "model.pt"
    torch.save(torch.nn.Linear(2, 2).state_dict(), path)
    line = fails(capsys, "explain", "--model", path, "--data", "state")
    assert f"{path} holds no TorchScript module" in line
    assert f"--model module:callable --weights {path}" in line
    pickled = tmp_path / "model.ckpt"
    pickled.write_bytes(path.read_bytes())
    assert f"{pickled} may run code when it is opened" in fails(
        capsys, "explain", "--model", pickled, "--data", "state"
    )
    gone = tmp_path / "gone.pt"
    assert f"{gone} does not exist" in fails(capsys, "explain", "--model", gone, "--data", "state")


def test_damaged_files(capsys, model, tmp_path):
    for name in ("bad.safetensors", "bad.npz", "bad.npy"):
        (tmp_path / name).write_bytes(b"not what it says")
    assert "not a readable safetensors file" in fails(
        capsys, "evaluate", tmp_path / "bad.safetensors", "--model", model
    )
    for name in ("bad.npz", "bad.npy"):
        assert "is damaged" in fails(capsys, "explain", "--model", model, "--data", tmp_path / name)


def test_python_objects_are_never_loaded(capsys, model, tmp_path):
    np.savez(tmp_path / "objects.npz", x=np.array([{"a": 1}], dtype=object))
    line = fails(capsys, "explain", "--model", model, "--data", tmp_path / "objects.npz")
    assert "holds Python objects" in line


def test_other_endings_name_what_is_supported(capsys, model, tmp_path):
    (tmp_path / "series.xlsx").write_bytes(b"")
    line = fails(capsys, "explain", "--model", model, "--data", tmp_path / "series.xlsx")
    assert "files of series end in .npz, .npy, .csv, .tsv, .parquet, .ts, and" in line


def test_a_file_without_series(capsys, model, tmp_path):
    np.savez(tmp_path / "f.npz", values=np.zeros((2, 3, 3)))
    line = fails(capsys, "explain", "--model", model, "--data", tmp_path / "f.npz")
    assert "must hold an array x (series, time, channel); it has values" in line


def test_labels_that_are_no_numbers(capsys, model, tmp_path):
    np.savez(tmp_path / "f.npz", x=np.zeros((2, 3, 3)), y=np.array([1j, 2]))
    tg.explain(lambda x: x[:, 0], np.zeros((2, 3, 3)), "random").save(tmp_path / "e.safetensors")
    argv = ["report", tmp_path / "e.safetensors", "--model", model, "--data", tmp_path / "f.npz"]
    assert "y must hold classes (integers or text) or real values, got complex128" in fails(capsys, *argv)


@pytest.mark.parametrize("command", ["explain", "evaluate", "report"])
def test_help_names_the_arrays_of_a_file(command, capsys):
    """Every key that is read, and no other."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    listed = re.findall(r"^    (\w+) {2,}\w", capsys.readouterr().out.split("Files of series")[1], re.MULTILINE)
    assert listed == ["x", "mask", "y", "truth", "ids", "channels", "times"]


def test_device_that_is_not_there(capsys, model):
    line = fails(capsys, "explain", "--model", model, "--data", "state", "--device", "abacus")
    assert "There is no device 'abacus' here" in line


def test_demo_with_too_many_series(capsys):
    assert "--series must lie between 2 and 200, got 201" in fails(capsys, "demo", "--series", "201")


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


@pytest.mark.parametrize(("word", "meant"), [("explian", "explain"), ("eval", "evaluate"), ("dance", None)])
def test_a_misspelt_command_is_recognised(word, meant, capsys):
    with pytest.raises(SystemExit) as stop:
        main([word])
    assert stop.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"invalid choice: '{word}'" in last
    assert last.endswith(")" if meant is None else f"; did you mean {meant}?")


def test_interrupt(monkeypatch, capsys):
    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("tempograd.data.load_dataset", interrupt)
    assert main(["train", "state"]) == 130
    assert capsys.readouterr().err.startswith("tempograd: interrupted")


def test_other_errors_keep_their_traceback(monkeypatch):
    def fault(*_args, **_options):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("tempograd.data.load_dataset", fault)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        main(["train", "state"])


def test_module_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "tempograd", "list", "models"], capture_output=True, text=True, check=True
    )
    assert "gru  " in done.stdout


def test_a_reader_that_stops_early_is_no_error():
    program = [sys.executable, "-m", "tempograd", "list", "metrics", "--json"]
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
    assert used == [3, 4, 4]  # fewer and back, then only the restoring call
