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


class Fragment(NamedTuple):
    """What a process does of a fragment: a folder for notes, how often it dies, and how long it takes."""

    name: str
    path: str
    start: int = 0
    stop: int = 0

    def apart(self):
        """It is of one file."""
        return [self]


def enter(_sent, _number):
    """Start, without a model."""


def run(fragment):
    """Do a fragment."""
    if fragment is None:
        return None
    folder, name, deaths = Path(fragment.path), fragment.name, fragment.start
    sign, note = folder / f"{name}.running", folder / f"{name}.tries"
    others = len(list(folder.glob("*.running")))
    with note.open("a") as file:
        file.write(f"{others}\n")
    if len(note.read_text().split()) <= deaths:
        time.sleep(0.05)  # the others are at work
        os.kill(os.getpid(), signal.SIGKILL)
    sign.touch()
    time.sleep(0.02 + 0.01 * (fragment.stop % 5))
    sign.unlink()
    return Done(name)
