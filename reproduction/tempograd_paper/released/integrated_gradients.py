"""Integrated gradients as released."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from tempograd.explainers import IntegratedGradients
from tempograd_paper.labels import SYNTHETIC
from tempograd_paper.released.base import OWN_STEPS, RAW_OUTPUT, Released, check_dataset


@dataclass(frozen=True)
class ReleasedIntegratedGradients(Released, IntegratedGradients):
    """Integrated gradients as released: on synthetic data of the raw output (A6) at each value's own step (B7)."""

    faults: ClassVar[Mapping[str, str]] = RAW_OUTPUT | OWN_STEPS

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return 50 Gauss–Legendre nodes; on real data there is no fault."""
        check_dataset("integrated gradients", dataset)
        return cls(quirks=frozenset(cls.faults if dataset in SYNTHETIC else ()))
