"""What a run says when something is wrong: one sentence that tells what to do."""

import socket
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.bulk.worker import Worker
from tests.bulk.conftest import explain_files

SERIES, TIME, CHANNELS = 8, 5, 2


def net(x):
    return x.sum((1, 2), keepdim=True)[:, 0].expand(-1, 2) * torch.tensor([1.0, -1.0])


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Files of all kinds in an empty folder."""
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(SERIES, TIME, CHANNELS)).astype("f4")
    ids = np.arange(SERIES)
    pq.write_table(pa.table({"id": ids, "x": x.tolist(), "day": ids}), "x.parquet")
    pq.write_table(pa.table({"id": ids, "x": x.reshape(SERIES, -1).tolist()}), "flat.parquet")
    pq.write_table(pa.table({"id": [None, *ids[1:].tolist()], "x": x.tolist()}), "holes.parquet")
    long = {"id": np.tile(ids, TIME), "a": x[..., 0].ravel(), "b": x[..., 1].ravel()}
    pq.write_table(pa.table(long), "mixed.parquet")
    np.save("x.npy", x)
    np.save("flat.npy", x[0])
    np.save("few.npy", np.arange(3))
    np.savez("y.npz", y=x)
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("no series")
    return x


class Stuck(nn.Module):
    """A network that holds what no other process can have."""

    def __init__(self):
        super().__init__()
        self.sum = lambda x: x.sum((1, 2))[:, None] * torch.tensor([1.0, -1.0])

    def forward(self, x):
        return self.sum(x)


CASES = {
    "a folder without series": {"source": "empty"},
    "a folder with too long a name": {"out": "o" * 300},
    "a function of one's own for elsewhere": {"source": "x.npy", "workers": 2},
    "a method of nobody's": {"method": "magic"},
    "a module that cannot be sent": {"source": "x.npy", "workers": 2, "model": Stuck()},
    "a number for a source": {"source": 5},
    "a pattern without files": {"source": "*.csv"},
    "a share above 1": {"max_faults": 2},
    "a text to keep": {"keep": "day"},
    "an address of no known kind": {"out": "nothing://lake/out"},
    "an array without an axis": {"source": "flat.npy"},
    "an engine of nobody's": {"engine": "spark"},
    "an id that is empty": {"source": "holes.parquet"},
    "an option of single series": {"target": torch.zeros(SERIES)},
    "another kind of file": {"source": "notes.txt"},
    "baselines of single series": {"baseline": np.zeros((SERIES, TIME, CHANNELS))},
    "columns of arrays": {"source": "x.npy", "keep": ["day"]},
    "devices for functions": {"device": "cpu"},
    "a mask beside arrays": {"source": "x.npy", "mask": "few.npy"},
    "flat lists": {"source": "flat.parquet"},
    "mixed rows": {"source": "mixed.parquet", "channels": ["a", "b"]},
    "no array called x": {"source": "y.npz"},
    "no column": {"x": "y"},
    "no file": {"source": "nowhere.parquet"},
    "nothing to explain": {"source": []},
    "three numbers for a shape": {"shape": (5, 2, 1)},
    "too short a shape": {"shape": (3, 2)},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("place")
def test_a_mistake_is_told_before_anything_starts(case, said, tmp_path):
    options = {"model": net, "source": "x.parquet", "out": "out", "n_samples": 8, **CASES[case]}
    if options.get("method"):
        del options["n_samples"]
    with pytest.raises(tg.TempogradError) as raised:
        explain_files(**options)
    said(str(raised.value), HERE=str(tmp_path))
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("place")
def test_a_mistake_leaves_nothing_behind(tmp_path):
    """Folders that were made for nothing are removed, and no others."""
    for name in ("deep/er/out", "empty"):
        for mistake in ({"x": "y"}, {"workers": 2, "model": Stuck()}):
            options = {"model": net, "source": "x.parquet", "out": name, "n_samples": 8, **mistake}
            with pytest.raises(tg.TempogradError, match=r"is called 'y'|cannot be sent"):
                explain_files(**options)
            assert not (tmp_path / "deep").exists()
            assert list((tmp_path / "empty").iterdir()) == []
    assert len(tg.explain_dataset(net, "x.parquet", "empty", n_samples=8)) == SERIES
    with pytest.raises(tg.TempogradError, match="differs in n_samples"):
        tg.explain_dataset(net, "x.parquet", "empty", n_samples=9)
    assert len(tg.open_run("empty")) == SERIES  # what was there stays


@pytest.mark.usefixtures("place")
def test_what_stops_a_run(said, monkeypatch):
    def failing(*_):
        raise RuntimeError("the cable is loose")

    with monkeypatch.context() as patch:
        patch.setattr(Worker, "explain_each", failing)
        with pytest.raises(tg.TempogradError) as raised:
            tg.explain_dataset(net, "x.npy", "out", n_samples=8)
    said(str(raised.value))


class Plain(nn.Module):
    def forward(self, x):
        return net(x)


@pytest.fixture
def ray(monkeypatch):
    """What stands for Ray, and cannot find a cluster."""

    def init(**_options):
        raise ConnectionError("Failed to connect to Ray cluster")

    jobs = SimpleNamespace(JobConfig=SimpleNamespace)
    monkeypatch.setitem(
        sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=init, job_config=jobs)
    )
    for name in ("RAY_ADDRESS", "RAY_TMPDIR"):
        monkeypatch.setenv(name, "")
    return monkeypatch


@pytest.fixture
def nobody():
    """An address at which nobody listens: its socket is bound, so that nobody else gets it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("where", ["RAY_ADDRESS", "left behind", "ray's client"])
