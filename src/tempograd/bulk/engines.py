"""Who runs the worker: this process, several processes; with three tries for every fragment."""

import multiprocessing
import os
import statistics
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import cache
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import torch

from tempograd.bulk.folder import DATA
from tempograd.bulk.travel import not_sent, read_job
from tempograd.bulk.worker import Outcome, Worker
from tempograd.core.errors import OutputError, TempogradError, arg
from tempograd.core.io import PREFIX
from tempograd.core.progress import leave_quietly
from tempograd.data.fragments import Fragment

TRIES = 3  # of a fragment
KILLS = 20  # of workers, in a row without a result, after which somebody has to look
THREADS = 8  # fragments under way where a GPU explains them
PATIENCE = 600.0  # seconds without a batch after which an engine is taken for dead, or ten times a usual fragment


class Attempt(NamedTuple):
    """A fragment with what became of it, or with the reason why it has no results."""

    fragment: Fragment
    outcome: Outcome | None
    error: str = ""


class WorkerLostError(TempogradError):
    """A worker died, with its fragment or before it had one."""


class Hands(ABC):
    """Workers elsewhere: they take fragments and give outcomes, or errors."""

    folder: str
    capacity: int

    @abstractmethod
    def submit(self, fragment: Fragment) -> Any:
        """Begin with a fragment, and return what stands for it."""

    @abstractmethod
    def wait(self, waiting: list[Any], seconds: float) -> list[tuple[Any, Outcome | BaseException]]:
        """Wait until some are done, or for so long, and return those; None is a worker that had no fragment."""

    @abstractmethod
    def close(self) -> None:
        """End all workers."""


def in_this_process(
    worker: Worker, fragments: Iterable[Fragment], tell: Callable[[int], None]
) -> Iterator[Attempt]:
    """Run one fragment after the other, and tell how many series of it are explained."""
    worker.tell = tell
    for fragment in fragments:
        for tried in range(1, TRIES + 1):
            try:
                yield Attempt(fragment, worker.run(fragment))
                break
            except OutputError:  # a full disk stops the run: all else would be computed in vain
                raise
            except Exception:  # one bad fragment must not cost the others; the traceback is kept
                if tried == TRIES:
                    yield Attempt(fragment, None, traceback.format_exc())


def through(hands: Hands, fragments: Iterable[Fragment]) -> Iterator[Attempt]:
    """Run fragments by workers elsewhere."""
    try:
        yield from _Queue(hands, fragments).attempts()
    finally:
        hands.close()


class _Queue:
    """Fragments on their way: those to come, those that run, and those that are tried again.

    A fragment whose worker died is tried again at the end, the last time alone: where memory was short, perhaps
    others took it.
    """

    def __init__(self, hands: Hands, fragments: Iterable[Fragment]) -> None:
        self.hands, self.coming, self.again = hands, iter(fragments), deque[Fragment]()
        self.suspects = deque[Fragment]()
        self.running: dict[Any, Fragment] = {}
        self.tries: dict[str, int] = {}
        self.lost, self.took = 0, list[float]()
        self.watch = _Watch(hands.folder)

    def attempts(self) -> Iterator[Attempt]:
        while self._fill():
            for handle, found in self._wait():
                self._count_lost(found)
                fragment = self.running.pop(handle, None)
                if fragment is None:
                    continue
                if isinstance(found, Outcome):
                    self.watch.look()
                    self.took.append(found.seconds)
                    yield Attempt(fragment, found)
                elif self._failed_for_good(fragment, found):
                    yield Attempt(fragment, None, "".join(traceback.format_exception(found)))

    def _fill(self) -> bool:
        """Keep all workers busy, and tell whether any is."""
        while len(self.running) < self.hands.capacity:
            fragment = next(self.coming, None) or (self.again.popleft() if self.again else None)
            if fragment is None:
                break
            self._submit(fragment)
        if not self.running and self.suspects:
            self._submit(self.suspects.popleft())
        return bool(self.running)

    def _submit(self, fragment: Fragment) -> None:
        self.running[self.hands.submit(fragment)] = fragment

    def _wait(self) -> list[tuple[Any, Outcome | BaseException]]:
        usual = statistics.median(self.took[-100:]) if self.took else 0.0
        done = self.hands.wait(list(self.running), self.watch.left(10 * usual))
        if not done:
            self.watch.check(10 * usual)
        return done

    def _count_lost(self, found: Outcome | BaseException) -> None:
        """Count deaths in a row, and stop where workers do nothing else."""
        if isinstance(found, Outcome):
            self.lost = 0
        elif isinstance(found, WorkerLostError):
            self.lost += 1
            if self.lost >= max(KILLS, 2 * self.hands.capacity):  # all of them at once may be the machine
                raise TempogradError(
                    f"{self.lost} workers died in a row, perhaps for want of memory. What is done stays: start "
                    "the run again, with fewer workers or a smaller batch."
                ) from found

    def _failed_for_good(self, fragment: Fragment, error: BaseException) -> bool:
        """Count a failure, let the fragment be tried again, and tell whether it had its tries."""
        if isinstance(error, OutputError):
            raise error
        self.tries[fragment.name] = self.tries.get(fragment.name, 0) + 1
        if self.tries[fragment.name] < TRIES:
            alone = isinstance(error, WorkerLostError) and self.tries[fragment.name] == TRIES - 1
            (self.suspects if alone else self.again).append(fragment)
            return False
        self.watch.look()
        return True


