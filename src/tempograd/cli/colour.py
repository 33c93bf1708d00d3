"""Colour on a terminal, and nowhere else: none in files and pipes, none where ``NO_COLOR`` is set."""

import os
from typing import TextIO

STYLES = {
    "bold": "1",
    "faint": "2",
    "error": "1;31",
    "warning": "33",
    "up": "38;5;166",  # as in pictures: orange pushes up, blue pushes down, purple has no direction
    "down": "38;5;32",
    "size": "38;5;97",
    "command": "36",
}


def shows_colour(stream: TextIO) -> bool:
    """Tell whether a stream shows colours; https://no-color.org has the rule."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(text: str, style: str, stream: TextIO) -> str:
    """Return a text in a style where the stream shows one, and else as it is.

    Examples
    --------
    >>> from io import StringIO
    >>> coloured("rough", "warning", StringIO())
    'rough'
    """
    return f"\033[{STYLES[style]}m{text}\033[0m" if text and shows_colour(stream) else text
