"""WinIT as released."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from tempograd.explainers import WinIT
from tempograd_paper.released.fit import Scrambled


@dataclass(frozen=True)
class ReleasedWinIT(Scrambled, WinIT):
    """WinIT as released.

    Scores are reshaped, not transposed, into steps and channels (B2). Values are drawn from all training values of
    their channel, ``sampler="marginal"``: the released code also trains the generator, and never uses it.
    """

    datasets: ClassVar[Sequence[str]] = ("mimic3",)

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return the paper's setting for MIMIC-III, the only data that it has WinIT on, with its fault."""
        cls._check(dataset)
        return cls(10, 3, "pd", "mean", "marginal", 300, 30, 100, quirks=frozenset(cls.faults))
