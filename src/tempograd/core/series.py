"""What the values are: a batch of series with everything that belongs to it, said once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, fields, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tempograd.core import validation
from tempograd.core.errors import InputError, brief
from tempograd.core.stamps import check_times, is_nested
from tempograd.typing import Array, ArrayLike, Fixed, Inputs, Layout

LABELS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32})  # kinds of labels that int64 holds
CONSTANTS = (str, bytes, bool, int, float, complex, type(None), torch.dtype, torch.device)
CELLS = ("mask", "truth", "raw")  # fields shaped like x
NAN = "nan"


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
        if self.fill is not None:
            self._set("fill", validation.check_float(self.fill, "fill"))
        self._set("x", _arrays(self.x, "x", layout))
        if isinstance(self.x, Tensor):
            validation.refuse_integers(self.x, "x")
        if isinstance(self.mask, str):
            if self.mask != NAN:
                raise InputError(
                    "mask must be an array like x, or 'nan' where NaN marks what is missing, got "
                    f"{brief(self.mask)}."
                )
            observed = _each(self.x, lambda part: ~part.isnan())
            self._set("mask", None if all(bool(part.all()) for part in _parts(observed)) else observed)
        else:
            self._set("mask", _cells(self.mask, self.x, "mask", layout))
        self._set("truth", _cells(self.truth, self.x, "truth", layout))
        self._set("raw", _cells(self.raw, self.x, "raw", layout))
        self._set("ids", series_ids(self.ids, len(self)))
        self._set_labels()
        self._set_names()
        if self.fixed is not None:
            self._set("fixed", _companions(self.fixed, len(self)))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _set_labels(self) -> None:
        y: Any = self.y
        classes: Sequence[str] | None = self.classes
        if y is not None and not isinstance(y, Tensor) and np.asarray(y).dtype.kind in "UO":
            y, classes = _numbered(y, classes)
        if y is not None:
            y = y if isinstance(y, Tensor) else validation.check_numbers(y, "y")
            y = y.long() if y.dtype in LABELS else y
            _check_labels(len(self), self.shape[1], y)
        self._set("y", y)
        self._set("classes", None if classes is None else tuple(map(str, classes)))

    def _set_names(self) -> None:
        if isinstance(self.x, (dict, tuple)):  # names of each input are checked where inputs are laid out
            return
        count, steps, channels = self.shape
        for name in ("channels", "units"):
            self._set(name, validation.check_names(getattr(self, name), channels, name))
        times = self.times
        if isinstance(self.x, list) and is_nested(times) and len(times) == count:
            times = [[*row, *[None] * (steps - len(row))] for row in times]
        self._set("times", check_times(times, count, steps))

    @classmethod
    def of(cls, x: Any) -> "Series":
        """Return series as they are, and anything else as series of which nothing more is known."""
        return x if isinstance(x, Series) else cls(x)

    def __len__(self) -> int:
        return len(
            next(iter(self.x.values()))
            if isinstance(self.x, dict)
            else self.x[0]
            if isinstance(self.x, tuple)
            else self.x
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of series, steps (of the longest) and channels; of several inputs, those of the first."""
        if isinstance(self.x, list):
            return len(self.x), max(map(len, self.x)), self.x[0].shape[1]
        first = self.x if isinstance(self.x, Tensor) else _items(self.x)[0][1]
        steps = first.shape[1] if first.ndim == 3 else 1
        return len(first), steps, first.shape[-1] if first.ndim > 1 else 1

    @property
    def keys(self) -> Tensor:
        """The numbers that random draws depend on, (batch,): the ids, or hashes of texts."""
        return self.ids if isinstance(self.ids, Tensor) else torch.tensor([text_key(text) for text in self.ids])

    def __repr__(self) -> str:
        count, steps, channels = self.shape
        size = f"{count} series × {steps} steps × {channels} channel{'' if channels == 1 else 's'}"
        if isinstance(self.x, (dict, tuple)):
            size = f"{count} series of {len(self.x)} inputs"
        parts = [size, *([] if self.y is None else [_labels(self.y)])]
        if isinstance(self.mask, Tensor):
            parts.append(f"{1 - float(self.mask.float().mean()):.0%} missing".replace("%", " %"))
        if self.truth is not None:
            parts.append("truth known")
        return f"Series({', '.join(parts)})"

    def take(self, rows: "Tensor | NDArray[Any] | Sequence[int] | slice") -> Self:
        """Return the series at ``rows`` (positions, a slice or a bool mask), which keep their ids."""
        index = torch.arange(len(self))[rows].reshape(-1)
        parts = {name: _taken(getattr(self, name), index) for name in ("x", "y", "mask", "truth", "raw", "ids")}
        if self.fixed is not None:
            kept = [
                (name, _taken(value, index) if has_rows(value) else value) for name, value in _items(self.fixed)
            ]
            parts["fixed"] = dict(kept) if isinstance(self.fixed, dict) else tuple(value for _, value in kept)
        if is_nested(self.times):
            parts["times"] = tuple(self.times[row] for row in index.tolist()) or None
        if isinstance(self.x, list) and len(index):
            return replace(self, **self._cut(parts))
        taken = object.__new__(type(self))  # what was checked stays right
        for field in fields(self):
            object.__setattr__(taken, field.name, parts.get(field.name, getattr(self, field.name)))
        return taken

    def _cut(self, parts: dict[str, Any]) -> dict[str, Any]:
        """Leave out the steps that only longer series have, which were not taken."""
        longest, y, times = max(map(len, parts["x"])), parts["y"], parts.get("times", self.times)
        if y is not None and y.shape[1:2] == self.shape[1:2]:
            parts["y"] = y[:, :longest]
        if times is not None:
            parts["times"] = [row[:longest] for row in times] if is_nested(times) else times[:longest]
        return parts

    @property
    def filled(self) -> Any:
        """The values as numbers throughout: padded, and ``fill``, or 0, in the place of NaN."""
        whole = self.padded()
        if whole.mask is None:
            return whole.x
        return _each(
            whole.x, lambda part: part.nan_to_num(nan=self.fill or 0.0, posinf=torch.inf, neginf=-torch.inf)
        )

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


