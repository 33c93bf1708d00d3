"""Writing files: nothing is lost, nothing is seen half-written, and nobody else's file is replaced."""

import errno
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from safetensors import SafetensorError

from tempograd.errors import OutputError
from tempograd.kinds import EXPLANATION, MODEL, Kind
from tempograd.paths import as_path
from tempograd.temporaries import scratch

Write = Callable[[Path], object]
BLOCK = 65536  # bytes that are written to see whether a disk has room
LINKS = 40  # that lead to a file, as many as Linux follows
PATH = 90  # letters of a path that are shown
REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your share of the disk is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "you may not write there",
    errno.EPERM: "you may not write there",
    errno.ENAMETOOLONG: "its name is too long",
    errno.ELOOP: "its links lead in a circle",
    errno.ENOTDIR: "a part of its path is a file, not a folder",
}
QUOTED = re.compile(r"""(?:os error |"errno":")(\d+)""")  # as safetensors and DuckDB quote the system
UNSYNCED = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}  # file systems that do not sync


def write_atomically(path: str | Path, write: Write, *, kind: Kind | None = None, force: bool = False) -> Path:
    """Call ``write`` with a temporary path, then put that file in the place of ``path``.

    At every moment ``path`` is the old file or the new one, whole. Symbolic links are followed, and a file that
    is replaced hands down its permissions.

    Parameters
    ----------
    path : path
        In a folder that exists.
    write : callable
        Writes the path it is given.
    kind : Kind, optional
        What the file is, for a result that a user named: a file of another kind is not replaced, and what cannot
        be written is kept in the system's temporary folder. Without a kind the file's name is the library's own.
    force : bool
        Replace a file of any kind.

    Examples
    --------
    >>> target = Path(tempfile.mkdtemp()) / "note.txt"
    >>> write_atomically(target, lambda temporary: temporary.write_text("done")).read_text()
    'done'
    """
    path = as_path(path)
    try:
        _put(_target(path, kind, force), write)
    except OutputError as error:
        raise OutputError(f"{error}{_kept(path, write, kind)}") from error
    except (OSError, SafetensorError) as error:
        raise OutputError(f"{_cannot(path, error)}{_kept(path, write, kind)}") from error
    return path


def check_output(
    path: str | Path, kind: Kind | None = None, *, inputs: Iterable[str | Path] = (), force: bool = False
) -> None:
    """Find out, before the work starts, whether a file can be written; one sentence if it cannot.

    Parameters
    ----------
    path : path
    kind, force
        As :func:`write_atomically` gets them.
    inputs : iterable of paths
        Files that are read, which are never replaced; those that do not exist do not matter.

    Examples
    --------
    >>> check_output(__file__, inputs=[__file__])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tempograd.errors.OutputError: ...files.py is one of the inputs, which are never overwritten: name another file.
    """
    path = as_path(path)
    target = _target(path, kind, force, inputs)
    try:
        _try_out(target.parent)
    except OSError as error:
        raise OutputError(_cannot(path, error)) from error


def writable(folder: str | Path) -> Path:
    """Make a folder where there is none and return it; one sentence where nothing can be written there.

    Examples
    --------
    >>> writable(__file__)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tempograd.errors.OutputError: ...files.py is no folder that can be written to: File exists.
    """
    folder = made(folder)
    try:
        _try_out(folder)
    except OSError as error:
        raise OutputError(f"{_shown(folder)} is no folder that can be written to: {reason(error)}.") from error
    return folder


