"""What Hypothesis draws: series with masks and ids, and names that people would never choose.

The numbers in a tensor come from a generator with a drawn seed: a failing example is then a shape, a mask and a
seed, which shrink to something that a person can read.
"""

from dataclasses import dataclass

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from tempograd.core.series import Series

SEEDS = st.integers(-(2**63), 2**63 - 1)
IDS = SEEDS
TROUBLE = ",;\t\"'\\ $<>&%|#=\n\u2028-0e1."  # what separates, quotes, or passes for a number
NAMES = st.text(st.one_of(st.sampled_from(TROUBLE), st.characters(codec="utf-8")), min_size=1, max_size=8)


def examples(share: float) -> settings:
    """Return settings with a share of the profile's examples, for properties whose examples are slow."""
    return settings(max_examples=max(2, round(share * settings().max_examples)))


@dataclass(frozen=True)
class Batch:
    """Series with the mask and the ids they are explained with."""

    x: Tensor
    mask: Tensor | None
    ids: Tensor

    def __repr__(self) -> str:
        mask = None if self.mask is None else self.mask.int().tolist()
        return f"Batch({tuple(self.x.shape)}, {self.x.dtype}, ids={self.ids.tolist()}, mask={mask})"

    @property
    def series(self) -> Series:
        return Series(self.x, mask=self.mask, ids=self.ids)

    def take(self, rows: list[int]) -> "Batch":
        return Batch(self.x[rows], None if self.mask is None else self.mask[rows], self.ids[rows])


@st.composite
def batches(draw, least=1, most=5, time=6, channels=3, masked=None) -> Batch:
    """Draw a few short series of one or two precisions, with any mask or none, and any distinct ids."""
    shape = (draw(st.integers(least, most)), draw(st.integers(1, time)), draw(st.integers(1, channels)))
    dtype = draw(st.sampled_from([torch.float64, torch.float32]))
    numbers = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    x = 2 * torch.rand(shape, generator=numbers, dtype=dtype) - 1
    mask = None
    if draw(st.booleans()) if masked is None else masked:
        share = draw(st.sampled_from([0.0, 0.2, 0.7, 0.95]))
        mask = torch.rand(shape, generator=numbers) < share
    ids = draw(st.lists(IDS, min_size=shape[0], max_size=shape[0], unique=True))
    return Batch(x, mask, torch.tensor(ids))
