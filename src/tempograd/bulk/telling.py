"""What a run is told, and what it tells: a bar on a terminal, elsewhere lines with a time stamp; events."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Self, get_args

import torch

from tempograd.core.errors import LONGEST, OutputError, SettingError, listed, one_line
from tempograd.core.formatting import counted, short_number
from tempograd.core.progress import Advance, clock, progress_bar, say
from tempograd.core.validation import check_choice, check_settings, choice, integer, positive, real, setting
from tempograd.data.files import OWN

LogKind = Literal["text", "json"]
Removed = Literal["keep", "drop", "refuse"]
KeptCells = Literal["all", "top", "none"]
Engine = Literal["ray"]
Event = dict[str, Any]
EVENTS = f"{OWN}/events.jsonl"
EVERY = 60.0  # seconds from line to line
ENOUGH, SHARE = 30.0, 0.02  # seconds, or the share of what is left, after which a forecast makes sense
WORTH = 60.0  # seconds that a rest takes at least that is forecast unasked
HOUR, MEGA = 3600, 1e6
NAMED = 20  # files that an event names

# texts that whoever starts a run wants to find beside what the run is of, by the names of their files
beside: ContextVar[Mapping[str, str] | None] = ContextVar("beside", default=None)


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

    def __str__(self) -> str:
        """Write all of it in one line."""
        total = "" if self.total is None else f" of {self.total:,}"
        pace, left = self.pace if self.per_second else "", f"{clock(self.left)} left" if self.left else ""
        return ", ".join(filter(None, (f"{self.done:,}{total} series", pace, left)))

    @property
    def pace(self) -> str:
        """Return how fast it goes, and how many series have no explanation."""
        rate = f"{self.per_second:,.0f}" if self.per_second >= 10 else short_number(self.per_second)
        return f"{rate} series/s" + (f", {self.faults:,} without an explanation" if self.faults else "")


@dataclass(frozen=True)
class Log:
    """What a run writes to standard error.

    Parameters
    ----------
    kind : {"text", "json"}, optional
        Lines with a time stamp, one a minute, or all events as JSON; by default text where that is no terminal.
    price : float, optional
        Money per hour, for the forecast of what the rest will take.
    """

    kind: LogKind | None = choice(None, LogKind)
    price: float | None = real(None)

    def __post_init__(self) -> None:
        check_settings(self)


def _heard(value: Any, name: str) -> Log | Callable[[Progress], object]:
    """Return a log, of which a text is the kind, or the function that is called instead."""
    known = callable(value) or isinstance(value, Log)
    return value if known else Log(check_choice(value, name, get_args(LogKind), SettingError))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Terms:
    """How a run is made: the arguments of :func:`explain_dataset` that are no part of the question."""

    cells: KeptCells = choice("all", KeptCells)
    removed: Removed = choice("keep", Removed)
    engine: Engine | None = choice(None, Engine)
    workers: int | None = integer(None)
    device: str | torch.device | None = None
    timeout: float | None = positive(None)
    fragment: int = integer(8_192)
    max_faults: float = real(0.01, high=1)
    limit: int | None = integer(None, most=2**63 - 1)
    progress: LogKind | Log | Callable[[Progress], object] | None = setting(None, _heard)


class Telling:
    """What a run tells, from its start to its end.

    Parameters
    ----------
    total, before : int
        Series in all, None where nobody knows it, and those that were done before.
    run : str
        The key of the run.
    append : callable
        Keeps an event.
    terms : Terms
        What is shown: ``progress`` is a :class:`Log`, or called with a :class:`Progress` after each fragment.
    """

    def __init__(
        self, total: int | None, before: int, run: str, append: Callable[[Event], object], terms: Terms
    ) -> None:
        self.total, self.before, self.run = total, before, run
        self.progress = terms.progress if callable(terms.progress) else None
        log = terms.progress if isinstance(terms.progress, Log) else Log()
        self.price, self.hidden = log.price, self.progress is not None
        self.log = log.kind or (None if self.hidden or sys.stderr.isatty() else "text")
        self.append, self.workers, self.forecast_told, self.start = append, 1, False, time.monotonic()
        self.done = self.shown = self.faults = self.bytes = self.fragments = 0
        self.advance: Advance

    def __enter__(self) -> Self:
        self.start = time.monotonic()
        self._tell("begin", str(self.now))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._tell("end", str(self.now))
            return
        why = one_line(str(error), LONGEST) or type(error).__name__
        with suppress(OutputError):  # a full disk is told already
            self._tell("end", f"{self.now}, stopped", reason=why)

    def inputs(self, files: Mapping[str, Sequence[str]]) -> None:
        """Tell which files are new, changed or gone since the last time."""
        parts = [f"{counted(len(some), 'file')} {kind} ({listed(some)})" for kind, some in files.items() if some]
        if parts:
            names = {kind: list(some[:NAMED]) for kind, some in files.items()}
            self._tell("inputs", f"since the last time: {', '.join(parts)}", always=True, **names)

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Show how far it is while the block runs: by a bar, or a line each minute."""
        over, todo = threading.Event(), None if self.total is None else self.total - self.before
        if self.log == "text":
            threading.Thread(target=self.beat, args=(over.wait,), daemon=True).start()
        try:
            with progress_bar(todo, "explain") as self.advance:
                yield
        finally:
            over.set()

    def beat(self, wait: Callable[[float], bool]) -> None:
        """Write a line each time that a wait is not the last."""
        while not wait(EVERY):
            say(f"{_stamp()} {self.now}", sys.stderr)

    @property
    def now(self) -> Progress:
        """Return how far it is."""
        done, seconds = self.done + self.shown, time.monotonic() - self.start
        rate, whole = done / seconds if seconds else 0.0, self.before + done
        left = None if self.total is None or not rate else max(0.0, (self.total - whole) / rate)
        return Progress(whole, self.total, self.faults, seconds, rate, left)

    def tell(self, rows: int) -> None:
        """Hear that some series of a fragment are explained, before all of them are."""
        self.shown += rows
        self._move(rows)

    def note(self, name: str, rows: int, faults: int, seconds: float, bytes: int) -> None:  # noqa: A002
        """Hear that a fragment is finished, which took a worker so many seconds."""
        more, self.shown = rows - self.shown, 0
        self.done, self.faults, self.bytes = self.done + rows, self.faults + faults, self.bytes + bytes
        self.fragments += 1
        self._move(more)
        self._tell("fragment", fragment=name, rows=rows, bytes=bytes, took=seconds)
        now = self.now
        if self.progress is not None:
            self.progress(now)
        enough = now.seconds >= ENOUGH or self.done >= SHARE * ((self.total or 0) - self.before)
        worth = (now.left or 0) >= WORTH or self.price is not None
        if not self.forecast_told and self.fragments >= self.workers and enough and worth:
            self.forecast()

    def failed(self, name: str, why: str) -> None:
        """Hear that a fragment failed for good."""
        self.shown = 0
        self._tell("failed", f"failed: {name}, {one_line(why, LONGEST)}", fragment=name, reason=why)

    def forecast(self) -> None:
        """Tell what the rest will take, if that is known and there is one."""
        left = self.now.left
        if not left or not self.done or self.total is None:
            return
        self.forecast_told = True
        size, money = round(self.bytes / self.done * self.total), None
        line = f"about {clock(left)} more, {max(size, MEGA) / MEGA:,.0f} MB of results"
        if self.price is not None:
            money = self.price * left / HOUR
            line += f", about {money:,.2f} at {self.price:,.2f} per hour"
        self._tell("forecast", line, always=True, bytes=size, price=self.price, money=money)

    def _move(self, rows: int) -> None:
        if self.log is None and not self.hidden:
            self.advance(rows, self.now.pace)

    def _tell(self, event: str, line: str = "", *, always: bool = False, **more: Any) -> None:
        """Keep an event, and write its line, or itself."""
        told = {"time": _stamp(), "event": event, "run": self.run, **self.now._asdict(), **more}
        self.append(told)
        if self.log == "json":
            say(json.dumps(told), sys.stderr)
        elif line and (self.log == "text" or (always and not self.hidden)):
            say(f"{told['time']} {line}", sys.stderr)


def _stamp() -> str:
    return datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
