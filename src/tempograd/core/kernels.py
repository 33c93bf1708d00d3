"""Kernels for a GPU that go once over what torch goes over a dozen times; the same numbers, in Triton.

They are used where :func:`available` says so; elsewhere, and on a CPU, the same sums are products of matrices.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # torch for a CPU comes without
    triton = None

MANY = 64  # series from which on a kernel is worth its launch
CELLS_AT_ONCE, SUMMED_AT_ONCE = 1024, 128


@lru_cache
def available(device: torch.device) -> bool:
    """Tell whether kernels can be compiled for a device, which needs Triton and a C compiler."""
    if triton is None or device.type != "cuda":
        return False
    try:
        random_words(torch.zeros(2, 1, dtype=torch.int64, device=device), torch.arange(1, device=device))
    except Exception:  # a compiler can fail in any way, and torch does the same work
        return False
    return True


class CellSums(NamedTuple):
    """Sums over the cells of each path point, (series, points) each."""

    slope: Tensor  # effects of the active cells: gradient times displacement
    following: Tensor  # effects on the cells that are active in the next point; nothing for the last
    before: Tensor  # and in the one before; nothing for the first
    way: Tensor  # squared displacements of the active cells
    energy: Tensor  # squared effects of the active cells


def over_cells(gradient: Tensor, active: Tensor, displacement: Tensor) -> CellSums:
    """Sum effects over cells.

    ``gradient`` is float32, (series, points, time, channel) in any layout, ``active`` the same in bytes, 1 for
    active cells, ``displacement`` (series, time, channel).
    """
    series, points, time, channels = gradient.shape
    sums = torch.empty(len(CellSums._fields), series, points, dtype=gradient.dtype, device=gradient.device)
    tensors = (gradient, active.contiguous(), displacement.contiguous(), sums)
    sizes = (points, time * channels, channels, *gradient.stride(), series * points)
    _over_cells[(series * points,)](*tensors, *sizes, BLOCK=CELLS_AT_ONCE)
    return CellSums(*sums)


def over_points(
    gradient: Tensor, active: Tensor, on_active: Tensor, on_effects: Tensor, on_squares: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Sum over the points of each cell: masks, masked gradients and their squares, each times some factors.

    Factors are (series, factors, points), results (series, factors, cells).
    """
    series, points, time, channels = gradient.shape
    cells = time * channels
    counts = [part.shape[1] for part in (on_active, on_effects, on_squares)]
    padded = [triton.next_power_of_2(count) for count in counts]
    # all factors of a point lie together, as they are read, and so do all sums of a factor
    factors = [part.transpose(1, 2).contiguous() for part in (on_active, on_effects, on_squares)]
    sums = [gradient.new_empty(count, series, cells) for count in counts]
    sizes = (points, cells, channels, *gradient.stride(), series * cells, *counts, SUMMED_AT_ONCE, *padded)
    blocks = (series, triton.cdiv(cells, SUMMED_AT_ONCE))
    # one warp, measured: 0.36 ms against 1.6 with four
    _over_points[blocks](gradient, active.contiguous(), *factors, *sums, *sizes, num_warps=1)
    first, second, third = (part.transpose(0, 1) for part in sums)
    return first, second, third


def on_paths(x: Tensor, difference: Tensor, active: Tensor, alpha: Tensor) -> Tensor:
    """Return x less 1 - alpha of the difference in active cells, (series, points, time, channel)."""
    series, points, cells = *active.shape[:2], x[0].numel()
    z = x.new_empty(active.shape)
    blocks = (series * points, triton.cdiv(cells, CELLS_AT_ONCE))
    tensors = (x.contiguous(), difference.contiguous(), active.contiguous(), alpha.contiguous(), z)
    _on_paths[blocks](*tensors, points, cells, BLOCK=CELLS_AT_ONCE)
    return z


def random_words(stream: Tensor, counter: Tensor) -> Tensor:
    """Return words of 32 bits as int64, (…, counters), of streams (2, …); see :mod:`tempograd.core.rng`."""
    keys, counter = stream.flatten(1).contiguous(), counter.contiguous()
    rows, columns = keys.shape[1], counter.numel()
    words = torch.empty(rows, columns, dtype=torch.int64, device=stream.device)
    if words.numel():  # nothing may be asked for: masks that hold nothing have no segments
        block = min(1024, triton.next_power_of_2(columns))
        _random_words[(rows, triton.cdiv(columns, block))](keys, counter, words, rows, columns, BLOCK=block)
    return words.view(*stream.shape[1:], *counter.shape)


