"""Extremal masks: a mask per series and one network that learns what to put in the place of a value."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from tempograd._utils import settings
from tempograd._utils.progress import Advance
from tempograd.engine import Question
from tempograd.errors import UnknownNameError
from tempograd.explainers._published import REAL, SYNTHETIC
from tempograd.explainers.base import EXPLAINERS, Explainer
from tempograd.explainers.integration import Attribution
from tempograd.explainers.masks.replacement import Replacement, ends, seeded
from tempograd.explainers.masks.training import Piece, Problem, descend, precision, together


@EXPLAINERS.register("extremal_mask")
@dataclass(frozen=True)
class ExtremalMask(Explainer):
    r"""Extremal masks with learned replacements (Extrmask).

    .. math:: \min_{m, \theta} \; \mathrm{err}\big(f(\bar m x + (1 - \bar m) r_\theta(x)), f(x)\big)
        + \lambda_1 \overline{|m|} + \lambda_2 \overline{|r_\theta(x)|}, \qquad \bar m = \mathrm{clamp}(m, 0, 1),

    where :math:`r_\theta` is a bidirectional GRU shared by all series that are explained together. The score
    is :math:`\bar m`. Replacements are counted from the baseline.

    Parameters
    ----------
    mask_weight, replacement_weight : float
        :math:`\lambda_1` and :math:`\lambda_2`. The paper has 1 and 1 for squared differences of raw outputs;
        they are larger than divergences of probabilities.
    epochs : int
    lr : float
        Step of Adam, for masks and network.
    batch : int, optional
        Series per step of the network, by default all of them, in which case their order does not matter.
    deletion : bool
        Look for the fewest cells whose replacement turns the prediction into that of the baseline:
        the error is then :math:`\mathrm{err}\big(f((1 - \bar m) x + \bar m \, r_\theta(x)), f(x')\big)`.

    Notes
    -----
    The error is :math:`\mathrm{KL}(p(x) \| p(\cdot))`, or the mean squared difference for ``output="raw"``, over
    all outputs: there is no target class. Since the network is shared, a score depends on the company of a series.
    Losses of series add up, so that neither the memory of the device nor Adam's guard against small
    gradients changes a mask.

    Quirks: A6, the raw output; B6, the last step only; 0.3.5, a dense Adam on means over a batch, in which
    masks also move in the steps of other batches; 0.3.6, softmax of probabilities against the most likely class.

    References
    ----------
    .. [1] J. Enguehard, "Learning Perturbations to Explain Time Series Predictions", ICML 2023.
       https://arxiv.org/abs/2305.18840

    Examples
    --------
    >>> first_two = lambda x: x[:, :2, 0]
    >>> x = torch.tensor([[[3.0], [-2.0], [2.0], [1.0]]])
    >>> ExtremalMask(1.0, 10.0)(first_two, x, output="raw").values.flatten().round()
    tensor([1., 1., 0., 0.])
    """

    signed: ClassVar[bool] = False
    targeted: ClassVar[bool] = False
    shared: ClassVar[bool] = True
    known_quirks: ClassVar[frozenset[str]] = frozenset({"A6", "B6", "0.3.5", "0.3.6"})

    mask_weight: float = settings.number(0.1)
    replacement_weight: float = settings.number(1.0)
    epochs: int = settings.whole(500)
    lr: float = settings.positive(0.01)
    batch: int | None = settings.whole(None)
    deletion: bool = settings.flag(False)

    @classmethod
    def published(cls, dataset: str) -> Self:
        """Return the paper's setting: batches of 100 with a dense Adam."""
        if dataset in REAL:
            return cls(0.01, 10.0, batch=100, quirks=frozenset({"0.3.5", "0.3.6"}))
        if dataset not in SYNTHETIC:
            raise UnknownNameError("published setting of extremal masks", dataset, REAL + SYNTHETIC)
        quirks = {"A6", "0.3.5"} | ({"B6"} if dataset == "state" else set())
        return cls(1.0, 1.0, batch=100, quirks=frozenset(quirks))

    def attribute(self, question: Question) -> Attribution:
        def fit(groups: list[list[Piece]], advance: Advance) -> Iterable[Tensor]:
            return self._fit(question, groups, advance)

        values = together(
            question,
            fit,
            epochs=self.epochs,
            label=f"explain with {self.name}",
            batch=self.batch,
            hard="0.3.6" in self.quirks,
            empty=self.deletion,
        )
        return Attribution(values)

    def _fit(self, question: Question, groups: list[list[Piece]], advance: Advance) -> Iterable[Tensor]:
        dtype, drift = precision(question), "0.3.5" in self.quirks
        network = seeded(question, dtype, lambda: Replacement(question.x.shape[2]))
        masks: list[Tensor] = []
        steps = []
        for group in groups:
            weight = 1 / sum(len(piece.block.x) for piece in group) if drift else 1.0
            problems = []
            for piece in group:
                mask = torch.full_like(piece.block.x, 0.5, dtype=dtype, requires_grad=True)
                problems.append(self._problem(question, piece, mask, network, weight))
                masks.append(mask)
            steps.append(problems)
        weights = list(network.parameters())
        descend(steps, masks, weights, epochs=self.epochs, lr=self.lr, done=advance, drift=drift)
        return (mask.clamp(0, 1) for mask in masks)

    def _problem(
        self, question: Question, piece: Piece, mask: Tensor, network: Replacement, weight: float
    ) -> Problem:
        observed, lengths = piece.block.observed, ends(question, piece.block)
        x, baseline = piece.block.x.to(mask.dtype), piece.block.baseline.to(mask.dtype)
        centred, cells = x - baseline, observed.flatten(1).sum(1).clamp(min=1)

        def loss(_: int) -> Tensor:
            kept = mask.clamp(0, 1)
            moved: Tensor = network(centred, lengths)
            share = kept if self.deletion else 1 - kept
            z = x + share * (moved - centred) * observed
            size = (self.mask_weight * mask.abs() + self.replacement_weight * moved.abs()) * observed
            each: Tensor = piece.error(z[:, None])[:, 0] + size.flatten(1).sum(1) / cells
            return weight * each.sum()

        return Problem([mask, *network.parameters()], loss)
