"""Who runs the workers: this process, threads, processes or tasks of Ray, with three tries for every fragment."""

import multiprocessing
import os
import pickle
import socket
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, suppress
from functools import lru_cache
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tempograd.bulk.manifest import Entry
from tempograd.bulk.worker import Worker
from tempograd.core.errors import MissingExtraError, ModelError, OutputError, TempogradError, arg, one_line
from tempograd.core.progress import leave_quietly
from tempograd.data.fragments import Fragment

TRIES = 3  # of a fragment
KILLS = 20  # of workers, in a row without a result, after which somebody has to look
OPENING = 60.0  # seconds that a worker has at least to open: a new process loads torch first
THREADS = 8  # fragments under way where a GPU explains them


class Attempt(NamedTuple):
    """A fragment with what became of it, or with the reason why it has no results."""

    fragment: Fragment
    entry: Entry | None
    error: str = ""


class WorkerLostError(TempogradError):
    """A worker died with its fragment, or was taken away with its machine, which is no fault of the fragment."""

    taken = False


class Pool(ABC):
    """Workers that take fragments; ``lost`` are the errors by which one that died is known, or was taken away."""

    capacity = 1
    lost: tuple[type[BaseException], ...] = (BrokenProcessPool,)
    taken: tuple[type[BaseException], ...] = ()

    @abstractmethod
    def submit(self, fragment: Fragment | None) -> "Future[Any]":
        """Begin with a fragment, or let a worker open alone."""

    def close(self) -> None:  # noqa: B027  # this process has nothing to end
        """End all workers."""

    def start(self, timeout: float | None) -> None:
        """See that a worker elsewhere can open, before the run starts."""
        future = self.submit(None)
        try:
            future.result(timeout and max(timeout, OPENING))
        except Exception as error:  # whatever a module's code does in another process
            self.close()
            if isinstance(error, TimeoutError):
                raise TempogradError(f"No worker opened within {max(timeout or 0, OPENING):g} seconds.") from None
            raise _not_sent(self.failure(future) or error) from error

    def failure(self, future: "Future[Any]") -> BaseException | None:
        """Return why a fragment failed: what a worker raised, which Ray wraps, or that it died."""
        error = future.exception()
        if isinstance(cause := getattr(error, "cause", None), BaseException):
            return cause
        if not isinstance(error, self.lost):
            return error
        lost = WorkerLostError(f"A worker was killed, possibly out of memory: {one_line(str(error), 200)}")
        lost.taken = isinstance(error, self.taken)
        return lost


def run_by(pool: Pool, fragments: Iterable[Fragment], timeout: float | None = None) -> Iterator[Attempt]:
    """Run fragments by the workers of a pool, and end these where the way through them ends."""
    queue = _Queue(pool, fragments)
    with closing(pool):
        while queue.fill():
            done, _ = wait(queue.running, timeout, FIRST_COMPLETED)
            if not done:
                told = f"No fragment was finished within {arg:run.timeout={timeout:g}} seconds"
                ways = "What is done stays: start the run again, with more time or smaller fragments"
                raise TempogradError(f"{told}. {ways}.")
            for future in done:
                fragment, error = queue.running.pop(future), pool.failure(future)
                if error is None:
                    queue.lost = 0
                    yield Attempt(fragment, future.result())
                elif queue.is_given_up(fragment, error):
                    yield Attempt(fragment, None, "".join(traceback.format_exception(error)))


