"""Unobserved cells and padding."""

import pytest
import torch
from torch import nn

from conftest import series, smooth
from tempograd.explainers import EXPLAINERS, Timing


class First(nn.Module):
    """Looks at the first twelve steps only, so that padding means nothing to it."""

    def __init__(self, *, per_step: bool = False) -> None:
        super().__init__()
        self.inner, self.per_step = smooth(12, 2), per_step

    def forward(self, x):
        answer = self.inner(x[:, :12])
        return answer[:, None] * x[..., :1].sigmoid() if self.per_step else answer


def observed(batch: int, time: int, channels: int) -> torch.Tensor:
    mask = torch.rand(batch, time, channels, generator=torch.Generator().manual_seed(5)) < 0.7
    mask[:, -1, 0] = True
    return mask


@pytest.mark.parametrize("name", sorted(EXPLAINERS))
@pytest.mark.parametrize("per_step", [False, True])
def test_appended_padding_changes_nothing(name, per_step):
    model, x, mask = First(per_step=per_step), series(5, 12, 2, dtype=torch.float64), observed(5, 12, 2)
    padded = torch.cat([x, torch.randn(5, 9, 2)], 1)
    padding = torch.cat([mask, torch.zeros(5, 9, 2, dtype=torch.bool)], 1)
    short = EXPLAINERS[name]()(model, x, mask=mask)
    long = EXPLAINERS[name]()(model, padded, mask=padding)
    torch.testing.assert_close(long.values[:, :12], short.values, rtol=1e-5, atol=1e-9)
    assert (long.values[:, 12:] == 0).all()


def test_series_of_different_lengths_are_explained_as_if_alone():
    model, x = First(), series(3, 20, 2, dtype=torch.float64)
    mask = torch.ones(3, 20, 2)
    mask[1, 15:], mask[2, 12:] = 0, 0
    together = Timing()(model, x, mask=mask).values
    for i, length in ((1, 15), (2, 12)):
        alone = Timing()(model, x[i : i + 1, :length], ids=[i]).values
        torch.testing.assert_close(together[i : i + 1, :length], alone, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("name", sorted(EXPLAINERS))
def test_unobserved_cells_hold_zero_and_stay_where_they_are(name):
    x, mask = series(5, 12, 2, dtype=torch.float64), observed(5, 12, 2)
    seen = []

    def model(z):
        seen.append(z.detach())
        return smooth(12, 2)(z)

    found = EXPLAINERS[name]()(model, x, mask=mask, baseline=7.0)
    for part in (found.values, found.standard_error, found.free_points, found.effective_points):
        assert part is None or (part[~mask] == 0).all()
    if EXPLAINERS[name].needs_gradient:
        assert (found.values[mask] != 0).all()
    for batch in seen:  # every sequence agrees with one of the series wherever that was not observed
        matches = ((batch[:, None] == x) | mask).flatten(2).all(2).any(1)
        assert matches.all()


def test_a_series_without_any_observation_scores_zero():
    mask = torch.ones(2, 12, 2)
    mask[1] = 0
    found = Timing()(smooth(12, 2), series(2, 12, 2), mask=mask)
    assert (found.values[1] == 0).all()
    assert (found.values[0] != 0).all()


def test_averages_leave_missing_values_out():
    x, mask = series(3, 12, 2, dtype=torch.float64), observed(3, 12, 2)
    found = Timing(segments=0)(smooth(12, 2), x, mask=mask, baseline="average")
    expected = torch.stack([
        torch.stack([row[seen].mean() for row, seen in zip(one.T, keep.T, strict=True)])
        for one, keep in zip(x, mask, strict=True)
    ])  # fmt: skip
    torch.testing.assert_close(found.baseline[:, 0], expected)
