"""DeepLIFT as released."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from tempograd.explainers import DeepLift
from tempograd_paper.labels import SYNTHETIC
from tempograd_paper.released.base import OWN_STEPS, RAW_OUTPUT, Released


@dataclass(frozen=True)
class ReleasedDeepLift(Released, DeepLift):
    """DeepLIFT as released.

    On real data the network was patched to return probabilities, so that softmax gets its plain slope at x (B4);
    the metrics of that run apply softmax to them again, as ``runner/execute.py`` does for this key. On synthetic
    data the raw output is explained (A6), and only each value's effect on its own step (B7).
    """

    faults: ClassVar[Mapping[str, str]] = {
        **RAW_OUTPUT,
        "B4": "the network was patched to return probabilities: softmax gets its slope at x, and the metrics of "
        "that run apply it again",
        **OWN_STEPS,
    }

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return the method with B4 on real data, with A6 and B7 on synthetic data."""
        cls._check(dataset)
        return cls(quirks=frozenset({"A6", "B7"} if dataset in SYNTHETIC else {"B4"}))

    def _nodes(self) -> tuple[Tensor, Tensor]:
        return (torch.ones(1), torch.ones(1)) if "B4" in self.quirks else super()._nodes()
