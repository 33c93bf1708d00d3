"""Series of ``--background``: their channels go by name, and what they lack is said."""

import sys

import pytest

from tempograd import Explanation
from tempograd.cli import main

MODEL = """
import torch

class Weighted(torch.nn.Module):
    def forward(self, x):
        return (x * torch.tensor([1.0, 100.0])).sum((1, 2))[:, None]
"""
HEAD = "id,time,a,b"


@pytest.fixture
def explain(tmp_path, monkeypatch):
    """Explain one series of two steps against others; return its scores, by hand (x - others' mean) * weight."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pooled_net", raising=False)  # of another folder
    (tmp_path / "pooled_net.py").write_text(MODEL)
    (tmp_path / "data.csv").write_text(f"{HEAD}\nu,0,1,10\nu,1,2,20\n")

    def run(others):
        (tmp_path / "others.csv").write_text(others)
        call = "explain --model pooled_net:Weighted --task regression --data data.csv --force --out e.safetensors"
        how = "--method integrated_gradients --baseline background --background others.csv"
        done = main(f"{call} {how}".split())
        return None if done else Explanation.load("e.safetensors").values[0].tolist()

    return run


AGAINST = [[(1 - 3) * 1, (10 - 5) * 100], [(2 - 4) * 1, (20 - 6) * 100]]


@pytest.mark.parametrize("others", [f"{HEAD}\nv,0,3,5\nv,1,4,6\n", "id,time,b,a\nv,0,5,3\nv,1,6,4\n"])
def test_channels_go_by_name(others, explain):
    assert explain(others) == [pytest.approx(step) for step in AGAINST]


@pytest.mark.parametrize("names", ["c,d", "a,c"])
def test_other_names_are_refused(names, explain, capsys):
    assert explain(f"id,time,{names}\nv,0,3,5\nv,1,4,6\n") is None
    assert "No column of others.csv is called" in capsys.readouterr().err
