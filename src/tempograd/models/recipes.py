"""How a model is trained, as data."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from tempograd import checks
from tempograd.brief import brief
from tempograd.errors import InputError, UnknownNameError


@dataclass(frozen=True)
class Recipe:
    """Settings of one training: Adam on the mean cross-entropy.

    Parameters
    ----------
    epochs : int
        Passes over the training series, at most.
    learning_rate, weight_decay : float
        Of Adam; the decay is added to the gradient (L2).
    batch_size : int
        Series per step, at least two because batch normalisation needs them.
    shuffle : bool
        Whether every epoch sees the series in a new order.
    patience : int or None
        Epochs without a notably lower validation loss before the training ends and the best weights come
        back; None trains to the last epoch and keeps its weights.
    random_prefix : bool
        For labels per step only: each batch is cut at one random step, whose label alone counts. Otherwise
        all steps count at once.
    minimum_steps : int, default=0
        Optimiser steps before patience may end the training: a small data set takes few of them per epoch.
    """

    epochs: int
    learning_rate: float
    weight_decay: float
    batch_size: int
    shuffle: bool
    patience: int | None
    random_prefix: bool
    minimum_steps: int = 0

    def __post_init__(self) -> None:
        least = {"epochs": 1, "batch_size": 2, "minimum_steps": 0} | (
            {} if self.patience is None else {"patience": 1}
        )
        for name, bound in least.items():
            checks.whole(getattr(self, name), name, bound)
        for name in ("shuffle", "random_prefix"):
            checks.flag(getattr(self, name), name)
        rate, decay = (checks.real(getattr(self, name), name) for name in ("learning_rate", "weight_decay"))
        if not (0 < rate < math.inf and 0 <= decay < math.inf):
            raise InputError(
                f"learning_rate must be positive and weight_decay not negative, got {rate} and {decay}."
            )


_DEFAULT = Recipe(
    epochs=200,
    learning_rate=2e-3,
    weight_decay=0.0,
    batch_size=32,
    shuffle=True,
    patience=5,
    random_prefix=False,
    minimum_steps=200,
)
_PUBLISHED = Recipe(
    epochs=100,
    learning_rate=1e-4,
    weight_decay=1e-3,
    batch_size=32,
    shuffle=False,
    patience=None,
    random_prefix=False,
)

RECIPES: Mapping[str, Recipe] = {
    "default": _DEFAULT,
    "published": _PUBLISHED,
    "published_per_step": replace(_PUBLISHED, epochs=50, random_prefix=True),
}


def choose_recipe(recipe: str | Recipe, per_step: bool, overrides: Mapping[str, Any]) -> Recipe:
    """Look a recipe up and change single settings of it.

    Parameters
    ----------
    recipe : str or Recipe
        A key of ``RECIPES``, or settings of one's own. ``"published"`` means ``"published_per_step"`` where
        the data has labels per step, as in the published experiments.
    per_step : bool
        Whether the data has labels per step.
    overrides : mapping
        Fields of :class:`Recipe` to change.

    Examples
    --------
    >>> choose_recipe("published", True, {"batch_size": 16}).epochs
    50
    """
    if isinstance(recipe, str):
        name = "published_per_step" if recipe == "published" and per_step else recipe
        if name not in RECIPES:
            raise UnknownNameError("recipe", name, RECIPES)
        recipe = RECIPES[name]
    if not isinstance(recipe, Recipe):
        raise InputError(f"recipe must be a name or a Recipe, got {brief(recipe)}.")
    known = [field.name for field in fields(Recipe)]
    for override in overrides:
        if override not in known:
            raise UnknownNameError("training setting", override, known)
    return replace(recipe, **overrides)
