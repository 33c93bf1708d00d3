"""GradientSHAP as released."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.rng import FAR, randint, uniform
from tempograd.engine import Ask, Block
from tempograd.explainers import GradientShap
from tempograd_paper.labels import SYNTHETIC
from tempograd_paper.released.base import OWN_STEPS, RAW_OUTPUT, Released


@dataclass(frozen=True)
class ReleasedGradientShap(Released, GradientShap):
    """GradientSHAP as released: a series depends on its company.

    Baselines are drawn from the batch itself and as many copies of the call's baseline, and positions on the path
    are uniform draws (9). On synthetic data the raw output is explained (A6), and only each value's effect on its
    own step (B7).

    Parameters
    ----------
    batch : int, optional
        How many series that follow each other form the pool of baselines (9), by default all.
    """

    faults: ClassVar[Mapping[str, str]] = {
        "9": "the pool is the batch itself and as many copies of the baseline, and positions are uniform draws",
        **RAW_OUTPUT,
        **OWN_STEPS,
    }

    batch: int | None = validation.integer(None)

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return 50 draws with noise of 1e-4, in batches of 10, of 50 for State, all of Switch-Feature at once."""
        cls._check(dataset)
        batch = {"state": 50, "switch_feature": None}.get(dataset, 10)
        return cls(50, 1e-4, batch=batch, quirks=frozenset(cls.faults if dataset in SYNTHETIC else {"9"}))

    def _pool(self, ask: Ask) -> Tensor | None:
        return None if "9" in self.quirks else super()._pool(ask)  # then the baseline is that of the call

    def _series_positions(self, block: Block, stream: Tensor) -> Tensor:
        if "9" not in self.quirks:
            return super()._series_positions(block, stream)
        order = torch.arange(self.n_samples, device=block.x.device)
        return uniform(stream[..., None], FAR + self.n_samples + order, block.x.dtype)

    def _baselines(self, block: Block, stream: Tensor, ask: Ask) -> Callable[[slice], Tensor] | None:
        if "9" not in self.quirks:
            return super()._baselines(block, stream, ask)
        total = len(ask.x)
        size = self.batch or total
        counter = FAR + torch.arange(self.n_samples, device=block.x.device)
        first = torch.arange(block.rows.start, block.rows.stop, device=block.x.device)[:, None] // size * size
        members = (total - first).clamp(max=size)
        drawn = randint(stream[..., None], counter, 2 * members)
        rows = torch.where(drawn < members, -1, first + drawn - members)  # -1 is the call's baseline

        def baselines(points: slice) -> Tensor:
            some = rows[:, points]
            others = ask.x[some.clamp(min=0).to(ask.x.device)].to(block.x)
            return torch.where((some < 0)[..., None, None], block.baseline[:, None], others)

        return baselines
