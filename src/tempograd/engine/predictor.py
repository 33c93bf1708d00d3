"""How a model is called, and what its outputs are: said once, for every call; nothing else runs a model.

Companions that are passed along row by row (``Series.fixed``) meet their series wherever the engine shows it to
the model, on a path, in a perturbation, in another order: whoever asks the model says which rows it asks about.
"""

import math
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field, replace
from textwrap import shorten
from typing import Any, Self, get_args

import torch
from torch import Tensor, nn
from torch.nn.modules import module as nn_module

from tempograd.core import validation
from tempograd.core.errors import InputError, ModelError, TempogradError, arg, brief
from tempograd.core.series import Series, companions_at, has_rows, rows_at
from tempograd.engine.batching import out_of_memory
from tempograd.engine.conventions import NO_GRADIENT, Estimator, as_output, picked, shape_in_words
from tempograd.engine.inputs import Packing, is_several, pack_inputs
from tempograd.engine.model import WithModules, modules_of, owner, this_thread
from tempograd.typing import Fixed, Model, ModelLayout, Output, Pick, Task

FAILURES = (RuntimeError, ValueError, AssertionError, IndexError, TypeError)  # assertions by exported programs
ELSEWHERE = re.compile(  # how torch calls tensors on two devices or in two precisions
    r"tensors to be on the same device|not at the same device|not on the expected device|same dtype"
    r"|expected scalar type|Input type \(.*\) and (weight|bias) type"
)
# How Python counts arguments
ARITY = re.compile(r"missing \d+ required|takes \d+ positional|takes from \d+ to|unexpected keyword")
CALLING = {__file__, WithModules.forward.__code__.co_filename, nn_module.__file__}  # what only calls a model
DECLARED = "tempograd_task"  # the attribute by which a model says its task
LONG = 100  # characters of what torch says that a sentence can carry
SIZES = re.compile(r"sizes?\b|shape|dimension|channels?\b|elements|\dD\b|values to unpack", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Predictor:
    """A model, how it is called with series, and what its outputs are.

    Parameters
    ----------
    model : nn.Module, callable or estimator
        Takes series (batch, time, channel) and returns one row of outputs per series.
    task : {"classification", "binary", "multilabel", "regression", "forecast", "per_step"}, optional
        What the outputs are. ``"binary"``: one column, the logit of class 1, whose complement is class 0.
    classes : sequence of str, optional
        Names of the outputs; that of a number may end in its unit, such as ``"length of stay [days]"``.
    pick : str or int, optional
        Which part of a dict, a tuple or an object the output is: ``"logits"``, ``1``, ``"states.0"``.
    layout : {"BTD", "BDT", "TBD", "BT"}
        Order of the axes that the model takes: batch, time, channel; ``"BT"`` for one channel without an axis.
    modules : sequence of nn.Module, optional
        The modules that a function runs, where it hides them: series are sent to their device, and they are
        frozen while they are explained.
    reset : callable, optional
        Called before every pass, for models that keep state between calls.

    Examples
    --------
    >>> import torch
    >>> conv = nn.Conv1d(3, 2, 4)
    >>> Predictor(conv, layout="BDT", task="forecast").task
    'forecast'
    """

    model: Model
    _: KW_ONLY
    task: Task | None = None
    classes: Sequence[str] | None = None
    pick: Pick | None = None
    layout: ModelLayout = "BTD"
    modules: Sequence[nn.Module] | None = None
    reset: Callable[[], object] | None = None

    def __post_init__(self) -> None:
        validation.check_model(self.model)
        if self.task is not None:
            validation.check_choice(self.task, "task", get_args(Task))
        Call(pick=self.pick, model_layout=self.layout)  # which checks both
        object.__setattr__(self, "classes", validation.check_classes(self.classes, None))
        if self.modules is not None:
            modules = tuple(self.modules)
            if not modules or not all(isinstance(module, nn.Module) for module in modules):
                raise InputError(
                    f"modules must hold the modules that the function runs, got {brief(self.modules)}."
                )
            object.__setattr__(self, "modules", modules)

    @property
    def called(self) -> Model:
        """The model as a function of series whose modules can be found."""
        if self.modules is None and self.reset is None:
            return self.model
        modules = modules_of(self.model) if self.modules is None else self.modules
        return WithModules(self.model, modules, self.reset)

    def known_of_outputs(self, output: Output | None) -> tuple[Output | None, str | None, Sequence[str] | None]:
        """Return what is known of the outputs, with the ``output`` that somebody chose: that, task and classes.

        An estimator's columns are explained as they are, and its classes have names.
        """
        task, classes, known = self.task, self.classes, as_model(self.model)
        if isinstance(known, Estimator):
            output = "raw" if output is None or known.method == "predict_proba" else output
            task, classes = task or known.task, known.classes if classes is None else classes
        task = task or getattr(self.model, DECLARED, None) or getattr(owner(self.model), DECLARED, None)
        if task is not None:
            validation.check_choice(task, f"{DECLARED} of the model", get_args(Task))
        return output, task, classes


def as_model(model: Any, method: str | None = None) -> Callable[..., Any]:
    """Return a model itself, and an estimator as a function of series.

    Examples
    --------
    >>> class Mean:
    ...     def predict(self, x):
    ...         return x.mean((1, 2))
    >>> as_model(Mean())(torch.ones(2, 4, 3))
    array([1., 1.], dtype=float32)
    """
    if callable(model) and method is None:
        return model  # type: ignore[no-any-return]  # callable() does not narrow Any
    validation.check_model(model)
    return Estimator(model, method or next(name for name in validation.PREDICTS if hasattr(model, name)))


# A model called with the series of a question


@dataclass(frozen=True)
class Call:
    """How a model is called with some series.

    Attributes
    ----------
    packing : Packing, optional
        How several inputs lie in one series; None for a model that takes the series itself.
    fixed : mapping or tuple, optional
        What else it is called with, as :class:`~tempograd.Series` has it.
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
    fixed: Fixed | None = field(default=None, compare=False)
    pick: str | int | None = None
    model_layout: str = "BTD"
    lengths: tuple[int, ...] | None = None
    gaps: Tensor | None = field(default=None, repr=False, compare=False)

    _placed: dict[Any, Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)
    _known: list[bool] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        validation.check_choice(self.model_layout, "layout", get_args(ModelLayout))
        if self.pick is not None and (isinstance(self.pick, bool) or not isinstance(self.pick, (str, int))):
            raise InputError(f"pick must be a name or a place in what the model returns, got {brief(self.pick)}.")
        if self.packing is not None and self.packing.by_name and isinstance(self.fixed, Mapping):
            for name in self.fixed.keys() & set(self.packing.names):
                raise InputError(f"{name} is among the inputs and among the fixed ones: leave it in one of them.")

    @property
    def companions(self) -> dict[str, Any]:
        """What goes along with the series, by name, or by place where there is none."""
        if isinstance(self.fixed, Mapping):
            return dict(self.fixed)
        return {str(place): part for place, part in enumerate(self.fixed or ())}

    @property
    def by_row(self) -> bool:
        """Whether it matters which row of the series the model is shown."""
        return self.fixed is not None or self.lengths is not None or self.gaps is not None

    def adapt(self, model: Model) -> Model:
        """Return the model as a function of series (batch, time, channel) alone; a plain one is itself.

        Where rows matter, :meth:`Adapted.at` says which they are.
        """
        return as_model(model) if not self.by_row and self == Call() else Adapted(as_model(model), self)

    def reading(self, x: Tensor) -> tuple[Self, Tensor]:
        """Return the call of a model that reads NaN where ``x`` holds it, and ``x`` with 0 there."""
        gaps = x.isnan()
        if not bool(gaps.any()):
            return replace(self, gaps=None) if self.gaps is not None else self, x
        return replace(self, gaps=gaps), x.masked_fill(gaps, 0)

    def run(self, model: Model, z: Tensor, rows: Tensor | None = None) -> Any:
        """Call the model with the inputs that lie in ``z`` and what goes with its rows."""
        if rows is not None and self.gaps is not None:
            z = z.masked_fill(self.gaps.to(z.device)[rows], torch.nan)
        if rows is None or self.lengths is None:
            return self._output(model, z, rows)
        lengths = torch.tensor(self.lengths, device=z.device)[rows]
        parts: list[Tensor] = []
        for length in sorted(set(lengths.tolist())):  # outputs that have a time axis are padded with 0
            of_length = lengths == length
            shown, here = z[of_length, :length], rows[of_length]
            raw = as_output(self._output(model, shown, here), shown)
            if self._grows(model, z[of_length], here) and length < z.shape[1]:
                raw = torch.cat([raw, raw.new_zeros(len(raw), z.shape[1] - length, *raw.shape[2:])], 1)
            parts.append(raw)
        return torch.cat(parts)[lengths.argsort(stable=True).argsort()]

    def _grows(self, model: Model, z: Tensor, rows: Tensor) -> bool:
        """Tell whether outputs have a time axis, the second, from those of two lengths; found out once."""
        if not self._known:
            shapes = []
            short, long = min(self.lengths or ()), max(self.lengths or ())
            long = long if short < long else z.shape[1]  # of one series that was padded, all of it
            for length in (short, long):
                shown = z[:1, :length].detach()
                with torch.no_grad():
                    shapes.append(tuple(as_output(self._output(model, shown, rows[:1]), shown).shape))
            one, other = shapes
            if one != other and (one[:2] != (1, short) or other[:2] != (1, long) or one[2:] != other[2:]):
                raise ModelError(
                    f"The model returns {one[1:]} for a series of {short} steps and {other[1:]} for one of "
                    f"{long}: pass series padded to one length, with {arg:series.mask}, or a function that "
                    "returns as many numbers for all of them."
                )
            self._known.append(one != other)
        return self._known[0]

    def _output(self, model: Model, z: Tensor, rows: Tensor | None) -> Any:
        """Return the output for series (batch, time, channel), one row per series.

        A model that takes time first may return it first too. Where the output has as many places on both axes as
        there are series, one series more tells which axis follows the batch.
        """
        time_first = self.model_layout == "TBD"
        raw = picked(self._answer(model, z, rows), self.pick, len(z), time_first=time_first)
        if not time_first:
            return raw
        raw = as_output(raw, z)
        batch = [axis for axis in (0, 1) if raw.ndim > 1 and raw.shape[axis] == len(z)]
        if len(batch) == 2:
            more, places = torch.cat([z, z[-1:]]).detach(), None if rows is None else torch.cat([rows, rows[-1:]])
            with torch.no_grad():
                answer = self._answer(model, more, places)
                shape = as_output(picked(answer, self.pick, len(more), time_first=True), z).shape
            batch = [axis for axis in (0, 1) if len(shape) > 1 and shape[axis] == len(more)]
        return raw.transpose(0, 1) if batch == [1] else raw

    def _answer(self, model: Any, z: Tensor, rows: Tensor | None) -> Any:
        """Return whatever the model says of some series, in its own order of axes."""
        if self.packing is None and not self.by_row:
            return model(self._laid_out(z))
        inputs = {"": z} if self.packing is None else self.packing.unpack(z)
        laid = {name: self._laid_out(part) for name, part in inputs.items()}
        named = self.packing is not None and self.packing.by_name
        arguments, keywords = ([], laid) if named else (list(laid.values()), {})
        if self.fixed is not None and rows is not None:
            companions = {name: self._companion(name, part, rows, z) for name, part in self.companions.items()}
            if isinstance(self.fixed, Mapping):
                keywords |= companions
            else:
                arguments += companions.values()
        try:
            return model(*arguments, **keywords)
        except FAILURES as error:
            parts = [*(("", value) for value in arguments), *((f"{name} ", keywords[name]) for name in keywords)]
            words = (
                name + (shape_in_words(part, len(z)) if isinstance(part, Tensor) else brief(part))
                for name, part in parts
            )
            _explain_failure(error, z, ", ".join(words))
            raise

    def _laid_out(self, part: Tensor) -> Tensor:
        """Bring an input into the order of axes that the model takes; "BT" is for those of one channel."""
        if part.ndim != 3 or self.model_layout == "BTD":
            return part
        if self.model_layout == "BT":
            return part.squeeze(2) if self.packing is not None else part.reshape(part.shape[:2])
        axes = (1, 2) if self.model_layout == "BDT" else (0, 1)
        return part.transpose(*axes).contiguous()  # as such series lie

    def _companion(self, name: str, value: Any, rows: Tensor, z: Tensor) -> Any:
        """Look up what goes with rows of the series: beside them, and in their precision where nothing is lost."""
        if not isinstance(value, Tensor) or not has_rows(value):
            return rows_at(value, rows) if has_rows(value) else value
        key = name, z.device, z.dtype
        if key not in self._placed:
            self._placed[key] = _in_precision(value, z.dtype).to(z.device)
        return self._placed[key].index_select(0, rows)

    def pooled(self, series: Any, name: str) -> Any:
        """Lay out other series as those that the model is called with."""
        packing = self.packing
        if packing is None:
            if is_several(series):
                raise InputError(f"{name} are of several inputs, x is of one: pass series like x.")
            return series
        if isinstance(series, dict) and series.keys() == set(packing.names):
            series = {each: series[each] for each in packing.names}
        packed = pack_inputs(Series.of(series).x, names=packing.names) if is_several(series) else None
        if packed is None or packed.packing != packing:
            raise InputError(f"{name} must be of the inputs of x, in their shapes: {', '.join(packing.names)}.")
        return packed.x

    def unpacked(self, cells: Tensor) -> Any:
        """Return cells of all inputs as they were given: a mapping, a tuple, or those of the only one."""
        if self.packing is None:
            return cells
        inputs = self.packing.unpack(cells)
        return inputs if self.packing.by_name else tuple(inputs.values())

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
        if not self.by_row:
            return self
        fixed = companions_at(self.fixed, places)
        return replace(self, fixed=fixed, lengths=rows_at(self.lengths, places), gaps=rows_at(self.gaps, places))

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
                "by_name": isinstance(self.fixed, Mapping),
                "constants": {name: part for name, part in self.companions.items() if not has_rows(part)},
                "lists": {name: part for name, part in self.companions.items() if isinstance(part, list)},
            }
        return told

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Return the fixed inputs that a file keeps as tensors, by name."""
        return {name: part for name, part in self.companions.items() if isinstance(part, Tensor) and part.ndim}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor], count: int) -> Self:
        """Return the call that a file of ``count`` series tells of; what it does not know is as usual."""
        usual = {name: plain[name] for name in ("pick", "model_layout") if name in plain}
        packing = Packing.from_plain(plain["inputs"], plain.get("by_name")) if "inputs" in plain else None
        lengths = None if plain.get("lengths") is None else tuple(plain["lengths"])
        rows: dict[str, Any] = {}
        fixed: Any = None
        if "fixed" in plain:
            rows = {**tensors, **plain["fixed"]["lists"]}
            fixed = rows | plain["fixed"]["constants"]
            if not plain["fixed"]["by_name"]:
                fixed = tuple(fixed[name] for name in sorted(fixed, key=int))
        whole = all(type(length) is int and 0 < length < 2**31 for length in lengths or ())
        parts = [*rows.values(), *([] if lengths is None else [lengths])]
        if not whole or not all(isinstance(part, (list, tuple, Tensor)) and len(part) == count for part in parts):
            raise InputError(f"its lengths and fixed inputs must have {count} rows.")
        return cls(packing, fixed, **usual, lengths=lengths)


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


