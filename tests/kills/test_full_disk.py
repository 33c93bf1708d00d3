"""Every command on a real file system that is full or read-only; needs root, or leave to make a name space."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

import tempograd as tg
from reproduction.tests.helpers.plans import PLAN
from tempograd.models import build

COMMANDS = {
    "explain": (" explain --model m.safetensors --data d.npz --method random --out", "E.safetensors"),
    "report": (" report stored.safetensors --model m.safetensors --out", "R.html"),
    "train": (" train switch_feature --epochs 1 --out", "M.safetensors"),
    "bench": ("_paper run plan.toml --out", "run"),
    "demo": (" demo --series 2 --methods timing --epochs 1 --out", "demo"),
    "table": ("_paper table table7 --root . --out", "t.md"),
}
CASES = [(command, disk) for command in COMMANDS for disk in ("full", "read-only", "small")]
CASES.remove(("table", "small"))  # no disk is too small for a table
SIZE = 300  # kilobytes: too little for the results
FULL = SIZE  # where nothing is left
SPACE = ["unshare", "--mount", "--map-root-user"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    if not shutil.which("unshare") or subprocess.run([*SPACE, "true"], check=False).returncode:
        pytest.skip("this system lets nobody mount anything")
    path = tmp_path_factory.mktemp("disk")
    x = torch.randn(600, 60, 2, generator=torch.Generator().manual_seed(0))
    np.savez(path / "d.npz", x=x.numpy())
    model = build("gru", 2, 2, hidden=4)
    tg.save_model(model, path / "m.safetensors")
    tg.explain(model, x, "random").save(path / "stored.safetensors")
    (path / "plan.toml").write_text(PLAN.replace("toy", "switch_feature"))
    return path


def run(folder, words, mount, after=""):
    """Run a command in a name space of its own, in which ``disk`` is a small file system."""
    (folder / "disk").mkdir(exist_ok=True)
    script = f"{mount}\n{sys.executable} -m tempograd{words}\ncode=$?\nls -A disk >&2\n{after}\nexit $code"
    return subprocess.run(
        [*SPACE, "sh", "-c", script],
        cwd=folder,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("command", "disk"), CASES)
def test_a_disk_that_takes_nothing_or_not_enough(folder, command, disk):
    words, out = COMMANDS[command]
    mount = f"mount -t tmpfs -o size={SIZE}k none disk"
    if disk == "full":
        mount += f"; head -c {FULL}k /dev/zero > disk/other"
    elif disk == "read-only":
        mount += "; mount -o remount,ro disk"
    done = run(folder, f"{words} disk/{out}", mount)
    assert done.returncode == 5, done.stderr
    said, *left = done.stderr.splitlines()
    assert said.startswith("tempograd: ")
    assert len(said) <= 320
    assert ("Read-only file system" if disk == "read-only" else "No space left on device") in said
    assert not [name for name in left if name.startswith((".tempograd", "E.", "R.", "M."))]