def test_a_cluster_that_does_not_answer(where, ray, nobody, said, tmp_path):
    """Ray itself tries an address for a quarter of an hour."""
    if where == "RAY_ADDRESS":
        ray.setenv("RAY_ADDRESS", nobody)
    elif where == "left behind":
        ray.setenv("RAY_TMPDIR", str(tmp_path))
        (tmp_path / "ray").mkdir()
        (tmp_path / "ray" / "ray_current_cluster").write_text(nobody)
    else:
        ray.setenv("RAY_ADDRESS", f"ray://{nobody}")
    if where != "ray's client":  # which finds out by itself
        ray.setattr(sys.modules["ray"], "init", lambda **_: pytest.fail("Ray was asked"))
    with pytest.raises(tg.TempogradError) as raised:
        tg.explain_dataset(Plain(), "x.npy", "out", n_samples=8, engine="ray")
    said(str(raised.value), ADDRESS=nobody)


def test_what_a_run_refuses(place, said, tmp_path):
    run = tg.explain_dataset(net, "x.parquet", "out", n_samples=8)
    for call in (
        lambda: run.take([]),
        lambda: run.take([1, 1]),
        lambda: run.take([99]),
        lambda: run.sample(0),
        lambda: tg.explain_dataset(net, "x.parquet", "out", n_samples=9),
        lambda: tg.explain_dataset(net, "x.parquet", "notes.txt", n_samples=9),
        lambda: tg.explain_dataset(net, "x.parquet", "empty/..", n_samples=9),
        lambda: tg.open_run("empty"),
    ):
        with pytest.raises(tg.TempogradError) as raised:
            call()
        said(str(raised.value), HERE=str(tmp_path))
    np.save("x.npy", place)
    kept = tg.explain_dataset(net, "x.npy", "top", cells="top", n_samples=8)
    with pytest.raises(tg.TempogradError) as raised:
        kept.take([0])
    said(str(raised.value))


@pytest.mark.usefixtures("place")
def test_series_that_are_gone_are_left_out_with_a_warning(said, tmp_path):
    run = tg.explain_dataset(net, "x.parquet", "out", n_samples=8)
    pq.write_table(pq.read_table("x.parquet").slice(1), "x.parquet")
    with pytest.warns(tg.TempogradWarning) as caught:
        assert run.take([0]).x is None
    said(str(caught[0].message), HERE=str(tmp_path))
    (tmp_path / "x.parquet").unlink()
    with pytest.warns(tg.TempogradWarning) as caught:
        assert run.take([0]).x is None
    said(str(caught[0].message), HERE=str(tmp_path))


class Mixing(nn.Module):
    def forward(self, x):
        return (x - x.mean(0)).sum((1, 2))[:, None]


def test_a_model_that_mixes_the_series_of_a_batch(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(6, 5, 2)).astype(np.float32))
    source, out = tmp_path / "x.npy", tmp_path / "out"
    with pytest.warns(tg.TempogradWarning, match="depends on the other series of its batch"):
        run = tg.explain_dataset(
            tg.Predictor(Mixing(), task="regression"), source, out, method="occlusion", batch_size=4
        )
    mixed = "the model's answer to a series depends on the others in its batch in 6 of 6 series"
    assert run.verdict() == f"not to be relied on: {mixed}"
