"""What a method returns: scores with their errors, and what its passes tell about the gradient."""

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Self

import torch
from torch import Tensor

from tempograd.core.errors import InputError, brief

CURVED = 0.5  # share of the difference of two slopes that counts as curvature, not as a gap
MANY = 0.05  # share of the series beyond which what speaks against them is said of all
TYPICAL, SEVERAL = 0.15, 5  # gap of the middle series that is none of chance, and how many series it takes
LOOKED = 25  # points below which a path was hardly looked at: then more of them come first
MEAN_SIZE = math.sqrt(2 / math.pi)  # mean of |z| for a standard normal z
TINY = 1e-30
UNSEEN = 3.0  # what n points have not met has a probability below 3 / n


class Found(IntEnum):
    """What the check of a series found."""

    UNKNOWN = 0
    AGREES = 1
    STEEP = 2
    JUMPS = 3
    WRONG = 4


WORDS = tuple(found.name.lower() for found in Found)


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
        Slope of the score over a tenth of a displacement to one side of a path point, three thousandths to the
        other, minus the slope of the gradient, as a share of the slope. For a curved score they have different
        signs or shrink with the step; for a wrong gradient both are alike. NaN where paths differ, so that
        neighbours tell enough.
    missing : Tensor of shape (series,)
        Change of the score that slopes along the path miss, as a share of the change or, where that is larger, of
        all scores; 0 where it could be noise.
    jump : Tensor of shape (series,)
        Change of the score within a hundred-thousandth of the path from the baseline.
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
        for name, part in vars(self).items():
            shape = (len(self), 2) if name == "nearby" else (len(self),)
            if part.shape != shape or part.is_floating_point() != (name != "found"):
                raise InputError(f"gradient_check.{name} must have shape {shape}, got {brief(part)}.")
        if bool(((self.found < 0) | (self.found >= len(WORDS))).any()):
            raise InputError(f"gradient_check.found must lie in 0 … {len(WORDS) - 1}.")

    def __getitem__(self, rows: slice | Tensor | list[int]) -> Self:
        """Return the check of some of the series."""
        return type(self)(*(part[rows] for part in vars(self).values()))

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

    @property
    def mostly_wrong(self) -> bool:
        """Whether gradients of more than a few series are wrong, or all together show what one may by chance."""
        known = self.found != Found.UNKNOWN
        shares = (self.gap, self.beyond) if int(known.sum()) >= SEVERAL else ()
        typical = any(float(share[known].median()) > TYPICAL for share in shares)
        return typical or int(self.failed.sum()) > MANY * len(known)


class Estimate(NamedTuple):
    """What a method returns, each like x unless said otherwise; None where it means nothing."""

    values: Tensor
    standard_error: Tensor | None = None
    n_draws: Tensor | None = None
    ess: Tensor | None = None
    signed: bool = True  # False where only magnitudes are left
    n_evals: Tensor | None = None  # (series,)
    delta: Tensor | None = None  # (series,)
    gradient_check: GradientCheck | None = None


def hidden(values: Tensor, delta: Tensor, seen: Tensor, points: Tensor | int) -> Tensor:
    r"""Return what a change that no draw has met may add to each map, as a share of it, (series,).

    With :math:`n` draws that saw the score change by no more than :math:`s` of :math:`c`, the rest has met none of
    them, so its probability is below :math:`3 / n` (the rule of three, 95 % sure), and it adds no more than
    :math:`3 / n \cdot (|c| - s) / \sum |A|`.

    Examples
    --------
    >>> values = torch.tensor([[[0.5], [-0.1]]])
    >>> hidden(values, torch.tensor([1.0]), torch.tensor([0.9]), 50)  # 3/50 of 0.1, over 0.6
    tensor([0.0100], dtype=torch.float64)
    """
    rest = (delta.double().abs() - seen.double()).clamp(min=0)
    size = values.double().abs().sum((1, 2))
    return torch.where(rest > 0, UNSEEN * rest / points / size.clamp(min=torch.finfo(torch.float64).tiny), 0)


def relative_error(
    values: Tensor, error: Tensor, observed: Tensor | None = None, ess: Tensor | None = None
) -> Tensor:
    r"""Estimate how far each Monte-Carlo map is from the converged one, as one number per series.

    .. math::

        \frac{\mathbb{E}\lVert \hat A - A \rVert_1}{\lVert A \rVert_1}
        \approx \sqrt{\tfrac{2}{\pi}} \; \frac{\sum_{t,d} s_{t,d}}{\sum_{t,d} |\hat A_{t,d}|},

    since a normal error with standard deviation :math:`s` has the mean size :math:`s \sqrt{2/\pi}`. A cell with
    fewer than two draws has no :math:`s`. It counts with the mean :math:`s` of its series plus a share of the
    size of its value: that by which single draws of the other cells vary, told from their effective sample
    sizes ``ess``, at most all of it; without ``ess`` all of it, and the largest :math:`s`.

    Scores and their standard errors, infinite below two draws, are (series, time, channel); ``observed`` is True
    for the cells that count. The result, (series,), is 0 where all scores are exactly 0 without error, infinite
    where they are 0 with some. Nothing waits for the device.

    Examples
    --------
    >>> values, error = torch.tensor([[[3.0], [-1.0]]]), torch.tensor([[[0.3], [0.1]]])
    >>> relative_error(values, error)  # 0.4 / 4, times 0.798
    tensor([0.0798])
    """
    size = values.abs()
    if observed is not None:
        size, error = size.where(observed, 0), error.where(observed, 0)
    unknown = error.isinf()
    known = error.masked_fill(unknown, 0)
    if ess is None:
        other = size + known.amax((1, 2), keepdim=True)
    else:
        seen = torch.ones_like(unknown) if observed is None else observed
        count = (seen & ~unknown).sum((1, 2), keepdim=True).clamp(min=1)
        moved = (known.square() * ess).sum((1, 2), keepdim=True)
        share = (moved / size.masked_fill(unknown, 0).square().sum((1, 2), keepdim=True).clamp(min=TINY)).sqrt()
        other = size * share.clamp(max=1) + known.sum((1, 2), keepdim=True) / count
    missed = torch.where(unknown, other, known).sum((1, 2))
    total = size.sum((1, 2))
    nothing = torch.where((missed > 0) | unknown.any(2).any(1), torch.inf, torch.zeros_like(total))
    return torch.where(total > 0, MEAN_SIZE * missed / total, nothing)


def three_digits(numbers: Tensor) -> Tensor:
    """Round to three digits, so that what devices round otherwise hardly ever decides.

    Examples
    --------
    >>> three_digits(torch.tensor([0.123456, 1987.6, 0.0, torch.inf])).tolist()
    [0.123, 1990.0, 0.0, inf]
    """
    exact = numbers.double()
    unit = 10 ** (exact.abs().clamp(min=1e-300).log10().floor() - 2)
    return torch.where(exact.isfinite(), (exact / unit).round() * unit, exact)
