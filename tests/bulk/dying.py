"""What the processes of test_lost_workers.py do, which load nothing: sleep, die, and tell who ran meanwhile."""

import os
import signal
import time
from pathlib import Path
from typing import NamedTuple


class Done(NamedTuple):
    """What became of a fragment."""

    name: str
    seconds: float = 0.0


def enter(_folder, _device, _sent):
    """Start, without a model."""


def run(plain):
    """Do a fragment, whose path is a folder for notes and whose origin tells how often it dies."""
    folder, name, deaths = Path(plain["path"]), plain["name"], plain["start"]
    sign, note = folder / f"{name}.running", folder / f"{name}.tries"
    others = len(list(folder.glob("*.running")))
    with note.open("a") as file:
        file.write(f"{others}\n")
    if len(note.read_text().split()) <= deaths:
        time.sleep(0.05)  # the others are at work
        os.kill(os.getpid(), signal.SIGKILL)
    sign.touch()
    time.sleep(0.02 + 0.01 * (plain["stop"] % 5))
    sign.unlink()
    return Done(name)
