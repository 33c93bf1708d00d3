"""How a model is called: with which inputs beside the series, in which order of axes, and what of its output.

Companions that are passed along row by row (``Series.fixed``) meet their series wherever the engine shows it to
the model, on a path, in a perturbation, in another order: whoever asks the model says which rows it asks about.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from tempograd.core.errors import InputError, ModelError, brief
from tempograd.core.findings import arg
from tempograd.core.series import has_rows
from tempograd.engine.conventions import (
    NO_GRADIENT,
    Estimator,
    OfArrays,
    as_model,
    as_output,
    batch_first,
    in_model_layout,
    picked,
)
from tempograd.engine.inputs import Packing
from tempograd.engine.model import Model, owner
from tempograd.engine.outputs import several_misfit
from tempograd.engine.predictor import check_call
from tempograd.typing import Output, Task


@dataclass(frozen=True, eq=False)
class FixedInputs:
    """What a model gets beside the explained inputs: rows of the series, and what is the same for all of them."""

    rows: Mapping[str, Tensor | list[Any]]
    constants: Mapping[str, Any] = field(default_factory=dict)
    by_name: bool = True
    _placed: dict[tuple[str, torch.device, torch.dtype], Tensor] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, given: Any) -> Self:
        """Tell rows from what is the same for all series, of what :class:`~tempograd.Series` has checked."""
        by_name = isinstance(given, Mapping)
        items = given.items() if by_name else ((str(place), value) for place, value in enumerate(given))
        named = dict(items)
        rows = {name: value for name, value in named.items() if has_rows(value)}
        return cls(rows, {name: value for name, value in named.items() if name not in rows}, by_name)

    @classmethod
    def from_plain(cls, plain: Any, tensors: Mapping[str, Tensor], count: int) -> Self:
        """Return what a file of ``count`` series tells of."""
        told = plain if isinstance(plain, dict) else {}
        constants, lists, by_name = (told.get(name) for name in ("constants", "lists", "by_name"))
        if not isinstance(constants, dict) or not isinstance(lists, dict) or not isinstance(by_name, bool):
            raise InputError("its fixed inputs must be a table of names.")
        rows = {**tensors, **lists}
        if not all(isinstance(each, (list, Tensor)) and len(each) == count for each in rows.values()):
            raise InputError(f"its fixed inputs must have {count} rows.")
        return cls(rows, constants, by_name)

    def beside(self, packing: Packing) -> Self:
        """Refuse names that inputs, by name, have too."""
        for name in packing.names if packing.by_name and self.by_name else ():
            if name in {**self.rows, **self.constants}:
                raise InputError(f"{name} is among the inputs and among the fixed ones: leave it in one of them.")
        return self

    def take(self, places: Tensor) -> Self:
        """Return those of some rows."""
        rows = {name: _taken(value, places) for name, value in self.rows.items()}
        return replace(self, rows=rows, _placed={})

    def arguments(self, row: Tensor, z: Tensor) -> dict[str, Any]:
        """Look up what goes with the rows of ``z``: on its device, and where nothing is lost in its precision."""
        found: dict[str, Any] = {}
        for name, value in self.rows.items():
            if isinstance(value, list):
                found[name] = _taken(value, row)
                continue
            key = name, z.device, z.dtype
            if key not in self._placed:
                self._placed[key] = _in_precision(value, z.dtype).to(z.device)
            found[name] = self._placed[key].index_select(0, row)
        return found | dict(self.constants)

    def ordered(self, found: Mapping[str, Any]) -> list[Any]:
        """Return looked up values in the order of their positions."""
        return [found[name] for name in sorted(found, key=int)]


def _in_precision(value: Tensor, dtype: torch.dtype) -> Tensor:
    """Return floats in the precision of the series, unless that would lose something: time stamps, large indices.

    Numbers lose their digits by rounding, which is no loss where they are spread as wide as they are large.
    """
    if not value.is_floating_point() or value.dtype == dtype or value.numel() == 0:
        return value
    rounded, whole = value.to(dtype), value.double()
    gap = (rounded.double() - whole).abs().max()
    if bool((whole == whole.round()).all()):
        return rounded if gap == 0 else value
    spread = (whole - whole.mean()).abs().max()
    return rounded if bool(gap <= 4 * torch.finfo(dtype).eps * spread) else value


def _taken(value: Tensor | list[Any], places: Tensor) -> Any:
    if isinstance(value, list):
        return [value[place] for place in places.tolist()]
    return value[places.to(value.device)]


def _told(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    """Say what a model was called with."""
    parts = [("", value) for value in arguments] + [(f"{name} ", value) for name, value in keywords.items()]
    return ", ".join(
        name + (_sizes(value) if isinstance(value, Tensor) else brief(value)) for name, value in parts
    )


def _sizes(value: Tensor) -> str:
    return f"({', '.join(['batch', *map(str, value.shape[1:])])})"


@dataclass(frozen=True)
class Call:
    """How a model is called.

    Attributes
    ----------
    packing : Packing, optional
        How several inputs lie in one series; None for a model that takes the series itself.
    fixed : FixedInputs, optional
        What else it is called with.
    pick : str or int, optional
        Which part of what it returns is its output.
    model_layout : str
        Order of the axes that it takes.
    lengths : tuple of int, optional
        How many steps of each series it is shown, where series have lengths of their own; None for all steps.
    gaps : BoolTensor of shape (batch, time, channel), optional
        Cells where it reads NaN, whatever the engine computes with there.
    """

    packing: Packing | None = None
    fixed: FixedInputs | None = None
    pick: str | int | None = None
    model_layout: str = "BTD"
    lengths: tuple[int, ...] | None = None
    gaps: Tensor | None = field(default=None, repr=False, compare=False)

    _known: list[bool] = field(default_factory=list, repr=False, compare=False)

    @cached_property
    def _lengths(self) -> Tensor:
        return torch.tensor(self.lengths or ())

    @property
    def is_plain(self) -> bool:
        """Whether the model is called with the series alone and returns its output."""
        return not self.has_companions and self.pick is None and self.model_layout == "BTD"

    @property
    def has_companions(self) -> bool:
        """Whether the model gets more, or less, than the series as it lies there."""
        return self.packing is not None or self.by_row

    @property
    def by_row(self) -> bool:
        """Whether it matters which row of the series the model is shown."""
        return self.fixed is not None or self.lengths is not None or self.gaps is not None

    def adapt(self, model: Model) -> Model:
        """Return the model as a function of series (batch, time, channel) alone; a plain one is itself.

        Where rows matter, :meth:`at` says which they are.
        """
        model = as_model(model)
        if self.is_plain:
            return model
        return Adapted(self, model)

    def reading(self, x: Tensor) -> tuple[Self, Tensor]:
        """Return the call of a model that reads NaN where ``x`` holds it, and ``x`` with 0 there."""
        gaps = x.isnan()
        if not bool(gaps.any()):
            return replace(self, gaps=None) if self.gaps is not None else self, x
        return replace(self, gaps=gaps), x.masked_fill(gaps, 0)

    def at(self, adapted: Model, rows: Tensor) -> Model:
        """Return an adapted model as a function of series that are these ``rows`` of all."""
        return adapted.at(rows) if self.by_row else adapted  # type: ignore[union-attr]  # Adapted, or a realisation

    def run(self, model: Model, z: Tensor, rows: Tensor | None = None) -> Any:
        """Call the model with the inputs that lie in ``z`` and what goes with its rows."""
        if self.gaps is not None and rows is not None:
            z = z.masked_fill(self.gaps.to(z.device)[rows], torch.nan)
        if self.lengths is not None and rows is not None:
            return self._at_own_length(model, z, rows)
        return self._ask(model, z, rows)

    def _ask(self, model: Model, z: Tensor, rows: Tensor | None) -> Any:
        """Return the output for series (batch, time, channel), one row per series."""
        time_first = self.model_layout == "TBD"

        def output(z: Tensor) -> Any:
            return picked(self._answer(model, rows, z), self.pick, len(z), time_first=time_first)

        raw = output(z)
        if not time_first:
            return raw
        raw = as_output(raw, z)
        return batch_first(raw, len(z), lambda: as_output(output(torch.cat([z, z[-1:]]).detach()), z))

    def _at_own_length(self, model: Model, z: Tensor, rows: Tensor) -> Tensor:
        """Ask about the series of each length by itself; outputs that have a time axis are padded with 0."""
        lengths = self._lengths.to(z.device)[rows]
        order = lengths.argsort(stable=True)
        parts: list[Tensor] = []
        for length in sorted(set(lengths.tolist())):
            of_length = lengths == length
            shown, here = z[of_length, :length], rows[of_length]
            raw = as_output(self._ask(model, shown, here), shown)
            parts.append(_until(raw, length, z.shape[1], self._grows(model, z[of_length], here)))
        return torch.cat(parts)[order.argsort()]

    def _grows(self, model: Model, z: Tensor, rows: Tensor) -> bool:
        """Tell whether outputs have a time axis, the second, from those of two lengths; found out once."""
        if not self._known:
            shapes = []
            short, long = min(self.lengths or ()), max(self.lengths or ())
            long = long if short < long else z.shape[1]  # of one series that was padded, all of it
            for length in (short, long):
                shown = z[:1, :length].detach()
                with torch.no_grad():
                    shapes.append((length, tuple(as_output(self._ask(model, shown, rows[:1]), shown).shape)))
            (short, one), (long, other) = shapes
            if one != other and (one[:2] != (1, short) or other[:2] != (1, long) or one[2:] != other[2:]):
                raise ModelError(
                    f"The model returns {one[1:]} for a series of {short} steps and {other[1:]} for one of "
                    f"{long}: pass series padded to one length, with {arg:series.mask}, or a function that "
                    "returns as many numbers for all of them."
                )
            self._known.append(one != other)
        return self._known[0]

    def _answer(self, model: Model, rows: Tensor | None, z: Tensor) -> Any:
        if not self.has_companions:
            return as_model(model)(in_model_layout(z, self.model_layout))
        inputs = {"": z} if self.packing is None else self.packing.unpack(z)
        several = len({part.shape[1:] for part in inputs.values()}) > 1
        laid = {name: self._laid_out(part, several=several) for name, part in inputs.items()}
        named = self.packing is not None and self.packing.by_name
        arguments, keywords = ([], laid) if named else (list(laid.values()), {})
        if self.fixed is not None and rows is not None:
            more = len(z) - len(rows)  # one series twice, where the order of axes is found out
            companions = self.fixed.arguments(torch.cat([rows, rows[-1:]]) if more else rows, z)
            if self.fixed.by_name:
                keywords |= companions
            else:
                arguments += self.fixed.ordered(companions)
        try:
            return as_model(model)(*arguments, **keywords)
        except (RuntimeError, ValueError, AssertionError, IndexError, TypeError) as error:
            message = several_misfit(error, _told(arguments, keywords))
            if message is None:
                raise
            raise ModelError(message) from error

    def _laid_out(self, part: Tensor, *, several: bool) -> Tensor:
        """Bring an input into the order of axes that the model takes; "BT" is for those of one channel."""
        if part.ndim != 3 or (several and self.model_layout == "BT" and part.shape[2] > 1):
            return part
        return in_model_layout(part, self.model_layout)

    def series_of(self, cells: Tensor) -> Tensor:
        """Return the first input that has time, as it was given, from cells (batch, time, channel) of all."""
        return cells if self.packing is None else self.packing.first.of(cells)

    def turned_back(self, outputs: Tensor) -> Tensor:
        """Return outputs that are series again in the order (batch, time, channel), not in that of the model.

        A model that takes time first has its outputs turned wherever they are read.
        """
        if self.model_layout == "BDT" and outputs.ndim == 3:
            return outputs.transpose(1, 2)
        return outputs[..., None] if self.model_layout == "BT" and outputs.ndim == 2 else outputs

    def take(self, places: Tensor) -> Self:
        """Return the call of some of the series."""
        lengths = None if self.lengths is None else tuple(self.lengths[place] for place in places.tolist())
        fixed = None if self.fixed is None else self.fixed.take(places)
        gaps = None if self.gaps is None else self.gaps[places.to(self.gaps.device)]
        return replace(self, fixed=fixed, lengths=lengths, gaps=gaps) if self.by_row else self

    @property
    def plain(self) -> dict[str, Any]:
        """Return what a file tells of it, beside its :attr:`tensors`."""
        told: dict[str, Any] = {"pick": self.pick, "model_layout": self.model_layout}
        if self.packing is not None:
            told["inputs"] = [[part.name, list(part.shape)] for part in self.packing.parts]
            told["by_name"] = self.packing.by_name
        if self.lengths is not None:
            told["lengths"] = list(self.lengths)
        if self.fixed is not None:
            told["fixed"] = {
                "by_name": self.fixed.by_name,
                "constants": dict(self.fixed.constants),
                "lists": {name: value for name, value in self.fixed.rows.items() if isinstance(value, list)},
            }
        return told

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Return the fixed inputs that a file keeps as tensors, by name."""
        rows = {} if self.fixed is None else self.fixed.rows
        return {name: value for name, value in rows.items() if isinstance(value, Tensor)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor], count: int) -> Self:
        """Return the call that a file of ``count`` series tells of; what it does not know is as usual."""
        usual = {name: plain[name] for name in ("pick", "model_layout") if name in plain}
        check_call(usual.get("pick"), usual.get("model_layout", "BTD"), "model_layout")
        packing = Packing.from_plain(plain["inputs"], plain.get("by_name")) if "inputs" in plain else None
        fixed = None
        if "fixed" in plain:
            fixed = FixedInputs.from_plain(plain["fixed"], tensors, count)
        lengths = plain.get("lengths")
        if lengths is not None:
            whole = isinstance(lengths, list) and all(type(each) is int and 0 < each < 2**31 for each in lengths)
            if not whole or len(lengths) != count:
                raise InputError(f"the lengths of its series must be {count} numbers.")
            lengths = tuple(lengths)
        return cls(packing, fixed, **usual, lengths=lengths)