class _Queue:
    """Fragments on their way: those to come, those that run, and those that are tried again.

    A fragment whose worker died is tried again at the end, the last time alone: where memory was short, perhaps
    others took it.
    """

    def __init__(self, pool: Pool, fragments: Iterable[Fragment]) -> None:
        self.pool, self.coming, self.tries, self.lost = pool, iter(fragments), Counter[str](), 0
        self.again, self.suspects = deque[Fragment](), deque[Fragment]()
        self.running: dict[Future[Entry], Fragment] = {}

    def fill(self) -> bool:
        """Keep all workers busy, and tell whether any is."""
        while len(self.running) < self.pool.capacity:
            fragment = next(self.coming, None) or (self.again.popleft() if self.again else None)
            if fragment is None and not self.running and self.suspects:
                fragment = self.suspects.popleft()
            if fragment is None:
                break
            self.running[self.pool.submit(fragment)] = fragment
        return bool(self.running)

    def is_given_up(self, fragment: Fragment, error: BaseException) -> bool:
        """Let a fragment that failed be tried again, and tell whether it had its tries."""
        died = isinstance(error, WorkerLostError)
        self.lost += died
        if isinstance(error, OutputError):  # a full disk stops the run: all else would be computed in vain
            raise error
        if self.lost >= max(KILLS, 2 * self.pool.capacity):  # all of them at once may be the machine
            told = f"{self.lost} workers in a row were killed, possibly out of memory"
            ways = "What is done stays: start the run again, with fewer workers or a smaller batch"
            raise TempogradError(f"{told}. {ways}.") from error
        parts = fragment.apart()
        if len(parts) > 1 or getattr(error, "taken", False):  # one file may be to blame, or a machine
            self.again.extend([fragment] if getattr(error, "taken", False) else parts)
            return False
        self.tries[fragment.name] += 1
        if self.tries[fragment.name] < TRIES:
            alone = died and self.tries[fragment.name] == TRIES - 1
            (self.suspects if alone else self.again).append(fragment)
        return self.tries[fragment.name] == TRIES


def _not_sent(error: BaseException) -> ModelError:
    return ModelError(f"The model cannot be sent to other processes: {one_line(str(error), 300).rstrip('.')}.")


class Here(Pool):
    """The process and the thread of the run."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def submit(self, fragment: Fragment | None) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(self.worker.run(fragment))
        except Exception as error:  # one bad fragment must not cost the others; the traceback is kept
            future.set_exception(error)
        return future


class Threads(Pool):
    """Threads that feed one model: while it explains a fragment, others are read and written.

    A GPU explains faster than one thread packs what it finds.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker, self.capacity = worker, min(THREADS, os.cpu_count() or 1)
        self.threads = ThreadPoolExecutor(self.capacity)

    def submit(self, fragment: Fragment | None) -> "Future[Any]":
        return self.threads.submit(self.worker.run, fragment)

    def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)


# Workers elsewhere get a pickled copy of the worker here, in memory alone, never in a file


def _pickled(worker: Worker, dumps: Any) -> bytes:
    try:
        return dumps(worker)  # type: ignore[no-any-return]  # ray has no types
    except Exception as error:  # whatever a module holds
        raise _not_sent(error) from error


@lru_cache(maxsize=1)
def _opened(sent: bytes) -> Worker:
    """Return the worker of this process, from its bytes."""
    torch.set_num_threads(1)
    return pickle.loads(sent)  # type: ignore[no-any-return]  # noqa: S301  # by the program that started this


class Processes(Pool):
    """Processes of this machine, each the only one of its pool: a pool that loses one ends all of its own."""

    def __init__(self, worker: Worker, workers: int, timeout: float | None) -> None:
        self.capacity, self.sent = workers, _pickled(worker, pickle.dumps)
        self.others = set(multiprocessing.active_children())
        self.pools = dict[int, ProcessPoolExecutor]()
        self.last = dict[int, Future[Any]]()  # that each was given
        self.start(timeout)

    def submit(self, fragment: Fragment | None) -> "Future[Any]":
        number = next(each for each in range(self.capacity) if each not in self.last or self.last[each].done())
        try:
            self.last[number] = self.pools[number].submit(_run_here, fragment)
        except (KeyError, BrokenProcessPool):  # its process died, or none has begun
            context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
            self.pools[number] = ProcessPoolExecutor(1, context, _enter, (self.sent, number))
            self.last[number] = self.pools[number].submit(_run_here, fragment)
        return self.last[number]

    def close(self) -> None:
        for child in set(multiprocessing.active_children()) - self.others:
            child.kill()  # one that hangs hears nothing else; finished fragments are there
        for pool in self.pools.values():
            pool.shutdown(wait=True, cancel_futures=True)


_sent: list[bytes] = []  # what a process opens its worker with


def _enter(sent: bytes, number: int) -> None:
    """Prepare a process: the one with this number has a GPU of its own, as long as there are enough."""
    leave_quietly()
    if torch.cuda.is_available():
        torch.cuda.set_device(number % torch.cuda.device_count())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _sent.append(sent)


