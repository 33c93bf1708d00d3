"""What the values are: a batch of series with everything that belongs to it, said once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, Self, TypeGuard, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tempograd.core import validation
from tempograd.core.errors import InputError, brief, listed, printable, warn
from tempograd.core.formatting import counted
from tempograd.typing import Array, ArrayLike, Fixed, Inputs, Layout, Times

LABELS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32})  # kinds of labels that int64 holds
CONSTANTS = (str, bytes, bool, int, float, complex, type(None), torch.dtype, torch.device)
CELLS = ("mask", "truth", "raw")  # fields shaped like x


UNITS: tuple[Literal["D", "m", "s", "ms", "us", "ns"], ...] = ("D", "m", "s", "ms", "us", "ns")  # of dates


@dataclass(frozen=True, eq=False, repr=False)
class Series:
    """A batch of series with their labels, names and companions.

    Parameters
    ----------
    x : Tensor or array of shape (batch, time, channel)
        Floating point. Or a list of series (time, channel) of unequal length, each shown to the model at its own;
        or a mapping or a tuple of several inputs, each (batch, time, channel) or, without time, (batch, value).
    y : labels, optional
        One class per series (batch,) or per step (batch, time): whole numbers, or texts, which are numbered in
        sorted order; floating point for the values of a regression or a forecast.
    mask : array like ``x``, or "nan", optional
        1 where a value was observed, 0 where not. ``"nan"``: NaN in ``x`` marks what is missing.
    fill : float or None
        What the model reads where ``x`` holds NaN; None leaves NaN there, for models that read it.
    truth : array like ``x``, optional
        True where the label was decided.
    ids : distinct whole numbers or texts, optional
        They stay with the series through every subset, and random draws depend on them; by default 0, 1, ….
    channels, times, units : sequences of str, optional
        What people call channels and steps, and the units of the channels; ``times`` may be texts, numbers or
        dates, also (batch, time). For several inputs, mappings of these.
    raw : array like ``x``, optional
        The values as people know them, before they were scaled for the model: only to be shown.
    fixed : mapping or tuple, optional
        What the model gets beside ``x``, by keyword or position: arrays and lists with one row per series;
        numbers, texts and None are the same for all. Never attributed, never transposed.
    layout : {"BTD", "BDT"}
        Order of the axes of ``x`` and of what is shaped like it; afterwards it is (batch, time, channel).
    classes : sequence of str, optional
        What label 0, 1, … is called; found where ``y`` holds texts.

    Notes
    -----
    ``x`` is never copied, so it may be a memory map, or lie on the host while the model is on a GPU.

    Examples
    --------
    >>> series = Series(torch.zeros(2, 5, 1), ["ill", "well"], ids=["ward 3", "ward 7"], channels=["pulse"])
    >>> series
    Series(2 series × 5 steps × 1 channel, 2 classes)
    >>> series.take([1]).ids, series.y, series.classes
    (('ward 7',), tensor([0, 1]), ('ill', 'well'))
    """

    x: Any
    y: Any = None
    _: KW_ONLY
    mask: Any = None
    fill: float | None = 0
    truth: Any = None
    ids: Any = None
    channels: Any = None
    times: Any = None
    units: Any = None
    raw: Any = None
    fixed: Any = None
    layout: InitVar[str] = "BTD"
    classes: tuple[str, ...] | None = None

    if TYPE_CHECKING:  # any arrays, which become tensors

        def __init__(
            self,
            x: Inputs,
            y: ArrayLike | Sequence[str] | None = None,
            *,
            mask: Inputs | str | None = None,
            fill: float | None = 0,
            truth: Inputs | None = None,
            ids: ArrayLike | Sequence[str] | None = None,
            channels: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
            times: Sequence[object] | Array | Mapping[str, Sequence[object]] | None = None,
            units: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
            raw: Inputs | None = None,
            fixed: Fixed | None = None,
            layout: Layout = "BTD",
            classes: Sequence[str] | None = None,
        ) -> None: ...

    def __post_init__(self, layout: str) -> None:
        validation.check_choice(layout, "layout", get_args(Layout))
        checked = vars(self)  # which can be written to although the fields are frozen
        if self.fill is not None:
            checked["fill"] = validation.check_float(self.fill, "fill")
        checked["x"] = _arrays(self.x, "x", layout)
        if isinstance(self.x, Tensor):
            validation.check_form(self.x, "x")
        for name in CELLS:
            cells = getattr(self, name)
            if name == "mask" and isinstance(cells, str):
                checked[name] = _observed(self.x, cells)
            elif cells is not None:
                checked[name] = _cells(cells, self.x, name, layout)
        count = len(self)
        checked["ids"] = torch.arange(count) if self.ids is None else validation.check_ids(self.ids, count)
        if self.y is not None:
            checked["y"], checked["classes"] = _labels(self.y, self.classes, self.shape)
        if self.classes is not None:
            checked["classes"] = tuple(map(str, self.classes))
        if not isinstance(self.x, (dict, tuple)):
            checked |= self._names()  # those of several inputs are checked where inputs are laid out
        if self.fixed is not None:
            checked["fixed"] = _companions(self.fixed, count)

    def _names(self) -> dict[str, Any]:
        """Return what people call channels and steps, in form."""
        (count, steps, channels), times = self.shape, self.times
        if isinstance(self.x, list) and is_nested(times) and len(times) == count:
            times = [[*row, *[None] * (steps - len(row))] for row in times]
        names = {
            name: validation.check_names(getattr(self, name), channels, name) for name in ("channels", "units")
        }
        return names | {"times": check_times(times, count, steps)}

    @classmethod
    def of(cls, x: Any) -> "Series":
        """Return series as they are, and anything else as series of which nothing more is known."""
        return x if isinstance(x, Series) else cls(x)

    def __len__(self) -> int:
        return len(self.x if isinstance(self.x, (Tensor, list)) else _parts(self.x)[0])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of series, steps (of the longest) and channels; of several inputs, those of the first."""
        if isinstance(self.x, list):
            return len(self.x), max(map(len, self.x)), self.x[0].shape[1]
        first = _parts(self.x)[0]
        steps = first.shape[1] if first.ndim == 3 else 1
        return len(first), steps, first.shape[-1] if first.ndim > 1 else 1

    @property
    def keys(self) -> Tensor:
        """The numbers that random draws depend on, (batch,): the ids, or hashes of texts."""
        return self.ids if isinstance(self.ids, Tensor) else torch.tensor([*map(validation.text_key, self.ids)])

    def __repr__(self) -> str:
        count, steps, channels = self.shape
        parts = [f"{count} series × {steps} steps × {counted(channels, 'channel')}"]
        if isinstance(self.x, (dict, tuple)):
            parts = [f"{count} series of {len(self.x)} inputs"]
        if self.y is not None and self.y.is_floating_point():
            parts.append("real values")
        elif self.y is not None:
            classes = counted(len(self.y.unique()), "class", "classes")
            parts.append(f"{classes} per step" if self.y.ndim == 2 else classes)
        if isinstance(self.mask, Tensor):
            parts.append(f"{100 * (1 - float(self.mask.float().mean())):.0f} % missing")
        if self.truth is not None:
            parts.append("truth known")
        return f"Series({', '.join(parts)})"

    def take(self, rows: "Tensor | NDArray[Any] | Sequence[int] | slice") -> Self:
        """Return the series at ``rows`` (distinct positions, a slice or a bool mask), which keep their ids."""
        index = validation.check_distinct(torch.arange(len(self))[rows].reshape(-1))
        parts = {name: rows_at(getattr(self, name), index) for name in ("x", "y", "ids", *CELLS)}
        parts["fixed"] = companions_at(self.fixed, index)
        if is_nested(self.times):
            parts["times"] = tuple(self.times[row] for row in index.tolist()) or None
        if isinstance(self.x, list) and len(index):
            longest, y, times = max(map(len, parts["x"])), parts["y"], parts.get("times", self.times)
            if y is not None and y.shape[1:2] == self.shape[1:2]:
                parts["y"] = y[:, :longest]
            if times is not None:
                parts["times"] = [row[:longest] for row in times] if is_nested(times) else times[:longest]
            return replace(self, **parts)
        taken = object.__new__(type(self))  # what was checked stays right
        vars(taken).update(vars(self) | parts)
        return taken

    def scaled(self, z: Any) -> Self:
        """Return the series as a model was trained on them, ``z``; all else stays, and ``raw`` is what they were.

        Parameters
        ----------
        z : array like ``x``, or function
            The scaled values, or what makes them of ``x`` (of each series, where they are of unequal length).

        Examples
        --------
        >>> series = Series(torch.tensor([[[36.0], [38.0]]]), ids=["ward 3"], units=["°C"])
        >>> scaled = series.scaled(lambda x: (x - 37) / 0.5)
        >>> scaled.x.flatten().tolist(), scaled.raw.flatten().tolist(), scaled.ids, scaled.units
        ([-2.0, 2.0], [36.0, 38.0], ('ward 3',), ('°C',))
        """
        z = _each(z, self.x) if callable(z) and not isinstance(z, Tensor) else _arrays(z, "z", "BTD")
        shapes, wanted = ([part.shape for part in _parts(parts)] for parts in (z, self.x))
        if type(z) is not type(self.x) or shapes != wanted:
            raise InputError(f"z must have the shape of x, got {brief(z)}.")
        return replace(self, x=z, raw=self.marked if self.raw is None else self.raw)

    @property
    def marked(self) -> Any:
        """The values, NaN where nothing was observed."""
        if self.mask is None:
            return self.x
        return _each(lambda part, seen: part if seen is None else part.where(seen, torch.nan), self.x, self.mask)

    @property
    def filled(self) -> Any:
        """The values as numbers throughout: padded, and ``fill``, or 0, in the place of NaN."""
        whole = self.padded()
        if whole.mask is None:
            return whole.x
        return _each(lambda part: part.nan_to_num(self.fill or 0.0, torch.inf, -torch.inf), whole.x)

    def padded(self) -> Self:
        """Return series of unequal length as one tensor, with 0 and a mask behind the end of shorter ones."""
        if not isinstance(self.x, list):
            return self
        inside = [torch.ones_like(part, dtype=torch.bool) for part in self.x]
        empty = {"x": 0.0, "mask": False, "truth": False, "raw": torch.nan}
        parts = {name: getattr(self, name) for name in empty} | {"mask": self.mask or inside}
        padded: dict[str, Any] = {
            name: part and pad_sequence(part, batch_first=True, padding_value=empty[name])
            for name, part in parts.items()
        }
        return replace(self, **padded)


