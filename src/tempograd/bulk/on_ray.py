"""Workers on a Ray cluster: actors that hold one model each, on a GPU or a core."""

import os
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from tempograd.bulk.engines import Hands, WorkerLostError
from tempograd.bulk.sources import Fragment
from tempograd.bulk.travel import open_worker
from tempograd.bulk.worker import Outcome
from tempograd.errors import InputError, MissingExtraError

QUIET = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}  # Ray 2.50 and later warn where an actor asks for no GPU


class _Held:
    """A worker that an actor holds."""

    def __init__(self, folder: str, device: str | None) -> None:
        import torch  # noqa: PLC0415  # in the actor's process

        torch.set_num_threads(1)
        self.worker = open_worker(folder, device)

    def run(self, plain: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(self.worker.run(plain))


class RayActors(Hands):
    """Actors on the running cluster, or on one of this machine where none runs."""

    def __init__(self, folder: str, workers: int | None, device: str | None) -> None:
        try:
            import ray  # noqa: PLC0415  # an extra
        except ImportError as error:
            raise MissingExtraError("ray", "ray") from error
        self.ray, self.started = ray, not ray.is_initialized()
        if self.started:
            os.environ |= {name: os.environ.get(name, value) for name, value in QUIET.items()}
            ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
        there = ray.cluster_resources()
        gpus = int(there.get("GPU", 0)) if device != "cpu" else 0
        self.capacity = workers or gpus or max(1, int(there.get("CPU", 1)))
        needs = {"num_gpus": min(1.0, gpus / self.capacity), "num_cpus": 0} if gpus else {"num_cpus": 1}
        room = int(there.get("CPU", 0)) if not gpus else self.capacity
        if self.capacity > room:
            raise InputError(f"workers={self.capacity} are more than the cluster has room for, {room}.")
        paths = os.pathsep.join([os.getcwd(), *filter(None, sys.path)])  # noqa: PTH109  # the caller's own modules
        env = {"env_vars": {"PYTHONPATH": paths, **QUIET}}
        # one that died is replaced here: until Ray has restarted an actor, whatever it is given fails at once
        kind = ray.remote(_Held).options(max_restarts=0, max_task_retries=0, runtime_env=env, **needs)
        self.new: Callable[[], Any] = lambda: kind.remote(folder, device)
        self.free = deque(self.new() for _ in range(self.capacity))
        self.busy: dict[Any, Any] = {}

    def submit(self, fragment: Fragment) -> Any:
        actor = self.free.popleft()
        handle = actor.run.remote(fragment.plain)
        self.busy[handle] = actor
        return handle

    def wait(self, waiting: list[Any], seconds: float) -> list[tuple[Any, Outcome | BaseException]]:
        done, _ = self.ray.wait(waiting, num_returns=1, timeout=max(seconds, 0.0))
        found: list[tuple[Any, Outcome | BaseException]] = []
        for handle in done:
            actor = self.busy.pop(handle)
            try:
                found.append((handle, Outcome(*self.ray.get(handle))))
            except self.ray.exceptions.RayTaskError as error:
                found.append((handle, error.cause if isinstance(error.cause, BaseException) else error))
            except self.ray.exceptions.RayError as error:  # the actor or its node died
                self.ray.kill(actor)
                actor = self.new()
                found.append((handle, WorkerLostError(f"A worker died: {str(error).splitlines()[0]}")))
            self.free.append(actor)
        return found

    def close(self) -> None:
        for actor in [*self.free, *self.busy.values()]:
            self.ray.kill(actor)
        if self.started:
            self.ray.shutdown()
