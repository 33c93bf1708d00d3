"""A disk that is full or read-only stops a run with one sentence; with room again the same call goes on."""

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tempograd as tg
from tests.bulk.disks import attempt
from tests.bulk.killed import (
    LONGEST,
    PATH,
    ROOT,
    ROWS,
    assert_as_one_call,
    count_of,
    explain,
    is_whole,
    results,
    states,
    write_series,
)

SPACE = ["unshare", "--mount", "--map-root-user"]


REASONS = {"full": "No space left on device", "read-only": "Read-only file system"}


@pytest.mark.parametrize(("first", "turns"), [(0, 1), (1, 20)])
@pytest.mark.slow  # the test below has disks that are full from any step on
def test_real_disks(first, turns, tmp_path):
    if not shutil.which("unshare") or subprocess.run([*SPACE, "true"], check=False).returncode:
        pytest.skip("this system lets nobody mount anything")
    write_series(tmp_path)
    done = subprocess.run(
        [*SPACE, sys.executable, "-m", "tests.bulk.disks", str(tmp_path), str(first), str(turns)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": PATH, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=turns * LONGEST,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for kind, seen in json.loads(done.stdout).items():
        assert len(seen) == turns
        for found in seen:
            for said in (found["said"], found["said_again"]):
                assert REASONS[kind] in said
                assert len(said) < 300
            assert (found["torn"], found["left"], found["said_with_room"]) == ([], [], "")
            assert found["untouched"]
        assert turns == 1 or len({found["files"] for found in seen}) > 3  # at different moments


class Full:
    """A disk that takes nothing from some step on; the steps are counted."""

    def __init__(self, monkeypatch):
        self.step, self.last = 0, None
        for home, name in (
            (tempfile, "mkdtemp"),
            (os, "fsync"),
            (os, "replace"),
            (Path, "replace"),
            (Path, "write_text"),
            (pq.ParquetWriter, "__init__"),
            (pq.ParquetWriter, "write_table"),
            (pq.ParquetWriter, "close"),
        ):
            monkeypatch.setattr(home, name, self.counted(getattr(home, name)))

    def counted(self, real):
        def step(*args, **options):
            self.step += 1
            if self.last is not None and self.step > self.last:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args, **options)

        return step


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # writers are closed once more
def test_a_disk_that_is_full_from_any_step_on(tmp_path, monkeypatch):
    """A run of two files; whatever step it stops at, the next call goes on."""
    count = 2 * ROWS
    write_series(tmp_path, count)
    full = Full(monkeypatch)
    explain(tmp_path)
    steps, stopped = full.step, 0
    assert steps > 20
    for last in range(0, steps, 3):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        full.step, full.last = 0, last
        said = attempt(tmp_path, tmp_path / "out")
        stopped += bool(said)
        assert "No space left on device" in said or count_of(tmp_path / "out") == 2
        full.last = None
        assert all(map(is_whole, results(tmp_path / "out")))
        before = states(tmp_path / "out")
        if last % 6 == 0:
            explain(tmp_path)
            assert before.items() <= states(tmp_path / "out").items()
        if last % 6 == 0 or not said:
            assert_as_one_call(tmp_path / "out", count)
    assert stopped >= steps // 3 - 1  # what fails once all is written costs nothing


def test_a_folder_under_a_file_is_refused_first(tmp_path):
    """Nobody can write there, root neither."""
    write_series(tmp_path)
    (tmp_path / "out").write_text("a file")
    with pytest.raises(tg.TempogradError, match="out is neither a run nor empty: name a new folder"):
        explain(tmp_path)
    with pytest.raises(tg.TempogradError, match="cannot be written: Not a directory"):
        explain(tmp_path, tmp_path / "out" / "run")
    assert (tmp_path / "out").read_text() == "a file"
