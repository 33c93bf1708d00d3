"""What is known of files before their series are read; and what runs read one by one, in parts or together."""

import hashlib
import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import chain, groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tempograd.core import validation
from tempograd.core.errors import DataError, InputError, TempogradError, arg, brief, one_line, quote
from tempograd.core.series import is_nested
from tempograd.data import pivot, reading
from tempograd.data.files import File, arrow, list_files
from tempograd.data.pivot import Clock, Columns, Part, Roles, read_table, require_names
from tempograd.data.reading import TABLES, in_file, in_one_message, own_id
from tempograd.data.table import ArrowTable, Table, open_parquet, open_table, plain_type, plain_values

C = TypeVar("C", bound=Columns)
Cut = tuple[int, int, int | None]  # where a piece begins and ends, and its rows where they are known
WHOLE: Cut = (0, 0, None)
THREADS = 8  # that wait for files
SMALL = 8 << 20  # bytes of files that are read together
MOST_FILES = 256  # that are read together
LONGER = "pass shape (--shape) with the steps of the longest, and another folder if the run has begun"
TWO_KINDS = (
    "The ids of {} are whole numbers, those of {} texts: write all as numbers (7, not 007), or as texts (s7)."
)
LONG_BYTES = 1 << 28  # of rows that are steps, in memory, up to which a file is read whole


@dataclass(frozen=True)
class Piece:
    """A file, or rows of it.

    Attributes
    ----------
    path, origin : str
        The file, and what it is called relative to its source; no two files of a run are called alike.
    start, stop : int
        Its rows, or the row groups of a Parquet file with a series in each row; both 0 for a whole file.
    rows : int, optional
        How many series it holds, where that is known.
    version : tuple of int
        Size and checksum of the file, by which a change is seen.
    """

    path: str
    origin: str
    start: int = 0
    stop: int = 0
    rows: int | None = None
    version: tuple[int, ...] = ()

    @property
    def file(self) -> File:
        """Return the file that it is a part of."""
        return File(self.path, self.origin)


@dataclass(frozen=True)
class Fragment:
    """A part of a source that gives one file of results: rows of a large file, or several small files.

    Attributes
    ----------
    pieces : tuple of Piece
    alone : bool
        Whether its file is the only one of the source, whose rows are then numbered.
    """

    pieces: tuple[Piece, ...]
    alone: bool = False

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Return what :attr:`plain` was."""
        pieces = (Piece(**{**each, "version": tuple(each["version"])}) for each in plain["pieces"])
        return cls(tuple(pieces), plain["alone"])

    @property
    def plain(self) -> dict[str, Any]:
        """Return plain data, for a file or another process."""
        return asdict(self)

    @cached_property
    def name(self) -> str:
        """A hash of the files, their versions and rows: what has changed has another name."""
        return digest(*((each.origin, each.version, each.start, each.stop) for each in self.pieces), size=12)

    @property
    def where(self) -> str:
        """What messages call it."""
        first, others = self.pieces[0], len(self.pieces) - 1
        more = f" and {others} more file{'s' if others > 1 else ''}" if others else ""
        unit = "row" if first.file.ending == ".npy" else "row group"
        return first.origin + (f", from {unit} {first.start}" if first.start else more)

    @property
    def rows(self) -> int | None:
        """How many series it holds, where that is known."""
        counts = [each.rows for each in self.pieces]
        return None if None in counts else sum(filter(None, counts))

    @property
    def paths(self) -> tuple[str, ...]:
        """Its files."""
        return tuple(each.path for each in self.pieces)

    def apart(self) -> list[Self]:
        """Return a fragment of each file, for one that failed as a whole."""
        return [replace(self, pieces=(each,)) for each in self.pieces]


def digest(*parts: object, size: int = 8) -> str:
    """Name plain data by a hash.

    Examples
    --------
    >>> digest("a.parquet", [0, 4]) == digest("a.parquet", [0, 4]), digest("b.parquet", [0, 4])
    (True, '26c9456ea8529e54')
    """
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=size).hexdigest()


def version_of(file: File, source: Columns) -> tuple[int, ...]:
    """Return the version of a file of series, with that of the table by which its values are scaled."""
    return *file.version, *scale_version(source)


def scale_version(source: Columns) -> tuple[int, ...]:
    """Return the version of the table by which values are scaled."""
    return () if source.scale is None else File(str(source.scale), str(source.scale)).version


# What is known of files before their series are read


class Inspected(NamedTuple):
    """What is known of a file without reading its series.

    Attributes
    ----------
    file : File
    stamp : tuple of int
        What changes whenever the file, or the table by which it is scaled, is written: it is not read again while
        that is the same. Empty where it is not known.
    version : tuple of int
        What changes with its content.
    cuts
        The parts of it that are read one by one.
    kept : str
        The Arrow schema of the columns that go along, serialised.
    error : str
        Why it cannot be read, arguments in the sentence marked.
    ids : bool
        Whether it is known to name its series.
    channels : tuple of str, optional
        Which it names.
    """

    file: File
    stamp: tuple[int, ...]
    version: tuple[int, ...] = ()
    cuts: Sequence[Cut] = (WHOLE,)
    kept: str = ""
    error: str = ""
    ids: bool = False
    channels: tuple[str, ...] | None = None

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Return what :attr:`plain` was, as it comes from a file."""
        return cls(**{**{name: _tupled(part) for name, part in plain.items()}, "file": File(*plain["file"])})

    @property
    def plain(self) -> dict[str, Any]:
        """Return plain data, for a file."""
        return self._asdict() | {"file": (self.file.path, self.file.origin)}


