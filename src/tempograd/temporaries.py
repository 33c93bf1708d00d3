"""Scratch folders: what a killed process leaves in one is swept away by the next that writes beside it."""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where the age of a folder has to tell
    fcntl = None  # type: ignore[assignment]

PREFIX = ".tempograd-"
NAME = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}")  # as mkdtemp makes them
OLD = 24 * 3600.0  # seconds after which nobody works there any more, where folders cannot be locked


@contextmanager
def scratch(parent: str | Path) -> Iterator[Path]:
    """Yield a new private folder inside ``parent``, which is gone afterwards; raises OSError if there can be none.

    The process holds a lock on it, which the system takes back however the process ends. So folders of
    processes that were killed can be told from those in use, and are removed here.

    Examples
    --------
    >>> with scratch(tempfile.mkdtemp()) as folder:
    ...     folder.is_dir()
    True
    >>> folder.exists()
    False
    """
    sweep(parent)
    folder, lock = _new(Path(parent))
    try:
        yield folder
    finally:
        _remove(folder, lock)


def sweep(parent: str | Path) -> None:
    """Remove the scratch folders in ``parent`` whose processes are gone."""
    try:
        with os.scandir(parent) as entries:
            found = [Path(e.path) for e in entries if NAME.fullmatch(e.name) and e.is_dir(follow_symlinks=False)]
    except OSError:  # whoever writes here says what is wrong
        return
    for folder in found:
        try:
            lock = _locked(folder)
        except BlockingIOError:
            continue
        except OSError:  # another user's, or a file system without locks
            if _is_old(folder):
                _remove(folder, None)
            continue
        _remove(folder, lock)


def _new(parent: Path) -> tuple[Path, int | None]:
    """Make a folder and lock it, as far as that is possible here."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        try:
            lock = _locked(folder)
        except (BlockingIOError, FileNotFoundError):  # somebody sweeps, and was faster than the lock
            continue
        except OSError:
            return folder, None
        try:
            if folder.exists():
                return folder, lock
        except OSError:
            _remove(folder, lock)
            raise
        os.close(lock)


def _locked(folder: Path) -> int:
    """Open and lock a folder; BlockingIOError if a living process has, another OSError where that cannot be."""
    if fcntl is None:
        raise OSError("no locks here")
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _remove(folder: Path, lock: int | None) -> None:
    """Remove a folder, and then let go of it; one that cannot be removed now is swept another time."""
    try:
        with suppress(OSError):  # which rmtree does not ignore in all of its steps
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        if lock is not None:
            os.close(lock)


def _is_old(folder: Path) -> bool:
    with suppress(OSError):
        return time.time() - folder.stat().st_mtime > OLD
    return False
