"""How much memory there is, asked before something large is built."""

from collections.abc import Mapping
from pathlib import Path

from tempograd.errors import DataError, short_path

MEMINFO, GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


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

    Parameters
    ----------
    path : path
        The file.
    size : float
        Bytes.
    what : str
        What would be built, as the start of a sentence.
    remedy : str
        What to do, as its end.
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
