"""What the kill tests run and look at: processes that explain 240 series, and a cluster.

``python -m tests.bulk.killed nursery`` forks one for every line that it reads. Processes tell those that can be
killed of their workers. The series are small, so
that reading, explaining, writing, syncing and renaming all take their part of the time and a kill meets each.
"""

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import nn

import tempograd as tg
from tempograd.bulk import engines
from tempograd.bulk.store import TABLES
from tempograd.views.drivers import drivers_of
from tests.bulk.conftest import finished, table_of

ROOT = Path(__file__).parents[2]
SERIES, TIME, CHANNELS, ROWS = 240, 6, 2, 10
FILES = SERIES // ROWS
SETTINGS = {"n_samples": 10, "seed": 3}
LONGEST = 240  # seconds, after which something hangs
PAUSE = float(os.environ.get("TEMPOGRAD_TEST_PAUSE", "0"))  # seconds that a pass takes longer
WORKERS = "workers.txt"  # the file in which they tell their numbers
DONE = "done"  # what a process says last
KINDS = ("actor", "process")  # of processes, as they are told
FAR = 50.0  # a value that no other series has
PATH = os.pathsep.join([str(ROOT), *sys.path])


class Net(nn.Module):
    """A small network that is the same wherever it is made."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layer = nn.Linear(TIME * CHANNELS, 2)

    def forward(self, x):
        time.sleep(PAUSE)
        return self.layer(x.tanh().flatten(1))


class Hangs(Net):
    """Hangs at the series of the second file, where a worker has it, and hears no signal but the last."""

    def forward(self, x):
        if os.environ.get("TEMPOGRAD_TEST_DRIVER") != str(os.getpid()) and bool((x > FAR).any()):
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            time.sleep(LONGEST)
        return super().forward(x)


class Dies(Net):
    """Ends the process of a worker at the series of the second file, as the system does for want of memory."""

    def forward(self, x):
        if os.environ.get("TEMPOGRAD_TEST_DRIVER") != str(os.getpid()) and bool((x > FAR).any()):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(x)


def series(count=SERIES):
    return torch.randn(SERIES, TIME, CHANNELS, generator=torch.Generator().manual_seed(0))[:count]


def write_series(folder, count=SERIES, *, far=False):
    x = series(count)
    if far:
        x[ROWS : 2 * ROWS, 0, 0] = FAR + 10
    rows = pa.array(x.tolist(), pa.list_(pa.list_(pa.float32())))
    pq.write_table(pa.table({"id": np.arange(count), "x": rows}), folder / "in.parquet", row_group_size=ROWS)


def explain(folder, out=None, model=Net, **options):
    return tg.explain_dataset(
        model(), folder / "in.parquet", out or folder / "out", fragment=ROWS, **SETTINGS, **options
    )


# What is seen of a folder


def states(out):
    """Return what tells a finished file from another of its name: its place, its times, its bytes."""
    return {
        name: (*_stamp(out / name), hashlib.sha256((out / name).read_bytes()).hexdigest())
        for name in sorted(finished(out))
    }


def count_of(out):
    """Return how many fragments are finished."""
    return sum(name.startswith("summary/") for name in finished(out))


def results(out):
    """Return all files of results, finished or not: each has its name once it is whole."""
    return [path for table in TABLES for path in (out / table).glob("*.parquet")]


def _stamp(path):
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def is_whole(path):
    """Tell whether a file is one of results, with all its rows, or a driver at least of each."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            keys = file.read(["key"])["key"].to_pylist()
            return len(set(keys)) == ROWS and (len(keys) == ROWS or path.parent.name == "drivers")
    except (OSError, pa.ArrowInvalid):
        return False


@contextmanager
def watched(out):
    """Open every file as soon as it is seen, and whenever it is another one; yields those that were not whole."""
    seen, torn, end = {}, [], threading.Event()

    def watch():
        while not end.is_set():
            for path in results(out):
                stamp = _stamp(path)
                if seen.get(path) != stamp:
                    seen[path] = stamp
                    if not is_whole(path):
                        torn.append(path.name)
            time.sleep(0.001)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield torn
    finally:
        end.set()
        thread.join(30)
    assert torn == []
    assert len(seen) > 0


