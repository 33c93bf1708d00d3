"""The judge of the fuzz suite: a call answers rightly or raises one sentence, and leaves everything as it was.

A case is made by a generator from a seed and a number, and from nothing else, so that it can be run again alone.
"""

import hashlib
import os
import random
import re
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from tempograd.core.errors import TempogradError, TempogradWarning

LONGEST = 300  # characters of a message
SECONDS = 60  # after which a call counts as one that never ends; the usual one takes milliseconds
RIGHT, REFUSED, FAILED = "right", "refused", "failed"


class OwnError(Exception):
    """What a user's own function raises, which reaches the user as it is."""


class Endless(BaseException):
    """A call did not end; no ``except Exception`` may hold it up."""


@dataclass
class Case:
    """One call and what may come of it."""

    text: str  # the call in words, for people who have to mend what it finds
    call: Callable[[], Any]
    right: Callable[[Any], str]  # says what is wrong with an answer, nothing where it is right
    may: frozenset[str] = frozenset({RIGHT, REFUSED})  # without one of them: must be refused, must be answered
    watched: tuple[Any, ...] = ()  # models and series that must stay as they are
    leaves: frozenset[str] = frozenset()  # files that an answer leaves in the folder
    own_error: bool = False  # whether a function of the user's may raise
    draws: bool = False  # whether torch's generator may move on, as by a model that draws
    prints: bool = False  # whether anything may be printed


class Outcome(NamedTuple):
    """What came of a case: right, refused or failed, and the sentence or the fault."""

    kind: str
    said: str


Generator = Callable[[random.Random, Path], Case]


def must(*kinds: str) -> frozenset[str]:
    """Return what a case may come to."""
    return frozenset(kinds)


def chance(kind: str, seed: int, number: int) -> random.Random:
    """Return the random numbers of one case; texts give the same ones on every machine."""
    return random.Random(f"{kind} {seed} {number}")


def judged(generator: Generator, kind: str, seed: int, number: int) -> tuple[Outcome, str]:
    """Make a case in a folder of its own, run it, and return what came of it and what it was."""
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder, _in(Path(folder)) as (here, elsewhere):
        try:
            case = _made(generator, chance(kind, seed, number), here)
        except Exception as error:
            return Outcome(FAILED, f"the case was not made: {type(error).__name__}: {str(error)[:300]}"), ""
        before = State.of(case, here, elsewhere)
        outcome = _run(case)
        wrong = State.of(case, here, elsewhere).changed_since(before, case, outcome)
    return Outcome(FAILED, wrong) if wrong and outcome.kind != FAILED else outcome, case.text


def _made(generator: Generator, rng: random.Random, folder: Path) -> Case:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of the odd tensors are prototypes, and say so
        return generator(rng, folder)


def _run(case: Case) -> Outcome:
    out, err = StringIO(), StringIO()
    with warnings.catch_warnings(record=True) as told, redirect_stdout(out), redirect_stderr(err):
        warnings.simplefilter("always")
        outcome = _ended(case)
    if outcome.kind == FAILED:
        return outcome
    for warning in told:
        fault = _fault_of_warning(warning)
        if fault:
            return Outcome(FAILED, fault)
    printed = out.getvalue() + err.getvalue()
    if printed and not case.prints:
        return Outcome(FAILED, f"printed {printed[:200]!r}")
    if outcome.kind not in case.may:
        return Outcome(FAILED, f"{outcome.kind}, which it must not be: {outcome.said}")
    return outcome


def _ended(case: Case) -> Outcome:
    try:
        with _limit():
            answer = case.call()
            wrong = case.right(answer)
    except TempogradError as error:
        fault = sentence(str(error))
        return Outcome(FAILED, fault) if fault else Outcome(REFUSED, str(error))
    except OwnError:
        return (
            Outcome(REFUSED, "the user's own error")
            if case.own_error
            else Outcome(FAILED, "OwnError from nowhere")
        )
    except Endless:
        return Outcome(FAILED, f"no end after {SECONDS} s")
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        return Outcome(FAILED, f"{type(error).__name__} at {_place(error)}: {str(error)[:300]}")
    return Outcome(FAILED, wrong) if wrong else Outcome(RIGHT, "")


def sentence(said: str) -> str:
    """Return what is wrong with a message; nothing where it is one sentence for people."""
    if not 10 < len(said) <= LONGEST:
        return f"a message of {len(said)} characters: {said[:400]!r}"
    if not said.isprintable():
        return f"a message of several lines, or with signs that nobody can read: {said!r}"
    if not said.endswith((".", "?", "…", "!")):
        return f"a message without an end: {said!r}"
    if re.search(r"\b(tensor|array)\(|Traceback", said):
        return f"a message that prints what is no word: {said!r}"
    return ""


