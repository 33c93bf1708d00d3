"""From one score per series to a mean with its standard error, and to paired differences."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tempograd.core import stats, validation
from tempograd.core.errors import InputError
from tempograd.typing import ArrayLike


@dataclass(frozen=True, repr=False)
class Summary:
    """Mean of some scores, its standard error (infinite below two scores), and how many scores counted."""

    mean: float
    standard_error: float
    count: int

    def __repr__(self) -> str:
        return f"Summary(mean={self.mean:.4g}, standard_error={self.standard_error:.2g}, count={self.count})"


@dataclass(frozen=True, repr=False)
class Difference:
    """Mean of first minus second, its standard error, the limits of its interval, and how many pairs counted."""

    mean: float
    standard_error: float
    low: float
    high: float
    count: int

    @property
    def p_value(self) -> float:
        """Probability of a mean as far from 0 if there is no difference: the paired t test, two-sided."""
        if self.count < 2 or not self.standard_error:
            return 1.0 if self.count < 2 or not self.mean else 0.0
        return stats.t_tail(self.mean / self.standard_error, self.count - 1)

    def __repr__(self) -> str:
        return (
            f"Difference(mean={self.mean:+.3g}, standard_error={self.standard_error:.2g}, low={self.low:+.3g}, "
            f"high={self.high:+.3g}, count={self.count})"
        )


def summarise(scores: ArrayLike) -> Summary:
    r"""Mean :math:`\bar s` and standard error :math:`\sqrt{\sum (s_i - \bar s)^2 / (n (n - 1))}` of scores.

    Scores that are not defined (NaN) are left out; ``count`` tells how many are not.

    Examples
    --------
    >>> summarise(torch.tensor([1.0, 2.0, 6.0, torch.nan]))
    Summary(mean=3, standard_error=1.5, count=3)
    """
    defined = _scores(scores, "scores")
    defined = defined[~defined.isnan()]
    count = len(defined)
    error = float(defined.std()) / count**0.5 if count > 1 else torch.inf
    return Summary(float(defined.mean()), error, count)


def compare(first: ArrayLike, second: ArrayLike, level: float = 0.95) -> Difference:
    r"""Mean difference of two methods on the same series, first minus second, with an interval of Student's t.

    .. math:: \bar d \pm t_{n-1} \, \frac{\mathrm{sd}(d)}{\sqrt n}, \qquad d_i = a_i - b_i

    with the scores :math:`a` of the first method and :math:`b` of the second: a positive mean says that the first
    scores higher. Pairs of which one score is not defined (NaN) are left out.

    Examples
    --------
    >>> compare(torch.tensor([3.0, 4.0, 6.0]), torch.tensor([1.0, 3.0, 3.0]))
    Difference(mean=+2, standard_error=0.58, low=-0.484, high=+4.48, count=3)
    """
    level = validation.check_share(level, "level")
    one, other = _scores(first, "first"), _scores(second, "second")
    if len(one) != len(other):
        raise InputError(
            f"Scores are compared series by series, but there are {len(one)} and {len(other)} of them."
        )
    gain = summarise(one - other)
    freedom = torch.tensor([gain.count - 1], dtype=torch.float64)
    half = float(stats.t_quantile(level, freedom)) * gain.standard_error
    return Difference(gain.mean, gain.standard_error, gain.mean - half, gain.mean + half, gain.count)


def _scores(scores: ArrayLike, name: str) -> Tensor:
    tensor = validation.check_numbers(scores, name).cpu().double()
    if tensor.ndim > 1:
        raise InputError(f"{name} must be one number per series, got shape {tuple(tensor.shape)}.")
    return tensor.reshape(-1)
