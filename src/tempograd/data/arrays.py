"""``.npz`` and ``.npy`` files: the arrays as they are."""

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
from tempograd.core.series import check_times
from tempograd.data.columns import Columns, Part
from tempograd.data.files import File
from tempograd.data.pivot import as_numbers, require_names
from tempograd.data.table import BEYOND, Text

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


def read_arrays(file: File, source: Columns, names: Sequence[str] = NAMES) -> Part:
    """Read arrays by name, and those of ``.npy`` files beside them; only x, or the inputs, is needed."""
    inputs = source.inputs or ()
    own = (*inputs, *(source.fixed or ()))
    wanted = [name for name in names if (source.labels or name not in {"y", "truth"}) and name not in own]
    arrays = load_arrays(file, [*wanted, *own], own if inputs else ("x", *own))
    for name, path in (("ids", source.id), ("mask", source.mask)):
        if path is not None and path.endswith(".npy"):
            arrays[name] = load_arrays(File(path, path), ["x"], ["x"], name)["x"]
    ids: Any = arrays.get("ids")
    times = arrays.get("times")
    if ids is not None and (ids.dtype.kind in "US" or (ids.dtype.kind == "u" and bool((ids >= BEYOND).any()))):
        ids = _texts(ids, "ids")  # also numbers beyond 64 bits
    y, classes = _labels(arrays.get("y"), source, file.where)
    more: dict[str, Any] = {"y": y, "classes": classes, "truth": arrays.get("truth"), "raw": arrays.get("raw")}
    if source.fixed:
        more["fixed"] = {name: arrays[name] for name in source.fixed}
    if inputs:
        return Part(ids, {name: arrays[name] for name in inputs}, more=more)
    own_channels = _texts(arrays.get("channels"), "channels")
    if times is not None and times.dtype.kind != "M":
        times = np.array(_texts(times.reshape(-1) if times.ndim == 2 else times, "times"), object).reshape(
            times.shape
        )
    more |= {"times": times, "units": _texts(arrays.get("units"), "units")}
    part = Part(ids, arrays["x"], arrays.get("mask"), channels=own_channels or source.channels, more=more)
    chosen = source.channels not in {None, part.channels}
    return _with_channels(part, source.channels or (), file.where) if chosen else part


def _with_channels(part: Part, names: Sequence[str], where: str) -> Part:
    """Choose and order channels by the names that a file has for them."""
    own = part.channels or ()
    require_names(where, "channel", names, own)
    places = [own.index(name) for name in names]

    def chosen(cells: Any) -> Any:
        return None if cells is None else cells[..., places]

    units = part.more["units"]
    more = part.more | {name: chosen(part.more[name]) for name in ("truth", "raw")}
    more["units"] = units and tuple(units[place] for place in places)
    return replace(part, x=chosen(part.x), mask=chosen(part.mask), channels=tuple(names), more=more)


def load_arrays(file: File, wanted: Sequence[str], needed: Sequence[str], called: str = "x") -> dict[str, _Array]:
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


def _labels(labels: _Array | None, source: Columns, where: str) -> tuple[Tensor | None, tuple[str, ...] | None]:
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
