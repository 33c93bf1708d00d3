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
from tests.bulk.killed import (
    LONGEST,
    PATH,
    ROOT,
    assert_as_one_call,
    explain,
    is_whole,
    leftovers,
    states,
    write_series,
)
from tests.bulk.test_kills import turns

SPACE = ["unshare", "--mount", "--map-root-user"]


@pytest.mark.parametrize(
    ("kind", "reason"), [("full", "the disk is full"), ("read-only", "the file system is read-only")]
)
@turns
def test_a_real_disk(kind, reason, turn, tmp_path):
    if not shutil.which("unshare") or subprocess.run([*SPACE, "true"], check=False).returncode:
        pytest.skip("this system lets nobody mount anything")
    write_series(tmp_path)
    done = subprocess.run(
        [*SPACE, sys.executable, "-m", "tests.bulk.disks", kind, str(tmp_path), str(turn)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": PATH, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for said in (found["said"], found["said_again"]):
        assert reason in said
        assert len(said) < 300
    assert (found["torn"], found["left"], found["said_with_room"], found["untouched"]) == ([], [], "", True)


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


def test_a_disk_that_is_full_from_any_step_on(tmp_path, monkeypatch):
    """Over all steps of the beginning, of two files, and of the end."""
    write_series(tmp_path)
    full = Full(monkeypatch)
    whole = explain(tmp_path)
    steps, said = full.step, set()
    a_file = steps // len(whole.files)
    begin = steps - a_file * len(whole.files)
    assert a_file >= 5
    for last in [*range(begin + 2 * a_file), *range(steps - a_file, steps)]:
        shutil.rmtree(tmp_path / "out")
        full.step, full.last = 0, last
        with pytest.raises(tg.TempogradError, match="the disk is full") as caught:
            explain(tmp_path)
        said.add(type(caught.value).__name__)
        full.last = None
        assert all(map(is_whole, (tmp_path / "out" / "data").glob("*.parquet")))
        if last % 7 == 0:
            before = states(tmp_path / "out")
            explain(tmp_path)
            assert before.items() <= states(tmp_path / "out").items()
            assert_as_one_call(tmp_path / "out")
    assert said == {"OutputError"}
    assert leftovers(tmp_path / "out") == []


def test_a_folder_under_a_file_is_refused_first(tmp_path):
    """Nobody can write there, root neither."""
    write_series(tmp_path)
    (tmp_path / "out").write_text("a file")
    with pytest.raises(tg.TempogradError, match="out is a file: results go to a folder"):
        explain(tmp_path)
    with pytest.raises(tg.TempogradError, match="no folder that can be written to"):
        explain(tmp_path, tmp_path / "out" / "run")
    assert (tmp_path / "out").read_text() == "a file"
