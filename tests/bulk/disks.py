"""Runs on small disks of their own: ``python -m tests.bulk.disks FOLDER SEED TURNS``, by one who may mount.

The disk fills up, or becomes read-only at a random moment; then there is room again, and the same call is made
again. What was seen of either kind is printed as JSON.
"""

import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch

import tempograd as tg
from tests.bulk.killed import assert_as_one_call, explain, is_whole, leftovers, results, states

LARGE = "size=64m"
PAGE = 4096  # bytes, of which a file takes whole ones


def mount(disk, options):
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], check=True)


def remount(disk, options):
    words = ["mount", "-o", f"remount,{options}", disk]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0


def attempt(folder, out):
    """Return the sentence with which a run stops."""
    try:
        explain(folder, out)
    except tg.TempogradError as error:
        return str(error)
    return ""


def needed(folder):
    """Return the bytes of a whole run."""
    explain(folder, folder / "whole")
    files = [path for path in (folder / "whole").rglob("*") if path.is_file()]
    return sum(-(-path.stat().st_size // PAGE) * PAGE for path in files)


def fill_up(draw, folder, disk):
    """Explain on a disk that is too small."""
    mount(disk, f"size={int(draw.uniform(0.1, 0.9) * needed(folder))}")
    return attempt(folder, disk / "out")


def protect(draw, folder, disk):
    """Make the disk read-only, as soon as nothing is open for writing from a random moment on."""
    mount(disk, LARGE)
    count, wait = draw.randint(1, 12), draw.uniform(0, 0.1)

    def change():
        while len(states(disk / "out")) < count:
            time.sleep(0.001)
        time.sleep(wait)
        while not remount(disk, "ro"):
            time.sleep(draw.uniform(0, 0.01))

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    said = attempt(folder, disk / "out")
    thread.join(60)
    return said


KINDS = {"full": fill_up, "read-only": protect}


def one_turn(kind, draw, folder, disk):
    disk.mkdir()
    said = KINDS[kind](draw, folder, disk)
    out = disk / "out"
    before = states(out)
    found = {
        "said": said,
        "files": len(before),
        "torn": [path.name for path in results(out) if not is_whole(path)],
        "said_again": attempt(folder, out),
        "left": [] if kind == "read-only" else leftovers(out),  # nothing can be swept there
    }
    assert remount(disk, f"rw,{LARGE}")
    found["said_with_room"] = attempt(folder, out)
    after = states(out)
    found["untouched"] = {name: after[name] for name in before} == before
    assert_as_one_call(out)
    subprocess.run(["umount", disk], check=True)
    return found


def main(folder, first, turns):
    torch.set_num_threads(1)
    folder, seeds = Path(folder), range(int(first), int(first) + int(turns))
    found = {
        kind: [one_turn(kind, random.Random(seed), folder, folder / f"{kind}{seed}") for seed in seeds]
        for kind in KINDS
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    from tests.bulk import disks

    disks.main(*sys.argv[1:])
