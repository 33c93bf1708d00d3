"""Who runs the cells: their order, how many at once, how progress is told, and workers that die."""

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

import pytest
import torch

from reproduction.tests.helpers.plans import plan
from tempograd.core import progress
from tempograd.core.errors import TempogradError
from tempograd.core.progress import Terminated
from tempograd_paper.runner import run_cells, running
from tempograd_paper.runner.store import Store


@pytest.fixture
def jobs(monkeypatch):
    """Replace training and running by a list of what was asked for."""
    seen = []
    monkeypatch.setattr(running, "train_cell", lambda cell, *_: seen.append(("train", cell)))
    monkeypatch.setattr(running, "run_cell", lambda cell, *_: seen.append(("run", cell)))
    return seen


@pytest.fixture
def lines(monkeypatch):
    """Record every progress line: its label, its total and the amounts it was advanced by."""
    seen = []

    @contextmanager
    def line(total, label):
        amounts = []
        seen.append((label, total, amounts))
        yield lambda amount=1, note="": amounts.append(amount)

    monkeypatch.setattr(running, "progress_bar", line)
    return seen


def interleaved():
    """Cells of two models by turns: the first fold's, the second's, and again."""
    first, second = (plan(methods=("random", "occlusion"), folds=(fold,)).cells() for fold in (0, 1))
    return [first[0], second[0], first[1], second[1]]


@pytest.mark.parametrize("trained", [False, True])
def test_cells_run_in_the_order_of_the_list_and_each_model_is_trained_once(tmp_path, jobs, trained):
    cells = interleaved()
    if trained:
        path = Store(tmp_path).model_path(cells[0])
        path.parent.mkdir()
        path.touch()
    outcome = run_cells(cells, tmp_path, root=None, device="cpu")
    assert [cell for job, cell in jobs if job == "run"] == cells
    assert [cell.fold for job, cell in jobs if job == "train"] == ([1] if trained else [0, 1])
    for cell in cells[1::2]:
        assert jobs.index(("train", cells[1])) < jobs.index(("run", cell))
    assert (outcome.there, outcome.done, outcome.failed) == (0, 4, {})


def test_several_workers_begin_with_what_comes_first_in_the_list(tmp_path, jobs):
    cells, store = interleaved(), Store(tmp_path)
    path = store.model_path(cells[0])
    path.parent.mkdir()
    path.touch()
    with running._hands(1) as hands:
        assert running._work(running._tasks(cells, store), hands, 2, store, "cpu") == {}
    assert jobs == [("run", cells[0]), ("train", cells[1]), *(("run", cell) for cell in cells[1:])]


def test_a_cell_twice_in_the_list_runs_once(tmp_path, jobs):
    cells = interleaved()
    outcome = run_cells(cells * 2, tmp_path / "new" / "folder", root=None, device="cpu")
    assert [job for job, _ in jobs].count("run") == 4
    assert (outcome.there, outcome.done) == (0, 4)


def test_progress_counts_models_and_cells_and_those_that_never_start(tmp_path, jobs, lines, monkeypatch):
    def train(cell, *_):
        if cell.fold == 1:
            raise ZeroDivisionError("made for the test")

    monkeypatch.setattr(running, "train_cell", train)
    outcome = run_cells(interleaved(), tmp_path, root=None, device="cpu")
    (read, work) = lines
    assert (read[0], read[1], sum(read[2])) == ("read the data", 1, 1)  # one file for both folds
    assert (work[0], work[1], sorted(work[2])) == ("bench", 6, [1, 1, 1, 3])
    assert [cell.fold for cell in outcome.failed] == [1, 1]
    assert set(outcome.failed.values()) == {"ZeroDivisionError: made for the test"}


def test_a_job_shows_no_progress_of_its_own(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(running, "train_cell", lambda *_: seen.append(progress._muted.get()))
    monkeypatch.setattr(running, "run_cell", lambda *_: seen.append(progress._muted.get()))
    run_cells(plan(methods=("random",)).cells(), tmp_path, root=None, device="cpu")
    assert seen == [True, True]
    assert not progress._muted.get()


def test_a_run_holds_its_folder_while_it_works(tmp_path, monkeypatch):
    cells = interleaved()

    def again(cell, *_):
        run_cells(cells[:1], tmp_path, root=None, device="cpu")

    monkeypatch.setattr(running, "train_cell", again)
    outcome = run_cells(cells[:1], tmp_path, root=None, device="cpu")
    (reason,) = outcome.failed.values()
    assert reason == (f"DataError: Another run is writing to {tmp_path}: wait for it, or choose another --out.")
    monkeypatch.setattr(running, "train_cell", lambda *_: None)
    monkeypatch.setattr(running, "run_cell", lambda *_: None)
    assert not run_cells(cells[:1], tmp_path, root=None, device="cpu").failed  # and lets go of it


def test_as_many_cells_run_at_once_as_there_are_workers(tmp_path):
    meeting, alone = threading.Barrier(2, timeout=10), threading.Lock()
    cells = interleaved()

    def meet(*_):
        meeting.wait()

    def be_alone(*_):
        if not alone.acquire(blocking=False):
            raise RuntimeError("another one is here")
        threading.Event().wait(0.02)
        alone.release()

    with ThreadPoolExecutor(4) as hands:
        for workers, job in ((2, meet), (1, be_alone)):
            tasks = [running._Task(place, job, cell) for place, cell in enumerate(cells)]
            assert running._work(tasks, hands, workers, Store(tmp_path), "cpu") == {}


def threads_then_zero_division(hands):
    assert hands.submit(torch.get_num_threads).result() == 1
    raise ZeroDivisionError


def test_one_worker_uses_one_core_and_gives_the_others_back():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with pytest.raises(ZeroDivisionError), running._hands(1) as hands:
            threads_then_zero_division(hands)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def lose_a_worker(hands):
    assert hands.submit(torch.get_num_threads).result() == 1
    lost = hands.submit(signal.raise_signal, signal.SIGINT)  # as Ctrl-C reaches every process
    assert isinstance(lost.exception(timeout=60), BrokenProcessPool)
    hands.submit(torch.get_num_threads)


@pytest.mark.usefixtures("interruptible")
def test_workers_use_one_core_and_the_end_of_one_is_told(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # what a worker would use if nobody told it
    sentence = r"^A worker was killed, perhaps .* What was recorded stays: .* again, with fewer --workers\.$"
    with pytest.raises(TempogradError, match=sentence), running._hands(2) as hands:
        lose_a_worker(hands)


def test_workers_end_when_the_run_is_terminated():
    """Their cells are not waited for: they would be computed for nobody."""
    with pytest.raises(Terminated), running._hands(2) as hands:  # noqa: PT012
        job = hands.submit(time.sleep, 20)
        while not job.running():
            time.sleep(0.01)
        raise Terminated
    assert isinstance(job.exception(), BrokenProcessPool)
