"""Masks of random single-channel segments for many series at once, and how often they leave a cell active."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from tempograd.core.errors import SettingError, warn
from tempograd.core.rng import FAR, bits, fold_in, scale, split

# How often segments leave a cell active, in closed form, and settings that follow from it
#
# A mask fixes :math:`n` segments. Each has a length :math:`l` uniform on :math:`\{s_{\min}, \dots, s_{\max}\}`,
# one channel uniform on the :math:`D` channels and a start uniform on :math:`\{0, \dots, T - l\}`.
# Cell :math:`(t, d)` is active (it moves along the path) with probability
#
# .. math:: p(t) = (1 - h(t) / D)^n, \qquad
#     h(t) = \operatorname{mean}_l \frac{\#\{\text{starts that cover } t\}}{T - l + 1}.
#
# Where the share of cells that are held on average is given, a mask has one segment more with probability
# :math:`\rho`, so that the mean of
#
# .. math:: p(t) = (1 - h(t) / D)^n \, (1 - \rho \, h(t) / D)
#
# over the steps is exactly what is left. Segments of a single step are not drawn then, but each cell by itself.

RAREST = 1e-6  # a cell less often active than this cannot be estimated
ONE = 1 << 32  # a probability of 1, in the units of random words
_Array = np.ndarray[tuple[int, ...], np.dtype[Any]]


@dataclass(frozen=True)
class SegmentSettings:
    """How masks are drawn for series of one length: completed and checked."""

    time: int
    channels: int
    count: int
    low: int
    high: int
    anchored: float = 0.0  # share of the points whose mask is drawn around a chosen cell
    held: float | None = None  # share of the cells that masks hold on average, where it was given
    more: int = 0  # how many of 2^32 masks have one segment more

    @property
    def single(self) -> bool:
        """Return whether each cell is held by itself, independently of the others."""
        return bool(self.held) and self.high == 1

    @property
    def free(self) -> int:
        """Return how many of 2^32 masks leave a cell active, where each is held by itself.

        What is rarer, active or held, is rounded down, so that one in ten is one of each ten and not of each nine.
        """
        held = self.held or 0.0
        return int((1 - held) * ONE) if held >= 0.5 else ONE - int(held * ONE)

    @lru_cache(maxsize=8)  # noqa: B019  # equal settings share what is kept
    def p_active(self) -> _Array:
        """Return p(t), how likely a cell at step t is active.

        Examples
        --------
        >>> SegmentSettings(time=3, channels=1, count=1, low=2, high=2).p_active()
        array([0.5, 0. , 0.5])
        """
        if self.single:
            return np.full(self.time, self.free / ONE)
        cover = _hit(self.time, self.low, self.high) / self.channels
        return np.asarray((1 - cover) ** self.count * (1 - self.more / ONE * cover))

    def more_if_active(self) -> _Array:
        """Return how many of 2^32 masks that leave a cell at step t active have one segment more."""
        cover = _hit(self.time, self.low, self.high) / self.channels
        share = self.more / ONE
        return np.rint(share * (1 - cover) / np.maximum(1 - share * cover, 1 / ONE) * ONE).astype(np.int64)

    def __str__(self) -> str:
        if self.held is not None:
            return f"held={self.held:g}, min_length={self.low}, max_length={self.high}"
        return f"segments={self.count}, min_length={self.low}, max_length={self.high}"


@lru_cache(maxsize=4096)
def complete(
    time: int,
    channels: int,
    count: int | None,
    low: int | None,
    high: int | None,
    longest: int,
    held: float | None = None,
) -> SegmentSettings:
    """Fill in what was left open, so that about half of the cells are active, and fit it to the length.

    With ``held`` the mean active share is exactly what is left of it. ``longest`` is the length of the batch; a
    series that ends sooner gets its segments cut to its own.
    """
    for name, length in (("max_length", high), ("min_length", low)):
        if length is not None and length > longest:
            raise SettingError(f"{name}={length} does not fit series of {longest} steps: pass at most {longest}.")
    if high is None:
        high = max(low or 1, round(time / 3))
    if low is None:
        low = min(high, max(1, round(time / 10)))
    low, high = min(low, time), min(high, time)
    cover = _hit(time, low, high) / channels
    if held is not None:
        count, more = (0, 0) if high == 1 else _exactly(cover, held)
        return SegmentSettings(time, channels, count, low, high, held=held, more=more)
    if count is None and cover.max() >= 1:
        count = 0  # a single segment already fixes everything, as for one step and one channel
    elif count is None:  # for which the mean active share is closest to one half
        count, more = _exactly(cover, 0.5)
        count += more > ONE // 2
    return SegmentSettings(time, channels, count, low, high)


@lru_cache(maxsize=8)  # few, since each is as long as a series
def _hit(time: int, low: int, high: int) -> _Array:
    r"""Return h(t): how likely a segment in the cell's channel covers step t.

    A length has :math:`s = T - l + 1` starts. Those that cover the k-th step from the nearer end are
    :math:`\min(k, a)`, where :math:`a = \min(l, s)`. Over all lengths

    .. math:: \sum_l \min(k, a) / s = \sum_{a \le k} a / s + k \sum_{a > k} 1 / s,

    two running sums that all steps share, so that many lengths cost no more than many steps.
    """
    length = np.arange(low, high + 1)
    starts = time - length + 1
    most, k = np.minimum(length, starts), np.arange((time + 1) // 2 + 1)
    up_to = np.bincount(most, most / starts, len(k)).cumsum()
    from_here = np.bincount(most, 1 / starts, len(k))[::-1].cumsum()[::-1]
    total = up_to + k * np.append(from_here[1:], 0)
    clock = np.arange(time)
    return np.asarray(total[np.minimum(clock + 1, time - clock)] / len(length))


def _exactly(cover: _Array, held: float) -> tuple[int, int]:
    """Find the number of segments, and how many of 2^32 masks need one more, for a mean share of held cells."""

    def free(count: int) -> float:
        return float(((1 - cover) ** count).mean())

    least, most = 0, 1
    while free(most) > 1 - held:
        least, most = most, 2 * most
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if free(middle) > 1 - held else (least, middle)
    return least, round((free(least) - (1 - held)) / (free(least) - free(most)) * ONE)


def warn_of_rare_cells(settings: list[SegmentSettings], points: int) -> None:
    """Warn, before anything runs, if some cell will be active in fewer than two points on average."""
    setting = min(settings, key=lambda each: float(each.p_active().min()))
    rarest = max(float(setting.p_active().min()), RAREST)  # what is always fixed was found to be unobserved
    if rarest * points < 2:
        cell = "a cell" if setting.single else f"step {setting.p_active().argmin()}"
        instead = "shorter segments" if setting.held is None else "a smaller held"
        numbers = {"active": f"{rarest * points:.2g}", "samples": points, "enough": int(2 / rarest) + 1}
        warn("cells.rare", setting=str(setting), cell=cell, instead=instead, **numbers)


# Drawing masks for many series at once

FIELDS = 8  # random numbers of 32 bits that a segment may use
MORE = 5  # which of those of the first segment says whether there is one more
BITS = 30  # of the shares that lengths are chosen by
AT_ONCE = 2**22  # words that are kept at once


@dataclass(frozen=True)
class SegmentSampler:
    """The segments of each series of a block, on its device."""

    lengths: Tensor  # of the table's rows, ascending
    time: Tensor  # (series,)
    count: Tensor
    low: Tensor
    high: Tensor
    anchored: Tensor  # whether any point is
    p_active: Tensor  # (series, time): probability that a cell is active
    single: Tensor  # whether each cell is held by itself
    more: Tensor | None  # how many of 2^32 masks have one segment more; None if none have
    more_if_active: Tensor | None  # (series, time): the same of those that leave a cell active
    channels: int
    most: int  # largest count
    span: int  # most different lengths
    share: float  # of the points that are anchored, where any are
    free: int  # how many of 2^32 masks leave a cell active, where each is held by itself; 0 if none is

    @classmethod
    def table(
        cls, settings: dict[int, SegmentSettings], x: Tensor, device: torch.device, dtype: torch.dtype
    ) -> Self:
        """Put the settings of all lengths on the device, one row each, in ascending order of length."""
        lengths, (_, steps, channels) = list(settings.values()), x.shape
        rows = [[one.time, one.count, one.low, one.high, one.anchored > 0, one.single] for one in lengths]
        time, count, low, high, anchored, single = torch.tensor(rows).T.contiguous().to(device)
        mixed = any(one.more for one in lengths)
        p_active = torch.zeros(len(rows), steps, dtype=dtype)
        more_if_active = torch.zeros(len(rows), steps if mixed else 0, dtype=torch.int64)
        for place, one in enumerate(lengths):
            p_active[place, : one.time] = torch.from_numpy(one.p_active())
            if mixed:
                more_if_active[place, : one.time] = torch.from_numpy(one.more_if_active())
        return cls(
            torch.tensor(list(settings), device=device),
            *(time, count, low, high, anchored, p_active.to(device), single.bool()),
            torch.tensor([one.more for one in lengths], device=device) if mixed else None,
            more_if_active.to(device) if mixed else None,
            channels,
            most=max(one.count + (one.more > 0) for one in lengths),
            span=max(one.high - one.low + 1 for one in lengths),
            share=max(one.anchored for one in lengths),
            free=max(one.free * one.single for one in lengths),
        )

    def of(self, lengths: Tensor) -> Self:
        """Look up the settings of each series by its length, in a table."""
        return self.rows(torch.searchsorted(self.lengths, lengths.to(self.lengths.device)))

    def rows(self, rows: Tensor) -> Self:
        """Return the sampler of some of the series."""
        parts: dict[str, Any] = {name: part for name, part in vars(self).items() if isinstance(part, Tensor)}
        return replace(self, **{name: part[rows] for name, part in parts.items() if name != "lengths"})


class Drawn(NamedTuple):
    """Segments, (series, points, segments) each."""

    length: Tensor  # 0 where a series has fewer than others
    channel: Tensor
    start: Tensor


def sample_masks(stream: Tensor, sampler: SegmentSampler, anchor: Tensor | None = None) -> Tensor:
    """Draw masks, True where a cell moves, (series, points, time, channel), from a stream (2, series, points).

    ``anchor``, (series, points), is a flat cell (time · channels + channel) that must be active, or -1: segments
    are then independent and follow their distribution given that they miss it.
    """
    return paint(sample_segments(placement_bits(stream, sampler), sampler, stream, anchor), sampler)


def placement_bits(stream: Tensor, sampler: SegmentSampler, fields: tuple[int, int] = (0, 2)) -> Tensor:
    """Return the random bits that place segments, (series, points, 2, segments), or others of their fields.

    The first of each pair says how long and in which channel, the second where; 32 bits each.
    """
    index = torch.arange(sampler.most, device=stream.device)
    return bits(stream[..., None, None], index * FIELDS + torch.arange(*fields, device=stream.device)[:, None])


def sample_segments(base: Tensor, sampler: SegmentSampler, stream: Tensor, anchor: Tensor | None = None) -> Drawn:
    """Place segments by random bits; see :func:`sample_masks` for the arguments."""
    shape, place = base.unbind(2)
    time, low, high = (value[:, None, None] for value in (sampler.time, sampler.low, sampler.high))
    both = scale(shape, (high - low + 1) * sampler.channels)  # length and channel in one number
    further = both // sampler.channels
    length, channel = low + further, both - further * sampler.channels
    drawn = Drawn(length, channel, scale(place, time - length + 1))
    if anchor is not None:
        drawn = _missing(anchor, stream, sampler, drawn)
    if len(sampler.lengths) == 1 and sampler.more is None:  # all series have as many
        return drawn
    index, count = torch.arange(sampler.most, device=stream.device), sampler.count[:, None, None]
    if sampler.more is not None and sampler.more_if_active is not None:
        limit = sampler.more[:, None]
        if anchor is not None:
            given = sampler.more_if_active.gather(1, anchor.clamp(min=0) // sampler.channels)
            limit = torch.where(anchor < 0, limit, given)
        count = count + (bits(stream, torch.arange(MORE, MORE + 1, device=stream.device)) < limit)[..., None]
    return drawn._replace(length=torch.where(index < count, drawn.length, 0))


def paint(segments: Drawn, sampler: SegmentSampler) -> Tensor:
    """Mark what no segment covers: +1 where one starts, -1 where it ends, and a running sum over time."""
    length, channel, start = segments
    series, points = start.shape[:2]
    rows, steps = series * points, sampler.p_active.shape[1]
    kind = next(kind for kind in (torch.int8, torch.int16, torch.int32) if start.shape[2] <= torch.iinfo(kind).max)
    edges = torch.zeros(rows, (steps + 1) * sampler.channels, dtype=kind, device=start.device)
    one = torch.ones((), dtype=kind, device=start.device).expand(rows, start.shape[2])
    first = (start * sampler.channels + channel).view(rows, -1)
    edges.scatter_add_(1, first, one)
    edges.scatter_add_(1, first + (length * sampler.channels).view(rows, -1), -one)
    covered = edges.view(rows, steps + 1, sampler.channels)[:, :steps]
    # bool() and not, since a comparison is several times slower on a CPU
    return covered.cumsum(1, dtype=kind).bool().logical_not_().view(series, points, steps, sampler.channels)


def _missing(anchor: Tensor, stream: Tensor, sampler: SegmentSampler, drawn: Drawn) -> Drawn:
    """Redraw each segment that covers its anchor from the distribution of those that miss it."""
    cell = anchor.clamp(min=0)[..., None]
    when, where = cell // sampler.channels, cell % sampler.channels
    covers = (anchor[..., None] >= 0) & (drawn.channel == where) & (drawn.start <= when)
    covers &= when < drawn.start + drawn.length
    first, second, place = placement_bits(stream, sampler, (2, 5)).unbind(2)
    time, low, high = bounds = [value[:, None, None] for value in (sampler.time, sampler.low, sampler.high)]
    cumulative = _missing_weights(when, bounds, sampler.span)
    inside, everywhere = cumulative[..., -1:], (high - low + 1) << BITS

    # The anchor's channel has total weight `inside`, each other one `everywhere`.
    ticket = ((first << 31) | (second >> 1)) % (inside + (sampler.channels - 1) * everywhere).clamp(min=1)
    same = ticket < inside
    rest = (ticket - inside).clamp(min=0)
    other = rest // everywhere
    short = torch.searchsorted(cumulative, torch.where(same, ticket, 0), right=True).clamp(max=sampler.span - 1)
    length = low + torch.where(same, short, (rest % everywhere) >> BITS)
    left = (when - length + 1).clamp(min=0)
    right = (time - length - when).clamp(min=0)
    start = scale(place, torch.where(same, left + right, time - length + 1))
    start = torch.where(same & (start >= left), start - left + when + 1, start)
    new = length, torch.where(same, where, other + (other >= where)), start
    return Drawn(*(torch.where(covers, *pair) for pair in zip(new, drawn, strict=True)))


def _missing_weights(when: Tensor, bounds: Sequence[Tensor], span: int) -> Tensor:
    """Sum up, over lengths, the share of starts that miss step ``when``, in units of 2^-30.

    Integers, so that the choice of a length is the same on every device.
    """
    time, low, high = bounds
    length = low + torch.arange(span, device=when.device)
    starts = (time - length + 1).clamp(min=1)
    covering = torch.minimum(torch.minimum(length, starts), torch.minimum(when + 1, time - when))
    return torch.where(length <= high, ((starts - covering) << BITS) // starts, 0).cumsum(-1)


# Single cells, each held by itself
#
# In each mask every cell is active with probability :math:`p`, independently of the others. Over the :math:`S`
# points of a series a cell has :math:`N = \lceil pS \rceil` turns, or one less, spread over the path: the points
# are cut into :math:`N` runs as equal as can be, each has a turn at a random place, one of them none where there
# is one less, and all turns are rotated by a random number of points. Places and rotation are the cell's own. By
# the rotation each point is as likely as any other. Where :math:`p` is above one half, the same is done with what
# is held.


def balanced_cells(stream: Tensor, sampler: SegmentSampler, points: int, before: int = 0) -> Tensor:
    """Draw masks of single cells, (series, points, time, channel), from a stream (2, series).

    ``before`` is how many points a series had in earlier stages, which the turns of a cell go on from.
    """
    series, steps = sampler.p_active.shape
    inverted = sampler.free > ONE // 2
    rate = ONE - sampler.free if inverted else sampler.free
    turns = max(1, -(-rate * points >> 32))
    edges = torch.arange(turns + 1, device=stream.device)[:, None] * points // turns
    masks = torch.empty(series, points, steps * sampler.channels, dtype=torch.bool, device=stream.device)
    root = split(stream, FAR)[..., None]
    size = max(1, AT_ONCE // (series * max(turns, points // 4)))
    for first in range(0, masks.shape[2], size):
        cell = torch.arange(first, min(first + size, masks.shape[2]), device=stream.device)
        own = split(root, cell)[:, :, None]  # (2, series, 1, cells)
        phase = bits(own, torch.arange(FAR, FAR + 1, device=stream.device)[:, None])
        full = (phase + rate * (before + points) >> 32) - (phase + rate * before >> 32) == turns
        word = bits(own, 2 * before + torch.arange(turns + 1, device=stream.device)[:, None])
        place = word[:, 1:].mul_(edges.diff(dim=0)).add_(edges[:-1] << 32).add_(scale(word[:, :1], points) << 32)
        place >>= 32
        twice = torch.full((series, 2 * points, len(cell)), inverted, device=stream.device)
        twice.scatter_(1, place[:, 1:], value=not inverted).scatter_(1, place[:, :1], full ^ inverted)
        here = masks[:, :, first : first + len(cell)]
        (torch.bitwise_and if inverted else torch.bitwise_or)(twice[:, :points], twice[:, points:], out=here)
    return masks.view(series, points, steps, sampler.channels)


def independent_cells(stream: Tensor, sampler: SegmentSampler) -> Tensor:
    """Draw masks of single cells, each cell of each mask for itself, from a stream (2, series, points)."""
    series, points = stream.shape[1:]
    steps = sampler.p_active.shape[1]
    cell = torch.arange(steps * sampler.channels, device=stream.device)
    return (bits(stream[..., None], cell) < sampler.free).view(series, points, steps, sampler.channels)


# Masks that leave no observed cell out, with weights that keep the estimate exact
#
# A share of the masks is drawn given that an anchor cell is active. Taken together, the :math:`S` masks of a
# series with anchors :math:`a_1, \dots, a_m` (the rest has none) come from the mixture with density
#
# .. math:: q(M) = p(M) \Big[ 1 - \tfrac{m}{S} + \tfrac{1}{S} \sum_j M_{a_j} / p_{a_j} \Big],
#
# so each mask is weighted by :math:`w(M) = p(M) / q(M)`.


class MaskSample(NamedTuple):
    """The masks of a block of series, True where a cell moves, and their weights."""

    masks: Tensor  # (series, points, time, channel)
    weights: Tensor | None  # (series, points); None if all are equal
    anchors: Tensor  # (series, points): the flat cell each mask was anchored on, or -1
    streams: Tensor  # (2, series, points)
    order: Tensor  # (series, points): in which order points are redrawn, last first
    unseen: Tensor  # (): whether some observed cell never moves


def draw_masks(stream: Tensor, sampler: SegmentSampler, observed: Tensor, points: int) -> MaskSample:
    """Draw all masks of a block from a stream (2, series).

    The sampler says which share of the points is anchored, and for which series: on cells spread evenly over the
    observed ones, (series, time, channel).
    """
    streams = fold_in(stream, points)
    lottery = bits(stream[..., None], FAR + torch.arange(points + 1, device=stream.device))
    order = lottery[:, :points].argsort(dim=1, stable=True)
    anchors = _spread(lottery[:, points:], observed, order, sampler) if sampler.share else None
    masks = sample_masks(streams, sampler, anchors)
    weights = None if anchors is None else _weights(masks, anchors, sampler.p_active)
    anchors = torch.full_like(order, -1) if anchors is None else anchors
    return MaskSample(masks, weights, anchors, streams, order, _unseen(observed, masks).any())


def cover_all_cells(drawn: MaskSample, sampler: SegmentSampler, observed: Tensor) -> MaskSample:
    """Redraw masks until every observed cell moves at least once, as far as the points allow."""
    masks, anchors, order = drawn.masks, drawn.anchors, drawn.order
    points = order.shape[1]
    for last in [*(2**power for power in range(1, points.bit_length()) if 2**power < points), points]:
        rows = (_unseen(observed, masks) & ~sampler.single).nonzero()[:, 0]
        if len(rows) == 0:
            break
        some = MaskSample(masks[rows], None, anchors[rows], drawn.streams[:, rows], order[rows], drawn.unseen)
        _redraw(some, sampler.rows(rows), observed[rows], last)
        masks[rows], anchors[rows] = some.masks, some.anchors
    return drawn._replace(weights=_weights(masks, anchors, sampler.p_active))


def _unseen(observed: Tensor, masks: Tensor) -> Tensor:
    """Tell for each series whether an observed cell never moves."""
    return (observed & (masks.view(torch.uint8).amax(1) == 0)).flatten(1).any(1)  # any(1) is 30 times slower


def _spread(word: Tensor, observed: Tensor, order: Tensor, sampler: SegmentSampler) -> Tensor:
    """Anchor the last points of ``order`` on observed cells at even distances; -1 elsewhere.

    Cells are counted channel by channel: step by step, a distance that is a multiple of the number of channels
    would put every anchor of a series into one channel.
    """
    points, (_, time, channels) = order.shape[1], observed.shape
    count = int(sampler.share * points)  # rounded down: some mask must come from the family itself
    running = observed.transpose(1, 2).flatten(1).cumsum(1)
    available = running[:, -1:]
    index = torch.arange(count, device=order.device) << 16
    position = (index + scale(word, 1 << 16)) * available // (count << 16)  # which observed cell
    cell = torch.searchsorted(running, position + 1).clamp(max=running.shape[1] - 1)
    cell = cell % time * channels + cell // time
    wanted = (available > 0) & (sampler.anchored[:, None] > 0)
    return torch.full_like(order, -1).scatter_(1, order[:, points - count :], torch.where(wanted, cell, -1))


def _redraw(drawn: MaskSample, sampler: SegmentSampler, observed: Tensor, last: int) -> None:
    """Redraw the last points of the order one after the other, each anchored on a cell still unseen, in place.

    The order is random, not that of the path, so that a cell seen late is not always seen near the input.
    """
    masks, anchors, order = drawn.masks, drawn.anchors, drawn.order[:, -last:]
    row = torch.arange(len(masks), device=masks.device)
    cells = FAR + torch.arange(masks[0, 0].numel(), device=masks.device)
    counted = torch.ones_like(drawn.order, dtype=torch.bool).scatter_(1, order, value=False)
    seen = (masks & counted[..., None, None]).view(torch.uint8).amax(1).bool()  # as in _unseen
    for point in order.unbind(1):
        unseen = (observed & ~seen).flatten(1)
        stream = drawn.streams[:, row, point, None]
        lottery = torch.where(unseen, bits(stream, cells), -1).argmax(1)
        anchor = torch.where(unseen.any(1), lottery, anchors[row, point])
        mask = sample_masks(stream, sampler, anchor[:, None])[:, 0]  # the same anchor gives the same mask
        masks[row, point], anchors[row, point] = mask, anchor
        seen |= mask


def _weights(masks: Tensor, anchors: Tensor, p_active: Tensor) -> Tensor:
    points, channels = masks.shape[1], masks.shape[3]
    cell = anchors.clamp(min=0)
    anchored = (anchors >= 0).to(p_active.dtype)
    boost = anchored / (points * p_active.gather(1, cell // channels).clamp(min=torch.finfo(p_active.dtype).tiny))
    flat = masks.flatten(2)
    if points < flat.shape[2]:  # look at the anchors only, or at all cells, whichever are fewer
        total = (flat.gather(2, cell[:, None].expand(-1, points, -1)) * boost[:, None]).sum(2)
    else:
        boosts = torch.zeros_like(flat[:, 0], dtype=p_active.dtype).scatter_add_(1, cell, boost)
        total = torch.where(flat, boosts[:, None], 0).sum(2)
    return 1 / (1 - anchored.mean(1, keepdim=True) + total)
