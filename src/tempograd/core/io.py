"""Files: paths as people give them, kinds that are known, writing that loses nothing, tensors never trusted."""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import EINVAL, ENOSYS, ENOTSUP
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from tempograd.core.errors import DataError, InputError, OutputError, TempogradError, arg, one_line, short_path
from tempograd.core.progress import uninterrupted

try:
    import fcntl
except ImportError:  # Windows, where what a killed process leaves behind stays
    fcntl = None  # type: ignore[assignment]

START = 4096  # bytes, in which text files say what they are
PREFIX = ".tempograd-"
LONGEST = 90  # characters of what a library says
DRAWN = b"drawn by tempograd"  # in the notes of a picture


class Kind(NamedTuple):
    """A kind of file: what it is called, and a function that tells whether a file is one of them."""

    name: str
    wrote: Callable[[Path], bool]


def start(path: Path) -> str:
    """Return the first letters of a text file, nothing if it cannot be read."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(START).decode("utf-8", "replace")
    return ""


def notes(path: Path) -> dict[str, str]:
    """Return what is noted in the header of a safetensors file, nothing if it is none.

    Examples
    --------
    >>> notes(Path(__file__))
    {}
    """
    try:
        with safetensors.safe_open(path, "pt") as file:
            return file.metadata() or {}
    except (OSError, SafetensorError):
        return {}


EXPLANATION = Kind("explanation", lambda path: "tempograd" in notes(path))
MODEL = Kind("model", lambda path: notes(path).get("format", "").startswith("tempograd-model"))
EXPLAINER = Kind("explainer", lambda path: notes(path).get("format", "").startswith("tempograd-explainer"))
PICTURE = Kind("picture", lambda path: DRAWN in path.read_bytes())
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
    tempograd.core.errors.InputError: path must be the name of a file, as a text or a pathlib.Path, got type int.
    """
    if isinstance(value, (str, PathLike)) and isinstance(text := fspath(value), str):
        return Path(text)
    kind = type(value).__name__
    raise InputError(f"{name} must be the name of a file, as a text or a pathlib.Path, got type {kind}.")


def write_atomically(
    path: str | Path, write: Callable[[Path], object], *, kind: Kind | None = None, force: bool = False
) -> Path:
    """Call ``write`` with a temporary path, then put that file in the place of ``path``, in a folder that exists.

    At every moment ``path`` is the old file or the new one, whole. ``kind`` says what the file is, for a result
    that a user named: a file of another kind is not replaced (unless by ``force``). Without a kind the file's name
    is the library's own.

    Examples
    --------
    >>> target = Path(tempfile.mkdtemp()) / "note.txt"
    >>> write_atomically(target, lambda temporary: temporary.write_text("done")).read_text()
    'done'
    """
    path = as_path(path)
    with _one_sentence(path):
        _refuse(path, kind, force)
        with scratch(path.parent) as folder:
            new = folder / "new"
            write(new)
            sync(new)
            new.replace(path)
        with suppress(OSError):  # the file is there either way
            sync(path.parent)
    return path


def write_tensors(
    path: str | Path, tensors: Mapping[str, Tensor], header: dict[str, str], kind: Kind, *, force: bool
) -> Path:
    """Write tensors and a header to a safetensors file, as :func:`write_atomically` does."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return write_atomically(path, lambda new: save_file(whole, new, header), kind=kind, force=force)


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
    with _one_sentence(path):
        _refuse(path, kind, force, inputs)
        with scratch(path.parent):  # which cannot be made where nothing can be written
            pass


def made(folder: str | Path) -> Path:
    """Make a folder where there is none and return it; one sentence where nothing can be written there.

    Examples
    --------
    >>> made(__file__)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tempograd.core.errors.OutputError: ...io.py is no folder that can be written to: File exists.
    """
    with _one_sentence(folder, "is no folder that can be written to"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        with scratch(folder):  # which also removes what killed processes left there
            return Path(folder)


@contextmanager
def _one_sentence(path: str | Path, problem: str = "cannot be written") -> Iterator[None]:
    try:
        yield
    except TempogradError:
        raise
    except (OSError, ValueError, SafetensorError) as error:  # ValueError: a zero byte in the name
        raise OutputError(f"{short_path(path)} {problem}: {reason(error)}.") from error


def _refuse(path: Path, kind: Kind | None, force: bool, inputs: Iterable[str | Path] = ()) -> None:
    """Say in one sentence why a file must not be written, if so."""
    name, folder, advice = short_path(path), short_path(path.parent), "name another file"
    if kind in (EXPLANATION, MODEL, EXPLAINER):
        str(path).encode()  # safetensors writes files with other names, but cannot read them
    try:
        status = path.stat()
    except FileNotFoundError:
        if not path.parent.exists():
            raise OutputError(f"The folder {folder} does not exist: make it, or {advice}.") from None
        return
    if stat.S_ISDIR(status.st_mode):
        raise OutputError(f"{name} is a folder: name a file in it.")
    if not stat.S_ISREG(status.st_mode):
        raise OutputError(f"{name} is a device or a pipe, and only files are written: {advice}.")
    if any(Path(other).exists() and path.samefile(other) for other in inputs):
        raise OutputError(f"{name} is one of the inputs, which are never overwritten: {advice}.")
    if not (status.st_mode & 0o222 and (os.access(path, os.W_OK) or not path.exists())):  # deleted meanwhile
        raise OutputError(f"{name} is write-protected: make it writable, or {advice}.")
    if kind is not None and not force and status.st_size and not kind.wrote(path):
        forced = f"{advice}, or pass {arg:source.force=True} to overwrite it"
        raise OutputError(f"{name} exists and is no {kind.name} that tempograd wrote: {forced}.")


def sync(path: Path) -> None:
    """Bring a file or a folder to the disk, where the file system can."""
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (EINVAL, ENOTSUP, ENOSYS):
            raise
    finally:
        os.close(handle)


def reason(error: Exception) -> str:
    """Say in a few words, the system's where it has some, why something cannot be written."""
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else one_line(str(error), LONGEST).rstrip(".")


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
        raise DataError(f"{short_path(path)} is not a readable safetensors file: {reason(error)}.") from error


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
    lock: int | None = None
    while lock is None:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        try:
            lock = _locked(folder)
        except (BlockingIOError, FileNotFoundError):  # another process sweeps, and was faster than the lock
            continue
        except OSError:  # a file system without locks
            lock = os.open(os.devnull, os.O_RDONLY)
    try:
        yield folder
    finally:
        _remove(folder, lock)


def sweep(parent: str | Path) -> None:
    """Remove the scratch folders in ``parent`` whose processes are gone; where nothing can be locked, none."""
    for folder in Path(parent).glob(PREFIX + "?" * 8):  # as mkdtemp names them
        with suppress(OSError):  # a living process has it
            _remove(folder, _locked(folder))


def _locked(folder: Path) -> int:
    """Open and lock a folder; BlockingIOError if a living process has, another OSError where that cannot be."""
    if fcntl is None:
        raise OSError("no locks here")
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder.stat()  # it may be gone by now
    except BaseException:
        os.close(handle)
        raise
    return handle


def _remove(folder: Path, lock: int) -> None:
    """Remove a folder, and then let go of it; one that cannot be removed now is swept another time."""
    try:
        with suppress(OSError):  # which rmtree does not ignore in all of its steps
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