def made(folder: str | Path) -> Path:
    """Make a folder where there is none and return it."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise OutputError(f"{_shown(folder)} is no folder that can be written to: {reason(error)}.") from error
    return Path(folder)


def _target(path: Path, kind: Kind | None, force: bool, inputs: Iterable[str | Path] = ()) -> Path:
    """Return the file that a path leads to; one sentence if it must not be written."""
    name = _shown(path)
    try:
        if kind in (EXPLANATION, MODEL):
            str(path).encode()  # safetensors writes files with other names, but cannot read them
        target = _followed(path)
        status = _status(target)
    except OutputError:
        raise
    except (OSError, ValueError) as error:
        raise OutputError(_cannot(path, error)) from error
    if status is None:
        return target
    if stat.S_ISDIR(status.st_mode):
        raise OutputError(f"{name} is a folder: name a file in it.")
    if not stat.S_ISREG(status.st_mode):
        raise OutputError(_no_file(path))
    if any(_same(target, other) for other in inputs):
        raise OutputError(f"{name} is one of the inputs, which are never overwritten: name another file.")
    if not (status.st_mode & 0o222 and os.access(target, os.W_OK)):
        raise OutputError(f"{name} is write-protected: make it writable, or name another file.")
    if kind is not None and not force and status.st_size and not kind.wrote(target):
        raise OutputError(
            f"{name} exists and is no {kind.name} that tempograd wrote: name another file, or pass force=True to "
            "overwrite it."
        )
    return target


def _followed(path: Path) -> Path:
    """Follow symbolic links, also to what does not exist yet."""
    for _ in range(LINKS):
        above = os.path.realpath(path.parent)
        # /dev/stdout and the like: what they lead to is open elsewhere, and cannot be replaced
        if above in {"/dev", "/dev/fd"} or above.startswith("/proc/"):
            raise OutputError(_no_file(path))
        if not path.is_symlink():
            return path
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _status(target: Path) -> os.stat_result | None:
    """Return what is at a path, None if nothing is; the folder must be there."""
    with suppress(FileNotFoundError):
        return target.stat()
    if not target.parent.exists():
        raise OutputError(f"The folder {_shown(target.parent)} does not exist: make it, or name another file.")
    return None


def _same(target: Path, other: str | Path) -> bool:
    try:
        return target.samefile(other)
    except (OSError, ValueError):  # no file at all
        return False


def _try_out(folder: Path) -> None:
    """Write a block and remove it; OSError if that cannot be."""
    with scratch(folder) as temporary, (temporary / "block").open("wb") as file:
        file.write(bytes(BLOCK))
        file.flush()
        _sync(file.fileno())


def _put(target: Path, write: Write) -> None:
    """Write a file beside its target, where nobody sees it, and rename it when it is whole and on the disk."""
    with scratch(target.parent) as folder:
        new = folder / "new"
        write(new)
        with new.open("rb+") as file:
            _hand_down(target, new)
            _sync(file.fileno())
        new.replace(target)
    _sync_folder(target.parent)


def _hand_down(target: Path, new: Path) -> None:
    """Give a file owner and permissions of the one it replaces, or those of any new file."""
    try:
        old = target.stat()
    except FileNotFoundError:
        mode = _ordinary(new.parent)
    else:
        mode = stat.S_IMODE(old.st_mode) & 0o777
        if not _give(new, old):
            mode &= ~0o070  # the rights of a group must not go to another one
    if stat.S_IMODE(new.stat().st_mode) != mode:
        new.chmod(mode)


def _give(new: Path, old: os.stat_result) -> bool:
    """Give a file the owner and the group of another, and tell whether it has the group."""
    now = new.stat()
    for owner in (old.st_uid, -1):  # only root can give files away; the group may be one of the user's own
        if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
            with suppress(OSError, AttributeError):  # Windows has no owners
                os.chown(new, owner, old.st_gid)
                now = new.stat()
    return now.st_gid == old.st_gid


def _ordinary(folder: Path) -> int:
    """Return the permissions of a new file; the system knows the mask, which is not to be touched (threads)."""
    handle = os.open(folder / "mode", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        return stat.S_IMODE(os.fstat(handle).st_mode)
    finally:
        os.close(handle)


def _sync(handle: int) -> None:
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in UNSYNCED:
            raise


def _sync_folder(folder: Path) -> None:
    """Let the new name last through a power cut, where the system can; the file is there either way."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _kept(path: Path, write: Write, kind: Kind | None) -> str:
    """Keep a result that cannot go where it should, and say where it is."""
    if kind is None:
        return ""
    short = len(os.fsencode(path.name)) <= PATH // 2 if path.name.isprintable() else False
    name = path.name if short and path.name else f"result{path.suffix if short else ''}"
    for place in (tempfile.gettempdir, Path.home):
        with suppress(OSError, SafetensorError, RuntimeError):  # RuntimeError: somebody without a home
            kept = Path(tempfile.mkdtemp(prefix="tempograd-", dir=place())) / name
            try:
                write(kept)
            except BaseException:
                kept.unlink(missing_ok=True)
                kept.parent.rmdir()
                raise
            return f" The result is in {kept}."
    return " The result is lost: there is no room for it in the temporary folder either."


def _cannot(path: Path, error: Exception) -> str:
    return f"{_shown(path)} cannot be written: {reason(error)}."


def reason(error: Exception) -> str:
    """Say why something cannot be written."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (told := QUOTED.search(str(error))):
        number = int(told[1])
    if number is not None:
        return REASONS.get(number, os.strerror(number))
    if isinstance(error, ValueError):
        return "this is no name that a file can have"
    return " ".join(str(error).split())[:PATH].rstrip(".")


def _no_file(path: Path) -> str:
    return f"{_shown(path)} is a device or a pipe, and only files are written: name a file."


def _shown(path: str | Path) -> str:
    """Return a path in one line that is not too long."""
    text = str(path) if str(path).isprintable() else repr(str(path))
    return text if len(text) <= PATH else f"…{text[-PATH:]}"
