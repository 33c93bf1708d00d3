"""``.npz`` and ``.npy`` files: the arrays as they are, checked."""

import sys
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import DataError, InputError, TempogradError, arg, listed, one_line, short_path, warn
from tempograd.core.series import Series, check_times
from tempograd.data.files import reading, refuse_beyond_memory
from tempograd.data.readers.columns import Text
from tempograd.data.readers.pivot import ReadOptions, as_numbers
from tempograd.engine.inputs import pack_inputs
from tempograd.typing import Times

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
NAMES = ("x", "mask", "y", "truth", "ids", "channels", "times", "units", "raw")
KINDS = {
    "y": "fiubUScMmV",
    "ids": "fiubUS",
    "channels": "fiubUSM",
    "times": "fiubUSM",
    "units": "US",
}  # labels are checked later
UTF_32 = f"utf-32-{sys.byteorder[0]}e"
_Array = NDArray[Any]


def from_arrays(path: Path, options: ReadOptions) -> Series:
    """Read arrays by name; only x is needed."""
    several = options.inputs or ()
    own = (*several, *(options.fixed or ()))
    clash = [name for name in own if name in NAMES and name != "x"]
    wanted = [name for name in NAMES if (options.labels or name not in {"y", "truth"}) and name not in clash]
    arrays = _load(path, [*wanted, *own], needed=own if several else ("x", *own))
    try:
        found = (
            _inputs(arrays, options, short_path(path)) if several else _series(arrays, options, short_path(path))
        )
        fixed = {name: validation.as_tensor(arrays[name], name) for name in options.fixed or ()}
        for name, part in fixed.items():
            if part.ndim == 0 or len(part) != len(found):
                raise InputError(f"{name} must have one row for each of the {len(found)} series.")
        return replace(found, fixed=fixed) if fixed else found
    except InputError as error:
        raise DataError(f"{short_path(path)}: {one_line(error.finding.text, 240)}", code=error.code) from error


def _inputs(arrays: dict[str, _Array], options: ReadOptions, where: str) -> Series:
    """Read several inputs: side by side in x, with their names, and each by itself."""
    inputs = {name: validation.as_tensor(arrays[name], name) for name in options.inputs or ()}
    y, classes = _labels(arrays.get("y"), options, where)
    mask = "nan" if options.missing == "mask" else None
    series = Series(inputs, y, mask=mask, ids=_ids(arrays.get("ids")), classes=classes)
    pack_inputs(series.x, mask=series.mask)  # which says what is wrong
    return series


def _ids(ids: _Array | None) -> Any:
    """Return whole numbers as numbers, texts and numbers beyond 64 bits as texts."""
    if ids is not None and (ids.dtype.kind in "US" or (ids.dtype.kind == "u" and bool((ids >= 2**63).any()))):
        return _texts(ids, "ids")
    return ids


def _series(arrays: dict[str, _Array], options: ReadOptions, where: str) -> Series:
    x = validation.check_series(arrays["x"], gaps=options.missing == "mask", marking=f"{arg:source.missing=mask}")
    mask = validation.check_mask(arrays.get("mask"), x)
    x, mask, _ = validation.without_gaps(x, mask, None, "x")  # 0, as in tables
    y, classes = _labels(arrays.get("y"), options, where)
    channels = options.channels or _texts(arrays.get("channels"), "channels")
    return Series(
        x=x,
        y=y,
        mask=mask,
        truth=arrays.get("truth"),
        ids=_ids(arrays.get("ids")),
        channels=channels,
        times=_times(arrays.get("times"), len(x), x.shape[1]),
        classes=classes,
        units=_texts(arrays.get("units"), "units"),
        raw=validation.check_raw(arrays.get("raw"), x, mask),
    )


def _load(path: Path, wanted: list[str], needed: Sequence[str]) -> dict[str, _Array]:
    """Read the arrays that are wanted and there; others are not even unpacked."""
    with reading(path), path.open("rb") as file, _foreign(path):
        if file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
            return {"x": _array(path, "x", file, path.stat().st_size)}
        with zipfile.ZipFile(file) as archive:
            members = _members(path, archive, needed)
            found = {}
            for name in wanted:
                if name in members:
                    with archive.open(members[name]) as member:
                        found[name] = _array(path, name, member, members[name].file_size)
            return found


@contextmanager
def _foreign(path: Path) -> Iterator[None]:
    """Say in one sentence what zip and numpy say in many ways: they raise a dozen kinds of errors."""
    try:
        yield
    except (TempogradError, MemoryError, Warning):  # ours, which somebody may have made an error
        raise
    except Exception as error:
        reason = one_line(next(iter(str(error).splitlines()), type(error).__name__), 90)
        raise DataError(
            f"{short_path(path)} is damaged or no array file: write or fetch it again ({reason})."
        ) from error


