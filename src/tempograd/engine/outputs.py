"""What a model says: one row of real numbers per series, as probabilities or as it is, and the explained score."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules import module as nn_module

from tempograd._utils import validation
from tempograd.engine.batching import out_of_memory
from tempograd.engine.model import Model, Wrapped, running
from tempograd.errors import InputError, ModelError, TempogradError, brief
from tempograd.typing import Target as Target  # noqa: PLC0414  # also for those who look for it here

# What a model may return: one row of real numbers per series.

WHOLE = {
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
}
NUMBERS = WHOLE | {torch.float16, torch.bfloat16, torch.float32, torch.float64}


def numbers_of(answer: Any, z: Tensor, who: str = "The model") -> Tensor:
    """Return the answer of ``who`` to series ``z`` as real numbers beside them, or say what is wrong with it.

    Examples
    --------
    >>> numbers_of(torch.tensor([[1, 2]]), torch.zeros(1, 4, 3))
    tensor([[1., 2.]])
    >>> numbers_of({"logits": 0}, torch.zeros(1, 4, 3))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tempograd.errors.ModelError: The model must return a tensor, got dict: wrap it in a function that returns ...
    """
    if not isinstance(answer, Tensor):
        raise ModelError(
            f"{who} must return a tensor, got {type(answer).__name__}: "
            "wrap it in a function that returns the tensor to be explained."
        )
    fault = _fault(answer, z.shape[0], who)
    if fault:
        raise ModelError(fault)
    if answer.dtype in WHOLE:
        return answer.to(z.device, z.dtype)
    return answer if answer.device == z.device else answer.to(z.device)


def _fault(answer: Tensor, rows: int, who: str) -> str:
    """Say what cannot be explained about a tensor; empty if nothing."""
    if answer.is_nested or answer.layout is not torch.strided:  # such tensors cannot tell their shape or type
        kind = "nested" if answer.is_nested else str(answer.layout).removeprefix("torch.").lstrip("_")
        return f"{who} must return a dense tensor, got a {kind} one: return its to_dense() or a padded tensor."
    if answer.is_meta:
        return f"{who} returned a tensor on the device meta, which holds no numbers: load its weights first."
    if answer.dtype == torch.bool:
        return f"{who} must return numbers, got torch.bool: return the scores that its decisions are made from."
    if answer.dtype not in NUMBERS:
        return f"{who} must return real numbers, got {answer.dtype}: convert its output to torch.float32."
    matching = answer.ndim > 0 and answer.shape[0] == rows
    if matching and answer.numel() > 0:
        return ""
    least = "at least one number" if matching else "one row"
    return f"{who} must return {least} per series: {rows} series gave shape {tuple(answer.shape)}."


# What a model says: its output as probabilities or as it is, and the score that is explained.

OUTPUTS = ("probability", "raw")
WHERE_PER_STEP = "own where there is one output per step"  # what the released code does (B7)
LAST_STEP = "last where there is one output per step"  # what the released mask methods do on State (B6)
ELSEWHERE = re.compile(  # how torch calls tensors on two devices or in two precisions
    r"tensors to be on the same device|not at the same device|not on the expected device|same dtype"
    r"|expected scalar type|Input type \(.*\) and (weight|bias) type"
)
ARITY = re.compile(r"missing \d+ required|takes \d+ positional|takes from \d+ to")  # how Python counts arguments
CALLING = {__file__, nn_module.__file__, Wrapped.forward.__code__.co_filename}  # what only calls a model
LONG = 100  # characters of what torch says that a sentence can carry
SIZES = re.compile(r"sizes?\b|shape|dimension|channels?\b|elements|\dD\b", re.IGNORECASE)


def predict(model: Model, z: Tensor, output: str) -> Tensor:
    """Return the model's output for ``z``: (batch, class), or (batch, time, class) for one output per step."""
    return by_class(raw(model, z), output)


def link(answer: Tensor, output: str) -> Tensor:
    """Turn a raw answer into probabilities, or leave it as it is."""
    if output == "raw":
        return answer
    return answer.sigmoid() if answer.shape[-1] == 1 else answer.softmax(-1)


def by_class(answer: Tensor, output: str) -> Tensor:
    """Turn a raw answer into one output per class; a single probability p means 1 - p and p.

    Examples
    --------
    >>> by_class(torch.tensor([[0.0], [-1.0986123]]), "probability")
    tensor([[0.5000, 0.5000],
            [0.7500, 0.2500]])
    >>> by_class(torch.tensor([[3.0]]), "raw")
    tensor([[3.]])
    """
    linked = link(answer, output)
    return torch.cat([1 - linked, linked], -1) if one_logit(answer.shape[-1], output) else linked


def both_logits(answer: Tensor, output: str) -> Tensor:
    """Return a raw answer with one logit per class: a single one, l, is worth the two (0, l)."""
    return torch.cat([torch.zeros_like(answer), answer], -1) if one_logit(answer.shape[-1], output) else answer


def one_logit(columns: int, output: str) -> bool:
    """Tell whether the model answers with a single column that stands for two classes."""
    return columns == 1 and output == "probability"


def class_count(columns: int, output: str) -> int:
    """Return how many classes, or raw outputs, a model with so many columns has."""
    return 2 if one_logit(columns, output) else columns


