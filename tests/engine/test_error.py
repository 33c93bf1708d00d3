import math

import pytest
import torch
from conftest import series

from tempograd.engine import relative_error

SIZE = math.sqrt(2 / math.pi)


def one(*cells):
    return torch.tensor(cells).view(1, -1, 1)


def test_the_error_is_the_mean_size_of_normal_errors_over_the_size_of_the_scores():
    """Against draws: the estimate with the true standard errors is the mean of what really is missed."""
    values, spread = series(2, 5, 3, dtype=torch.float64), series(2, 5, 3, seed=1, dtype=torch.float64).abs() / 5
    noise = torch.randn(40_000, 2, 5, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    missed = (noise * spread).abs().sum((2, 3)).mean(0) / values.abs().sum((1, 2))
    torch.testing.assert_close(relative_error(values, spread), missed, rtol=5e-3, atol=0)


def test_a_cell_without_an_error_counts_with_its_size_and_the_largest_other_error():
    found = relative_error(one(4.0, -2.0, 2.0), one(0.4, math.inf, 0.1))
    assert found.tolist() == pytest.approx([SIZE * (0.4 + (2.0 + 0.4) + 0.1) / 8])
    assert relative_error(one(4.0, -2.0), one(math.inf, math.inf)).tolist() == pytest.approx([SIZE])


def test_only_observed_cells_count():
    seen = torch.tensor([True, False, True]).view(1, 3, 1)
    found = relative_error(one(4.0, 100.0, -1.0), one(0.4, math.inf, 0.1), seen)
    assert found.tolist() == pytest.approx([SIZE * 0.5 / 5])


def test_scores_that_are_all_zero_have_no_error_or_an_endless_one():
    values = torch.zeros(3, 2, 1)
    error = torch.tensor([[0.0, 0.0], [0.1, 0.0], [math.inf, math.inf]])[..., None]
    assert relative_error(values, error).tolist() == [0, math.inf, math.inf]


def test_series_do_not_touch_each_other():
    values, error = series(3, 4, 2), series(3, 4, 2, seed=1).abs()
    error[1, 2, 0] = math.inf
    alone = torch.cat([relative_error(values[i : i + 1], error[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(relative_error(values, error), alone)
