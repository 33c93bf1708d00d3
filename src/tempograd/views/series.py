"""Series and their scores as plain numbers: which are shown, what was observed, what each method says about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd._utils import validation
from tempograd.data import Split
from tempograd.errors import InputError, brief, listed
from tempograd.explanation import Explanation
from tempograd.explanation.core import Explanation, require
from tempograd.metrics.removal import rankings
from tempograd.views.labels import limit, plain, sizes

# What is shown: the series of an explanation and its scores, as plain numbers.

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


# What the report shows of its series, as plain arrays: computed here, packed and drawn elsewhere.

Whole = NDArray[np.int64]

STRONGEST = 10  # cells in the table beside a picture
MOST_REMOVED = 400  # cells that the slider takes away at least, where there are as many; else a tenth of them


@dataclass(frozen=True)
class Map:
    """What one method says about the series, (series, time, channel) unless noted.

    Attributes
    ----------
    half : Floats, optional
        Half-width of the 95 % interval, infinite where fewer than two draws counted; None without sampling error.
    limit : Floats of shape (series,)
        The size that gets the full colour.
    effect : Floats of shape (series, channel)
        Sum of the sizes of a channel's scores, by which channels are ordered.
    order : Whole of shape (series, K)
        The strongest cells (time · channels + channel), in the order in which metrics remove them.
    """

    label: str
    signed: bool
    values: Floats
    half: Floats | None
    limit: Floats
    effect: Floats
    order: Whole


def maps(explanations: Mapping[str, Explanation], observed: Flags) -> tuple[Map, ...]:
    """Collect the maps of explanations of the same series."""
    return tuple(_map(label, explanation, observed) for label, explanation in explanations.items())


def _map(label: str, explanation: Explanation, observed: Flags) -> Map:
    values, sized = plain(explanation.values), plain(sizes(explanation))
    half = None
    if explanation.standard_error is not None:
        half = plain(explanation.interval(0.95)[1] - explanation.values)
    return Map(
        label=label,
        signed=explanation.signed,
        values=values,
        half=half,
        limit=np.array([limit(row, seen) for row, seen in zip(sized, observed, strict=True)], dtype=np.float32),
        effect=sized.sum(1),
        order=order(explanation, observed),
    )


def order(explanation: Explanation, observed: Flags) -> Whole:
    """Return the strongest cells of each series in the order in which metrics remove them, (series, K)."""
    seen = torch.from_numpy(observed).flatten(1)
    size = explanation.strength.detach().cpu().flatten(1)
    ranks = rankings(size, seen, explanation.ids.cpu())
    return np.asarray(ranks.argsort(1)[:, : removed_at_most(observed)].numpy())


def removed_at_most(observed: Flags) -> int:
    """Return how many cells the slider removes: all of a small series, a tenth of a large one.

    Examples
    --------
    >>> removed_at_most(np.ones((2, 48, 3), dtype=bool)), removed_at_most(np.ones((1, 10_000, 1), dtype=bool))
    (144, 1000)
    """
    most = int(observed.reshape(len(observed), -1).sum(1).max())
    return min(most, max(MOST_REMOVED, int(observed[0].size) // 10))


def removal_counts(most: int) -> Whole:
    """Return the numbers of removed cells that are asked about: each of the first ten, then ever fewer.

    Examples
    --------
    >>> removal_counts(3)
    array([0, 1, 2, 3])
    >>> len(removal_counts(400)), removal_counts(400)[[9, 10, 11, -1]]
    (40, array([  9,  10,  11, 400]))
    """
    if most <= 10:
        return np.arange(most + 1)
    return np.unique(np.concatenate([np.arange(11), np.rint(np.geomspace(10, most, 30)).astype(np.int64)]))


def seen(explanation: Explanation, mask: Tensor | None) -> Flags:
    """Return which cells were observed, by the explanation's own mask or else by the one of its split."""
    mask = explanation.mask if explanation.mask is not None else mask
    if mask is None:
        return np.ones(tuple(explanation.values.shape), dtype=np.bool_)
    return np.ascontiguousarray(mask.cpu().numpy())


