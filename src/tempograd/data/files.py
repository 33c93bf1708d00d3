"""Files of series: where they lie, here or at an address, what they are called, and reading them in one piece."""

import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from os.path import commonprefix
from pathlib import Path
from typing import IO, Any, NoReturn, TextIO
from zlib import crc32

from tempograd.core.errors import DataError, MissingExtraError, brief, one_line, short_path
from tempograd.core.io import as_path

PACKED = (".csv", ".tsv", ".ts")
ENDINGS = (".parquet", ".npz", ".npy", *PACKED, *(f"{ending}.gz" for ending in PACKED))
REMOTE = re.compile(r"[a-z][a-z0-9+.-]+://")
MAGIC = re.compile(r"[*?\[]")
HIVE = re.compile(r"([^=/]+)=([^/]*)")  # a folder that is a column: day=2026-01-31
BUFFER = 1 << 20
LOOKS = 256  # parts of a Parquet file that are read to know it again: all of a smaller one
FOOTER_BYTES = 1 << 16  # at the end of a file of a store elsewhere, which tell its version with its size and time
PACKING = "is damaged and cannot be unpacked ({}): fetch it again"
WRONG: dict[type[Exception], str] = {  # with a file, by what reading it raises
    UnicodeDecodeError: "is no text in UTF-8: save it as UTF-8, or give it the ending of what it is",
    **dict.fromkeys((gzip.BadGzipFile, EOFError, zlib.error), PACKING),
    MemoryError: "needs more memory than there is: cut it into several files",
    FileNotFoundError: "does not exist",
    OSError: "cannot be read: {}",
}
OWN = "_tempograd"  # the folder by which a run is known


def arrow() -> Any:
    """Import pyarrow, an extra."""
    try:
        import pyarrow.compute  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("pyarrow", "parquet") from error
    return pyarrow


@dataclass(frozen=True)
class File:
    """A file of series: an absolute path or an address, and what it is called relative to its source.

    ``listed`` is what the listing of a store elsewhere told of it: its size and time, if it keeps times.
    """

    path: str
    origin: str
    listed: tuple[int, ...] = field(default=(), compare=False)

    @property
    def where(self) -> str:
        """What messages call it."""
        return short_path(self.path)

    @property
    def remote(self) -> bool:
        """Whether it lies at an address."""
        return bool(REMOTE.match(self.path))

    @property
    def plain_name(self) -> str:
        """Its path in small letters, without the query of an address."""
        return self.path.lower().partition("?")[0] if self.remote else self.path.lower()

    @property
    def ending(self) -> str:
        """The kind of the file, without ``.gz``; nothing where no series end so."""
        return next((kind.removesuffix(".gz") for kind in ENDINGS if self.plain_name.endswith(kind)), "")

    @property
    def columns(self) -> dict[str, str]:
        """The columns that the names of its folders are."""
        return dict(HIVE.findall(self.origin.rpartition("/")[0]))

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Open the file; whatever is wrong with it inside the block becomes one sentence."""
        with reading(self.path):
            if self.remote:
                fs, name = open_address(self.path)
                with fs.open_input_file(name) as file:
                    yield file if self.ending == ".parquet" else io.BytesIO(file.read())
            else:
                with Path(self.path).open("rb") as file:
                    yield file

    @contextmanager
    def text(self) -> Iterator[TextIO]:
        """Open a text file, unpacked if its name ends in ``.gz``."""
        with self.opened() as file:
            plain = gzip.GzipFile(fileobj=file) if self.plain_name.endswith(".gz") else file
            with io.TextIOWrapper(plain, encoding="utf-8-sig", newline="") as text:
                yield text

    @property
    def stamp(self) -> tuple[int, ...]:
        """What changes whenever a file is written, as far as it is known without reading it."""
        if not self.listed and not self.remote:
            with suppress(OSError):  # which reading it tells
                found = Path(self.path).stat()
                return found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns
        return self.listed

    @property
    def version(self) -> tuple[int, ...]:
        """What changes with a file's content and with nothing else: its size and its checksum.

        A store elsewhere keeps times that nobody sets back; reading its files twice would cost too much. Of a
        large Parquet file, whose end tells sizes and ranges of all that is in it, parts are enough.
        """
        if self.remote:
            fs, name = open_address(self.path)
            with reading(self.path):
                info = fs.get_file_info(name)
                with fs.open_input_file(name) as file:
                    end = min(info.size, FOOTER_BYTES)
                    return info.size, int(info.mtime_ns or 0), crc32(file.read_at(end, info.size - end))
        with self.opened() as file:
            size, mark = file.seek(0, os.SEEK_END), 0
            step = max(BUFFER, size // LOOKS) if self.ending == ".parquet" else BUFFER
            for start in range(0, size, step):
                file.seek(start)
                mark = crc32(file.read(BUFFER), mark)
            file.seek(max(0, size - FOOTER_BYTES))
            return size, crc32(file.read(FOOTER_BYTES), mark)


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Read a file inside the block: whatever is wrong with the file becomes one sentence about it.

    A path must be that of an ordinary file, because reading a pipe would wait for ever, and that file must not
    change meanwhile.
    """
    try:
        before = _state(path)
        yield
        if _state(path) != before:
            raise DataError(f"{short_path(path)} changed while it was read: read it again when it is complete.")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, MemoryError) as error:
        what = next(what for kind, what in WRONG.items() if isinstance(error, kind))
        reason = getattr(error, "strerror", None) or one_line(str(error), 90)
        raise DataError(f"{short_path(path)} {what.format(reason)}.") from error


