"""What a model says: one row of real numbers per series, as probabilities or as it is, and the explained score."""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Literal, Protocol, TypeGuard, get_args, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid
from torch.nn.modules import module as nn_module

from tempograd.core import validation
from tempograd.core.errors import InputError, ModelError, TempogradError, brief
from tempograd.core.findings import arg
from tempograd.engine.batching import Batching, out_of_memory
from tempograd.engine.conventions import as_model, as_output, picked
from tempograd.engine.model import Model, running, undisturbed_by_others
from tempograd.engine.predictor import WithModules
from tempograd.typing import Output, Picker

WHOLE = {
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
}
NUMBERS = WHOLE | {torch.float16, torch.bfloat16, torch.float32, torch.float64}


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
    found: Tensor = raw if isinstance(raw, Tensor) else as_output(picked(raw, None, len(z)), z)
    fault = _fault(found, z, who)
    if fault:
        raise ModelError(fault)
    if found.dtype in WHOLE:
        return found.to(z.device, z.dtype)
    return found if found.device == z.device else found.to(z.device)


def _fault(raw: Tensor, z: Tensor, who: str) -> str:
    """Say what cannot be explained about a tensor; empty if nothing."""
    if raw.is_nested or raw.layout is not torch.strided:  # such tensors cannot tell their shape or type
        kind = "nested" if raw.is_nested else str(raw.layout).removeprefix("torch.").lstrip("_")
        return f"{who} must return a dense tensor, got a {kind} one: return its to_dense() or a padded tensor."
    if raw.is_meta:
        return f"{who} returned a tensor on the device meta, which holds no numbers: load its weights first."
    if raw.dtype == torch.bool:
        return f"{who} must return numbers, got torch.bool: return the scores that its decisions are made from."
    if raw.dtype not in NUMBERS:
        return f"{who} must return real numbers, got {raw.dtype}: convert its output to torch.float32."
    rows = len(z)
    matching = raw.ndim > 0 and raw.shape[0] == rows
    if matching and raw.numel() > 0:
        return ""
    least = "at least one number" if matching else "one row"
    shape = tuple(raw.shape)
    turned = not matching and z.ndim == 3 and (rows in shape[1:2] or shape[:1] == (z.shape[1],))
    hint = f"; pass {arg:predictor.layout=TBD} if it takes (time, batch, channel)" if turned else ""
    return f"{who} must return {least} per series: {rows} series gave shape {shape}{hint}."


FAILURES = (RuntimeError, ValueError, AssertionError, IndexError, TypeError)  # assertions by exported programs
OUTPUTS: tuple[Output, ...] = get_args(Output)
ELSEWHERE = re.compile(  # how torch calls tensors on two devices or in two precisions
    r"tensors to be on the same device|not at the same device|not on the expected device|same dtype"
    r"|expected scalar type|Input type \(.*\) and (weight|bias) type"
)
ARITY = re.compile(r"missing \d+ required|takes \d+ positional|takes from \d+ to")  # how Python counts arguments
CALLING = {  # what only calls a model
    *(__file__, nn_module.__file__),
    *(function.__code__.co_filename for function in (WithModules.forward, as_model)),
}
LONG = 100  # characters of what torch says that a sentence can carry
SIZES = re.compile(r"sizes?\b|shape|dimension|channels?\b|elements|\dD\b|values to unpack", re.IGNORECASE)
SPAN = 25  # steps that go through a model that resumes at once
WIDER = 4  # times as many series at once as of a model that needs all their steps
EVEN = 16  # matrix products treat all rows alike when their number is a multiple of this


def predict(model: Model, z: Tensor, output: str) -> Tensor:
    """Return the model's output for ``z``: (batch, class), or (batch, time, class) for one output per step."""
    return by_class(forward(model, z), output)


def apply_link(raw: Tensor, output: str) -> Tensor:
    """Turn a raw output into probabilities, or leave it as it is.

    ``"probability"`` is softmax over the columns, a sigmoid of a single one, ``"sigmoid"`` that of each by itself.
    """
    if output == "raw":
        return raw
    return raw.sigmoid() if output == "sigmoid" or raw.shape[-1] == 1 else raw.softmax(-1)


def log_link(raw: Tensor, output: str) -> Tensor:
    """Return the logarithms of :func:`by_class`, from the logits where there are any.

    Examples
    --------
    >>> log_link(torch.tensor([[-200.0]]), "sigmoid")
    tensor([[-200.]])
    """
    if output == "raw":
        return raw.log()
    return logsigmoid(raw) if output == "sigmoid" else both_logits(raw, output).log_softmax(-1)


