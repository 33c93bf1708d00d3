"""Models that are functions of numpy arrays: how they are called, and where tensors would mean something else."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tempograd.errors import warn

ROUNDED = 1e-3  # of the largest answer: more apart is no rounding
UNLIKE = frozenset({"std", "var", "repeat"})  # methods of tensors and of arrays that mean two things


def to_array(z: Any) -> Any:
    """Return series as a numpy array of their own memory; what is no tensor stays as it is."""
    return z.detach().cpu().contiguous().numpy() if isinstance(z, Tensor) else z


def with_arrays(function: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Call a function with arrays in place of tensors."""
    return function(*map(to_array, given), **{name: to_array(value) for name, value in named.items()})


def warn_where_arrays_differ(function: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Say where a function that takes tensors and arrays gives them other numbers, by the first series alone.

    ``x.var(1)`` divides by n - 1 in torch and by n in numpy, and nobody can see which of them was meant. Functions
    that name nothing of the kind are not called for it.
    """
    both = _both_answers(function, given, named) if UNLIKE & names_in(function) else None
    if both is None:
        return
    tensor, array = both
    apart = (tensor - array).abs().nan_to_num(0.0)
    if not apart.numel() or apart.max() <= ROUNDED * max(tensor.abs().max(), array.abs().max()):
        return
    at = int(apart.argmax())
    warn(
        f"The model gives {float(array[at]):.3g} for a numpy array and {float(tensor[at]):.3g} for a tensor of "
        "the same series: std, var and repeat mean something else there. It is called with tensors: if it is "
        "written for arrays, pass tempograd.adapters.from_numpy(model)."
    )


def names_in(function: Any) -> set[str]:
    """Return the names that a function uses, and those of the functions of its module that it calls.

    Examples
    --------
    >>> spread = lambda x: x.std(1)
    >>> sorted(names_in(spread)), "std" in names_in(partial(spread))
    (['std'], True)
    """
    found, todo = dict[CodeType, set[str]](), [function]
    while todo:
        part = todo.pop()
        part = inspect.unwrap(part.func if isinstance(part, partial) else part)
        part = part if inspect.isroutine(part) else type(part).__call__  # an object that can be called
        part = getattr(part, "__func__", part)
        if not inspect.isfunction(part) or part.__code__ in found:  # what is compiled tells no names
            continue
        found[part.__code__] = names = _names_of(part.__code__)
        around = part.__globals__ | _enclosed(part)
        todo += [around[name] for name in names if inspect.isfunction(around.get(name))]
    return set[str]().union(*found.values())


def _enclosed(function: FunctionType) -> dict[str, Any]:
    """Return the variables around a function that it uses; one that has no value yet is left out."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            found[name] = cell.cell_contents
    return found


def _names_of(code: CodeType) -> set[str]:
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names) | set(code.co_freevars).union(*map(_names_of, inner))


def _both_answers(
    function: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Tensor, Tensor] | None:
    """Return what a function says of the first series as a tensor and as an array; None if that says nothing."""

    def first() -> tuple[list[Any], dict[str, Any]]:  # a copy each time: the function may write to it
        return [_first(part) for part in given], {name: _first(part) for name, part in named.items()}

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it says of arrays is of no interest if it is written for tensors
        try:
            array = with_arrays(function, *first())
            if not isinstance(array, (np.ndarray, np.generic)) or array.dtype.kind not in "fiub":
                return None
            calls = [first() for _ in range(2)]
            tensor, again = (function(*parts, **keywords) for parts, keywords in calls)
        except Exception:  # it is written for tensors
            return None
    if not isinstance(tensor, Tensor) or tensor.shape != array.shape or not torch.equal(tensor, again):
        return None  # a function that draws differs from itself
    return tensor.double().cpu().flatten(), torch.as_tensor(array, dtype=torch.float64).flatten()


def _first(part: Any) -> Any:
    return part[:1].detach().clone() if isinstance(part, Tensor) and part.ndim else part
