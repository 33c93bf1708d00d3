"""WinIT as released."""

from dataclasses import dataclass
from typing import Self

from tempograd.errors import UnknownNameError
from tempograd.explainers import WinIT
from tempograd_paper.released.fit import Scrambled


@dataclass(frozen=True)
class ReleasedWinIT(Scrambled, WinIT):
    """WinIT as released: marginal replacements, and scores that are reshaped, not transposed (B2)."""

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return the paper's setting for MIMIC-III, the only data that it has WinIT on, with its fault."""
        if dataset != "mimic3":
            raise UnknownNameError("published setting of WinIT", dataset, ("mimic3",))
        return cls(sampler="marginal", quirks=frozenset(cls.faults))
