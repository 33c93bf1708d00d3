"""What the report shows of its series, as plain arrays: computed here, packed and drawn elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.explanation import Explanation
from tempograd.metrics.removal import rankings
from tempograd.shown import limit, plain, sizes

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]
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
