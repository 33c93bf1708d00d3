"""Several inputs of a model as one series: side by side on one time axis, and everything between unobserved.

A model that takes series, covariates of the future and static values is explained like one that takes series with
missing data: an input with time has channels of its own, at its steps of a common axis, and static values share
one step behind all others. What lies between is unobserved, so that nothing ranks, removes or attributes it.
"""

import inspect
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from tempograd.core import validation
from tempograd.core.errors import InputError, UnknownNameError, arg, brief
from tempograd.core.series import check_times, is_nested
from tempograd.typing import Times

FUTURE = re.compile("future|decoder", re.IGNORECASE)  # what names of inputs say of their place behind the first
PAST = re.compile("past|histor|encoder", re.IGNORECASE)
STATIC = "static"  # what the step of the static values is called


@dataclass(frozen=True)
class InputPart:
    """Where one input lies: its rows have this shape, (time, channel), (value,) or () for one number."""

    name: str
    shape: tuple[int, ...]
    start: int  # first step
    channel: int  # first channel
    time: int  # how many steps: static values have one
    depth: int  # how many channels

    @property
    def is_static(self) -> bool:
        """Whether it has no time."""
        return len(self.shape) < 2

    @property
    def steps(self) -> slice:
        """Its steps of the common axis."""
        return slice(self.start, self.start + self.time)

    @property
    def channels(self) -> slice:
        """Its channels."""
        return slice(self.channel, self.channel + self.depth)

    def of(self, cells: Tensor) -> Tensor:
        """Cut the input out of cells (…, time, channel): (…, steps, channels)."""
        return cells[..., self.steps, self.channels]

    def unpacked(self, cells: Tensor) -> Tensor:
        """Cut the input out of cells (batch, time, channel), in its own shape."""
        return self.of(cells).reshape(len(cells), *self.shape)


@dataclass(frozen=True)
class Packing:
    """How the inputs of a model lie in one series.

    Examples
    --------
    >>> packing = Packing.of({"past": (4, 2), "future": (3, 1), "age": ()}, by_name=True)
    >>> packing.time, packing.channels
    (8, 4)
    >>> [(part.name, part.steps, part.channels) for part in packing.parts][1]
    ('future', slice(4, 7, None), slice(2, 3, None))
    """

    parts: tuple[InputPart, ...]
    by_name: bool  # whether the model is called by keyword

    @classmethod
    def of(cls, shapes: Mapping[str, tuple[int, ...]], *, by_name: bool) -> Self:
        """Lay out inputs of these shapes, without the batch."""
        series = [name for name, shape in shapes.items() if len(shape) == 2]
        if not series:
            raise InputError(
                "None of the inputs has time: at least one must be (batch, time, channel); write [..., None] for "
                "a series of a single channel."
            )
        behind = [name for name in series[1:] if FUTURE.search(name) and not PAST.search(name)]
        starts = {name: shapes[series[0]][0] if name in behind else 0 for name in series}
        end = max(start + shapes[name][0] for name, start in starts.items())
        parts: list[InputPart] = []
        for name, shape in shapes.items():
            channel = parts[-1].channels.stop if parts else 0
            time, depth = (shape[0] if name in starts else 1), (shape[-1] if shape else 1)
            parts.append(InputPart(name, tuple(shape), starts.get(name, end), channel, time, depth))
        return cls(tuple(parts), by_name)

    @classmethod
    def from_plain(cls, inputs: Any, by_name: Any) -> Self:
        """Return the layout that a file tells of: the name and the shape of each input."""
        shapes = {str(name): tuple(shape) for name, shape in inputs}
        sizes = [size for shape in shapes.values() for size in shape]
        whole = type(by_name) is bool and all(type(size) is int and 0 < size < 2**31 for size in sizes)
        if not whole or len(shapes) < len(inputs) or any(len(shape) > 2 for shape in shapes.values()):
            raise InputError("its inputs must be names with their shapes.")
        return cls.of(shapes, by_name=by_name)

    @property
    def time(self) -> int:
        """How many steps the common axis has."""
        return max(part.start + part.time for part in self.parts)

    @property
    def channels(self) -> int:
        """How many channels there are."""
        return self.parts[-1].channel + self.parts[-1].depth

    @property
    def first(self) -> InputPart:
        """The first input that has time."""
        return next(part for part in self.parts if not part.is_static)

    @property
    def names(self) -> tuple[str, ...]:
        """What the inputs are called."""
        return tuple(part.name for part in self.parts)

    def part(self, name: str) -> InputPart:
        """Look up an input by its name."""
        if name not in self.names:
            raise UnknownNameError("input", name, self.names)
        return self.parts[self.names.index(name)]

    def pack(self, parts: Sequence[Tensor], empty: float = 0.0) -> Tensor:
        """Put inputs (batch, steps, channels) into one tensor (batch, time, channel), ``empty`` between them."""
        whole = parts[0].new_full((len(parts[0]), self.time, self.channels), empty)
        for place, part in zip(self.parts, parts, strict=True):
            whole[:, place.steps, place.channels] = part.to(whole)
        return whole

    def unpack(self, z: Tensor) -> dict[str, Tensor]:
        """Return the inputs as the model takes them, by name."""
        return {part.name: part.unpacked(z) for part in self.parts}

    def occupied(self) -> Tensor:
        """Tell which cells belong to an input, (time, channel)."""
        return self.pack([torch.ones(1, part.time, part.depth, dtype=torch.bool) for part in self.parts])[0]

    def regions(self) -> list["Region"]:
        """Group the inputs whose masks are drawn together: series of the same steps, and all static values."""
        found: dict[tuple[int, int, bool], list[int]] = {}
        for part in self.parts:
            key = part.steps.start, part.steps.stop, part.is_static
            found.setdefault(key, []).extend(range(part.channels.start, part.channels.stop))
        return [Region(slice(*steps), tuple(channels), static) for (*steps, static), channels in found.items()]


