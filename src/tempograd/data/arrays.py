"""``.npz`` and ``.npy`` files: the arrays as they are."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempograd.core import validation
from tempograd.core.errors import DataError, InputError, TempogradError, arg, listed, one_line, warn
from tempograd.data.files import File
from tempograd.data.pivot import as_numbers, require_names
from tempograd.data.source import Part, Source
from tempograd.data.table import Text

NAMES = ("x", "mask", "y", "truth", "ids", "channels", "times", "units", "raw")
_Array = NDArray[Any]


def read_arrays(file: File, source: Source, names: Sequence[str] = NAMES) -> Part:
    """Read arrays by name, and those of ``.npy`` files beside them; only x, or the inputs, is needed."""
    inputs = source.inputs or ()
    own = (*inputs, *(source.fixed or ()))
    wanted = [name for name in names if (source.labels or name not in {"y", "truth"}) and name not in own]
    arrays = load_arrays(file, [*wanted, *own], own if inputs else ("x", *own))
    for name, path in (("ids", source.id), ("mask", source.mask)):
        if path is not None and path.endswith(".npy"):
            arrays[name] = load_arrays(File(path, path), ["x"], ["x"])["x"]
    y, classes = _labels(arrays.get("y"), source, file.where)
    more: dict[str, Any] = {"y": y, "classes": classes, "truth": arrays.get("truth"), "raw": arrays.get("raw")}
    if source.fixed:
        more["fixed"] = {name: arrays[name] for name in source.fixed}
    if inputs:
        return Part(arrays.get("ids"), {name: arrays[name] for name in inputs}, more=more)
    more |= {name: arrays.get(name) for name in ("times", "units")}
    part = Part(arrays.get("ids"), arrays["x"], arrays.get("mask"), channels=source.channels, more=more)
    if "channels" not in arrays:
        return part
    known = validation.check_names(arrays["channels"], None, "channels") or ()
    return _with_channels(part, known, source.channels or known, file.where)


def _with_channels(part: Part, known: Sequence[str], names: Sequence[str], where: str) -> Part:
    """Choose and order channels by the names that a file has for them."""
    require_names(where, "channel", names, known)
    places = [known.index(name) for name in names]

    def chosen(cells: Any) -> Any:
        return cells if cells is None or names == known else cells[..., places]

    more = part.more | {name: chosen(part.more[name]) for name in ("truth", "raw", "units")}
    return replace(part, x=chosen(part.x), mask=chosen(part.mask), channels=tuple(names), more=more)


def load_arrays(
    file: File, wanted: Sequence[str], needed: Sequence[str], *, mapped: bool = False
) -> dict[str, _Array]:
    """Read the arrays that are wanted and there, others are not even unpacked; a mapped array stays on disk."""
    with file.opened() as opened:
        try:
            found = np.load(file.path, mmap_mode="r") if mapped else np.load(opened)  # without pickle
            if isinstance(found, np.ndarray):
                return {"x": found}
            _check_members(file.where, found.files, needed)
            return {name: found[name] for name in wanted if name in found.files}
        except (TempogradError, MemoryError, Warning):  # ours, which somebody may have made an error
            raise
        except Exception as error:  # zip and numpy raise a dozen kinds
            reason = one_line(next(iter(str(error).splitlines()), type(error).__name__), 90)
            what = "is damaged or holds no plain arrays: write or fetch it again"
            raise DataError(f"{file.where} {what} ({reason}).") from error


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


def _labels(y: _Array | None, source: Source, where: str) -> tuple[_Array | None, tuple[str, ...] | None]:
    """Return labels as numbers, with the names of the classes where these are texts or numbers below 0."""
    if y is not None and y.dtype.kind == "f" and not np.isfinite(y).all():
        raise InputError("y holds NaN or infinity: leave series without a label out.")
    kind = "" if y is None else y.dtype.kind
    if y is None or not (kind == "U" or (kind in "iu" and (source.classes is not None or (y < 0).any()))):
        return y, None
    labels = Text.of([*map(str, y.reshape(-1).tolist())])
    numbers, classes = as_numbers(
        labels, source.classes, where, lambda _, what: DataError(f"{where}, array y: {what}.")
    )
    return numbers.reshape(y.shape), classes
