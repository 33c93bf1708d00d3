"""The training of the released code: no shuffling, no stopping, the weights of the last epoch."""

from dataclasses import replace
from typing import Any

from torch import nn

from tempograd.data import Dataset
from tempograd.models import Recipe, train

RECIPE = Recipe(
    epochs=100,
    learning_rate=1e-4,
    weight_decay=1e-3,
    batch_size=32,
    shuffle=False,
    patience=None,
    random_prefix=False,
)
PER_STEP = replace(RECIPE, epochs=50, random_prefix=True)  # one random prefix of each batch, its last label


def train_as_released(model: str | nn.Module, data: Dataset, **options: Any) -> nn.Module:
    """Train a model as the released code does; ``options`` are those of :func:`tempograd.train`."""
    return train(model, data, recipe=PER_STEP if data.per_step else RECIPE, **options)
