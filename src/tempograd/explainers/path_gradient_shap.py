"""GradientSHAP (expected gradients): integrated gradients averaged over a distribution of baselines."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from tempograd._utils import settings, validation
from tempograd._utils.rng import FAR, Purpose, below, keys, normal, per_point
from tempograd.engine import Block, Model, Question
from tempograd.errors import warn
from tempograd.explainers.base import EXPLAINERS, Explainer, check_training
from tempograd.explainers.integration import Attribution, Path, Plan, Points, integrate, midpoints


@EXPLAINERS.register("gradient_shap")
@dataclass(frozen=True)
class GradientShap(Explainer):
    r"""Expected gradients.

    .. math:: A_{t,d} = \mathbb{E}_{\alpha, x', \epsilon}\big[ (x + \epsilon - x')_{t,d} \;
        \partial_{t,d} F_{\hat y}\big(x' + \alpha (x + \epsilon - x')\big) \big],

    where baselines :math:`x'` are drawn from a pool of series and :math:`\epsilon` is Gaussian noise.

    Parameters
    ----------
    points : int, default=50
        Draws per series; each costs one pass of the model.
    noise : float, default=0
        Standard deviation of the noise.

    Notes
    -----
    :meth:`fit` (``train=`` in :func:`tempograd.explain`) takes the pool of baselines. Without one the call's
    baseline is the only one; without noise nothing is then drawn, the method is midpoint integrated gradients, and
    the call says so. Positions on the path are stratified.

    References
    ----------
    .. [1] S. Lundberg and S.-I. Lee, "A Unified Approach to Interpreting Model Predictions", NeurIPS 2017.
    .. [2] G. Erion et al., "Improving performance of deep learning models with axiomatic attribution priors
       and expected gradients", Nature Machine Intelligence 2021. https://arxiv.org/abs/1906.10670

    Examples
    --------
    >>> total = lambda x: x.sum((1, 2))
    >>> method = GradientShap().fit(total, torch.tensor([[[1.0], [2.0]]]))
    >>> method(total, torch.tensor([[[4.0], [4.0]]]), output="raw").values.flatten()
    tensor([3., 2.])
    """

    zero_if_ignored: ClassVar[bool] = True
    caveat: ClassVar[str] = "gradient_shap has no pool of baselines"

    points: int = settings.whole(50)
    noise: float = settings.number(0.0)
    pool: Any = field(default=None, metadata={"fitted": True}, repr=False, compare=False)

    def fit(self, model: Model, x: Any, *, seed: int = 0) -> Self:
        """Return a new explainer with these series as the pool of baselines."""
        return replace(self, pool=validation.series(x, name="the pool of baselines"))

    def attribute(self, question: Question) -> Attribution:
        if self.pool is not None:
            check_training(self.pool, question)
        elif not self.noise and self._examined:
            warn(
                f"{self.caveat}, so its scores are those of integrated_gradients: call fit(model, train), or pass "
                "train= to tempograd.explain."
            )

        path = partial(self._path, question)
        return integrate(question, Plan((self.points,)), path, label=f"explain with {self.name}")

    def _path(self, question: Question, block: Block, stage: int) -> Path:
        stream = keys(question.seed, block.ids, Purpose.BASELINES)
        alpha = self._positions(block, stream)
        noise = per_point(stream, self.points)
        baselines = self._baselines(block, stream, question)

        def at(piece: slice) -> Points:
            start = block.baseline[:, None]
            if baselines is not None:  # unobserved cells stay where they are
                start = torch.where(block.observed[:, None], baselines(piece), block.x[:, None])
            step = (block.x[:, None] - start).expand(-1, piece.stop - piece.start, -1, -1)
            if self.noise:
                step = step + self.noise * _gaussian(noise, piece, block)
            # with noise the paths do not end at x
            position = None if self.noise else alpha[:, piece]
            return Points(start + alpha[:, piece, None, None] * step, step=step, position=position)

        return Path(
            torch.ones_like(block.x),
            at,
            start=block.baseline if baselines is None else None,
            straight=baselines is None and not self.noise,
        )

    def _positions(self, block: Block, stream: Tensor) -> Tensor:
        """Return the positions between baseline and series, (series or 1, points)."""
        return midpoints(self.points, block.x)[None]

    def _baselines(self, block: Block, stream: Tensor, question: Question) -> Callable[[slice], Tensor] | None:
        """Draw a baseline for each point and return what looks up those of some; None for the call's own."""
        if self.pool is None:
            return None
        pool: Tensor = self.pool
        counter = FAR + torch.arange(self.points, device=block.x.device)
        rows = below(stream[..., None], counter, len(pool)).to(pool.device)
        return lambda piece: pool[rows[:, piece]].to(block.x)


def _gaussian(streams: Tensor, piece: slice, block: Block) -> Tensor:
    cell = torch.arange(block.x[0].numel(), device=block.x.device)
    drawn = normal(streams[:, :, piece, None], cell).to(block.x)
    return drawn.view(len(block.x), -1, *block.x.shape[1:]) * block.observed[:, None]
