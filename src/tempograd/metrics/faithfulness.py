r"""Faithfulness: how the prediction moves when the cells called important are taken away.

:math:`F` is the explained output of the model (a probability vector by default), :math:`\hat y` the explained
class, :math:`x^\uparrow_k` the series without its :math:`k` most important cells, :math:`x^\downarrow_k`
without its :math:`k` least important ones. With one output per step each score is computed at each
explained step and averaged over them; it is NaN for a series none of whose steps is explained.

Where no class was explained, :math:`F_{\hat y}` is the explained score: one number of a forecast or regression,
the probability of one of several labels, or what a function picked from the output.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.metrics.base import METRICS, Evaluation, Metric
from tempograd.metrics.removal import RemovalOutputs, RemovalSchedule, n_removed, remove_cells, what_is_measured


@dataclass(frozen=True, kw_only=True)
class Faithfulness(Metric, ABC):
    """A metric that removes cells.

    Parameters
    ----------
    k : int or float, optional
        How many cells: a count, or a share of the observed cells of each series; by default that of the
        evaluation.
    """

    runs_model: ClassVar[bool] = True
    descending: ClassVar[bool] = True
    """Whether the most important cells go first."""
    every: ClassVar[bool] = False
    """Whether the states in between matter, or only the last."""
    keeps: ClassVar[bool] = False
    """Whether k cells stay instead of going."""
    needs_probability: ClassVar[bool] = False
    """Whether it has to be the probability of a class or label."""

    k: int | float | None = validation.setting(None, validation.check_amount)

    @classmethod
    def measure(cls, metrics: Sequence[Self], evaluation: Evaluation) -> dict[str, Tensor]:
        """Score all series by all metrics, which share the passes of the model."""
        ask, device = evaluation.ask(), evaluation.explanation.values.device
        plans = [metric.schedule(evaluation.k, ask.observed_cells, ask.cells) for metric in metrics]

        def read(outputs: list[RemovalOutputs]) -> list[Tensor]:
            evaluation.clean = outputs[0].predictions[:, 0] if evaluation.clean is None else evaluation.clean
            return [metric.read(part).float().to(device) for metric, part in zip(metrics, outputs, strict=True)]

        evaluation.measured = of = what_is_measured(ask, evaluation.of)
        scores, evaluation.varies = remove_cells(ask, plans, read, "evaluate", of=of, draws=evaluation.removals)
        return {metric.name: cast("Tensor", score) for metric, score in zip(metrics, scores, strict=True)}

    def schedule(self, k: Any, observed: Tensor, cells: int) -> RemovalSchedule:
        """Return which cells go, given the evaluation's ``k`` and the number of observed cells of each series."""
        limit = n_removed(k if self.k is None else self.k, observed, cells)
        limit = observed - limit if self.keeps else limit
        stops = torch.arange(int(limit.max()) + 1) if self.every else torch.tensor([0, cells])
        return RemovalSchedule(self.rank, self.descending, limit, stops)

    def read(self, outputs: RemovalOutputs) -> Tensor:
        """Check what the score needs, and compute it, (series,)."""
        if self.needs_probability:
            outputs.require_probability(self.name)
        return self.score(outputs)

    @abstractmethod
    def score(self, outputs: RemovalOutputs) -> Tensor:
        """Return the score of each series, (series,)."""


@METRICS.register("cpd")
@dataclass(frozen=True, kw_only=True)
class CumulativePredictionDifference(Faithfulness):
    r"""Total change of the prediction while the most important cells are removed one by one.

    These are 10 % of the observed ones, unless another ``k`` was asked for.

    .. math:: \mathrm{CPD}(x) = \sum_{k=0}^{K-1} \lVert F(x^\uparrow_k) - F(x^\uparrow_{k+1}) \rVert_1

    Unlike the difference from start to end, effects of opposite sign cannot cancel. A single probability stands
    for two classes, and both count, as they do for a model that has a column for each.

    The numbers of a forecast or regression and several labels say nothing of each other, nor of a score that a
    function picked. There, and with ``evaluate(..., of="score")``, only the explained score counts:

    .. math:: \sum_{k=0}^{K-1} | F_{\hat y}(x^\uparrow_k) - F_{\hat y}(x^\uparrow_{k+1}) |

    References
    ----------
    .. [1] H. Jang, C. Kim and E. Yang, "TIMING: Temporality-Aware Integrated Gradients for Time Series
       Explanation", ICML 2025. https://arxiv.org/abs/2506.05035
    """

    higher_is_better: ClassVar[bool] = True
    every: ClassVar[bool] = True

    def score(self, outputs: RemovalOutputs) -> Tensor:
        return outputs.delta.sum(1)