def _tupled(plain: Any) -> Any:
    return tuple(map(_tupled, plain)) if isinstance(plain, list) else plain


def inspect_files(
    path: Any, source: Columns, size: int, known: Mapping[str, Inspected] = MappingProxyType({})
) -> list[Inspected]:
    """Look at files, each once; what is ``known`` by path is not read again while it has its stamp.

    A file that cannot be read, or that names other channels than most, has an error instead of stopping others.
    """
    if not isinstance(path, (str, Path, list, tuple)):
        raise InputError(f"Runs read files, got {brief(path)}: what is in memory goes to tg.explain.")
    files, looking = list_files(path), _Inspector(source, size, known)
    with ThreadPoolExecutor(THREADS) as pool:
        parts = [pool.submit(copy_context().run, looking.at, file) for file in files]
        try:
            found = [part.result() for part in parts]
        finally:  # where somebody interrupts, nobody waits for the others
            pool.shutdown(cancel_futures=True)
    return found if source.channels is not None else _of_other_channels(found)


def agreed_channels(found: Sequence[Inspected], source: C) -> C:
    """Return the source with the channels that its files have, where these are several and name some."""
    if len(found) < 2 or source.channels is not None:
        return source
    return replace(source, channels=next((each.channels for each in found if not each.error), None))


def kept_types(found: Sequence[Inspected]) -> Any:
    """Return the schema of the columns that go along, of types that hold the values of all files."""
    pa, agreed = arrow(), None
    first = {each.kept: each.file.where for each in reversed(found) if each.kept}
    for kept, where in reversed(first.items()):
        schema = pa.ipc.read_schema(pa.BufferReader(b64decode(kept)))
        try:
            agreed = pa.unify_schemas([agreed or schema, schema], promote_options="permissive")
        except pa.ArrowException as error:
            reason = f"unlike other files ({one_line(str(error), 120)})"
            advice = f"write its columns alike, or leave them out of {arg:source.keep}"
            raise DataError(f"{where} holds other columns of {arg:source.keep}, {reason}: {advice}.") from error
    texts = [field.with_type(pa.string()) if field.type == pa.null() else field for field in agreed or ()]
    return agreed and pa.schema(texts)


def joined_fragments(found: Sequence[Inspected], size: int) -> list[Fragment]:
    """Put neighbouring small files together, up to ``size`` series; large ones are cut.

    A folder that is a column has fragments of its own.
    """
    groups: list[list[Piece]] = []
    filling: dict[Any, tuple[list[Piece], float]] = {}
    for each in found:
        pieces = [Piece(each.file.path, each.file.origin, *cut, each.version) for cut in each.cuts]
        if each.error or not pieces:
            continue
        rows = pieces[0].rows
        share = max(each.version[0] / SMALL if rows is None else rows / size, 1 / MOST_FILES, 1 / size)
        if len(pieces) > 1 or share >= 1:
            groups += [[piece] for piece in pieces]
            continue
        key = rows is None, each.file.ending, tuple(each.file.columns.items())
        group, filled = filling.get(key, ([], 1.0))
        if filled + share > 1:
            group, filled = [], 0.0
            groups.append(group)
        group += pieces
        filling[key] = group, filled + share
    return [Fragment(tuple(group), len(found) == 1) for group in groups]


