"""On Ray: the numbers of one call, also where an actor is killed in the midst of its work."""

import os
import signal
import sys

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.bulk.on_ray import RayActors
from tests.bulk.test_runs import SETTINGS, Net, explain, frame, states, values, write

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="no such signal"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),  # of Ray itself
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


def pid_of(actor):
    """Return the process of an actor."""
    return ray.get(actor.__ray_call__.remote(lambda self: os.getpid()))


def test_a_killed_actor_costs_nothing(tmp_path, monkeypatch):
    x = torch.randn(60, 6, 2, generator=torch.Generator().manual_seed(0))
    write(tmp_path / "in", x)
    real, killed = RayActors.wait, []

    def kill_one(self, waiting, seconds):
        if not killed and states(tmp_path / "out"):
            (handle,) = waiting
            ray.wait([handle], timeout=60)  # so that it is idle, and can tell its process
            killed.append(pid_of(self.busy[handle]))
            done = real(self, waiting, seconds)
            os.kill(killed[0], signal.SIGKILL)
            return done
        return real(self, waiting, seconds)

    monkeypatch.setattr(RayActors, "wait", kill_one)
    run = explain(tmp_path, fragment=10, engine="ray", workers=1)
    assert len(killed) == 1
    assert frame(run)["id"].tolist() == list(range(60))
    np.testing.assert_array_equal(values(run), tg.explain(Net(), x, **SETTINGS).values.flatten(1))
    assert not list((run.folder / "data").glob(".tempograd-*"))
