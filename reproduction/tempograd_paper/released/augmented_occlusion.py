"""Augmented feature occlusion as released."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from tempograd.explainers import AugmentedOcclusion
from tempograd_paper.labels import SYNTHETIC
from tempograd_paper.released.base import OWN_STEPS, RAW_OUTPUT
from tempograd_paper.released.occlusion import PREFIXES, JudgedByPrefixes


@dataclass(frozen=True)
class ReleasedAugmentedOcclusion(JudgedByPrefixes, AugmentedOcclusion):
    """Augmented feature occlusion as released.

    On real data a value is judged by the class predicted from the series up to its step, though there is one
    label (B8); on synthetic data by the raw output (A6) of its own step (B7).
    """

    faults: ClassVar[Mapping[str, str]] = RAW_OUTPUT | OWN_STEPS | PREFIXES

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return 10 draws from the same step of the training series."""
        cls._check(dataset)
        quirks = frozenset({"A6", "B7"} if dataset in SYNTHETIC else {"B8"})
        return cls(10, "per_time", over="target", quirks=quirks)