def leftovers(out):
    return [str(path.relative_to(out)) for path in out.rglob(".tempograd-*")]


def assert_as_one_call(out, count=SERIES):
    """Complete, distinct, and every number that of one call of :func:`tempograd.explain`."""
    run = tg.open_run(out)
    rows, cells = (table_of(run, table).sort_by("id") for table in ("summary", "cells"))
    whole = tg.explain(Net(), series(count), **SETTINGS)
    for table in (rows, cells):
        assert table.column("id").to_pylist() == list(range(count))
    for name in ("values", "standard_error", "ess"):
        found = np.array(cells.column(name).to_pylist(), dtype=np.float32)
        np.testing.assert_array_equal(found, getattr(whole, name).flatten(1).numpy())
    assert rows.column("target").to_pylist() == whole.target.tolist()
    drivers = table_of(run, "drivers").to_pylist()
    assert sorted((row["id"], row["rank"]) for row in drivers) == [
        (row, rank + 1) for row in range(count) for rank in range(len(drivers_of(whole, row)))
    ]
    assert [len(run.files(table)) for table in TABLES] == [count // ROWS] * 3
    assert {str(path) for path in results(out)} == {path for table in TABLES for path in run.files(table)}
    assert list(out.glob("_tempograd/staged/*")) == []
    assert (run.summary()["left"], run.summary()["failed"], run.summary()["faults"]) == (0, 0, 0)
    assert leftovers(out) == []


# Processes


class Child:
    """A process that explains, forked from one that has everything loaded; what it says is in its log."""

    def __init__(self, number, log):
        self.pid, self.log = number, log

    @property
    def said(self):
        """What its workers told, and then its own words."""
        files = [path for path in (self.log.parent / WORKERS, self.log) if path.exists()]
        return [line for path in files for line in path.read_text().splitlines()]

    def kill(self):
        kill(self.pid)
        wait_until(lambda: not is_alive(self.pid), 30, "the process is killed")

    def finish(self):
        """Wait until it ends by itself, and see that it ended well."""
        assert self.last_words() == DONE, "\n".join(self.said)[-3000:]

    def last_words(self):
        """Wait until it ends by itself, and return what it said last."""
        wait_until(lambda: not is_alive(self.pid), LONGEST, f"the process ends: {self.log}")
        return self.said[-1]


class Nursery:
    """Starts processes that explain: a process with everything loaded that does nothing but fork."""

    def __init__(self):
        self.parent = _program("nursery")

    def ask(self, *words):
        print(*words, file=self.parent.stdin, flush=True)
        return self.parent.stdout.readline().strip()

    @contextmanager
    def started(self, folder, engine, **env):
        """Start a process; nothing of it is left afterwards."""
        log = folder / f"{time.monotonic_ns()}.log"
        told = " ".join(f"{name}={value}" for name, value in env.items())
        child = Child(int(self.ask(folder, engine, log, told)), log)
        try:
            yield child
        finally:
            child.kill()
            wait_until(lambda: not any(map(is_alive, numbers(child.said))), 60, "its workers are gone")

    def close(self):
        _end(self.parent)


class RayCluster:
    """A cluster of a head and a node, of one core each."""

    def __init__(self):
        self.place = tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True)  # short: for sockets
        self.parent = _program("cluster", RAY_TMPDIR=self.place.name)
        self.address = self._told("address")
        self.node = 0

    def _told(self, what):
        line = "."
        while line and not line.startswith(what):
            line = self.parent.stdout.readline()
        assert line, "the cluster could not be started"
        return line.split()[1]

    def with_node(self):
        """See that there are two nodes, and return what a driver has to know."""
        if not is_alive(self.node):
            print("node", file=self.parent.stdin, flush=True)
            self.node = int(self._told("node"))
        return {"RAY_ADDRESS": self.address, "RAY_TMPDIR": self.place.name}

    def kill_node(self):
        """Kill the raylet with all that it started, as when a machine is gone."""
        children = [each for each in map(_parent, Path("/proc").glob("[0-9]*")) if each[1] == self.node]
        for number in (self.node, *(child for child, _ in children)):
            kill(number)
        wait_until(lambda: not is_alive(self.node), 30, "the node is killed")

    def close(self):
        _end(self.parent)
        self.place.cleanup()