def _items(parts: Any) -> list[tuple[Any, Any]]:
    return list(parts.items()) if isinstance(parts, Mapping) else list(enumerate(parts))


def _parts(parts: Any) -> list[Any]:
    return [parts] if isinstance(parts, Tensor) else [part for _, part in _items(parts)]


def _each(change: Callable[..., Any], parts: Any, *others: Any) -> Any:
    """Change every part of a tensor, a list of series or several inputs, with those of others; None stays."""
    if isinstance(parts, Tensor):
        return change(parts, *others)
    rows = zip(*map(_parts, (parts, *others)), strict=True)
    changed = [None if part is None else change(part, *rest) for part, *rest in rows]
    return dict(zip(parts, changed, strict=True)) if isinstance(parts, dict) else type(parts)(changed)


def _arrays(given: Any, name: str, layout: str) -> Any:
    """Return series as tensors (batch, time, channel), without copying: one, a list, or several inputs."""
    if isinstance(given, list):
        return _listed(given, name, layout)
    if not isinstance(given, Mapping) and (not isinstance(given, tuple) or hasattr(given, "__array__")):
        arrays: Any = validation.as_tensor(given, name)
    elif not given:
        raise InputError(f"{name} is empty: pass at least one input.")
    else:
        parts: dict[Any, Any] = {}
        for key, part in _items(given):
            absent = part is None and name != "x"
            parts[key] = None if absent else validation.as_tensor(part, f"{name}[{key!r}]")
            if name == "x":
                validation.check_form(parts[key], f"x[{key!r}]", several=True)
        arrays = parts if isinstance(given, Mapping) else tuple(parts.values())
    turned = layout == "BDT"
    return _each(lambda part: part.transpose(1, 2) if part.ndim == 3 else part, arrays) if turned else arrays