def by_class(raw: Tensor, output: str) -> Tensor:
    """Turn a raw output into one number per class; a single probability p means 1 - p and p.

    Examples
    --------
    >>> by_class(torch.tensor([[0.0], [-1.0986123]]), "probability")
    tensor([[0.5000, 0.5000],
            [0.7500, 0.2500]])
    >>> by_class(torch.tensor([[3.0]]), "raw")
    tensor([[3.]])
    """
    linked = apply_link(raw, output)
    return torch.cat([1 - linked, linked], -1) if one_logit(raw.shape[-1], output) else linked


def both_logits(raw: Tensor, output: str) -> Tensor:
    """Return a raw output with one logit per class: a single one, l, is worth the two (0, l)."""
    return torch.cat([torch.zeros_like(raw), raw], -1) if one_logit(raw.shape[-1], output) else raw


def one_logit(columns: int, output: str) -> bool:
    """Tell whether the model returns a single column that stands for two classes."""
    return columns == 1 and output == "probability"


def class_count(columns: int, output: str) -> int:
    """Return how many classes, or raw outputs, a model with so many columns has."""
    return 2 if one_logit(columns, output) else columns


def default_class(raw: Tensor, output: str) -> Tensor:
    """Return the class that is explained by default: the predicted one, and class 1 of a single logit."""
    chosen = raw.argmax(-1)
    return torch.ones_like(chosen) if one_logit(raw.shape[-1], output) else chosen


# How many series a model is shown, for callers that have a budget


class PassesError(Exception):
    """The model would be shown more series than the caller allowed."""


class PassCount:
    """Series that the model was shown, and the most that it may be."""

    def __init__(self, most: float = math.inf) -> None:
        self.passes, self.most = 0, most

    def add(self, series: int) -> None:
        """Count some more, unless they would be too many."""
        if self.passes + series > self.most:
            raise PassesError
        self.passes += series


_counted: ContextVar[PassCount | None] = ContextVar("counted", default=None)


@contextmanager
def counting(count: PassCount) -> Iterator[None]:
    """Count the series that any model is shown inside the block; PassesError before they are too many.

    Passes that a GPU repeats from a recording are not seen.
    """
    token = _counted.set(count)
    try:
        yield
    finally:
        _counted.reset(token)


def forward(model: Model, z: Tensor, shape: Sequence[int] | None = None) -> Tensor:
    """Call the model and check that it returned one row per series.

    It gets a copy, which it may work on in place, and never the memory of the caller. Where it cannot take series,
    one sentence says so, with the ``shape`` of all of them, if that is given.
    """
    count = _counted.get()
    if count is not None:
        count.add(len(z))
    try:
        with running():
            raw = numbers_of(as_model(model)(z.clone()), z)
    except FAILURES as error:
        message = _failed(error, z) or (None if shape is None else misfit(error, shape))
        if message is None:
            raise
        raise ModelError(message) from error
    return raw[:, None] if raw.ndim == 1 else raw


def _failed(error: Exception, z: Tensor) -> str | None:
    """Return one sentence for a model that cannot be called with series ``z`` alone, or computes elsewhere."""
    if isinstance(error, RuntimeError):
        return _plain(str(error), z)
    if not isinstance(error, TypeError) or not ARITY.search(str(error)) or _deep(error):
        return None
    return (
        f"The model cannot be called with series alone ({_first(str(error))}): pass the rest as "
        f"{arg:series.fixed}, or with the series, by name, what is to be explained too."
    )