class Caller(Protocol):
    """Calls a model with series, of which ``rows`` tells which of all they are, where that matters."""

    def run(self, model: Model, z: Tensor, rows: Tensor | None = None) -> Any:
        """Return what the model says about ``z``."""


@dataclass(frozen=True, eq=False)
class Adapted:
    """A model as a function of series (batch, time, channel) alone, or of those that are some rows of all."""

    call: Caller
    model: Model
    rows: Tensor | None = None

    def __call__(self, z: Tensor) -> Any:
        return self.call.run(self.model, z, self.rows)

    def at(self, rows: Tensor) -> "Adapted":
        """Return the same as a function of series that are these ``rows`` of all."""
        return Adapted(self.call, self.model, rows)

    @property
    def __self__(self) -> object:  # as a method has it, so that the module is found behind both
        return owner(self.model) or self.model

    @property
    def __func__(self) -> object:  # what else decides what a pass computes
        return self.call, getattr(self.model, "__func__", None)


def _until(raw: Tensor, length: int, time: int, grows: bool) -> Tensor:
    """Pad the second axis of an output from ``length`` to ``time``, where it is one of time."""
    if not grows or length == time:
        return raw
    return torch.cat([raw, raw.new_zeros(len(raw), time - length, *raw.shape[2:])], 1)


def require_torch(model: Model) -> None:
    """Refuse, before anything runs, a model that is known to leave torch, for methods that need its gradient."""
    known = model.model if isinstance(model, Adapted) else model
    if isinstance(known, (Estimator, OfArrays)):
        name = known.name if isinstance(known, Estimator) else "The model"
        raise ModelError(f"{name} computes with {NO_GRADIENT}.")


def told_by(
    model: Model, output: Output | None, task: Task | None, classes: Sequence[str] | None
) -> tuple[Output | None, Task | None, Sequence[str] | None]:
    """Complete what an estimator knows: its columns are explained as they are, and its classes have names."""
    known = model.model if isinstance(model, Adapted) else model
    if not isinstance(known, Estimator):
        return output, task, classes
    if output is None or known.method == "predict_proba":
        output = "raw"
    return output, task or known.task, known.classes if classes is None else classes
