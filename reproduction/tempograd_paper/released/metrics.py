"""The metrics as the paper's tables show them."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tempograd.metrics import METRICS, Metric
from tempograd.metrics.faithfulness import (
    CumulativePredictionDifference,
    CumulativePredictionPreservation,
    Sufficiency,
)
from tempograd.metrics.removal import ROUNDING, RemovalOutputs, RemovalSchedule

POOLED = frozenset({"aup", "aur", "auroc", "auprc"})


@dataclass(frozen=True, kw_only=True)
class ReleasedDifference(CumulativePredictionDifference):
    """CPD as released (3.2): the mean over the classes in place of their sum, half of it for two classes."""

    def score(self, outputs: RemovalOutputs) -> Tensor:
        return super().score(outputs) / outputs.predictions.shape[-1]


@dataclass(frozen=True, kw_only=True)
class ReleasedPreservation(ReleasedDifference, CumulativePredictionPreservation):
    """CPP as released (3.4): the mean over the classes in place of their sum."""


@dataclass(frozen=True, kw_only=True)
class ReleasedSufficiency(Sufficiency):
    """Sufficiency as released (3.5): of a share p the ⌊(1 − p) n⌋ least important of n cells go, ⌈p n⌉ stay."""

    def schedule(self, k: Any, observed: Tensor, cells: int) -> RemovalSchedule:
        plain, share = super().schedule(k, observed, cells), k if self.k is None else self.k
        if isinstance(share, int):
            return plain
        return plain._replace(limit=(observed.double() * (1 - share) + ROUNDING).floor().to(observed))


RELEASED: dict[str, type[Metric]] = {
    "cpd": ReleasedDifference,
    "cpp": ReleasedPreservation,
    "sufficiency": ReleasedSufficiency,
}


def released_metric(metric: str, /, **settings: Any) -> Metric:
    """Return a metric as the paper measured it: CPD and CPP by class, areas over the cells of all series (3.6)."""
    pooled = {"pooled": True} if metric in POOLED else {}
    return RELEASED.get(metric, METRICS[metric])(**{"name": metric} | pooled | settings)
