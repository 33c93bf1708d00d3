"""Augmented feature occlusion: how far the prediction moves when a value is swapped for those of other series."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from tempograd import checks, settings
from tempograd.draws import Purpose, below, keys, per_point
from tempograd.engine import Block, Model, Question
from tempograd.engine.chunks import CELLS
from tempograd.errors import UnknownNameError
from tempograd.explainers._path import Attribution
from tempograd.explainers._published import REAL, SYNTHETIC
from tempograd.explainers._single_cells import check_training, replace_cells
from tempograd.explainers.base import EXPLAINERS, Explainer

MARGINALS, OVER = ("per_time", "pooled"), ("target", "all")


@EXPLAINERS.register("augmented_occlusion")
@dataclass(frozen=True)
class AugmentedOcclusion(Explainer):
    r"""Augmented feature occlusion.

    .. math:: A_{t,d} = \frac{1}{S} \sum_{s=1}^{S} \big| F_{\hat y}(x)
        - F_{\hat y}\big(x \text{ with } x_{t,d} \leftarrow X_{r_s,t,d}\big) \big|,

    where the rows :math:`r_s` are drawn from the training series :math:`X`, anew for every value.

    Parameters
    ----------
    samples : int, default=10
        Draws per value; each costs one pass of the model.
    marginal : {"per_time", "pooled"}
        Whether replacements come from the same step of other series, or from any step.
    over : {"target", "all"}
        Whether the move is that of the target's score, or the mean over all outputs.

    Notes
    -----
    Scores are magnitudes: they do not tell the direction. ``steps="own"`` judges a value by the prediction at
    its own step; a recurrent model then runs one step from its remembered state instead of the whole series.

    References
    ----------
    .. [1] S. Tonekaboni et al., "What went wrong and when? Instance-wise Feature Importance for Time-series
       Models", NeurIPS 2020. https://arxiv.org/abs/2003.02821

    Examples
    --------
    >>> model, train = lambda x: x.sum(1), torch.full((5, 2, 1), 1.0)
    >>> explainer = AugmentedOcclusion().fit(model, train)
    >>> explainer(model, torch.tensor([[[3.0], [-2.0]]]), output="raw").values.flatten()
    tensor([2., 3.])
    """

    signed: ClassVar[bool] = False
    needs_fit: ClassVar[bool] = True
    needs_gradient: ClassVar[bool] = False
    zero_if_ignored: ClassVar[bool] = True
    known_quirks: ClassVar[frozenset[str]] = frozenset({"A6", "B7", "B8"})

    samples: int = settings.whole(10)
    marginal: str = settings.choice("per_time", MARGINALS)
    over: str = settings.choice("target", OVER)
    rows: Any = field(default=None, metadata={"fitted": True}, repr=False, compare=False)

    @classmethod
    def published(cls, dataset: str) -> Self:
        """Return the paper's setting: 10 draws from the same step of the training series.

        Real data: a value is judged by the class predicted from the series up to its step, though the task has
        one label per series (B8). Synthetic data: the raw output is measured (A6) at each value's own step
        only (B7).
        """
        if dataset not in REAL + SYNTHETIC:
            raise UnknownNameError("published setting of augmented occlusion", dataset, REAL + SYNTHETIC)
        return cls(quirks=frozenset({"A6", "B7"} if dataset in SYNTHETIC else {"B8"}))

    def fit(self, model: Model, x: Any, *, seed: int = 0) -> Self:
        """Return a new explainer that draws from these training series."""
        return replace(self, rows=checks.series(x, name="the training series"))

    def attribute(self, question: Question) -> Attribution:
        check_training(self.rows, question)
        pool: Tensor = self.rows
        if pool.numel() <= CELLS:  # a larger one stays where it is
            pool = pool.to(question.device)
        like = torch.zeros(question.x.shape, device=question.x.device)
        values, error = like, torch.zeros_like(like)
        seen = torch.ones_like(like) if question.mask is None else question.mask.to(like)

        def finish(block: Block, falls: Tensor) -> None:
            moves = falls.abs().mean(-1)
            values[block.rows] = moves.mean(-1).to(values)
            if self.samples > 1:
                error[block.rows] = (moves.std(-1) / self.samples**0.5).to(error)

        replace_cells(
            question,
            self.samples,
            lambda block: self._drawn(block, pool, question.seed),
            finish,
            label=f"explain with {self.name}",
            prefixes="B8" in self.quirks,
            every=self.over == "all",
        )
        if self.samples == 1:
            error.masked_fill_(seen > 0, torch.inf)
        count = seen * self.samples
        return Attribution(values, error, count.to(torch.int32), count)

    def _drawn(self, block: Block, pool: Tensor, seed: int) -> Tensor:
        """Draw a training value for each cell and sample, (series, time, channel, samples)."""
        cell = torch.arange(block.x[0].numel(), device=block.x.device)
        table, column = pool.flatten(1), cell
        if self.marginal == "pooled":
            table, column = pool.flatten(0, 1), cell % pool.shape[2]
        streams = per_point(keys(seed, block.ids, Purpose.REPLACEMENTS), self.samples)[..., None]
        row = below(streams, cell, len(table)).to(pool.device)
        drawn = table[row, column.to(pool.device)].to(block.x)  # (series, samples, cells)
        return drawn.transpose(1, 2).reshape(*block.x.shape, self.samples)
