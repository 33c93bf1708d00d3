r"""Masks that leave no observed cell out, with weights that keep the estimate exact.

A share of the masks is drawn given that an anchor cell is free. Taken together, the :math:`S` masks of a
series with anchors :math:`a_1, \dots, a_m` (the rest has none) come from the mixture with density

.. math:: q(M) = p(M) \Big[ 1 - \tfrac{m}{S} + \tfrac{1}{S} \sum_j M_{a_j} / p_{a_j} \Big],

so each mask is weighted by :math:`w(M) = p(M) / q(M)`.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from tempograd._utils.rng import FAR, per_point, scale, words
from tempograd.explainers.timing.segments import Law, moving


class Draw(NamedTuple):
    """The masks of a block of series, True where a cell moves, and their weights."""

    masks: Tensor  # (series, points, time, channel)
    weights: Tensor | None  # (series, points); None if all are equal
    anchors: Tensor  # (series, points): the flat cell each mask was anchored on, or -1
    streams: Tensor  # (2, series, points)
    order: Tensor  # (series, points): in which order points are redrawn, last first
    unseen: Tensor  # (): whether some observed cell never moves


def draw(stream: Tensor, law: Law, observed: Tensor, points: int) -> Draw:
    """Draw all masks of a block, some of them anchored on cells spread evenly over the observed ones.

    Parameters
    ----------
    stream : Tensor of shape (2, series)
    law : Law
        Says which share of the points is anchored, and for which series.
    observed : boolean Tensor of shape (series, time, channel)
    """
    streams = per_point(stream, points)
    lottery = words(stream[..., None], FAR + torch.arange(points + 1, device=stream.device))
    order = lottery[:, :points].argsort(dim=1, stable=True)
    if law.share:
        anchors = _spread(lottery[:, points:], observed, order, law)
        masks = moving(streams, law, anchors)
        weights = _weights(masks, anchors, law.free)
    else:
        anchors, masks = torch.full_like(order, -1), moving(streams, law)
        weights = None
    return Draw(masks, weights, anchors, streams, order, _unseen(observed, masks).any())


def repaired(drawn: Draw, law: Law, observed: Tensor) -> Draw:
    """Redraw masks until every observed cell moves at least once, as far as the points allow."""
    masks, anchors, order = drawn.masks, drawn.anchors, drawn.order
    points = order.shape[1]
    for last in [*(2**power for power in range(1, points.bit_length()) if 2**power < points), points]:
        rows = _unseen(observed, masks).nonzero()[:, 0]
        if len(rows) == 0:
            break
        part = _Part(drawn.streams[:, rows], law.rows(rows), observed[rows], order[rows])
        masks[rows], anchors[rows] = _redrawn(part, masks[rows], anchors[rows], last)
    return drawn._replace(weights=_weights(masks, anchors, law.free))


def _unseen(observed: Tensor, masks: Tensor) -> Tensor:
    """Tell for each series whether an observed cell never moves."""
    return (observed & ~masks.any(1)).flatten(1).any(1)


def _spread(word: Tensor, observed: Tensor, order: Tensor, law: Law) -> Tensor:
    """Anchor the last points of ``order`` on observed cells at even distances; -1 elsewhere.

    Cells are counted channel by channel: step by step, a distance that is a multiple of the number of channels
    would put every anchor of a series into one channel.
    """
    points, (_, time, channels) = order.shape[1], observed.shape
    count = int(law.share * points)  # rounded down: some mask must come from the law itself
    running = observed.transpose(1, 2).flatten(1).cumsum(1)
    available = running[:, -1:]
    index = torch.arange(count, device=order.device) << 16
    position = (index + scale(word, 1 << 16)) * available // (count << 16)  # which observed cell
    cell = torch.searchsorted(running, position + 1).clamp(max=running.shape[1] - 1)
    cell = cell % time * channels + cell // time
    wanted = (available > 0) & (law.anchored[:, None] > 0)
    return torch.full_like(order, -1).scatter_(1, order[:, points - count :], torch.where(wanted, cell, -1))


class _Part(NamedTuple):
    """The series of a block that still have unseen cells."""

    streams: Tensor  # (2, series, points)
    law: Law
    observed: Tensor
    order: Tensor


def _redrawn(part: _Part, masks: Tensor, anchors: Tensor, last: int) -> tuple[Tensor, Tensor]:
    """Redraw the last points of the order one after the other, each anchored on a cell still unseen.

    The order is random, not that of the path, so that a cell seen late is not always seen near the input.
    """
    series, points = part.order.shape
    row = torch.arange(series, device=masks.device)
    cells = FAR + torch.arange(masks[0, 0].numel(), device=masks.device)
    counted = torch.ones(series, points, dtype=torch.bool, device=masks.device)
    counted.scatter_(1, part.order[:, points - last :], value=False)
    seen = (masks & counted[..., None, None]).any(1)
    for point in part.order[:, points - last :].unbind(1):
        unseen = (part.observed & ~seen).flatten(1)
        stream = part.streams[:, row, point, None]
        lottery = torch.where(unseen, words(stream, cells), -1).argmax(1)
        anchor = torch.where(unseen.any(1), lottery, anchors[row, point])
        mask = moving(stream, part.law, anchor[:, None])[:, 0]  # the same anchor gives the same mask
        masks[row, point], anchors[row, point] = mask, anchor
        seen |= mask
    return masks, anchors


def _weights(masks: Tensor, anchors: Tensor, free: Tensor) -> Tensor:
    points, channels = masks.shape[1], masks.shape[3]
    cell = anchors.clamp(min=0)
    anchored = (anchors >= 0).to(free.dtype)
    boost = anchored / (points * free.gather(1, cell // channels).clamp(min=torch.finfo(free.dtype).tiny))
    flat = masks.flatten(2)
    if points < flat.shape[2]:  # look at the anchors only, or at all cells, whichever are fewer
        total = (flat.gather(2, cell[:, None].expand(-1, points, -1)) * boost[:, None]).sum(2)
    else:
        boosts = torch.zeros_like(flat[:, 0], dtype=free.dtype).scatter_add_(1, cell, boost)
        total = torch.where(flat, boosts[:, None], 0).sum(2)
    return 1 / (1 - anchored.mean(1, keepdim=True) + total)
