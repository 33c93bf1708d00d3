"""FIT as released, and the fault that it shares with WinIT."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from torch import Tensor

from tempograd.engine import Question
from tempograd.errors import UnknownNameError
from tempograd.explainers import Fit
from tempograd.explainers.integration import Attribution
from tempograd_paper.labels import REAL, SYNTHETIC
from tempograd_paper.released.base import Released


def scrambled(values: Tensor) -> Tensor:
    """B2: lay scores out as (series, channel, time) and read them as (series, time, channel).

    Examples
    --------
    >>> import torch
    >>> scrambled(torch.tensor([[[1, 4], [2, 5], [3, 6]]])).tolist()
    [[[1, 2], [3, 4], [5, 6]]]
    """
    return values.mT.reshape(values.shape)


@dataclass(frozen=True)
class Scrambled(Released):
    """A method whose scores come out in the wrong layout (B2)."""

    faults: ClassVar[Mapping[str, str]] = {"B2": "scores laid out by channel are read as if laid out by step"}

    def attribute(self, question: Question) -> Attribution:
        found: Attribution = super().attribute(question)  # type: ignore[safe-super]  # that of the method
        return found._replace(values=scrambled(found.values)) if "B2" in self.quirks else found


@dataclass(frozen=True)
class ReleasedFit(Scrambled, Fit):
    """FIT as released: on real data its scores are reshaped, not transposed, into steps and channels (B2)."""

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return the paper's setting for a data set, with the fault that made its numbers.

        On real data all epochs are run. On synthetic data the paper trained the generator on the series that it
        explained; pass those to ``fit`` to do the same.
        """
        if dataset in REAL:
            return cls(epochs=301, patience=None, quirks=frozenset(cls.faults))
        if dataset in SYNTHETIC:
            return cls(hidden=6, epochs=200, patience=None, batch_size=32, recipe="plain")
        raise UnknownNameError("published setting of FIT", dataset, REAL + SYNTHETIC)
