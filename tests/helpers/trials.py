"""Explainers of known quality, and models whose right setting is known, for tests of choosing."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from tempograd.core import validation
from tempograd.core.estimate import Estimate
from tempograd.core.rng import Stream, keys, uniform
from tempograd.engine import Ask
from tempograd.explainers import Explainer
from tempograd.explainers.base import one_by_one
from tempograd.metrics import METRICS

WEIGHTS = torch.linspace(0.2, 3.0, 12).view(12, 1)


def weighted(x):
    """Sum up values that matter more and more with time."""
    return (x * WEIGHTS.to(x)).sum((1, 2))[:, None]


weighted.tempograd_task = "regression"


@dataclass(frozen=True)
class Mixed(Explainer):
    """The truth about :func:`weighted`, of which ``quality`` is a share, and noise of a ``stream`` of its own."""

    needs_gradient: ClassVar[bool] = False

    quality: float = validation.real(0.0, high=1.0)
    stream: int = validation.integer(0, least=0)

    @one_by_one
    def attribute(self, ask: Ask) -> Estimate:
        ask.read_all()
        cell = torch.arange(ask.x[0].numel())
        streams = keys(ask.seed + 1000 * self.stream, ask.ids, Stream.SCORES)
        noise = uniform(streams[..., None], cell).view(ask.x.shape)
        truth = (ask.x * WEIGHTS.to(ask.x)).abs()
        return Estimate(self.quality * truth + (1 - self.quality) * noise)


def short_cpd():
    """Return CPD of a few cells, which is quick."""
    return METRICS["cpd"](k=3)


# Two models of one channel whose truth is known: cells 3, 8 and 13 decide near the series, or along the whole way.

STEPS, DECIDING = 24, (3, 8, 13)


def positive_series(count, seed=0):
    return 0.8 + 0.4 * torch.rand(count, STEPS, 1, generator=torch.Generator().manual_seed(seed))


def truth_of(x):
    truth = torch.zeros_like(x)
    truth[:, list(DECIDING)] = 1
    return truth


class Gated(torch.nn.Module):
    """Cells 3, 8 and 13 decide while most of a series is there, and the others once much of it is gone.

    Only paths that hold nearly everything tell how it answers near the series.
    """

    tempograd_task = "regression"

    def forward(self, x):
        gate = torch.sigmoid(40 * (x.mean((1, 2)) - 0.65))[:, None]
        decides = x[:, list(DECIDING), 0].sum(1, keepdim=True)
        others = x.sum((1, 2))[:, None] - decides
        return gate * decides + (1 - gate) * (3 * others - 39)  # about the same where the gate opens


class Saturated(torch.nn.Module):
    """Any of cells 3, 8 and 13 is enough, so that one alone makes no difference; the others have a small effect.

    Only paths that hold nothing see what happens when all three go.
    """

    tempograd_task = "regression"

    def forward(self, x):
        decides = x[:, list(DECIDING), 0].sum(1, keepdim=True)
        return torch.tanh(6 * decides) + 0.02 * (x.sum((1, 2))[:, None] - decides)
