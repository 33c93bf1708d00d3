"""Finding and opening the files of a data set, with sentences that say what to do when that fails."""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from tempograd.errors import DataError


def locate(root: Path | None, dataset: str, names: Sequence[str], source: str) -> Path:
    """Return the first of ``names`` (paths below ``root``) that exists.

    Parameters
    ----------
    root : path or None
        The data root.
    dataset : str
        What it is called here, for the error message.
    names : sequence of str
        Where it may lie, the usual place first.
    source : str
        Where users get it, as a phrase that follows "Get it from".
    """
    if root is None:
        raise DataError(
            f"{dataset} is read from files, and no folder was given: pass root= (--root) or set TEMPOGRAD_DATA to "
            f"the folder that holds {names[0]}. Get it from {source}."
        )
    for name in names:
        if (root / name).exists():
            return root / name
    others = f" ({', '.join(names[1:])} would do as well)" if len(names) > 1 else ""
    raise DataError(f"{dataset} is not in {root}: put it at {root / names[0]}{others}. Get it from {source}.")


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Open a text file, gzipped if its name ends in ``.gz``; a damaged one gives one sentence."""
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8") as file
        ):
            yield file
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is no text file: byte {error.start} is not UTF-8.") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged and cannot be unpacked ({error}): fetch it again.") from error