def _program(kind, **env):
    env = os.environ | {"PYTHONPATH": PATH, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"} | env
    words = [sys.executable, "-m", "tests.bulk.killed", kind]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(words, cwd=ROOT, env=env, text=True, **pipes)


def _end(parent):
    parent.stdin.close()
    try:
        parent.wait(60)
    finally:
        parent.kill()
        parent.stdout.close()


def _parent(path):
    with suppress(OSError):
        lines = (path / "status").read_text().splitlines()
        return int(path.name), next(int(line.split()[1]) for line in lines if line.startswith("PPid"))
    return 0, 0


def numbers(said, what=""):
    """Return the processes that were told, all or those of a kind."""
    return [int(line.split()[1]) for line in said if line.startswith(what or KINDS)]


def is_alive(number):
    with suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{number}/status").read_text()
    return False


def wait_until(ready, seconds, what, child=None):
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, f"it hangs: not so after {seconds} s: {what}"
        alive = child is None or is_alive(child.pid)
        assert alive or ready(), f"it ended before {what}: {child.said[-20:]}"
        time.sleep(0.002)


def wait_for_files(out, count, child):
    there = lambda: len(list(out.glob("summary/*.parquet"))) >= count  # noqa: E731
    wait_until(there, LONGEST, f"{count} files are there", child)


def kill(number):
    with suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)


# The process itself


def run_and_tell(fragment):
    """Do what a process of the pool does, and say which one it is."""
    tell_worker("process", fragment)
    return WORK["process"](fragment)


def run_on_ray_and_tell(sent, fragment):
    """Do the same as a task of Ray, whose output is not that of the run."""
    tell_worker("actor", fragment)
    return WORK["actor"](sent, fragment)


WORK = {"process": engines._run_here, "actor": engines._run_on_ray}


def tell_worker(kind, fragment):
    """Write the number of a worker into a file beside the series, as soon as it works."""
    if fragment is not None:
        with (Path(fragment.paths[0]).parent / WORKERS).open("a") as file:
            file.write(f"{kind} {os.getpid()}\n")


def run_nursery():
    """Fork a process for every line: its folder, engine, log and environment."""
    import ray  # noqa: F401  # loaded once, for all
    from ray.util import state  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for line in sys.stdin:
        folder, engine, log, *env = line.split()
        number = os.fork()
        if not number:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            work(folder, engine, log, env)
        print(number, flush=True)  # noqa: T201


def work(folder, engine, log, env):
    """Explain in a process that was forked, and end it."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for place in (1, 2):
        os.dup2(handle, place)
    os.environ |= dict(pair.split("=", 1) for pair in env)
    engines._run_here, engines._run_on_ray = run_and_tell, run_on_ray_and_tell
    code = 1
    try:
        explain(Path(folder), **_options(engine))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        if not code:
            print(DONE, flush=True)  # noqa: T201
        os._exit(code)


def _options(engine):
    """Return how a process explains: on an engine, perhaps by workers that hang or die."""
    kind, _, trouble = engine.partition("-")
    options = {"none": {}, "processes": {"workers": 2}, "ray": {"engine": "ray", "workers": 1 if trouble else 2}}[
        kind
    ]
    os.environ["TEMPOGRAD_TEST_DRIVER"] = str(os.getpid())
    if trouble == "dies":
        options |= {"model": Dies, "workers": 2}
    if trouble == "hangs":
        options |= {"model": Hangs, "timeout": 5.0}
    return options


def run_cluster():
    """Start a head, and another node for every line; of one core each."""
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    print("address", cluster.address, flush=True)  # noqa: T201
    for _ in sys.stdin:
        node = cluster.add_node(**small)
        print("node", node.all_processes["raylet"][0].process.pid, flush=True)  # noqa: T201
    cluster.shutdown()


if __name__ == "__main__":
    from tests.bulk import killed  # where other processes find the network

    torch.set_num_threads(1)
    {"nursery": killed.run_nursery, "cluster": killed.run_cluster}[sys.argv[1]]()
