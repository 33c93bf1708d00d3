r"""Localisation: whether high scores lie on the truly salient cells.

:math:`m` are the scores of a series, min–max scaled into [0, 1), :math:`A` its salient cells, :math:`P(\tau)` and
:math:`R(\tau)` precision and recall of the cells with :math:`m \ge \tau`. Unobserved cells are left out.
A series without a salient cell has nothing to find: its areas are NaN.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, arg
from tempograd.engine import slices
from tempograd.engine.inputs import is_several
from tempograd.explanation import Explanation
from tempograd.metrics.base import METRICS, Evaluation, Metric, require_ranks
from tempograd.metrics.removal import cell_importance

# Cells sorted by their score, and how many salient ones lie above each threshold

MARGIN = 1e-5  # keeps the highest score below 1, where its information is finite


class Thresholds(NamedTuple):
    """Each cell of a row as a threshold, highest first; everything is (row, cell) in float64.

    Equal scores are one threshold, so they share its counts. Places beyond the observed cells repeat the
    lowest threshold: they add nothing to an area.
    """

    score: Tensor
    salient: Tensor  # whether the cell itself is
    hits: Tensor  # salient cells at or above the threshold
    above: Tensor  # cells at or above the threshold

    @classmethod
    def of(cls, score: Tensor, salient: Tensor, observed: Tensor) -> Self:
        """Sort the cells of each row; unobserved ones are left out.

        Examples
        --------
        >>> score = torch.tensor([[0.2, 0.9, 0.2, 0.7]], dtype=torch.float64)
        >>> salient = torch.tensor([[True, True, False, True]])
        >>> table = Thresholds.of(score, salient, torch.tensor([[True, True, True, False]]))
        >>> table.score.tolist(), table.hits.tolist()
        ([[0.9, 0.2, 0.2, 0.2]], [[1.0, 2.0, 2.0, 2.0]])
        """
        score, order = score.masked_fill(~observed, -torch.inf).sort(1, descending=True)
        salient = (salient & observed).gather(1, order)
        place = torch.arange(score.shape[1], device=score.device).expand_as(order)
        last = (observed.sum(1, keepdim=True) - 1).clamp(min=0)
        ends = torch.ones_like(salient)
        ends[:, :-1] = score[:, :-1] != score[:, 1:]
        # the last place of each run of equal scores, found from the right
        end = torch.where(ends, place, score.shape[1]).flip(1).cummin(1).values.flip(1).minimum(last)
        hits = salient.to(score).cumsum(1)
        return cls(score.gather(1, end), salient, hits.gather(1, end), (end + 1).to(score))

    @property
    def precision(self) -> Tensor:
        """Share of salient cells among those at or above each threshold."""
        return self.hits / self.above

    @property
    def positives(self) -> Tensor:
        """How many cells of each row are salient, (row, 1)."""
        return self.salient.sum(1, keepdim=True).to(self.hits)

    @property
    def recall(self) -> Tensor:
        """Share of the salient cells at or above each threshold; NaN where there is none."""
        return self.hits / self.positives


def scaled(score: Tensor, observed: Tensor, *, pooled: bool = False) -> Tensor:
    r"""Min–max scale the observed cells of each row into [0, 1), in float64.

    .. math:: m = \frac{a - \min a}{(1 + \varepsilon)(\max a - \min a)}, \qquad \varepsilon = 10^{-5},

    which does not depend on the unit of :math:`a`; pooled scores have :math:`\max a - \min a + \varepsilon` below
    the line instead, as in the papers that pool. A constant row becomes 0.

    Examples
    --------
    >>> scaled(torch.tensor([[1.0, 3.0, 2.0]]), torch.ones(1, 3, dtype=torch.bool))
    tensor([[0.0000, 1.0000, 0.5000]], dtype=torch.float64)
    """
    score = score.double()
    low = score.masked_fill(~observed, torch.inf).amin(1, keepdim=True)
    span = score.masked_fill(~observed, -torch.inf).amax(1, keepdim=True) - low
    unit = span + MARGIN if pooled else span * (1 + MARGIN)
    return torch.where(observed & (span > 0), (score - low) / unit, 0)


CELLS = 2**21  # sorted at once, so that memory does not grow with the number of series


@dataclass(frozen=True, kw_only=True)
class Localisation(Metric, ABC):
    """A metric that needs the truth and no model."""

    @classmethod
    def measure(cls, metrics: Sequence[Self], evaluation: Evaluation) -> dict[str, Tensor]:
        """Score all series by all metrics; each way of ranking and scaling is sorted once."""
        explanation, signed = evaluation.explanation, evaluation.explanation.signed
        require_ranks(explanation)
        salient = _salient(evaluation.truth, explanation, metrics[0].name).flatten(1)
        values, scores = explanation.values.flatten(1), dict[str, Tensor]()
        seen = torch.ones((), dtype=torch.bool, device=values.device).expand_as(values)
        observed = seen if explanation.mask is None else explanation.mask.flatten(1).to(values.device)
        size = max(1, CELLS // values.shape[1])
        for rank, whole in sorted({(metric.rank, metric.whole) for metric in metrics}):
            mine = [metric for metric in metrics if (metric.rank, metric.whole) == (rank, whole)]
            parts = {metric.name: [torch.empty(0, device=values.device)] for metric in mine}
            for rows in [slice(None)] if whole else slices(len(values), size):
                score = scaled(cell_importance(values[rows], rank, signed=signed), observed[rows], pooled=whole)
                cells = score, salient[rows], observed[rows]
                table = Thresholds.of(*(part[observed][None] for part in cells) if whole else cells)
                for metric in mine:
                    parts[metric.name].append(metric.score(table).float())
            scores |= {name: torch.cat(part)[0] if whole else torch.cat(part) for name, part in parts.items()}
        return scores

    @abstractmethod
    def score(self, table: Thresholds) -> Tensor:
        """Return the score of each row, (row,)."""


@dataclass(frozen=True, kw_only=True)
class Area(Localisation):
    r"""An area under a curve.

    Parameters
    ----------
    pooled : bool
        One number for all series, as in the papers: each is scaled by
        :math:`(a - \min a) / (\max a - \min a + 10^{-5})` and the cells of all series are sorted together.
    """

    higher_is_better: ClassVar[bool] = True

    pooled: bool = validation.boolean(False)


@METRICS.register("aup")
@dataclass(frozen=True, kw_only=True)
class AreaUnderPrecision(Area):
    r"""Precision averaged over thresholds, :math:`\int P(\tau) \, d\tau` from the lowest score to the highest.

    It depends on the values of the scores, not only on their order.
    """

    def score(self, table: Thresholds) -> Tensor:
        return _defined(torch.trapezoid(table.precision.flip(1), table.score.flip(1)), table)


@METRICS.register("aur")
@dataclass(frozen=True, kw_only=True)
class AreaUnderRecall(Area):
    r"""Recall averaged over thresholds, :math:`\int R(\tau) \, d\tau` from the lowest score to the highest.

    It depends on the values of the scores, not only on their order: saturated masks get high values.
    """

    def score(self, table: Thresholds) -> Tensor:
        return _defined(torch.trapezoid(table.recall.flip(1), table.score.flip(1)), table)


@METRICS.register("auroc")
@dataclass(frozen=True, kw_only=True)
class AreaUnderROC(Area):
    """Probability that a salient cell scores above one that is not, a tie counting one half.

    NaN also for a series all of whose cells are salient.
    """

    def score(self, table: Thresholds) -> Tensor:
        misses = table.above - table.hits
        rate = torch.nn.functional.pad(misses / misses[:, -1:], (1, 0))
        return _defined(torch.trapezoid(torch.nn.functional.pad(table.recall, (1, 0)), rate), table)


@METRICS.register("auprc")
@dataclass(frozen=True, kw_only=True)
class AveragePrecision(Area):
    r"""Average precision :math:`\sum_\tau P(\tau) \, \Delta R(\tau)`, the area under precision over recall."""

    def score(self, table: Thresholds) -> Tensor:
        gain = table.recall.diff(dim=1, prepend=torch.zeros_like(table.recall[:, :1]))
        return _defined((table.precision * gain).sum(1), table)


@METRICS.register("information")
@dataclass(frozen=True, kw_only=True)
class Information(Localisation):
    r"""Information of the mask on the salient cells, :math:`-\sum_A \ln(1 - m)`; 0 where there is none.

    The highest score of a series is scaled to :math:`1 / (1 + 10^{-5})`, so one cell holds at most 11.5.
    """

    higher_is_better: ClassVar[bool] = True

    def score(self, table: Thresholds) -> Tensor:
        return -torch.where(table.salient, torch.log1p(-table.score), 0).sum(1)


@METRICS.register("entropy")
@dataclass(frozen=True, kw_only=True)
class Entropy(Localisation):
    r"""Entropy of the mask on the salient cells, :math:`-\sum_A [m \ln m + (1 - m) \ln(1 - m)]`."""

    higher_is_better: ClassVar[bool] = False

    def score(self, table: Thresholds) -> Tensor:
        m = table.score
        entropy = -torch.xlogy(m, m) - torch.xlogy(1 - m, 1 - m)
        return torch.where(table.salient, entropy, 0).sum(1)


def _defined(area: Tensor, table: Thresholds) -> Tensor:
    return torch.where(table.positives[:, 0] > 0, area, torch.nan)


def _salient(truth: Any, explanation: Explanation, metric: str) -> Tensor:
    truth = explanation.truth if truth is None else truth
    if truth is None:
        raise InputError(f"{metric} needs {arg:series.truth}, like x, with 1 where a cell is truly salient.")
    if is_several(truth):
        names = truth if isinstance(truth, Mapping) else explanation.inputs
        parts = zip_longest(names, truth.values() if isinstance(truth, Mapping) else truth, fillvalue="")
        floats = {name: validation.as_tensor(part, "truth").float() for name, part in parts}
        truth = explanation.call.pooled(floats, "The truth")
    return validation.check_mask(truth, explanation.values, "truth")
