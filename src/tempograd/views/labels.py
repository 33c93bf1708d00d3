"""What things are called: explanations by name, methods, channels, steps and classes, in words for people."""

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.engine import Model, asked, one_logit, place, quiet
from tempograd.errors import InputError, brief
from tempograd.explanation.core import Explanation, require

# What plots and reports share: explanations by name, as plain arrays, and the size of the full colour.

Explanations = Explanation | Sequence[Explanation] | Mapping[str, Explanation]
FULL = 0.98  # share of the observed cells that stay below the full colour


def settings(explanation: Explanation) -> dict[str, Any]:
    """Return the parameters that made a difference: no empty list, and how to stop only where that was asked."""
    stops = explanation.parameters.get("tolerance") is not None
    idle = () if stops else ("tolerance", "max_points", "until")
    return {name: value for name, value in explanation.parameters.items() if value != [] and name not in idle}


def labelled(explanations: Explanations) -> dict[str, Explanation]:
    """Give every explanation a distinct name, by default its method's, and check that they fit together."""
    if isinstance(explanations, Explanation):
        explanations = [explanations]
    if isinstance(explanations, (str, bytes)) or not isinstance(explanations, Iterable):
        require(explanations)
    parts = explanations if isinstance(explanations, Mapping) else list(explanations)
    for part in parts.values() if isinstance(parts, Mapping) else parts:
        require(part)
    named = {str(k): v for k, v in parts.items()} if isinstance(parts, Mapping) else _names(parts)
    if not named:
        raise InputError("There is nothing to show: pass at least one explanation.")
    first = next(iter(named.values()))
    for label, other in named.items():
        if other.values.shape != first.values.shape or not torch.equal(other.ids, first.ids):
            raise InputError(
                f"All explanations must be of the same series, but {brief(label)} has shape "
                f"{tuple(other.values.shape)} with ids {_range(other.ids)} instead of "
                f"{tuple(first.values.shape)} with ids {_range(first.ids)}."
            )
    return named


def _names(explanations: Sequence[Explanation]) -> dict[str, Explanation]:
    named: dict[str, Explanation] = {}
    for explanation in explanations:
        label, count = explanation.method, 1
        while label in named:
            count += 1
            label = f"{explanation.method} {count}"
        named[label] = explanation
    return named


def _range(ids: Tensor) -> str:
    return f"{int(ids[0])} … {int(ids[-1])}" if len(ids) else "of none"


def channel_names(explanation: Explanation) -> tuple[str, ...]:
    """Return the channels' names, or their numbers."""
    return explanation.channels or tuple(f"channel {d}" for d in range(explanation.values.shape[2]))


def sizes(explanation: Explanation) -> Tensor:
    """Return what counts wherever cells are added up, as for the order of channels, (series, time, channel).

    That is the size of a signed score. FIT and WinIT give scores below 0 to values that matter less than nothing:
    these count as nothing, else a channel that does not matter at all could come first.
    """
    return explanation.strength.clamp(min=0)


def explained_class(explanation: Explanation, columns: int) -> Tensor | None:
    """Return the target, given with how many columns the model answers.

    Explanations that do not know ``n_outputs`` are of earlier versions, which called a single probability 0: it is
    that of class 1 of two.
    """
    known = explanation.n_outputs is not None or not one_logit(columns, explanation.output)
    return explanation.target if known or explanation.target is None else explanation.target + 1


def completed(explanation: Explanation, model: Model, x: Tensor) -> Explanation:
    """Ask the model how many outputs it has if the explanation, of an earlier version, does not know."""
    if explanation.n_outputs is not None:
        return explanation
    with quiet(model), torch.no_grad():
        columns = asked(model, x[:1].to(*place(model, x)), shape=x.shape).shape[-1]
    return replace(explanation, target=explained_class(explanation, columns), columns=columns)


def tells_class(explanation: Explanation) -> bool:
    """Tell whether targets are classes for certain.

    In an explanation that does not know how many outputs the model has, 0 may be the first class or a single
    probability, which is that of class 1.
    """
    if explanation.output != "probability" or explanation.target is None:
        return False
    return explanation.n_outputs is not None or bool((explanation.target > 0).any())


def check_classes(explanation: Explanation, classes: Sequence[str] | None) -> None:
    """Refuse another number of names than there are outputs, where that number is known."""
    count = explanation.n_outputs
    if classes is not None and not isinstance(classes, Sized):
        raise InputError(f"classes must be a list of names, got {brief(classes)}.")
    if classes is not None and count is not None and len(classes) != count:
        raise InputError(f"classes must hold one name per output of the model, {count}, got {len(classes)}.")


def plain(tensor: Tensor) -> NDArray[np.float32]:
    """Bring a tensor to the CPU as a contiguous float32 array."""
    return np.ascontiguousarray(tensor.detach().cpu().float().numpy())


def limit(values: NDArray[np.floating[Any]], observed: NDArray[np.bool_]) -> float:
    """Return the magnitude that gets the full colour: 98 % of the observed cells are at or below it.

    A single extreme cell would otherwise leave all others white. It is at least a quarter of the largest size, so
    that where few cells matter the many others are not drawn as if they did.

    Examples
    --------
    >>> values = np.array([0.0, 1.0, -2.0, 50.0], dtype=np.float32)
    >>> limit(values, np.array([True, True, True, False]))
    2.0
    """
    size = np.abs(values[observed])
    if not len(size):
        return 0.0
    return max(float(np.quantile(size, FULL, method="higher")), float(size.max()) / 4)


# Words and numbers as they stand in pictures.

LONGEST = 28  # letters of a name


def name(label: str, longest: int = LONGEST) -> str:
    r"""Put a name on one line and cut it where it is too long.

    Examples
    --------
    >>> name("heart\nrate"), name("a" * 40, 6)
    ('heart rate', 'aaaaa…')
    """
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in label).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def method(label: str) -> str:
    """Write the name of a method without underscores."""
    return name(label.replace("_", " "))


def class_name(index: int, classes: Sequence[str] | None) -> str:
    """Call a class by its name, or by its number where it has none.

    Examples
    --------
    >>> class_name(1, ("survived", "died")), class_name(1, None)
    ('“died”', 'class 1')
    """
    if classes is None or index >= len(classes):
        return f"class {index}"
    return f"“{name(str(classes[index]))}”"