def _fault_of_warning(warning: warnings.WarningMessage) -> str:
    said = str(warning.message)
    if not issubclass(warning.category, TempogradWarning):
        return f"a foreign warning: {warning.category.__name__}: {said[:300]}"
    return ""


def _place(error: BaseException) -> str:
    """Return the last line of the library that an error passed."""
    place, frame = "?", error.__traceback__
    while frame is not None:
        name = frame.tb_frame.f_code.co_filename
        if f"{os.sep}tempograd{os.sep}" in name:
            place = f"{name.rpartition(f'tempograd{os.sep}')[2]}:{frame.tb_lineno}"
        frame = frame.tb_next
    return place


@contextmanager
def _limit() -> Iterator[None]:
    """Stop a call that does not end, where the system can."""
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise Endless

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _in(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Work in a folder, and have another one for temporary files, which must stay empty."""
    here, elsewhere = folder / "here", folder / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    before, tempfile.tempdir, there = tempfile.tempdir, str(elsewhere), Path.cwd()
    os.chdir(here)
    try:
        yield here, elsewhere
    finally:
        os.chdir(there)
        tempfile.tempdir = before


@dataclass
class State:
    """What a call must leave as it was."""

    facts: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    temporary: frozenset[str] = frozenset()

    @classmethod
    def of(cls, case: Case, here: Path, elsewhere: Path) -> "State":
        """Return the state as it is now."""
        facts = {
            "grad mode": torch.is_grad_enabled(),
            "default dtype": torch.get_default_dtype(),
            "threads": torch.get_num_threads(),
            "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
            "numpy's error state": tuple(np.geterr().items()),
            "current folder": os.getcwd(),  # noqa: PTH109  # Path.cwd would say the same
            "SIGTERM": signal.getsignal(signal.SIGTERM),
            "SIGINT": signal.getsignal(signal.SIGINT),
            "random numbers of Python": hash(random.getstate()),
            "random numbers of numpy": _digest(np.random.get_state()[1].tobytes()),  # noqa: NPY002  # the global one
            "denormal numbers": float(torch.tensor(1e-41) * 0.5),  # 0 where they are flushed
            "open streams": (sys.stdin, sys.__stdout__, sys.__stderr__),
        }
        if not case.draws:
            facts["random numbers of torch"] = _digest(torch.get_rng_state().numpy().tobytes())
        for number, thing in enumerate(case.watched):
            facts[f"{type(thing).__name__} number {number} of the call"] = _content(thing)
        return cls(facts, _files(here), frozenset(_files(elsewhere)))

    def changed_since(self, before: "State", case: Case, outcome: Outcome) -> str:
        """Return what a call changed that it had no business with."""
        for name, value in before.facts.items():
            if self.facts[name] != value:
                return f"changed: {name}"
        gone = before.files.keys() - self.files.keys()
        if gone:
            return f"files are gone: {sorted(gone)}"
        allowed = case.leaves if outcome.kind == RIGHT else frozenset()
        for name, digest in self.files.items():
            if before.files.get(name) != digest and name not in allowed:
                return f"a file was {'changed' if name in before.files else 'left behind'}: {name}"
        left = self.temporary - before.temporary
        return f"temporary files were left behind: {sorted(left)}" if left else ""


def _files(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if "__pycache__" in path.parts or any(part.startswith("torchinductor_") for part in path.parts):
            continue  # caches of Python and torch
        content = b"folder" if path.is_dir() else path.read_bytes()
        found[path.relative_to(folder).as_posix()] = _digest(content)
    return found


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _content(thing: Any) -> Any:
    """Return what a model, a tensor, an array or plain data holds, so that two looks can be compared."""
    if isinstance(thing, nn.Module):
        weights = [
            (name, _content(tensor), tensor.requires_grad)
            for name, tensor in thing.state_dict(keep_vars=True).items()
        ]
        parts = [
            (
                name,
                part.training,
                len(part._forward_hooks) + len(part._forward_pre_hooks) + len(part._backward_hooks),
            )
            for name, part in thing.named_modules()
        ]
        return weights, parts, [getattr(part, "p", None) for part in thing.modules()]
    if (
        type(thing) in {torch.Tensor, nn.Parameter}
        and thing.layout == torch.strided
        and thing.device.type == "cpu"
    ):
        if thing.is_quantized or thing.is_nested:
            return id(thing)
        flat = thing.detach().resolve_neg().resolve_conj().contiguous().reshape(-1).view(torch.uint8)
        return tuple(thing.shape), str(thing.dtype), thing.requires_grad, _digest(flat.numpy().tobytes())
    if isinstance(thing, np.ndarray):
        return thing.shape, str(thing.dtype), _digest(repr(thing.tolist()).encode())
    if isinstance(thing, (list, tuple)):
        return [id(part) for part in thing]
    return id(thing)
