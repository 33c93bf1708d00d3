"""What a run explains, cut into fragments, and fragments read in batches."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core.errors import DataError, InputError, brief
from tempograd.core.validation import text_key
from tempograd.data import Series, Source
from tempograd.data.columns import Part
from tempograd.data.files import arrow
from tempograd.data.fragments import Fragment, digest, prepared, read_fragment
from tempograd.engine.inputs import is_several

AT_HAND = "memory"  # in place of a path


def as_source(source: Any) -> Source | Series:
    """Return files as a source and arrays as series; anything else is refused."""
    if isinstance(source, (np.ndarray, Tensor)):
        source = Series(source)
    if isinstance(source, Series):
        if is_several(source.x):
            raise InputError("explain_dataset explains models of one input.")
        if source.fill is None:
            raise InputError("explain_dataset shows models 0 where values are missing: leave fill=None out.")
        return replace(source.padded(), x=source.filled)
    if isinstance(source, (str, Path)) or (
        isinstance(source, (list, tuple)) and source and all(isinstance(each, (str, Path)) for each in source)
    ):
        return Source(source)
    if not isinstance(source, Source):
        raise InputError(f"source must be files, series or an array, got {brief(source)}.")
    return source


def columns_of(source: Source | Series) -> Source:
    """Return what is said of the columns; of series in memory nothing is."""
    return source if isinstance(source, Source) else Source(AT_HAND, labels=False)


def fragments_of(source: Source | Series, size: int) -> Iterator[Fragment]:
    """Cut a source into fragments of about ``size`` series."""
    return source.fragments(size) if isinstance(source, Source) else _of_series(source, size)


def _of_series(series: Series, size: int) -> Iterator[Fragment]:
    """Cut series; names are hashes of their content, or of the file that a memory map shows."""
    x, ids = series.x.detach().cpu(), np.asarray(series.ids)
    mask = None if series.mask is None else series.mask.cpu().numpy()
    for start in range(0, len(ids), size):
        rows = slice(start, start + size)
        part = Part(ids[rows], x[rows].numpy(), None if mask is None else mask[rows], channels=series.channels)
        yield _in_memory(part, start)


def _in_memory(content: Part, start: int) -> Fragment:
    mark = hashlib.blake2b(digest_size=8)
    mark.update(json.dumps(np.asarray(content.ids).tolist()).encode())
    for part in (content.x, content.mask):
        if part is not None:
            mark.update(f"{part.dtype} {part.shape}".encode())
            mark.update(np.ascontiguousarray(part).data)
    name, stop = f"{digest(AT_HAND)}-{mark.hexdigest()}", start + len(content.x)
    return Fragment(name, "memory", AT_HAND, AT_HAND, start, stop, len(content.x), content=content)


# Fragments read in batches


@dataclass(frozen=True)
class ReadRows:
    """Some series of a fragment.

    Attributes
    ----------
    ids : pyarrow.Array
        As the source has them.
    keys : array of int64
        What their draws depend on.
    x, mask : arrays of shape (series, time, channel)
        ``mask`` is None where all cells were observed.
    kept : dict of str to pyarrow.Array
        Columns that go along.
    faults : dict of int to str
        Rows that hold no series of the right shape, and why.
    channels : tuple of str, optional
        What their channels are called.
    """

    ids: Any
    keys: NDArray[np.int64]
    x: NDArray[Any]
    mask: NDArray[np.bool_] | None
    kept: dict[str, Any] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)
    channels: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.x)


def rows_of_both(one: ReadRows, other: ReadRows) -> ReadRows:
    """Put series of two fragments together to look at them, without what goes along; one shape only."""
    if one.x.shape[1:] != other.x.shape[1:]:
        return one
    masks = [np.ones(each.x.shape, dtype=bool) if each.mask is None else each.mask for each in (one, other)]
    faults = one.faults | {row + len(one): why for row, why in other.faults.items()}
    keys, x, mask = (np.concatenate(parts) for parts in ((one.keys, other.keys), (one.x, other.x), masks))
    return ReadRows(None, keys, x, None if mask.all() else mask, faults=faults)


def read_batches(fragment: Fragment, source: Source, size: int) -> Iterator[ReadRows]:
    """Read a fragment in batches of at most ``size`` series."""
    for part in _parts(fragment, source, size):
        ids, keys = _identified(part.ids)
        mask = None if part.mask is None else np.array(part.mask)
        yield ReadRows(ids, keys, np.array(part.x), mask, part.kept, part.faults, part.channels)


def _parts(fragment: Fragment, source: Source, size: int) -> Iterator[Part]:
    if fragment.kind != "memory":
        yield from read_fragment(fragment, source, size)
    elif fragment.content is None:
        raise InputError("Arrays in memory cannot be shared with workers: save them to .npy or Parquet.")
    else:
        for start in range(0, len(fragment.content.x), size):
            yield prepared(fragment.content.rows(start, start + size), source)


def _identified(ids: Any) -> tuple[Any, NDArray[np.int64]]:
    """Return ids as an Arrow array, and the numbers that draws depend on: whole ones as they are, texts hashed."""
    pa, array = arrow(), np.asarray(ids)
    if array.dtype.kind not in "iuUSO":
        raise DataError(f"ids must be whole numbers or texts, got {array.dtype}.")
    if array.dtype.kind in "iu":
        if array.dtype.kind == "u" and len(array) and int(array.max()) >= 2**63:
            raise DataError("ids must be less than 2**63: write them as texts.")
        keys = array.astype(np.int64)
        return pa.array(keys), keys
    texts = [text.decode() if isinstance(text, bytes) else str(text) for text in array.tolist()]
    return pa.array(texts, pa.string()), np.fromiter(map(text_key, texts), np.int64, len(texts))
