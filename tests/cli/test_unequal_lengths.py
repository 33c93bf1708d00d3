"""Series of unequal length from a file: what the model reads after their end is said, and can be left out."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.cli import main
from tempograd.core.errors import TempogradWarning

CODE = """
from torch import nn

class Last(nn.Module):
    "The last step, of each channel: 2 a + b."
    def forward(self, x):
        return 2 * x[:, -1, :1] + x[:, -1, 1:]

class Steps(nn.Module):
    "A logit for every step."
    def forward(self, x):
        return x.cumsum(1)[..., :1]
"""
LONG = torch.tensor([[1.0, 4.0], [2.0, 0.0], [3.0, 5.0]])  # the second b is missing
SHORT = torch.tensor([[7.0, 6.0], [8.0, 9.0]])
NOTE = "1 of 2 series has fewer than 3 steps: shorter series end in 0, which the model reads and which is masked. "
ADVICE = (
    "Pass --lengths own to call it with each length by itself, or --lengths padded if it was trained on padded"
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("last_net.py").write_text(CODE)
    write("day,a,b", "long,1,1,4", "long,2,2,", "long,3,3,5", "short,5,7,6", "short,9,8,9")
    yield tmp_path
    sys.modules.pop("last_net", None)


def write(head, *rows):
    Path("days.csv").write_text("\n".join([f"id,{head}", *rows]))


MODEL = ("--model", "last_net:Last", "--task", "regression", "--device", "cpu")
DATA = ("--data", "days.csv", "--time", "day", "--align", "order")


def explain(*more):
    assert main(["explain", *MODEL, *DATA, "--method", "occlusion", "--out", "e.safetensors", *more]) == 0
    return tg.Explanation.load("e.safetensors")


def test_that_the_model_reads_the_padding_is_said(capsys):
    found = explain()
    assert found.values[1].eq(0).all()  # it reads 0 at the end of the short one
    told = capsys.readouterr()
    assert f"warning: {NOTE}{ADVICE} series.\n" in told.err
    assert "(3 steps × 2 channels, 25 % missing, which the model reads as 0)" in told.out
    assert torch.equal(explain("--lengths", "padded").values, found.values)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", [("tune", "--out", "s.json", "--budget", "12"), ("rank", "--methods", "lime")])
def test_that_it_reads_the_padding_where_settings_and_methods_are_chosen(command, capsys):
    assert main([*command, *MODEL, *DATA, "--metric", "cpd", "--k", "1"]) == 0
    assert f"{NOTE}Pass series of one length if it was not trained on padded ones.\n" in capsys.readouterr().err


def test_each_series_at_its_own_length_is_as_if_it_were_alone(capsys):
    found = explain("--lengths", "own", "--baseline", "average")
    for place, (series, mask) in enumerate([(LONG, LONG != 0), (SHORT, SHORT != 0)]):
        steps = len(series)
        model = tg.Predictor(lambda x: 2 * x[:, -1, :1] + x[:, -1, 1:], task="regression")
        alone = tg.explain(model, tg.Series(series[None], mask=mask[None]), "occlusion", baseline="average")
        assert torch.equal(found.values[place, :steps], alone.values[0])
        assert found.values[place, steps:].eq(0).all()
    assert found.values[1].abs().sum() > 0
    assert found.times == (("1", "2", "3"), ("5", "9", ""))
    told = capsys.readouterr()
    assert "called with each length by itself" in told.err
    assert "If it was trained on padded series, pass --lengths padded.\n" in told.err
    assert "(3 steps × 2 channels, each at its own length, 10 % missing, which the model reads as 0)" in told.out


def test_what_comes_after_knows_the_lengths(capsys):
    explain("--lengths", "own")
    capsys.readouterr()
    assert main(["top", "e.safetensors", "--series", "short", *DATA, "--model", "last_net:Last", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sentence"].startswith("The model's output is 25")
    removed = ["--metrics", "cpd", "--k", "1", "--json"]
    assert main(["evaluate", "e.safetensors", *DATA, "--model", "last_net:Last", *removed]) == 0
    found = json.loads(capsys.readouterr().out)["explanations"][0]["metrics"]["cpd"]["scores"]
    assert found == [6, 16]  # 2 a of the last step of each
    assert main(["report", "e.safetensors", *DATA, "--model", "last_net:Last"]) == 0
    assert capsys.readouterr().err == ""


def test_predictions_at_other_lengths_are_not_compared(capsys):
    for lengths in ("own", "padded"):
        explain("--lengths", lengths).save(f"{lengths}.safetensors")
    capsys.readouterr()
    for command in ("evaluate", "report"):
        assert main([command, "own.safetensors", "padded.safetensors", "--model", "last_net:Last"]) == 1
        said = capsys.readouterr().err
        assert "other lengths of the series for 'padded' than for 'own', so they explain different predict" in said


def test_own_lengths_of_arrays_are_those_of_their_mask(capsys):
    x = torch.stack([LONG, torch.cat([SHORT, torch.full((1, 2), 77.0)])])
    mask = torch.ones_like(x)
    mask[1, 2] = 0
    raw = 10 * x
    np.savez("days.npz", x=x.numpy(), mask=mask.numpy(), times=["Mon", "Tue", "Wed"])
    np.savez("raw.npz", x=raw.numpy())
    found = explain("--lengths", "own", "--data", "days.npz", "--raw", "raw.npz", "--units", "m,s")
    assert found.values[1, 1].tolist() == [16, 9]
    assert found.raw[1, :2].equal(raw[1, :2])
    assert (found.times, found.units) == (("Mon", "Tue", "Wed"), ("m", "s"))
    explain("--data", "days.npz")  # of arrays people know what they hold
    told = capsys.readouterr()
    assert "fewer than" not in told.err
    assert "(3 steps × 2 channels, 17 % missing) with" in told.out  # and what the model reads, which is not 0


def test_series_that_leave_steps_to_others_only_are_refused(capsys):
    write("day,a,b", "short,5,7,6", "short,9,8,9", "long,1,1,4", "long,2,2,", "long,3,3,5")
    argv = ["explain", *MODEL, *DATA, "--lengths", "own", "--limit", "1"]
    assert main(argv) == 1
    assert "end after 2 of 3 steps, and none has all of --data: pass a larger --limit" in capsys.readouterr().err
    assert main(["explain", *MODEL, *DATA, "--lengths", "own", "--method", "dynamask"]) == 1
    assert "dynamask explains series of one length: use one of" in (said := capsys.readouterr().err)
    assert ", or pass --lengths padded.\n" in said
    assert main(["explain", *MODEL, "--data", "days.csv", "--out", "run/", "--lengths", "own"]) == 1
    assert "--lengths is not for results in a folder: shorter series are padded there" in capsys.readouterr().err


def test_series_of_a_file_in_python():
    read, last = tg.read_series("days.csv", time="day", align="order"), lambda x: x[:, -1]
    model = tg.Predictor(last, task="regression")
    with pytest.warns(TempogradWarning, match="each length by itself"):
        found = tg.explain(model, read, "occlusion", target=0)
    assert found.values[..., 0].tolist() == [[0, 0, 3], [0, 8, 0]]
    assert (found.names, found.times) == (("long", "short"), (("1", "2", "3"), ("5", "9", "")))
    padded = tg.explain(model, read.padded(), "occlusion", target=0)
    assert padded.values[..., 0].tolist() == [[0, 0, 3], [0, 0, 0]]
    alone = tg.explain(model, read.take([1]), "occlusion", target=0)  # as long as the longest of these
    assert (alone.values[..., 0].tolist(), alone.times) == ([[0, 8]], (("5", "9"),))


def test_a_series_without_any_value_keeps_a_step():
    write("day,a,b,label", "long,1,1,4,0", "long,2,2,3,1", "none,1,,,1")
    read = tg.read_series("days.csv", time="day", label="label")
    assert [len(one) for one in read.x] == [2, 1]
    assert [seen.all().item() for seen in read.mask] == [True, False]
    alone = read.take([1])
    assert (alone.x.tolist(), alone.times, alone.y.tolist()) == ([[[0, 0]]], ("1",), [[1]])


# Labels that change within a series.


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ("gggbg", "short, at 2"),
        ("gbgbg", "long, at 2 and within 1 more series"),
        ("gbggg", "long, at 2"),
        ("ggggg", None),
    ],
)
def test_labels_that_change_within_a_series_are_left_out_with_a_warning(labels, place, capsys):
    rows = ("long,1,1,4", "long,2,2,3", "long,3,3,5", "short,1,7,6", "short,2,8,9")
    named = (f"{row},{'good' if each == 'g' else 'bad'}" for row, each in zip(rows, labels, strict=True))
    write("day,a,b,label", *named)
    argv = ["explain", *MODEL, "--data", "days.csv", "--label", "label", "--time", "day", "--method", "occlusion"]
    assert main([*argv, "--lengths", "padded"]) == 0
    said = capsys.readouterr().err
    if place is None:
        assert "label" not in said
    else:
        assert (
            f"The label changes within series {place}: labels are left out, as the model gives one answer" in said
        )


def test_labels_of_steps_suit_a_model_of_steps(capsys):
    write("day,a,b,label", "long,1,1,4,0", "long,2,2,3,1", "long,3,3,5,1")
    argv = ["explain", "--model", "last_net:Steps", "--task", "per_step", "--data", "days.csv", "--time", "day"]
    assert main([*argv, "--method", "occlusion", "--steps", "1,2", "--device", "cpu"]) == 0
    assert "label" not in capsys.readouterr().err