@dataclass(frozen=True, eq=False)
class Adapted:
    """A model as a function of series (batch, time, channel) alone, or of those that are some rows of all."""

    model: Model
    call: Any  # whatever has a method run(model, z, rows)
    rows: Tensor | None = None

    def __call__(self, z: Tensor) -> Any:
        return self.call.run(self.model, z, self.rows)

    def at(self, rows: Tensor) -> "Adapted":
        """Return the same as a function of series that are these ``rows`` of all."""
        return replace(self, rows=rows)

    @property
    def __self__(self) -> object:  # as a method has it, so that the module is found behind both
        return owner(self.model) or self.model

    @property
    def __func__(self) -> object:  # what else decides what a pass computes
        alike = isinstance(self.call, Call) and self.call.fixed is None
        return self.call if alike else self, getattr(self.model, "__func__", None)


# How many series a model is shown, for callers that have a budget


class PassesError(Exception):
    """The model would be shown more series than the caller allowed."""


@dataclass
class PassCount:
    """Series that the model was shown, and the most that it may be."""

    most: float = math.inf
    passes: int = 0


pass_count: ContextVar[PassCount | None] = ContextVar("pass_count", default=None)
"""Where the series that any model is shown are counted, with PassesError before they are too many.

Passes that a GPU repeats from a recording are not seen."""


