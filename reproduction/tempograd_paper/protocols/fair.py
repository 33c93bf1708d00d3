"""The fair protocol: the mathematics done right, one question for all methods, choices made on validation data.

Training shuffles the series and stops by the validation loss, at the learning rate that gave the lowest one.
Every method explains the probability of the predicted class with a zero baseline; missing values are never
attributed nor removed. A method's settings are those that gave the highest CPD on validation series.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

import tempograd as tg
from tempograd.core.errors import ModelError, SettingError
from tempograd.data import Dataset, Series
from tempograd.explainers import Explainer
from tempograd.metrics import METRICS, summarise
from tempograd.metrics.evaluation import measure
from tempograd.models import train
from tempograd.models.networks import Classifier
from tempograd_paper.cell import Cell
from tempograd_paper.protocols.settings import configured

LEARNING_RATES = (5e-4, 2e-3, 8e-3)
VALIDATION = 100  # series that settings are chosen on

Candidates = list[dict[str, Any]]
GRIDS: dict[str, Candidates] = {  # methods that are not here have nothing to choose
    "rand_ig": [{"p": 0.3}, {"p": 0.5}, {"p": 0.7}],
    "gradient_shap": [{"pool": True}, {"pool": False, "noise": 0.1}, {"pool": False, "noise": 0.5}],
    "lime": [{}, {"alpha": 0.001}],
    # as published; a generator of 37 channels was still learning after nine minutes on a GPU
    "winit": [{"sampler": "marginal"}],
    "dynamask": [{}, {"deletion": True}],
    "extremal_mask": [{}, {"mask_weight": 1.0}, {"deletion": True}],
    "contralsp": [{}, {"mask_weight": 0.1}],
}


def train_fair_model(cell: Cell, data: Dataset, device: str) -> nn.Module:
    """Train at several learning rates and return the model with the lowest validation loss."""
    changes = dict(cell.training)
    rates = [changes.pop("learning_rate")] if "learning_rate" in changes else LEARNING_RATES
    models: list[nn.Module] = []
    for rate in rates:
        settings = changes | {"learning_rate": rate}
        try:
            models.append(
                train(cell.model, data, seed=cell.seed, device=device, options=dict(cell.sizes), **settings)
            )
        except ModelError:  # too high a rate for this data; the others are still there
            continue
    if not models:
        raise ModelError(
            f"{cell.model} cannot be trained on {cell.dataset} at any rate of {', '.join(map(str, rates))}."
        )
    return min(models, key=_validation_loss)


def _validation_loss(model: nn.Module) -> float:
    if not isinstance(model, Classifier):  # train made it by name
        raise TypeError(f"{type(model).__name__} was not made by train")
    return float(model.facts["validation_loss"])


def make_fair_explainer(
    cell: Cell, model: nn.Module, data: Dataset, sample: Series
) -> tuple[Explainer, dict[str, Any] | None]:
    """Return the explainer with the best settings on validation series, and those settings if there was a choice.

    Parameters
    ----------
    sample : Series
        The validation series that settings are chosen on.
    """
    candidates = [dict(cell.settings)] if cell.settings else _candidates(cell.method, sample.x.shape[1])
    if len(candidates) == 1:
        return fitted(cell, candidates[0], model, data), None
    best: tuple[float, Explainer, dict[str, Any]] | None = None
    for settings in candidates:
        try:
            explainer = fitted(cell, settings, model, data)
            score = _validation_cpd(cell, explainer, model, sample)
        except SettingError:  # this candidate is not for series of this size
            continue
        if best is None or score > best[0]:
            best = score, explainer, settings
    if best is None:
        raise SettingError(f"No setting of {cell.method} fits series of {sample.x.shape[1]} steps.")
    return best[1], best[2]


def _candidates(method: str, steps: int) -> Candidates:
    if method == "timing":  # its own choice of segments, short ones and long ones
        short, long = max(2, steps // 10), max(2, steps // 2)
        return [{}, {"min_length": 1, "max_length": short}, {"min_length": short, "max_length": max(short, long)}]
    return GRIDS.get(method, [{}])


def fitted(cell: Cell, settings: dict[str, Any], model: nn.Module, data: Dataset) -> Explainer:
    """Make an explainer and let it learn from the training series if it must, or if ``pool`` says so."""
    settings = dict(settings)
    pool = settings.pop("pool", False)
    explainer = configured(cell.method, cell.dataset, cell.protocol, settings.items())
    return explainer.fit(model, data.train.x, seed=cell.seed) if explainer.needs_fit or pool else explainer


def _validation_cpd(cell: Cell, explainer: Explainer, model: nn.Module, sample: Series) -> float:
    found = explainer(model, tg.Series(sample.x, mask=sample.mask, ids=sample.ids), seed=cell.seed)
    scores = measure(model, found, [replace(METRICS["cpd"](), rank=cell.rank)], "zero")
    return summarise(torch.as_tensor(scores["cpd"])).mean
