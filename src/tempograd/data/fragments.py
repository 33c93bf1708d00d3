"""What runs read one by one: files, several small ones, and parts of files whose rows are whole series."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from tempograd.core.errors import DataError, InputError, arg
from tempograd.core.series import check_times, is_nested
from tempograd.core.validation import as_tensor, text_key
from tempograd.data.columns import STANDARD, Columns, Part
from tempograd.data.files import File, arrow
from tempograd.data.kept import as_kept
from tempograd.data.large_files import long_parts
from tempograd.data.pivot import read_table, require_binary, require_names
from tempograd.data.reading import TABLES, in_file, in_one_message, own_id, read_arrays, read_part, scaled_cells
from tempograd.data.table import ArrowTable, is_list, open_parquet

LONGER = f"pass {arg:source.shape} of the longest, and another folder if the run has begun"

TWO_KINDS = (
    "The ids of {} are whole numbers, those of {} texts: write all as whole numbers (7, not 007), or put a letter "
    "before each (s7)."
)
Cut = tuple[int, int, int | None]  # where a piece begins and ends, and its rows where they are known
WHOLE: Cut = (0, 0, None)
FragmentKind = Literal["rows", "array", "file"]


@dataclass(frozen=True)
class Piece:
    """A file, or rows of it.

    Attributes
    ----------
    path, origin : str
        The file, and what it is called relative to its source; no two files of a run are called alike.
    start, stop : int
        Its rows, or the row groups of a Parquet file; both 0 for a whole file.
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
    kind : {"rows", "array", "file"}
        How it is read: row groups of Parquet files with one row per series, rows of ``.npy`` files, or whole
        files.
    pieces : tuple of Piece
    alone : bool
        Whether its file is the only one of the source, whose rows are then numbered.
    """

    kind: FragmentKind
    pieces: tuple[Piece, ...]
    alone: bool = False

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Return what :attr:`plain` was."""
        pieces = (Piece(**{**each, "version": tuple(each["version"])}) for each in plain["pieces"])
        return cls(plain["kind"], tuple(pieces), plain["alone"])

    @property
    def plain(self) -> dict[str, Any]:
        """Return plain data, for a file or another process."""
        pieces = [vars(each) | {"version": list(each.version)} for each in self.pieces]
        return {"kind": self.kind, "pieces": pieces, "alone": self.alone}

    @cached_property
    def name(self) -> str:
        """A hash of the files, their versions and rows: what has changed has another name."""
        return digest(*((each.origin, each.version, each.start, each.stop) for each in self.pieces), size=12)

    @property
    def where(self) -> str:
        """What messages call it."""
        first, others = self.pieces[0], len(self.pieces) - 1
        more = f" and {others} more file{'s' if others > 1 else ''}" if others else ""
        unit = "row" if self.kind == "array" else "row group"
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
    return () if source.scale in {None, STANDARD} else File(str(source.scale), str(source.scale)).version


def read_fragment(
    fragment: Fragment, source: Columns, size: int, kept: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Part]:
    """Read a fragment in parts of at most ``size`` series, with the shape of the source.

    ``kept`` are the types of columns that go along, by :func:`kept_types`. Parts tell in ``more`` the ``origins``
    of their rows, the ``times`` of the steps of their files, for all or for each, and the ``raw`` values where a
    source scales or fills.
    """
    if source.scale == STANDARD or (source.fill == "mean" and source.scale is None):
        raise DataError(
            f"A run reads file after file and does not know the mean of all: pass {arg:source.scale}, a file with "
            "the mean and std of each channel."
        )
    waiting: list[Part] = []
    for piece in fragment.pieces:
        for part in _parts(piece, fragment, source, size, kept):
            like = [(each.x.shape[1:], each.x.dtype) for each in (part, *waiting[:1])]
            if waiting and (sum(map(len, waiting)) + len(part) > size or like[0] != like[1]):
                yield joined_parts(waiting)
                waiting = []
            waiting.append(part)
            if sum(map(len, waiting)) >= size:
                yield joined_parts(waiting)
                waiting = []
    if waiting:
        yield joined_parts(waiting)


