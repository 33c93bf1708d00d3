"""The way through a run's fragments: those that are left, faults, and how far it is."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tempograd._utils.progress import progress_bar
from tempograd.bulk.engines import Attempt
from tempograd.bulk.run_plan import RunPlan
from tempograd.bulk.runs import Run
from tempograd.bulk.sources import Fragment
from tempograd.errors import DataError, WarningCounts, one_line

FEWEST = 10_000  # series before which a share of faults says nothing, where nobody knows how many will come


class Progress(NamedTuple):
    """How far a run is.

    Attributes
    ----------
    done, total : int
        Series; ``total`` is None where nobody knows it.
    faults : int
        Series that could not be explained.
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
        self.names: list[str] = []
        self.done = self.faults = self.computed = 0
        self.first_fault, self.failed = "", list[Attempt]()
        self.warnings = WarningCounts()

    def drive(self, attempts: Callable[[Iterable[Fragment]], Iterator[Attempt]]) -> Run:
        plan, there = self.plan, self.folder.done()
        self.folder.forget_failures()
        if not plan.streamed:
            self.names = [fragment.name for fragment in plan.fragments]
            self.folder.write("fragments.json", self.names)
            self.folder.retire(plan.fragments)
        waiting = self._waiting(there)
        self.start = time.monotonic()
        with progress_bar(plan.total or 1, "explain") as advance:
            for attempt in attempts(waiting):
                self._note(attempt, advance)
        if plan.streamed:
            self.folder.write("fragments.json", self.names)
            self.folder.retire(Fragment(name, "memory", "", "") for name in self.names)
        return self._finish()

    def _waiting(self, there: set[str]) -> Iterator[Fragment]:
        for fragment in self.plan.fragments:
            if self.plan.streamed:
                self.names.append(fragment.name)
            if fragment.name not in there:
                yield fragment

    def _note(self, attempt: Attempt, advance: Any) -> None:
        outcome = attempt.outcome
        if outcome is None:
            self.failed.append(attempt)
            self.folder.note_failure(attempt.fragment, attempt.error)
            return
        self.done, self.faults = self.done + outcome.rows, self.faults + outcome.faults
        self.first_fault = self.first_fault or outcome.first_fault
        self.warnings.update(dict(outcome.warnings))
        seconds = time.monotonic() - self.start
        rate = self.done / seconds if seconds else 0.0
        if self.progress is None:
            advance(outcome.rows, f"{rate:,.0f} series/s")
        else:
            total = self.plan.total
            left = None if total is None or not rate else max(0.0, (total - self.done) / rate)
            self.progress(Progress(self.done, total, self.faults, seconds, rate, left))
        total = self.plan.total
        if self.faults > self.max_faults * (max(self.done, FEWEST) if total is None else total):
            self._stop(self.done, self.faults)

    def _stop(self, rows: int, faults: int) -> None:
        reason = f" The first: {one_line(self.first_fault, 150)}" if self.first_fault else ""
        raise DataError(
            f"{faults:,} of {rows:,} series could not be explained, more than max_faults={self.max_faults:g} "
            f"allows; what is done stays.{reason}"
        )

    def _finish(self) -> Run:
        run = Run(self.folder)
        self.plan.warned.update(self.warnings.plain())
        self.plan.warned.say()
        if self.failed:
            last = self.failed[0].error.strip().rpartition("\n")[2]
            raise DataError(
                f"{len(self.failed)} of {len(self.names)} fragments failed three times, and the others are done; "
                f"open_run(…).failures() tells more. The first: {one_line(last, 150)}"
            )
        summary = run.summary()
        if summary["faults"] > self.max_faults * summary["series"]:
            self._stop(summary["series"], summary["faults"])
        return run
