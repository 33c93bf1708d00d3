"""Which series a report shows, and whether its parts speak of the same series."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from tempograd._utils import validation
from tempograd.data import Split
from tempograd.errors import InputError, brief
from tempograd.explanation import Explanation
from tempograd.shown import sizes

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