def _parts(
    piece: Piece, fragment: Fragment, source: Columns, size: int, kept: Mapping[str, str]
) -> Iterator[Part]:
    """Read a file of a fragment, or rows of it."""
    file, folders = piece.file, piece.file.columns
    asked, before = own_id(file, replace(source, labels=False, keep=own_columns(file, source)))
    for part, start in (_row_groups if fragment.kind == "rows" else _rows)(piece, fragment.kind, asked, size):
        count = len(part.x)
        numbers = np.arange(start, start + count)
        names = numbers if fragment.alone else [f"{piece.origin}:{number}" for number in numbers.tolist()]
        columns = part.kept | {name: arrow().array([text] * count) for name, text in folders.items()}
        columns = {name: as_kept(columns[name], kept.get(name), file.where, name) for name in source.keep}
        with in_file(file.where):
            named = names if part.ids is None else part.ids
            ids, keys = _identified(prefixed(named, before) if before else named)
            shaped = _prepared(part, source)
        mask = None if shaped.mask is None else np.array(shaped.mask)
        more = {"origins": [piece.origin] * count, "times": _listed(part.more.get("times"))} | shaped.more
        yield replace(shaped, ids=ids, keys=keys, x=np.array(shaped.x), mask=mask, kept=columns, more=more)


def own_columns(file: File, source: Columns) -> tuple[str, ...]:
    """Return the columns that go along and that no folder is, which a table alone can have."""
    own = tuple(name for name in source.keep if name not in file.columns)
    if file.ending not in TABLES:
        require_names(file.where, "column", own, list(file.columns))
    return own


def _listed(times: Any) -> list[Any] | None:
    return [list(row) for row in times] if is_nested(times) else None if times is None else list(times)


def joined_parts(parts: Sequence[Part]) -> Part:
    """Put parts of several files together, one after the other."""
    first, pa = parts[0], arrow()
    if len(parts) == 1:
        return first
    for part in parts:
        if part.ids.type != first.ids.type:
            texts, numbers = sorted((first, part), key=lambda each: pa.types.is_integer(each.ids.type))
            raise DataError(TWO_KINDS.format(numbers.more["origins"][0], texts.more["origins"][0]))
    masks = [np.ones(part.x.shape, dtype=bool) if part.mask is None else part.mask for part in parts]
    ends = np.cumsum([0, *map(len, parts)]).tolist()
    faults = {row + end: why for part, end in zip(parts, ends, strict=False) for row, why in part.faults.items()}
    times = [part.more["times"] for part in parts]
    if is_nested(times[0]) or any(each != times[0] for each in times):  # those of each series
        each = [row if is_nested(row) else [row] * len(part) for row, part in zip(times, parts, strict=True)]
        times = [None if None in times else [row for rows in each for row in rows]]
    more = {"origins": [origin for part in parts for origin in part.more["origins"]], "times": times[0]}
    if "raw" in first.more:
        more["raw"] = np.concatenate([part.more["raw"] for part in parts])
    return replace(
        first,
        ids=pa.concat_arrays([part.ids for part in parts]),
        keys=np.concatenate([part.keys for part in parts]),
        x=np.concatenate([part.x for part in parts]),
        mask=None if all(part.mask is None for part in parts) else np.concatenate(masks),
        kept={name: pa.concat_arrays([part.kept[name] for part in parts]) for name in first.kept},
        faults=faults,
        steps=None,
        more=more,
    )


def prefixed(ids: Any, before: str) -> list[str]:
    """Put what folders are called before ids."""
    return [f"{before}{name}" for name in np.asarray(ids).tolist()]


def _identified(ids: Any) -> tuple[Any, NDArray[np.int64]]:
    """Return ids as an Arrow array, and the numbers that draws depend on: whole ones as they are, texts hashed."""
    pa, array = arrow(), np.asarray(ids)
    if array.dtype.kind in "USO":
        texts = [text.decode() if isinstance(text, bytes) else str(text) for text in array.tolist()]
        return pa.array(texts, pa.string()), np.fromiter(map(text_key, texts), np.int64, len(texts))
    numbers = as_tensor(array, "ids").numpy()
    if numbers.dtype.kind not in "iu":
        raise InputError(f"ids must be whole numbers or texts, got {array.dtype}.")
    keys = numbers.astype(np.int64)
    return pa.array(keys), keys


