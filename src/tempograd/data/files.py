"""Opening files of series, within the memory that there is."""

import gzip
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TextIO

from tempograd.core.errors import DataError, TempogradError, short_path

MEMINFO, GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
LONGEST_LINE = 2**28  # characters: a million columns have room, a packed file of one endless line has not


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Read a file inside the block: whatever is wrong with the file becomes one sentence about it.

    It must be an ordinary file, because reading a pipe would wait for ever, and it must not change meanwhile.
    """
    where, before = short_path(path), _state(path)
    fault: TempogradError | None = None
    try:
        with path.open("rb"):  # whoever reads it, the reason why that cannot be is said here
            pass
        yield
    except TempogradError as error:
        fault = error
    except UnicodeDecodeError:
        fault = DataError(f"{where} is no text in UTF-8: save it as UTF-8, or give it the ending of what it is.")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        fault = DataError(f"{where} is damaged and cannot be unpacked ({error}): fetch it again.")
    except MemoryError:
        fault = DataError(f"{where} needs more memory than there is: cut it into several files.")
    except OSError as error:
        fault = DataError(f"{where} cannot be read: {error.strerror or error}.")
    if _state(path) != before:
        raise DataError(f"{where} changed while it was read: read it again when it is complete.") from fault
    if fault is not None:
        raise fault


def _state(path: Path) -> tuple[int, ...]:
    """Return what changes with an ordinary file's content; anything else is refused."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{short_path(path)} does not exist.") from None
    except (OSError, ValueError) as error:  # a name too long, a zero byte in it
        raise DataError(
            f"{short_path(path)} cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from None
    if stat.S_ISDIR(found.st_mode):
        raise DataError(f"{short_path(path)} is a folder.")
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{short_path(path)} is a device or a pipe: write its content to a file first.")
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Open a text file, gzipped if its name ends in ``.gz``; a damaged one gives one sentence."""
    with (
        reading(path),
        gzip.open(path, "rt", encoding="utf-8-sig")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8-sig") as file,
    ):
        yield file


def lines(path: Path, file: TextIO) -> Iterator[str]:
    """Yield the lines of a text file; one that no text has is refused."""
    for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE), ""), start=1):
        if "\0" in line:
            raise DataError(f"{short_path(path)}, line {number} holds zero bytes: save the file as text in UTF-8.")
        if len(line) == LONGEST_LINE:
            raise DataError(f"{short_path(path)}, line {number} never ends: this is no file of series.")
        yield line


def free_memory() -> int | None:
    """Return the bytes that this process may still take, where the system tells (Linux), else None."""
    system = _numbers(MEMINFO, ":").get("MemAvailable")
    limit = _numbers(GROUP / "memory.max", None).get("")
    if limit is not None:  # of a container
        limit -= _numbers(GROUP / "memory.stat", " ").get("anon", 0)
    known = [found for found in (None if system is None else 1024 * system, limit) if found is not None]
    return min(known, default=None)


def refuse_beyond_memory(path: Path, size: float, what: str, remedy: str) -> None:
    """Refuse what would not fit, in place of trying: systems kill a process that takes too much.

    ``what`` of so many bytes would be built, as the start of a sentence, and ``remedy`` is its end.
    """
    free = free_memory()
    if free is not None and size > free:
        raise DataError(
            f"{short_path(path)}: {what} takes {gibibytes(size)} of memory, and {gibibytes(free)} are free: "
            f"{remedy}."
        )


def gibibytes(size: float) -> str:
    """Write a size.

    Examples
    --------
    >>> gibibytes(7 * 2**30), gibibytes(2**20)
    ('7 GiB', '0.00098 GiB')
    """
    return f"{size / 2**30:.2g} GiB" if size < 100 * 2**30 else f"{size / 2**30:,.0f} GiB"


def _numbers(path: Path, separator: str | None) -> Mapping[str, int]:
    """Read lines such as ``MemFree: 12 kB``, or with no separator a file of one number."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        name, _, rest = line.partition(separator) if separator else ("", "", line)
        digits = rest.split()[:1]
        if digits and digits[0].isdigit():
            found[name] = int(digits[0])
    return found
