r"""Random numbers as a function of (seed, series id, draw), the same on every device.

A stateful generator gives a series other draws when its company changes. Here every draw is a keyed
permutation of a counter, computed with integers that never overflow, so CPU and GPU agree bit for bit:

.. math:: w(k, c) = k_1 + h(k_0 \oplus c) \bmod 2^{32},

where :math:`h` is an invertible 32-bit mixer (two xor-shift-multiply rounds) and the key
:math:`(k_0, k_1)` absorbs the seed, the id and any further words through the same mixer. A stream is the
int64 tensor of its two lanes, (2, …). Both multipliers are below :math:`2^{31}`, so products fit.
"""

from enum import IntEnum, unique

import numpy as np
import torch
from torch import Tensor

FAR = 1 << 31  # counters from here on are free for other uses than the points of a path
_MASK = 0xFFFFFFFF
_FIRST, _SECOND = 0x21F0AAAD, 0x735A2D97
_LANES = (0x243F6A88, 0x13198A2E)  # digits of pi: nothing up the sleeve


@unique
class Stream(IntEnum):
    """What random numbers are for; each use of one seed has its own."""

    SEGMENTS = 0
    CELLS = 1
    BASELINES = 2
    SCORES = 3
    REPLACEMENTS = 4
    LATENTS = 5
    PERTURBATIONS = 6
    GATES = 7
    SIGNS = 8
    TIES = 10
    BACKGROUND = 11
    REMOVALS = 12
    MARKS = 13
    SAMPLES = 14


def keys(seed: int, ids: Tensor, purpose: int) -> Tensor:
    """One stream per id, (2, series); ``purpose`` keeps the uses of one seed apart.

    Examples
    --------
    >>> alone, crowd = (randint(keys(7, torch.tensor(ids), 0), 0, 1000) for ids in ([5], [3, 5, 9]))
    >>> bool(alone[0] == crowd[1])
    True
    """
    ids = ids.to(torch.int64)
    low, high = ids & _MASK, (ids >> 32) & _MASK
    lanes = (_absorb(lane, seed & _MASK, (seed >> 32) & _MASK, purpose) for lane in _LANES)
    return split(_mix_(torch.stack([low ^ lane for lane in lanes])), high)


def split(stream: Tensor, counter: Tensor | int) -> Tensor:
    """Derive streams from streams; ``counter`` broadcasts against the keys."""
    return _mix_(stream ^ counter)


def fold_in(stream: Tensor, points: int) -> Tensor:
    """One stream per point of each series' path, (2, series, points)."""
    return split(stream[..., None], torch.arange(points, device=stream.device))


def bits(stream: Tensor, counter: Tensor | int) -> Tensor:
    """Uniform 32-bit words, as int64; counters are below :math:`2^{32}`."""
    if not isinstance(counter, Tensor) or {stream.device.type, counter.device.type} != {"cpu"}:
        return _mix_(stream[0] ^ counter).add_(stream[1]).bitwise_and_(_MASK)
    # with words of 32 bits, which torch has no arithmetic for, it takes less than half the time
    first, second = stream.numpy().astype(np.uint32)
    h = np.asarray(first ^ counter.numpy().astype(np.uint32))
    for shift, factor in ((16, _FIRST), (15, _SECOND)):
        h ^= h >> np.uint32(shift)
        h *= np.uint32(factor)
    h ^= h >> np.uint32(15)
    h += second
    return torch.from_numpy(h.astype(np.int64))


def randint(stream: Tensor, counter: Tensor | int, bound: Tensor | int) -> Tensor:
    """Integers uniform on 0 … bound-1, for bounds up to :math:`2^{31}`."""
    return scale(bits(stream, counter), bound)


def scale(word: Tensor, bound: Tensor | int) -> Tensor:
    """Turn 32-bit words into integers on 0 … bound-1."""
    return (word * bound) >> 32


def uniform(stream: Tensor, counter: Tensor | int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers uniform on the open interval (0, 1)."""
    return ((bits(stream, counter) >> 9).to(dtype) + 0.5) * 2.0**-23


def normal(stream: Tensor, counter: Tensor | int) -> Tensor:
    """Return standard normal numbers, as float64."""
    drawn: Tensor = torch.special.ndtri(uniform(stream, counter, torch.float64))
    return drawn


def _absorb(lane: int, *parts: int) -> int:
    """Absorb words that are known on the host, where it costs nothing."""
    for part in parts:
        lane ^= part
        lane = (lane ^ (lane >> 16)) * _FIRST & _MASK
        lane = (lane ^ (lane >> 15)) * _SECOND & _MASK
        lane ^= lane >> 15
    return lane


def _mix_(h: Tensor) -> Tensor:
    """Permute 32-bit words in place."""
    h ^= h >> 16
    h.mul_(_FIRST).bitwise_and_(_MASK)
    h ^= h >> 15
    h.mul_(_SECOND).bitwise_and_(_MASK)
    h ^= h >> 15
    return h