# The call itself


def forward(model: Model, z: Tensor, shape: Sequence[int] | None = None, *, per_step: bool = False) -> Tensor:
    """Call the model and check that it returned one row per series.

    It gets a copy, which it may work on in place, and never the memory of the caller. Where it cannot take series,
    one sentence says so, with the ``shape`` of all of them, if that is given. One number per series, or with
    ``per_step`` one per step, has an axis for its only column.
    """
    count = pass_count.get()
    if count is not None:
        if count.passes + len(z) > count.most:
            raise PassesError
        count.passes += len(z)
    before, this_thread.runs_model = this_thread.runs_model, True
    try:
        raw = numbers_of(model(z.clone()), z)
    except FAILURES as error:
        _explain_failure(error, z, shape)
        raise
    finally:
        this_thread.runs_model = before
    raw = raw[:, None] if raw.ndim == 1 else raw
    return raw[..., None] if per_step and raw.ndim == 2 else raw


def numbers_of(raw: Any, z: Tensor, who: str = "The model") -> Tensor:
    """Return the output of ``who`` for series ``z`` as real numbers beside them, or say what is wrong with it.

    Of an answer in parts it is the only one that can be the output, if there is one.

    Examples
    --------
    >>> numbers_of(torch.tensor([[1, 2]]), torch.zeros(1, 4, 3))
    tensor([[1., 2.]])
    >>> numbers_of({"logits": torch.ones(1, 2), "loss": None}, torch.zeros(1, 4, 3))
    tensor([[1., 1.]])
    """
    output: Tensor = raw if isinstance(raw, Tensor) else as_output(picked(raw, None, len(z)), z)
    odd = output.is_nested or output.layout is not torch.strided or output.is_meta or output.is_quantized
    small = output.is_floating_point() and output.dtype.itemsize == 1
    if odd or output.is_complex() or small or output.dtype == torch.bool:
        kind = "a nested tensor" if output.is_nested else f"{output.dtype}, {output.layout} on {output.device}"
        raise ModelError(f"{who} must return real numbers in a dense tensor, got {kind}: return torch.float32.")
    rows, shape = len(z), tuple(output.shape)
    if shape[:1] != (rows,) or output.numel() == 0:
        least = "at least one number" if shape[:1] == (rows,) else "one row"
        turned = z.ndim == 3 and (rows in shape[1:2] or shape[:1] == (z.shape[1],))
        hint = f"; pass {arg:predictor.layout=TBD} if it takes (time, batch, channel)" if turned else ""
        raise ModelError(f"{who} must return {least} per series: {rows} series gave shape {shape}{hint}.")
    return output.to(z.device) if output.is_floating_point() else output.to(z.device, z.dtype)


