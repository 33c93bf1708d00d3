"""The targets of an explanation: what they are called, and which of several is meant."""

from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tempograd.core.errors import InputError, brief, warn

if TYPE_CHECKING:
    from tempograd.explanation.core import Explanation

SHOWN = 8  # targets that a sentence names


def every(explanation: "Explanation") -> list["Explanation"]:
    """Return the explanation of each target by itself."""
    first = replace(explanation, siblings=()) if explanation.siblings else explanation
    return [first, *explanation.siblings]


def number(explanation: "Explanation") -> int | None:
    """Return the one output that was explained of all series, as a number; None if there is no such one."""
    target = explanation.target
    if target is None or target.numel() == 0:
        return None
    first = int(target.flatten()[0])
    return first if bool((target == first).all()) else None


def address(explanation: "Explanation") -> tuple[int, ...] | None:
    """Return the same as a place in an output with several axes."""
    place, shape = number(explanation), explanation.output_shape
    if place is None or not shape:
        return None
    return tuple(int(part) for part in np.unravel_index(place, shape))


def called(explanation: "Explanation") -> int | tuple[int, ...] | str:
    """Return what was explained: the name of an output, its number, its address, or words.

    Without siblings this is about one target.
    """
    place, classes = number(explanation), explanation.classes
    if explanation.target is None or place is None:
        return explanation.target_text or (
            "a score of your own" if explanation.target is None else "one output per series"
        )
    if classes is not None and place < len(classes):
        return classes[place]
    where = address(explanation)
    return place if where is None or len(where) < 2 else where


def target_list(explanation: "Explanation") -> str:
    """Return the names of all targets as a part of a sentence, the first few of many."""
    names = [str(called(each)) for each in every(explanation)]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def find(explanation: "Explanation", target: Any) -> "Explanation":
    """Return the explanation of one target, given as it was asked for, or by its position among them."""
    parts = every(explanation)
    for part in parts:
        if _is(part, target):
            return part
    place = isinstance(target, Integral) and not isinstance(target, bool)
    if place and len(parts) > 1 and 0 <= int(target) < len(parts):
        found = parts[int(target)]
        warn(f"No target is {int(target)}: this is the one at position {int(target)}, {called(found)}.")
        return found
    raise InputError(
        f"There is no target {brief(target)}: the explanation is of {target_list(explanation)}, pass one of them."
    )


def _is(part: "Explanation", target: Any) -> bool:
    """Tell whether an explanation is about a target, by name, address, number, function or numbers per series."""
    if callable(target):
        return part.picker is not None and bool(part.picker == target)
    if isinstance(target, str):
        return target in (called(part), part.target_text)
    if isinstance(target, Tensor | np.ndarray):
        return part.target is not None and torch.equal(part.target.cpu(), torch.as_tensor(target).long())
    place = number(part)
    if isinstance(target, Integral):
        return place is not None and not isinstance(target, bool) and place == int(target)
    if not isinstance(target, tuple) or place is None:
        return False
    return target == (address(part) or (place,))
