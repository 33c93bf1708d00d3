"""What the kill tests run and look at: ``python -m tests.bulk.killed FOLDER ENGINE`` explains 240 series.

It tells the processes that can be killed, one to a line, and what may be killed with them. The series are small, so
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
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import nn

import tempograd as tg

ROOT = Path(__file__).parents[2]
SERIES, TIME, CHANNELS, ROWS = 240, 6, 2, 10
FILES = SERIES // ROWS
SETTINGS = {"n_samples": 10, "seed": 3}
LONGEST = 240  # seconds, after which something hangs
PAUSE = float(os.environ.get("TEMPOGRAD_TEST_PAUSE", "0"))  # seconds that a pass takes longer
KINDS = ("actor", "node", "process")  # of processes, as they are told
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


def series():
    return torch.randn(SERIES, TIME, CHANNELS, generator=torch.Generator().manual_seed(0))


def write_series(folder):
    rows = pa.array(series().tolist(), pa.list_(pa.list_(pa.float32())))
    pq.write_table(pa.table({"id": np.arange(SERIES), "x": rows}), folder / "in.parquet", row_group_size=ROWS)


def explain(folder, out=None, **options):
    return tg.explain_dataset(
        Net(), folder / "in.parquet", out or folder / "out", fragment=ROWS, **SETTINGS, **options
    )


# What is seen of a folder


def states(out):
    """Return what tells a finished file from another of its name: its place, its times, its bytes."""
    return {
        path.name: (*_stamp(path), hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted((out / "data").glob("*.parquet"))
    }


def _stamp(path):
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def is_whole(path):
    """Tell whether a file is one of results, with all its rows and its footer."""
    try:
        with pq.ParquetFile(path) as file:
            return len(file.read()) == ROWS and b"tempograd" in file.metadata.metadata
    except (OSError, pa.ArrowInvalid):
        return False


@contextmanager
def watched(out):
    """Open every file as soon as it is seen, and whenever it is another one; yields those that were not whole."""
    seen, torn, end = {}, [], threading.Event()

    def watch():
        while not end.is_set():
            for path in (out / "data").glob("*.parquet"):
                stamp = _stamp(path)
                if seen.get(path.name) != stamp:
                    seen[path.name] = stamp
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


def assert_as_one_call(out):
    """Complete, distinct, and every number that of one call of :func:`tempograd.explain`."""
    run = tg.open_run(out)
    rows = pa.concat_tables([pq.read_table(path) for path in run.files]).sort_by("id")
    assert rows.column("id").to_pylist() == list(range(SERIES))
    whole = tg.explain(Net(), series(), **SETTINGS)
    for name in ("values", "standard_error", "ess"):
        found = np.array(rows.column(name).to_pylist(), dtype=np.float32)
        np.testing.assert_array_equal(found, getattr(whole, name).flatten(1).numpy())
    assert rows.column("target").to_pylist() == whole.target.tolist()
    assert len(run.files) == FILES
    assert (run.summary()["left"], run.summary()["failed"], run.summary()["faults"]) == (0, 0, 0)
    assert leftovers(out) == []


# Processes


@contextmanager
def started(folder, engine):
    """Start a process that explains; yields it and the lines that it has said. Nothing of it is left afterwards."""
    words = [sys.executable, "-m", "tests.bulk.killed", str(folder), engine]
    env = os.environ | {"PYTHONPATH": PATH, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    with (
        tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as place,  # Ray needs a short name
        (folder / "errors.txt").open("ab") as errors,
        subprocess.Popen(
            # its own clusters: Ray looks for others, and for dead ones, in its folder of temporary files
            words,
            cwd=ROOT,
            env=env | {"RAY_TMPDIR": place},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as child,
    ):
        said = []
        reader = threading.Thread(target=lambda: said.extend(iter(child.stdout.readline, "")), daemon=True)
        reader.start()
        try:
            yield child, said
        finally:
            child.kill()
            child.wait(30)
            wait_until(lambda: not any(map(is_alive, numbers(said))), 60, "its workers are gone")


def numbers(said, what=""):
    """Return the processes that were told, all or those of a kind."""
    return [int(line.split()[1]) for line in list(said) if line.startswith(what or KINDS)]


def is_alive(number):
    with suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{number}/status").read_text()
    return False


def wait_until(ready, seconds, what, child=None):
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, f"it hangs: not so after {seconds} s: {what}"
        assert child is None or child.poll() is None or ready(), f"it ended before {what}"
        time.sleep(0.002)


def wait_for_files(out, count, child):
    there = lambda: len(list((out / "data").glob("*.parquet"))) >= count  # noqa: E731
    wait_until(there, LONGEST, f"{count} files are there", child)


def kill(number):
    with suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)


def kill_node(number):
    """Kill a node of Ray: its raylet with all that it started, as when a machine is gone."""
    children = [each for each in map(_parent, Path("/proc").glob("[0-9]*")) if each[1] == number]
    for each in (number, *(child for child, _ in children)):
        kill(each)


def _parent(path):
    with suppress(OSError):
        lines = (path / "status").read_text().splitlines()
        return int(path.name), next(int(line.split()[1]) for line in lines if line.startswith("PPid"))
    return 0, 0


def finished(child, folder):
    """Wait until a process ends by itself, and see that it ended well."""
    try:
        code = child.wait(LONGEST)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"it hangs: {(folder / 'errors.txt').read_text()[-2000:]}") from None
    assert code == 0, (folder / "errors.txt").read_text()[-2000:]


# The process itself


def tell_workers():
    """Say the processes of actors and of the pool, as soon as they work."""
    from tempograd.bulk.engines import Processes
    from tempograd.bulk.on_ray import RayActors

    came, known = RayActors._came, set()

    def come_and_tell(self, handle):
        found = came(self, handle)
        for actor in set(self.free) - known:
            known.add(actor)
            print("actor", self.ray.get(actor.__ray_call__.remote(lambda _: os.getpid())))  # noqa: T201
        return found

    RayActors._came = come_and_tell
    ask = Processes.submit

    def ask_and_tell(self, fragment):
        handle = ask(self, fragment)
        for number in set(self.pool._processes) - known:
            known.add(number)
            print("process", number)  # noqa: T201
        return handle

    Processes.submit = ask_and_tell


def start_cluster():
    """Start a head and another node of one core each, and say which process the other is."""
    import ray
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=small)
    small.pop("include_dashboard")
    node = cluster.add_node(**small)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    print("node", node.all_processes["raylet"][0].process.pid)  # noqa: T201
    return cluster


def main(folder, engine):
    torch.set_num_threads(1)
    tell_workers()
    if engine == "cluster":
        start_cluster()
    options = {
        "none": {},
        "processes": {"workers": 2},
        "ray": {"engine": "ray", "workers": 2},
        "cluster": {"engine": "ray", "workers": 2},
    }
    explain(Path(folder), **options[engine])


if __name__ == "__main__":
    from tests.bulk import killed  # where other processes find the network

    killed.main(*sys.argv[1:])
