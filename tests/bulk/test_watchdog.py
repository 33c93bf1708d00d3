"""An engine that hangs is ended with a sentence, and what is done stays; one that is slow is left alone."""

import os
import signal
import sys
import threading
import time
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


class Hangs(Net):
    """Hangs in other processes at series of the second fragment, and hears no signal but the last."""

    def forward(self, x):
        if os.getpid() != int(os.environ["TEMPOGRAD_TEST_DRIVER"]) and bool((x[:, 0, 0] > 50).any()):
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            time.sleep(LONG)
        return super().forward(x)


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
    explain(tmp_path, fragment=60, batch=10)
    assert len(seen) == 6
    assert seen[5] > seen[3] > seen[1]  # writing is one batch behind


def test_errors_of_an_engine_are_the_runs(x, tmp_path):
    write(tmp_path / "in", x)
    with pytest.raises(tg.TempogradError, match=r"An engine must yield what Worker\.run returned, got 5"):
        explain(tmp_path, engine=lambda folder, fragments: [5])
    with pytest.raises(ZeroDivisionError):
        explain(tmp_path, engine=lambda folder, fragments: iter([1 / 0]))


def hang_after_the_first(monkeypatch, kind):
    """Lose patience as soon as there is one result: before, workers may take long to start."""
    real = kind.wait

    def wait(self, waiting, seconds):
        found = real(self, waiting, seconds)
        if found:
            monkeypatch.setattr(engines, "PATIENCE", 1.0)
        return found

    monkeypatch.setattr(kind, "wait", wait)
    monkeypatch.setenv("TEMPOGRAD_TEST_DRIVER", str(os.getpid()))


def assert_ended(folder, x, **options):
    x[20:40, 0, 0] = 60.0
    write(folder / "in", x)
    start = time.monotonic()
    with pytest.raises(tg.TempogradError, match=DEAD):
        explain(folder, Hangs(), **options)
    assert time.monotonic() - start < LONG  # it was not the sleep that ended
    assert len(tg.open_run(folder / "out")) in {20, 40}  # the second worker may have done the third fragment


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # all of Ray itself
def test_a_ray_task_that_hangs_is_ended(x, tmp_path, monkeypatch):
    pytest.importorskip("ray")
    from tempograd.bulk.on_ray import RayActors

    hang_after_the_first(monkeypatch, RayActors)
    assert_ended(tmp_path, x, engine="ray", workers=1)


@pytest.mark.slow  # processes load torch
@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_a_process_that_hangs_is_ended(x, tmp_path, monkeypatch):
    hang_after_the_first(monkeypatch, engines.Processes)
    assert_ended(tmp_path, x, workers=2)