class _Watch:
    """Tells a slow engine from a dead one: by what its workers write, which all see."""

    def __init__(self, folder: str) -> None:
        self.data = Path(folder) / DATA
        self.look()

    def look(self) -> None:
        """Take note of what is written now."""
        self.last, self.written = time.monotonic(), self._newest()

    def left(self, least: float = 0.0) -> float:
        """Return for how many seconds one can still wait."""
        return max(PATIENCE, least) - (time.monotonic() - self.last)

    def check(self, least: float = 0.0) -> None:
        """Raise if nothing was written since the last look, and that was long ago."""
        if self._newest() != self.written:
            self.look()
        elif self.left(least) <= 0:
            raise TempogradError(
                f"No batch was finished for {time.monotonic() - self.last:,.0f} seconds, so the engine was taken "
                f"for dead. What is done stays: start the run again, with a smaller {arg:run.batch} where series "
                "take that long."
            )

    def _newest(self) -> int:
        paths, times = [self.data], [0]
        for scratch in self.data.glob(f"{PREFIX}*"):
            with suppress(OSError):  # a worker has removed it meanwhile, which a glob over both levels trips over
                paths.extend(scratch.iterdir())
        for path in paths:
            with suppress(OSError):  # it was renamed meanwhile
                times.append(path.stat().st_mtime_ns)
        return max(times)


def while_it_lives(
    engine: Callable[[str, list[dict[str, object]]], Iterable[object]], folder: str, fragments: list[Fragment]
) -> Iterator[object]:
    """Yield what an engine of one's own does, as long as it lives; it runs in a thread, which may hang."""
    came: SimpleQueue[tuple[str, Any]] = SimpleQueue()

    def run() -> None:
        try:
            for outcome in engine(folder, [fragment.plain for fragment in fragments]):
                came.put(("outcome", outcome))
            came.put(("end", None))
        except BaseException as error:  # raised again where the run is driven
            came.put(("error", error))

    threading.Thread(target=run, daemon=True).start()
    watch = _Watch(folder)
    while True:
        try:
            what, found = came.get(timeout=max(watch.left(), 0.01))
        except Empty:
            watch.check()
            continue
        if what == "end":
            return
        if what == "error":
            raise found
        watch.look()
        yield found


# Several threads, which share one model


class Threads(Hands):
    """Threads that feed one model: while it explains a fragment, others are read and written.

    A GPU explains faster than one thread packs what it finds. A thread that hangs cannot be ended, so the run is
    left to it when the watchdog speaks.
    """

    def __init__(self, folder: str, worker: Worker) -> None:
        self.folder, self.worker, self.capacity = folder, worker, min(THREADS, os.cpu_count() or 1)
        self.pool = ThreadPoolExecutor(self.capacity)

    def submit(self, fragment: Fragment) -> "Future[Outcome]":
        return self.pool.submit(self.worker.run, fragment)

    def wait(self, waiting: list[Any], seconds: float) -> list[tuple[Any, Outcome | BaseException]]:
        done, _ = wait(waiting, max(seconds, 0.0), FIRST_COMPLETED)
        return [(each, each.exception() or each.result()) for each in done]

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)


# Several processes on this machine

_found: list[Any] = []  # what a process opens its worker with


class Processes(Hands):
    """Processes that each open the run's folder, and load the model from it or get a copy of a module.

    With a module the first one is started at once: one that cannot be sent is refused before the run.

    Each is the only one of its pool: a pool that loses one ends all, and does not tell whose work it was.
    """

    def __init__(self, folder: str, workers: int, device: str | None, sent: bytes | None) -> None:
        self.folder, self.capacity, self.opening = folder, workers, (folder, device, sent)
        self.others = set(multiprocessing.active_children())
        self.idle, self.busy = list[ProcessPoolExecutor](), dict[Future[Outcome], ProcessPoolExecutor]()
        if sent is not None:
            first = self._new()
            try:
                first.submit(_open_worker).result()
            except Exception as error:  # whatever a module's code does in another process
                raise not_sent(error) from error
            self.idle.append(first)

    def _new(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
        return ProcessPoolExecutor(1, context, _enter, self.opening)

    def submit(self, fragment: Fragment) -> "Future[Outcome]":
        pool = self.idle.pop() if self.idle else self._new()
        try:
            future = pool.submit(_run, fragment.plain)
        except BrokenProcessPool:  # it died while it had nothing to do
            pool = self._new()
            future = pool.submit(_run, fragment.plain)
        self.busy[future] = pool
        return future

    def wait(self, waiting: list[Any], seconds: float) -> list[tuple[Any, Outcome | BaseException]]:
        done, _ = wait(waiting, max(seconds, 0.0), FIRST_COMPLETED)
        found: list[tuple[Any, Outcome | BaseException]] = []
        for each in done:
            pool, error = self.busy.pop(each), each.exception()
            if isinstance(error, BrokenProcessPool):
                error = WorkerLostError("A worker was killed, perhaps for want of memory.")
            else:
                self.idle.append(pool)
            found.append((each, error or each.result()))
        return found

    def close(self) -> None:
        for child in set(multiprocessing.active_children()) - self.others:
            child.kill()  # one that hangs hears nothing else; finished fragments are there
        for pool in (*self.idle, *self.busy.values()):
            pool.shutdown(wait=True, cancel_futures=True)


def _enter(folder: str, device: str | None, sent: bytes | None) -> None:
    torch.set_num_threads(1)
    leave_quietly()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _found.extend((folder, device, sent))


@cache
def _worker_of_this_process() -> Worker:
    return Worker(*read_job(*_found))


def _open_worker() -> None:
    _worker_of_this_process()


def _run(plain: dict[str, Any]) -> Outcome:
    return _worker_of_this_process().run(plain)


def _end_with_parent() -> None:
    """End this process when its parent is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)
