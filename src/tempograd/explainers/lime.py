"""LIME: a sparse linear model of the prediction, fitted to series with random cells taken out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from tempograd import settings
from tempograd.draws import Purpose, keys, per_point, words
from tempograd.engine import Block, Chunks, Question, at_every_step, default_class, pick, pieces
from tempograd.errors import UnknownNameError
from tempograd.explainers._lasso import lasso
from tempograd.explainers._path import Attribution
from tempograd.explainers._published import REAL, SYNTHETIC
from tempograd.explainers.base import EXPLAINERS, Explainer

DISTANCES = ("kept", "series")
LEAST, MOST = 50, 4096  # samples chosen by default
COPIES = 4  # of the masks, in double precision, while the regressions are solved


@EXPLAINERS.register("lime")
@dataclass(frozen=True)
class Lime(Explainer):
    r"""Local linear model of the prediction.

    Random masks :math:`z_i \in \{0, 1\}^{T \times D}` keep each observed cell with probability one half and put
    the others at the baseline :math:`x'`. The scores are the coefficients of the weighted Lasso

    .. math::

        \min_{b, A} \; \frac{1}{2 \sum_i w_i} \sum_i w_i \big( F_{\hat y}(x' + z_i \odot (x - x'))
            - b - \langle z_i, A \rangle \big)^2 + \lambda \lVert A \rVert_1,
        \qquad w_i = \exp\!\Big( \frac{-\delta_i^2}{2 \sigma^2} \Big),

    where :math:`\delta_i` is a cosine distance from what is explained. Nothing but predictions is needed.

    Parameters
    ----------
    samples : int, optional
        Masks per series; each costs one pass of the model. By default twice as many as observed cells, at least
        50 and at most 4096: with fewer masks than cells the coefficients cannot be told apart.
    alpha : float, default=0.01
        Penalty.
    relative : bool, default=True
        Whether :math:`\lambda` is ``alpha`` times the smallest penalty at which all scores are 0, so that the
        scale of the output makes no difference; otherwise :math:`\lambda` is ``alpha``.
    width : float, default=1
        Width :math:`\sigma` of the kernel.
    distance : {"kept", "series"}
        Cosine distance between the mask and the full mask, or between the series with and without the absent
        cells; both over the observed cells.

    Notes
    -----
    With one output per step and ``steps="own"`` each step has its own regression on all cells, and its own cells'
    coefficients are kept. Masks are drawn per cell, so longer series see the same masks in their first steps.
    The regressions are solved to the end (see ``_lasso.py``); where cells are tied, as with far fewer masks than
    cells, the solution is one of several.

    References
    ----------
    .. [1] M. T. Ribeiro, S. Singh and C. Guestrin, "Why should I trust you? Explaining the predictions of any
       classifier", KDD 2016. https://arxiv.org/abs/1602.04938

    Examples
    --------
    >>> weigh = lambda x: (x * torch.tensor([[1.0, 2.0], [0.0, -1.0]])).sum((1, 2))
    >>> x = torch.tensor([[[3.0, 1.0], [5.0, 4.0]]])
    >>> Lime(alpha=1e-6)(weigh, x, output="raw").values.round(decimals=3) + 0
    tensor([[[ 3.,  2.],
             [ 0., -4.]]])
    """

    needs_gradient: ClassVar[bool] = False
    known_quirks: ClassVar[frozenset[str]] = frozenset({"A6", "B7", "B8"})

    samples: int | None = settings.whole(None, least=2)
    alpha: float = settings.positive(0.01)
    relative: bool = settings.flag(True)
    width: float = settings.positive(1.0)
    distance: str = settings.choice("kept", DISTANCES)

    @classmethod
    def published(cls, dataset: str) -> Self:
        """Return the paper's setting: 25 masks, an absolute penalty of 0.01, distances between series.

        Both run on every prefix, explain the class predicted at its end and keep the scores of its last step: B8
        on real data, although there is one final label; B7 on synthetic data, of the raw output (A6).
        """
        if dataset not in REAL + SYNTHETIC:
            raise UnknownNameError("published setting of LIME", dataset, REAL + SYNTHETIC)
        quirks = frozenset({"A6", "B7"}) if dataset in SYNTHETIC else frozenset({"B8"})
        return cls(25, 0.01, relative=False, distance="series", quirks=quirks)

    def attribute(self, question: Question) -> Attribution:
        samples = self._count(question)
        prefixes = bool(self.quirks & {"B7", "B8"})
        scores = self._ask(question, int(samples.max()), self._prefix_scores if prefixes else self._scores)
        values = torch.zeros(question.x.shape, device=question.x.device)
        cells = question.x[0].numel()

        def work(rows: slice, _: int) -> None:
            block = question.block(rows)
            keep = self._masks(question, block, slice(0, scores.shape[1]))
            counted = torch.arange(scores.shape[1]) < samples[rows, None]
            solve = self._solve_prefixes if prefixes else self._solve
            values[rows] = solve(block, keep, scores[rows], counted.to(block.x.device)).to(values)

        room = Chunks(question.device, COPIES * scores.shape[1] * max(cells, scores.shape[2]))
        room.run(len(values), 1, work, f"fit {self.name}")
        return Attribution(values)

    def _count(self, question: Question) -> Tensor:
        """Masks of each series, (series,)."""
        if self.samples is not None:
            return torch.full((len(question.x),), self.samples)
        observed = torch.full((len(question.x),), question.x[0].numel())
        if question.mask is not None:
            observed = question.mask.flatten(1).sum(1).cpu()
        return (2 * observed).clamp(LEAST, MOST)

    def _masks(self, question: Question, block: Block, piece: slice) -> Tensor:
        """Return which cells are kept, (series, samples, time, channel); unobserved ones always are."""
        stream = per_point(keys(question.seed, block.ids, Purpose.PERTURBATIONS), piece.stop)[:, :, piece]
        cell = torch.arange(block.x[0].numel(), device=block.x.device)
        word = words(stream[..., None], torch.arange(len(cell) // 32 + 1, device=cell.device))
        kept = ((word[..., cell // 32] >> (cell % 32)) & 1).bool()  # each bit of a word is one cell
        return kept.view(len(block.x), -1, *block.x.shape[1:]) | ~block.observed[:, None]

    def _ask(self, question: Question, samples: int, score: Callable[[Question, Tensor, Block], Tensor]) -> Tensor:
        """Return the scores of all masked series, (series, samples, questions), on the model's device."""
        parts: list[Tensor] = []

        def work(rows: slice, size: int) -> None:
            block = question.settled(question.block(rows))
            answers = []
            for piece in pieces(samples, max(1, size // len(block.x))):
                keep = self._masks(question, block, piece)
                z = torch.where(keep, block.x[:, None], block.baseline[:, None])
                answers.append(score(question, z, block))
            parts.append(torch.cat(answers, 1))
            question.verify_once()

        question.chunks.run(len(question.x), samples, work, f"explain with {self.name}")
        return torch.cat(parts)

    def _scores(self, question: Question, z: Tensor, block: Block) -> Tensor:
        score = question.scores(z, block).double()
        return score if score.ndim == 3 else score[..., None]

    @torch.no_grad()
    def _prefix_scores(self, question: Question, z: Tensor, block: Block) -> Tensor:
        """Return the score at the end of every prefix, of the class predicted there unless one was asked for."""
        answer = at_every_step(question, block, torch.cat([block.x, z.flatten(0, 1)]))
        clean, answer = answer[: len(block.x)], question.linked(answer[len(block.x) :])
        target = block.target
        if isinstance(target, Tensor):
            asked = target if target.ndim == 2 else target[:, None].expand(clean.shape[:2])
            if question.asked_target is None:
                asked = default_class(clean, question.output)
            target = asked.repeat_interleave(z.shape[1], 0)
            return pick(answer, target).view(*z.shape[:2], -1).double()
        ends = [pick(answer[:, end], target).view(z.shape[:2]) for end in range(z.shape[2])]  # type: ignore[arg-type]
        return torch.stack(ends, -1).double()

    def _solve(self, block: Block, keep: Tensor, scores: Tensor, counted: Tensor) -> Tensor:
        found = self._coefficients(block, keep, scores, counted).view(*block.x.shape, -1)
        if found.shape[-1] > 1:  # the effect of each cell on its own step
            return found.diagonal(dim1=1, dim2=3).mT
        return found[..., 0]

    def _solve_prefixes(self, block: Block, keep: Tensor, scores: Tensor, counted: Tensor) -> Tensor:
        found = torch.zeros_like(block.x, dtype=torch.float64)
        for end in range(1, keep.shape[2] + 1):
            x, baseline, observed = (each[:, :end] for each in (block.x, block.baseline, block.observed))
            part = block._replace(x=x, baseline=baseline, observed=observed)
            beta = self._coefficients(part, keep[:, :, :end], scores[..., end - 1 : end], counted)
            found[:, end - 1] = beta.view(part.x.shape)[:, -1]
        return found

    def _coefficients(self, block: Block, keep: Tensor, scores: Tensor, counted: Tensor) -> Tensor:
        weight = torch.exp(-(self._distance(block, keep) ** 2) / (2 * self.width**2)) * counted
        return lasso(keep.flatten(2), scores, weight, self.alpha, relative=self.relative)

    def _distance(self, block: Block, keep: Tensor) -> Tensor:
        """Cosine distance of each sample from what is explained, (series, samples)."""
        observed = block.observed.flatten(1).double()
        if self.distance == "kept":
            kept = keep.flatten(2).double() @ observed[..., None]
            return 1 - (kept[..., 0] / observed.sum(1, keepdim=True).clamp(min=1)).sqrt()
        x = block.x.flatten(1).double() * observed
        z = torch.where(keep, block.x[:, None], block.baseline[:, None]).flatten(2).double() * observed[:, None]
        return 1 - torch.cosine_similarity(x[:, None], z, dim=2, eps=1e-8)
