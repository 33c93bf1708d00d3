"""Feature occlusion as released."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from tempograd.core.estimate import Estimate
from tempograd.engine import Ask, Block, Prefixes, one_logit
from tempograd.explainers import Occlusion
from tempograd.explainers.base import one_by_one
from tempograd.explainers.occlusion import CellReplacement
from tempograd_paper.labels import SYNTHETIC
from tempograd_paper.released.base import OWN_STEPS, RAW_OUTPUT, Released

PREFIXES = {
    "B8": "a value is judged by the class predicted from the series up to its step, though there is one label"
}


@dataclass(frozen=True)
class JudgedByPrefixes(Released, CellReplacement):
    """Replacement of single cells with the fault B8."""

    def _at_own_step(self, ask: Ask) -> bool:
        return "B8" in self.quirks or super()._at_own_step(ask)

    def _own_target(self, block: Block, prefixes: Prefixes) -> Tensor:
        if isinstance(block.steps, str):
            return super()._own_target(block, prefixes)
        target, single = block.target, one_logit(prefixes.columns, prefixes.ask.output)
        if not isinstance(target, Tensor) or not single:
            return prefixes.default
        return target if target.ndim == 2 else target[:, None].expand(prefixes.default.shape)


@dataclass(frozen=True)
class ReleasedOcclusion(JudgedByPrefixes, Occlusion):
    """Feature occlusion as released: magnitudes, values replaced by training means, so fit it first.

    On MIMIC-III no class was asked for, so that every series has one map for each of C outputs, and of all these
    maps in a row the first N are taken for those of the N series (B1); a value is judged by the prediction from
    the series up to its step, though there is one label (B8). On synthetic data the raw output is explained (A6),
    and only each value's effect on its own step (B7).
    """

    faults: ClassVar[Mapping[str, str]] = {
        **RAW_OUTPUT,
        "B1": "series i gets the map of series ⌊i/C⌋ for output i mod C of C",
        **OWN_STEPS,
        **PREFIXES,
    }
    datasets: ClassVar[Sequence[str]] = ("mimic3", *SYNTHETIC)

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return magnitudes: with B1 and B8 on MIMIC-III, with A6 and B7 on synthetic data."""
        cls._check(dataset)
        quirks = frozenset({"A6", "B7"} if dataset in SYNTHETIC else {"B1", "B8"})
        return cls(absolute=True, n_samples=None, quirks=quirks)

    @one_by_one
    def attribute(self, ask: Ask) -> Estimate:
        if "B1" not in self.quirks:
            return super().attribute(ask)[0]
        values = torch.zeros(ask.x.shape, device=ask.x.device)

        def reduce(block: Block, falls: Tensor, _: Tensor) -> tuple[Tensor, ...]:
            maps = falls[:, :, :, 0].movedim(-1, 1)  # one per output, all of them in a row
            first = block.rows.start * maps.shape[1]
            place = values[first : first + maps.shape[0] * maps.shape[1]]
            place.copy_(maps.flatten(0, 1)[: len(place)])
            return ()

        self._replace_cells(ask, 1, lambda block: block.baseline[..., None], reduce, every=True)
        return self._signed(Estimate(values if ask.mask is None else values * ask.mask))
