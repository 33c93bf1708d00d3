"""Warnings of a command, held back while it may still fail: what went wrong is said before what may be better."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tempograd.cli.colour import coloured
from tempograd.core.errors import TempogradWarning
from tempograd.core.progress import before_drawing

_held: list[str] = []


def release() -> None:
    """Print the warnings that are held back: before results, after an error, and when work takes long."""
    while _held:
        print(coloured("tempograd: warning:", "warning", sys.stderr), _held.pop(0), file=sys.stderr)


@contextmanager
def holding_warnings() -> Iterator[None]:
    """Hold the library's own warnings back, and write them like its errors; all others are as Python has them."""
    with warnings.catch_warnings(), before_drawing(release):
        warnings.simplefilter("default", TempogradWarning)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
            if isinstance(message, TempogradWarning):
                _held.append(message.finding.say("shell"))
            else:
                usual(message, category, *rest, **named)

        warnings.showwarning = show
        yield
