"""Where a file lies, as people give it: one door for paths, of files that are read and that are written."""

from os import PathLike, fspath
from pathlib import Path
from typing import Any

from tempograd.brief import brief
from tempograd.errors import InputError


def as_path(value: Any, name: str = "path") -> Path:
    """Return a path, given as a text or as one.

    Examples
    --------
    >>> as_path("report.html").suffix
    '.html'
    >>> as_path(5)
    Traceback (most recent call last):
    ...
    tempograd.errors.InputError: path must be the name of a file, as a text or a pathlib.Path, got 5.
    """
    if isinstance(value, (str, PathLike)) and isinstance(text := fspath(value), str):
        return Path(text)
    raise InputError(f"{name} must be the name of a file, as a text or a pathlib.Path, got {brief(value)}.")
