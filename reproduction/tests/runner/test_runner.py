"""A run can be killed at any moment, and ends with the records of one that was not."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from reproduction.tests.helpers.plans import contents, many_cells, plan
from tempograd.core.errors import DataError
from tempograd_paper.runner import Outcome, Record, run_cells
from tempograd_paper.runner.store import Store

PROGRAM = """
import os, random, signal, sys, time
from pathlib import Path
from reproduction.tests.helpers.plans import many_cells
from tempograd_paper.runner import run_cells

def run(folder, workers=1):
    outcome = run_cells(many_cells(), Path(folder), root=None, device="cpu", workers=workers)
    print(outcome.there, outcome.done, len(outcome.failed), flush=True)

def files(folder):
    walked = os.walk(folder)  # which bears with folders that vanish
    return sum(len(names) for above, _, names in walked if ".tempograd-" not in above)

def kill_ten_times(folder):
    moments = random.Random(0)
    for _ in range(10):
        aim = files(folder) + moments.randint(1, 5)  # a run leaves 70 files
        child = os.fork()
        if not child:
            run(folder)
            os._exit(0)
        while files(folder) < aim:
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        records = sorted(Path(folder, "records").glob("*.safetensors"))
        print(*(f"{path.name}:{path.stat().st_mtime_ns}" for path in records), flush=True)

if __name__ == "__main__":
    if sys.argv[2] == "kill":
        kill_ten_times(sys.argv[1])
    else:
        run(sys.argv[1], int(sys.argv[2]))
"""
CELLS = many_cells()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "run.py"
    path.write_text(PROGRAM)
    return path


def start(program: Path, folder: Path, *arguments: object) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, program, folder, *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen) -> str:
    printed, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return printed


def test_ten_kills_at_random_moments_change_nothing(program, tmp_path):
    whole, often = tmp_path / "whole", tmp_path / "often"
    killing = start(program, often, "kill")
    assert run_cells(CELLS, whole, root=None, device="cpu") == Outcome(0, len(CELLS), {})
    lines = output(killing).splitlines()
    assert len(lines) == 10  # no run came to its end
    seen: dict[str, str] = {}
    for line in lines:
        now = dict(entry.split(":") for entry in line.split())
        assert {name: now.get(name) for name in seen} == seen  # what was recorded was not run again
        seen = now
    assert 0 < len(seen) < len(CELLS)
    assert output(start(program, often, 2)).split() == [str(len(seen)), str(len(CELLS) - len(seen)), "0"]
    for name, stamp in seen.items():
        assert str((often / "records" / name).stat().st_mtime_ns) == stamp
    assert contents(often) == contents(whole)


def test_workers_of_a_killed_run_end_with_it(program, tmp_path):
    process = start(program, tmp_path, 2)
    children: list[int] = []
    deadline = time.monotonic() + 60
    while len(children) < 3 and time.monotonic() < deadline:  # two workers and multiprocessing's tracker
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if not listed.exists():
            pytest.skip("the system does not list the children of a process")
        children = [int(child) for child in listed.read_text().split()]
        time.sleep(0.05)
    process.kill()
    process.wait()
    process.stdout.close()  # a worker that lived on would keep it open
    while any(_alive(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [child for child in children if _alive(child)]
    for child in left:
        os.kill(child, signal.SIGKILL)
    assert len(children) == 3
    assert not left


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_finished_plan_runs_nothing(tmp_path):
    cells = plan(methods=("random",)).cells()
    run_cells(cells, tmp_path, root=None, device="cpu")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    again = run_cells(cells * 2, tmp_path, root=None, device="cpu")
    assert (again.there, again.done, again.failed) == (1, 0, {})
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")} == before


def test_a_failing_cell_leaves_the_others_alone_and_its_traceback_behind(tmp_path):
    good, bad = plan(methods=("random", "rand_ig")).cells()
    bad = replace(bad, settings=(("p", 3.0),))
    outcome = run_cells([bad, good], tmp_path, root=None, device="cpu")
    assert (outcome.there, outcome.done, list(outcome.failed)) == (0, 1, [bad])
    assert "3.0" in outcome.failed[bad]
    assert "Traceback" in (tmp_path / "failures" / f"{bad.key}.txt").read_text()
    assert Record.load(Store(tmp_path).record_path(good)).cell == good
    assert run_cells([bad, good], tmp_path, root=None, device="cpu").there == 1


def test_a_model_that_cannot_be_trained_fails_its_cells_with_the_reason(tmp_path):
    cells = plan(methods=("random", "occlusion"), sizes=(("width", 3),)).cells()
    outcome = run_cells(cells, tmp_path, root=None, device="cpu")
    assert outcome.done == 0
    assert set(outcome.failed) == set(cells)
    assert all("width" in reason for reason in outcome.failed.values())


def test_two_runs_do_not_share_a_folder(tmp_path):
    import fcntl

    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DataError, match="Another run is writing to"):
            run_cells(plan().cells(), tmp_path, root=None, device="cpu")


def test_missing_data_is_found_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.delenv("TEMPOGRAD_DATA", raising=False)
    cells = plan(methods=("random",), datasets=("state", "wafer")).cells()
    with pytest.raises(DataError, match="wafer is read from files"):
        run_cells(cells, tmp_path, root=None, device="cpu")
    assert not (tmp_path / "models").exists()


def test_prepared_data_needs_no_original_files(tmp_path, monkeypatch):
    (cell,) = plan(methods=("random",)).cells()
    store = Store(tmp_path)
    store.prepare(cell, None)
    monkeypatch.setattr("tempograd_paper.runner.store.load_dataset", None)
    assert run_cells([cell], tmp_path, root=None, device="cpu").done == 1
