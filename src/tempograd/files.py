"""Writing files so that a killed process never leaves half of one behind."""

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tempograd.errors import DataError


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Call ``write`` with a temporary path in the same folder, then rename it to ``path``.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "deep" / "note.txt"
    >>> write_atomically(target, lambda temporary: temporary.write_text("done")).read_text()
    'done'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes private files; a result is an ordinary one
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put Ctrl-C off until the block is done, so that files that belong together are written together."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread is interrupted
        yield
        return
    asked: list[bool] = []
    before = signal.signal(signal.SIGINT, lambda *_: asked.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if asked:
            raise KeyboardInterrupt


def writable(folder: str | Path) -> Path:
    """Make a folder where there is none and return it; one sentence where that cannot be.

    Examples
    --------
    >>> writable(__file__)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tempograd.errors.DataError: ...files.py is no folder that can be written to: File exists.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder} is no folder that can be written to: {error.strerror}.") from error
    return Path(folder)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
