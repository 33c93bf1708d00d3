"""The training of the released code."""

import torch

from tempograd.data import Dataset, Split
from tempograd.models import Recipe
from tempograd_paper.released import train_as_released
from tempograd_paper.released.training import RECIPE

SHARED = {"learning_rate": 1e-4, "weight_decay": 1e-3, "batch_size": 32, "shuffle": False, "patience": None}


def toy(per_step):
    x = torch.randn(66, 5, 2, generator=torch.Generator().manual_seed(0))
    y = (x.sum(-1).cumsum(-1) > 0).long()
    split = Split(x, y if per_step else y[:, -1])
    return Dataset("toy", split, None, split, classes=2, channels=("a", "b"))


def test_the_settings_of_the_paper():
    assert Recipe(epochs=100, random_prefix=False, minimum_steps=0, **SHARED) == RECIPE
    model = train_as_released("gru", toy(per_step=True), options={"hidden": 6})
    assert model.facts["recipe"] == {"epochs": 50, "random_prefix": True, "minimum_steps": 0, **SHARED}
    assert (model.facts["epochs"], model.facts["kept_epoch"]) == (50, 50)


def test_labels_per_series_have_no_prefixes():
    model = train_as_released("gru", toy(per_step=False), options={"hidden": 6}, epochs=2)
    assert model.facts["recipe"] == {"epochs": 2, "random_prefix": False, "minimum_steps": 0, **SHARED}