def _state(path: str | Path) -> tuple[int, ...]:
    """Return what changes with an ordinary file's content; anything else is refused."""
    if REMOTE.match(str(path)):
        return ()
    found = Path(path).stat()
    if not stat.S_ISREG(found.st_mode):
        what = "folder" if stat.S_ISDIR(found.st_mode) else "device or a pipe: write its content to a file first"
        raise DataError(f"{short_path(path)} is a {what}.")
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def list_files(path: Any) -> list[File]:
    """Return the files of a file, pattern, folder, address or several of these, sorted, each called once."""
    places = list(path) if isinstance(path, (list, tuple)) and path else [path]
    named: dict[str, File] = {}
    for place in places:
        for file in _files(place):
            named.setdefault(file.path, file)
    if not named:
        some = short_path(str(path)) if isinstance(path, (str, Path)) else brief(path)
        raise DataError(f"There is no file of series at {some}: they end in {', '.join(ENDINGS)}.")
    files = list(named.values())
    if len({file.origin for file in files}) < len(files):  # all are called by their place below the folder of all
        above = [file.path.removesuffix(file.origin) for file in files]
        start = commonprefix(above).rfind("/") + 1  # noqa: RUF071  # addresses have no common path
        files = [replace(file, origin=file.path[start:]) for file in files]
    for file in files:
        if not file.ending:
            there, rule = file.remote or Path(file.path).exists(), f"files of series end in {', '.join(ENDINGS)}"
            raise DataError(f"{file.where} {f'cannot be read: {rule}' if there else 'does not exist'}.")
    return files


def is_many(path: Any) -> bool:
    """Tell whether a path is that of many files: a folder, a pattern, an address, or several."""
    if not isinstance(path, (str, Path)):
        return isinstance(path, (list, tuple))
    try:
        pattern = MAGIC.search(str(path)) and not Path(path).exists()
        return bool(REMOTE.match(str(path)) or Path(path).is_dir() or pattern)
    except (OSError, ValueError):  # no name that a file can have
        return False


