"""LIME as released."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from tempograd.engine import Ask, Block, at_every_step, default_class, select_target
from tempograd.explainers import Lime
from tempograd.explainers.lime import LassoFit
from tempograd_paper.labels import SYNTHETIC
from tempograd_paper.released.base import RAW_OUTPUT, Released


@dataclass(frozen=True)
class ReleasedLime(Released, Lime):
    """LIME as released.

    Every prefix of a series is explained by itself, for the class predicted at its end, and only the scores of its
    last step are kept: where there is one output per step (B7), and on real data although there is one label (B8).
    On synthetic data the raw output is explained (A6).
    """

    faults: ClassVar[Mapping[str, str]] = {
        **RAW_OUTPUT,
        "B7": "of one output per step, the scores of every prefix's last step are kept",
        "B8": "of one output per series too, the scores of every prefix's last step are kept",
    }

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return 25 masks, an absolute penalty of 0.01, distances between series."""
        cls._check(dataset)
        quirks = frozenset({"A6", "B7"} if dataset in SYNTHETIC else {"B8"})
        return cls(25, 0.01, relative=False, width=1.0, distance="series", quirks=quirks)

    @property
    def _on_prefixes(self) -> bool:
        return bool(self.quirks & {"B7", "B8"})

    def _scores(self, asks: Sequence[Ask], z: Tensor, blocks: Sequence[Block]) -> list[Tensor]:
        if not self._on_prefixes:
            return super()._scores(asks, z, blocks)
        pairs = zip(asks, blocks, strict=True)
        return [self._prefix_scores(ask, z, block) for ask, block in pairs]

    @torch.no_grad()
    def _prefix_scores(self, ask: Ask, z: Tensor, block: Block) -> Tensor:
        """Return the score at the end of every prefix, of the class predicted there unless one was asked for."""
        answer = at_every_step(ask, block, torch.cat([block.x, z.flatten(0, 1)]))
        clean, answer = answer[: len(block.x)], ask.apply_link(answer[len(block.x) :])
        target = block.target
        if isinstance(target, Tensor):
            asked = target if target.ndim == 2 else target[:, None].expand(clean.shape[:2])
            if ask.question.target is None:
                asked = default_class(clean, ask.output)
            return select_target(answer, asked.repeat_interleave(z.shape[1], 0)).view(*z.shape[:2], -1).double()
        ends = [select_target(answer[:, end], target).view(z.shape[:2]) for end in range(z.shape[2])]  # type: ignore[arg-type]
        return torch.stack(ends, -1).double()

    def _solve(self, block: Block, keep: Tensor, scores: Tensor, counted: Tensor) -> LassoFit:
        if not self._on_prefixes:
            return super()._solve(block, keep, scores, counted)
        found = LassoFit(*(torch.zeros_like(block.x, dtype=torch.float64) for _ in LassoFit._fields))
        for end in range(1, keep.shape[2] + 1):
            x, baseline, observed = (each[:, :end] for each in (block.x, block.baseline, block.observed))
            part = block._replace(x=x, baseline=baseline, observed=observed)
            fit = self._coefficients(part, keep[:, :, :end], scores[..., end - 1 : end], counted)
            for whole, each in zip(found, fit, strict=True):
                whole[:, end - 1] = each.reshape(part.x.shape)[:, -1]
        return found