def text_key(text: str) -> int:
    """Return the number, of 63 bits, that draws of a series with this id depend on."""
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little") >> 1


def series_ids(ids: Any, count: int) -> Tensor | tuple[str, ...]:
    """Return distinct whole numbers as a tensor, distinct texts as a tuple; 0 … count-1 by default."""
    texts = ids if isinstance(ids, (list, tuple)) else ids.tolist() if isinstance(ids, np.ndarray) else ()
    if not texts or not any(isinstance(text, str) for text in texts):
        return validation.check_ids(ids, count)
    texts = tuple(map(str, texts))
    if len(texts) != count:
        raise InputError(f"ids must have one entry per series: expected {count}, got {len(texts)}.")
    if len(set(texts)) < count:
        twice = next(text for text in texts if texts.count(text) > 1)
        raise InputError(f"ids must be distinct, but {brief(twice)} occurs more than once.")
    if len({text_key(text) for text in texts}) < count:
        raise InputError("Two of the ids have the same hash, on which draws depend: change one of them.")
    return texts


def _items(parts: Any) -> list[tuple[Any, Any]]:
    return list(parts.items()) if isinstance(parts, Mapping) else list(enumerate(parts))


def _parts(parts: Any) -> list[Tensor]:
    return [parts] if isinstance(parts, Tensor) else [part for _, part in _items(parts)]


