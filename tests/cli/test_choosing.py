"""``tune``, ``rank`` and ``--settings``: what they print and write, and what one command hands to the next."""

import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.cli import main
from tempograd.models import build, save_model
from tests.helpers.models import series

X = series(12, 10, 2)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("choosing")
    torch.manual_seed(0)
    save_model(build("gru", 2, 2, hidden=4), folder / "m.safetensors")
    np.savez(folder / "d.npz", x=X.numpy(), truth=(X > 1).float().numpy())
    return folder


def run(place, name, *more):
    start = [name, "--model", place / "m.safetensors", "--data", place / "d.npz", "--device", "cpu"]
    return main([str(part) for part in (*start, *more)])


TUNE = ("--method", "rand_ig", "--set", "n_samples=8", "--k", "3")


def test_tune_writes_what_explain_reads(place, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(place, "tune", *TUNE, "--seed", "3") == 0
    out = capsys.readouterr().out
    model = tg.load_model(place / "m.safetensors")
    found = tg.tune(model, X, "rand_ig", n_samples=8, k=3, seed=3)
    assert found.verdict() in out
    assert tg.Explainer.load("tuned.safetensors") == found.explainer
    following = shlex.split(out.split("Next: tempograd ")[1])
    assert main([*following, "--device", "cpu", "--out", "e.safetensors"]) == 0
    exp = tg.Explanation.load("e.safetensors")
    assert exp.method == "rand_ig"
    assert exp.parameters == found.explainer.parameters
    assert torch.allclose(exp.values, found.explainer(model, X).values, atol=1e-6)


def test_tune_prints_json(place, capsys, tmp_path):
    out = tmp_path / "s.safetensors"
    assert run(place, "tune", *TUNE, "--json", "--budget", "12", "--out", out) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["passes"] <= 12 * found["unit"]
    assert found["table"][0]["setting"] == {}
    assert found["settings"].items() <= tg.Explainer.load(out).parameters.items()
    assert found["verdict"]


def test_rank_compares_names_and_files_of_settings(place, capsys, tmp_path):
    path = tg.RandIG(n_samples=8, p=0.9).save(tmp_path / "mine.safetensors")
    words = ("--methods", f"occlusion,{path}", "--metric", "cpp", "--k", "3")
    assert run(place, "rank", *words) == 0
    model = tg.load_model(place / "m.safetensors")
    methods = {"occlusion": "occlusion", "mine": tg.RandIG(n_samples=8, p=0.9)}
    found = tg.rank(model, X, methods, metric="cpp", k=3)
    assert capsys.readouterr().out == f"{found}\n"
    assert run(place, "rank", *words, "--json") == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["verdict"] == found.verdict()
    assert [row["method"] for row in plain["table"]] == [row.method for row in found.table]


def test_files_of_one_name_are_both_ranked(place, capsys, tmp_path):
    paths = [tmp_path / name / "settings.safetensors" for name in ("a", "b")]
    for path, share in zip(paths, (0.2, 0.9), strict=True):
        path.parent.mkdir()
        tg.RandIG(n_samples=8, p=share).save(path)
    assert run(place, "rank", "--methods", ",".join(map(str, paths)), "--k", "3", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["method"] for row in found["table"]} == {"settings", str(paths[1]), "random"}


def test_truth_comes_from_the_file(place, capsys):
    assert run(place, "rank", "--methods", "occlusion", "--metric", "auroc") == 0
    assert "AUROC" in capsys.readouterr().out


@pytest.mark.parametrize("words", ["rank --methods occlusion", "tune --method rand_ig"])
def test_where_there_is_no_truth_the_file_is_named_and_not_an_argument(words, place, capsys, tmp_path, said):
    np.savez(tmp_path / "d.npz", x=X.numpy())
    name, *more = words.split()
    model = ["--model", str(place / "m.safetensors"), "--data", str(tmp_path / "d.npz"), "--device", "cpu"]
    assert main([name, *model, *more, "--metric", "auroc"]) == 5
    said(capsys.readouterr().err)


def test_settings_of_another_method_are_refused(place, capsys, tmp_path):
    path = tg.RandIG().save(tmp_path / "s.safetensors")
    out = ("--out", tmp_path / "e.safetensors")
    assert run(place, "explain", "--method", "lime", "--settings", path, *out) == 5
    said = capsys.readouterr().err
    assert "s.safetensors has settings of rand_ig: leave --method out." in said
    assert run(place, "explain", "--method", "rand_ig", "--settings", path, *out, "--set", "n_samples=3") == 0
    assert tg.Explanation.load(tmp_path / "e.safetensors").parameters["n_samples"] == 3


def test_tune_never_overwrites_another_file(place, capsys, tmp_path):
    path = tmp_path / "notes.safetensors"
    path.write_text("[]")
    assert run(place, "tune", *TUNE, "--out", path) == 5
    assert "is no explainer that tempograd wrote" in capsys.readouterr().err
    assert path.read_text() == "[]"


@pytest.mark.parametrize(
    "words",
    [
        "--methods magic",
        "--methods occlusion --metric magic",
        "--methods nowhere.safetensors",
    ],
)
def test_a_mistake_is_one_line(words, place, capsys, said):
    assert run(place, "rank", *words.split()) in {2, 3, 5}
    said(capsys.readouterr().err)


CODE = """
import torch
from torch import nn

class Parts(nn.Module):
    def forward(self, x):
        return {"emb": x, "pred": torch.stack([x[..., 0].sum(1), 2 * x[:, 3].sum(1) ** 2, x[:, 0, 1] ** 3], 1)}

class Pair(Parts):
    def forward(self, x):
        return tuple(super().forward(x).values())

class Turned(nn.Module):
    def forward(self, x):
        assert x.shape[1:] == (2, 10)  # channels before time
        return torch.stack([x[:, 0].cumsum(1), x[:, 1].cumsum(1)], 2)
"""


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("Parts", ("--pick", "pred", "--task", "regression", "--target", "1", "--batch-size", "4")),
        ("Pair", ("--pick", "1", "--target", "bad", "--classes", "good,bad,odd", "--baseline", "average")),
        ("Pair", ("--pick=-1", "--output", "raw", "--target", "2", "--channels", "pulse,sodium")),
        ("Turned", ("--model-layout", "BDT", "--task", "per_step", "--target", "1", "--steps", "3,4")),
        ("Turned", ("--model-layout", "BDT", "--task", "forecast", "--target", "3,1", "--draws", "2")),
    ],
)
def test_what_comes_after_tune_explains_what_was_tuned(model, asked, place, capsys, tmp_path, monkeypatch):
    """As the same options given to ``explain`` by hand do, with all that goes into an explanation."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("parts_net.py").write_text(CODE)
    words = ["--model", f"parts_net:{model}", "--data", str(place / "d.npz"), "--device", "cpu"]
    assert main(["tune", *words, *TUNE, *asked]) == 0
    program, *following = shlex.split(capsys.readouterr().out.split("Next: ")[1])
    assert program == "tempograd"
    assert main([*following, "--out", "next.safetensors"]) == 0
    assert main(["explain", *words, *asked, "--settings", "tuned.safetensors", "--out", "hand.safetensors"]) == 0
    after, by_hand = (tg.Explanation.load(f"{name}.safetensors") for name in ("next", "hand"))
    sys.modules.pop("parts_net", None)
    assert torch.equal(after.values, by_hand.values)
    assert after.values.any()
    for name in ("task", "output", "target_text", "classes", "channels", "baseline_kind", "call", "parameters"):
        assert getattr(after, name) == getattr(by_hand, name)
    assert torch.equal(after.target, by_hand.target)
