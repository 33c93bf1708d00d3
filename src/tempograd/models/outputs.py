"""What a model may return: one row of real numbers per series."""

from typing import Any

import torch
from torch import Tensor

from tempograd.errors import ModelError

WHOLE = {
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
}
NUMBERS = WHOLE | {torch.float16, torch.bfloat16, torch.float32, torch.float64}


def numbers_of(answer: Any, z: Tensor) -> Tensor:
    """Return a model's answer to series ``z`` as real numbers beside them, or say what is wrong with it.

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
            f"The model must return a tensor, got {type(answer).__name__}: "
            "wrap it in a function that returns the tensor to be explained."
        )
    fault = _fault(answer, z.shape[0])
    if fault:
        raise ModelError(fault)
    if answer.dtype in WHOLE:
        return answer.to(z.device, z.dtype)
    return answer if answer.device == z.device else answer.to(z.device)


def _fault(answer: Tensor, rows: int) -> str:
    """Say what cannot be explained about a tensor; empty if nothing."""
    if answer.is_nested or answer.layout is not torch.strided:  # such tensors cannot tell their shape or type
        kind = "nested" if answer.is_nested else str(answer.layout).removeprefix("torch.").lstrip("_")
        return f"The model must return a dense tensor, got a {kind} one: return its to_dense() or a padded tensor."
    if answer.is_meta:
        return "The model returned a tensor on the device meta, which holds no numbers: load its weights first."
    if answer.dtype == torch.bool:
        return "The model must return numbers, got torch.bool: return the scores that its decisions are made from."
    if answer.dtype not in NUMBERS:
        return f"The model must return real numbers, got {answer.dtype}: convert its output to torch.float32."
    matching = answer.ndim > 0 and answer.shape[0] == rows
    if matching and answer.numel() > 0:
        return ""
    least = "at least one number" if matching else "one row"
    return f"The model must return {least} per series: {rows} series gave shape {tuple(answer.shape)}."
