"""Kills commands at random moments, and tells what they left: ``python killing.py FOLDER KILLS SEED``.

Commands run in children of a process that has everything loaded, so that hundreds of kills take minutes. Half of
them come at any moment of a command, half while it has a scratch folder, which is while it writes.
"""

import contextlib
import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import safetensors
import torch

from reproduction.tests.helpers.plans import PLAN, contents
from tempograd import (
    __main__,
    html_report,  # noqa: F401  # loaded once, for all children
)
from tempograd.core.progress import leave_at_once
from tempograd.explainers import explain
from tempograd.explanation import Explanation
from tempograd.models import build, load_model, save_model
from tempograd_paper import __main__ as paper
from tempograd_paper.runner import (
    reading,
    running,  # noqa: F401
)

GOODBYE = "tempograd: terminated, nothing half-written was left behind.\n"
SCRATCH = ".tempograd-"
AGAIN = 5  # kills of a command, after which it is let run to its end


class Command:
    """A command with a folder for what it writes."""

    def __init__(self, name, folder, words, output):
        self.name, self.folder, self.words = name, folder / name, words
        self.folder.mkdir()
        self.out = self.folder / output
        self.seconds = 0.0

    def argv(self, draw):
        own = {"explain": ["--seed", draw], "train": ["--seed", draw]}
        words = [*self.words, *own.get(self.name, []), "--out", self.out]
        return [self.name, *map(str, words)]

    def start(self, draw):
        """Run the command in a child, and return its number."""
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # until the child writes to its own log
        child = os.fork()
        if child:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            return child
        code = 99
        with contextlib.suppress(BaseException):
            log = os.open(self.folder.with_suffix(".log"), os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
            os.dup2(log, 1)
            os.dup2(log, 2)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            sys.argv = ["tempograd", *self.argv(draw)]
            code = (paper if self.name == "run" else __main__).run_from_shell()
            sys.stdout.flush()
        os._exit(code)

    @property
    def log(self):
        return self.folder.with_suffix(".log").read_text()

    def scratch(self):
        walked = os.walk(self.folder)  # which bears with folders that vanish
        return {Path(above, name) for above, names, _ in walked for name in names if name.startswith(SCRATCH)}

    def files(self):
        return {path for path in self.folder.rglob("*") if path.is_file() and SCRATCH not in str(path)}

    def broken(self):
        """Return the files that are not whole."""
        return [str(path) for path in self.files() if not whole(path)]


def whole(path):
    try:
        return READERS.get(path.name, READERS.get(path.suffix, lambda _: False))(path)
    except Exception:  # whatever it is, the file cannot be read
        return False


def page(path):
    text = path.read_text()
    return text.startswith("<!doctype html>") and text.endswith("</html>\n")


def tensors(path):
    with safetensors.safe_open(path, "pt") as file:
        return all(file.get_tensor(name) is not None for name in file.keys())  # noqa: SIM118


READERS = {
    ".html": page,
    ".json": lambda path: isinstance(json.loads(path.read_text()), dict),
    "E.safetensors": lambda path: bool(Explanation.load(path).values.isfinite().all()),
    "M.safetensors": lambda path: isinstance(load_model(path), torch.nn.Module),
    ".safetensors": tensors,
    ".lock": lambda _: True,
}


def prepare(folder):
    """Write what the commands read, and return the commands."""
    x = torch.randn(30, 60, 2, generator=torch.Generator().manual_seed(0))
    model = save_model(build("gru", 2, 2, hidden=8), folder / "model.safetensors")
    series, plan, stored = folder / "series.npz", folder / "plan.toml", folder / "stored.safetensors"
    np.savez(series, x=x.numpy())
    plan.write_text(PLAN.replace("occlusion", "random"))
    explain(load_model(model), x, "random").save(stored)
    reading.DATASET_LABELS = {"toy": "Toy"}
    on = ["--device", "cpu"]
    explaining = ["--model", model, "--data", series, "--set", "n_samples=8", *on]
    return [
        Command("explain", folder, explaining, "E.safetensors"),
        Command("report", folder, [stored, "--model", model, *on], "R.html"),
        Command("train", folder, ["toy", "--epochs", "2", *on], "M.safetensors"),
        Command("run", folder, [plan, *on], "run"),
    ]


def ended(child):
    found, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def kill(command, draws, number):
    """Start the command, kill it, and return its exit code and whether it was writing."""
    before, seen = command.scratch(), set()
    writing, wanted = draws.random() < 0.5, draws.randint(1, 2 if command.name in {"explain", "train"} else 3)
    wait = draws.uniform(0, 0.004 if writing else 1.05 * command.seconds)
    child, code = command.start(draws.randint(0, 10**6)), None
    while writing and len(seen) < wanted and code is None:
        seen |= command.scratch() - before
        code = ended(child)
    time.sleep(wait)
    if code is None:
        os.kill(child, number)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, bool(command.scratch() - before)


def complaints(command, code, number, had):
    """Return what is wrong after a kill."""
    found = [f"lost {path}" for path in had - command.files()] + [f"broken {path}" for path in command.broken()]
    if number == signal.SIGKILL and code not in (0, -signal.SIGKILL):
        found.append(f"exit code {code}: {command.log}")
    if number == signal.SIGTERM and not (code == 0 or (code == 143 and command.log.endswith(GOODBYE))):
        found.append(f"exit code {code}: {command.log}")
    return [f"{command.name}: {line}" for line in found]


def finish(command, draw, reference):
    """Let the command run to its end, and return what is wrong then."""
    start = time.monotonic()
    code = os.waitstatus_to_exitcode(os.waitpid(command.start(draw), 0)[1])
    command.seconds = command.seconds or time.monotonic() - start
    found = [] if code == 0 else [f"exit code {code} at the end: {command.log}"]
    found += [f"stale {path}" for path in command.scratch()] + [f"broken {path}" for path in command.broken()]
    if command.name == "run":
        records = contents(command.out)
        found += ["other records"] if records != reference.setdefault("records", records) else []
        command.out.rename(command.out.with_name(f"{draw}"))  # the next one starts anew
        for path in sorted(command.folder.glob(f"{draw}/**/*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (command.folder / f"{draw}").rmdir()
    return [f"{command.name}: {line}" for line in found]


def main(folder, kills, seed):
    leave_at_once()  # children start with it, as the program does
    draws, commands = random.Random(seed), prepare(folder)
    inputs = {path: hashlib.sha256(path.read_bytes()).digest() for path in folder.iterdir() if path.is_file()}
    reference, faults = {}, []
    for number, command in enumerate(commands):
        faults += finish(command, number, reference)
    figures = {command.name: {"kills": 0, "too late": 0, "left scratch": 0} for command in commands}
    turn = 0
    while any(figure["kills"] < kills // 4 for figure in figures.values()):
        turn += 1
        command, number = commands[turn % 4], (signal.SIGKILL, signal.SIGTERM)[turn // 4 % 2]
        if figures[command.name]["kills"] >= kills // 4:
            continue
        had = command.files()
        code, left = kill(command, draws, number)
        faults += complaints(command, code, number, had)
        figure = figures[command.name]
        figure["too late" if code == 0 else "kills"] += 1
        figure["left scratch"] += left
        if code and figure["kills"] % AGAIN == 0:
            faults += finish(command, turn, reference)
    for number, command in enumerate(commands):
        faults += finish(command, turn + number + 1, reference)
    changed = [path for path, digest in inputs.items() if hashlib.sha256(path.read_bytes()).digest() != digest]
    faults += [f"input changed: {path}" for path in changed]
    print(json.dumps({"figures": figures, "faults": faults}, indent=1))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