def _members(path: Path, archive: zipfile.ZipFile, needed: Sequence[str]) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name in members:
            raise DataError(f"{short_path(path)} holds the array {one_line(name)} twice: leave one of the two.")
        members[name] = info
    for name in needed:
        if name not in members:
            what = "an array x (series, time, channel)" if name == "x" else f"an array {one_line(name)}"
            more = f": name those that a model takes with {arg:source.inputs}" if name == "x" and members else ""
            raise DataError(f"{short_path(path)} must hold {what}; it has {listed(members) or 'nothing'}{more}.")
    others = [name for name in members if name not in (*NAMES, *needed)]
    if others:
        warn(
            f"{short_path(path)} holds {listed(others)}, which is not read: the arrays of a file of series are "
            f"{', '.join(NAMES)}, and those that {arg:source.inputs} and {arg:series.fixed} name."
        )
    return members


def _array(path: Path, name: str, file: IO[bytes], size: int) -> _Array:
    """Read an array after its header was compared with what is there, since a header may promise anything."""
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own about odd text, which a damaged header is
        version = npy.read_magic(file)
        if version not in HEADERS:
            raise ValueError(f"version {version} of the format holds no plain array")
        shape, _, dtype = HEADERS[version](file)
        _refuse_kind(path, name, dtype)
        promised, there = prod(shape) * dtype.itemsize, size - file.tell()
        if min(shape, default=0) < 0 or promised != there:
            raise DataError(
                f"{short_path(path)} is damaged: the header of {name} promises {promised:.16g} bytes, and "
                f"{there} follow it."
            )
        refuse_beyond_memory(path, promised, f"the array {name}", "cut it into several files")
        file.seek(0)
        found: _Array = npy.read_array(file, allow_pickle=False)
    return found.astype(dtype.newbyteorder("="), copy=False)


def _refuse_kind(path: Path, name: str, dtype: np.dtype[Any]) -> None:
    if dtype.hasobject:
        raise DataError(f"{short_path(path)}: {name} holds Python objects, which are never loaded: save numbers.")
    if dtype.kind not in KINDS.get(name, "fiub") or (dtype.kind == "f" and dtype.itemsize > 8):
        what = one_line(str(dtype))
        raise DataError(f"{short_path(path)}: {name} holds {what}: save it as numbers of 64 bits or fewer.")


def _labels(
    labels: _Array | None, options: ReadOptions, where: str
) -> tuple[Tensor | None, tuple[str, ...] | None]:
    if labels is None:
        return None, None
    if labels.dtype.kind not in "iufUS":
        raise InputError(f"y must hold classes (integers or text) or real values, got {labels.dtype}.")
    negative = labels.dtype.kind == "i" and bool((labels < 0).any())  # -1 and 1, as in tables
    if labels.dtype.kind in "US" or negative or options.classes is not None:
        found = Text.of(_texts(labels.reshape(-1), "y") or ())
        numbers, classes = as_numbers(
            found.texts, options.classes, where, lambda _, what: DataError(f"{where}, array y: {what}.")
        )
        return torch.as_tensor(numbers[found.codes].reshape(labels.shape)), classes
    tensor = validation.check_numbers(labels, "y")
    if not bool(tensor.isfinite().all()):
        raise InputError("y holds NaN or infinity: leave series without a label out.")
    return (tensor if tensor.is_floating_point() else tensor.long()), None


def _times(array: _Array | None, series: int, steps: int) -> Times | None:
    """Return the names of the steps, (time,), or of those of each series, (series, time)."""
    if array is None or array.dtype.kind == "M":
        return check_times(array, series, steps)
    texts = _texts(array.reshape(-1) if array.ndim == 2 else array, "times") or ()
    return check_times(np.array(texts, object).reshape(array.shape) if array.ndim == 2 else texts, series, steps)


def _texts(array: _Array | None, name: str) -> tuple[str, ...] | None:
    if array is None:
        return None
    if array.ndim != 1:
        raise InputError(f"{name} must be a list of names, got shape {array.shape}.")
    if array.dtype.kind == "M":
        return check_times(array, 0, len(array))  # type: ignore[return-value]  # one text each
    try:
        if array.dtype.kind == "U" and array.dtype.itemsize:  # Python takes any code point from numpy unseen
            np.ascontiguousarray(array).tobytes().decode(UTF_32)
        return tuple(text.decode() if isinstance(text, bytes) else str(text) for text in array.tolist())
    except UnicodeDecodeError:
        raise InputError(f"{name} holds text that is not Unicode: save it anew.") from None
