"""An engine that hangs is ended with a sentence, and what is done stays; one that is slow is left alone."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.bulk import engines
from tempograd.bulk.worker import Worker
from tests.bulk.test_runs import SETTINGS, Net, explain, values, write

LONG = 100  # seconds that something hangs, if nobody ends it
DEAD = "No batch was finished for .* seconds, so the engine was taken for dead. What is done stays"


@pytest.fixture
def x():
    return torch.randn(60, 6, 2, generator=torch.Generator().manual_seed(0))


def test_an_engine_that_never_returns_is_ended(x, tmp_path, monkeypatch):
    write(tmp_path / "in", x)
    end = threading.Event()

    def engine(folder, fragments):
        yield Worker.open(folder).run(fragments[0])
        monkeypatch.setattr(engines, "PATIENCE", 0.2)
        end.wait(LONG)

    with pytest.raises(tg.TempogradError, match=DEAD):
        explain(tmp_path, engine=engine)
    end.set()
    assert len(tg.open_run(tmp_path / "out")) == 20
    np.testing.assert_array_equal(values(explain(tmp_path)), tg.explain(Net(), x, **SETTINGS).values.flatten(1))


def test_an_engine_that_is_slow_is_left_alone(x, tmp_path, monkeypatch):
    """It gives all at the end, but its workers write: every look finds something new."""
    write(tmp_path / "in", x)
    looked, real = threading.Semaphore(0), engines._Watch.check
    monkeypatch.setattr(engines._Watch, "check", lambda self, *args: (real(self, *args), looked.release()))
    monkeypatch.setattr(engines, "PATIENCE", 0.2)
    kept, keep = [], Worker.explain_each

    def one_at_a_look(self, batch, known):
        found = keep(self, batch, known)
        (sign,) = Path(tmp_path / "out" / "data").glob(".tempograd-*")
        (sign / "new").touch()
        assert looked.acquire(timeout=LONG)
        kept.append(1)
        return found

    monkeypatch.setattr(Worker, "explain_each", one_at_a_look)
    run = explain(tmp_path, engine=lambda folder, all_: [Worker.open(folder).run(each) for each in all_])
    assert len(kept) == 3
    np.testing.assert_array_equal(values(run), tg.explain(Net(), x, **SETTINGS).values.flatten(1))


def test_batches_are_signs_of_life(x, tmp_path, monkeypatch):
    write(tmp_path / "in", x)
    seen, keep = [], Worker.explain_each
    monkeypatch.setattr(
        Worker,
        "explain_each",
        lambda self, *args: (seen.append(engines._Watch(str(tmp_path / "out")).written), keep(self, *args))[1],
    )
    explain(tmp_path, fragment=60, batch_size=10)
    assert len(seen) == 6
    assert seen[5] > seen[3] > seen[1]  # writing is one batch behind


@pytest.mark.parametrize("lister", ["listdir", "scandir"])
def test_a_worker_that_ends_during_a_look_is_no_failure(tmp_path, monkeypatch, lister):
    """Its scratch folder is there when the data folder is listed, and gone when it is listed itself."""
    leaving = tmp_path / "data" / ".tempograd-leaving"
    leaving.mkdir(parents=True)
    staying = tmp_path / "data" / ".tempograd-staying" / "new"
    staying.parent.mkdir()
    staying.touch()
    os.utime(staying, (4e9, 4e9))  # the newest of all
    real = getattr(os, lister)

    def listed(path="."):
        if Path(path) == leaving and leaving.exists():
            leaving.rmdir()
        return real(path)

    monkeypatch.setattr(os, lister, listed)
    assert engines._Watch(str(tmp_path)).written == 4 * 10**18


def test_errors_of_an_engine_are_the_runs(x, tmp_path):
    write(tmp_path / "in", x)
    with pytest.raises(tg.TempogradError, match=r"An engine must yield what Worker\.run returned, got 5"):
        explain(tmp_path, engine=lambda folder, fragments: [5])
    with pytest.raises(ZeroDivisionError):
        explain(tmp_path, engine=lambda folder, fragments: iter([1 / 0]))
