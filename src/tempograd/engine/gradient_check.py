"""Whether the gradient is that of the score: the evidence of all series, judged."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.brief import brief
from tempograd.engine.evidence import CURVED, EDGE, NAMES, NOISE
from tempograd.errors import InputError

GAP, STAYS, LARGE = 0.1, 0.08, 0.35  # between neighbours: share of the change that gradients may miss
NEARBY, PART = 0.6, 0.5  # the same nearby, where the slope is at least that part of the map's size
OFF = 0.1  # share of the change that may be missing along the path
SURE, ENOUGH = 4.0, 10  # standard errors, and the points that it takes to have one
STEEP = 5.0  # times the change per length of the path
LOOKED = 25  # points below which a path was hardly looked at: then more of them come first
JUMP = 0.05  # share of the change that may happen at once
TINY = np.finfo(np.float64).tiny
Floats = NDArray[np.float64]
GAPS = NAMES.index("near_gap")


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
        signs or shrink with the step; for a wrong gradient both are alike. NaN where paths differ, so that
        neighbours tell enough.
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

    def verify(self) -> None:
        """Refuse parts, read from a file, that are not of the kind and size that they must have."""
        count = len(self)
        for name, part in vars(self).items():
            shape = (count, 2) if name == "nearby" else (count,)
            if part.shape != shape or part.is_floating_point() != (name != "found"):
                raise InputError(f"gradient_check.{name} must have shape {shape}, got {brief(part)}.")
        if bool(((self.found < 0) | (self.found >= len(WORDS))).any()):
            raise InputError(f"gradient_check.found must lie in 0 … {len(WORDS) - 1}.")

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
    sizes = torch.stack([values.sum((1, 2)), values.abs().sum((1, 2)), values.flatten(1).norm(dim=1)])
    total, size, norm = sizes.double().cpu().numpy()  # a few numbers, for which numpy is faster
    facts = table.cpu().numpy()
    known = dict(zip(NAMES, facts.T, strict=True))
    way = None if change is None else change.double().cpu().numpy()
    if way is not None:  # a baseline that the model cannot answer tells nothing
        way = np.where(np.isfinite(way), way, np.nan)
    slope, whole = known["slope"], known["seen"] if way is None else np.fmax(known["seen"], np.abs(way))
    scale, floor = np.maximum(whole, size), NOISE * unit * known["level"]
    missing = np.nan_to_num(total - way) if straight and way is not None else _missing(known)
    gaps = facts[:, GAPS : GAPS + 2]
    near, nearest = (gaps / np.maximum(facts[:, GAPS + 2 : GAPS + 4], TINY)).T
    local = np.maximum(known["size"], PART * norm)
    wrong = ((near > GAP) & (nearest > STAYS)) | (near > LARGE)
    wrong |= known["outside"] - known["noise"] > NEARBY * local
    off = np.abs(missing) > OFF * scale
    jumps = known["jump"] > np.maximum(JUMP * whole, 100 * EDGE * slope) + floor
    steep = (slope > STEEP * whole) | (known["count"] < LOOKED)
    if not straight:  # draws may have missed a cliff, and then neighbours next to x know of no gap
        steep |= (near < GAP / 2) | (nearest < STAYS / 2)
    found = np.where(off, np.where(steep, Found.STEEP, Found.JUMPS), Found.AGREES)
    found = np.where(wrong, Found.WRONG, np.where(jumps, Found.JUMPS, found))
    nearby = np.where(known["noise"] > 0, facts[:, -2:].T / np.maximum(local, TINY), np.nan).T
    found = np.where(whole > floor, found, Found.UNKNOWN)
    parts = found, near, nearby, missing / np.maximum(scale, TINY), known["jump"], known["seen"]
    kinds = (torch.int8, *[torch.float32] * 5)
    return GradientCheck(
        *(torch.from_numpy(part).to(table.device, kind) for part, kind in zip(parts, kinds, strict=True))
    )


def _missing(known: dict[str, Floats]) -> Floats:
    """Return the part of the change that slopes along the path miss, 0 where their noise could be it."""
    count = np.maximum(known["count"], 1)
    mean = known["off"] / count
    variance = np.maximum(known["squares"] / count - mean**2, 0) / count
    sure = (mean**2 > SURE**2 * variance) & (count >= ENOUGH)
    return np.where(sure, 2 * mean, 0)  # the mean position is 1/2
