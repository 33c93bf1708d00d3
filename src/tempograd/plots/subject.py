"""What is shown: the series of an explanation and its scores, as plain numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tempograd._utils import validation
from tempograd.errors import InputError, brief, listed
from tempograd.explanation.core import Explanation, require
from tempograd.shown import plain

Floats = NDArray[np.floating[Any]]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Scores:
    """What one method says about one series.

    Attributes
    ----------
    method : str
    signed : bool
        Whether the sign tells the direction. Where it does not, scores below 0 are shown as 0.
    values : array of shape (time, channel)
    low, high : array of shape (time, channel), optional
        The 95 % interval of each value, infinite where fewer than two draws counted; None without Monte-Carlo
        error.
    """

    method: str
    signed: bool
    values: Floats
    low: Floats | None
    high: Floats | None

    @property
    def uncertain(self) -> Flags:
        """Tell where the interval includes 0; nowhere without an interval."""
        if self.low is None or self.high is None:
            return np.zeros(self.values.shape, dtype=np.bool_)
        return np.asarray((self.low <= 0) & (self.high >= 0))

    def channels(self, chosen: Sequence[int]) -> "Scores":
        """Keep some of the channels."""
        low, high = (None if side is None else side[:, list(chosen)] for side in (self.low, self.high))
        return Scores(self.method, self.signed, self.values[:, list(chosen)], low, high)


def position(explanation: Explanation, i: Any) -> int:
    """Return the position of a series, given as such or by its name, or say which there are."""
    if not len(require(explanation)):
        raise InputError("The explanation holds no series, so there is none to show.")
    if isinstance(i, str):
        if explanation.names is None:
            raise InputError(f"These series have no names, so there is none called {brief(i)}: pass a position.")
        if i not in explanation.names:
            raise InputError(
                f"There is no series called {brief(i)}: expected a name such as {brief(explanation.names[0])}, or "
                f"a position in 0 … {len(explanation) - 1}."
            )
        return explanation.names.index(i)
    index = validation.whole(i, "i", 0)
    if index >= len(explanation):
        raise InputError(f"i must be a position in 0 … {len(explanation) - 1}, got {index}.")
    return index


def whole_series(explanation: Explanation, x: Any) -> Tensor:
    """Return the explained series: those given, or those kept with the explanation."""
    if x is None and explanation.x is None:
        raise InputError("The explanation was saved without its series: pass them as x=, in the same order.")
    return cells_like(explanation.x if x is None else x, explanation, "x")


def cells_like(given: Any, explanation: Explanation, what: str) -> Tensor:
    """Check that there is one number per cell."""
    tensor = validation.as_tensor(given, what)
    if tensor.shape != explanation.values.shape:
        raise InputError(
            f"{what} must have the shape of the explanation, {tuple(explanation.values.shape)}, got "
            f"{tuple(tensor.shape)}."
        )
    return tensor


def observed(explanation: Explanation, i: int) -> Flags:
    """Which cells of a series were observed, (time, channel)."""
    if explanation.mask is None:
        return np.ones(tuple(explanation.values.shape[1:]), dtype=np.bool_)
    return np.asarray(explanation.mask[i].cpu().numpy(), dtype=np.bool_)


def scores(explanation: Explanation, i: int, label: str | None = None) -> Scores:
    """Return what a method says about a series; unobserved cells hold 0."""
    values = plain(explanation.values[i])
    low = high = None
    if explanation.standard_error is not None and explanation.effective_points is not None:
        low, high = (plain(side[0]) for side in explanation[i : i + 1].interval(0.95))
    shown = values if explanation.signed else np.maximum(values, 0)
    return Scores(explanation.method if label is None else label, explanation.signed, shown, low, high)


def time_names(explanation: Explanation) -> tuple[str, ...]:
    """Return the steps' names, or their numbers."""
    return explanation.times or tuple(str(t) for t in range(explanation.values.shape[1]))


def chosen_channels(wanted: Any, names: Sequence[str], effect: Floats, most: int, *, ordered: bool) -> list[int]:
    """Return the channels to show.

    Parameters
    ----------
    wanted : int, sequence of str or int, or None
        How many of the strongest, or which; None: all, but no more than ``most``.
    names : sequence of str
    effect : array of shape (channel,)
        What makes a channel strong.
    most : int
    ordered : bool
        Whether the strongest come first where nobody asked for an order; otherwise all of them keep their places.

    Examples
    --------
    >>> effect = np.array([1.0, 3.0, 2.0])
    >>> chosen_channels(2, "abc", effect, 8, ordered=False)
    [1, 2]
    >>> chosen_channels(["c", 0], "abc", effect, 8, ordered=False)
    [2, 0]
    """
    strongest = [int(d) for d in np.argsort(-effect, kind="stable")]
    if wanted is None:
        return list(range(len(names))) if len(names) <= most and not ordered else strongest[:most]
    if isinstance(wanted, (np.ndarray, Tensor)) and wanted.ndim == 1:
        wanted = wanted.tolist()
    if isinstance(wanted, (str, bool)) or not isinstance(wanted, Sequence):
        return strongest[: validation.whole(wanted, "channels", 1)]
    places = {label: d for d, label in enumerate(names)}
    found = [places.get(label) if isinstance(label, str) else label for label in wanted]
    for label, d in zip(wanted, found, strict=True):
        if isinstance(d, bool) or not isinstance(d, (int, np.integer)) or not 0 <= d < len(names):
            raise InputError(f"There is no channel {brief(label)}: expected a count or some of {listed(names)}.")
    return [int(d) for d in found if d is not None]