def _deep(error: Exception) -> bool:
    """Tell whether an error comes from inside a model, rather than from the call of it."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and frame.tb_frame.f_code.co_filename not in CALLING


def _plain(said: str, z: Tensor) -> str | None:
    """Return one sentence for what torch says of a model that leaves torch or computes elsewhere; else None."""
    if "numpy() on Tensor that requires grad" in said:
        return (
            "The model turns its input into a numpy array, which has no gradient: use a method that needs none, "
            "such as occlusion or lime."
        )
    if ELSEWHERE.search(said):
        return (
            f"The model got series in {z.dtype} on {z.device} and computes elsewhere or in another precision "
            f"({_first(said)}): if a function hides its module, pass {arg:predictor.modules=[module]}."
        )
    return None


def several_misfit(error: Exception, given: str) -> str | None:
    """Return one sentence if a model failed because of its several inputs, which ``given`` tells; else None."""
    if isinstance(error, TypeError):
        if not (ARITY.search(str(error)) or "unexpected keyword" in str(error)) or _deep(error):
            return None
        return (
            f"The model cannot be called with {given} ({_first(str(error))}): call inputs and fixed inputs what "
            "its arguments are called."
        )
    if isinstance(error, TempogradError) or out_of_memory(error) or not SIZES.search(str(error)):
        return None
    return f"The model cannot take {given}: {_first(str(error))}."


def misfit(error: Exception, shape: Sequence[int]) -> str | None:
    r"""Return one sentence if a model failed because series (batch, time, channel) do not fit it.

    Whatever else goes wrong inside a model is for its author, who needs the error as it is: None.

    Examples
    --------
    >>> said = misfit(RuntimeError("Wrong size."), (5, 4, 9))
    >>> print(*said.split(": "), sep="\n")
    The model cannot take x of shape (5, 4, 9), read as (batch, time, channel)
    Wrong size; {arg:series.layout} is the order of the axes of x, {arg:predictor.layout} that of the model.
    """
    if isinstance(error, TempogradError | TypeError) or out_of_memory(error) or not SIZES.search(str(error)):
        return None
    return (
        f"The model cannot take x of shape {tuple(shape)}, read as (batch, time, channel): {_first(str(error))}; "
        f"{arg:series.layout} is the order of the axes of x, {arg:predictor.layout} that of the model."
    )


def _first(said: str) -> str:
    """Return the first line of what torch says, cut where it is long."""
    line = (said.strip().splitlines() or [""])[0].rstrip(".")
    return line if len(line) <= LONG else f"{line[: LONG - 1]}…"


@runtime_checkable
class Resumable(Protocol):
    r"""A module whose class promises that ``forward`` is ``resume`` from no state, which is all it remembers.

    After step :math:`t` such a model knows nothing of a series but its state :math:`h_t`, so

    .. math:: f(x_{0 \ldots T-1}) = f\big(x_{t \ldots T-1} \mid h_t(x_{0 \ldots t-1})\big)

    exactly. Series that differ from each other late only, such as one with another single cell replaced in each
    copy, share the states of their beginnings: half of the work on average. The steps go through the model a span
    at a time, which also keeps what it computes inside a processor's cache.
    """

    @property
    def resumable(self) -> bool:
        """Whether that is true of this very object, whose parts may have been exchanged."""

    def resume(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the output after more steps (rows, time, channel), and the state (rows, …) after them."""


def resumes(model: Model) -> TypeGuard[Resumable]:
    """Tell whether a model can go on from its state.

    The promise is that of one class: whoever changes what ``forward`` does, in a class derived from it or on the
    object, has to make it anew. Hooks on any part may want to see all steps at once.
    """
    if not isinstance(model, nn.Module) or "resume" not in type(model).__dict__ or model.training:
        return False
    hooked = any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    hooked = hooked or not undisturbed_by_others()
    return not hooked and "forward" not in model.__dict__ and bool(model.resumable)


def wider(batching: Batching, model: Model) -> Batching:
    """Let more series begin together; what goes through the model at once is then still less than their steps."""
    if batching.automatic and batching.device.type == "cpu" and resumes(model):
        batching.size *= WIDER
    return batching


def spans(time: int) -> list[slice]:
    """Cut the steps of a series.

    Examples
    --------
    >>> spans(60)
    [slice(0, 25, None), slice(25, 50, None), slice(50, 60, None)]
    """
    return [slice(first, min(first + SPAN, time)) for first in range(0, time, SPAN)]


def resumed(model: Model, z: Tensor, alike: Tensor | None = None) -> Model:
    """Return what runs the model on ``z``, (series, time, channel), without a gradient where nobody wants one.

    Series with the same number in column s of ``alike``, (series, spans), are equal from the first step to the end
    of span s.
    """
    if torch.is_grad_enabled() or z.device.type != "cpu" or not resumes(model):
        return model
    return partial(_along, model, alike=alike)


