"""Designs of masks and path positions, each for a given number of model passes.

All masks follow TIMING's law, or a mixture that is undone by exact weights. Positions are strata of the path in an
order of their own, so that a mask's position is uniform whatever the mask.
"""

import torch
from torch import Tensor

from sampling_case import Case, Points
from sampling_estimates import ratio
from tempograd.core.rng import FAR, bits, fold_in, split
from tempograd.sampling.segments import SegmentSampler, paint, placement_bits, sample_segments

FULL = 1 << 32


def sample_masks(
    streams: Tensor, sampler: SegmentSampler, anchor: Tensor | None = None, *, base: Tensor | None = None
) -> Tensor:
    """Draw masks from the words of a design, by default independent ones of the streams."""
    base = placement_bits(streams, sampler) if base is None else base
    return paint(sample_segments(base, sampler, streams, anchor), sampler)


def positions(case: Case, points: int, kind: str, use: int = 0) -> Tensor:
    """Strata of the path in random order, (rows, points): their left ends, middles or a random place in each."""
    lottery = bits(case.stream[..., None], FAR + (use << 20) + torch.arange(2 * points, device=case.stream.device))
    rank = lottery[:, :points].argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    place = {"left": 0.0, "mid": 0.5}.get(kind, lottery[:, points:].double() / FULL)
    return ((rank + place) / points).float()


def latin(case: Case, points: int, use: int = 0) -> Tensor:
    """Words for the segments, each spread evenly over the points: one in every stratum, in random order."""
    streams = fold_in(split(case.stream, FAR + 77 + use), points)
    drawn = bits(streams[..., None, None], torch.arange(2 * case.sampler.most, device=streams.device).view(2, -1))
    rank = bits(
        streams[..., None, None], FAR + torch.arange(2 * case.sampler.most, device=streams.device).view(2, -1)
    )
    rank = rank.argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    return ((rank << 32) + drawn) // points


def sobol(case: Case, points: int) -> tuple[Tensor, Tensor]:
    """Sobol' points with a digital shift of their own for each series: words for the segments, and positions."""
    size = 2 * case.sampler.most + 1
    net = (
        (torch.quasirandom.SobolEngine(size).draw(points, dtype=torch.float64) * FULL)
        .long()
        .to(case.stream.device)
    )
    shift = bits(case.stream[..., None], FAR + (9 << 20) + torch.arange(size, device=case.stream.device))
    shifted = net ^ shift[:, None]
    return shifted[..., 1:].view(case.rows, points, 2, -1), (shifted[..., 0].double() / FULL).float()


def independent(case: Case, points: int, kind: str) -> Points:
    return case.differentiate(
        sample_masks(fold_in(case.stream, points), case.sampler), positions(case, points, kind)
    )


def stratified(case: Case, points: int, kind: str) -> Points:
    streams = fold_in(case.stream, points)
    return case.differentiate(
        sample_masks(streams, case.sampler, base=latin(case, points)), positions(case, points, kind)
    )


def quasi(case: Case, points: int) -> Points:
    base, alpha = sobol(case, points)
    return case.differentiate(sample_masks(fold_in(case.stream, points), case.sampler, base=base), alpha)


def antithetic(case: Case, points: int) -> Points:
    """Each mask with its mirror image (every word w becomes 1 - w), at mirrored positions."""
    half = points // 2
    base = latin(case, half)
    alpha = positions(case, half, "jitter")
    both = torch.cat([base, FULL - 1 - base], 1)
    return case.differentiate(
        sample_masks(fold_in(case.stream, 2 * half), case.sampler, base=both), torch.cat([alpha, 1 - alpha], 1)
    )


def shared(case: Case, points: int, per_mask: int) -> Points:
    """Fewer masks, each at several positions, evenly apart."""
    count = points // per_mask
    masks = sample_masks(fold_in(case.stream, count), case.sampler, base=latin(case, count))
    alpha = positions(case, count, "jitter") / per_mask
    alpha = torch.cat([alpha + k / per_mask for k in range(per_mask)], 1)
    return case.differentiate(masks.repeat(1, per_mask, 1, 1), alpha)


def far_ends(case: Case, points: int) -> Points:
    """Jittered positions, and one more pass per mask, forward only, at the far end of its path."""
    drawn = stratified(case, points, "jitter")
    return drawn._replace(whole=case.far_end(drawn.masks))


def spread(case: Case, wanted: Tensor, count: int, points: int, use: int) -> Tensor:
    """Anchor ``count`` of the points, at random places, on cells at even distances of the cumulated ``wanted``."""
    time, channels = case.block.x.shape[1:]
    wanted = wanted.view(-1, time, channels).transpose(
        1, 2
    )  # channel by channel: in steps of time they would align
    running = wanted.flatten(1).double().cumsum(1)
    lottery = bits(case.stream[..., None], FAR + (use << 20) + torch.arange(points + 1, device=wanted.device))
    shift = lottery[:, points:].double() / FULL
    at = (torch.arange(count, device=wanted.device) + shift) / max(count, 1) * running[:, -1:]
    cell = torch.searchsorted(running, at, right=True).clamp(max=running.shape[1] - 1)
    cell = cell % time * channels + cell // time
    order = lottery[:, :points].argsort(dim=1, stable=True)
    return torch.full_like(order, -1).scatter_(1, order[:, :count], cell)


