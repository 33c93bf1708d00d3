"""Whether the gradient is that of the score: the evidence of all series, judged."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import torch
from torch import Tensor

from tempograd.engine.evidence import CURVED, EDGE, NAMES, NOISE

GAP, STAYS, LARGE = 0.1, 0.08, 0.35  # between neighbours: share of the change that gradients may miss
NEARBY, PART = 0.6, 0.5  # the same nearby, where the slope is at least that part of the map's size
OFF = 0.1  # share of the change that may be missing along the path
SURE, ENOUGH = 4.0, 10  # standard errors, and the points that it takes to have one
STEEP = 5.0  # times the change per length of the path
OFTEN = 8.0  # times the change that neighbours far from x may miss together
LOOKED = 25  # points below which a path was hardly looked at: then more of them come first
JUMP = 0.05  # share of the change that may happen at once
TINY = torch.finfo(torch.float64).tiny


class Found(IntEnum):
    """What the check of a series found."""

    UNKNOWN = 0
    AGREES = 1
    STEEP = 2
    JUMPS = 3
    WRONG = 4


WORDS = ("unknown", "agrees", "steep", "jumps", "wrong")


@dataclass(frozen=True, eq=False)
class GradientCheck:
    """Whether each series' gradient is that of the score, told from scores nearby and along the path.

    Attributes
    ----------
    found : Tensor of shape (series,)
        0 unknown: all differences are lost in rounding. 1 agrees, as far as these points can see. 2 steep: slopes
        and scores along the path do not fit yet, but steep places were met, so more points help. 3 jumps: the
        score changes where the gradient knows of nothing. 4 wrong: the gradient is not that of the score.
    gap : Tensor of shape (series,)
        Share of the change between neighbouring path points in the half next to x that neither of their gradients
        explains.
    nearby : Tensor of shape (series, 2)
        Slope of the score over a tenth of the way to one side of a path point, and over a fortieth to the other
        side, minus the slope of the gradient, as a share of the slope. For a curved score they have different
        signs or shrink with the step; for a wrong gradient both are alike.
    missing : Tensor of shape (series,)
        Change of the score that slopes along the path miss, as a share of the change or, where that is larger, of
        all scores; 0 where it could be noise.
    jump : Tensor of shape (series,)
        Change of the score within a hundred-thousandth of the way from the baseline.
    seen : Tensor of shape (series,)
        The largest change of the score that a path point saw.
    """

    found: Tensor
    gap: Tensor
    nearby: Tensor
    missing: Tensor
    jump: Tensor
    seen: Tensor

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, rows: slice | Tensor | list[int]) -> Self:
        """Return the check of some of the series."""
        return type(self)(*(getattr(self, name)[rows] for name in PARTS))

    def __repr__(self) -> str:
        counts = [(word, int((self.found == code).sum())) for code, word in enumerate(WORDS)]
        told = [f"{word} in {count:,}" for word, count in counts if count]
        return f"GradientCheck({', '.join(told) or 'nothing'} of {len(self):,} series)"

    @property
    def failed(self) -> Tensor:
        """Return for which series the gradient is not that of the score, (series,)."""
        return self.found >= Found.JUMPS

    @property
    def beyond(self) -> Tensor:
        """Return how far the gradient lies outside the two slopes nearby, as a share of the slope, (series,)."""
        ahead, back = self.nearby.unbind(1)
        outside = torch.minimum(ahead.abs(), back.abs()) - CURVED * (ahead - back).abs()
        return torch.where(ahead * back > 0, outside, 0).clamp(min=0)


PARTS = tuple(GradientCheck.__dataclass_fields__)


def judge(table: Tensor, values: Tensor, change: Tensor | None, unit: float, *, straight: bool) -> GradientCheck:
    """Judge the evidence.

    Parameters
    ----------
    table : Tensor of shape (series, :data:`NAMES`)
    values : Tensor of shape (series, time, channel)
        The scores.
    change : Tensor of shape (series,), optional
        Score of the series minus that of where their paths start.
    unit : float
        Resolution of numbers.
    straight : bool
        Whether all points of a series lie on one path, so that the scores sum to the change.
    """
    known = dict(zip(NAMES, table.double().unbind(1), strict=True))
    values = values.double()
    whole = known["seen"] if change is None else torch.maximum(known["seen"], change.double().abs())
    floor = NOISE * unit * known["level"]  # of a difference of two scores
    missing = values.sum((1, 2)) - change.double() if straight and change is not None else _missing(known)
    far, near, nearest = (_share(known, name) for name in ("far", "near", "nearest"))
    size = torch.maximum(known["size"], PART * values.flatten(1).norm(dim=1))
    steep = known["slope"] > STEEP * whole
    stays = (near > GAP) & (nearest > STAYS)
    wrong = stays | (near > LARGE) | (known["outside"] - known["noise"] > NEARBY * size)
    often = (far > LARGE) & (known["far_gap"] > OFTEN * whole)  # one point beyond a cliff is in two pairs
    scale = torch.maximum(whole, values.abs().sum((1, 2)))
    off = (missing.abs() > OFF * scale) | often
    jumps = known["jump"] > torch.maximum(JUMP * whole, 100 * EDGE * known["slope"]) + floor
    steep = steep | (known["count"] < LOOKED)
    found = torch.where(off, torch.where(steep, Found.STEEP, Found.JUMPS), Found.AGREES)
    found = torch.where(wrong, Found.WRONG, torch.where(jumps, Found.JUMPS, found))
    found = torch.where(whole > floor, found, Found.UNKNOWN)
    return GradientCheck(
        found=found.to(torch.int8),
        gap=near.float(),
        nearby=(torch.stack([known["ahead"], known["back"]], 1) / size.clamp(min=TINY)[:, None]).float(),
        missing=(missing / scale.clamp(min=TINY)).float(),
        jump=known["jump"].float(),
        seen=known["seen"].float(),
    )


def _share(known: dict[str, Tensor], name: str) -> Tensor:
    return known[f"{name}_gap"] / known[f"{name}_size"].clamp(min=TINY)


def _missing(known: dict[str, Tensor]) -> Tensor:
    """Return the part of the change that slopes along the path miss, 0 where their noise could be it."""
    count = known["count"].clamp(min=1)
    mean = known["off"] / count
    noise = ((known["squares"] / count - mean.square()).clamp(min=0) / count).sqrt()
    sure = (mean.abs() > SURE * noise) & (known["count"] >= ENOUGH)
    return torch.where(sure, 2 * mean, 0)  # the mean position is 1/2
