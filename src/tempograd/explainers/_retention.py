r"""How often a cell is free of random segments, in closed form, and settings that follow from it.

A mask holds :math:`n` segments. Each has a length :math:`l` uniform on :math:`\{s_{\min}, \dots, s_{\max}\}`,
one channel uniform on the :math:`D` channels and a start uniform on :math:`\{0, \dots, T - l\}`.
Cell :math:`(t, d)` is free (it moves along the path) with probability

.. math:: p(t) = (1 - h(t) / D)^n, \qquad
    h(t) = \operatorname{mean}_l \frac{\#\{\text{starts that cover } t\}}{T - l + 1}.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tempograd.errors import SettingError, warn

RAREST = 1e-6  # a cell less often free than this cannot be estimated
Array = np.ndarray[tuple[int, ...], np.dtype[Any]]


@dataclass(frozen=True)
class Segments:
    """How masks are drawn for series of one length: completed and checked."""

    time: int
    channels: int
    count: int
    low: int
    high: int
    anchored: float = 0.0  # share of the points whose mask is drawn around a chosen cell

    def free(self) -> Array:
        """Return p(t), how likely a cell at step t is free.

        Examples
        --------
        >>> Segments(time=3, channels=1, count=1, low=2, high=2).free()
        array([0.5, 0. , 0.5])
        """
        return np.asarray((1 - _hit(self.time, self.low, self.high) / self.channels) ** self.count)

    def __str__(self) -> str:
        return f"segments={self.count}, min_length={self.low}, max_length={self.high}"


@lru_cache(maxsize=4096)
def complete(
    time: int, channels: int, count: int | None, low: int | None, high: int | None, longest: int
) -> Segments:
    """Fill in what was left open, so that about half of the cells are free, and fit it to the length.

    ``longest`` is the length of the batch; a series that ends sooner gets its segments cut to its own.
    """
    for name, length in (("max_length", high), ("min_length", low)):
        if length is not None and length > longest:
            raise SettingError(f"{name}={length} does not fit series of {longest} steps: pass at most {longest}.")
    if high is None:
        high = max(low or 1, round(time / 3))
    if low is None:
        low = min(high, max(1, round(time / 10)))
    low, high = min(low, time), min(high, time)
    if count is None:
        count = _half(_hit(time, low, high) / channels)
    return Segments(time, channels, count, low, high)


@lru_cache(maxsize=4096)
def _hit(time: int, low: int, high: int) -> Array:
    """Return h(t): how likely a segment in the cell's channel covers step t."""
    total = np.zeros(time)
    clock = np.arange(time)
    for first in range(low, high + 1, 256):
        length = np.arange(first, min(first + 256, high + 1))[:, None]
        covering = np.minimum(clock, time - length) - np.maximum(clock - length + 1, 0) + 1
        total += (covering / (time - length + 1)).sum(0)
    return total / (high - low + 1)


def _half(cover: Array) -> int:
    """Find the number of segments for which the mean free share is closest to one half."""
    if cover.max() >= 1:
        return 0  # a single segment already holds everything, as for one step and one channel
    guess = int(np.log(0.5) / np.log1p(-cover.mean()))
    candidates = np.arange(max(0, guess - 2), 2 * guess + 4)
    share = ((1 - cover) ** candidates[:, None]).mean(-1)
    return int(candidates[np.abs(share - 0.5).argmin()])


def warn_of_rare_cells(laws: list[Segments], points: int) -> None:
    """Warn, before anything runs, if some cell will be free in fewer than two points on average."""
    law = min(laws, key=lambda each: float(each.free().min()))
    rarest = max(float(law.free().min()), RAREST)  # what is held always was found to be unobserved
    if rarest * points < 2:
        warn(
            f"With {law} step {law.free().argmin()} is free in only {rarest * points:.2g} of {points} points on "
            f"average: expect large errors there; use points={int(2 / rarest) + 1} or shorter segments."
        )