def _of_other_channels(found: list[Inspected]) -> list[Inspected]:
    """Note an error of files whose channels are not those of most, or of the first of as many."""
    sets = Counter(frozenset(each.channels or ()) for each in found if not each.error)
    if len(sets) < 2:
        return found
    agreed = sets.most_common(1)[0][0]
    errors = (pivot.unlike(each.file.where, each.channels, agreed) for each in found)
    return [each if each.error else each._replace(error=error) for each, error in zip(found, errors, strict=True)]


class _Inspector:
    """Looks at files; tables with the same first line are alike."""

    def __init__(self, source: Columns, size: int, known: Mapping[str, Inspected]) -> None:
        self.source, self.size, self.known = source, size, known
        self.scale = scale_version(source)
        self.heads: dict[str, tuple[str, ...] | None] = {}

    def at(self, listed: File) -> Inspected:
        """Look at a file; what is wrong with it becomes a sentence."""
        there = listed.remote or Path(listed.path).is_absolute()  # workers elsewhere stand in other folders
        file = listed if there else replace(listed, path=str(Path(listed.path).absolute()))
        stamp: tuple[int, ...] = ()
        try:
            if file.path.encode(errors="replace").decode() != file.path:
                file = File(one_line(file.path, None), one_line(file.origin, None))
                raise DataError(f"{file.where} has a name that is no text in UTF-8: call it otherwise.")
            if seen := file.stamp:
                stamp = (*seen, *self.scale)
            known = self.known.get(file.path)
            if known is not None and stamp and known.stamp == stamp and not known.error:
                return known._replace(file=file)
            version = (*file.version, *self.scale)
            return Inspected(file, stamp, version, **self._looked(file, own_columns(file, self.source), version))
        except (TempogradError, OSError, ValueError) as error:
            text = error.finding.marked if isinstance(error, TempogradError) else f"{file.where}: {error}"
            return Inspected(file, stamp, error=one_line(text, None))

    def _looked(self, file: File, own: Sequence[str], version: tuple[int, ...]) -> dict[str, Any]:
        """Return the fields of what is known of a file by its kind."""
        if file.ending == ".parquet":
            return self._parquet(file, own)
        if file.ending in TABLES:
            return self._text(file, own)
        if not version[0]:
            raise DataError(f"{file.where} is empty.")
        if file.ending == ".npy" and not file.remote:
            with in_file(file.where):
                total = len(whole_file(file, version, self.source))
            starts = range(0, total, self.size)
            return {"cuts": [(row, min(row + self.size, total), min(self.size, total - row)) for row in starts]}
        found: dict[str, Any] = {"kept": self._kept({})}
        if file.ending == ".npz":
            with in_file(file.where):
                arrays = reading.load_arrays(file, ["channels", "ids"])
                found["channels"] = validation.check_names(arrays.get("channels"), None, "channels")
            found["ids"] = "ids" in arrays
        return found

    def _parquet(self, file: File, own: Sequence[str]) -> dict[str, Any]:
        with open_parquet(file) as opened:
            schema, about = opened.schema_arrow, opened.metadata
            roles = self._roles(file, ArrowTable(file.where, schema, opened.read, first=1), own)
            counts = [about.row_group(group).num_rows for group in range(about.num_row_groups)]
        kept = self._kept({name: plain_type(schema.field(name).type) for name in own})
        found = {"kept": kept, "ids": roles.id is not None}
        if roles.format == "lists":
            return found | {"cuts": _cuts(counts, self.size)}
        return found | {"channels": roles.values if roles.format == "long" else None}

    def _text(self, file: File, own: Sequence[str]) -> dict[str, Any]:
        """Look at a table of text: at the first line of those that begin alike."""
        with file.text() as text:
            line = text.readline()
        if '"' in line or line not in self.heads:
            roles = self._roles(file, open_table(file), own)
            self.heads[line] = roles.values if roles.format == "long" else None
        return {"kept": self._kept({}), "channels": self.heads[line]}

    def _kept(self, types: Mapping[str, Any]) -> str:
        """Return the types of the columns that go along; what folders and tables of text hold is text."""
        if not self.source.keep:
            return ""
        schema = arrow().schema({name: types.get(name, arrow().string()) for name in self.source.keep})
        return b64encode(schema.serialize()).decode()

    def _roles(self, file: File, table: Table, own: Sequence[str]) -> Roles:
        asked = [name for name in (self.source.x, self.source.mask, *own) if name is not None]
        require_names(table.where, "column", asked, table.columns)
        return in_one_message(own_id(file, self.source)[0], lambda asked: pivot.find_roles(table, asked))


