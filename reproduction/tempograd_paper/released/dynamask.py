"""Dynamask as released."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from tempograd.engine import Ask, slices
from tempograd.explainers import Dynamask
from tempograd.explainers.masks import Groups
from tempograd_paper.labels import REAL
from tempograd_paper.released.masks import HARD_LABELS, LAST_STEP, RAW, ReleasedMask, mean_losses, still

BATCH = 100  # series per step


def misread(masks: Tensor, errors: Tensor, batch: int) -> Tensor:
    """4.2: store masks by (batch, area, series), read them as (area, series), and take one area for all.

    Examples
    --------
    >>> masks, errors = torch.arange(6.0).view(3, 2, 1, 1), torch.zeros(3, 2)
    >>> misread(masks, errors, batch=2).flatten()  # instead of 0, 2, 4, the masks of the first area
    tensor([0., 2., 1.])
    """
    total, areas = errors.shape

    def reordered(part: Tensor) -> Tensor:
        blocks = [part[rows].transpose(0, 1).flatten(0, 1) for rows in slices(total, batch)]
        return torch.cat(blocks).reshape(areas, total, *part.shape[2:])

    return reordered(masks)[reordered(errors).sum(1).argmin()]


@dataclass(frozen=True)
class ReleasedDynamask(ReleasedMask, Dynamask):
    """Dynamask as released.

    The loss is the error alone (B5), in the wrong direction for deletion, whose scores are then turned round
    (4.3). Series are learnt in batches of 100, with one dense Adam for all masks (0.3.5). Masks come out in the
    wrong order, and one area serves all series (4.2). The error is that of raw outputs (A6) or of probabilities
    taken for logits (0.3.6), and on State that of the last step only (B6).
    """

    faults: ClassVar[Mapping[str, str]] = {
        "A6": RAW,
        "B5": "masks are learnt without the regularisers of area and time, and for deletion without the sign",
        "B6": LAST_STEP,
        "0.3.5": "batches of 100 with a dense Adam on their mean loss: masks also move in the steps of others",
        "0.3.6": HARD_LABELS,
        "4.2": "masks are stored by (batch, area, series) and read as (area, series); one area serves all series",
        "4.3": "deletion returns 1 - m",
    }

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return the paper's setting for a data set, with the faults that made its numbers."""
        cls._check(dataset)
        quirks, areas = {"B5", "0.3.5", "4.2"}, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
        plain = cls(areas, "mean", 2.0, 500, 1e-3, 0.1, 100.0, 0.1, deletion=False, tolerance=None)
        if dataset in REAL:
            quirks |= {"0.3.6", "4.3"}
            return replace(plain, growth=1e4, time_weight=0.0, deletion=True, quirks=frozenset(quirks))
        plain = replace(plain, perturbation="blur", width=1.0, time_weight=1.0, quirks=frozenset(quirks | {"A6"}))
        if dataset == "state":
            return replace(plain, areas=(0.25, 0.3), quirks=plain.quirks | {"B6"})
        return replace(plain, areas=tuple(round(0.25 + 0.01 * i, 2) for i in range(10)), epochs=1000)

    def _learn(self, ask: Ask, series: slice) -> tuple[Tensor, Tensor]:
        free = replace(self, size_weight=0.0, time_weight=0.0) if "B5" in self.quirks else self
        batches = slices(len(ask.x), BATCH) if "0.3.5" in self.quirks else [series]
        learnt = [super(ReleasedDynamask, free)._learn(ask, batch) for batch in batches]
        masks, errors = (torch.cat(parts) for parts in zip(*learnt, strict=True))
        if self.deletion and "4.3" in self.quirks:
            masks = 1 - masks if ask.mask is None else (1 - masks).where(ask.mask[:, None], 0)
        return masks, errors

    def _chosen(self, masks: Tensor, errors: Tensor) -> Tensor:
        return misread(masks, errors.float(), BATCH) if "4.2" in self.quirks else super()._chosen(masks, errors)

    def _aim(self, errors: Tensor) -> Tensor:
        return errors if "B5" in self.quirks else super()._aim(errors)

    def _steps(self, ask: Ask, groups: Groups, leaves: Sequence[Tensor]) -> Groups:
        if "0.3.5" not in self.quirks:
            return groups
        ((problem,),) = groups
        batches = list(slices(len(ask.x), BATCH))
        own = problem.rows.start // BATCH
        weighed = mean_losses([problem], len(self.areas) * (batches[own].stop - batches[own].start))
        return [[still(leaves), *(weighed if index == own else [])] for index in range(len(batches))]