if triton is not None:

    @triton.jit
    def _random_words(keys, counter, words, rows, columns, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = column < columns
        first, second = tl.load(keys + row).to(tl.uint32), tl.load(keys + rows + row).to(tl.uint32)
        h = first ^ tl.load(counter + column, mask=inside, other=0).to(tl.uint32)
        h = (h ^ (h >> 16)) * 0x21F0AAAD
        h = (h ^ (h >> 15)) * 0x735A2D97
        h = (h ^ (h >> 15)) + second
        tl.store(words + row * columns + column, h.to(tl.int64), mask=inside)

    @triton.jit
    def _on_paths(x, difference, active, alpha, z, points, cells, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        series, point = row // points, row % points
        cell = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = cell < cells
        back = tl.load(alpha + point) - 1
        mask = tl.load(active + row * cells + cell, mask=inside, other=0).to(tl.float32)
        step = tl.load(difference + series * cells + cell, mask=inside, other=0)
        here = tl.load(x + series * cells + cell, mask=inside, other=0)
        tl.store(z + row * cells + cell, here + mask * back * step, mask=inside)

    @triton.jit
    def _over_cells(
        gradient,
        active,
        displacement,
        sums,
        points,
        cells,
        channels,
        series_stride,
        point_stride,
        time_stride,
        channel_stride,
        rows,
        BLOCK: tl.constexpr,
    ):
        row = tl.program_id(0).to(tl.int64)
        series, point = row // points, row % points
        slope = tl.zeros([BLOCK], tl.float32)
        following, before, way, energy = slope, slope, slope, slope
        here = gradient + series * series_stride + point * point_stride
        for start in range(0, cells, BLOCK):
            cell = start + tl.arange(0, BLOCK)
            inside = cell < cells
            at = (cell // channels).to(tl.int64) * time_stride + (cell % channels) * channel_stride
            moves = tl.load(displacement + series * cells + cell, mask=inside, other=0)
            effect = tl.load(here + at, mask=inside, other=0) * moves
            mask = active + row * cells + cell
            own = tl.load(mask, mask=inside, other=0).to(tl.float32)
            after = tl.load(mask + cells, mask=inside & (point + 1 < points), other=0).to(tl.float32)
            earlier = tl.load(mask - cells, mask=inside & (point > 0), other=0).to(tl.float32)
            slope += effect * own
            following += effect * after
            before += effect * earlier
            way += moves * moves * own
            energy += effect * effect * own
        tl.store(sums + row, tl.sum(slope))
        tl.store(sums + rows + row, tl.sum(following))
        tl.store(sums + 2 * rows + row, tl.sum(before))
        tl.store(sums + 3 * rows + row, tl.sum(way))
        tl.store(sums + 4 * rows + row, tl.sum(energy))

    @triton.jit
    def _over_points(
        gradient,
        active,
        on_active,
        on_effects,
        on_squares,
        active_sums,
        effect_sums,
        square_sums,
        points,
        cells,
        channels,
        series_stride,
        point_stride,
        time_stride,
        channel_stride,
        rows,
        n_active,
        n_effects,
        n_squares,
        BLOCK: tl.constexpr,
        PADDED_ACTIVE: tl.constexpr,
        PADDED_EFFECTS: tl.constexpr,
        PADDED_SQUARES: tl.constexpr,
    ):
        series = tl.program_id(0).to(tl.int64)
        cell = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = cell < cells
        at = (cell // channels).to(tl.int64) * time_stride + (cell % channels) * channel_stride
        a, e, s = tl.arange(0, PADDED_ACTIVE), tl.arange(0, PADDED_EFFECTS), tl.arange(0, PADDED_SQUARES)
        of_active = tl.zeros([PADDED_ACTIVE, BLOCK], tl.float32)
        of_effects = tl.zeros([PADDED_EFFECTS, BLOCK], tl.float32)
        of_squares = tl.zeros([PADDED_SQUARES, BLOCK], tl.float32)
        for point in tl.range(0, points, num_stages=3):
            row = series * points + point
            here = gradient + series * series_stride + point * point_stride
            moved = tl.load(here + at, mask=inside, other=0)
            mask = tl.load(active + row * cells + cell, mask=inside, other=0).to(tl.float32)
            first = tl.load(on_active + row * n_active + a, mask=a < n_active, other=0)
            second = tl.load(on_effects + row * n_effects + e, mask=e < n_effects, other=0)
            third = tl.load(on_squares + row * n_squares + s, mask=s < n_squares, other=0)
            moved = moved * mask
            of_active += first[:, None] * mask[None, :]
            of_effects += second[:, None] * moved[None, :]
            of_squares += third[:, None] * (moved * moved)[None, :]
        place, stored = (series * cells + cell)[None, :], inside[None, :]
        a, e, s = a[:, None].to(tl.int64), e[:, None].to(tl.int64), s[:, None].to(tl.int64)
        tl.store(active_sums + a * rows + place, of_active, mask=(a < n_active) & stored)
        tl.store(effect_sums + e * rows + place, of_effects, mask=(e < n_effects) & stored)
        tl.store(square_sums + s * rows + place, of_squares, mask=(s < n_squares) & stored)