def _prepared(part: Part, source: Columns) -> Part:
    """Return a part padded to the shape of the run, and as the model reads it."""
    x, mask, faults, more = part.x, part.mask, part.faults, {}
    if source.missing == "mask":
        gaps = np.isnan(x)
        x, mask = np.where(gaps, 0, x), ~gaps if mask is None else mask & ~gaps
    if source.scale is not None or source.fill not in {None, "zero"}:
        seen = None if mask is None else torch.from_numpy(np.ascontiguousarray(mask))
        more["raw"] = np.array(x)
        x = scaled_cells(torch.from_numpy(more["raw"]), seen, source, part.channels).numpy()
    if source.shape is None or x.shape[1:] == source.shape:
        return replace(part, x=x, mask=mask, more=more)
    time, depth = source.shape
    if x.shape[2] != depth:
        raise InputError(f"the series have {x.shape[2]} channels, those of the run {depth}.")
    mask = np.ones(x.shape, dtype=bool) if mask is None else mask
    if x.shape[1] > time:
        beyond = np.flatnonzero(mask[:, time:].any((1, 2))).tolist()
        faults = dict.fromkeys(beyond, f"it has more than the {time} steps of the run: {LONGER}") | faults
    after = ((0, 0), (0, max(0, time - x.shape[1])), (0, 0))
    x, mask, *raw = (np.pad(cells[:, :time], after) for cells in (x, mask, *more.values()))
    return replace(part, x=x, mask=mask, faults=faults, more=dict(zip(more, raw, strict=True)))


def _row_groups(piece: Piece, _kind: FragmentKind, source: Columns, size: int) -> Iterator[tuple[Part, int]]:
    """Read row groups of whole series in batches, and tell the number of their first rows."""
    with open_parquet(piece.file) as opened:
        row = sum(opened.metadata.row_group(group).num_rows for group in range(piece.start))
        groups, schema = list(range(piece.start, piece.stop)), opened.schema_arrow
        lists = {each.name for each in schema if is_list(each.type)}
        series = source.x or "x"
        unread = lists - {series, source.mask, *source.keep} if series in lists else set()
        wanted = [name for name in schema.names if name not in unread]
        for batch in opened.iter_batches(size, row_groups=groups, columns=wanted, use_threads=False):
            table = arrow().Table.from_batches([batch])
            rows = ArrowTable(piece.file.where, table.schema, table.select, first=row + 1)
            yield in_one_message(source, partial(read_table, rows)), row
            row += len(table)


def _rows(piece: Piece, kind: FragmentKind, source: Columns, size: int) -> Iterator[tuple[Part, int]]:
    """Read a file in parts, or rows of an array that stays on disk."""
    first = 0
    for whole in long_parts(piece.file, source) or [whole_file(piece, kind, source)]:
        stop = piece.stop or len(whole.x)
        for start in range(piece.start, stop, size):
            rows = slice(start, min(start + size, stop))
            ids, mask = (None if cells is None else cells[rows] for cells in (whole.ids, whole.mask))
            x = whole.x[rows].astype(np.float64 if whole.x.dtype == np.float64 else np.float32, copy=False)
            kept = {name: column[rows] for name, column in whole.kept.items()}
            times = whole.more.get("times")
            more = {"times": times[rows] if is_nested(times) else times}
            yield Part(ids, x, mask, kept, channels=whole.channels, more=more), first + start
        first += len(whole.x)


@lru_cache(maxsize=1)
def whole_file(piece: Piece, kind: FragmentKind, source: Columns) -> Part:
    """Read a whole file, once for all that read it after each other."""
    file, mapped = piece.file, kind == "array"
    part = read_arrays(file, source, mapped=True) if mapped else read_part(file, source)
    if part.x.ndim != 3:
        raise DataError(f"{file.where} must hold (series, time, channel), got shape {part.x.shape}.")
    for cells in (part.ids, part.mask):
        if cells is not None and len(cells) != len(part.x):
            raise DataError(f"{file.where} holds {len(part.x)} series, and {len(cells)} ids or rows of a mask.")
    times = part.more.get("times")
    if times is not None and not isinstance(times, tuple):  # of an array, in any form
        with in_file(file.where):
            times = check_times(times, len(part.x), part.x.shape[1])
    mask = None if part.mask is None else require_binary(part.mask, file.where, "mask")
    return replace(part, mask=mask, more={"times": times})
