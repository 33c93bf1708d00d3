"""What is explained, cut into fragments: files, arrays and batches, listed without reading their series."""

import hashlib
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatch
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core.errors import DataError, InputError, MissingExtraError, brief, listed, short_path
from tempograd.data import Series
from tempograd.typing import Align

ARRAYS = (".npy", ".npz")
TABLES = (".csv", ".tsv", ".ts", ".csv.gz", ".tsv.gz", ".ts.gz")
ENDINGS = (".parquet", *ARRAYS, *TABLES)
REMOTE = re.compile(r"[a-z][a-z0-9+.-]+://")
MAGIC = re.compile(r"[*?\[]")
BUFFER = 1 << 20  # bytes that are read ahead: with its defaults pyarrow keeps all that it has read
FOOTER_BYTES = 1 << 16  # at the end of a file of a store elsewhere, which tell its version with its size and time
OWN = "_tempograd"  # the folder by which a run is known
EXACT = 32  # characters of an id up to which writers do not cut it short in what they note of row groups
AT_HAND = "memory"  # in place of a path
PLAIN = ("name", "kind", "path", "origin", "start", "stop", "rows", "alone")

_Cut = tuple[int, int, int | None]  # where a fragment begins and ends, and its rows where they are known
FragmentKind = Literal["rows", "long", "array", "table", "memory"]


def arrow() -> Any:
    """Import pyarrow, an extra."""
    try:
        import pyarrow  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("pyarrow", "parquet") from error
    return pyarrow


@dataclass(frozen=True)
class Columns:
    """Where the parts of a series are found in a source.

    Attributes
    ----------
    x : str or tuple of str
        The column with one series per row, or the columns of the channels where a row is one step of a series.
    id, mask, time : str, optional
        The columns of the ids, of what was observed, and of the time of long rows; ``.npy`` files beside arrays.
    keep : tuple of str
        Columns that go along to the results.
    shape : tuple of int, optional
        Steps and channels of every series; shorter ones are padded.
    label : str, optional
        The column of the labels of CSV files, which is no channel.
    channels : tuple of str, optional
        The channels of CSV files by name, in their order in the run.
    chosen : bool
        Whether somebody chose these, so that files may have other columns too.
    align : {"time", "order"}, optional
        Which step a row is where series have gaps in time, or times of their own.
    """

    x: str | tuple[str, ...] = "x"
    id: str | None = "id"
    mask: str | None = None
    time: str | None = None
    keep: tuple[str, ...] = ()
    shape: tuple[int, int] | None = None
    label: str | None = None
    channels: tuple[str, ...] | None = None
    chosen: bool = False
    align: Align | None = None

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Return what :attr:`plain` was."""
        parts: dict[str, Any] = {
            name: tuple(part) if isinstance(part, list) else part for name, part in plain.items()
        }
        return cls(**parts)

    @property
    def plain(self) -> dict[str, Any]:
        """Return plain data, for a file."""
        return asdict(self)

    @property
    def long(self) -> bool:
        """Tell whether a row is one step of a series."""
        return not isinstance(self.x, str)


class ArrayBatch(NamedTuple):
    """Series at hand: their ids, numbers and which of these were observed."""

    ids: NDArray[Any] | None
    x: NDArray[Any]
    mask: NDArray[Any] | None


@dataclass(frozen=True)
class Fragment:
    """A part of a source that gives one file of results.

    Attributes
    ----------
    name : str
        A hash of where it lies, and one of its version and its rows: what has changed has another name.
    kind : {"rows", "long", "array", "table", "memory"}
        How it is read: a Parquet file with one row per series, or one per step, an array, a file that
        :func:`tempograd.read_series` reads, or arrays at hand.
    path, origin : str
        The file, and what it is called relative to its source; no two files of a run are called alike.
    start, stop : int
        Its rows, or the row groups of a Parquet file.
    rows : int, optional
        How many series it holds, where that is known.
    version : tuple of int
        Size and checksum of the file, by which a change is seen.
    alone : bool
        Whether its file is the only one, whose rows are then numbered.
    whole_ids : bool, optional
        Whether its ids are whole numbers, and not texts, where the schema of a Parquet file tells.
    content : ArrayBatch, optional
        The arrays at hand, which do not travel.
    """

    name: str
    kind: FragmentKind
    path: str
    origin: str
    start: int = 0
    stop: int = 0
    rows: int | None = None
    version: tuple[int, ...] = ()
    alone: bool = False
    whole_ids: bool | None = field(default=None, compare=False)
    content: ArrayBatch | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Return what :attr:`plain` was."""
        return cls(**{**plain, "version": tuple(plain["version"])})

    @property
    def plain(self) -> dict[str, Any]:
        """Return plain data, for a file or another process."""
        return {name: getattr(self, name) for name in PLAIN} | {"version": list(self.version)}

    @property
    def place(self) -> str:
        """Return the part of the name that all versions of one place share."""
        return self.name.partition("-")[0]


