"""Random scores: the floor that every method must beat."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from tempograd.core.estimate import Estimate
from tempograd.core.rng import Stream, keys, uniform
from tempograd.engine import Ask
from tempograd.explainers.base import EXPLAINERS, Explainer, one_by_one


@EXPLAINERS.register("random")
@dataclass(frozen=True)
class Random(Explainer):
    """Scores uniform on (0, 1), independent of the model and of the values: what no information looks like.

    Examples
    --------
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 2))
    >>> scores = Random()(model, torch.zeros(1000, 3, 2)).values
    >>> bool((scores.mean() - 0.5).abs() < 0.02)
    True
    """

    signed: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = False
    uses_baseline: ClassVar[bool] = False
    takes_inputs: ClassVar[bool] = True

    @one_by_one
    def attribute(self, ask: Ask) -> Estimate:
        scores = uniform(keys(ask.seed, ask.ids, Stream.SCORES)[..., None], torch.arange(ask.x[0].numel()))
        values = scores.view(ask.x.shape).to(ask.x.device)
        return Estimate(values if ask.mask is None else values * ask.mask)
