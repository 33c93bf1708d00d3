"""Files: paths as people give them, kinds that are known, writing that loses nothing, tensors never trusted."""

import errno
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
from safetensors import SafetensorError
from torch import Tensor

from tempograd.core.errors import DataError, InputError, OutputError, brief, short_path
from tempograd.core.findings import arg
from tempograd.core.progress import uninterrupted
from tempograd.core.validation import unexpanded

try:
    import fcntl
except ImportError:  # Windows, where the age of a folder has to tell
    fcntl = None  # type: ignore[assignment]

START = 4096  # bytes, in which text files say what they are
LONGEST = 100_000_000  # bytes of a safetensors header, a limit of the format
PREFIX = ".tempograd-"
NAME = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}")  # as mkdtemp makes them
OLD = 24 * 3600.0  # seconds after which nobody works there any more, where folders cannot be locked
Write = Callable[[Path], object]
BLOCK = 65536  # bytes that are written to see whether a disk has room
LINKS = 40  # that lead to a file, as many as Linux follows
LONGEST_NAME, LONGEST_REASON = 45, 90  # bytes of a kept file's name, letters of what a library says
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
QUOTED = re.compile(r"""(?:os error |Os \{ code: |"errno":")(\d+)""")  # of safetensors, old safetensors, DuckDB
UNSYNCED = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}  # file systems that do not sync


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


DRAWN = b"drawn by tempograd"  # in the notes of a picture


def _whole(path: Path) -> bytes:
    """Return a file, nothing if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


EXPLANATION = Kind("explanation", lambda path: "tempograd" in notes(path) and "values" in header(path))
MODEL = Kind("model", lambda path: str(notes(path).get("format")).startswith("tempograd-model"))
EXPLAINER = Kind("explainer", lambda path: str(notes(path).get("format")).startswith("tempograd-explainer"))
SETTINGS = Kind("settings", lambda path: start(path).startswith('{\n  "tempograd":') and '"method"' in start(path))
PICTURE = Kind("picture", lambda path: DRAWN in _whole(path))
REPORT = Kind("report", lambda path: '<meta name="generator" content="tempograd ' in start(path))


def as_path(value: Any, name: str = "path") -> Path:
    """Return a path, given as a text or as one.

    Examples
    --------
    >>> as_path("report.html").suffix
    '.html'
    >>> as_path(5)
    Traceback (most recent call last):
    ...
    tempograd.core.errors.InputError: path must be the name of a file, as a text or a pathlib.Path, got 5.
    """
    if isinstance(value, (str, PathLike)) and isinstance(text := fspath(value), str):
        return Path(text)
    raise InputError(f"{name} must be the name of a file, as a text or a pathlib.Path, got {brief(value)}.")


def write_atomically(path: str | Path, write: Write, *, kind: Kind | None = None, force: bool = False) -> Path:
    """Call ``write`` with a temporary path, then put that file in the place of ``path``, in a folder that exists.

    At every moment ``path`` is the old file or the new one, whole. Symbolic links are followed, and a file that
    is replaced hands down its permissions. ``kind`` says what the file is, for a result that a user named: a file
    of another kind is not replaced (unless by ``force``), and what cannot be written is kept in the system's
    temporary folder. Without a kind the file's name is the library's own.

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
    """Find out, before the work starts, whether :func:`write_atomically` can write; one sentence if it cannot.

    ``inputs`` are files that are read, which are never replaced; those that do not exist do not matter.

    Examples
    --------
    >>> check_output(__file__, inputs=[__file__])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tempograd.core.errors.OutputError: ...io.py is one of the inputs, which are never overwritten: ...
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
    tempograd.core.errors.OutputError: ...io.py is no folder that can be written to: File exists.
    """
    return made(folder, tried=True)


def made(folder: str | Path, *, tried: bool = False) -> Path:
    """Make a folder where there is none and return it, ``tried`` out if it can be written to."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        if tried:
            _try_out(Path(folder))
    except (OSError, ValueError) as error:
        raise OutputError(f"{short_path(folder)} is no folder that can be written to: {reason(error)}.") from error
    return Path(folder)


def _target(path: Path, kind: Kind | None, force: bool, inputs: Iterable[str | Path] = ()) -> Path:
    """Return the file that a path leads to; one sentence if it must not be written."""
    name = short_path(path)
    try:
        if kind in (EXPLANATION, MODEL, EXPLAINER):
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
            f"{name} exists and is no {kind.name} that tempograd wrote: name another file, or pass "
            f"{arg:source.force=True} to overwrite it."
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
        raise OutputError(f"The folder {short_path(target.parent)} does not exist: make it, or name another file.")
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
    short = path.name.isprintable() and len(os.fsencode(path.name)) <= LONGEST_NAME
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
    return f"{short_path(path)} cannot be written: {reason(error)}."


def reason(error: Exception) -> str:
    """Say why something cannot be written."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (told := QUOTED.search(str(error))):
        number = int(told[1])
    if number is not None:
        return REASONS.get(number, os.strerror(number))
    if isinstance(error, ValueError):
        return "this is no name that a file can have"
    return " ".join(str(error).split())[:LONGEST_REASON].rstrip(".")


def _no_file(path: Path) -> str:
    return f"{short_path(path)} is a device or a pipe, and only files are written: name a file."


def load(path: str | Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Read the header and the tensors of a safetensors file; raises what safetensors and torch raise.

    Signals wait meanwhile: safetensors, interrupted, takes the file for damaged.
    """
    with uninterrupted(), safetensors.safe_open(path, "pt") as file:
        return file.metadata() or {}, {name: file.get_tensor(name) for name in list(file.keys())}


def read_tensors(path: str | Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Read a safetensors file: its header and its tensors."""
    path = as_path(path)
    try:
        return load(path)
    except FileNotFoundError:
        raise DataError(f"{short_path(path)} does not exist.") from None
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise DataError(f"{short_path(path)} is not a readable safetensors file: {brief(error)}.") from error


def shrunk(tensor: Tensor) -> tuple[Tensor, list[int]]:
    """Return an expanded view as it is kept, so that a constant baseline costs nothing on disk, and its shape."""
    return unexpanded(tensor).cpu().contiguous().clone(), list(tensor.shape)


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
