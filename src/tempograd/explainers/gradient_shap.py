"""GradientSHAP (expected gradients): integrated gradients averaged over a distribution of baselines."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from tempograd import checks
from tempograd.draws import FAR, Purpose, below, keys, normal, per_point
from tempograd.engine import Block, Model, Question
from tempograd.errors import InputError, SettingError
from tempograd.explainers._path import Attribution, Path, Points, integrate
from tempograd.explainers.base import EXPLAINERS, Explainer


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
    :meth:`fit` takes the pool of baselines. Without one the call's baseline is the only one, and without
    noise the method is then midpoint integrated gradients. Positions on the path are stratified.

    References
    ----------
    .. [1] S. Lundberg and S.-I. Lee, "A Unified Approach to Interpreting Model Predictions", NeurIPS 2017.
    .. [2] G. Erion et al., "Improving performance of deep learning models with axiomatic attribution priors
       and expected gradients", Nature Machine Intelligence 2021. https://arxiv.org/abs/1906.10670
    """

    zero_if_ignored: ClassVar[bool] = True

    points: int = 50
    noise: float = 0.0
    pool: Any = field(default=None, metadata={"fitted": True}, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.whole(self.points, "points", 1)
        if not checks.real(self.noise, "noise") >= 0:
            raise SettingError(f"noise must not be negative, got {self.noise!r}.")

    def fit(self, model: Model, x: Any, *, seed: int = 0) -> Self:
        """Take series as the pool of baselines."""
        return replace(self, pool=checks.series(x, name="the pool of baselines"))

    def attribute(self, question: Question) -> Attribution:
        pool: Tensor | None = self.pool
        if pool is not None and pool.shape[1:] != question.x.shape[1:]:
            raise InputError(
                f"The pool of baselines has series of shape {tuple(pool.shape[1:])}, "
                f"x has {tuple(question.x.shape[1:])}: fit with series of the same length and channels."
            )

        def path(block: Block) -> Path:
            return self._path(block, pool, question.seed)

        return integrate(question, self.points, path, random=True, label=f"explain with {self.name}")

    def _path(self, block: Block, pool: Tensor | None, seed: int) -> Path:
        stream = keys(seed, block.ids, Purpose.BASELINES)
        alpha = (torch.arange(self.points, device=block.x.device) + 0.5).to(block.x.dtype) / self.points
        noise = per_point(stream, self.points)
        index = FAR + torch.arange(self.points, device=block.x.device)
        rows = None if pool is None else below(stream[..., None], index, len(pool))

        def at(piece: slice) -> Points:
            start = block.baseline[:, None]
            if pool is not None and rows is not None:
                drawn = pool[rows[:, piece].to(pool.device)].to(block.x)
                start = torch.where(block.observed[:, None], drawn, block.x[:, None])
            step = (block.x[:, None] - start).expand(-1, piece.stop - piece.start, -1, -1)
            if self.noise:
                step = step + self.noise * _gaussian(noise, piece, block)
            return Points(start + alpha[piece, None, None] * step, step=step)

        return Path(torch.ones_like(block.x), at)


def _gaussian(streams: Tensor, piece: slice, block: Block) -> Tensor:
    cell = torch.arange(block.x[0].numel(), device=block.x.device)
    drawn = normal(streams[:, :, piece, None], cell).to(block.x)
    return drawn.view(len(block.x), -1, *block.x.shape[1:]) * block.observed[:, None]
