"""A progress line with an estimate of the time left, on a terminal and nowhere else."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TextIO

DELAY = 1.0  # work that ends sooner needs no bar
PERIOD = 0.1


_muted: ContextVar[bool] = ContextVar("muted", default=False)


class Advance(Protocol):
    """Report that ``amount`` more units are done; ``note`` replaces the text at the line's end."""

    def __call__(self, amount: float = 1, note: str = "") -> None: ...


@contextmanager
def progress(total: float, label: str, stream: TextIO | None = None) -> Iterator[Advance]:
    """Show how much of ``total`` is done while the block runs.

    Nothing is written unless ``stream`` (standard error by default) is a terminal and the work takes
    longer than a second, and nothing inside :func:`muted`.
    """
    line = _Line(total, label, sys.stderr if stream is None else stream)
    try:
        yield line.advance
    finally:
        line.clear()


@contextmanager
def muted() -> Iterator[None]:
    """Show no progress of what runs inside the block, which is part of work that shows its own."""
    token = _muted.set(True)
    try:
        yield
    finally:
        _muted.reset(token)


class _Line:
    def __init__(self, total: float, label: str, stream: TextIO) -> None:
        self.total, self.label, self.stream = total, label, stream
        self.done, self.note, self.width = 0.0, "", 0
        self.start = time.monotonic()
        self.next = self.start + DELAY
        self.visible = stream.isatty() and not _muted.get()

    def advance(self, amount: float = 1, note: str = "") -> None:
        self.done += amount
        self.note = note or self.note
        now = time.monotonic()
        if self.visible and now >= self.next:
            self.next = now + PERIOD
            self._write(render(self.label, self.done, self.total, now - self.start, self.note))

    def clear(self) -> None:
        if self.width:
            self._write("")
            self.stream.write("\r")
            self.stream.flush()

    def _write(self, text: str) -> None:
        self.stream.write("\r" + text.ljust(self.width))
        self.stream.flush()
        self.width = len(text)


def render(label: str, done: float, total: float, elapsed: float, note: str = "", cells: int = 24) -> str:
    """Compose the line.

    Examples
    --------
    >>> render("explain", 30, 120, 15.0, cells=8)
    'explain [##......]  25 %  0:15 elapsed, 0:45 left'
    """
    share = min(done / total, 1.0) if total else 1.0
    bar = "#" * round(share * cells)
    left = _clock(elapsed * (1 - share) / share) if share else "?"
    line = (
        f"{label} [{bar:.<{cells}}] {share:4.0%}".replace("%", " %") + f"  {_clock(elapsed)} elapsed, {left} left"
    )
    return f"{line}  {note}" if note else line


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
