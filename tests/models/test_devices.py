"""Devices that are not there, and models named in code that is none: one sentence each."""

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.cli import main
from tests.helpers.models import series

HERE = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
GONE = ["cuda:99", "xla", "abacus", "", "cpu:-1", "x" * 999, -1, "meta", torch.device("meta")]


@pytest.fixture
def saved(tmp_path):
    return tg.save_model(tg.models.build("gru", 3, 2, hidden=2), tmp_path / "m.safetensors")


def refused(call, part=""):
    with pytest.raises(tg.TempogradError) as error:
        call()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) <= 300
    assert part in str(error.value)


def everywhere(saved, device):
    split = tg.Series(series(8, 4, 3), torch.arange(8) % 2)
    data = tg.Dataset("toy", split, None, split, classes=2, channels=("a", "b", "c"))
    return (
        lambda: tg.load_model(saved, device),
        lambda: tg.load_model("torch.nn:Flatten", device),
        lambda: tg.train("gru", data, device=device, epochs=1, options={"hidden": 2}),
    )


@pytest.mark.parametrize("device", GONE)
def test_a_device_that_is_not_there(device, saved):
    for call in everywhere(saved, device):
        refused(call, "cpu")


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("CUDA error: out of memory\nSee below.")]
)
def test_a_device_whose_memory_is_full(error, saved, monkeypatch):
    def full(*_, **__):
        raise error

    monkeypatch.setattr(torch, "ones", full)
    refused(lambda: tg.load_model(saved, "cuda"), "memory")


@pytest.mark.parametrize("device", [2.5, True, ["cpu"]])
def test_what_is_no_device(device, saved):
    for call in everywhere(saved, device):
        refused(call, "There is no device")


@pytest.mark.parametrize("device", HERE)
def test_a_device_that_is_there(device, saved):
    assert next(tg.load_model(saved, device).parameters()).device.type == device


def test_the_command_line_says_the_same(saved, capsys, tmp_path):
    for argv in (
        ["explain", "--model", str(saved), "--data", "state"],
        ["train", "state", "--out", str(tmp_path / "new.safetensors"), "--epochs", "1"],
        ["demo", "--out", str(tmp_path / "demo")],
        ["bench", "smoke", "--out", str(tmp_path / "bench")],
    ):
        assert main([*argv, "--device", "abacus"]) == 5
        assert "abacus" in capsys.readouterr().err.splitlines()[-1]


SOURCES = [
    *(
        ":Net",
        "os:",
        "a\0b:c",
        "\ud800:x",
        "C:/models/m.pkl",
        "x" * 5000 + ":y",
        "sys:exit",
        "scripts_that_end:Net",
    ),
    *("builtins:dict", "math:pi", "", None, nn.Flatten()),
]


@pytest.mark.parametrize("source", SOURCES, ids=lambda value: str(value)[:12])
def test_sources_that_are_none(source, tmp_path, monkeypatch):
    (tmp_path / "scripts_that_end.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(str(tmp_path))
    refused(lambda: tg.load_model(source))


def test_trust_is_said_with_yes_or_no(saved):
    for trust in ("no", 1, None):
        refused(lambda: tg.load_model(saved, trust=trust), "trust")  # noqa: B023
