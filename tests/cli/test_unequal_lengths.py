"""Series of unequal length from a file: what the model reads after their end is said, and can be left out."""

import json
import sys
from pathlib import Path

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


def test_padding_is_read_where_one_says_so(capsys):
    found = explain("--lengths", "padded")
    assert found.values[1].eq(0).all()  # the model reads 0 at the end of the short one
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", [("tune", "--out", "s.json", "--budget", "12"), ("rank", "--methods", "lime")])
def test_settings_and_methods_are_tried_on_either(command, capsys):
    for lengths in ((), ("--lengths", "padded")):
        assert main([*command, *MODEL, *DATA, "--metric", "cpd", "--k", "1", *lengths]) == 0
        assert ("different lengths" in capsys.readouterr().err) == (lengths == ())


def test_each_series_at_its_own_length_is_as_if_it_were_alone(capsys):
    found = explain("--baseline", "average")
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


def test_what_comes_after_knows_the_lengths(capsys):
    explain()
    capsys.readouterr()
    assert main(["top", "e.safetensors", "--series", "short", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sentence"].startswith("The model's output is 25")
    removed = ["--metrics", "cpd", "--k", "1", "--json"]
    assert main(["evaluate", "e.safetensors", "--model", "last_net:Last", *removed]) == 0
    found = json.loads(capsys.readouterr().out)["explanations"][0]["metrics"]["cpd"]["scores"]
    assert found == [6, 16]  # 2 a of the last step of each
    assert main(["report", "e.safetensors", "--model", "last_net:Last"]) == 0
    assert capsys.readouterr().err == ""


def test_predictions_at_other_lengths_are_not_compared(capsys):
    explain().save("own.safetensors")
    explain("--lengths", "padded").save("padded.safetensors")
    capsys.readouterr()
    for command in ("evaluate", "report"):
        assert main([command, "own.safetensors", "padded.safetensors", "--model", "last_net:Last"]) == 5
        said = capsys.readouterr().err
        assert "'padded' is of other series or lengths" in said


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


def test_labels_of_steps_suit_a_model_of_steps(capsys):
    write("day,a,b,label", "long,1,1,4,0", "long,2,2,3,1", "long,3,3,5,1")
    argv = ["explain", "--model", "last_net:Steps", "--task", "per_step", "--data", "days.csv", "--time", "day"]
    assert main([*argv, "--method", "occlusion", "--steps", "1,2", "--device", "cpu"]) == 0
    assert "label" not in capsys.readouterr().err
