"""A data set: ramps that go up or down."""

from pathlib import Path

import torch

from tempograd.data import Dataset, Series, dataset


@dataset("ramps", ["default"])
def load_ramps(*, root: Path | None = None, variant: str | None = None, fold: int | None = None) -> Dataset:
    """Ramps of six steps in two channels, of which the first goes up or down with the label."""
    label = torch.arange(40) % 2
    x = torch.randn(40, 6, 2, generator=torch.Generator().manual_seed(0)) * 0.1
    x[..., 0] += (2 * label - 1)[:, None] * torch.linspace(0, 1, 6)
    whole = Series(x, label)
    train, test = whole.take(slice(None, 30)), whole.take(slice(30, None))
    return Dataset("ramps", train, None, test, 2, ("slope", "noise")).fold(fold)