def digest(*parts: object, size: int = 8) -> str:
    """Name plain data by a hash.

    Examples
    --------
    >>> digest("a.parquet", [0, 4]) == digest("a.parquet", [0, 4]), digest("b.parquet", [0, 4])
    (True, '26c9456ea8529e54')
    """
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=size).hexdigest()


def list_fragments(source: Any, columns: Columns, size: int) -> Iterator[Fragment]:
    """Cut a source into fragments of about ``size`` series.

    Files are read once, to know them again; batches of an iterable when their turn comes.
    """
    if isinstance(source, (str, Path)) or _is_list_of_paths(source):
        places = [source] if isinstance(source, (str, Path)) else list(source)
        found = _told_apart([file for place in places for file in _files(place)])
        if not found:
            raise DataError(f"There is no file of series at {_said(source)}: they end in {', '.join(ENDINGS)}.")
        for path, origin in found.items():
            yield from (replace(each, alone=len(found) == 1) for each in _of_file(path, origin, columns, size))
    elif isinstance(source, Series):
        source, ids = source.padded(), np.asarray(source.ids)
        mask = None if source.mask is None else source.mask.numpy()
        yield from _of_arrays(ArrayBatch(ids, source.x.numpy(), mask), size)
    elif isinstance(source, (np.ndarray, Tensor)):
        yield from _of_arrays(ArrayBatch(None, as_array(source), None), size)
    elif isinstance(source, ArrayBatch):
        yield from _of_arrays(source, size)
    elif isinstance(source, Iterable):
        yield from _of_batches(source, size)
    else:
        raise InputError(f"source must be files, an array or batches of (ids, x), got {brief(source)}.")


def is_streamed(source: Any) -> bool:
    """Tell whether a source gives batches that can be read once only."""
    known = (str, Path, Series, np.ndarray, Tensor, ArrayBatch)
    return not isinstance(source, known) and not _is_list_of_paths(source)


def as_array(value: Any) -> NDArray[Any]:
    """Return an array as it is, a memory map too."""
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asanyarray(value)


def _is_list_of_paths(source: Any) -> bool:
    return (
        isinstance(source, Sequence)
        and bool(source)
        and not isinstance(source, (str, ArrayBatch))
        and all(isinstance(each, (str, Path)) for each in source)
    )


def _said(source: Any) -> str:
    return short_path(str(source)) if isinstance(source, (str, Path)) else brief(source)


# Files: a folder, a pattern, a file; through pyarrow where their place has a scheme, as s3://


def _files(place: str | Path) -> list[tuple[str, str]]:
    """Return the files of a place, sorted, and what they are called relative to it."""
    text = str(place)
    if REMOTE.match(text):
        return _remote_files(text)
    path = Path(text)
    pattern = MAGIC.search(text) and not path.exists()
    root = Path(_fixed(text)) if pattern else path
    if pattern or path.is_dir():
        found = root.glob(str(path.relative_to(root))) if pattern else root.rglob("*")
        named = [(each, each.relative_to(root)) for each in sorted(found) if each.is_file()]
        named = [(each, name) for each, name in named if _is_series(name.name) and not _of_run(root, name)]
        # absolute, since workers elsewhere, and people later, stand in other folders
        return [
            (str(each.absolute()), name.as_posix()) for each, name in named if pattern or not _hidden(name.parts)
        ]
    if not path.exists():
        raise DataError(f"{short_path(text)} does not exist.")
    if not _is_series(path.name):
        raise DataError(f"{short_path(text)} cannot be read: files of series end in {', '.join(ENDINGS)}.")
    return [(str(path.absolute()), path.name)]


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


