r"""Values of other series as the baseline: a pool, and whose values each sample of a series is compared with.

Rows of the pool are drawn anew for every sample. For :math:`n` samples and a pool of :math:`R` rows the range of
rows is cut into :math:`n` equal parts, which go to the samples in random order, and

.. math:: r_i = \Big\lfloor \frac{R \, (\pi_i + u_i)}{n} \Big\rfloor, \qquad u_i \sim \mathrm{U}(0, 1),

with a random permutation :math:`\pi`: each row is as likely as any other for every sample, and over all samples of
a series no row comes much more often than another, so that a pool larger than the samples gives each row once at
most, up to the edges of the parts. Rows are in the order of a hash of their values: neither the order of the pool
nor the company of a series changes a draw. Rows that equal the explained series in every cell lie next to each
other in that order and are left out.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, arg
from tempograd.core.rng import FAR, Stream, bits, keys, split
from tempograd.engine.batching import CELLS, slices
from tempograd.typing import Picker

FINE = 22  # bits of a place within a part: with the part and the row, no product leaves 64 bits
HASHED = 2**22  # cells that are hashed at once
WORDS = {torch.float64: torch.int32, torch.float32: torch.int32}  # others are half as wide
LOOKS, LOOKED = 16, 1 << 10  # series whose mean score stands for that of the pool, and the stage that draws them

Starts = Callable[[slice], Tensor]
"""Looks up what some samples of each series are compared with, (series, samples, time, channel)."""


class Block(NamedTuple):
    """A few series on the model's device. Cells that were not observed have their own value as baseline."""

    rows: slice
    x: Tensor  # (series, time, channel)
    baseline: Tensor
    observed: Tensor
    ids: Tensor  # (series,)
    lengths: Tensor  # (series,)
    index: Tensor  # type: ignore[assignment]  # (series,), which of all series they are; hides tuple.index
    target: Tensor | Picker | None = None  # (series,), (series, time) or a function; None before it was read
    steps: Tensor | Literal["own"] | None = None  # (series, time), "own" or None
    clean_score: Tensor | None = None  # (series, …): score of the series themselves, known with the target
    background: "Background | None" = None  # whose values samples are compared with, instead of the baseline

    def take(self, kept: Tensor) -> "Block":
        """Go on with some of the series; ``rows`` stays that of all."""
        return Block(*(part[kept] if isinstance(part, Tensor) else part for part in self))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Background:
    """A pool of series, in the order of their marks, from which the baselines of samples are drawn."""

    pool: Tensor  # (rows, time, channel), as the model is called with them
    marks: Tensor  # (rows,), hashes of the rows, in order
    mean: Tensor  # (time, channel), in double precision as the next
    spread: Tensor  # (time, channel), variance over the rows
    seed: int
    purpose: Stream

    @classmethod
    def of(cls, pool: Any, x: Tensor, seed: int, place: tuple[torch.device, torch.dtype], purpose: Stream) -> Self:
        """Lay a pool ready for series ``x``, as the model is called with them, on its device if there is room."""
        device, dtype = place
        pool = validation.check_series(pool, "background")
        if pool.shape[1:] != x.shape[1:]:
            raise InputError(
                f"The background series have shape {tuple(pool.shape[1:])}, x has {tuple(x.shape[1:])}: pass "
                f"series of the same length and channels as {arg:question.background}."
            )
        pool = pool.to(dtype) if pool.numel() > CELLS else pool.to(device, dtype)
        marks, order = marks_of(pool).sort(stable=True)
        alike = bool(marks[0] == marks[-1])
        if alike and bool((marks_of(x.to(dtype)).to(marks.device) == marks[0]).any()):
            raise InputError(
                f"{arg:question.background} holds nothing but the explained series itself: pass others, such as "
                "training series."
            )
        pool = pool[order]
        mean = pool.mean(0, dtype=torch.float64)
        some = slices(len(pool), max(1, HASHED // pool[0].numel()))
        spread = sum((pool[rows].double() - mean).square().sum(0) for rows in some) / len(pool)
        return cls(pool, marks.to(device), mean.to(device), spread.to(device), seed, purpose)

    @property
    def fingerprint(self) -> str:
        """Name the pool by a hash of its values, whatever their order."""
        return f"{len(self.pool)} series:{hashlib.sha256(self.marks.cpu().numpy().tobytes()).hexdigest()[:16]}"

    def starts(self, block: Block, samples: int, stage: int = 0, *, group: int | None = None) -> Starts:
        """Draw for each sample of the series of a block what it is compared with.

        Cells that were not observed stay what they are. Each ``stage`` has draws of its own. Draws are spread
        evenly over the samples of a stage, or over those of each ``group``, whatever number of samples there are.
        """
        stages = [stage] if group is None else range(-(-samples // group))
        parts = [self.rows(block.x, block.ids, group or samples, each) for each in stages]
        rows = torch.cat(parts, 1).to(self.pool.device)

        def look_up(batch: slice) -> Tensor:
            drawn = self.pool[rows[:, batch]].to(block.x.device)
            return torch.where(block.observed[:, None], drawn, block.x[:, None])

        return look_up

    def rows(self, x: Tensor, ids: Tensor, samples: int, stage: int = 0) -> Tensor:
        """Return the rows of the pool that each sample of some series gets, (series, samples)."""
        stream = keys(self.seed, ids, self.purpose)
        if stage:
            stream = split(stream, FAR - stage)
        first, stop = self._own(x)
        number = FAR + torch.arange(samples, device=ids.device)
        part = bits(stream[..., None], number).argsort(dim=1, stable=True)
        place = (part << FINE) + (bits(stream[..., None], number + samples) >> (32 - FINE))
        row = place * (len(self.pool) - (stop - first)) // (samples << FINE)
        return row + torch.where(row >= first, stop - first, 0)

    def displacement(self, block: Block) -> Tensor:
        """Return how far the cells of some series are from the pool: root mean squares, 0 where not observed."""
        return (self.spread + (block.x.double() - self.mean).square()).sqrt().to(block.x).where(block.observed, 0)

    def mean_step(self, block: Block) -> Tensor:
        """Return how far they are from the mean of what can be drawn for them, 0 where not observed."""
        first, stop = self._own(block.x)
        share = len(self.pool) / (len(self.pool) - (stop - first)).double()  # of the pool, the rest
        return ((block.x.double() - self.mean) * share[..., None]).to(block.x).where(block.observed, 0)

    def _own(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return from and up to which row the pool holds each series itself, (series, 1)."""
        marks = marks_of(x)
        first, stop = (torch.searchsorted(self.marks, marks, right=right)[:, None] for right in (False, True))
        return first, stop


def marks_of(x: Tensor) -> Tensor:
    """Hash the values of each series, (series,): a sum over cells of keyed permutations of their bits.

    Examples
    --------
    >>> x = torch.tensor([[[0.5], [2.0]], [[2.0], [0.5]], [[0.5], [2.0]]])
    >>> one, other, same = marks_of(x)
    >>> bool(one == same), bool(one == other)
    (True, False)
    """
    cells = (x.flatten(1) + 0.0).contiguous().view(WORDS.get(x.dtype, torch.int16))  # no bit may tell -0 from 0
    stream = keys(0, torch.arange(cells.shape[1], device=x.device), Stream.MARKS)
    other = split(stream, 1)
    parts = []
    for rows in slices(len(x), max(1, HASHED // cells.shape[1])):
        word = cells[rows].to(torch.int64) & 0xFFFFFFFF
        high, low = (bits(each[:, None], word).sum(1) for each in (stream, other))
        parts.append(((high & 0x7FFFFFFF) << 32) | (low & 0xFFFFFFFF))
    return torch.cat(parts)
