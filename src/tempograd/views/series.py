"""Series and their scores as plain numbers: which are shown, what was observed, what each method says."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, UnknownNameError, printable
from tempograd.core.series import shared_times
from tempograd.explanation.core import Explanation, require
from tempograd.metrics.removal import rankings
from tempograd.typing import ArrayLike

Floats = NDArray[np.floating[Any]]
Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]

FULL = 0.98  # share of the observed cells that stay below the full colour
MOST_REMOVED = 400  # strongest cells that are ranked at least, where there are as many; else a tenth of them
BLOCKS = 8  # of the time of a series, where nobody says how long they are
LARGEST = 14_000_000  # bytes of numbers before compression, so that a page stays below about 15 MB


def to_numpy(tensor: Tensor) -> NDArray[np.float32]:
    """Bring a tensor to the CPU as a contiguous float32 array."""
    return np.ascontiguousarray(tensor.detach().cpu().float().numpy())


def color_limit(values: Floats, observed: Flags) -> float:
    """Return the magnitude that gets the full colour: 98 % of the observed cells are at or below it.

    A single extreme cell would otherwise leave all others white. It is at least a quarter of the largest size, so
    that where few cells matter the many others are not drawn as if they did.

    Examples
    --------
    >>> values = np.array([0.0, 1.0, -2.0, 50.0], dtype=np.float32)
    >>> color_limit(values, np.array([True, True, True, False]))
    2.0
    """
    size = np.abs(values[observed])
    return max(float(np.quantile(size, FULL, method="higher")), float(size.max()) / 4) if len(size) else 0.0


def sizes(explanation: Explanation) -> Tensor:
    """Return what counts wherever cells are added up, as for the order of channels, (series, time, channel).

    That is the size of a signed score. FIT and WinIT give scores below 0 to values that matter less than nothing:
    these count as nothing, else a channel that does not matter at all could come first.
    """
    return explanation.importance.clamp(min=0)


def certain_sizes(explanation: Explanation) -> Tensor:
    """Return what is sure of each series, (series,): the sum of the sizes whose 95 % interval leaves 0 out.

    All sizes count of a method without a sign, and of one that does not know its error.
    """
    size = sizes(explanation).double()
    if explanation.signed and explanation.standard_error is not None and explanation.ess is not None:
        low, high = explanation.interval(0.95)
        size = size.where((low > 0) | (high < 0), 0)
    return size.sum((1, 2))


def observed_cells(explanation: Explanation) -> Flags:
    """Return which cells were observed."""
    mask = torch.ones_like(explanation.values) if explanation.mask is None else explanation.mask
    return np.ascontiguousarray(mask.cpu().numpy(), dtype=np.bool_)


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
    def effect(self) -> Floats:
        """How much each channel matters, (channel,): the sum of its sizes."""
        return np.asarray(np.abs(self.values).sum(0))

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


def scores(explanation: Explanation, i: int, label: str | None = None) -> Scores:
    """Return what a method says about a series; unobserved cells hold 0."""
    values = to_numpy(explanation.values[i])
    low = high = None
    if explanation.standard_error is not None and explanation.ess is not None:
        low, high = (to_numpy(side[0]) for side in explanation[i : i + 1].interval(0.95))
    shown = values if explanation.signed else np.maximum(values, 0)
    return Scores(explanation.method if label is None else label, explanation.signed, shown, low, high)


def order(explanation: Explanation, seen: Flags) -> Indices:
    """Return the strongest cells of each series in the order in which metrics remove them, (series, K)."""
    size = explanation.importance.detach().cpu().flatten(1)
    ranks = rankings(size, torch.from_numpy(seen).flatten(1), explanation.ids.cpu())
    return np.asarray(ranks.argsort(1)[:, : removed_at_most(seen)].numpy())


def removed_at_most(seen: Flags) -> int:
    """Return how many cells a page removes: all of a small series, a tenth of a large one.

    Examples
    --------
    >>> removed_at_most(np.ones((2, 48, 3), dtype=bool)), removed_at_most(np.ones((1, 10_000, 1), dtype=bool))
    (144, 1000)
    """
    return min(int(seen.reshape(len(seen), -1).sum(1).max()), max(MOST_REMOVED, int(seen[0].size) // 10))


def position(explanation: Explanation, i: int | str) -> int:
    """Return the position of a series, given as such or by its name, or say which there are."""
    if not len(require(explanation)):
        raise InputError("The explanation holds no series, so there is none to show.")
    if isinstance(i, str):
        places = [place for place, label in enumerate(explanation.labels) if label == printable(i)]
        if len(places) != 1:
            raise UnknownNameError("single series", i, {*explanation.labels} - {printable(i)})
        return places[0]
    return validation.check_int(i, "i", 0, len(explanation) - 1)


def whole_series(explanations: Iterable[Explanation]) -> Tensor:
    """Return the explained series, which one of the explanations must have been saved with."""
    series = next((each.x for each in explanations if each.x is not None), None)
    if series is None:
        raise InputError("The explanation was saved without its series: explain again, or replace(exp, x=x).")
    return series


def shown_values(explanations: Collection[Explanation]) -> Tensor:
    """Return the explained series as people know them: before scaling where one of the explanations tells that."""
    raw = next((each.raw for each in explanations if each.raw is not None), None)
    return whole_series(explanations) if raw is None else raw


def group_rows(explanation: Explanation, rows: ArrayLike | None, what: str) -> Tensor:
    """Return the positions of the series of a group, each once."""
    count = len(explanation)
    found = torch.arange(count) if rows is None else validation.check_positions(rows, what, count)
    if not len(found):
        raise InputError(f"{what} chooses no series: name at least one.")
    return validation.check_distinct(found, what)


def most(explanations: Mapping[str, Explanation]) -> int:
    """Return how many series a page holds, at least twelve."""
    first = next(iter(explanations.values()))
    per_cell = 4 + sum(4 if found.standard_error is None else 8 for found in explanations.values())
    stamps = 0 if shared_times(first.times) is not None or first.times is None else len(str(first.times[0]))
    sums = len(explanations) * 4 * BLOCKS * first.values.shape[2]
    return max(12, LARGEST * 3 // (4 * (per_cell * first.values[0].numel() + sums + stamps)))


def chosen(explanation: Explanation, series: Sequence[int] | None, most: int) -> list[int]:
    """Return the positions of the series to show: those asked for, or up to ``most`` that differ most.

    Every explained class gets an equal share, and within a class the sizes of the attribution are spread evenly
    from the smallest to the largest.
    """
    count, target = len(explanation), explanation.target
    if series is not None:
        return [int(place) for place in group_rows(explanation, series, "series")]
    if count <= most:
        return list(range(count))
    classes = torch.zeros(count) if target is None or target.ndim > 1 else target.cpu()
    size, kinds, picked = sizes(explanation).flatten(1).sum(1).cpu(), sorted(set(classes.tolist())), list[int]()
    for kind in kinds:
        ranked = (classes == kind).nonzero().flatten()
        ranked = ranked[size[ranked].argsort(stable=True)]
        share = min(len(ranked), max(1, most // len(kinds)))
        picked += ranked[torch.linspace(len(ranked) - 1, 0, share).round().long()].tolist()
    return sorted(picked)