def _of_run(root: Path, name: Path) -> bool:
    """Tell whether a file lies in the folder of a run below the root: results are no series."""
    return any((root / folder / OWN).is_dir() for folder in name.parents)


def _fixed(pattern: str) -> str:
    """Return the folder of a pattern in which nothing is left open."""
    return str(Path(pattern[: MAGIC.search(pattern).start()] + "x").parent)  # type: ignore[union-attr]  # has one


def _hidden(parts: Sequence[str]) -> bool:
    return any(part.startswith((".", "_")) for part in parts)


def _is_series(name: str) -> bool:
    return name.lower().endswith(ENDINGS)


def _remote_files(uri: str) -> list[tuple[str, str]]:
    fs, path = open_uri(uri)
    from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415  # an extra

    scheme = uri[: uri.index("://") + 3]
    if not MAGIC.search(path) and fs.get_file_info(path).type == FileType.File:
        return [(scheme + path, path.rpartition("/")[2])]
    root = _fixed(path) if MAGIC.search(path) else path.rstrip("/")
    every = fs.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
    names = sorted(each.path for each in every if each.type == FileType.File and _is_series(each.path))
    if MAGIC.search(path):
        names = [name for name in names if fnmatch(name, path)]
    pairs = [(scheme + name, name[len(root) :].lstrip("/")) for name in names]
    return [(name, origin) for name, origin in pairs if not _hidden(origin.split("/"))]


def open_uri(uri: str) -> tuple[Any, str]:
    """Return the file system of an address such as ``s3://…`` and the path in it."""
    arrow()
    from pyarrow.fs import FileSystem  # noqa: PLC0415  # an extra

    try:
        fs, path = FileSystem.from_uri(uri)
    except (ValueError, OSError) as error:  # what pyarrow raises has these for parents
        raise DataError(f"{short_path(uri)} cannot be opened: {brief(str(error))}.") from error
    return fs, path


def open_parquet(path: str) -> Any:
    """Open a Parquet file so that reading it does not keep what was read."""
    pq = arrow().parquet
    try:
        if REMOTE.match(path):
            fs, name = open_uri(path)
            return pq.ParquetFile(fs.open_input_file(name), pre_buffer=False, buffer_size=BUFFER)
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER)
    except (OSError, arrow().ArrowInvalid) as error:
        raise DataError(f"{short_path(path)} is no readable Parquet file: {brief(str(error))}.") from error


def file_version(path: str) -> tuple[int, ...]:
    """Return what changes with a file's content and with nothing else: its size and its checksum.

    A store elsewhere keeps times that nobody sets back; reading its files twice would cost too much.
    """
    try:
        if REMOTE.match(path):
            fs, name = open_uri(path)
            if fs.type_name != "local":
                info = fs.get_file_info(name)
                with fs.open_input_file(name) as file:
                    end = min(info.size, FOOTER_BYTES)
                    return info.size, int(info.mtime_ns or 0), crc32(file.read_at(end, info.size - end))
            path = name
        size = mark = 0
        with Path(path).open("rb", buffering=0) as file:
            while part := file.read(BUFFER):
                size, mark = size + len(part), crc32(part, mark)
    except FileNotFoundError:
        raise DataError(f"{short_path(path)} does not exist.") from None
    except OSError as error:
        raise DataError(f"{short_path(path)} cannot be read: {brief(str(error))}.") from error
    return size, mark


def versions(path: str, columns: Columns) -> tuple[int, ...]:
    """Return the version of a file of series, with those of the ``.npy`` files of ids and masks beside arrays."""
    beside = [columns.id, columns.mask] if path.lower().endswith(ARRAYS) else []
    files = [path, *(name for name in beside if name is not None and name.endswith(".npy"))]
    return tuple(number for each in files for number in file_version(each))


