"""``.npz`` and ``.npy`` files: the arrays as they are, checked."""

import sys
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import IO, Any

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import DataError, InputError, TempogradError, arg, listed, one_line, warn
from tempograd.core.series import Series, check_times
from tempograd.data.files import File
from tempograd.data.readers.columns import Text
from tempograd.data.readers.pivot import as_numbers
from tempograd.data.source import Source
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


def from_arrays(file: File, source: Source) -> Series:
    """Read arrays by name; only x is needed."""
    several = source.inputs or ()
    own = (*several, *(source.fixed or ()))
    clash = [name for name in own if name in NAMES and name != "x"]
    wanted = [name for name in NAMES if (source.labels or name not in {"y", "truth"}) and name not in clash]
    arrays = load_arrays(file, [*wanted, *own], source, needed=own if several else ("x", *own))
    try:
        found = _inputs(arrays, source, file.where) if several else _series(arrays, source, file.where)
        fixed = {name: validation.as_tensor(arrays[name], name) for name in source.fixed or ()}
        for name, part in fixed.items():
            if part.ndim == 0 or len(part) != len(found):
                raise InputError(f"{name} must have one row for each of the {len(found)} series.")
        return replace(found, fixed=fixed) if fixed else found
    except InputError as error:
        raise DataError(f"{file.where}: {one_line(error.finding.text, 240)}", code=error.code) from error


def load_arrays(
    file: File, wanted: Sequence[str], source: Source, needed: Sequence[str] = ("x",)
) -> dict[str, _Array]:
    """Read the arrays of a file that are wanted and there, and those of ``.npy`` files beside it."""
    arrays = _load(file, wanted, needed)
    for name, path in (("ids", source.id), ("mask", source.mask)):
        if path is not None and path.endswith(".npy"):
            arrays[name] = _load(File(path, path), ["x"], ["x"], name)["x"]
    return arrays


def _inputs(arrays: dict[str, _Array], source: Source, where: str) -> Series:
    """Read several inputs: side by side in x, with their names, and each by itself."""
    inputs = {name: validation.as_tensor(arrays[name], name) for name in source.inputs or ()}
    y, classes = _labels(arrays.get("y"), source, where)
    mask = "nan" if source.missing == "mask" else None
    series = Series(inputs, y, mask=mask, ids=_ids(arrays.get("ids")), classes=classes)
    pack_inputs(series.x, mask=series.mask)  # which says what is wrong
    return series


def _ids(ids: _Array | None) -> Any:
    """Return whole numbers as numbers, texts and numbers beyond 64 bits as texts."""
    if ids is not None and (ids.dtype.kind in "US" or (ids.dtype.kind == "u" and bool((ids >= 2**63).any()))):
        return _texts(ids, "ids")
    return ids


def _series(arrays: dict[str, _Array], source: Source, where: str) -> Series:
    x = validation.check_series(arrays["x"], gaps=source.missing == "mask", marking=f"{arg:source.missing=mask}")
    mask = validation.check_mask(arrays["mask"], x) if "mask" in arrays else None
    x, mask, _ = validation.without_gaps(x, mask, None, "x")  # 0, as in tables
    y, classes = _labels(arrays.get("y"), source, where)
    return Series(
        x=x,
        y=y,
        mask=mask,
        truth=arrays.get("truth"),
        ids=_ids(arrays.get("ids")),
        channels=source.channels or _texts(arrays.get("channels"), "channels"),
        times=_times(arrays.get("times"), len(x), x.shape[1]),
        classes=classes,
        units=_texts(arrays.get("units"), "units"),
        raw=validation.check_raw(arrays["raw"], x, mask) if "raw" in arrays else None,
    )


def _load(file: File, wanted: Sequence[str], needed: Sequence[str], called: str = "x") -> dict[str, _Array]:
    """Read the arrays that are wanted and there; others are not even unpacked."""
    where = file.where
    with file.opened() as opened, _foreign(where):
        size = opened.seek(0, 2)
        opened.seek(0)
        if opened.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
            return {"x": _array(where, called, opened, size)}
        with zipfile.ZipFile(opened) as archive:
            members = _members(where, archive, needed)
            found = {}
            for name in wanted:
                if name in members:
                    with archive.open(members[name]) as member:
                        found[name] = _array(where, name, member, members[name].file_size)
            return found


@contextmanager
def _foreign(where: str) -> Iterator[None]:
    """Say in one sentence what zip and numpy say in many ways: they raise a dozen kinds of errors."""
    try:
        yield
    except (TempogradError, MemoryError, Warning):  # ours, which somebody may have made an error
        raise
    except Exception as error:
        reason = one_line(next(iter(str(error).splitlines()), type(error).__name__), 90)
        raise DataError(f"{where} is damaged or no array file: write or fetch it again ({reason}).") from error


def _members(where: str, archive: zipfile.ZipFile, needed: Sequence[str]) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name in members:
            raise DataError(f"{where} holds the array {one_line(name)} twice: leave one of the two.")
        members[name] = info
    for name in needed:
        if name not in members:
            what = "an array x (series, time, channel)" if name == "x" else f"an array {one_line(name)}"
            more = f": name those that a model takes with {arg:source.inputs}" if name == "x" and members else ""
            raise DataError(f"{where} must hold {what}; it has {listed(members) or 'nothing'}{more}.")
    others = [name for name in members if name not in (*NAMES, *needed)]
    if others:
        warn(
            f"{where} holds {listed(others)}, which is not read: the arrays of a file of series are "
            f"{', '.join(NAMES)}, and those that {arg:source.inputs} and {arg:series.fixed} name."
        )
    return members


def _array(where: str, name: str, file: IO[bytes], size: int) -> _Array:
    """Read an array after its header was compared with what is there, since a header may promise anything."""
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own about odd text, which a damaged header is
        version = npy.read_magic(file)
        if version not in HEADERS:
            raise ValueError(f"version {version} of the format holds no plain array")
        shape, _, dtype = HEADERS[version](file)
        _refuse_kind(where, name, dtype)
        promised, there = prod(shape) * dtype.itemsize, size - file.tell()
        if min(shape, default=0) < 0 or promised != there:
            raise DataError(
                f"{where} is damaged: the header of {name} promises {promised:.16g} bytes, and {there} follow it."
            )
        file.seek(0)
        found: _Array = npy.read_array(file, allow_pickle=False)
    return found.astype(dtype.newbyteorder("="), copy=False)


def _refuse_kind(where: str, name: str, dtype: np.dtype[Any]) -> None:
    if dtype.hasobject:
        raise DataError(f"{where}: {name} holds Python objects, which are never loaded: save numbers.")
    if dtype.kind not in KINDS.get(name, "fiub") or (dtype.kind == "f" and dtype.itemsize > 8):
        what = one_line(str(dtype))
        raise DataError(f"{where}: {name} holds {what}: save it as numbers of 64 bits or fewer.")


def _labels(labels: _Array | None, source: Source, where: str) -> tuple[Tensor | None, tuple[str, ...] | None]:
    if labels is None:
        return None, None
    if labels.dtype.kind not in "iufUS":
        raise InputError(f"y must hold classes (integers or text) or real values, got {labels.dtype}.")
    negative = labels.dtype.kind == "i" and bool((labels < 0).any())  # -1 and 1, as in tables
    if labels.dtype.kind in "US" or negative or source.classes is not None:
        found = Text.of(_texts(labels.reshape(-1), "y") or ())
        numbers, classes = as_numbers(
            found.texts, source.classes, where, lambda _, what: DataError(f"{where}, array y: {what}.")
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
