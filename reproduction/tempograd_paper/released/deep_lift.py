"""DeepLIFT as released."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from tempograd.explainers import DeepLift
from tempograd_paper.labels import SYNTHETIC
from tempograd_paper.released.base import OWN_STEPS, RAW_OUTPUT, Released, check_dataset


@dataclass(frozen=True)
class ReleasedDeepLift(Released, DeepLift):
    """DeepLIFT as released: the network itself was made to return probabilities (B4)."""

    faults: ClassVar[Mapping[str, str]] = {
        **RAW_OUTPUT,
        "B4": "softmax gets its slope at x; the released metrics then apply it a second time",
        **OWN_STEPS,
    }

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return the method with B4 on real data, with A6 and B7 on synthetic data."""
        check_dataset("DeepLIFT", dataset)
        return cls(quirks=frozenset({"A6", "B7"} if dataset in SYNTHETIC else {"B4"}))

    def _nodes(self) -> tuple[Tensor, Tensor]:
        return (torch.ones(1), torch.ones(1)) if "B4" in self.quirks else super()._nodes()