def _of_file(path: str, origin: str, columns: Columns, size: int) -> Iterator[Fragment]:
    version, lower, whole_ids = versions(path, columns), path.lower(), None
    if lower.endswith(".parquet"):
        kind: FragmentKind = "long" if columns.long else "rows"
        cuts, whole_ids = _row_groups(path, size, columns)
    elif REMOTE.match(path):
        raise DataError(f"{short_path(path)} cannot be read from there: only Parquet files can.")
    elif lower.endswith(".npy"):
        kind, cuts = "array", _ranges(len(open_array(path)), size)
    elif lower.endswith(".npz"):
        kind, cuts = "array", _ranges(_packed_rows(path), size)
    else:
        kind, cuts = "table", [(0, 0, None)]
    where = digest(origin)
    for start, stop, rows in cuts:
        name = f"{where}-{digest(list(version), start, stop)}"
        yield Fragment(name, kind, path, origin, start, stop, rows, version, whole_ids=whole_ids)


def _ranges(total: int, size: int) -> list[_Cut]:
    return [(start, min(start + size, total), min(size, total - start)) for start in range(0, total, size)]


def _row_groups(path: str, size: int, columns: Columns) -> tuple[list[_Cut], bool | None]:
    """Put neighbouring row groups together, as many as hold about ``size`` rows, and tell the kind of the ids."""
    with open_parquet(path) as file:
        place = file.schema_arrow.get_field_index(columns.id) if columns.id is not None else -1
        whole_ids = None if place < 0 else bool(arrow().types.is_integer(file.schema_arrow.field(place).type))
        cuts: list[_Cut] = []
        start, rows, begun = 0, 0, False
        for group in range(file.metadata.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if rows and rows + count > size and begun:
                cuts.append((start, group, None if columns.long else rows))
                start, rows, begun = group, 0, False
            rows += count
            begun = begun or not columns.long or _begins_series(file, columns.id, group)
        if cuts and not begun:
            start = cuts.pop()[0]
        last = (start, file.metadata.num_row_groups, None if columns.long else rows)
    return [*cuts, *([last] if rows else [])], whole_ids


def _begins_series(file: Any, by: str | None, group: int) -> bool:
    """Tell whether a series begins in a row group; it may hold nothing but the middle of a long one."""
    if not group or by is None or by not in file.schema_arrow.names:  # who reads the rows says what is missing
        return True
    place = next(k for k in range(file.metadata.num_columns) if file.schema.column(k).path == by)
    found = file.metadata.row_group(group).column(place).statistics
    if found is not None and found.has_min_max and len(str(found.min)) < EXACT and found.min != found.max:
        return True  # as nearly always, and nothing was read for it
    before = id_before(file, by, group)
    ids = file.read_row_group(group, columns=[by]).column(by)
    return any(each != before for each in ids.unique().to_pylist())


def id_before(file: Any, by: str, group: int) -> Any:
    """Return the id of the last row before a row group."""
    last = next((each for each in reversed(range(group)) if file.metadata.row_group(each).num_rows), 0)
    ids = file.read_row_group(last, columns=[by]).column(by)
    return ids[len(ids) - 1].as_py() if len(ids) else None


def open_array(path: str) -> NDArray[Any]:
    """Open an array as a memory map; pickled objects are refused."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except (OSError, ValueError) as error:
        raise DataError(f"{short_path(path)} is no readable array: {brief(str(error))}.") from error


def _packed_rows(path: str) -> int:
    """Return how many series the array ``x`` of a ``.npz`` file holds, from its header alone."""
    try:
        with zipfile.ZipFile(path) as parts, parts.open("x.npy") as file:
            version = np.lib.format.read_magic(file)
            read = (
                np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            )
            shape = read(file)[0]
    except KeyError:
        raise DataError(f"{short_path(path)} holds no array called x: save the series under that name.") from None
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{short_path(path)} cannot be read: {brief(str(error))}.") from error
    return int(shape[0]) if shape else 0


# Arrays at hand, and batches that come one after the other


def _of_arrays(given: ArrayBatch, size: int) -> Iterator[Fragment]:
    """Cut arrays; their names are hashes of their content, or of the file that a memory map shows."""
    files = [_map_version(part) for part in (given.x, given.mask)]  # each is read once for all fragments
    for start, stop, rows in _ranges(len(given.x), size):
        rest = slice(start, stop)
        ids = np.arange(start, stop) if given.ids is None else np.asarray(given.ids)[rest]
        content = ArrayBatch(ids, given.x[rest], None if given.mask is None else given.mask[rest])
        name = f"{digest(AT_HAND)}-{_content(content, files)}"
        yield Fragment(name, "memory", AT_HAND, AT_HAND, start, stop, rows, content=content)


def _content(batch: ArrayBatch, files: Sequence[tuple[int, ...]] = ((), ())) -> str:
    mark = hashlib.blake2b(digest_size=8)
    mark.update(json.dumps(np.asarray(batch.ids).tolist()).encode())
    for part, file in zip((batch.x, batch.mask), files, strict=True):
        if part is not None:
            mark.update(f"{part.dtype} {part.shape}".encode())
            mark.update(_map_part(part, file) if file else np.ascontiguousarray(part).data)
    return mark.hexdigest()


def _map_version(part: NDArray[Any] | None) -> tuple[int, ...]:
    """Return the version of the file that a memory map shows as it is; nothing for other arrays."""
    name = getattr(part, "filename", None)
    if name is None or getattr(part, "_mmap", None) is None or getattr(part, "mode", "c") == "c":
        return ()  # in mode "c" changes are not those of the file
    return file_version(str(name))


def _map_part(part: NDArray[Any], file: tuple[int, ...]) -> bytes:
    """Return what tells a part of a memory map from others without reading it."""
    pages: Any = part._mmap  # type: ignore[attr-defined]
    first = np.frombuffer(pages, dtype=np.uint8).__array_interface__["data"][0]
    offset = np.asarray(part).__array_interface__["data"][0] - first
    return json.dumps([*file, offset, list(part.strides)]).encode()


def _of_batches(source: Iterable[Any], size: int) -> Iterator[Fragment]:
    """Put batches together, or cut them, into fragments of ``size`` series."""
    waiting: list[ArrayBatch] = []
    start = count = 0
    for number, given in enumerate(source):
        waiting.append(_batch(given, number))
        count += len(waiting[-1].x)
        while count >= size:
            whole = _joined(waiting)
            yield _streamed(_cut(whole, slice(0, size)), start)
            waiting, start, count = [_cut(whole, slice(size, None))], start + size, count - size
    if count:
        yield _streamed(_joined(waiting), start)


def _streamed(content: ArrayBatch, start: int) -> Fragment:
    name, rows = f"{digest(AT_HAND)}-{_content(content)}", len(content.x)
    return Fragment(name, "memory", AT_HAND, AT_HAND, start, start + rows, rows, content=content)


def _cut(batch: ArrayBatch, rows: slice) -> ArrayBatch:
    return ArrayBatch(*(None if part is None else part[rows] for part in batch))  # type: ignore[arg-type]


def _joined(parts: list[ArrayBatch]) -> ArrayBatch:
    if len(parts) == 1:
        return parts[0]
    if any((part.mask is None) != (parts[0].mask is None) for part in parts):
        raise InputError("Some batches have a mask and others have none: give all of them one, or none.")
    joined = (None if each[0] is None else np.concatenate(each) for each in zip(*parts, strict=True))
    return ArrayBatch(*joined)  # type: ignore[arg-type]


def _batch(given: Any, number: int) -> ArrayBatch:
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
        raise InputError(f"A batch must be (ids, x) or (ids, x, mask), but batch {number} is {brief(given)}.")
    ids, x = np.asarray(given[0]), as_array(given[1])
    mask = as_array(given[2]) if len(given) == 3 and given[2] is not None else None
    if x.ndim != 3 or ids.shape != (len(x),) or (mask is not None and mask.shape != x.shape):
        shapes = listed([ids.shape, x.shape] + ([] if mask is None else [mask.shape]))
        raise InputError(
            f"A batch must hold n ids, x of shape (n, time, channel) and a mask like x, but batch {number} has "
            f"the shapes {shapes}."
        )
    return ArrayBatch(ids, x, mask)