def _listed(given: list[Any], name: str, layout: str) -> Any:
    """Return a list of series (time, channel), or one tensor where all are of one length."""
    if not given:
        raise InputError(f"{name} is an empty list: pass at least one series.")
    parts = [validation.check_numbers(part, f"{name}[{place}]") for place, part in enumerate(given)]
    for place, part in enumerate(parts):
        if part.ndim != 2 or part.numel() == 0:
            advice = "leave it out" if part.numel() == 0 else f"write {name}[{place}][:, None] for one channel"
            raise InputError(f"{name}[{place}] must be (time, channel), got shape {tuple(part.shape)}: {advice}.")
    parts = [part.T if layout == "BDT" else part for part in parts]
    counts = sorted({part.shape[1] for part in parts})
    if len(counts) > 1:
        raise InputError(f"The series of {name} must have equally many channels, got {listed(counts)}.")
    kind = reduce(torch.promote_types, (part.dtype for part in parts))
    parts = [part.to(parts[0].device, kind) for part in parts]
    return parts if len({len(part) for part in parts}) > 1 else torch.stack(parts)


def _observed(x: Any, mask: str) -> Any:
    """Return where the values are no NaN; None where that is everywhere."""
    if mask != "nan":
        raise InputError(f"mask must be an array like x, or 'nan' where NaN means missing, got {brief(mask)}.")
    observed = _each(lambda part: ~part.isnan(), x)
    return None if all(bool(part.all()) for part in _parts(observed)) else observed