def _run_here(fragment: Fragment | None) -> Entry | None:
    return _opened(_sent[0]).run(fragment)


def _end_with_parent() -> None:
    """End this process when its parent is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


# Tasks on a Ray cluster

QUIET = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}  # Ray 2.50 and later warn where a task asks for no GPU
ANSWER = 10.0  # seconds in which a cluster answers


class RayTasks(Pool):
    """Tasks on the running cluster, or on one of this machine where none runs; a process keeps its worker."""

    def __init__(self, worker: Worker, workers: int | None, timeout: float | None) -> None:
        try:
            import ray  # noqa: PLC0415  # an extra
        except ImportError as error:
            raise MissingExtraError("ray", "ray") from error
        self.ray, self.started = ray, not ray.is_initialized()
        if self.started:
            _start_ray(ray)
        self.workers, self.kind = workers, "CPU"
        if worker.job.device != "cpu" and ray.cluster_resources().get("GPU", 0) >= 1:
            self.kind = "GPU"
        share = 1.0 if workers is None else min(1.0, self._slots() / workers)
        needs = {"num_gpus": share, "num_cpus": 0} if self.kind == "GPU" else {"num_cpus": 1}
        paths = os.pathsep.join([*filter(None, sys.path), os.getcwd()])  # noqa: PTH109  # the caller's own modules
        env = {"env_vars": {"PYTHONPATH": paths, **QUIET}}
        once = {"max_calls": 0, "max_retries": 0}  # keeps processes that have used a GPU; tries are counted here
        self.task = ray.remote(runtime_env=env, **once, **needs)(_run_on_ray)
        self.lost, self.taken = (ray.exceptions.RayError,), (ray.exceptions.NodeDiedError,)
        self.tasks = dict[Future[Any], Any]()
        self.sent = ray.put(_pickled(worker, ray.cloudpickle.dumps))
        self.start(timeout)

    def _slots(self) -> int:
        return max(1, int(self.ray.cluster_resources().get(self.kind, 1)))

    @property
    def capacity(self) -> int:  # type: ignore[override]  # of a cluster that grows and shrinks
        """One task more than the cluster has room for, which makes it grow where it can."""
        return self.workers or self._slots() + 1

    def submit(self, fragment: Fragment | None) -> "Future[Any]":
        self.tasks = {future: task for future, task in self.tasks.items() if not future.done()}
        task = self.task.remote(self.sent, fragment)
        future: Future[Any] = task.future()
        self.tasks[future] = task
        return future

    def close(self) -> None:
        tasks, self.tasks = self.tasks, {}
        for future, task in tasks.items():
            if not future.done():
                self.ray.cancel(task, force=True)
        if self.started:
            self.ray.shutdown()


def _run_on_ray(sent: bytes, fragment: Fragment | None) -> Any:
    return _opened(sent).run(fragment)


def _start_ray(ray: Any) -> None:
    """Join the running cluster, or start one on this machine."""
    os.environ |= {name: os.environ.get(name, value) for name, value in QUIET.items()}
    address = _address()
    try:
        host, _, port = address.rpartition(":")
        if port.isdecimal() and "/" not in host:  # not of Ray's client; Ray itself tries for many minutes
            socket.create_connection((host.strip("[]"), int(port)), ANSWER).close()
        job = ray.job_config.JobConfig()
        job._client_job = True  # or Ray puts the current folder before all libraries of its workers
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="error", job_config=job)
    except OSError as error:  # ConnectionError is one
        where = f"The Ray cluster at {address}" if address else "A Ray cluster"
        ways = "start it, or set RAY_ADDRESS=local for one on this machine; 'ray stop' forgets one that was killed"
        raise TempogradError(f"{where} does not answer: {ways}.") from error


def _address() -> str:
    """Return where Ray will look for a cluster, nothing where it starts one."""
    told = os.environ.get("RAY_ADDRESS", "")
    if told not in {"", "auto"}:
        return told
    with suppress(OSError):  # what the last 'ray start' wrote, also where its cluster was killed since
        return (Path(os.environ.get("RAY_TMPDIR") or "/tmp") / "ray" / "ray_current_cluster").read_text().strip()
    return ""