def _each(parts: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Change every tensor of series, of a list of them or of several inputs."""
    if isinstance(parts, Tensor):
        return change(parts)
    changed = [(name, None if part is None else change(part)) for name, part in _items(parts)]
    return dict(changed) if isinstance(parts, dict) else type(parts)(part for _, part in changed)


def _arrays(given: Any, name: str, layout: str) -> Any:
    """Return series as tensors (batch, time, channel), without copying: one, a list, or several inputs."""
    if isinstance(given, Mapping):
        if not given:
            raise InputError(f"{name} is an empty mapping: pass at least one input.")
        wrong = next((key for key in given if not isinstance(key, str)), None)
        if wrong is not None:
            raise InputError(f"The names of the inputs must be text, got {brief(wrong)}.")
        return {key: _array(part, f"{name}[{key!r}]", layout) for key, part in given.items()}
    if isinstance(given, tuple) and not hasattr(given, "__array__"):
        if not given:
            raise InputError(f"{name} is an empty tuple: pass at least one input.")
        return tuple(_array(part, f"{name}[{place}]", layout) for place, part in enumerate(given))
    if isinstance(given, list):
        return _listed(given, name, layout)
    return _array(given, name, layout, axes=(3,))


def _array(given: Any, name: str, layout: str, axes: tuple[int, ...] = (1, 2, 3)) -> Tensor | None:
    if given is None:
        return None
    tensor = validation.as_tensor(given, name)
    if tensor.ndim not in axes and name.startswith("x"):
        advice = (
            f"{name}[None] for one series, {name}[..., None] for one channel"
            if tensor.ndim < 3
            else f"{name}.flatten(2) if all further axes are channels"
        )
        raise InputError(
            f"{name} must have shape (batch, time, channel), got {tuple(tensor.shape)}: write {advice}."
        )
    return tensor.transpose(1, 2) if layout == "BDT" and tensor.ndim == 3 else tensor


def _listed(given: list[Any], name: str, layout: str) -> Any:
    """Return a list of series (time, channel), or one tensor where all are of one length."""
    if not given:
        raise InputError(f"{name} is an empty list: pass at least one series.")
    parts = [validation.check_numbers(part, f"{name}[{place}]") for place, part in enumerate(given)]
    for place, part in enumerate(parts):
        if part.ndim != 2:
            raise InputError(
                f"{name} is a list of series, so {name}[{place}] must have shape (time, channel), got "
                f"{tuple(part.shape)}: write {name}[{place}][:, None] for one channel."
            )
        if part.numel() == 0:
            raise InputError(f"{name}[{place}] is empty, its shape is {tuple(part.shape)}: leave it out.")
    parts = [part.T if layout == "BDT" else part for part in parts]
    wrong = next((place for place, part in enumerate(parts) if part.shape[1] != parts[0].shape[1]), None)
    if wrong is not None:
        raise InputError(
            f"{name}[{wrong}] has {parts[wrong].shape[1]} channels, {name}[0] has {parts[0].shape[1]}."
        )
    kind = parts[0].dtype
    for part in parts:
        kind = torch.promote_types(kind, part.dtype)
    parts = [part.to(parts[0].device, kind) for part in parts]
    return parts if len({len(part) for part in parts}) > 1 else torch.stack(parts)


def _cells(given: Any, x: Any, name: str, layout: str) -> Any:
    """Return what is shaped like the series, and holds truth values unless it is ``raw``."""
    if given is None:
        return None
    several = isinstance(given, (Mapping, tuple)) and isinstance(x, (dict, tuple))
    found = _arrays(_of_inputs(given, x, name) if several else given, name, layout)
    if isinstance(x, list) and isinstance(given, list):
        found = list(found)
    if type(found) is not type(x) and not (isinstance(x, Tensor) and isinstance(found, Tensor)):
        form = {list: "a list with one array per series", Tensor: "one array"}.get(type(x), "one array per input")
        raise InputError(f"{name} must be {form}, as x is, got {brief(given)}.")
    if isinstance(x, list) and len(found) != len(x):
        raise InputError(f"{name} must have one part per series: expected {len(x)}, got {len(found)}.")
    pairs = [("", found, x)]
    if not isinstance(x, Tensor):
        pairs = [(f"[{key!r}]", part, dict(_items(x))[key]) for key, part in _items(found)]
    for place, part, values in pairs:
        if part is not None and part.shape != values.shape:
            raise InputError(
                f"{name}{place} must have the shape of x{place}, {tuple(values.shape)}, got {tuple(part.shape)}."
            )
    return found if name == "raw" else _each(found, lambda part: _flags(part, name))


def _of_inputs(given: Any, x: Any, name: str) -> Any:
    """Return a part for each of several inputs; None for those that a mapping leaves out."""
    parts = {key: given.get(key) for key in x} if isinstance(given, Mapping) else given
    unknown = [key for key in given if key not in x] if isinstance(given, Mapping) else []
    if unknown:
        raise InputError(f"{name} names {brief(unknown[0])}: the inputs are {', '.join(map(str, x))}.")
    if len(parts) != len(x):
        raise InputError(f"{name} must have one part per input: expected {len(x)}, got {len(parts)}.")
    return parts


def _flags(part: Tensor, name: str) -> Tensor:
    mask = name == "mask"
    if part.dtype != torch.bool and bool(((part != 0) & (part != 1)).any()):
        raise InputError(f"{name} must hold 1{' (observed)' * mask} and 0{' (missing)' * mask} only.")
    return part.bool()


def _companions(given: Any, count: int) -> Any:
    """Return what goes along with the series, by name or in a tuple; each constant, or with a row per series."""
    if isinstance(given, (str, bytes, Tensor, np.ndarray)) or not isinstance(given, (Mapping, Sequence)):
        raise InputError(
            f"fixed must map names to what the model gets by them, got {brief(given)}: write {{'mask': mask}}."
        )
    found = [(key, _companion(value, f"fixed input {key}", count)) for key, value in _items(given)]
    return {str(key): value for key, value in found} if isinstance(given, Mapping) else tuple(v for _, v in found)


def has_rows(value: Any) -> bool:
    """Tell whether a companion of the series has one row for each, or is the same for all."""
    return isinstance(value, list) or (isinstance(value, Tensor) and value.ndim > 0)


def _companion(value: Any, name: str, count: int) -> Any:
    if isinstance(value, CONSTANTS):
        return value
    try:
        rows: Any = validation.check_numbers(value, name)
    except InputError:
        if not isinstance(value, (list, tuple)):
            raise InputError(
                f"{name} must be an array with one row per series, or a number or text that is the same for all, "
                f"got {brief(value)}: give other things to the model in a function around it."
            ) from None
        rows = list(value)
    if isinstance(rows, Tensor) and rows.ndim == 0:
        return value
    if len(rows) != count:
        raise InputError(
            f"{name} must have one row per series: expected {count}, got {len(rows)}. What is the same for all "
            "series belongs into a function around the model."
        )
    return rows


def _taken(part: Any, index: Tensor) -> Any:
    """Return some rows of what has rows, in whatever form."""
    if part is None:
        return None
    if isinstance(part, Tensor):
        return part[index.to(part.device)]
    if isinstance(part, dict):
        return {key: _taken(value, index) for key, value in part.items()}
    if isinstance(part, tuple) and any(isinstance(value, Tensor) for value in part):
        return tuple(_taken(value, index) for value in part)
    return type(part)(part[row] for row in index.tolist())


def _numbered(y: Any, classes: Sequence[str] | None) -> tuple[Tensor, Sequence[str]]:
    """Return texts as numbers of classes, in sorted order unless that is known."""
    texts = np.asarray(y).astype(str)
    names = sorted(set(texts.flat)) if classes is None else list(map(str, classes))
    unknown = sorted(set(texts.flat) - set(names))
    if unknown:
        raise InputError(f"y holds {brief(unknown[0])}, which is none of the classes {', '.join(names)}.")
    place = {name: number for number, name in enumerate(names)}
    return torch.tensor([place[text] for text in texts.flat]).view(texts.shape), names


def _labels(y: Tensor) -> str:
    """Say in two words what kind of labels these are."""
    if y.is_floating_point():
        return "real values"
    count = len(torch.unique(y))
    return f"{count} {'class' if count == 1 else 'classes'}{' per step' if y.ndim == 2 else ''}"


def _check_labels(count: int, steps: int, y: Tensor) -> None:
    classes = y.dtype == torch.long and y.shape in {(count,), (count, steps)}
    if not classes and not (y.is_floating_point() and y.shape[:1] == (count,)):
        raise InputError(
            f"y must be classes (whole numbers), one per series ({count},) or step ({count}, {steps}), or real "
            f"values with one row per series, got {y.dtype} of shape {tuple(y.shape)}."
        )
