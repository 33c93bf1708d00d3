"""TimeX: a mask generator that keeps the geometry of the model's embeddings."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from tempograd._utils import settings
from tempograd.engine import Model
from tempograd.explainers.base import EXPLAINERS
from tempograd.explainers.timex.base import MaskNetwork
from tempograd.explainers.timex.networks import MaskGenerator, Reader, find_embedding, one_vector
from tempograd.explainers.timex.training import (
    Batch,
    Objective,
    TrainingSet,
    geometry,
    label_geometry,
    probabilities,
)

WIDEST = 200  # hidden size of the head; the embeddings of the authors' models have 200 numbers
LABELS = ("pairs", "means")


@EXPLAINERS.register("timex")
@dataclass(frozen=True)
class TimeX(MaskNetwork):
    r"""TimeX: a mask generator learnt so that masked series keep their place among the model's embeddings.

    A transformer g gives each cell the probability :math:`p = g(x)` of being kept. Gates b are drawn from p,
    cells that are not kept take a value from the training series' distribution at that cell, and a trainable
    copy of the model embeds the result as :math:`\tilde z`, from which a small head predicts
    :math:`\tilde y`. With z and y the model's own embedding and prediction, g, copy and head minimise

    .. math:: \mathrm{Emb}(z, \tilde z) + \lambda_l \mathrm{Lab}(y, \tilde y)
        + \lambda_s \mathrm{GSAT}(p) + \lambda_c \mathrm{Connect}(p).

    The scores are p: between 0 and 1, the same for every target. One fit serves any number of explanations,
    each of which costs one small pass.

    Parameters
    ----------
    epochs, batch : int, default=50, 32
        Passes over the training series, and how many of them are compared at a time.
    learning_rate, weight_decay : float, default=1e-4, 1e-3
        Of AdamW. The rate falls tenfold on a plateau, from epoch 21 on.
    prior : float, default=0.5
        Share of cells that are kept where nothing speaks for or against them, r of GSAT.
    sparsity, connection : float, default=2, 4
        Weights of GSAT and Connect; the paper's 2 · 1 and 2 · 2.
    label_weight : float, default=1
        Weight of Lab.
    label : {"pairs", "means"}
        Lab as in the paper, pair by pair, or as released, the squared difference of two means.
    scaled : bool, default=True
        Whether Emb is divided by the variance of the cosines.
    embedding : str, optional
        Name of the layer whose output is the embedding; by default what the last linear layer reads.

    Notes
    -----
    A model with one output per step has one vector per step; Emb then compares their means over time. Any
    other embedding is flattened. Where the only linear layer reads the series themselves, name a layer: the
    series as their own embedding say nothing about the model. The answers are read as class probabilities.

    The copy stays at rest like the model (no dropout, fixed normalisation), so that a series which loses
    nothing starts exactly where it belongs. The paper's prototypes learn from the embeddings without acting
    on them: they change no score, and are left out, as is the constant cross-entropy of the frozen model.

    References
    ----------
    .. [1] O. Queen et al., "Encoding Time-Series Explanations through Self-Supervised Model Behavior
       Consistency", NeurIPS 2023. https://arxiv.org/abs/2306.02109

    Examples
    --------
    >>> import torch
    >>> x = torch.randn(40, 6, 2, generator=torch.Generator().manual_seed(0))
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 2))
    >>> scores = TimeX(epochs=1).fit(model, x)(model, x[:3]).values
    >>> bool(((scores > 0) & (scores < 1)).all())
    True
    """

    needs_module: ClassVar[bool] = True

    label_weight: float = settings.number(1.0)
    label: str = settings.choice("pairs", LABELS)
    scaled: bool = settings.flag(True)
    embedding: str | None = settings.text(None, "the name of a layer")

    def _reader(self, model: Model, x: Tensor) -> Reader:
        return find_embedding(model, x, self.embedding)

    def _objective(self, generator: MaskGenerator, data: TrainingSet) -> Objective:
        surrogate = cast("Reader", data.read).copied()
        surrogate.module.to(data.dtype)
        for weight in surrogate.module.parameters():
            weight.requires_grad_(weight.is_floating_point())
        with torch.no_grad():
            one = surrogate(data.x[:1].to(data.device, data.dtype))[1]
        head = _Head(one, data.answer_shape).to(generator.code)

        def fidelity(batch: Batch, _: Tensor, masked: Tensor) -> Tensor:
            found = surrogate(masked)[1]
            loss = geometry(cast("Tensor", batch.embedding), one_vector(found), scaled=self.scaled)
            predicted = probabilities(head(found))
            return loss + self.label_weight * label_geometry(batch.prediction, predicted, self.label)

        return Objective(generator, nn.ModuleList([generator, surrogate.module, head]), fidelity)


class _Head(nn.Module):
    """Predicts from an embedding, with one hidden layer; step by step where there is one vector per step."""

    def __init__(self, embedding: Tensor, answer: tuple[int, ...]) -> None:
        super().__init__()
        self.answer = answer
        size, hidden = embedding.shape[-1], min(embedding.shape[-1], WIDEST)
        outputs = answer[-1] if embedding.ndim == 3 else prod(answer)
        self.layers = nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, outputs))

    def forward(self, embedding: Tensor) -> Tensor:
        predicted: Tensor = self.layers(embedding)
        return predicted.view(len(embedding), *self.answer)
