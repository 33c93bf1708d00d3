"""All kinds of cases of the fuzz suite, with their share of the calls."""

import os
from typing import NamedTuple

from tests.fuzz import calls, commands, doors, files, uses
from tests.fuzz.trials import FAILED, Generator, Outcome, judged


class Kind(NamedTuple):
    """How a case is made, and how many of 1,650 cases are of this kind."""

    make: Generator
    share: int


KINDS = {
    "calls": Kind(calls.call, 650),
    "uses": Kind(uses.use, 300),
    "doors": Kind(doors.door, 250),
    "files": Kind(files.file, 250),
    "commands": Kind(commands.command, 200),
}
SEED = int(os.environ.get("FUZZ_SEED", "0"))
CASE = os.environ.get("FUZZ_CASE", "")
BLOCK = 50  # cases of a test


def counts(total: int) -> dict[str, int]:
    """Return how many cases there are of each kind, of so many in all."""
    whole = sum(kind.share for kind in KINDS.values())
    return {name: -(-total * kind.share // whole) for name, kind in KINDS.items()}


def run(kind: str, seed: int, numbers: range) -> list[tuple[Outcome, str]]:
    """Judge some cases of a kind; return what came of each, and where that is a fault, how to see it again."""
    found = []
    for number in numbers:
        outcome, text = judged(KINDS[kind].make, kind, seed, number)
        again = f"FUZZ_SEED={seed} FUZZ_CASE={kind}:{number} python -m pytest -m slow tests/fuzz/test_fuzz.py"
        found.append((outcome, f"{again}\n  {text}\n  {outcome.said}" if outcome.kind == FAILED else ""))
    return found
