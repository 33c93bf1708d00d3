"""A method: the gradient at the series."""

from dataclasses import dataclass
from typing import ClassVar

import tempograd as tg
from tempograd.core.estimate import Estimate
from tempograd.engine import Ask, Block
from tempograd.sampling.integration import GradientPath, Points, Schedule, integrate


@dataclass(frozen=True)
class GradientTimesInput(tg.Explainer):
    """The gradient at the series times its distance from the baseline.

    Parameters
    ----------
    factor : float
        What scores are multiplied by.
    """

    deterministic: ClassVar[bool] = True
    zero_if_ignored: ClassVar[bool] = True

    factor: float = 1.0

    def attribute(self, ask: Ask) -> list[Estimate]:
        schedule = Schedule((1,), random=False)  # one point, and no draw
        return integrate(ask, schedule, self._path, label=f"explain with {self.name}")

    def _path(self, block: Block, stage: int) -> GradientPath:
        return GradientPath(self.factor * (block.x - block.baseline), lambda batch: Points(block.x[:, None]))