def boost(case: Case, masks: Tensor, anchors: Tensor) -> Tensor:
    """Sum over the anchors of M_a / p_a, for each mask, (rows, points)."""
    channels, cell = masks.shape[3], anchors.clamp(min=0)
    share = (anchors >= 0) / case.sampler.p_active.gather(1, cell // channels).clamp(min=1e-30)
    sizes = torch.zeros_like(masks[:, 0].flatten(1), dtype=share.dtype).scatter_add_(1, cell, share)
    return torch.einsum("rsc,rc->rs", masks.flatten(2).to(share.dtype), sizes)


def anchored(case: Case, points: int, share: float, kind: str, by: str = "cells") -> Points:
    """Draw a share of the masks around cells spread evenly over the observed ones, or by how far they move."""
    wanted = case.block.observed.to(case.clean.dtype)
    if by == "way":
        way = (case.block.x - case.block.baseline).abs()
        wanted = wanted / wanted.flatten(1).sum(1)[:, None, None] + way / way.flatten(1).sum(1)[:, None, None]
    anchors = spread(case, wanted, round(share * points), points, 5)
    masks = sample_masks(fold_in(case.stream, points), case.sampler, anchors)
    without = (anchors < 0).sum(1, keepdim=True)
    weight = points / (without + boost(case, masks, anchors))
    return case.differentiate(masks, positions(case, points, kind), weight, anchors)


def piloted(
    case: Case,
    points: int,
    shares: tuple[float, float],
    tilt: float = 0.0,
    power: float = 0.5,
    pilot: float = 0.2,
    smooth: bool = False,
    strata: bool = True,
    per_mask: int = 1,
    stagewise: bool = False,
) -> Points:
    """Let a pilot say where effects are; anchor the rest there and, with ``tilt``, place it where they arise."""
    first = max(5, round(pilot * points))
    second = points - first
    even = spread(case, case.block.observed, round(shares[0] * first), first, 5)
    streams = fold_in(case.stream, points)
    early = sample_masks(streams[:, :, :first], case.sampler, even, base=latin(case, first))
    weight = first / ((even < 0).sum(1, keepdim=True) + boost(case, early, even))
    scout = case.differentiate(early, positions(case, first, "jitter"), weight)

    wanted = _wanted(case, scout, power)
    anchors = spread(case, wanted, round(shares[1] * second), second, 6)
    count = second // per_mask
    anchors = anchors if per_mask == 1 else spread(case, wanted, round(shares[1] * count), count, 6)
    base = latin(case, count, 1) if strata else None
    late = sample_masks(streams[:, :, first : first + count], case.sampler, anchors, base=base)
    density = _density(scout, tilt)
    alpha = positions(case, count, "jitter", 2) / per_mask
    alpha = _inverse(density, torch.cat([alpha + k / per_mask for k in range(per_mask)], 1))
    late = late.repeat(1, per_mask, 1, 1)
    rest = case.differentiate(late, alpha)

    masks, alpha = torch.cat([early, late], 1), torch.cat([scout.alpha, alpha], 1)
    bins = density.shape[1]
    height = density.gather(1, (alpha * bins).long().clamp(0, bins - 1))
    fore = (even < 0).sum(1, keepdim=True) + boost(case, masks, even)
    if smooth:
        share = (
            wanted
            / wanted.sum(1, keepdim=True)
            / case.sampler.p_active.repeat_interleave(masks.shape[3], 1).clamp(min=1e-30)
        )
        aft = second * (1 - shares[1] + shares[1] * torch.einsum("rsc,rc->rs", masks.flatten(2).float(), share))
    else:
        aft = ((anchors < 0).sum(1, keepdim=True) + boost(case, masks, anchors)) * per_mask
    weight = points / (fore + height * aft)
    if stagewise:
        weight = torch.cat([first / fore[:, :first], second / (height * aft)[:, first:]], 1)
    effect, score = (torch.cat([a, b], 1) for a, b in ((scout.effect, rest.effect), (scout.score, rest.score)))
    return Points(masks, alpha, weight, effect, score)


def _wanted(case: Case, scout: Points, power: float) -> Tensor:
    """Where to put anchors: half evenly, half by the pilot's map, where unseen cells count as its mean."""
    seen, observed = scout.masks.any(1), case.block.observed.flatten(1)
    size = ratio(scout).abs().pow(power)
    mean = size.flatten(1).sum(1) / seen.flatten(1).sum(1).clamp(min=1)
    size = torch.where(seen, size, mean[:, None, None]).flatten(1) * observed
    share = size / size.sum(1, keepdim=True).clamp(min=1e-30)
    return share + observed / observed.sum(1, keepdim=True).clamp(min=1)


def _density(scout: Points, tilt: float, bins: int = 32, width: float = 0.1) -> Tensor:
    """How densely to place positions, by the size of the pilot's effects nearby; ``1 - tilt`` of it is even."""
    middle = (torch.arange(bins, device=scout.alpha.device) + 0.5) / bins
    near = (-(((middle[:, None] - scout.alpha[:, None]) / width) ** 2) / 2).exp()
    size = (scout.effect * scout.masks).abs().flatten(2).sum(2) * scout.weight
    level = ((near * size[:, None] ** 2).sum(2) / near.sum(2).clamp(min=1e-9)).sqrt()
    return 1 - tilt + tilt * level / level.mean(1, keepdim=True).clamp(min=1e-30)


def _inverse(density: Tensor, uniform: Tensor) -> Tensor:
    """Move uniform positions so that they follow a density given in bins."""
    bins = density.shape[1]
    edges = torch.cat([torch.zeros_like(density[:, :1]), density.cumsum(1) / bins], 1)
    edges = edges / edges[:, -1:]
    index = (torch.searchsorted(edges, uniform, right=True) - 1).clamp(0, bins - 1)
    low, high = edges.gather(1, index), edges.gather(1, index + 1)
    return ((index + (uniform - low) / (high - low).clamp(min=1e-12)) / bins).clamp(0, 1)
