"""Whoever kills a command loses nothing, sees nothing half-written, and the next run tidies up."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow  # core/test_write_faults.py stops writers at each of their steps
@pytest.mark.parametrize("kills", [8, 500])
def test_kills_at_random_moments(tmp_path, kills, capsys):
    program = Path(__file__).with_name("killing.py")
    done = subprocess.run(
        [sys.executable, program, tmp_path, str(kills), "0"],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    with capsys.disabled():
        if kills > 100:
            print(f"\n{found['figures']}")  # noqa: T201  # what was done, for the record
    assert found["faults"] == []
    assert sum(figure["kills"] for figure in found["figures"].values()) == kills
