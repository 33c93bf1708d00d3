"""Several threads that feed one model, as on a GPU: the same results, the same failures."""

import os
import time

import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.bulk import driver
from tempograd.bulk.engines import Threads
from tempograd.bulk.worker import Worker
from tempograd.core.errors import DataError, OutputError
from tempograd.models import build
from tests.bulk.conftest import rows_of


@pytest.fixture
def threads(monkeypatch):
    """Run in this process by threads, as on a GPU."""
    monkeypatch.setattr(driver, "Here", Threads)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)


@pytest.fixture
def source(tmp_path):
    x = np.random.RandomState(0).randn(60, 8, 2).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    return tmp_path / "x.npy"


def in_order(run):
    return sorted(rows_of(run), key=lambda row: row["key"])


def test_threads_give_the_rows_of_a_loop(source, tmp_path, monkeypatch, threads):
    torch.manual_seed(0)
    model = build("gru", 2, 2, hidden=4).eval()
    options = {"n_samples": 6, "fragment": 7, "batch_size": 3}
    several = tg.explain_dataset(model, source, tmp_path / "threads", **options)
    monkeypatch.undo()
    one = tg.explain_dataset(model, source, tmp_path / "loop", **options)
    assert repr(in_order(several)) == repr(in_order(one))  # NaN is not equal to itself
    assert several.summary()["faults"] == 0


def test_one_call_of_the_model_at_a_time(source, tmp_path, monkeypatch, threads):
    running, most = [], []
    real = Worker._call

    def call(worker, *args):
        running.append(1)
        most.append(len(running))
        time.sleep(0.02)  # in which another thread would come
        found = real(worker, *args)
        running.pop()
        return found

    monkeypatch.setattr(Worker, "_call", call)
    tg.explain_dataset(
        nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), source, tmp_path / "out", n_samples=20, fragment=5
    )
    assert len(most) == 12
    assert max(most) == 1


def test_a_fragment_that_fails_three_times_costs_no_other(source, tmp_path, monkeypatch, threads):
    tried = []
    real = Worker.run

    def run(worker, fragment):
        if fragment.pieces[0].start == 20:
            tried.append(fragment.name)
            raise RuntimeError("a broken disk")
        return real(worker, fragment)

    monkeypatch.setattr(Worker, "run", run)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    with pytest.raises(DataError, match=r"1 file or fragment could not be read or explained.*a broken disk"):
        tg.explain_dataset(model, source, tmp_path / "out", n_samples=20, fragment=10)
    assert len(tried) == 3
    assert len(rows_of(tg.open_run(tmp_path / "out"))) == 50


def test_a_full_disk_stops_the_run(source, tmp_path, monkeypatch, threads):
    def run(worker, fragment):
        raise OutputError("the disk is full")

    monkeypatch.setattr(Worker, "run", run)
    with pytest.raises(OutputError, match="the disk is full"):
        tg.explain_dataset(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), source, tmp_path / "out", n_samples=20)
