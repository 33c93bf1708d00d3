"""``tempograd report`` shows values as people measured them."""

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.cli import main
from tempograd.data import load_dataset
from tempograd.explainers import explain
from tempograd.models import build
from tests.helpers.models import Flat, random_series
from tests.helpers.report_page import Page


def test_values_of_a_data_set_are_those_of_its_source(data_root, tmp_path):
    data = load_dataset("wafer", root=data_root)
    part = data.test.take([7, 2])
    model = build("gru", 1, 2, hidden=4).eval()
    explain(model, tg.Series(part.x, ids=part.ids), "random").save(tmp_path / "e.safetensors")
    argv = ["report", str(tmp_path / "e.safetensors"), "--data", "wafer", "--root", str(data_root)]
    assert main([*argv, "--out", str(tmp_path / "r.html")]) == 0
    content = Page(tmp_path / "r.html").content
    np.testing.assert_array_equal(content["values"], data.raw(part).float().numpy().ravel())
    assert content["ids"] == part.ids.tolist()
    assert content["label"] == part.y.tolist()


def test_values_of_a_file_are_found_by_their_ids(tmp_path):
    x = random_series(3)
    explain(Flat().eval(), tg.Series(x, ids=torch.tensor([5, 9, 2])), "random").save(tmp_path / "e.safetensors")
    measured = x.numpy() * 100
    np.savez(tmp_path / "raw.npz", x=measured[[2, 0, 1]], ids=np.array([2, 5, 9]))
    argv = ["report", str(tmp_path / "e.safetensors"), "--raw", str(tmp_path / "raw.npz")]
    assert main([*argv, "--units", "mmol/L,bpm,kg", "--out", str(tmp_path / "r.html")]) == 0
    content = Page(tmp_path / "r.html").content
    np.testing.assert_array_equal(content["values"], measured.ravel())
    assert content["units"] == ["mmol/L", "bpm", "kg"]


@pytest.mark.parametrize("ids", [[2, 5], [2, 5, 8]])
def test_a_file_that_lacks_a_series_is_refused(tmp_path, capsys, ids):
    x = random_series(3)
    explain(Flat().eval(), tg.Series(x, ids=torch.tensor([5, 9, 2])), "random").save(tmp_path / "e.safetensors")
    np.savez(tmp_path / "raw.npz", x=x.numpy()[: len(ids)], ids=np.array(ids))
    argv = ["report", str(tmp_path / "e.safetensors"), "--raw", str(tmp_path / "raw.npz")]
    assert main([*argv, "--out", str(tmp_path / "r.html")]) == 5
    assert "raw.npz lacks the series 9 of the explanation" in capsys.readouterr().err
