"""Long work on a terminal: a line that shows how far it is, and signals that end it."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import NoReturn, Protocol, TextIO

from tempograd.core.errors import held

DELAY = 1.0  # work that ends sooner needs no bar
PERIOD = 0.1


_muted: ContextVar[bool] = ContextVar("muted", default=False)  # inside work that shows its own progress
_drawn: ContextVar["_Line | None"] = ContextVar("drawn", default=None)


class Advance(Protocol):
    """Report that ``amount`` more units are done; ``note`` replaces the text at the line's end."""

    def __call__(self, amount: float = 1, note: str = "") -> None: ...


@contextmanager
def progress_bar(total: float | None, label: str, stream: TextIO | None = None) -> Iterator[Advance]:
    """Show how much of ``total``, None where nobody knows it, is done while the block runs.

    Nothing is written unless ``stream`` (standard error by default) is a terminal and the work takes
    longer than a second, and nothing inside :func:`muted` and :func:`part`.
    """
    stream = sys.stderr if stream is None else stream
    if _muted.get() or not stream.isatty():
        yield _nothing
        return
    line = _Line(total, label, stream)
    try:
        with held(_drawn, line):
            yield line.advance
    finally:
        line.draw("")


@contextmanager
def part(advance: Advance, amount: float, note: str = "") -> Iterator[None]:
    """Let what runs inside the block be ``amount`` units of the whole, and show no progress of its own."""
    with held(_muted, True):
        advance(0, note)
        yield
        advance(amount, note)


def say(text: str, stream: TextIO | None = None) -> None:
    """Print a line, on standard output unless told otherwise, above the line that shows the progress."""
    stream = sys.stdout if stream is None else stream
    line = _drawn.get() or _Line(None, "", sys.stderr)  # which has no text yet, so that nothing is drawn
    shown = line.text
    line.draw("")
    stream.write(text + "\n")
    stream.flush()
    line.draw(shown)


def muted() -> AbstractContextManager[None]:
    """Show no progress of what runs inside the block, which is part of work that shows its own."""
    return part(_nothing, 0)


def _nothing(amount: float = 1, note: str = "") -> None:
    """Report to nobody."""


class _Line:
    def __init__(self, total: float | None, label: str, stream: TextIO) -> None:
        self.total, self.label, self.stream = total, label, stream
        self.done, self.note, self.text = 0.0, "", ""
        self.start = time.monotonic()
        self.next = self.start + DELAY

    def advance(self, amount: float = 1, note: str = "") -> None:
        self.done += amount
        self.note = note or self.note
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + PERIOD
        self.draw(render(self.label, self.done, self.total, now - self.start, self.note))

    def draw(self, text: str) -> None:
        """Put a text in the place of the line; an empty one takes it away."""
        if text or self.text:
            self.stream.write("\r" + text.ljust(len(self.text)) + "\r" * (not text))
            self.stream.flush()
        self.text = text


def render(label: str, done: float, total: float | None, elapsed: float, note: str = "", cells: int = 24) -> str:
    """Compose the line.

    Examples
    --------
    >>> render("explain", 30, 120, 15.0, cells=8)
    'explain [##......]  25 %  0:15 elapsed, 0:45 left'
    >>> render("explain", 30, None, 15.0, "2 series/s")  # of nobody knows how many
    'explain  0:15 elapsed  2 series/s'
    """
    line = f"{label}  {clock(elapsed)} elapsed"
    if total is not None:
        share = min(done / total, 1.0) if total else 1.0
        left = clock(elapsed * (1 - share) / share) if share else "?"
        bar = f"{'#' * round(share * cells):.<{cells}}"
        line = f"{label} [{bar}] {100 * share:3.0f} %  {clock(elapsed)} elapsed, {left} left"
    return f"{line}  {note}" if note else line


def clock(seconds: float) -> str:
    """Write a time in hours, minutes and seconds.

    Examples
    --------
    >>> clock(75), clock(3725)
    ('1:15', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


# Signals: Ctrl-C and SIGTERM end a command with one line and the exit code that shells expect.

STOPS = (signal.SIGINT, signal.SIGTERM)
UNHARMED = "nothing half-written was left behind."


class Terminated(KeyboardInterrupt):
    """SIGTERM came; what puts things right after Ctrl-C does so after it as well."""


def leave_at_once() -> None:
    """From now on, let a signal end the process on the spot.

    This is for the first seconds, in which libraries are loaded and nothing is written: an exception raised in
    the midst of an import may be swallowed there, or come out as another one.
    """
    _handle(dict.fromkeys(STOPS, _leave))


def leave_quietly() -> None:
    """From now on, let a signal end this process on the spot: a worker's, whose parent tells the user."""
    _handle(dict.fromkeys(STOPS, lambda *_: os._exit(1)))


@contextmanager
def stoppable() -> Iterator[None]:
    """Let signals raise KeyboardInterrupt inside the block, SIGTERM its subclass Terminated."""
    before = _handle({signal.SIGINT: signal.default_int_handler, signal.SIGTERM: _terminate})
    try:
        yield
    finally:
        _handle(before)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put signals off until the block is done, so that files that belong together are written together."""
    came: list[int] = []
    before = _handle({number: lambda number, _: came.append(number) for number in STOPS})
    try:
        yield
    finally:
        _handle(before)
        for number in came[:1]:
            signal.raise_signal(number)


def last_words(error: KeyboardInterrupt) -> tuple[str, int]:
    """Return the line that tells what happened, and the exit code."""
    ended = isinstance(error, Terminated)
    line = f"tempograd: {'terminated' if ended else 'interrupted'}, {str(error) or UNHARMED}"
    return line, 128 + (signal.SIGTERM if ended else signal.SIGINT)


def _handle(wanted: dict[signal.Signals, "signal._HANDLER"]) -> dict[signal.Signals, "signal._HANDLER"]:
    """Set handlers and return those before; a signal that is ignored, as after nohup, stays ignored."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread can, and is interrupted
        return {}
    before = {number: signal.getsignal(number) for number in wanted}
    before = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, wanted[number])
    return before


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, _leave)  # whoever asks twice does not want to wait
    raise Terminated


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    line, code = last_words(Terminated() if number == signal.SIGTERM else KeyboardInterrupt())
    os.write(2, f"{line}\n".encode())
    os._exit(code)
