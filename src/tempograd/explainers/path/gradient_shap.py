"""GradientSHAP (expected gradients): integrated gradients averaged over a distribution of baselines."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from tempograd._utils import settings, validation
from tempograd._utils.rng import FAR, Purpose, below, keys, normal, per_point, uniform
from tempograd.engine import Block, Model, Question
from tempograd.errors import InputError, UnknownNameError, warn
from tempograd.explainers._published import REAL, SYNTHETIC
from tempograd.explainers.base import EXPLAINERS, Explainer
from tempograd.explainers.integration import Attribution, Path, Plan, Points, integrate


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

    batch : int, optional
        Of use only with the quirk "9": how many series that follow each other form the pool, by default all.

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
    known_quirks: ClassVar[frozenset[str]] = frozenset({"9", "A6", "B7"})

    points: int = settings.whole(50)
    noise: float = settings.number(0.0)
    batch: int | None = settings.whole(None)
    pool: Any = field(default=None, metadata={"fitted": True}, repr=False, compare=False)

    @classmethod
    def published(cls, dataset: str) -> Self:
        """Return the paper's setting: 50 draws with noise of 1e-4.

        9 (section 9 of the methods' specifications): the pool is the batch itself and as many copies of the
        baseline, so a series depends on its company (batches of 10, of 50 for State, all of Switch-Feature at
        once), and positions are uniform draws. On synthetic data the raw output is differentiated (A6) and
        only each cell's effect on its own step is kept (B7).
        """
        if dataset not in REAL + SYNTHETIC:
            raise UnknownNameError("published setting of GradientSHAP", dataset, REAL + SYNTHETIC)
        batch = {"state": 50, "switch_feature": None}.get(dataset, 10)
        quirks = cls.known_quirks if dataset in SYNTHETIC else frozenset({"9"})
        return cls(50, 1e-4, batch, quirks=quirks)

    def fit(self, model: Model, x: Any, *, seed: int = 0) -> Self:
        """Return a new explainer with these series as the pool of baselines."""
        return replace(self, pool=validation.series(x, name="the pool of baselines"))

    def attribute(self, question: Question) -> Attribution:
        pool: Tensor | None = self.pool
        if pool is not None and pool.shape[1:] != question.x.shape[1:]:
            raise InputError(
                f"The pool of baselines has series of shape {tuple(pool.shape[1:])}, "
                f"x has {tuple(question.x.shape[1:])}: fit with series of the same length and channels."
            )
        if pool is None and not self.noise and not self.quirks:
            warn(
                f"{self.caveat}, so its scores are those of integrated_gradients: call fit(model, train), or pass "
                "train= to tempograd.explain."
            )

        def path(block: Block, stage: int) -> Path:
            return self._path(block, question)

        return integrate(question, Plan((self.points,)), path, label=f"explain with {self.name}")

    def _path(self, block: Block, question: Question) -> Path:
        stream = keys(question.seed, block.ids, Purpose.BASELINES)
        alpha = self._positions(block, stream)
        noise = per_point(stream, self.points)
        rows = self._rows(block, stream, question)

        def at(piece: slice) -> Points:
            start = block.baseline[:, None]
            if rows is not None:
                start = self._start(block, rows[:, piece], question)
            step = (block.x[:, None] - start).expand(-1, piece.stop - piece.start, -1, -1)
            if self.noise:
                step = step + self.noise * _gaussian(noise, piece, block)
            # with noise the paths do not end at x
            position = None if self.noise else alpha[:, piece]
            return Points(start + alpha[:, piece, None, None] * step, step=step, position=position)

        return Path(
            torch.ones_like(block.x),
            at,
            start=block.baseline if rows is None else None,
            straight=rows is None and not self.noise,
        )

    def _positions(self, block: Block, stream: Tensor) -> Tensor:
        """Return the positions between baseline and series, (series or 1, points)."""
        order = torch.arange(self.points, device=block.x.device)
        if "9" in self.quirks:
            return uniform(stream[..., None], FAR + self.points + order, block.x.dtype)
        return ((order + 0.5).to(block.x.dtype) / self.points)[None]

    def _rows(self, block: Block, stream: Tensor, question: Question) -> Tensor | None:
        """Draw a row of the pool for each point; -1 is the call's baseline."""
        counter = FAR + torch.arange(self.points, device=block.x.device)
        if "9" not in self.quirks:
            return None if self.pool is None else below(stream[..., None], counter, len(self.pool))
        total = len(question.x)
        size = self.batch or total
        first = torch.arange(block.rows.start, block.rows.stop, device=block.x.device)[:, None] // size * size
        members = (total - first).clamp(max=size)
        drawn = below(stream[..., None], counter, 2 * members)
        return torch.where(drawn < members, -1, first + drawn - members)

    def _start(self, block: Block, rows: Tensor, question: Question) -> Tensor:
        """Return the drawn baselines; unobserved cells stay where they are."""
        pool: Tensor = question.x if "9" in self.quirks else self.pool
        drawn = pool[rows.clamp(min=0).to(pool.device)].to(block.x)
        drawn = torch.where((rows < 0)[..., None, None], block.baseline[:, None], drawn)
        return torch.where(block.observed[:, None], drawn, block.x[:, None])


def _gaussian(streams: Tensor, piece: slice, block: Block) -> Tensor:
    cell = torch.arange(block.x[0].numel(), device=block.x.device)
    drawn = normal(streams[:, :, piece, None], cell).to(block.x)
    return drawn.view(len(block.x), -1, *block.x.shape[1:]) * block.observed[:, None]