class Region(NamedTuple):
    """Cells whose masks are drawn together: segments where there is time, single cells where there is none."""

    steps: slice
    channels: tuple[int, ...]
    is_static: bool

    def of(self, cells: Tensor) -> Tensor:
        """Cut the region out of cells (…, time, channel)."""
        return cells[..., self.steps, :][..., list(self.channels)]

    def put(self, whole: Tensor, cells: Tensor) -> None:
        """Put cells of the region into the whole, (…, time, channel)."""
        whole[..., self.steps, :][..., list(self.channels)] = cells


class Packed(NamedTuple):
    """Several inputs as one series, each like x."""

    packing: Packing
    x: Tensor
    baseline: Tensor
    mask: Tensor | None
    raw: Tensor | None


def argument_names(model: Any, count: int) -> tuple[str, ...]:
    """Return what a model calls its first arguments; nothing where it does not tell.

    Examples
    --------
    >>> argument_names(lambda past, static: past, 2)
    ('past', 'static')
    """
    function = model.forward if isinstance(model, nn.Module) else model
    try:
        parameters = list(inspect.signature(function).parameters.values())[:count]
    except (TypeError, ValueError):
        return ()
    plain = all(each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD} for each in parameters)
    return tuple(each.name for each in parameters) if plain and len(parameters) == count else ()


def is_several(x: Any) -> bool:
    """Tell whether a model is called with several inputs: a mapping, or a tuple."""
    return isinstance(x, (Mapping, tuple)) and not hasattr(x, "__array__")


def pack_inputs(
    x: Any,
    *,
    baseline: Any = None,
    mask: Any = None,
    raw: Any = None,
    names: Sequence[str] = (),
    empty: float | None = 0,
) -> Packed:
    """Lay out several inputs, as :class:`~tempograd.Series` has them, with the baseline of each.

    ``names`` are those of positions.
    """
    by_name = isinstance(x, Mapping)
    names = list(x) if by_name else names if len(names) == len(x) else [f"x{place}" for place in range(len(x))]
    inputs, masks, known = (_by_input(part, names, "x") for part in (x, mask, raw))
    values = {name: _series(inputs[name], name, gaps=masks[name] is not None) for name in names}
    packing = Packing.of({name: tuple(inputs[name].shape[1:]) for name in names}, by_name=by_name)
    counts = {name: len(value) for name, value in values.items()}
    if len(set(counts.values())) > 1:
        rows = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InputError(f"All inputs must have one row per series, got {rows} rows.")
    observed = packing.occupied().to(values[names[0]].device).expand(len(values[names[0]]), -1, -1).clone()
    absent, baselines = _by_input(baseline, names, "baseline"), []
    for part in packing.parts:
        series = values[part.name]
        seen = None if masks[part.name] is None else masks[part.name].reshape(series.shape).to(series.device)
        what = f"baseline of {part.name}"
        filled = validation.without_gaps(series, seen, _laid(part, absent[part.name], what), what, empty)
        values[part.name], seen, absence = filled
        baselines.append(absence)
        if seen is not None:
            part.of(observed).copy_(seen)
    dtype = reduce(torch.promote_types, (value.dtype for value in values.values()))
    packed = packing.pack([value.to(dtype) for value in values.values()])
    shown = None
    if raw is not None:
        parts = [(values[n] if known[n] is None else known[n]).reshape(values[n].shape) for n in names]
        parts = [part.to(torch.promote_types(part.dtype, torch.float32)) for part in parts]
        shown = packing.pack(parts, torch.nan)
    whole = mask is None and bool(observed.all())
    absent_cells = packing.pack([cells.to(dtype) for cells in baselines])
    return Packed(packing, packed, absent_cells, None if whole else observed, shown)


