"""Files of series: where they lie, here or at an address, what they are called, and reading them in one piece."""

import gzip
import io
import re
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import IO, Any, TextIO
from zlib import crc32

from tempograd.core.errors import (
    DataError,
    MissingExtraError,
    TempogradError,
    brief,
    one_line,
    short_path,
)
from tempograd.core.io import as_path

PACKED = (".csv", ".tsv", ".ts")
ENDINGS = (".parquet", ".npz", ".npy", *PACKED, *(f"{ending}.gz" for ending in PACKED))
REMOTE = re.compile(r"[a-z][a-z0-9+.-]+://")
MAGIC = re.compile(r"[*?\[]")
HIVE = re.compile(r"([^=/]+)=([^/]*)")  # a folder that is a column: day=2026-01-31
BUFFER = 1 << 20
FOOTER_BYTES = 1 << 16  # at the end of a file of a store elsewhere, which tell its version with its size and time
LONGEST_LINE = 2**28  # characters: a million columns have room, a packed file of one endless line has not
PACKING = "is damaged and cannot be unpacked ({}): fetch it again"
WRONG: dict[type[Exception], str] = {  # with a file, by what reading it raises
    UnicodeDecodeError: "is no text in UTF-8: save it as UTF-8, or give it the ending of what it is",
    **dict.fromkeys((gzip.BadGzipFile, EOFError, zlib.error), PACKING),
    MemoryError: "needs more memory than there is: cut it into several files",
    OSError: "cannot be read: {}",
}
OWN = "_tempograd"  # the folder by which a run is known


def arrow() -> Any:
    """Import pyarrow, an extra."""
    try:
        import pyarrow  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("pyarrow", "parquet") from error
    return pyarrow


@dataclass(frozen=True)
class File:
    """A file of series: an absolute path or an address, and what it is called relative to its source."""

    path: str
    origin: str

    @property
    def where(self) -> str:
        """What messages call it."""
        return short_path(self.path)

    @property
    def ending(self) -> str:
        """The kind of the file, without ``.gz``; nothing where no series end so."""
        name = self.path.lower().partition("?")[0] if REMOTE.match(self.path) else self.path.lower()
        kinds = [ending for ending in ENDINGS if name.endswith(ending)]
        return kinds[0].removesuffix(".gz") if kinds else ""

    @property
    def columns(self) -> dict[str, str]:
        """The columns that the names of its folders are."""
        return dict(HIVE.findall(self.origin.rpartition("/")[0]))

    def reading(self) -> AbstractContextManager[None]:
        """Read the file inside the block: whatever is wrong with it becomes one sentence."""
        return reading(self.path if REMOTE.match(self.path) else Path(self.path))

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Open the file; whatever is wrong with it inside the block becomes one sentence."""
        if REMOTE.match(self.path):
            fs, name = open_address(self.path)
            with self.reading(), fs.open_input_file(name) as file:
                yield file if self.ending == ".parquet" else io.BytesIO(file.read())
        else:
            with self.reading(), Path(self.path).open("rb") as file:
                yield file

    @contextmanager
    def text(self) -> Iterator[TextIO]:
        """Open a text file, unpacked if its name ends in ``.gz``."""
        with self.opened() as file:
            packed = self.path.lower().partition("?")[0].endswith(".gz")
            plain = gzip.GzipFile(fileobj=file) if packed else file
            with io.TextIOWrapper(plain, encoding="utf-8-sig", newline="") as text:
                yield text

    def lines(self, file: TextIO) -> Iterator[str]:
        """Yield the lines of a text file; one that no text has is refused."""
        for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE), ""), start=1):
            if "\0" in line:
                raise DataError(f"{self.where}, line {number} holds zero bytes: save the file as text in UTF-8.")
            if len(line) == LONGEST_LINE:
                raise DataError(f"{self.where}, line {number} never ends: this is no file of series.")
            yield line

    @property
    def version(self) -> tuple[int, ...]:
        """What changes with a file's content and with nothing else: its size and its checksum.

        A store elsewhere keeps times that nobody sets back; reading its files twice would cost too much.
        """
        if REMOTE.match(self.path):
            fs, name = open_address(self.path)
            with self.reading():
                info = fs.get_file_info(name)
                with fs.open_input_file(name) as file:
                    end = min(info.size, FOOTER_BYTES)
                    return info.size, int(info.mtime_ns or 0), crc32(file.read_at(end, info.size - end))
        size = mark = 0
        with self.reading(), Path(self.path).open("rb", buffering=0) as file:
            while part := file.read(BUFFER):
                size, mark = size + len(part), crc32(part, mark)
        return size, mark


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Read a file inside the block: whatever is wrong with the file becomes one sentence about it.

    A path must be that of an ordinary file, because reading a pipe would wait for ever, and that file must not
    change meanwhile.
    """
    where, before = short_path(path), _state(path) if isinstance(path, Path) else ()
    fault: Exception | None = None
    try:
        yield
    except TempogradError as error:
        fault = error
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, MemoryError) as error:
        what = next(what for kind, what in WRONG.items() if isinstance(error, kind))
        reason = getattr(error, "strerror", None) or one_line(str(error), 90)
        fault = DataError(f"{where} {what.format(reason)}.")
    if isinstance(path, Path) and _state(path) != before:
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
    with File(str(path), path.name).text() as file:
        yield file


