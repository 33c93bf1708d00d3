"""Input checks at the door, one function each: what came, what was expected, what to do."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tempograd.errors import InputError, SettingError

ROWS = 4096  # series looked at at once, so that a memory-mapped array is never read whole


def series(x: Any, layout: str = "BTD", name: str = "x") -> Tensor:
    """Return ``x`` as a finite float tensor (batch, time, channel), without copying it."""
    tensor = as_tensor(x, name)
    if tensor.ndim != 3:
        raise InputError(
            f"{name} must be (batch, time, channel), got {tuple(tensor.shape)}: "
            f"write {name}[None] for a single series, {name}[..., None] for a single channel."
        )
    if layout not in {"BTD", "BDT"}:
        raise InputError(f"layout must be 'BTD' or 'BDT', got {layout!r}.")
    if tensor.numel() == 0:
        raise InputError(f"{name} is empty, its shape is {tuple(tensor.shape)}: pass at least one series.")
    if not tensor.is_floating_point():
        raise InputError(f"{name} must hold floating-point numbers, got {tensor.dtype}: write {name}.float().")
    for start in range(0, len(tensor), ROWS):
        rows = tensor[start : start + ROWS]
        # a sum is much faster to compute, and only one that is not finite needs a second look
        if not math.isfinite(rows.sum()) and not bool(rows.isfinite().all()):
            raise InputError(
                f"{name} holds NaN or infinity: put a number there, 0 say, and pass mask= with 0 for those cells; "
                "cells that mask= leaves out must hold a number too."
            )
    return tensor.transpose(1, 2) if layout == "BDT" else tensor


def as_tensor(x: Any, name: str) -> Tensor:
    """Wrap an array without copying it; a read-only memory map is fine, since nothing writes to it."""
    refuse_masked(x, name)
    if isinstance(x, Tensor):
        return x.detach()
    if isinstance(x, np.ndarray):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writ")
            return torch.from_numpy(x)
    raise InputError(f"{name} must be a tensor or a numpy array, got {type(x).__name__}.")


def refuse_masked(value: Any, name: str) -> None:
    """Refuse arrays that carry a mask of their own, which would be lost."""
    parts = value if isinstance(value, (list, tuple)) else (value,)
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        raise InputError(f"{name} is a numpy masked array, whose mask would be lost: {_unmask(name)}.")
    if any(type(part).__name__ == "MaskedTensor" for part in parts):
        raise InputError(
            f"{name} is a torch MaskedTensor, whose mask would be lost: pass what its method "
            f"to_tensor(0) returns{', and mask=x.get_mask()' if name == 'x' else ''}."
        )


def _unmask(name: str) -> str:
    if name == "x":
        return "pass x.filled(0), and mask=~np.ma.getmaskarray(x)"
    return "pass what its method filled(…) returns, with a number for the masked cells"


def identifiers(ids: Any, count: int) -> Tensor:
    """Distinct integers, one per series; 0 … count-1 by default."""
    if ids is None:
        return torch.arange(count)
    try:
        tensor = numbers(ids, "ids").cpu()
    except InputError:
        text = next((name for name in ids if isinstance(name, str)), None) if np.iterable(ids) else None
        if text is None:
            raise
        raise InputError(f'ids must hold whole numbers, got "{text}"; pass text names as names=.') from None
    if tensor.is_floating_point() or tensor.dtype == torch.bool:
        raise InputError(f"ids must be integers, got {tensor.dtype}.")
    if tensor.shape != (count,):
        raise InputError(f"ids must name each of the {count} series once, got shape {tuple(tensor.shape)}.")
    tensor = tensor.to(torch.int64)
    ordered = tensor.sort().values
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise InputError(f"ids must be distinct, but {int(twice[0])} occurs more than once.")
    return tensor


def observed(mask: Any, x: Tensor) -> Tensor | None:
    """Boolean tensor like ``x``, and beside it, True where a value was measured."""
    if mask is None:
        return None
    tensor = with_sign(as_tensor(mask, "mask"), "mask")
    if tensor.shape != x.shape:
        raise InputError(f"mask must have the shape of x, {tuple(x.shape)}, got {tuple(tensor.shape)}.")
    if tensor.dtype != torch.bool and bool(((tensor != 0) & (tensor != 1)).any()):
        raise InputError("mask must hold 1 (observed) and 0 (missing) only.")
    return tensor.bool().to(x.device)


def fill(value: Any, x: Tensor, mask: Tensor | None, name: str) -> Tensor:
    """Return what "absent" means, like ``x``, as a view where it can be."""
    if value is None or (isinstance(value, str) and value == "zero"):
        return x.new_zeros(1).expand_as(x)
    if isinstance(value, str) and value == "average":
        return average(x, mask).expand_as(x)
    if isinstance(value, str):
        raise InputError(f"{name} must be 'zero', 'average' or a tensor, got {value!r}.")
    tensor = numbers(value, name)
    if tensor.dtype == torch.bool:
        raise InputError(f"{name} must hold numbers, got {tensor.dtype}.")
    tensor = tensor.to(x)
    if not bool(tensor.isfinite().all()):
        raise InputError(f"{name} holds NaN or infinity.")
    try:
        return tensor.expand_as(x)
    except RuntimeError:
        raise InputError(f"{name} must broadcast to x, {tuple(x.shape)}, got {tuple(tensor.shape)}.") from None


def filled_with(cells: Tensor, x: Tensor | None, mask: Tensor | None) -> str:
    """Recognise what :func:`fill` returned: ``"zero"``, ``"average"``, or ``"own"`` for any other numbers.

    Without the series an average cannot be recognised.

    Examples
    --------
    >>> x = torch.tensor([[[1.0], [3.0]]])
    >>> [filled_with(fill(value, x, None, "baseline"), x, None) for value in (None, "average", 1.0)]
    ['zero', 'average', 'own']
    """
    few = cells
    for axis, stride in enumerate(cells.stride()):
        few = few.narrow(axis, 0, 1) if stride == 0 else few
    if not bool(few.any()):
        return "zero"
    if x is None or not torch.equal(cells[:ROWS], cells[:ROWS, :1].expand_as(cells[:ROWS])):
        return "own"
    for start in range(0, len(x), ROWS):
        rows = slice(start, start + ROWS)
        means = average(x[rows], None if mask is None else mask[rows])
        if not torch.allclose(cells[rows].to(means), means.expand_as(x[rows])):  # sums may have another order
            return "own"
    return "average"


def average(x: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over time of each channel's observed values, (batch, 1, channel); 0 where there is none."""
    if mask is None:
        return x.mean(1, keepdim=True)
    return (x * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)


