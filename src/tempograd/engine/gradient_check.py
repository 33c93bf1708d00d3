"""Whether the gradient is that of the score: the evidence of all series, judged."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import torch
from torch import Tensor

from tempograd.engine.evidence import EDGE, NAMES, NOISE

GAP = 0.15  # share of the slope by which a gradient may be off nearby
PART = 0.5  # a slope below that part of the map's size tells nothing of the map
OFF = 0.1  # share of the change that may be missing along the path
SURE = 5.0  # standard errors
ENOUGH = 10  # points for a standard error
STEEP = 5.0  # times the change per length of the path
JUMP = 0.05  # share of the change that may happen at once


class Found(IntEnum):
    """What the check of a series found."""

    UNKNOWN = 0
    AGREES = 1
    STEEP = 2
    JUMPS = 3
    WRONG = 4


WORDS = {
    Found.AGREES: "agrees",
    Found.STEEP: "steep",
    Found.JUMPS: "jumps",
    Found.WRONG: "wrong",
    Found.UNKNOWN: "unknown",
}


@dataclass(frozen=True, eq=False)
class GradientCheck:
    """Whether each series' gradient is that of the score: differences of scores nearby and along the path.

    Attributes
    ----------
    found : Tensor of shape (series,)
        0 unknown: everything is lost in rounding. 1 agrees. 2 steep: slopes and scores along the path do not fit
        yet, but steep places were seen, so more points help. 3 jumps: the score changes where the gradient knows
        of nothing. 4 wrong: the gradient differs from the score's differences nearby.
    gap : Tensor of shape (series, 2)
        By how much the gradient at one point differs from the slope of the score over a tenth of the way on one
        side and over a fortieth on the other, as a share of the slope. The gradient of a curved score lies
        between both; one that is wrong lies beyond both.
    missing : Tensor of shape (series,)
        Share of the change of the score that slopes along the path miss, 0 within their noise.
    jump : Tensor of shape (series,)
        Change of the score within a hundred-thousandth of the way from the baseline.
    seen : Tensor of shape (series,)
        The largest change of the score that a path point saw.
    """

    found: Tensor
    gap: Tensor
    missing: Tensor
    jump: Tensor
    seen: Tensor

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, rows: slice | Tensor | list[int]) -> Self:
        """Return the check of some of the series."""
        return type(self)(*(getattr(self, name)[rows] for name in PARTS))

    def __repr__(self) -> str:
        counts = [(word, int((self.found == code).sum())) for code, word in WORDS.items()]
        told = [f"{word} in {count:,}" for word, count in counts if count]
        return f"GradientCheck({', '.join(told) or 'nothing'} of {len(self):,} series)"

    @property
    def failed(self) -> Tensor:
        """Return for which series the gradient is not that of the score, (series,)."""
        return self.found >= Found.JUMPS


PARTS = tuple(GradientCheck.__dataclass_fields__)


def judge(table: Tensor, values: Tensor, change: Tensor | None, unit: float, *, random: bool) -> GradientCheck:
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
    random : bool
        Whether path points are draws; otherwise the scores are to sum to the change.
    """
    known = dict(zip(NAMES, table.double().unbind(1), strict=True))
    whole = known["seen"] if change is None else torch.maximum(known["seen"], change.double().abs())
    floor = NOISE * unit * known["level"]  # of a difference of two scores
    size = torch.maximum(known["size"], PART * values.double().flatten(1).norm(dim=1))
    nearby = known["outside"] - known["noise"] > GAP * size
    told = (known["noise"] < GAP * size) & (known["size"] > 0)
    missing = _missing(known, values, change, random=random)
    off = (missing.abs() > OFF * whole) & (whole > floor)
    steep = known["slope"] > STEEP * whole
    jumps = known["jump"] > torch.maximum(JUMP * whole, 100 * EDGE * known["slope"]) + floor
    found = torch.where(told | (whole > floor), Found.AGREES, Found.UNKNOWN)
    found = torch.where(off, torch.where(steep, Found.STEEP, Found.JUMPS), found)
    found = torch.where(jumps, Found.JUMPS, found).where(~nearby, Found.WRONG)
    safe = size.clamp(min=torch.finfo(torch.float64).tiny)
    return GradientCheck(
        found=found.to(torch.int8),
        gap=(torch.stack([known["ahead"], known["back"]], 1) / safe[:, None]).float(),
        missing=(missing / whole.clamp(min=torch.finfo(torch.float64).tiny)).float(),
        jump=known["jump"].float(),
        seen=known["seen"].float(),
    )


def _missing(known: dict[str, Tensor], values: Tensor, change: Tensor | None, *, random: bool) -> Tensor:
    """Return the part of the change that slopes along the path miss, 0 where their noise could be it."""
    if not random and change is not None:
        return values.double().sum((1, 2)) - change.double()
    count = known["count"].clamp(min=1)
    mean = known["off"] / count
    noise = ((known["squares"] / count - mean.square()).clamp(min=0) / count).sqrt()
    sure = (mean.abs() > SURE * noise) & (known["count"] >= ENOUGH)
    return torch.where(sure, 2 * mean, 0)  # the mean position is 1/2