@METRICS.register("cpp")
@dataclass(frozen=True, kw_only=True)
class CumulativePredictionPreservation(CumulativePredictionDifference):
    r"""Total change of the prediction while the least important cells are removed one by one.

    .. math:: \mathrm{CPP}(x) = \sum_{k=0}^{K-1} \lVert F(x^\downarrow_k) - F(x^\downarrow_{k+1}) \rVert_1

    Like CPD, it follows the explained score alone where outputs are no classes, and with ``of="score"``.
    """

    higher_is_better: ClassVar[bool] = False
    descending: ClassVar[bool] = False


@METRICS.register("prediction_difference")
@dataclass(frozen=True, kw_only=True)
class PredictionDifference(Faithfulness):
    r"""Change of the explained score from start to end, :math:`|F_{\hat y}(x) - F_{\hat y}(x^\uparrow_K)|`."""

    higher_is_better: ClassVar[bool] = True

    def score(self, outputs: RemovalOutputs) -> Tensor:
        return outputs.over_steps((outputs.score[:, :1] - outputs.score[:, -1:]).abs())[:, 0]


@METRICS.register("accuracy", "acc")
@dataclass(frozen=True, kw_only=True)
class Accuracy(Faithfulness):
    r"""Whether the explained class is still predicted, :math:`[\arg\max F(x^\uparrow_K) = \hat y]`.

    Parameters
    ----------
    threshold : float, optional
        Require :math:`F_{\hat y}(x^\uparrow_K) \ge` ``threshold`` instead, for instance 0.5.
    """

    higher_is_better: ClassVar[bool] = False
    needs_probability: ClassVar[bool] = True

    threshold: float | None = validation.real(None, high=1.0)

    def score(self, outputs: RemovalOutputs) -> Tensor:
        kept = outputs.retained if self.threshold is None else outputs.score >= self.threshold
        return outputs.over_steps(kept[:, -1:].to(outputs.raw))[:, 0]


@METRICS.register("cross_entropy", "ce")
@dataclass(frozen=True, kw_only=True)
class CrossEntropy(Faithfulness):
    r"""Surprise at the explained class after the removal, :math:`-\ln F_{\hat y}(x^\uparrow_K)`."""

    higher_is_better: ClassVar[bool] = True
    needs_probability: ClassVar[bool] = True

    def score(self, outputs: RemovalOutputs) -> Tensor:
        return -outputs.over_steps(outputs.log_probability[:, -1:])[:, 0]


@METRICS.register("log_odds")
@dataclass(frozen=True, kw_only=True)
class LogOdds(Faithfulness):
    r"""Change of the log-probability, :math:`\ln F_{\hat y}(x^\uparrow_K) - \ln F_{\hat y}(x)`."""

    higher_is_better: ClassVar[bool] = False
    needs_probability: ClassVar[bool] = True

    def score(self, outputs: RemovalOutputs) -> Tensor:
        logarithm = outputs.log_probability
        return outputs.over_steps(logarithm[:, -1:] - logarithm[:, :1])[:, 0]


@METRICS.register("comprehensiveness", "comp")
@dataclass(frozen=True, kw_only=True)
class Comprehensiveness(Faithfulness):
    r"""Loss of the explained score without the important cells.

    .. math:: F_{\hat y}(x) - F_{\hat y}(x^\uparrow_K)
    """

    higher_is_better: ClassVar[bool] = True

    def score(self, outputs: RemovalOutputs) -> Tensor:
        return outputs.over_steps(outputs.score[:, :1] - outputs.score[:, -1:])[:, 0]


@METRICS.register("sufficiency", "suff")
@dataclass(frozen=True, kw_only=True)
class Sufficiency(Comprehensiveness):
    r"""Loss of the explained score with nothing but the important cells.

    .. math:: F_{\hat y}(x) - F_{\hat y}(x^\downarrow_{n - K})

    where :math:`n` is the number of observed cells: the :math:`K` most important stay.
    """

    higher_is_better: ClassVar[bool] = False
    descending: ClassVar[bool] = False
    keeps: ClassVar[bool] = True
