"""What runs read one by one: files, and parts of files whose rows are whole series."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from tempograd.core.errors import DataError, InputError, arg, brief
from tempograd.core.validation import as_tensor, text_key
from tempograd.data.columns import STANDARD, Columns, Part
from tempograd.data.files import File, arrow, list_files
from tempograd.data.pivot import read_table, require_binary, require_names
from tempograd.data.reading import in_one_message, read_arrays, read_part, scaled_cells
from tempograd.data.table import ArrowTable, is_list, open_parquet

LONGER = f"pass {arg:source.shape} of the longest, and another folder if the run has begun"

TWO_KINDS = (
    "The ids of {} are whole numbers, those of {} texts: write all as whole numbers (7, not 007), or put a letter "
    "before each (s7)."
)
Cut = tuple[int, int, int | None]  # where a fragment begins and ends, and its rows where they are known
WHOLE: Cut = (0, 0, None)
FragmentKind = Literal["rows", "array", "file"]


@dataclass(frozen=True)
class Fragment:
    """A part of a source that gives one file of results.

    Attributes
    ----------
    name : str
        A hash of where it lies, and one of its version and its rows: what has changed has another name.
    kind : {"rows", "array", "file"}
        How it is read: row groups of a Parquet file with one row per series, rows of a ``.npy`` file, or a whole
        file.
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

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Return what :attr:`plain` was."""
        return cls(**{**plain, "version": tuple(plain["version"])})

    @property
    def plain(self) -> dict[str, Any]:
        """Return plain data, for a file or another process."""
        return vars(self) | {"version": list(self.version)}

    @property
    def file(self) -> File:
        """Return the file that it is a part of."""
        return File(self.path, self.origin)


def digest(*parts: object, size: int = 8) -> str:
    """Name plain data by a hash.

    Examples
    --------
    >>> digest("a.parquet", [0, 4]) == digest("a.parquet", [0, 4]), digest("b.parquet", [0, 4])
    (True, '26c9456ea8529e54')
    """
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=size).hexdigest()


def list_fragments(path: Any, source: Columns, size: int) -> Iterator[Fragment]:
    """Cut a source into fragments of about ``size`` series; files are read once, to know them again."""
    if not isinstance(path, (str, Path, list, tuple)):
        raise InputError(f"Runs read files, got {brief(path)}: what is in memory goes to tg.explain.")
    files = list_files(path)
    for listed in files:  # workers elsewhere stand in other folders
        file = listed if listed.remote else replace(listed, path=str(Path(listed.path).absolute()))
        version = version_of(file, source)
        kind: FragmentKind = "file"
        cuts = [WHOLE]
        if file.ending == ".npy" and not file.remote:
            kind, total = "array", len(read_arrays(file, source, mapped=True))
            cuts = [(start, min(start + size, total), min(size, total - start)) for start in range(0, total, size)]
        elif file.ending == ".parquet":
            kind, cuts = _cuts(file, source, size)
        for start, stop, rows in cuts:
            name = f"{digest(file.origin)}-{digest(list(version), start, stop)}"
            yield Fragment(name, kind, file.path, file.origin, start, stop, rows, version, len(files) == 1)


def version_of(file: File, source: Columns) -> tuple[int, ...]:
    """Return the version of a file of series, with that of the table by which its values are scaled."""
    scale = [] if source.scale in {None, STANDARD} else [File(str(source.scale), str(source.scale))]
    return tuple(number for each in (file, *scale) for number in each.version)


def _cuts(file: File, source: Columns, size: int) -> tuple[FragmentKind, list[Cut]]:
    """Put neighbouring row groups of whole series together, as many as hold about ``size`` rows."""
    with open_parquet(file) as opened:
        if source.format is not None or not any(is_list(each.type) for each in opened.schema_arrow):
            return "file", [WHOLE]
        counts = [opened.metadata.row_group(group).num_rows for group in range(opened.metadata.num_row_groups)]
    cuts: list[Cut] = []
    start = rows = 0
    for group, count in enumerate(counts):
        if rows and rows + count > size:
            cuts.append((start, group, rows))
            start, rows = group, 0
        rows += count
    return "rows", [*cuts, *([(start, len(counts), rows)] if rows else [])]


def read_fragment(fragment: Fragment, source: Columns, size: int) -> Iterator[Part]:
    """Read a fragment in parts of at most ``size`` series, with the shape of the source."""
    folders = fragment.file.columns
    own = tuple(name for name in source.keep if name not in folders)
    if fragment.kind == "array" or fragment.file.ending in {".npz", ".ts"}:
        require_names(fragment.file.where, "column", own, list(folders))
    if source.scale == STANDARD or (source.fill == "mean" and source.scale is None):
        raise DataError(
            f"A run reads file after file and does not know the mean of all: pass {arg:source.scale}, a file with "
            "the mean and std of each channel."
        )
    asked = replace(source, labels=False, keep=own)
    for part, start in (_row_groups if fragment.kind == "rows" else _rows)(fragment, asked, size):
        count = len(part.x)
        numbers = np.arange(start, start + count)
        names = numbers if fragment.alone else [f"{fragment.origin}:{number}" for number in numbers.tolist()]
        kept = part.kept | {name: arrow().array([text] * count) for name, text in folders.items()}
        kept = {name: kept[name] for name in source.keep}
        ids, keys = _identified(names if part.ids is None else part.ids)
        shaped = _prepared(replace(part, kept=kept), source)
        mask = None if shaped.mask is None else np.array(shaped.mask)
        yield replace(shaped, ids=ids, keys=keys, x=np.array(shaped.x), mask=mask)


def _identified(ids: Any) -> tuple[Any, NDArray[np.int64]]:
    """Return ids as an Arrow array, and the numbers that draws depend on: whole ones as they are, texts hashed."""
    pa, array = arrow(), np.asarray(ids)
    if array.dtype.kind in "USO":
        texts = [text.decode() if isinstance(text, bytes) else str(text) for text in array.tolist()]
        return pa.array(texts, pa.string()), np.fromiter(map(text_key, texts), np.int64, len(texts))
    numbers = as_tensor(array, "ids").numpy()
    if numbers.dtype.kind not in "iu":
        raise DataError(f"ids must be whole numbers or texts, got {array.dtype}.")
    keys = numbers.astype(np.int64)
    return pa.array(keys), keys


def _prepared(part: Part, source: Columns) -> Part:
    """Return a part padded to the shape of the run, and as the model reads it."""
    x, mask, faults = part.x, part.mask, part.faults
    if source.missing == "mask":
        gaps = np.isnan(x)
        x, mask = np.where(gaps, 0, x), ~gaps if mask is None else mask & ~gaps
    if source.scale is not None or source.fill not in {None, "zero"}:
        seen = None if mask is None else torch.from_numpy(np.ascontiguousarray(mask))
        x = scaled_cells(torch.from_numpy(np.array(x)), seen, source, part.channels).numpy()
    if source.shape is None or x.shape[1:] == source.shape:
        return replace(part, x=x, mask=mask)
    time, depth = source.shape
    if x.shape[2] != depth:
        raise DataError(f"The series have {x.shape[2]} channels, those of the run {depth}.")
    mask = np.ones(x.shape, dtype=bool) if mask is None else mask
    if x.shape[1] > time:
        beyond = np.flatnonzero(mask[:, time:].any((1, 2))).tolist()
        long = dict.fromkeys(beyond, f"it has more than the {time} steps of the run: {LONGER}")
        return replace(part, x=x[:, :time], mask=mask[:, :time], faults=long | faults)
    more = ((0, 0), (0, time - x.shape[1]), (0, 0))
    return replace(part, x=np.pad(x, more), mask=np.pad(mask, more))


def _row_groups(fragment: Fragment, source: Columns, size: int) -> Iterator[tuple[Part, int]]:
    """Read row groups of whole series in batches, and tell the number of their first rows."""
    with open_parquet(fragment.file) as opened:
        row = sum(opened.metadata.row_group(group).num_rows for group in range(fragment.start))
        groups, schema = list(range(fragment.start, fragment.stop)), opened.schema_arrow
        lists = {each.name for each in schema if is_list(each.type)}
        series = source.x or "x"
        unread = lists - {series, source.mask, *source.keep} if series in lists else set()
        wanted = [name for name in schema.names if name not in unread]
        for batch in opened.iter_batches(size, row_groups=groups, columns=wanted, use_threads=False):
            table = arrow().Table.from_batches([batch])
            rows = ArrowTable(fragment.file.where, table.schema, table.select, first=row + 1)
            yield in_one_message(source, partial(read_table, rows)), row
            row += len(table)


def _rows(fragment: Fragment, source: Columns, size: int) -> Iterator[tuple[Part, int]]:
    """Read a whole file, once for all that read it after each other, or rows of an array that stays on disk."""
    whole = _whole_file(fragment, source)
    stop = fragment.stop or len(whole.x)
    for start in range(fragment.start, stop, size):
        rows = slice(start, min(start + size, stop))
        ids, mask = (None if cells is None else cells[rows] for cells in (whole.ids, whole.mask))
        x = whole.x[rows].astype(np.float64 if whole.x.dtype == np.float64 else np.float32, copy=False)
        kept = {name: column[rows] for name, column in whole.kept.items()}
        yield Part(ids, x, mask, kept, channels=whole.channels), start


@lru_cache(maxsize=1)
def _whole_file(fragment: Fragment, source: Columns) -> Part:
    file, mapped = fragment.file, fragment.kind == "array"
    part = read_arrays(file, source, mapped=True) if mapped else read_part(file, source)
    if part.x.ndim != 3:
        raise DataError(f"{file.where} must hold (series, time, channel), got shape {part.x.shape}.")
    for cells in (part.ids, part.mask):
        if cells is not None and len(cells) != len(part.x):
            raise DataError(f"{file.where} holds {len(part.x)} series, and {len(cells)} ids or rows of a mask.")
    return part if part.mask is None else replace(part, mask=require_binary(part.mask, file.where, "mask"))