def _by_input(parts: Any, names: Sequence[str], what: str) -> dict[str, Any]:
    """Return what belongs to each input: by its name or position, or one number or word for all alike."""
    if isinstance(parts, Mapping):
        unknown = [name for name in parts if name not in names]
        if unknown:
            raise InputError(f"{what} names {brief(unknown[0])}: the inputs are {', '.join(names)}.")
        return {name: parts.get(name) for name in names}
    if isinstance(parts, tuple) and len(parts) == len(names):
        return dict(zip(names, parts, strict=True))
    if parts is None or isinstance(parts, str) or validation.check_numbers(parts, what).ndim == 0:
        return dict.fromkeys(names, parts)
    raise InputError(f"{what} must say for each input which it is, got {brief(parts)}: write {{{names[0]!r}: …}}.")


def _series(tensor: Tensor, name: str, *, gaps: bool) -> Tensor:
    """Check one input; static values are series of one step."""
    flat = tensor if tensor.ndim == 3 else tensor.reshape(len(tensor), 1, math.prod(tensor.shape[1:]))
    return validation.check_series(flat, f"x[{name!r}]", gaps=gaps)


def _laid(part: InputPart, baseline: Any, what: str) -> Any:
    """Bring the baseline of an input into the order (batch, steps, channels); words stay."""
    if part.is_static and isinstance(baseline, str) and baseline == "average":
        raise InputError(
            f"{arg:question.baseline=average} is a mean over time, which {part.name} does not have: pass "
            f"numbers as the {arg:question.baseline} of that input, such as the mean of the training series."
        )
    if baseline is None or isinstance(baseline, str):
        return baseline
    tensor = validation.check_numbers(baseline, what)
    if part.is_static and tensor.ndim == 2:
        return tensor[:, None]
    return tensor[:, None, None] if part.shape == () and tensor.ndim == 1 else tensor


def labels_of(packing: Packing, count: int, channels: Any, times: Any, units: Any) -> dict[str, Any]:
    """Name channels, units and steps of ``count`` series: as people do where they do, else by the input."""
    named = {"channels": channels, "units": units, "times": times}
    for what, labels in named.items():
        given = labels if isinstance(labels, Mapping | None) else {packing.first.name: labels}
        named[what] = _by_input(given, packing.names, what)
    channels_of, units_of = (
        [validation.check_names(named[what][p.name], p.depth, f"{what} of {p.name}") for p in packing.parts]
        for what in ("channels", "units")
    )
    known = [label for names in channels_of for label in names or ()]
    labelled: list[str] = []
    for part, names in zip(packing.parts, channels_of, strict=True):
        if names is None:
            labelled += [part.name] if part.depth == 1 else [f"{part.name} {d}" for d in range(part.depth)]
        else:  # where two would be alike, by the input too
            labelled += [label if known.count(label) == 1 else f"{part.name} {label}" for label in names]
    by_part = zip(packing.parts, units_of, strict=True)
    every = tuple(unit for part, names in by_part for unit in names or ("",) * part.depth)
    times = _time_labels(named["times"], packing, count)
    return {"channels": tuple(labelled), "times": times, "units": None if units is None else every}


def _time_labels(times: Mapping[str, Any], packing: Packing, count: int) -> Times:
    """Name every step of the common axis, for all ``count`` series or, where people do, for each of them.

    A step has the name that people give it, else its number, and that of static values says what it is.
    """
    series = [part for part in packing.parts if not part.is_static]
    labels: list[Any] = [check_times(times[part.name], count, part.time) for part in series]
    nested = any(map(is_nested, labels))
    steps = [str(step) for step in range(packing.time)]
    if len(series) < len(packing.parts):
        steps[-1] = STATIC
    rows = [list(steps) for _ in range(count if nested else 1)]
    for part, stamps in zip(series, labels, strict=True):
        for place, row in enumerate(rows if stamps is not None else []):
            row[part.steps] = stamps[place] if is_nested(stamps) else stamps
    return tuple(map(tuple, rows)) if nested else tuple(rows[0])