def default_class(answer: Tensor, output: str) -> Tensor:
    """Return the class that is explained by default: the predicted one, and class 1 of a single logit."""
    chosen = answer.argmax(-1)
    return torch.ones_like(chosen) if one_logit(answer.shape[-1], output) else chosen


def raw(model: Model, z: Tensor) -> Tensor:
    """Call the model and check that it answered with one row per series.

    It gets a copy, which it may work on in place, and never the memory of the caller.
    """
    try:
        with running():
            answer = model(z.clone())
    except RuntimeError as error:
        message = _plain(str(error), z)
        if message is None:
            raise
        raise ModelError(message) from error
    except TypeError as error:
        if not ARITY.search(str(error)) or _deep(error):
            raise
        raise ModelError(
            f"The model cannot be called with series alone ({_first(str(error))}): pass a function of the series "
            "that gives it the rest."
        ) from error
    answer = numbers_of(answer, z)
    return answer[:, None] if answer.ndim == 1 else answer


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
            f"({_first(said)}): if a function hides its module, pass tempograd.wrap(module, call=function)."
        )
    return None


def misfit(error: Exception, shape: Sequence[int], layout: str, advice: Callable[[], str]) -> str | None:
    r"""Return one sentence if a model failed because series (batch, time, channel) do not fit it.

    Whatever else goes wrong inside a model is for its author, who needs the error as it is: None.

    Examples
    --------
    >>> said = misfit(RuntimeError("Wrong size."), (5, 4, 9), "BTD", lambda: "; pass layout='BDT'")
    >>> print(*said.split(": "), sep="\n")
    The model cannot take x of shape (5, 4, 9), read as (batch, time, channel)
    Wrong size; pass layout='BDT'.
    """
    if isinstance(error, TempogradError) or out_of_memory(error) or not SIZES.search(str(error)):
        return None
    batch, time, channels = shape
    given, names = (batch, time, channels), "(batch, time, channel)"
    if layout == "BDT":
        given, names = (batch, channels, time), "(batch, channel, time)"
    return f"The model cannot take x of shape {given}, read as {names}: {_first(str(error))}{advice()}."


def _first(said: str) -> str:
    """Return the first line of what torch says, cut where it is long."""
    line = (said.strip().splitlines() or [""])[0].rstrip(".")
    return line if len(line) <= LONG else f"{line[: LONG - 1]}…"


def pick(answer: Tensor, target: Target) -> Tensor:
    """Return the explained score of each series, (batch,), or of each of its steps, (batch, time)."""
    if isinstance(target, Tensor):
        return answer.gather(-1, target[..., None]).squeeze(-1)
    score = target(answer)
    if not isinstance(score, Tensor) or score.is_nested or score.shape != answer.shape[:1]:
        raise InputError(f"target(output) must return one score per series, ({len(answer)},), got {brief(score)}.")
    return numbers_of(score, answer, "target(output)")


def resolve_target(target: Any, shape: tuple[int, ...], columns: int, output: str) -> Target | None:
    """Complete a target to ``shape``, (series,) or (series, time); None means the predicted class."""
    if target is None or callable(target):
        return target  # type: ignore[no-any-return]  # callable() does not narrow Any
    if isinstance(target, (bool, np.bool_)):
        raise InputError("target must be an integer, a tensor or a function, got a bool.")
    tensor = validation.numbers(target, "target").cpu()
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


def _range(columns: int, output: str) -> str:
    if one_logit(columns, output):
        return "the model's only output is the logit of class 1, and class 0 is its complement"
    if columns == 1:
        return "the model has one output, which as output='raw' is target 0"
    return f"the model has {columns} outputs, 0 to {columns - 1}"


def resolve_steps(steps: Any, lengths: Tensor, answer: Tensor) -> Tensor | str | None:
    """Which steps are explained: a boolean (batch, time), ``"own"``, or None for one output per series."""
    if answer.ndim != 3:
        if steps is not None and not (isinstance(steps, str) and steps in {WHERE_PER_STEP, LAST_STEP}):
            raise InputError("steps= is for models with one output per time step; this one has one per series.")
        return None
    if isinstance(steps, str) and steps == LAST_STEP:
        return torch.arange(answer.shape[1]) == lengths[:, None] - 1
    if isinstance(steps, str):
        if steps not in {"own", WHERE_PER_STEP}:
            raise InputError(f"steps must be None, 'own', an integer or a list of integers, got {brief(steps)}.")
        return "own"
    count, time = len(lengths), answer.shape[1]
    before_padding = torch.arange(time) < lengths[:, None]
    if steps is None:
        return before_padding
    tensor = validation.numbers(steps, "steps").cpu()
    if tensor.dtype == torch.bool and tensor.shape in {(time,), (count, time)}:
        return tensor.expand(count, time)
    if tensor.is_floating_point() or tensor.dtype == torch.bool or tensor.ndim > 1 or tensor.numel() == 0:
        raise InputError(f"steps must be an integer or a list of integers below {time}, got {brief(steps)}.")
    if bool(((tensor < 0) | (tensor >= time)).any()):
        raise InputError(f"steps must lie in 0 … {time - 1}, got {brief(steps)}.")
    chosen = torch.zeros(time, dtype=torch.bool)
    chosen[tensor.long()] = True
    return chosen.expand(count, time)