def _along(model: Resumable, z: Tensor, *, alike: Tensor | None) -> Tensor:
    outputs: list[Tensor] = []
    state, member = None, torch.arange(len(z))  # of which group each series is
    for column, span in enumerate(spans(z.shape[1])):
        if alike is None:
            raw, state = model.resume(z[:, span], state)
            outputs.append(raw)
            continue
        example, group = _groups(alike[:, column])
        raw, after = model.resume(z[example, span], None if state is None else state[member[example]])
        outputs.append(raw[group])
        state, member = after, group
    return torch.cat(outputs, 1) if outputs[-1].ndim == 3 else outputs[-1]


def _groups(label: Tensor) -> tuple[Tensor, Tensor]:
    """Return one series of each group, some of them again to make their number even, and the group of each."""
    kinds, group = torch.unique(label, return_inverse=True)
    example = torch.empty_like(kinds).scatter_(0, group, torch.arange(len(label)))
    more = -len(kinds) % EVEN if len(kinds) > 1 else 0
    return torch.cat([example, example[:1].expand(more)]), group


def nested(gone: Tensor, row: Tensor, order: Tensor | int = 0) -> Tensor:
    """Return the same number for states that lack the same cells up to the end of a span, (state, spans).

    Each state lacks the cells ``gone``, (state, time, channel), of series ``row``, (state,). States of one series
    and one ``order`` of removal, (state,), lack sets that contain each other. So do the parts of these sets up to
    a step, and how many cells lie in such a part tells which it is.
    """
    ends = torch.tensor([span.stop - 1 for span in spans(gone.shape[1])], device=gone.device)
    count = gone.sum(2).cumsum(1)[:, ends]
    order = torch.as_tensor(order, device=gone.device).expand(len(gone))[:, None]
    owner = torch.where(count > 0, order, 0) + row[:, None] * (int(order.max()) + 1)
    return owner * (gone[0].numel() + 1) + count


def select_target(
    outputs: Tensor, target: Tensor | Picker, z: Tensor | None = None, observed: Tensor | None = None
) -> Tensor:
    """Return the explained score of each series, (batch,), or of each of its steps, (batch, time).

    A function whose attribute ``takes_input`` is true also gets the series ``z`` that the outputs are of, and
    which of their cells were observed, (batch, time, channel) each.
    """
    if isinstance(target, Tensor):
        return outputs.gather(-1, target[..., None]).squeeze(-1)
    if getattr(target, "takes_input", False):
        if z is None or observed is None:
            raise InputError(
                "This method cannot explain a score that also depends on the series themselves: use timing, "
                "integrated_gradients, occlusion or lime."
            )
        score = target(outputs, z, observed)  # type: ignore[call-arg]  # as its attribute says
    else:
        score = target(outputs)
    if not isinstance(score, Tensor) or score.is_nested or score.shape != outputs.shape[:1]:
        raise InputError(
            f"target(output) must return one score per series, ({len(outputs)},), got {brief(score)}."
        )
    return numbers_of(score, outputs, "target(output)")


def resolve_target(
    target: Any, shape: tuple[int, ...], columns: int, output: str, axes: tuple[int, ...] = ()
) -> Tensor | Picker | None:
    """Complete a target to ``shape``, (series,) or (series, time); None means the predicted class.

    ``axes`` is the shape of one output where it has several axes, whose cells are then the columns.
    """
    if target is None or callable(target):
        return target  # type: ignore[no-any-return]  # callable() does not narrow Any
    if isinstance(target, (bool, np.bool_)):
        raise InputError("target must be an integer, a tensor or a function, got a bool.")
    if _is_address(target, shape, axes):
        target = flat_column(target, axes or (class_count(columns, output),))
    tensor = validation.check_numbers(target, "target").cpu()
    if tensor.is_floating_point() or tensor.dtype == torch.bool:
        raise InputError(f"target must hold integers, got {tensor.dtype}.")
    if tensor.ndim == 1 and len(shape) == 2:
        tensor = tensor[:, None]
    if tensor.ndim not in {0, len(shape)} or (tensor.ndim and len(tensor) != shape[0]):
        raise InputError(f"target must be an integer or have shape {shape}, got {tuple(tensor.shape)}.")
    classes = class_count(columns, output)
    if bool(((tensor < 0) | (tensor >= classes)).any()):
        worst = int(tensor.max()) if int(tensor.max()) >= classes else int(tensor.min())
        raise InputError(f"target {worst} is out of range: {_range(columns, output)}.")
    try:
        return tensor.to(torch.int64).expand(shape)
    except RuntimeError:
        raise InputError(f"target must have shape {shape}, got {tuple(tensor.shape)}.") from None


