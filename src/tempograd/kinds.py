"""Kinds of files that this library writes, and how it knows its own: nothing else is replaced unasked."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

START = 4096  # bytes, in which text files say what they are
LONGEST = 100_000_000  # bytes of a safetensors header, a limit of the format


class Kind(NamedTuple):
    """A kind of file: what it is called, and a function that tells whether a file is one of them."""

    name: str
    wrote: Callable[[Path], bool]


def start(path: Path) -> str:
    """Return the first letters of a text file, nothing if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(START).decode("utf-8", "replace")
    except OSError:
        return ""


def end(path: Path) -> str:
    """Return the last letters of a file, where Parquet files say what they are."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - START))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def header(path: Path) -> dict[str, Any]:
    """Return the header of a safetensors file, nothing if it is none.

    Examples
    --------
    >>> header(Path(__file__))
    {}
    """
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            found = json.loads(file.read(size)) if size <= LONGEST else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def notes(path: Path) -> dict[str, Any]:
    """Return what somebody noted in the header of a safetensors file."""
    found = header(path).get("__metadata__")
    return found if isinstance(found, dict) else {}


EXPLANATION = Kind("explanation", lambda path: "tempograd" in notes(path) and "values" in header(path))
MODEL = Kind("model", lambda path: str(notes(path).get("format")).startswith("tempograd-model"))
REPORT = Kind("report", lambda path: '<meta name="generator" content="tempograd ' in start(path))
