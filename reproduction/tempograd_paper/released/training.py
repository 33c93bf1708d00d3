"""The training of the released code: no shuffling, no stopping, the weights of the last epoch."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from tempograd.core import validation
from tempograd.core.errors import InputError
from tempograd.data import Dataset
from tempograd.models import Classifier, Recipe, train
from tempograd.models.training import cross_entropy


@dataclass(frozen=True)
class ReleasedRecipe(Recipe):
    """Settings of one training, one more than the library has.

    Parameters
    ----------
    random_prefix : bool, default=False
        For labels per step only: each batch is cut at one random step, whose label alone counts. Otherwise
        all steps count at once.
    """

    random_prefix: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.check_flag(self.random_prefix, "random_prefix")

    def _loss(self, network: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        if not self.random_prefix:
            return super()._loss(network, x, y, generator)
        if y.ndim == 1:
            raise InputError("random_prefix needs a label for every step; this data has one per series.")
        stop = int(torch.randint(x.shape[1], (), generator=generator))
        prefix = x[:, : stop + 1]
        logits = network.last(prefix) if isinstance(network, Classifier) else network(prefix)[:, -1]
        return cross_entropy(logits, y[:, stop])


RECIPE = ReleasedRecipe(
    epochs=100, learning_rate=1e-4, weight_decay=1e-3, batch_size=32, shuffle=False, patience=None
)
PER_STEP = replace(RECIPE, epochs=50, random_prefix=True)


def train_as_released(model: str | nn.Module, data: Dataset, **options: Any) -> nn.Module:
    """Train a model as the released code does; ``options`` are those of :func:`tempograd.train`."""
    return train(model, data, recipe=PER_STEP if data.per_step else RECIPE, **options)
