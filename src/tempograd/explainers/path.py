"""Methods that integrate gradients along paths from a baseline to the series."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import warn
from tempograd.core.estimate import Estimate
from tempograd.core.rng import FAR, Stream, bits, fold_in, keys, normal, randint
from tempograd.engine import Ask, Block
from tempograd.explainers.base import EXPLAINERS, Explainer, check_training
from tempograd.sampling.integration import GradientPath, Points, Schedule, in_units, integrate, midpoints
from tempograd.typing import ArrayLike, Inputs, Model, QuadratureRule, Setting


class PathMethod(Explainer):
    """A method that averages gradients along paths, of all cells alike."""

    zero_if_ignored: ClassVar[bool] = True
    takes_inputs: ClassVar[bool] = True
    takes_background: ClassVar[bool] = True


# Integrated gradients, of all cells or of those of a mask


@EXPLAINERS.register("integrated_gradients", "ig", "intgrad")
@dataclass(frozen=True)
class IntegratedGradients(PathMethod):
    r"""Integrated gradients.

    .. math:: A_{t,d} = (x - x')_{t,d} \int_0^1 \partial_{t,d} F_{\hat y}\big(x' + \alpha (x - x')\big) \, d\alpha.

    The scores sum to :math:`F_{\hat y}(x) - F_{\hat y}(x')`. With ``baseline="background"`` every node has a
    series :math:`x'` of its own, drawn from the background: expected gradients, with an error over the draws.

    Parameters
    ----------
    n_steps : int, default=50
        Nodes of the quadrature; each costs one pass of the model.
    rule : {"gauss-legendre", "midpoint"}
        Where the nodes lie. Gauss–Legendre is exact for smooth models with few nodes.

    References
    ----------
    .. [1] M. Sundararajan, A. Taly and Q. Yan, "Axiomatic Attribution for Deep Networks", ICML 2017.
       https://arxiv.org/abs/1703.01365

    Examples
    --------
    >>> square = lambda x: (x ** 2).sum((1, 2))[:, None]
    >>> IntegratedGradients(n_steps=3)(square, torch.tensor([[[3.0], [-2.0]]]), output="raw").values.flatten()
    tensor([9., 4.])
    """

    deterministic: ClassVar[bool] = True
    complete: ClassVar[bool] = True

    n_steps: int = validation.integer(50)
    rule: QuadratureRule = validation.choice("gauss-legendre", QuadratureRule)

    def attribute(self, ask: Ask) -> list[Estimate]:
        schedule, label = Schedule((self.n_steps,), random=ask.background is not None), f"explain with {self.name}"
        return integrate(ask, schedule, lambda block, _: straight(self, block, block.baseline), label=label)


@dataclass(frozen=True)
class MaskingIG(Explainer):
    r"""Integrated gradients that move only the cells of a mask :math:`M` and fix the others at the series.

    .. math:: A_{t,d} = M_{t,d} (x - x')_{t,d} \int_0^1
        \partial_{t,d} F_{\hat y}\big(x + M \odot (1 - \alpha)(x' - x)\big) \, d\alpha.

    Parameters
    ----------
    active : Tensor that broadcasts to ``x``
        1 where a cell moves from the baseline to the series, 0 where it is fixed.
    n_steps : int, default=50
    rule : {"midpoint", "gauss-legendre"}

    References
    ----------
    .. [1] H. Jang, C. Kim and E. Yang, "TIMING: Temporality-Aware Integrated Gradients for Time Series
       Explanation", ICML 2025. https://arxiv.org/abs/2506.05035

    Examples
    --------
    >>> product = lambda x: (x[:, 0] * x[:, 1])
    >>> x = torch.tensor([[[3.0], [2.0]]])
    >>> MaskingIG(torch.tensor([[1], [0]]))(product, x, output="raw").values.flatten().round(decimals=4)
    tensor([6., 0.])
    """

    zero_if_ignored: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True

    active: ArrayLike = field(metadata={"fitted": True}, repr=False, compare=False)
    n_steps: int = validation.integer(50)
    rule: QuadratureRule = validation.choice("midpoint", QuadratureRule)

    def attribute(self, ask: Ask) -> list[Estimate]:
        cells = validation.check_numbers(self.active, "active").double()
        active = validation.fill(cells, ask.x, None, "active").bool()

        def path(block: Block, stage: int) -> GradientPath:
            mask = active[block.rows].to(block.x.device)
            return straight(self, block, torch.where(mask, block.baseline, block.x))

        return integrate(ask, Schedule((self.n_steps,), random=False), path, label="explain with masking IG")


def straight(method: IntegratedGradients | MaskingIG, block: Block, start: Tensor) -> GradientPath:
    """Return the straight paths from some start to the series, or those of each point from a background series."""
    alpha, weight = (part.to(block.x, non_blocking=True) for part in nodes(method.n_steps, method.rule))
    if block.background is None:
        difference = block.x - start

        def at(batch: slice) -> Points:
            z = torch.addcmul(start[:, None], alpha[batch, None, None], difference[:, None])
            return Points(z, weight[batch], position=alpha[batch])

        return GradientPath(difference, at, start=start, straight=True)
    starts, mean_step = block.background.starts(block, method.n_steps), block.background.mean_step(block)

    def drawn(batch: slice) -> Points:
        origin = starts(batch)
        step = block.x[:, None] - origin
        z = torch.addcmul(origin, alpha[batch, None, None], step)
        return Points(z, weight[batch], step=step, mean_step=mean_step, position=alpha[batch])

    return GradientPath(torch.ones_like(block.x), drawn)


@lru_cache(maxsize=16)
def nodes(points: int, rule: str) -> tuple[Tensor, Tensor]:
    """Return positions in (0, 1) and weights that sum to 1, in float64.

    Examples
    --------
    >>> nodes(2, "midpoint")
    (tensor([0.2500, 0.7500], dtype=torch.float64), tensor([0.5000, 0.5000], dtype=torch.float64))
    """
    if rule == "midpoint":
        return (torch.arange(points).double() + 0.5) / points, torch.full((points,), 1 / points).double()
    position, weight = np.polynomial.legendre.leggauss(points)
    return torch.from_numpy((position + 1) / 2), torch.from_numpy(weight / 2)


# RandIG: TIMING's ablation, with single cells fixed at random instead of segments


@EXPLAINERS.register("rand_ig")
@dataclass(frozen=True)
class RandIG(PathMethod):
    r"""Integrated gradients over paths that fix each cell independently at random.

    .. math:: A_{t,d} = (x - x')_{t,d} \; \mathbb{E}_{\alpha, M}\!\left[
            \partial_{t,d} F_{\hat y}\big(x + M \odot (1 - \alpha)(x' - x)\big) \;\middle|\; M_{t,d} = 1 \right],
        \qquad M_{i,j} \sim \mathrm{Bernoulli}(p).

    Parameters
    ----------
    n_samples : int, default=50
        Path points; each has its own mask and costs one pass of the model.
    p : float, default=0.5
        Probability that a cell **moves**, as in the paper's text. The paper's ablation table reads p as the
        probability that a cell is **fixed**: its row "p = 0.3" is ``p=0.7`` here.

    Notes
    -----
    A cell that never moves gets the score 0, ``n_draws`` 0 and an infinite error.

    References
    ----------
    .. [1] H. Jang, C. Kim and E. Yang, "TIMING: Temporality-Aware Integrated Gradients for Time Series
       Explanation", ICML 2025. https://arxiv.org/abs/2506.05035
    """

    n_samples: int = validation.integer(50)
    p: float = validation.real(0.5, high=1.0, closed=(False, True))

    @classmethod
    def grid(cls, shape: tuple[int, int]) -> list[dict[str, Setting]]:
        """Return other shares of moving cells."""
        return [{"p": share} for share in (0.03, 0.1, 0.25, 0.75)]

    @property
    def moves(self) -> float:
        """Return the probability that a cell moves."""
        return self.p

    def attribute(self, ask: Ask) -> list[Estimate]:
        if self.moves * self.n_samples < 2 and self._examined:
            active, enough = f"{self.moves * self.n_samples:.2g}", int(2 / self.moves) + 1
            rare = {"setting": f"p={self.p:g}", "cell": "a cell", "active": active, "instead": "a larger p"}
            warn("cells.rare", **rare, samples=self.n_samples, enough=enough)
        path, label = partial(self._path, ask.seed), f"explain with {self.name}"
        return integrate(ask, Schedule((self.n_samples,)), path, label=label)

    def _positions(self, points: int, like: Tensor) -> Tensor:
        """Return where points lie on the path, (points,), from 0 at the baseline to 1 at the series."""
        return midpoints(points, like)

    def _path(self, seed: int, block: Block, stage: int) -> GradientPath:
        streams = fold_in(keys(seed, block.ids, Stream.CELLS), self.n_samples)
        cell = torch.arange(block.x[0].numel(), device=block.x.device)
        alpha, background = self._positions(self.n_samples, block.x), block.background
        starts = None if background is None else background.starts(block, self.n_samples)
        scale = block.x - block.baseline if background is None else background.displacement(block)
        mean_step = None if background is None else in_units(background.mean_step(block)[:, None], scale)[:, 0]

        def at(batch: slice) -> Points:
            active = bits(streams[:, :, batch, None], cell) < round(self.moves * 2**32)
            active = active.view(len(block.x), -1, *block.x.shape[1:])
            x = block.x[:, None]
            start = block.baseline[:, None] if starts is None else starts(batch)
            step = None if starts is None else in_units(x - start, scale)
            z = torch.where(active, torch.lerp(start, x, alpha[batch, None, None]), x)
            return Points(z, active=active.to(x.dtype), step=step, mean_step=mean_step, position=alpha[batch])

        return GradientPath(scale, at, start=block.baseline if starts is None else None)


# GradientSHAP (expected gradients): integrated gradients averaged over a distribution of baselines


@EXPLAINERS.register("gradient_shap", "gs", "shap", "gradshap")
@dataclass(frozen=True)
class GradientShap(PathMethod):
    r"""Expected gradients.

    .. math:: A_{t,d} = \mathbb{E}_{\alpha, x', \epsilon}\big[ (x + \epsilon - x')_{t,d} \;
        \partial_{t,d} F_{\hat y}\big(x' + \alpha (x + \epsilon - x')\big) \big],

    where baselines :math:`x'` are drawn from a pool of series and :math:`\epsilon` is Gaussian noise.

    Parameters
    ----------
    n_samples : int, default=50
        Draws per series; each costs one pass of the model.
    noise : float, default=0
        Standard deviation of the noise.

    Notes
    -----
    :meth:`fit` (``background=`` in :func:`tempograd.explain`) takes the pool of baselines, and so does
    ``baseline="background"``, which spreads the draws evenly over it and never draws the series itself. Without
    one the call's baseline is the only one; without noise nothing is then drawn, the method is midpoint integrated
    gradients, and the call says so. Positions on the path are stratified.

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

    caveat: ClassVar[str] = "gradient_shap has no pool of baselines"

    n_samples: int = validation.integer(50)
    noise: float = validation.real(0.0)
    pool: Inputs | None = validation.learnt()

    def _fit(self, model: Model, x: Any, seed: int) -> Self:
        """Return a new explainer with these series, or inputs like those to explain, as the pool of baselines."""
        return replace(self, pool=x)

    @classmethod
    def grid(cls, shape: tuple[int, int]) -> list[dict[str, Setting]]:
        """Return noise, in the units of standardised series."""
        return [{"noise": size} for size in (0.1, 0.3, 1.0)]

    def attribute(self, ask: Ask) -> list[Estimate]:
        if not self.noise and self._examined and ask.background is None and self._pool(ask) is None:
            warn("pool.missing" if self.pool is None else "pool.unused", caveat=self.caveat)
        path, label = partial(self._path, ask), f"explain with {self.name}"
        return integrate(ask, Schedule((self.n_samples,)), path, label=label)

    def question(self, ask: Ask) -> Ask:
        """Put the mean of the pool in the place of a baseline that nobody named."""
        ask = super().question(ask)
        pool = self._pool(ask)
        if pool is None:
            return ask
        check_training(pool.shape, ask)
        return ask.replace(baseline=pool.mean(0, dtype=torch.float64).to(ask.x).expand_as(ask.x))

    def _pool(self, ask: Ask) -> Tensor | None:
        """Return the series that baselines are drawn from, laid out as the explained ones are."""
        if self.pool is None or ask.named_baseline or ask.background is not None:
            return None
        pool: Tensor = ask.call.pooled(self.pool, "The baselines")
        return pool

    def _path(self, ask: Ask, block: Block, stage: int) -> GradientPath:
        stream = keys(ask.seed, block.ids, Stream.BASELINES)
        alpha = self._series_positions(block, stream)
        noise, cell = fold_in(stream, self.n_samples), torch.arange(block.x[0].numel(), device=block.x.device)
        baselines = self._baselines(block, stream, ask)
        mean_step = None if block.background is None else block.background.mean_step(block)

        def at(batch: slice) -> Points:
            start = block.baseline[:, None]
            if baselines is not None:  # unobserved cells stay where they are
                start = torch.where(block.observed[:, None], baselines(batch), block.x[:, None])
            step = (block.x[:, None] - start).expand(-1, batch.stop - batch.start, -1, -1)
            if self.noise:
                drawn = normal(noise[:, :, batch, None], cell).to(block.x).view_as(step)
                step = step + self.noise * (drawn * block.observed[:, None])
            position = None if self.noise else alpha[:, batch]  # with noise the paths do not end at x
            z = start + alpha[:, batch, None, None] * step
            return Points(z, step=step, mean_step=mean_step, position=position)

        start = block.baseline if baselines is None else None
        straight = baselines is None and not self.noise
        return GradientPath(torch.ones_like(block.x), at, start=start, straight=straight)

    def _series_positions(self, block: Block, stream: Tensor) -> Tensor:
        """Return where the points of each series lie on the path, (series or 1, points)."""
        return midpoints(self.n_samples, block.x)[None]

    def _baselines(self, block: Block, stream: Tensor, ask: Ask) -> Callable[[slice], Tensor] | None:
        """Draw a baseline for each point and return what looks up those of some; None for the call's own."""
        if block.background is not None:
            return block.background.starts(block, self.n_samples)
        pool = self._pool(ask)
        if pool is None:
            return None
        counter = FAR + torch.arange(self.n_samples, device=block.x.device)
        rows = randint(stream[..., None], counter, len(pool)).to(pool.device)
        return lambda batch: pool[rows[:, batch]].to(block.x)
