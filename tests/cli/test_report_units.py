"""``tempograd report`` shows values as people measured them."""

import numpy as np
import torch

import tempograd as tg
from tempograd.cli import main
from tempograd.data import load_dataset
from tempograd.models import build
from tests.helpers.report_page import Page


def test_values_of_a_data_set_are_those_of_its_source(data_root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = load_dataset("wafer", root=data_root)
    part = data.test.take(slice(2))
    tg.save_model(build("gru", 1, 2, hidden=4).eval(), "m.safetensors")
    argv = ["explain", "--model", "m.safetensors", "--data", "wafer", "--root", str(data_root), "--limit", "2"]
    assert main([*argv, "--method", "random", "--out", "e.safetensors"]) == 0
    assert main(["report", "e.safetensors", "--out", "r.html"]) == 0
    content = Page(tmp_path / "r.html").content
    np.testing.assert_array_equal(content["values"], data.raw(part).float().numpy().ravel())
    assert content["ids"] == part.ids.tolist()
    assert content["label"] == part.y.tolist()


def test_names_that_do_not_fit_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tg.explain(build("gru", 2, 2, hidden=4).eval(), torch.zeros(2, 3, 2), "random").save("e.safetensors")
    for name, message in (("classes", "one name per output of the model, 2, got 3"), ("units", "units must have")):
        assert main(["report", "e.safetensors", "--out", "r.html", f"--{name}", "a,b,c"]) != 0
        assert message in capsys.readouterr().err