def _cuts(counts: Sequence[int], size: int) -> list[Cut]:
    """Put neighbouring row groups of whole series together, as many as hold about ``size`` rows."""
    ends = np.cumsum([0, *counts]).tolist()
    groups = [group for group, rows in enumerate(counts) if rows]
    cuts = [[*part] for _, part in groupby(groups, lambda group: ends[group] // size)]
    return [(part[0], part[-1] + 1, ends[part[-1] + 1] - ends[part[0]]) for part in cuts]


# Reading what was found


def read_fragment(fragment: Fragment, source: Columns, size: int, kept: Any = None) -> Iterator[Part]:
    """Read a fragment in parts of at most ``size`` series, with the shape of the source.

    ``kept`` are the types of columns that go along, by :func:`kept_types`. Parts tell in ``more`` the ``origins``
    of their rows, the ``times`` of the steps of their files, for all or for each, and the ``raw`` values where a
    source scales or fills.
    """
    waiting: list[Part] = []
    for part in (part for piece in fragment.pieces for part in _parts(piece, fragment.alone, source, size, kept)):
        alike = len({(each.x.shape[1:], each.x.dtype) for each in (part, *waiting[:1])}) == 1
        if waiting and not (alike and sum(map(len, waiting)) + len(part) <= size):
            yield identified(waiting)
            waiting = []
        waiting.append(part)
        if sum(map(len, waiting)) >= size:
            yield identified(waiting)
            waiting = []
    if waiting:
        yield identified(waiting)


def _parts(piece: Piece, alone: bool, source: Columns, size: int, kept: Any) -> Iterator[Part]:
    """Read a file of a fragment, or rows of it."""
    file, folders, types = piece.file, piece.file.columns, {field.name: field.type for field in kept or ()}
    asked, before = own_id(file, replace(source, labels=False, keep=own_columns(file, source)))
    read = _row_groups if piece.stop and file.ending == ".parquet" else _rows
    for part, start in read(piece, asked, size):
        count = len(part)
        numbers = np.arange(start, start + count)
        names = numbers if alone else [f"{piece.origin}:{number}" for number in numbers.tolist()]
        columns = part.kept | {name: arrow().array([text] * count) for name, text in folders.items()}
        columns = {name: columns[name].cast(types.get(name, columns[name].type)) for name in source.keep}
        ids = names if part.ids is None else prefixed(part.ids, before) if before else part.ids
        more = {"origins": [piece.origin] * count, "times": part.more.get("times")}
        with in_file(file.where):
            yield _shaped(reading.prepared(replace(part, ids=ids, kept=columns, more=more), source), source.shape)


def own_columns(file: File, source: Columns) -> tuple[str, ...]:
    """Return the columns that go along and that no folder is, which a table alone can have."""
    own = tuple(name for name in source.keep if name not in file.columns)
    if file.ending not in TABLES:
        require_names(file.where, "column", own, list(file.columns))
    return own


def stacked_parts(parts: Sequence[Part]) -> Part:
    """Put series together, one part after the other; shorter ones end in zeros, which are masked."""
    first, ids = parts[0], [np.asarray(part.ids) for part in parts]
    if len(parts) == 1:
        return first
    texts = [each.dtype.kind not in "iu" for each in ids]
    if len({*texts}) > 1:
        raise DataError(TWO_KINDS.format(*(parts[texts.index(kind)].more["origins"][0] for kind in (False, True))))
    ends = np.cumsum([0, *map(len, parts)]).tolist()
    faults = {row + end: why for part, end in zip(parts, ends, strict=False) for row, why in part.faults.items()}
    masks = [np.ones(part.x.shape, dtype=bool) if part.mask is None else part.mask for part in parts]
    seen = all(part.mask is None and part.x.shape[1] == first.x.shape[1] for part in parts)
    steps = [np.full(len(part), part.x.shape[1]) if part.steps is None else part.steps for part in parts]
    times = [part.more.get("times") for part in parts]
    if is_nested(times[0]) or any(each != times[0] for each in times):  # those of each series
        rows = [row if is_nested(row) else [row] * len(part) for row, part in zip(times, parts, strict=True)]
        times = [None if None in times else [row for each in rows for row in each]]
    more = {name: first.more.get(name) for name in ("units", "classes")} | {"times": times[0]}
    for name in ("truth", "raw", "y"):
        cells: list[Any] = [part.more.get(name) for part in parts]
        if all(each is not None and each.ndim == cells[0].ndim for each in cells):
            more[name] = stacked(cells)
    return replace(
        first,
        ids=[name for each in ids for name in each.tolist()],
        x=stacked([part.x for part in parts]),
        mask=None if seen else stacked(masks),
        kept={name: arrow().concat_arrays([part.kept[name] for part in parts]) for name in first.kept},
        faults=faults,
        steps=np.concatenate(steps),
        more=more | {"origins": [origin for part in parts for origin in part.more["origins"]]},
    )


def stacked(cells: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Put arrays together, one after the other; those of fewer steps end in nothing."""
    steps = [each.shape[1] if each.ndim > 1 else 0 for each in cells]
    ends = [((0, 0), (0, max(steps) - count), (0, 0)) for count in steps]
    empty = "" if cells[0].dtype == object else 0
    padded = [np.pad(each, end[: each.ndim], constant_values=empty) for each, end in zip(cells, ends, strict=True)]
    return np.concatenate(padded)


def prefixed(ids: Any, before: str) -> list[str]:
    """Put what folders are called before ids."""
    return [f"{before}{name}" for name in np.asarray(ids).tolist()]


def identified(parts: Sequence[Part]) -> Part:
    """Put series together, with ids as an Arrow array and the numbers that draws depend on: texts are hashed."""
    part = stacked_parts(parts)
    pa, array = arrow(), np.asarray(part.ids)
    if array.dtype.kind in "USO":
        texts = [text.decode() if isinstance(text, bytes) else str(text) for text in array.tolist()]
        hashed = np.fromiter(map(validation.text_key, texts), np.int64, len(texts))
        return replace(part, ids=pa.array(texts, pa.string()), keys=hashed)
    numbers = validation.as_tensor(array, "ids").numpy()
    if numbers.dtype.kind not in "iu":
        raise InputError(f"ids must be whole numbers or texts, got {array.dtype}.")
    keys = numbers.astype(np.int64)
    return replace(part, ids=pa.array(keys), keys=keys)


def _shaped(part: Part, shape: tuple[int, int] | None) -> Part:
    """Return series padded to the shape of the run; what has more steps cannot be explained."""
    x, mask = part.x, part.mask
    if shape is None or x.shape[1:] == shape:
        return replace(part, x=np.array(x), mask=None if mask is None else np.array(mask))
    time, depth = shape
    if x.shape[2] != depth:
        raise InputError(f"the series have {x.shape[2]} channels, those of the run {depth}.")
    mask = np.ones(x.shape, dtype=bool) if mask is None else mask
    beyond = np.flatnonzero(mask[:, time:].any((1, 2))).tolist()
    faults = dict.fromkeys(beyond, f"it has more than the {time} steps of the run: {LONGER}") | part.faults
    after = ((0, 0), (0, max(0, time - x.shape[1])), (0, 0))
    cells = {"x": x, "mask": mask} | {name: part.more[name] for name in part.more.keys() & {"raw"}}
    cells = {name: np.pad(each[:, :time], after) for name, each in cells.items()}
    x, mask = cells.pop("x"), cells.pop("mask")
    return replace(part, x=x, mask=mask, faults=faults, more=part.more | cells)


# Files of any kind, whole or some of their rows


def _rows(piece: Piece, source: Columns, size: int) -> Iterator[tuple[Part, int]]:
    """Read a file in parts, or rows of an array that stays on disk, and tell the number of their first rows."""
    first = 0
    for whole in long_parts(piece.file, source) or [whole_file(piece.file, piece.version, source)]:
        stop = piece.stop or len(whole)
        for start in range(piece.start, stop, size):
            rows = slice(start, min(start + size, stop))
            ids, mask = (None if cells is None else cells[rows] for cells in (whole.ids, whole.mask))
            x = whole.x[rows].astype(np.float64 if whole.x.dtype == np.float64 else np.float32, copy=False)
            kept = {name: column[rows] for name, column in whole.kept.items()}
            times = whole.more.get("times")
            more = {"times": times[rows] if is_nested(times) else times}
            yield Part(ids, x, mask, kept, channels=whole.channels, more=more), first + start
        first += len(whole)


@lru_cache(maxsize=1)
def whole_file(file: File, _version: tuple[int, ...], source: Columns) -> Part:
    """Read a whole file, once for all that read it after each other; an array here stays on disk."""
    if file.ending != ".npy" or file.remote:
        return reading.read_part(file, source)
    with in_file(file.where):
        return reading.read_arrays(file, source, mapped=True)


# Parquet files in parts


def _row_groups(piece: Piece, source: Columns, size: int) -> Iterator[tuple[Part, int]]:
    """Read row groups of whole series in batches, and tell the number of their first rows."""
    with open_parquet(piece.file) as opened:
        row = sum(opened.metadata.row_group(group).num_rows for group in range(piece.start))
        groups, schema = list(range(piece.start, piece.stop)), opened.schema_arrow
        lists, series = ArrowTable.of(piece.file.where, schema.empty_table(), 1).lists, source.x or "x"
        unread = lists - {series, source.mask, *source.keep} if series in lists else set()
        wanted = [name for name in schema.names if name not in unread]
        for batch in opened.iter_batches(size, row_groups=groups, columns=wanted, use_threads=False):
            rows = ArrowTable.of(piece.file.where, arrow().Table.from_batches([batch]), row + 1)
            yield in_one_message(source, partial(read_table, rows)), row
            row += len(batch)


def long_parts(file: File, source: Columns) -> Iterator[Part] | None:
    """Read a large file of rows that are steps in parts of complete series; None where it is read whole."""
    if file.ending != ".parquet":
        return None
    with open_parquet(file) as opened:
        about = opened.metadata
        size = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
        if size <= LONG_BYTES:
            return None
        table = ArrowTable(file.where, opened.schema_arrow, opened.read, first=1)
        roles = in_one_message(source, partial(pivot.find_roles, table))
    if roles.format != "long" or roles.id is None:
        return None
    return _long_parts(file, replace(source, format="long"), roles, max(1, about.num_rows * LONG_BYTES // size))


def _long_parts(file: File, source: Columns, roles: Roles, rows: int) -> Iterator[Part]:
    """Read some rows after each other, and hand over the series that are complete, which must stand together."""
    pa, pc = arrow(), arrow().compute
    clock = None if roles.time is None or source.align == "order" else _clock(file, file.stamp, roles.time)
    wanted = list(dict.fromkeys(filter(None, [roles.id, roles.time, roles.label, *roles.values, *source.keep])))
    table, first, seen = None, 1, set[Any]()
    with open_parquet(file) as opened:
        for batch in chain(opened.iter_batches(rows, columns=wanted, use_threads=False), [None]):
            new = [] if batch is None else [pa.Table.from_batches([batch])]
            table = pa.concat_tables([*([] if table is None else [table]), *new])
            runs = pc.run_end_encode(plain_values(table.column(roles.id)))
            ends, names = runs.run_ends.to_pylist(), runs.values.to_pylist()
            if batch is not None:  # the last series may go on
                ends, names = [0, *ends][:-1], names[:-1]
            for name in names:
                if name in seen:
                    what = f"series {quote(str(name))} goes on after another has begun"
                    raise DataError(f"{file.where}: {what}: sort a file of this size by {quote(roles.id or '')}.")
                seen.add(name)
            if ends[-1]:
                rest, table = ArrowTable.of(file.where, table.slice(0, ends[-1]), first), table.slice(ends[-1])
                yield in_one_message(source, partial(read_table, rest, clock=clock))
                first += ends[-1]


@lru_cache(maxsize=1)
def _clock(file: File, _stamp: tuple[int, ...], column: str) -> Clock:
    """Return the distinct times of a whole file, on which the step of each row depends."""
    pa, found = arrow(), None
    with open_parquet(file) as opened:
        for batch in opened.iter_batches(columns=[column], use_threads=False):
            new = plain_values(pa.Table.from_batches([batch]).column(column)).drop_null()
            found = pa.concat_arrays([new] if found is None else [found, new]).unique()
    table = ArrowTable.of(file.where, pa.table({column: found}), 1)
    return pivot.clock_of(*pivot.parse_times(table.read([column], [])[0][column], table))
