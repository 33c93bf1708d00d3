"""TimeX as released, and what TimeX++ shares with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from tempograd.core import validation
from tempograd.engine import Ask, Batching, Block, Model, frozen, owner
from tempograd.explainers import TimeX
from tempograd.explainers.timex import (
    TINY,
    Batch,
    MaskGenerator,
    MaskNetwork,
    Objective,
    Read,
    Training,
    TrainingSet,
    copied,
    label_geometry,
    require_gradient,
)
from tempograd_paper.labels import REAL
from tempograd_paper.released.base import Released

_Label = Literal["pairs", "means"]
TEST_BATCH = 50  # series that are explained together


def across(generator: MaskGenerator, x: Tensor) -> Tensor:
    """B3: let the attention run over the series instead of over the steps."""
    return generator.attend(*(part.transpose(0, 1) for part in generator.coded(x))).transpose(0, 1)


def reverse_jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    r"""Half of KL(m‖P) + KL(m‖Q), m = (P + Q) / 2, with the mean over the last axis in place of the sum."""
    p, q = p.clamp(min=TINY), q.clamp(min=TINY)
    m = (p + q) / 2
    return (m * (m.log() - (p.log() + q.log()) / 2)).mean(-1)


def label_means(p: Tensor, q: Tensor) -> Tensor:
    r"""Lab as released (7): the squared difference of two means over the pairs i < j of reversed divergences.

    .. math:: (\mathrm{mean}_{ij} \mathrm{JS}_{ij}(P) - \mathrm{mean}_{ij} \mathrm{JS}_{ij}(Q))^2
    """
    if len(p) < 2:
        return label_geometry(p, q)
    i, j = torch.triu_indices(len(p), len(p), offset=1, device=p.device)
    first, second = (reverse_jensen_shannon(z[i], z[j]) for z in (p, q))
    return (first.mean() - second.mean()).square()


class NoisySet(TrainingSet):
    """7.3: training series whose answers are asked for anew with every batch."""

    def batch(self, rows: Tensor, random: torch.Generator) -> Batch:
        batch = super().batch(rows, random)
        with torch.no_grad():
            raw, embedding = self.run_model(batch.x)
        return batch._replace(prediction=self.probabilities(raw), embedding=embedding)


class ReleasedTraining(Training):
    """A training that never clips (B10), on a model with its dropout on (7.3), with a choice of its own (7, 8)."""

    def __init__(
        self,
        objective: Objective,
        data: TrainingSet,
        settings: "ReleasedMaskNetwork",
        random: torch.Generator,
        module: nn.Module | None,
    ) -> None:
        super().__init__(objective, data, settings, random)
        self.faults, self.module = settings.quirks, module

    def _mode(self, training: bool) -> None:
        super()._mode(training)
        if "7.3" in self.faults:
            self.objective.learns.train(training)
            if self.module is not None:
                self.module.train(training)

    def _clip(self) -> None:
        if "B10" not in self.faults:
            super()._clip()

    def _judge(self, last: Tensor) -> Tensor:
        if "8" in self.faults:
            return last
        return self._held_out(0) if "7" in self.faults else super()._judge(last)


class ReleasedMaskNetwork(Released, MaskNetwork):  # as a dataclass it would bring back defaults of MaskNetwork
    """A mask generator as released: how it is trained, and how it is read."""

    faults: ClassVar[Mapping[str, str]] = {
        "B3": "attention runs over the 50 series of a test batch instead of over time: company matters",
        "B10": "gradients are never clipped; the paper's runs also learn from the fold's held-out series",
        "7.3": "the model that is learnt from is in training mode, so its answers are noisy",
    }
    datasets: ClassVar[Sequence[str]] = REAL
    published: ClassVar[Mapping[str, Any]] = {
        "epochs": 50,
        "fit_batch_size": 32,
        "weight_decay": 1e-3,
        "prior": 0.5,
        "sparsity": 2.0,
        "connection": 4.0,
        "label_weight": 1.0,
    }
    """The paper's setting, but for what is the released class' own."""

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return the paper's setting, the same for its six real data sets; synthetic data was not explained."""
        cls._check(dataset)
        return cls(**cls.published, quirks=frozenset(cls.faults))

    def _learnt_from(self, model: Model, x: Tensor, seed: int) -> Self:
        if "7.3" not in self.quirks:
            return super()._learnt_from(model, x, seed)
        box = copied(model)  # before the model comes to rest, for its dropout
        module = owner(box)
        with frozen(model):
            require_gradient(model, x)  # of the copy cuDNN gives none before it trains
            if module is not None:
                module.eval().requires_grad_(False)
            return self._taught_by(box, x, seed)

    def _training_set(self, x: Tensor, read: Read, device: torch.device, dtype: torch.dtype) -> TrainingSet:
        if "7.3" not in self.quirks:
            return super()._training_set(x, read, device, dtype)
        return NoisySet(x, read, device, dtype, f"read series for {self.name}")

    def _training(
        self, model: Model, objective: Objective, data: TrainingSet, random: torch.Generator
    ) -> Training:
        return ReleasedTraining(objective, data, self, random, owner(model))

    def _batching(self, ask: Ask) -> Batching:
        batching = super()._batching(ask)
        if "B3" in self.quirks:
            batching.size, batching.together = max(TEST_BATCH, batching.size), TEST_BATCH
        return batching

    def _masks(self, generator: MaskGenerator, block: Block) -> Tensor:
        if "B3" not in self.quirks:
            return super()._masks(generator, block)
        parts = torch.split(block.x.to(generator.code.dtype), TEST_BATCH)
        return torch.cat([across(generator, part) for part in parts])


@dataclass(frozen=True)
class ReleasedTimeX(ReleasedMaskNetwork, TimeX):
    """TimeX as released.

    Attention runs over the series of a test batch (B3), gradients are clipped before they are there, so never
    (B10), the model that is learnt from is in training mode (7.3), and the epoch is chosen by Emb and Lab alone
    (7). Also B10, ``protocols/published.py`` lets it learn from the fold's held-out series, too.

    Parameters
    ----------
    label : {"pairs", "means"}
        Lab as the paper writes it, pair by pair, or as released, of means over the pairs: see
        :func:`label_means`.
    """

    faults: ClassVar[Mapping[str, str]] = {
        **ReleasedMaskNetwork.faults,
        "7": "the epoch is chosen by Emb and Lab alone, without GSAT and Connect",
    }

    published: ClassVar[Mapping[str, Any]] = {
        **ReleasedMaskNetwork.published,
        "learning_rate": 1e-4,
    }

    label: _Label = validation.choice("pairs", _Label)

    @classmethod
    def of(cls, dataset: str) -> Self:
        return replace(super().of(dataset), label="means")

    def _label_loss(self, p: Tensor, q: Tensor) -> Tensor:
        return label_means(p, q) if self.label == "means" else super()._label_loss(p, q)