def _is_address(target: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Tell an address, which is a tuple of integers, from targets of several series, which are a list."""
    if axes:
        return isinstance(target, (tuple, int, np.integer))
    whole = isinstance(target, tuple) and all(isinstance(part, (int, np.integer)) for part in target)
    return whole and len(shape) == 1


def flat_column(address: Any, axes: tuple[int, ...]) -> int:
    """Return the column of an address into an output with these axes.

    Examples
    --------
    >>> flat_column((3, 1), (24, 7))
    22
    >>> flat_column((24, 1), (24, 7))
    Traceback (most recent call last):
    ...
    tempograd.core.errors.InputError: target (24, 1) is out of range: index 0 of it must lie in 0 … 23.
    """
    wide = [place for place, size in enumerate(axes) if size > 1] or [0]
    if not isinstance(address, tuple) and len(wide) == 1:  # all other axes have one place
        address = tuple(int(address) if place == wide[0] else 0 for place in range(len(axes)))
    example = tuple(min(size - 1, 3 - place) if place < 3 else 0 for place, size in enumerate(axes))
    if not isinstance(address, tuple) or len(address) != len(axes):
        count = f"{len(axes)} axes, {axes}" if len(axes) > 1 else f"one axis, {axes}"
        listed = "" if len(axes) > 1 else ", or a list for one target of each series"
        raise InputError(
            f"target {brief(address)} is no address of an output with {count}: pass one index for each, such as "
            f"{example}{listed}."
        )
    found = 0
    for place, (part, size) in enumerate(zip(address, axes, strict=True)):
        if isinstance(part, (bool, np.bool_)) or not isinstance(part, (int, np.integer)):
            raise InputError(f"target {brief(address)} must hold integers, got {brief(part)}.")
        if not 0 <= part < size:
            raise InputError(
                f"target {brief(address)} is out of range: index {place} of it must lie in 0 … {size - 1}."
            )
        found = found * size + int(part)
    return found


def _range(columns: int, output: str) -> str:
    if one_logit(columns, output):
        return "the model's only output is the logit of class 1, and class 0 is its complement"
    if columns == 1:
        return f"the model has one output, which as {arg:question.output=raw} is target 0"
    return f"the model has {columns} outputs, 0 to {columns - 1}"


def resolve_steps(
    steps: Any, lengths: Tensor, raw: Tensor, shown: Sequence[int] | None = None
) -> Tensor | Literal["own"] | None:
    """Which steps are explained: a boolean (batch, time), ``"own"``, or None for one output per series.

    ``shown`` are the lengths that the model is shown series at, after which it has no output.
    """
    if raw.ndim != 3:
        if steps is not None:
            raise InputError(
                f"{arg:question.steps} is for models with one output per time step; this one has one per series."
            )
        return None
    if isinstance(steps, str):
        if steps != "own":
            raise InputError(f"steps must be None, 'own', an integer or a list of integers, got {brief(steps)}.")
        return "own"
    count, time = len(lengths), raw.shape[1]
    before_padding = torch.arange(time) < lengths[:, None]
    if steps is None:
        return before_padding
    tensor = validation.check_numbers(steps, "steps").cpu()
    if tensor.dtype == torch.bool and tensor.shape in {(time,), (count, time)}:
        return _within(tensor.expand(count, time), shown)
    if tensor.is_floating_point() or tensor.dtype == torch.bool or tensor.ndim > 1 or tensor.numel() == 0:
        raise InputError(f"steps must be an integer or a list of integers below {time}, got {brief(steps)}.")
    if bool(((tensor < 0) | (tensor >= time)).any()):
        raise InputError(f"steps must lie in 0 … {time - 1}, got {brief(steps)}.")
    chosen = torch.zeros(time, dtype=torch.bool)
    chosen[tensor.long()] = True
    return _within(chosen.expand(count, time), shown)


def _within(chosen: Tensor, shown: Sequence[int] | None) -> Tensor:
    """Refuse steps after the end of a series, of which the model says nothing."""
    after = torch.arange(chosen.shape[1]) >= torch.tensor(shown or [chosen.shape[1]])[:, None]
    missing = (chosen & after).nonzero()
    if len(missing):
        row, step = missing[0].tolist()
        raise InputError(
            f"{arg:question.steps} chooses step {step} of x[{row}], which has {(shown or [])[row]} steps: choose "
            "steps that all series have, or pass a boolean array (series, time) with those of each."
        )
    return chosen
