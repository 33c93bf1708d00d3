"""The way through a run's fragments: those that are left, faults, and how far it is."""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempograd.bulk.engines import Attempt
from tempograd.bulk.folder import kept_reason
from tempograd.bulk.repeats import keys_of, refusal, refuse_repeats, refuse_two_kinds
from tempograd.bulk.run_plan import RunPlan
from tempograd.bulk.runs import Run
from tempograd.core.errors import LONGEST, DataError, WarningCounts, arg, one_line
from tempograd.core.progress import Advance, progress_bar
from tempograd.data.fragments import Fragment

Attempts = Callable[[Iterable[Fragment], Callable[[int], None]], Iterator[Attempt]]  # and who hears of progress
FEWEST = 10_000  # series before which a share of faults says nothing, where nobody knows how many will come


class Progress(NamedTuple):
    """How far a run is.

    Attributes
    ----------
    done, total : int
        Series, with those that were done before; ``total`` is None where nobody knows it.
    faults : int
        Series that could not be explained since the start.
    seconds, per_second : float
        Since the start, and series per second since then.
    left : float, optional
        Seconds that the rest will take.
    """

    done: int
    total: int | None
    faults: int
    seconds: float
    per_second: float
    left: float | None


class Driving:
    """Goes through the fragments that are left, counts faults, and shows how far it is."""

    def __init__(self, plan: RunPlan, max_faults: float, progress: Callable[[Progress], object] | None) -> None:
        self.plan, self.folder, self.max_faults, self.progress = plan, plan.folder, max_faults, progress
        self.fragments: dict[str, int | None] = {}
        self.before = self.done = self.faults = self.shown = 0
        self.first_fault, self.failed = "", list[Attempt]()
        self.warnings = WarningCounts()
        self.advance: Advance
        self.compared: tuple[Path, NDArray[np.int64]] | None = None  # a file of results, and its keys

    def drive(self, attempts: Attempts) -> Run:
        plan, there = self.plan, self.folder.done()
        self.folder.forget_failures()
        if not plan.streamed:
            self.fragments = {fragment.name: fragment.rows for fragment in plan.fragments}
            self.before = sum(rows or 0 for name, rows in self.fragments.items() if name in there)
            self.folder.write("fragments.json", self.fragments)
            self.folder.retire(plan.fragments)
        waiting = self._waiting(there)
        self.start = time.monotonic()
        with progress_bar(None if plan.total is None else plan.total - self.before, "explain") as self.advance:
            for attempt in attempts(waiting, self._tell):
                self._note(attempt)
        if plan.streamed:
            self.folder.write("fragments.json", self.fragments)
            self.folder.retire(Fragment(name, "memory", "", "") for name in self.fragments)
        return self._finish()

    def _waiting(self, there: set[str]) -> Iterator[Fragment]:
        for fragment in self.plan.fragments:
            self.fragments[fragment.name] = fragment.rows
            if fragment.name not in there:
                yield fragment

    def _tell(self, rows: int) -> None:
        """Show that some series of a fragment are explained, before all of them are."""
        if self.progress is not None:  # who hears of whole fragments
            return
        self.shown += rows
        self.advance(rows, self._rate(self.done + self.shown))

    def _rate(self, done: int) -> str:
        faults = f", {self.faults:,} without an explanation" if self.faults else ""
        return f"{done / max(time.monotonic() - self.start, 1e-9):,.0f} series/s{faults}"

    def _note(self, attempt: Attempt) -> None:
        outcome = attempt.outcome
        if outcome is None:
            self.failed.append(attempt)
            self.folder.note_failure(attempt.fragment, attempt.error)
            return
        self.done, self.faults = self.done + outcome.rows, self.faults + outcome.faults
        self.first_fault = self.first_fault or outcome.first_fault
        for text, times in outcome.warnings:
            self.warnings.add(text, times)
        total, seconds = self.plan.total, time.monotonic() - self.start
        if self.progress is None:
            self.advance(outcome.rows - self.shown, self._rate(self.done))
        else:
            done, rate = self.before + self.done, self.done / seconds if seconds else 0.0
            left = None if total is None or not rate else max(0.0, (total - done) / rate)
            self.progress(Progress(done, total, self.faults, seconds, rate, left))
        self.shown = 0
        self._compare(self.folder.path(attempt.fragment.name))
        if self.faults > self.max_faults * (max(self.done, FEWEST) if total is None else total):
            self._stop(self.done, self.faults)

    def _compare(self, path: Path) -> None:
        """Refuse a file whose ids are of another kind than those of the first one, or are the same ones.

        All are compared with each other at the end: their keys would not fit into memory.
        """
        keys = keys_of(path)
        if self.compared is None:
            self.compared = path, keys
        refuse_two_kinds(sorted({self.compared[0], path}))
        both = np.intersect1d(self.compared[1], keys, assume_unique=True)
        if len(both) and path != self.compared[0]:
            raise refusal([self.compared[0], path], int(both[0]))

    def _stop(self, rows: int, faults: int) -> None:
        told = (
            f"The first: {one_line(self.first_fault, 150)}" if self.first_fault else f"{arg:run.faults} tells why."
        )
        raise DataError(
            f"{faults:,} of {rows:,} series could not be explained, more than "
            f"{arg:run.max_faults={self.max_faults:g}} allows; what is done stays. {told}",
            code="run.faults",
        )

    def _finish(self) -> Run:
        run = Run(self.folder)
        for text, times in self.warnings.items():
            self.plan.warned.add(text, times)
        self.plan.warned.say()
        if self.failed:
            told = (
                f"{len(self.failed)} of {len(self.fragments)} fragments failed three times, and the others are "
                f"done; {arg:run.failures} tells more. The first: "
            )
            said = one_line(kept_reason(self.failed[0].error), LONGEST - len(told))
            raise DataError(told + said, code="run.faults")
        summary = run.summary()
        if summary["faults"] > self.max_faults * summary["series"]:
            self._stop(summary["series"], summary["faults"])
        refuse_repeats(run.files, summary["series"])
        return run