def lengths(mask: Tensor | None, x: Tensor) -> Tensor:
    """Return the steps before the padding, (batch,): trailing steps with no observed channel do not count."""
    batch, time, _ = x.shape
    if mask is None:
        return torch.full((batch,), time)
    clock = torch.arange(1, time + 1, device=mask.device)
    return (mask.any(-1) * clock).amax(1).cpu()


def numbers(value: Any, name: str) -> Tensor:
    """Return real numbers as a tensor; integers without a sign become int64, where they fit."""
    refuse_masked(value, name)
    try:
        tensor = torch.as_tensor(value).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        if "verflow" in str(error):
            raise InputError(f"{name} holds an integer beyond {2**63 - 1}, where int64 ends.") from None
        raise InputError(f"{name} must hold numbers, got {value!r}.") from None
    if tensor.is_complex():
        raise InputError(f"{name} must hold real numbers, got {tensor.dtype}.")
    return with_sign(tensor, name)


def with_sign(tensor: Tensor, name: str) -> Tensor:
    """Return unsigned integers as int64, and anything else as it is: beyond 2^63 they would turn negative.

    Examples
    --------
    >>> with_sign(torch.tensor([1, 2], dtype=torch.uint64), "ids")
    tensor([1, 2])
    """
    if tensor.dtype not in {torch.uint16, torch.uint32, torch.uint64}:
        return tensor
    signed = tensor.to(torch.int64)
    if bool((signed < 0).any()):
        largest = int(signed[signed < 0].max()) + 2**64
        raise InputError(
            f"{name} holds {largest}, but integers end at {2**63 - 1} (int64): pass smaller ones"
            f"{', or the numbers as text in names=' if name == 'ids' else ''}."
        )
    return signed


def real(value: Any, name: str) -> float:
    """Return a real number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InputError(f"{name} must be a number, got {value!r}.")
    return float(value)


def positive(**values: Any) -> None:
    """Refuse hyper-parameters that are not above 0."""
    for name, value in values.items():
        if not real(value, name) > 0:
            raise SettingError(f"{name} must be above 0, got {value!r}.")


def not_negative(**values: Any) -> None:
    """Refuse hyper-parameters below 0."""
    for name, value in values.items():
        if not real(value, name) >= 0:
            raise SettingError(f"{name} must not be negative, got {value!r}.")


def whole(value: Any, name: str, least: int) -> int:
    """Return an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(f"{name} must be an integer, got {value!r}.")
    if value < least:
        raise InputError(f"{name} must be at least {least}, got {value}.")
    return int(value)


def names(labels: Sequence[str] | None, count: int, what: str) -> tuple[str, ...] | None:
    """Return one text per channel or step."""
    if labels is None:
        return None
    if len(labels) != count:
        raise InputError(f"{what} must have {count} entries, got {len(labels)}.")
    return tuple(str(label) for label in labels)