def _cells(given: Any, x: Any, name: str, layout: str) -> Any:
    """Return what is shaped like the series, and holds truth values unless it is ``raw``."""
    if isinstance(given, Mapping) and isinstance(x, dict):
        unknown = [key for key in given if key not in x]
        if unknown:
            raise InputError(f"{name} names {brief(unknown[0])}: the inputs are {listed(x)}.")
        given = {key: given.get(key) for key in x}  # None for those that are left out
    cells = _arrays(given, name, layout)
    if isinstance(x, list) and isinstance(given, list):
        cells = list(cells)
    single = isinstance(x, Tensor) and isinstance(cells, Tensor)
    if not single and (type(cells) is not type(x) or len(cells) != len(x)):
        form = {list: "a list with one array per series", Tensor: "one array"}.get(type(x), "one array per input")
        raise InputError(f"{name} must be {form}, as x is, got {brief(given)}.")
    check = validation.check_like if name == "raw" else validation.check_mask
    places = "" if isinstance(x, Tensor) else [f"[{key!r}]" for key, _ in _items(cells)]
    return _each(lambda part, values, place: check(part, values, f"{name}{place}", f"x{place}"), cells, x, places)


def _companions(given: Any, count: int) -> Any:
    """Return what goes along with the series, by name or in a tuple; each constant, or with a row per series."""
    if isinstance(given, (str, bytes, Tensor, np.ndarray)) or not isinstance(given, (Mapping, Sequence)):
        raise InputError(f"fixed must map names to values, such as {{'mask': mask}}, got {brief(given)}.")
    checked = {str(key): _companion(value, f"fixed input {key}", count) for key, value in _items(given)}
    return checked if isinstance(given, Mapping) else tuple(checked.values())


