"""Signals: Ctrl-C and SIGTERM end a command with one line and the exit code that shells expect."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

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
    number, word = (
        (signal.SIGTERM, "terminated") if isinstance(error, Terminated) else (signal.SIGINT, "interrupted")
    )
    return f"tempograd: {word}, {str(error) or UNHARMED}", 128 + number


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