def list_files(path: Any) -> list[File]:
    """Return the files of a file, pattern, folder, address or several of these, sorted, each called once."""
    places = list(path) if isinstance(path, (list, tuple)) and path else [path]
    named = [pair for place in places for pair in _files(place)]
    if not named:
        some = short_path(str(path)) if isinstance(path, (str, Path)) else brief(path)
        raise DataError(f"There is no file of series at {some}: they end in {', '.join(ENDINGS)}.")
    files = [File(name, origin) for name, origin in _told_apart(named).items()]
    for file in files:
        if not file.ending and not REMOTE.match(file.path):
            _state(Path(file.path))  # which tells that it is not there
        if not file.ending:
            raise DataError(f"{file.where} cannot be read: files of series end in {', '.join(ENDINGS)}.")
    return files


def is_many(path: Any) -> bool:
    """Tell whether a path is that of many files: a folder, a pattern, an address, or several."""
    if not isinstance(path, (str, Path)):
        return isinstance(path, (list, tuple))
    text = str(path)
    try:
        return (
            bool(REMOTE.match(text)) or Path(text).is_dir() or bool(MAGIC.search(text) and not Path(text).exists())
        )
    except (OSError, ValueError):  # no name that a file can have
        return False


def _files(place: Any) -> list[tuple[str, str]]:
    """Return the files of a place, sorted, and what they are called relative to it."""
    text = str(place)
    if isinstance(place, str) and REMOTE.match(text):
        return _remote_files(text)
    path = as_path(place)
    if not is_many(place):
        return [(str(path), path.name)]
    pattern = not path.is_dir()
    root = Path(_fixed(text)) if pattern else path
    found = root.glob(str(path.relative_to(root))) if pattern else root.rglob("*")
    names = [each.relative_to(root) for each in sorted(found) if not each.is_dir()]
    # results in the folder of a run are no series
    names = [name for name in names if not any((root / folder / OWN).is_dir() for folder in name.parents)]
    # absolute, since workers elsewhere, and people later, stand in other folders
    pairs = [(str((root / name).absolute()), name.as_posix()) for name in names]
    return [pair for pair in pairs if _is_series(pair[1], pattern=pattern)]


def _is_series(origin: str, *, pattern: bool) -> bool:
    """Tell whether a file is one of series, and hidden only where a pattern asks for it."""
    hidden = any(part.startswith((".", "_")) for part in origin.split("/"))
    return bool(File(origin, "").ending) and (pattern or not hidden)


def _told_apart(files: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return what each file is called, once: by its place below the folder of all where two would share a name."""
    named = dict(reversed(files))  # a file of two places is called as in the first
    named = {path: named[path] for path, _ in files}
    if len(set(named.values())) == len(named):
        return named
    parts = {path: (path if REMOTE.match(path) else Path(path).as_posix()).split("/") for path in named}
    above = [parts[path][: -len(origin.split("/"))] for path, origin in named.items()]
    common = sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, zip(*above, strict=False)))
    return {path: "/".join(each[common:]) for path, each in parts.items()}


def _fixed(pattern: str) -> str:
    """Return the folder of a pattern in which nothing is left open."""
    return str(Path(pattern[: MAGIC.search(pattern).start()] + "x").parent)  # type: ignore[union-attr]  # has one


def _remote_files(address: str) -> list[tuple[str, str]]:
    """Return the files of an address, sorted, and what they are called relative to it."""
    fs, path = open_address(address)
    from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415  # an extra

    scheme = address[: address.index("://") + 3]
    _, asked, options = address.partition("?")
    more = asked + options if not path.endswith(asked + options) else ""  # which the address of a file needs too
    pattern = bool(MAGIC.search(path))
    with reading(address):
        if fs.get_file_info(path).type == FileType.File:
            return [(address, path.partition("?")[0].rpartition("/")[2])]
        root = _fixed(path) if pattern else path.rstrip("/")
        every = fs.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
    names = sorted(each.path for each in every if each.type == FileType.File)
    pairs = [(name, name[len(root) :].lstrip("/")) for name in names if not pattern or fnmatch(name, path)]
    return [(scheme + name + more, origin) for name, origin in pairs if _is_series(origin, pattern=pattern)]


def open_address(address: str) -> tuple[Any, str]:
    """Return the file system of an address such as ``s3://…``, by pyarrow or fsspec, and the path in it."""
    pa = arrow()
    from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem  # noqa: PLC0415  # an extra

    try:
        fs, path = FileSystem.from_uri(address)
    except (ValueError, OSError) as error:  # what pyarrow raises has these for parents
        try:
            from fsspec import url_to_fs  # noqa: PLC0415  # an extra

            other, path = url_to_fs(address)
        except (ImportError, ValueError, OSError, pa.ArrowException):
            raise DataError(f"{short_path(address)} cannot be opened: {brief(str(error))}.") from error
        fs = PyFileSystem(FSSpecHandler(other))
    return fs, path