def has_rows(value: Any) -> bool:
    """Tell whether a companion of the series has one row for each, or is the same for all."""
    return isinstance(value, list) or (isinstance(value, Tensor) and value.ndim > 0)


def companions_at(fixed: Any, index: Tensor) -> Any:
    """Return what goes along with some of the series."""
    return None if fixed is None else _each(lambda part: rows_at(part, index) if has_rows(part) else part, fixed)


def _companion(value: Any, name: str, count: int) -> Any:
    if isinstance(value, CONSTANTS):
        return value
    try:
        rows: Any = validation.check_numbers(value, name)
    except InputError:
        if not isinstance(value, (list, tuple)):
            problem = f"must have one row per series, or be a number or text, got {brief(value)}"
            raise InputError(f"{name} {problem}: put other things into a function around the model.") from None
        rows = list(value)
    if isinstance(rows, Tensor) and rows.ndim == 0:
        return value
    if len(rows) != count:
        problem = f"must have one row per series, {count}, got {len(rows)}"
        raise InputError(f"{name} {problem}: put what all have in common into a function around the model.")
    return rows


def rows_at(part: Any, index: Tensor) -> Any:
    """Return some rows of what has rows, in whatever form."""
    if isinstance(part, Tensor):
        return part[index.to(part.device)]
    if isinstance(part, dict) or (isinstance(part, tuple) and any(isinstance(value, Tensor) for value in part)):
        return _each(lambda value: rows_at(value, index), part)
    return None if part is None else type(part)(part[row] for row in index.tolist())


def _labels(y: Any, classes: Any, shape: tuple[int, int, int]) -> tuple[Tensor, Any]:
    """Return labels as a tensor, and the classes; texts are numbered in sorted order unless that is known."""
    if not isinstance(y, Tensor) and np.asarray(y).dtype.kind in "UO":
        texts = np.asarray(y).astype(str)
        names, places = np.unique(texts, return_inverse=True)
        classes = names.tolist() if classes is None else list(map(str, classes))
        unknown = [name for name in names.tolist() if name not in classes]
        if unknown:
            raise InputError(f"y holds {brief(unknown[0])}, which is none of the classes {', '.join(classes)}.")
        y = torch.tensor([classes.index(name) for name in names.tolist()])[places.reshape(texts.shape)]
    labels: Tensor = y if isinstance(y, Tensor) else validation.check_numbers(y, "y")
    labels = labels.long() if labels.dtype in LABELS else labels
    count, steps, _ = shape
    numbered = labels.dtype == torch.long and labels.shape in {(count,), (count, steps)}
    if not numbered and not (labels.is_floating_point() and labels.shape[:1] == (count,)):
        wanted = f"classes (whole numbers), one per series ({count},) or step ({count}, {steps})"
        raise InputError(f"y must be {wanted}, or real values with one row per series, got {brief(labels)}.")
    return labels, classes


def renumbered(series: Series, classes: Sequence[str] | None) -> Series:
    """Return series with labels numbered as in ``classes``; without labels where names are none of these.

    Data that have not all of the classes, or sort them otherwise, number their labels otherwise than the model.
    """
    own = printable(series.classes)  # as explanations have them
    if own is None or classes is None or own == tuple(classes):
        return series
    strange = [name for name in own if name not in classes]
    if strange:
        known = f"the classes that were explained ({', '.join(classes)})"
        warn(f"The label {strange[0]!r} is none of {known}: labels are left out.")
        return replace(series, y=None)
    number = torch.tensor([list(classes).index(name) for name in own])
    return replace(series, y=number.to(series.y.device)[series.y])


