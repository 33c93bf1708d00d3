"""The arguments of a captum call, checked and completed, and the output that its target selects."""

from typing import Any

import torch
from torch import Tensor

from tempograd import checks
from tempograd.brief import brief
from tempograd.errors import InputError


def inputs_of(inputs: Any) -> tuple[Tensor, ...]:
    """Return the inputs as a tuple of finite tensors with the same rows, a series among them."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    tensors = [checks.as_tensor(x, "inputs") if isinstance(x, Tensor) else x for x in given]
    for number, x in enumerate(tensors):
        if not isinstance(x, Tensor) or not x.is_floating_point():
            kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise InputError(
                f"inputs must be a floating-point tensor or a tuple of them, input {number} is {kind}: what is "
                "not to be explained goes into additional_forward_args."
            )
        if x.ndim == 0 or x.numel() == 0 or len(x) != len(tensors[0]) or not bool(x.isfinite().all()):
            raise InputError(
                f"Each input must hold finite numbers for the same rows: input {number}, {tuple(x.shape)}, has "
                f"other rows than the first, {tuple(tensors[0].shape)}, is empty or holds NaN or infinity."
            )
    if not any(x.ndim == 3 for x in tensors):
        shapes = ", ".join(str(tuple(x.shape)) for x in tensors)
        raise InputError(f"TIMING needs an input of shape (batch, time, channel), got {shapes or 'no input'}.")
    return tuple(tensors)


def baselines_of(baselines: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return a baseline like each input, zero by default."""
    given = baselines if isinstance(baselines, tuple) else (baselines,)
    if baselines is None:
        given = (None,) * len(inputs)
    if len(given) != len(inputs) or any(isinstance(each, str) for each in given):
        raise InputError(
            f"baselines must be None or one number or tensor for each input, {len(inputs)} in all (several in a "
            f"tuple), got {', '.join(type(each).__name__ for each in given)}."
        )
    return tuple(checks.fill(each, x, None, "baselines") for each, x in zip(given, inputs, strict=True))


def target_of(target: Any, batch: int) -> Tensor | None:
    """Return indices (batch or 1, axes of the output) on the CPU."""
    if target is None:
        return None
    found = checks.numbers(target, "target").cpu()
    if isinstance(target, tuple) or found.numel() == 1:
        found = found.reshape(1, -1)
    elif found.ndim == 1:
        found = found[:, None]
    if found.is_floating_point() or found.dtype == torch.bool or found.ndim != 2 or len(found) not in {1, batch}:
        raise InputError(
            f"target must be an integer, a tuple of them, or one of these for each of the {batch} rows, got "
            f"{brief(target)}."
        )
    return found.long()


def extra_of(arguments: Any) -> tuple[Any, ...]:
    """Return what the model gets after its inputs."""
    if arguments is None:
        return ()
    return arguments if isinstance(arguments, tuple) else (arguments,)


def select(answer: Tensor, target: Tensor | None) -> Tensor:
    """Return the selected output of each row, (rows,)."""
    shape = tuple(answer.shape[1:])
    if target is None:
        if answer[0].numel() != 1:
            raise InputError(f"The model returns {shape} numbers for each row: pass target= to select one.")
        return answer.flatten()
    if target.shape[1] != len(shape):
        raise InputError(
            f"The model returns {shape} numbers for each row, but target has {target.shape[1]} indices: pass "
            f"{len(shape)}."
        )
    sizes = torch.tensor(shape)
    outside = (target < -sizes) | (target >= sizes)
    if bool(outside.any()):
        first = target[outside.any(1)][0].tolist()
        raise InputError(f"target {first} is out of range: the model returns {shape} numbers for each row.")
    rows = torch.arange(len(answer), device=answer.device)
    return answer[(rows, *target.to(answer.device).unbind(1))]