def _files(place: Any) -> list[File]:
    """Return the files of a place, sorted, called by their place relative to it."""
    text = str(place)
    if isinstance(place, str) and REMOTE.match(text):
        return _remote_files(text)
    path = as_path(place)
    if not is_many(place):
        return [File(str(path), path.name)]
    root = path if path.is_dir() else Path(_fixed(text))
    # absolute, since workers elsewhere, and people later, stand in other folders
    above = root.absolute().as_posix().rstrip("/")
    if path.is_dir():
        names = sorted(_walked(above or "/"), key=lambda name: name.split("/"))
        return [File(f"{above}/{name}", name) for name in names]
    found = [
        each.relative_to(root) for each in sorted(root.glob(str(path.relative_to(root)))) if not each.is_dir()
    ]
    # results in the folder of a run are no series
    names = [name.as_posix() for name in found if not any((root / up / OWN).is_dir() for up in name.parents)]
    return [File(f"{above}/{name}", name) for name in names if _is_series(name, pattern=True)]


def _walked(root: str) -> Iterator[str]:
    """Yield what files of series below a folder are called, but for results in the folder of a run."""
    for folder, below, names in os.walk(root, onerror=_unlisted):
        if OWN in below:
            below.clear()
            continue
        below[:] = [name for name in below if not name.startswith((".", "_"))]
        found = (f"{folder}/{name}" for name in names if _is_series(name, pattern=False))
        yield from (path.removeprefix(root).lstrip("/") for path in found)


def _unlisted(error: OSError) -> NoReturn:
    raise DataError(f"{short_path(error.filename)} cannot be listed: {error.strerror}.") from error


def _is_series(origin: str, *, pattern: bool) -> bool:
    """Tell whether a file is one of series, and hidden only where a pattern asks for it."""
    hidden = any(part.startswith((".", "_")) for part in origin.split("/"))
    return bool(File(origin, "").ending) and (pattern or not hidden)


def _fixed(pattern: str) -> str:
    """Return the folder of a pattern in which nothing is left open."""
    return str(Path(pattern[: MAGIC.search(pattern).start()] + "x").parent)  # type: ignore[union-attr]  # has one


def _remote_files(address: str) -> list[File]:
    """Return the files of an address, sorted, called by their place relative to it."""
    fs, path = open_address(address)
    from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415  # an extra

    scheme = address[: address.index("://") + 3]
    _, asked, options = address.partition("?")
    more = asked + options if not path.endswith(asked + options) else ""  # which the address of a file needs too
    pattern = bool(MAGIC.search(path))
    with reading(address):
        info = fs.get_file_info(path)
        if info.type == FileType.File:
            return [File(address, path.partition("?")[0].rpartition("/")[2], _listed(info))]
        root = _fixed(path) if pattern else path.rstrip("/")
        every = fs.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
    there = sorted((each for each in every if each.type == FileType.File), key=lambda each: each.path)
    files = [File(each.path, each.path[len(root) :].lstrip("/"), _listed(each)) for each in there]
    return [
        replace(file, path=scheme + file.path + more)
        for file in files
        if (not pattern or fnmatch(file.path, path)) and _is_series(file.origin, pattern=pattern)
    ]


def _listed(info: Any) -> tuple[int, ...]:
    return (int(info.size), int(info.mtime_ns)) if info.mtime_ns else ()


def open_address(address: str) -> tuple[Any, str]:
    """Return the file system of an address such as ``s3://…``, by pyarrow or fsspec, and the path in it."""
    pa = arrow()
    from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem  # noqa: PLC0415  # an extra

    try:
        return FileSystem.from_uri(address)  # type: ignore[no-any-return]
    except (ValueError, OSError) as error:  # what pyarrow raises has these for parents
        try:
            from fsspec import url_to_fs  # noqa: PLC0415  # an extra

            fs, path = url_to_fs(address)
        except (ImportError, ValueError, OSError, pa.ArrowException):
            raise DataError(f"{short_path(address)} cannot be opened: {brief(str(error))}.") from error
        return PyFileSystem(FSSpecHandler(fs)), path
