"""Workers on a Ray cluster: actors that hold one model each, on a GPU or a core."""

import os
import re
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tempograd.bulk.engines import Hands, WorkerLostError
from tempograd.bulk.worker import Outcome, Worker
from tempograd.core.errors import DataError, InputError, MissingExtraError, TempogradError, arg, one_line
from tempograd.data.fragments import Fragment

QUIET = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}  # Ray 2.50 and later warn where an actor asks for no GPU
ADDRESS = re.compile(r"([^/]+):(\d+)")  # not those of Ray's client, ray://…
ANSWER = 10.0  # seconds in which a cluster answers
_Found = list[tuple[Any, Outcome | BaseException]]


class _Held:
    """A worker that an actor holds."""

    def __init__(self, folder: str, device: str | None) -> None:
        self.folder, self.device = folder, device
        self.worker: Worker

    def open(self) -> None:
        """Load the model; not in the constructor, whose errors Ray takes for a death."""
        import torch  # noqa: PLC0415  # in the actor's process

        torch.set_num_threads(1)
        self.worker = Worker.open(self.folder, self.device)

    def run(self, plain: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(self.worker.run(plain))


class RayActors(Hands):
    """Actors on the running cluster, or on one of this machine where none runs.

    Fragments wait here for an actor that is ready: one that is to replace another may never find a place, where a
    node is gone, and the others do its work.
    """

    def __init__(self, folder: str, workers: int | None, device: str | None) -> None:
        try:
            import ray  # noqa: PLC0415  # an extra
        except ImportError as error:
            raise MissingExtraError("ray", "ray") from error
        self.folder, self.ray, self.started = folder, ray, not ray.is_initialized()
        if self.started:
            _start(ray)
        there = ray.cluster_resources()
        gpus = int(there.get("GPU", 0)) if device != "cpu" else 0
        self.capacity = workers or gpus or max(1, int(there.get("CPU", 1)))
        needs = {"num_gpus": min(1.0, gpus / self.capacity), "num_cpus": 0} if gpus else {"num_cpus": 1}
        room = int(there.get("CPU", 0)) if not gpus else self.capacity
        if self.capacity > room:
            raise InputError(f"{arg:run.workers={self.capacity}} are more than the cluster has room for, {room}.")
        paths = os.pathsep.join([*filter(None, sys.path), os.getcwd()])  # noqa: PTH109  # the caller's own modules
        env = {"env_vars": {"PYTHONPATH": paths, **QUIET}}
        # one that died is replaced here: until Ray has restarted an actor, whatever it is given fails at once
        kind = ray.remote(_Held).options(max_restarts=0, max_task_retries=0, runtime_env=env, **needs)
        self.new: Callable[[], Any] = lambda: kind.remote(folder, device)
        self.coming, self.busy = (
            dict[Any, Any](),
            dict[Any, tuple[Any, str]](),
        )  # actors by what is awaited of them
        self.free, self.given, self.any_ready = deque[Any](), deque[Fragment](), False
        for _ in range(self.capacity):
            self._begin()

    def _begin(self) -> None:
        actor = self.new()
        self.coming[actor.open.remote()] = actor

    def submit(self, fragment: Fragment) -> Any:
        self.given.append(fragment)
        return fragment.name

    def wait(self, waiting: list[Any], seconds: float) -> _Found:
        end = time.monotonic() + seconds
        while True:
            while self.free and self.given:
                actor, fragment = self.free.popleft(), self.given.popleft()
                self.busy[actor.run.remote(fragment.plain)] = actor, fragment.name
            if not self.busy and not self.coming:
                self._begin()
            left = max(end - time.monotonic(), 0.0)
            done, _ = self.ray.wait([*self.busy, *self.coming], num_returns=1, timeout=left)
            if not done:
                return []
            (handle,) = done
            found = self._came(handle) if handle in self.coming else self._finished(handle)
            if found:
                return found

    def _came(self, handle: Any) -> _Found:
        """Take an actor that is ready; a death while it started is that of a worker, and no fragment's."""
        actor = self.coming.pop(handle)
        try:
            self.ray.get(handle)
        except self.ray.exceptions.RayTaskError as error:
            self.ray.kill(actor)
            if not self.any_ready:
                raise DataError(f"No worker could start: {one_line(str(error.cause), 300)}") from error.cause
            return []
        except self.ray.exceptions.RayError as error:
            self._begin()
            return [(None, _lost(error))]
        self.free.append(actor)
        self.any_ready = True
        return []

    def _finished(self, handle: Any) -> _Found:
        """Return what became of a fragment, and give its actor back, or another for one that died."""
        actor, name = self.busy.pop(handle)
        found: Outcome | BaseException
        try:
            found = Outcome(*self.ray.get(handle))
        except self.ray.exceptions.RayTaskError as error:
            found = error.cause if isinstance(error.cause, BaseException) else error
        except self.ray.exceptions.RayError as error:  # the actor or its node died
            self.ray.kill(actor)
            self._begin()
            return [(name, _lost(error))]
        self.free.append(actor)
        return [(name, found)]

    def close(self) -> None:
        for actor in [*self.free, *self.coming.values(), *(actor for actor, _ in self.busy.values())]:
            self.ray.kill(actor)
        if self.started:
            self.ray.shutdown()


def _start(ray: Any) -> None:
    """Join the running cluster, or start one on this machine."""
    os.environ |= {name: os.environ.get(name, value) for name, value in QUIET.items()}
    address = _address()
    try:
        if place := ADDRESS.fullmatch(address):  # Ray itself tries for many minutes, and prints what helps nobody
            socket.create_connection((place[1].strip("[]"), int(place[2])), ANSWER).close()
        job = ray.job_config.JobConfig()
        job._client_job = True  # or Ray puts the current folder before all libraries of its workers
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="error", job_config=job)
    except OSError as error:  # ConnectionError is one
        where = f"The Ray cluster at {address}" if address else "A Ray cluster"
        raise TempogradError(
            f"{where} does not answer: start it, or set RAY_ADDRESS=local for one on this machine; 'ray stop' "
            "forgets one that was killed."
        ) from error


def _address() -> str:
    """Return where Ray will look for a cluster, nothing where it starts one."""
    told = os.environ.get("RAY_ADDRESS", "")
    if told not in {"", "auto"}:
        return told
    with suppress(OSError):  # what the last 'ray start' wrote, also where its cluster was killed since
        return (Path(os.environ.get("RAY_TMPDIR") or "/tmp") / "ray" / "ray_current_cluster").read_text().strip()
    return ""


def _lost(error: BaseException) -> WorkerLostError:
    return WorkerLostError(f"A worker died: {str(error).splitlines()[0]}")
