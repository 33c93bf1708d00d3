"""RandIG: TIMING's ablation, with single cells held at random instead of segments."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from tempograd._utils import settings
from tempograd._utils.rng import Purpose, keys, per_point, words
from tempograd.engine import Block, Question
from tempograd.errors import warn
from tempograd.explainers.base import EXPLAINERS, Explainer
from tempograd.explainers.integration import Attribution, Path, Plan, Points, integrate, midpoints


@EXPLAINERS.register("rand_ig")
@dataclass(frozen=True)
class RandIG(Explainer):
    r"""Integrated gradients over paths that hold each cell independently at random.

    .. math:: A_{t,d} = (x - x')_{t,d} \; \mathbb{E}_{\alpha, M}\!\left[
            \partial_{t,d} F_{\hat y}\big(x + M \odot (1 - \alpha)(x' - x)\big) \;\middle|\; M_{t,d} = 1 \right],
        \qquad M_{i,j} \sim \mathrm{Bernoulli}(p).

    Parameters
    ----------
    points : int, default=50
        Path points; each has its own mask and costs one pass of the model.
    p : float, default=0.5
        Probability that a cell **moves**, as in the paper's text. The paper's ablation table reads p as the
        probability that a cell is **held**: its row "p = 0.3" is ``p=0.7`` here.

    Notes
    -----
    A cell that never moves gets the score 0, ``free_points`` 0 and an infinite error.

    References
    ----------
    .. [1] H. Jang, C. Kim and E. Yang, "TIMING: Temporality-Aware Integrated Gradients for Time Series
       Explanation", ICML 2025. https://arxiv.org/abs/2506.05035
    """

    zero_if_ignored: ClassVar[bool] = True

    points: int = settings.whole(50)
    p: float = settings.number(0.5, high=1.0, closed=(False, True))

    @property
    def moves(self) -> float:
        """Return the probability that a cell moves."""
        return self.p

    def attribute(self, question: Question) -> Attribution:
        if self.moves * self.points < 2 and self._examined:
            warn(
                f"A cell moves in only {self.moves * self.points:.2g} of {self.points} points on average: "
                f"use points={int(2 / self.moves) + 1} or a larger p."
            )

        path = partial(self._path, question.seed)
        return integrate(question, Plan((self.points,)), path, label=f"explain with {self.name}")

    def _positions(self, points: int, like: Tensor) -> Tensor:
        """Return how far points are on their way from the baseline, 0, to the series, 1."""
        return midpoints(points, like)

    def _path(self, seed: int, block: Block, stage: int) -> Path:
        streams = per_point(keys(seed, block.ids, Purpose.CELLS), self.points)
        cell = torch.arange(block.x[0].numel(), device=block.x.device)
        alpha = self._positions(self.points, block.x)

        def at(piece: slice) -> Points:
            free = (words(streams[:, :, piece, None], cell) < round(self.moves * 2**32)).view(
                len(block.x), -1, *block.x.shape[1:]
            )
            x = block.x[:, None]
            z = torch.where(free, torch.lerp(block.baseline[:, None], x, alpha[piece, None, None]), x)
            return Points(z, free=free.to(x.dtype), position=alpha[piece])

        return Path(block.x - block.baseline, at, start=block.baseline)
