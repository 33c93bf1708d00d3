"""Running many cells, so that the run can be stopped at any moment and goes on where it was."""

import multiprocessing
import os
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor
from concurrent.futures import wait as futures_wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tempograd.core.errors import DataError, OutputError, TempogradError, short_path, warn
from tempograd.core.io import made
from tempograd.core.progress import leave_quietly, muted, progress_bar
from tempograd_paper.cell import Cell
from tempograd_paper.runner.execute import run_cell, train_cell
from tempograd_paper.runner.store import Store

Job = Callable[[Cell, Store, str], None]


@dataclass(frozen=True)
class Outcome:
    """What a run did: cells recorded before it, cells recorded by it, and why the others failed."""

    there: int
    done: int
    failed: dict[Cell, str]


def run_cells(cells: Sequence[Cell], folder: Path, *, root: Path | None, device: str, workers: int = 1) -> Outcome:
    """Run the cells that have no record yet.

    Parameters
    ----------
    cells : sequence of Cell
    folder : path
        Where data, models, explanations and records are kept.
    root : path, optional
        The data root, needed for data that is not prepared yet.
    device : str
        Where every cell computes. On a CPU a cell uses one core, so that the number of workers changes no result.
    workers : int
        Cells that run at the same time, each in a process of its own.
    """
    store = Store(made(folder))
    with _alone(folder):
        store.sweep()
        waiting = [cell for cell in dict.fromkeys(cells) if not store.has_record(cell)]
        _tell_damaged([path for path in map(store.record_path, waiting) if path.exists()])
        prepare(waiting, folder, root)
        with _hands(workers) as hands:
            failed = _work(_tasks(waiting, store), hands, workers, store, device)
    return Outcome(len(set(cells)) - len(waiting), len(waiting) - len(failed), failed)


def _tell_damaged(records: Sequence[Path]) -> None:
    if records:
        more = f" and {len(records) - 1} more are no records" if len(records) > 1 else " is no record"
        cells = "its cell runs" if len(records) == 1 else "their cells run"
        warn(f"{short_path(records[0])}{more} that can be read: {cells} again.")


def prepare(cells: Sequence[Cell], folder: Path, root: Path | None) -> None:
    """Read the data of cells that have no record yet, so that missing data is found before anything runs."""
    store = Store(made(folder))
    waiting = [cell for cell in cells if not store.has_record(cell)]
    files = {store.data_path(cell): cell for cell in waiting}
    with progress_bar(len(files), "read the data") as advance:
        for cell in files.values():
            store.prepare(cell, root)
            advance(1, cell.dataset)


class _Task(NamedTuple):
    """A job for the cell at some place of the list, and the tasks that wait for it."""

    place: int
    job: Job
    cell: Cell
    waiting: "tuple[_Task, ...]" = ()


def _tasks(cells: Sequence[Cell], store: Store) -> list[_Task]:
    """Return what can start now: cells whose model is there, and models that are missing."""
    groups: dict[str, list[_Task]] = {}
    for place, cell in enumerate(cells):
        groups.setdefault(cell.model_key, []).append(_Task(place, run_cell, cell))
    tasks: list[_Task] = []
    for group in groups.values():
        first = group[0]
        trained = store.has_model(first.cell)
        tasks += group if trained else [_Task(first.place, train_cell, first.cell, tuple(group))]
    return tasks


def _work(tasks: Sequence[_Task], hands: Executor, workers: int, store: Store, device: str) -> dict[Cell, str]:
    """Run all tasks and return why some cells failed; a failure stops nothing but what waits for it."""
    failed: dict[Cell, str] = {}
    ready, running = sorted(tasks, key=_place), dict[Future[str], _Task]()
    with progress_bar(sum(1 + len(task.waiting) for task in tasks), "bench") as advance:
        while ready or running:
            while ready and len(running) < workers:
                task = ready.pop(0)
                running[hands.submit(_try, task.job, task.cell, store, device)] = task
            for future in futures_wait(running, return_when=FIRST_COMPLETED).done:
                task, reason = running.pop(future), future.result()
                if reason:
                    failed |= dict.fromkeys([each.cell for each in task.waiting or (task,)], reason)
                else:
                    ready = sorted([*ready, *task.waiting], key=_place)  # cells run in the order of the list
                advance(1 + (len(task.waiting) if reason else 0), str(task.cell))
    return failed


def _place(task: _Task) -> int:
    return task.place


def _try(job: Job, cell: Cell, store: Store, device: str) -> str:
    """Run a job without a progress line of its own and return why it failed, nothing if it did not."""
    try:
        with muted():
            job(cell, store, device)
    except OutputError:  # a full disk stops the run: every other cell would compute in vain
        raise
    except Exception as error:  # one bad cell must not cost the others; the traceback is kept
        store.note_failure(cell, traceback.format_exc())
        return f"{type(error).__name__}: {error}"
    return ""


class _Self(Executor):
    """Runs a job when it is submitted, in this process."""

    def submit(self, job: Callable[..., Any], /, *arguments: Any, **named: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(job(*arguments, **named))
        return future


@contextmanager
def _hands(workers: int) -> Iterator[Executor]:
    """Yield what runs jobs: several processes, or this one where one worker is enough."""
    if workers == 1:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield _Self()
        finally:
            torch.set_num_threads(threads)
        return
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, context, initializer=_enter_worker, initargs=(workers,))
    try:
        yield pool
    except KeyboardInterrupt:  # nobody waits for cells that nobody wants
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    except BrokenProcessPool:  # a result tells, or the next job that is submitted
        raise TempogradError(
            "A worker was killed, perhaps for want of memory. What was recorded stays: start the same command "
            "again, with fewer --workers."
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _enter_worker(workers: int) -> None:
    torch.set_num_threads(1)
    if torch.cuda.is_available():  # each within its share, so that nobody runs another out of memory
        torch.cuda.set_per_process_memory_fraction(0.95 / workers)
    leave_quietly()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent is killed, so that no cell runs on unseen beside the next run."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder for one run; the system lets go of it when the process ends, however it ends."""
    try:
        import fcntl  # noqa: PLC0415  # not on Windows, where two runs at once are up to the user
    except ImportError:
        yield
        return
    with (folder / ".lock").open("a") as lock:  # what is in it stays
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"Another run is writing to {folder}: wait for it, or choose another --out.") from None
        yield
