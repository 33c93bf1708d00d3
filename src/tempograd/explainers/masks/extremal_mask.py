"""Extremal masks: a mask per series and one network that learns what to put in the place of a value."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from tempograd._utils import settings
from tempograd._utils.progress import Advance
from tempograd.engine import Question
from tempograd.explainers.base import EXPLAINERS
from tempograd.explainers.integration import Attribution
from tempograd.explainers.masks.base import LearntMask, Piece, Problem, Replacement, ends, precision, seeded


@EXPLAINERS.register("extremal_mask")
@dataclass(frozen=True)
class ExtremalMask(LearntMask):
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

    shared: ClassVar[bool] = True

    mask_weight: float = settings.number(0.1)
    replacement_weight: float = settings.number(1.0)
    epochs: int = settings.whole(500)
    lr: float = settings.positive(0.01)
    batch: int | None = settings.whole(None)
    deletion: bool = settings.flag(False)

    def attribute(self, question: Question) -> Attribution:
        return self._together(question, partial(self._fit, question), self.batch, empty=self.deletion)

    def _fit(self, question: Question, groups: list[list[Piece]], advance: Advance) -> Iterable[Tensor]:
        dtype = precision(question)
        network = seeded(question, dtype, lambda: Replacement(question.x.shape[2]))
        masks: list[Tensor] = []

        def problem(piece: Piece) -> Problem:
            masks.append(torch.full_like(piece.block.x, 0.5, dtype=dtype, requires_grad=True))
            return self._problem(question, piece, masks[-1], network)

        steps = [[problem(piece) for piece in group] for group in groups]
        self._optimise(question, steps, masks, network.parameters(), done=advance)
        return (mask.clamp(0, 1) for mask in masks)

    def _problem(self, question: Question, piece: Piece, mask: Tensor, network: Replacement) -> Problem:
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
            return each.sum()

        return Problem(piece.block.rows, [mask, *network.parameters()], loss)