def check_times(times: Any, series: int, steps: int) -> Times | None:
    """Return a text for each step, or for each series a text for each of its steps.

    Dates of numpy, pandas and Python are written alike, all of them as exactly as the finest needs. What is
    missing, such as the stamps of steps that a series does not have, is an empty text.

    Examples
    --------
    >>> check_times(np.array(["2026-03-01T08:00", "2026-03-01T09:30"], "datetime64[ns]"), 4, 2)
    ('2026-03-01 08:00', '2026-03-01 09:30')
    >>> check_times([[0.5, 2.0], [1.0, None]], 2, 2)
    (('0.5', '2.0'), ('1.0', ''))
    """
    if times is None:
        return None
    times = _as_numpy(times)
    rows = [_as_numpy(row) for row in times] if is_nested(times) else [times]
    if is_nested(times) and len(rows) != series:
        wanted = f"{steps} texts, or {steps} for each of the {series} series"
        raise InputError(f"times must hold {wanted}, got {len(rows)} rows.")
    texts = tuple(validation.check_names(row, steps, "times") or () for row in _texts(rows))
    return texts if is_nested(times) else texts[0]


def is_nested(times: Any) -> TypeGuard[tuple[tuple[str, ...], ...]]:
    """Tell whether there is a list of steps for each series."""
    if hasattr(times, "ndim"):
        return bool(times.ndim == 2)
    rows = times if isinstance(times, (list, tuple)) else ()
    return any(isinstance(row, (list, tuple)) or getattr(row, "ndim", 0) == 1 for row in rows)


def shared_times(times: Times | None) -> tuple[str, ...] | None:
    """Return the texts that all series have in common; None where there are none, or where they differ.

    Examples
    --------
    >>> shared_times((("8:00", "9:00"), ("8:00", "9:00"))), shared_times((("8:00",), ("8:30",)))
    (('8:00', '9:00'), None)
    """
    if times is None or not is_nested(times):
        return times  # type: ignore[return-value]  # which the guard does not tell
    return times[0] if times and all(row == times[0] for row in times[1:]) else None


def _as_numpy(times: Any) -> Any:
    """Return arrays of other libraries as numpy arrays; single precision is not written with digits of double."""
    if isinstance(times, Tensor):
        return validation.as_tensor(times, "times").cpu().numpy()
    convert = getattr(times, "to_numpy", None)
    return convert() if callable(convert) and not isinstance(times, type) else times


def _texts(rows: Sequence[Any]) -> list[Any]:
    """Write the dates of all rows alike, and what is missing as nothing; all else stays what it is."""
    for row in rows:
        plain = isinstance(row, Iterable) and not isinstance(row, (str, bytes, dict, set, np.ma.MaskedArray))
        if not plain or getattr(row, "ndim", 1) != 1:
            return list(rows)  # which is refused
    labels = [[None if _missing(label) else label for label in row] for row in rows]
    known = [label for row in labels for label in row if label is not None]
    if known and all(
        isinstance(each, (np.datetime64, date)) and not getattr(each, "tzinfo", None) for each in known
    ):
        known = _written([getattr(moment, "isoformat", moment.__str__)() for moment in known])
    written = iter(known)
    return [["" if label is None else next(written) for label in row] for row in labels]


def _missing(label: Any) -> bool:
    """Tell NaN and NaT, which do not even equal themselves."""
    return isinstance(label, (float, np.floating, np.datetime64, date)) and bool(label != label)  # noqa: PLR0124


def _written(moments: Sequence[str]) -> list[str]:
    """Write dates as exactly as the finest of them needs.

    Examples
    --------
    >>> _written(["2026-03-01", "2026-03-02T00:00:00.000"]), _written(["2026-03-01T08", "2026-03-01T08:00:07.250"])
    (['2026-03-01', '2026-03-02'], ['2026-03-01 08:00:00.000', '2026-03-01 08:00:07.250'])
    """
    dates = np.array(moments, "M8")
    unit = next((unit for unit in UNITS if (dates.astype(f"M8[{unit}]") == dates).all()), None)
    return [text.replace("T", " ") for text in np.datetime_as_string(dates, unit=unit).tolist()]
