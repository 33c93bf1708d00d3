"""``.npz`` and ``.npy`` files: the arrays as they are."""

import sys
import warnings
import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tempograd.core import validation
from tempograd.core.errors import DataError, InputError, TempogradError, arg, listed, one_line, warn
from tempograd.data.columns import Columns, Part
from tempograd.data.files import File
from tempograd.data.pivot import as_numbers, require_names
from tempograd.data.table import BEYOND, Text

NAMES = ("x", "mask", "y", "truth", "ids", "channels", "times", "units", "raw")
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
    ids, names_of = arrays.get("ids"), arrays.get("channels")
    if ids is not None and ids.dtype.kind == "u" and bool((ids >= BEYOND).any()):
        ids = ids.astype(str)
    y, classes = _labels(arrays.get("y"), source, file.where)
    more: dict[str, Any] = {"y": y, "classes": classes, "truth": arrays.get("truth"), "raw": arrays.get("raw")}
    if source.fixed:
        more["fixed"] = {name: arrays[name] for name in source.fixed}
    if inputs:
        return Part(ids, {name: arrays[name] for name in inputs}, more=more)
    channels = source.channels if names_of is None else validation.check_names(names_of, None, "channels")
    more |= {name: arrays.get(name) for name in ("times", "units")}
    part = Part(ids, arrays["x"], arrays.get("mask"), channels=channels, more=more)
    chosen = source.channels not in {None, channels}
    return _with_channels(part, source.channels or (), file.where) if chosen else part


def _with_channels(part: Part, names: Sequence[str], where: str) -> Part:
    """Choose and order channels by the names that a file has for them."""
    own = part.channels or ()
    require_names(where, "channel", names, own)
    places = [own.index(name) for name in names]

    def chosen(cells: Any) -> Any:
        return None if cells is None else cells[..., places]

    more = part.more | {name: chosen(part.more[name]) for name in ("truth", "raw", "units")}
    return replace(part, x=chosen(part.x), mask=chosen(part.mask), channels=tuple(names), more=more)


def load_arrays(file: File, wanted: Sequence[str], needed: Sequence[str], called: str = "x") -> dict[str, _Array]:
    """Read the arrays that are wanted and there; others are not even unpacked."""
    where = file.where
    with file.opened() as opened, _foreign(where):
        start = opened.read(len(npy.MAGIC_PREFIX))
        opened.seek(0)
        if start == npy.MAGIC_PREFIX:
            return {"x": _array(where, called, opened)}
        with zipfile.ZipFile(opened) as archive:
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
            if len(members) < len(archive.namelist()):
                raise DataError(f"{where} holds two arrays of one name: leave one of them.")
            _check_members(where, members, needed)
            found = {}
            for name in wanted:
                if name in members:
                    with archive.open(members[name]) as member:
                        found[name] = _array(where, name, member)
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
        what = "is damaged or holds no plain arrays: write or fetch it again"
        raise DataError(f"{where} {what} ({reason}).") from error


def _check_members(where: str, members: Collection[str], needed: Sequence[str]) -> None:
    """Refuse an archive that lacks an array, and tell those that are not read."""
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


def _array(where: str, name: str, file: IO[bytes]) -> _Array:
    """Read an array to the end of the file, where archives compare checksums; a header may promise less."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own about odd text, which a damaged header is
        found: _Array = npy.read_array(file, allow_pickle=False)
    if file.read(1):
        raise DataError(f"{where} is damaged: more follows the array {name} than its header promises.")
    if found.dtype.kind == "U":  # Python takes any code point from numpy unseen
        np.ascontiguousarray(found).tobytes().decode(UTF_32)
    native = found.astype(found.dtype.newbyteorder("="), copy=False)
    return np.char.decode(native, "utf-8") if found.dtype.kind == "S" else native


def _labels(y: _Array | None, source: Columns, where: str) -> tuple[_Array | None, tuple[str, ...] | None]:
    """Return labels as numbers, with the names of the classes where these are texts or numbers below 0."""
    if y is not None and y.dtype.kind == "f" and not np.isfinite(y).all():
        raise InputError("y holds NaN or infinity: leave series without a label out.")
    kind = "" if y is None else y.dtype.kind
    if y is None or not (kind == "U" or (kind in "iu" and (source.classes is not None or (y < 0).any()))):
        return y, None
    found = Text.of([*map(str, y.reshape(-1).tolist())])
    numbers, classes = as_numbers(
        found.texts, source.classes, where, lambda _, what: DataError(f"{where}, array y: {what}.")
    )
    return numbers[found.codes].reshape(y.shape), classes