def _explain_failure(error: Exception, z: Tensor, inputs: str | Sequence[int] | None) -> None:
    """Raise one sentence for a model that cannot take what it was called with, or computes elsewhere.

    ``inputs`` are several in words, or the shape of all series, if it may be that they do not fit. Whatever else
    goes wrong inside a model is for its author, who needs the error as it is.
    """
    message = str(error)
    line = shorten((message.strip().splitlines() or [""])[0].rstrip("."), LONG, placeholder="…")
    *_, (deepest, _) = traceback.walk_tb(error.__traceback__)
    if isinstance(error, TempogradError) or out_of_memory(error):
        return
    if "numpy() on Tensor that requires grad" in message:
        raise ModelError(f"The model turns its input into {NO_GRADIENT}.") from error
    if isinstance(error, RuntimeError) and ELSEWHERE.search(message):
        raise ModelError(
            f"The model got series in {z.dtype} on {z.device} and computes elsewhere or in another precision "
            f"({line}): if a function hides its module, pass {arg:predictor.modules=[module]}."
        ) from error
    if isinstance(error, TypeError) and deepest.f_code.co_filename in CALLING and ARITY.search(message):
        raise ModelError(
            f"The model cannot be called with {inputs if isinstance(inputs, str) else 'series alone'} ({line}): "
            f"pass what else it takes as {arg:series.fixed}, and call inputs what its arguments are called."
        ) from error
    if inputs is None or isinstance(error, TypeError) or not SIZES.search(message):
        return
    if not isinstance(inputs, str):
        inputs = f"x of shape {tuple(inputs)}, read as (batch, time, channel)"
    raise ModelError(
        f"The model cannot take {inputs}: {line}; {arg:series.layout} is the order of the axes of x, "
        f"{arg:predictor.layout} that of the model."
    ) from error
