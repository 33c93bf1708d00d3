"""``tempograd report`` shows values as people measured them."""

import numpy as np

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
