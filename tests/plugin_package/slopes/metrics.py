"""A metric: how far a prediction falls."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from tempograd.metrics.faithfulness import Faithfulness
from tempograd.metrics.removal import RemovalOutputs


@dataclass(frozen=True, kw_only=True)
class Drop(Faithfulness):
    """Fall of the explained output when the most important cells are gone."""

    higher_is_better: ClassVar[bool] = True

    def score(self, outputs: RemovalOutputs) -> Tensor:
        return outputs.over_steps(outputs.score[:, :1] - outputs.score[:, -1:])[:, 0]
