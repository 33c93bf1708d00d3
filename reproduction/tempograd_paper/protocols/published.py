"""The published protocol: the released code's settings and measures, faults included where they make the number.

Models are trained by the published recipe; masks of missing values are ignored, as the released models and metrics
do; CPD and CPP are means over the classes; AUP and AUR are pooled over all series. Each fault has a key, which the
``faults`` of the released class that shows it put into words.
"""

import torch
from torch import Tensor, nn

from tempograd.data import Dataset, Series
from tempograd.explainers import Explainer
from tempograd_paper.cell import Cell
from tempograd_paper.protocols.settings import configured
from tempograd_paper.released import train_as_released

LEARNS_FROM_ALL = {"timex", "timexpp"}  # B10: also from the fold's held-out series


def train_published_model(cell: Cell, data: Dataset, device: str) -> nn.Module:
    """Train by the published recipe: no shuffling, no stopping, last weights."""
    options = dict(cell.sizes)
    changes = dict(cell.training)
    return train_as_released(cell.model, data, seed=cell.seed, device=device, options=options, **changes)


def make_published_explainer(cell: Cell, model: nn.Module, data: Dataset, test: Series) -> Explainer:
    """Return the paper's explainer, fitted to what it was fitted to there."""
    explainer = configured(cell.method, cell.dataset, cell.protocol, cell.settings)
    if not explainer.needs_fit and cell.method != "occlusion":
        return explainer
    return explainer.fit(model, _training_series(cell, data, test), seed=cell.seed)


def _training_series(cell: Cell, data: Dataset, test: Series) -> Tensor:
    x: Tensor = data.train.x
    if cell.method == "fit" and data.per_step:  # the released generator saw the series it was to explain
        x = test.x
    elif cell.method in LEARNS_FROM_ALL and data.validation is not None:
        order = torch.cat([data.train.ids, data.validation.ids]).argsort()
        x = torch.cat([x, data.validation.x])[order]
    return x