# Which series a report shows, and whether its parts speak of the same series.

LARGEST = 12_600_000  # bytes of numbers before compression, so that a page stays below about 15 MB


def aligned(explanation: Explanation, split: Split | None) -> Split | None:
    """Return the part of ``split`` that was explained, in the explanation's order.

    Series are found by id. Explanations made without ids number their series from 0; they belong to the
    first series of the split if they hold the same values.
    """
    if split is None:
        return None
    position = {int(name): row for row, name in enumerate(split.ids)}
    rows = [position.get(int(name)) for name in explanation.ids]
    if None not in rows:
        found = split.take([row for row in rows if row is not None])
        if _same(explanation, found):
            return found
    found = split.take(slice(len(explanation)))
    if explanation.x is not None and _same(explanation, found):
        return found
    raise InputError(
        "The series of the explanation are not in split: pass the split that was explained, "
        "and explain with ids=split.ids where only some of its series are."
    )


def _same(explanation: Explanation, split: Split) -> bool:
    if split.x.shape != explanation.values.shape:
        return False
    if explanation.x is None:
        return True
    here, there = explanation.x.to(split.x), split.x
    if explanation.mask is None:
        return torch.equal(here, there)
    seen = explanation.mask.to(there.device)  # what stands elsewhere, NaN perhaps, was never observed
    return torch.equal(here.where(seen, 0), there.where(seen, 0))


def values(explanations: Mapping[str, Explanation], split: Split | None) -> Tensor:
    """Return the explained series, kept with an explanation or taken from the (aligned) split."""
    for explanation in explanations.values():
        if explanation.x is not None:
            return explanation.x
    if split is None:
        raise InputError("The explanations were saved without their series: pass split=.")
    return split.x


def most(explanations: Mapping[str, Explanation]) -> int:
    """Return how many series a page holds, at least twelve."""
    first = next(iter(explanations.values()))
    per_cell = 4 + sum(2 if found.standard_error is None else 4 for found in explanations.values())
    return max(12, LARGEST * 3 // (4 * per_cell * first.values[0].numel()))


def chosen(explanation: Explanation, series: Sequence[int] | None, most: int) -> list[int]:
    """Return the positions of the series to show: those asked for, or up to ``most`` that differ most.

    Every explained class gets its share, and within a class the sizes of the attribution are spread
    evenly from the smallest to the largest.
    """
    count = len(explanation)
    if series is not None:
        found = validation.numbers(series, "series")
        whole = not (found.is_floating_point() or found.dtype == torch.bool)
        positions = found.tolist() if found.ndim == 1 and whole else []
        inside = bool(positions) and min(positions) >= 0 and max(positions) < count
        if not inside or len(set(positions)) < len(positions):
            raise InputError(f"series must be distinct positions in 0 … {count - 1}, got {brief(series)}.")
        return positions
    if count <= most:
        return list(range(count))
    target = explanation.target
    classes = target if target is not None and target.ndim == 1 else torch.zeros(count, dtype=torch.int64)
    size = sizes(explanation).flatten(1).sum(1).cpu()
    groups = [(classes.cpu() == kind).nonzero().flatten() for kind in sorted(set(classes.tolist()))]
    picked: list[int] = []
    for group, share in zip(groups, _shares([len(group) for group in groups], most), strict=True):
        ranked = group[size[group].argsort(stable=True)]
        picked += [int(ranked[rank]) for rank in _spread(len(ranked), share)]
    return sorted(picked)


def _shares(sizes: list[int], most: int) -> list[int]:
    """Deal the places out in turn, one per class and round, while a class has series left."""
    shares = [0] * len(sizes)
    while sum(shares) < min(most, sum(sizes)):
        for index, size in enumerate(sizes):
            if shares[index] < size and sum(shares) < most:
                shares[index] += 1
    return shares


def _spread(count: int, share: int) -> list[int]:
    """Return ``share`` distinct ranks from the first to the last; a single one is the last."""
    if share == 0:
        return []
    if share == 1:
        return [count - 1]
    return [round(place * (count - 1) / (share - 1)) for place in range(share)]
