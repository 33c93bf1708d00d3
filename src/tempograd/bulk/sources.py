"""What a run explains, cut into fragments: files of a source, series in memory, batches one after the other."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core.errors import InputError, brief, listed
from tempograd.data import Series, Source
from tempograd.data.columns import Part
from tempograd.data.fragments import Fragment, digest
from tempograd.engine.inputs import is_several

AT_HAND = "memory"  # in place of a path


def as_source(source: Any) -> Any:
    """Return files as a source, arrays as series, and batches as they are; anything else is refused."""
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
    if not isinstance(source, (Source, Iterable)):
        raise InputError(f"source must be files, an array or batches of (ids, x), got {brief(source)}.")
    return source


def columns_of(source: Any) -> Source:
    """Return what is said of the columns; of series in memory nothing is."""
    return source if isinstance(source, Source) else Source(AT_HAND, labels=False)


def fragments_of(source: Any, size: int) -> Iterator[Fragment]:
    """Cut a source into fragments of about ``size`` series; batches of an iterable when their turn comes."""
    if isinstance(source, Source):
        return source.fragments(size)
    return _of_series(source, size) if isinstance(source, Series) else _of_batches(source, size)


def is_streamed(source: Any) -> bool:
    """Tell whether a source gives batches that can be read once only."""
    return not isinstance(source, (Source, Series))


def _as_array(value: Any) -> NDArray[Any]:
    """Return an array as it is, a memory map too."""
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asanyarray(value)


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


def _of_batches(source: Iterable[Any], size: int) -> Iterator[Fragment]:
    """Put batches together, or cut them, into fragments of ``size`` series."""
    waiting: list[Part] = []
    start = count = 0
    for number, given in enumerate(source):
        waiting.append(_batch(given, number))
        count += len(waiting[-1].x)
        while count >= size:
            whole = _joined(waiting)
            yield _in_memory(cut(whole, slice(0, size)), start)
            waiting, start, count = [cut(whole, slice(size, None))], start + size, count - size
    if count:
        yield _in_memory(_joined(waiting), start)


def cut(part: Part, rows: slice) -> Part:
    """Return some series of a part in memory."""
    return replace(part, ids=part.ids[rows], x=part.x[rows], mask=None if part.mask is None else part.mask[rows])


def _joined(parts: Sequence[Part]) -> Part:
    if len(parts) == 1:
        return parts[0]
    if any((part.mask is None) != (parts[0].mask is None) for part in parts):
        raise InputError("Some batches have a mask and others have none: give all of them one, or none.")
    mask = (
        None if parts[0].mask is None else np.concatenate([part.mask for part in parts if part.mask is not None])
    )
    ids, x = (np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "x"))
    return Part(ids, x, mask)


def _batch(given: Any, number: int) -> Part:
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
        raise InputError(f"A batch must be (ids, x) or (ids, x, mask), but batch {number} is {brief(given)}.")
    ids, x = np.asarray(given[0]), _as_array(given[1])
    mask = _as_array(given[2]) if len(given) == 3 and given[2] is not None else None
    if x.ndim != 3 or ids.shape != (len(x),) or (mask is not None and mask.shape != x.shape):
        shapes = listed([ids.shape, x.shape] + ([] if mask is None else [mask.shape]))
        raise InputError(
            f"A batch must hold n ids, x of shape (n, time, channel) and a mask like x, but batch {number} has "
            f"the shapes {shapes}."
        )
    return Part(ids, x, mask)
