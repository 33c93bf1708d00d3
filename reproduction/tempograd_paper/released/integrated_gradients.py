"""Integrated gradients as released."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from tempograd.explainers import IntegratedGradients
from tempograd_paper.labels import SYNTHETIC
from tempograd_paper.released.base import OWN_STEPS, RAW_OUTPUT, Released


@dataclass(frozen=True)
class ReleasedIntegratedGradients(Released, IntegratedGradients):
    """Integrated gradients as released.

    On synthetic data the raw output is explained (A6), and only each value's effect on its own step (B7).
    """

    faults: ClassVar[Mapping[str, str]] = RAW_OUTPUT | OWN_STEPS

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return 50 Gauss–Legendre nodes; on real data there is no fault."""
        cls._check(dataset)
        return cls(50, "gauss-legendre", quirks=frozenset(cls.faults if dataset in SYNTHETIC else ()))
