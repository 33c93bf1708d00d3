import math

import pytest
import torch

from tempograd.engine import WeightedMean


def literal(y: list[float], v: list[float]) -> tuple[float, float, float]:
    """Mean, standard error and effective size of one cell, as the module's docstring defines them."""
    mean = sum(a * b for a, b in zip(v, y, strict=True)) / sum(v)
    z = [b * (a - mean) for a, b in zip(y, v, strict=True)]
    n = sum(v) ** 2 / sum(b * b for b in v)
    spread = sum((z[i + 1] - z[i]) ** 2 for i in range(0, len(z) - 1, 2)) + (z[-1] ** 2 if len(z) % 2 else 0)
    return mean, math.sqrt(n / (n - 1) * spread) / sum(v), n


@pytest.mark.parametrize("points", [20, 21])
@pytest.mark.parametrize("size", [1, 3, 4, 30])
def test_equals_the_literal_formula_in_pieces_of_any_size(size, points):
    generator = torch.Generator().manual_seed(0)
    y = 5 + torch.randn(2, points, 3, 2, generator=generator, dtype=torch.float64)
    weight = torch.rand(y.shape[:2], generator=generator, dtype=torch.float64)
    free = (torch.rand(y.shape, generator=generator) < 0.6).double()
    v = weight[..., None, None] * free
    mean = WeightedMean()
    for start in range(0, points, size):
        piece = slice(start, start + size)
        mean.add(y[:, piece].clone(), weight[:, piece], free[:, piece])
    result = mean.result()
    for cell in torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(2)).tolist():
        i, t, d = cell
        expected = literal(y[i, :, t, d].tolist(), v[i, :, t, d].tolist())
        found = (result.mean[i, t, d], result.error[i, t, d], result.effective[i, t, d])
        assert [float(number) for number in found] == pytest.approx(expected, rel=1e-9)
        assert result.points[i, t, d] == (v[i, :, t, d] > 0).sum()


def test_cells_without_draws_are_zero_and_unknown():
    y, free = torch.ones(1, 4, 1, 3), torch.zeros(1, 4, 1, 3)
    free[0, 1, 0, 1] = 1
    free[0, :2, 0, 2] = 1
    mean = WeightedMean()
    mean.add(y, torch.ones(1, 4), free)
    result = mean.result()
    assert result.mean[0, 0].tolist() == [0, 1, 1]
    assert result.error[0, 0].isinf().tolist() == [True, True, False]
    assert result.points[0, 0].tolist() == [0, 1, 2]


def test_a_trend_along_the_path_is_no_noise():
    """Independent points with the same spread as the trend would have an error fifty times larger."""
    y = torch.linspace(0, 1, 100)[None, :, None, None]
    mean = WeightedMean()
    independent = y.std() / 10
    mean.add(y, torch.ones(1, 100))
    assert mean.result().error.item() < independent / 20


def test_a_small_spread_around_a_large_value_is_not_lost_in_single_precision():
    """Masks change between neighbours, so squares around 0 would be those of the value itself."""
    generator = torch.Generator().manual_seed(0)
    y = 1000 + 1e-2 * torch.randn(1, 50, 4, 2, generator=generator, dtype=torch.float64)
    free = (torch.rand(y.shape, generator=generator) < 0.5).double()
    results = []
    for dtype in (torch.float32, torch.float64):
        mean = WeightedMean()
        mean.add(y.to(dtype), torch.ones(1, 50, dtype=dtype), free.to(dtype))
        results.append(mean.result().error.double())
    torch.testing.assert_close(results[0], results[1], rtol=0.1, atol=0)


def test_a_constant_gradient_has_no_error_and_never_a_square_root_of_less_than_nothing():
    generator = torch.Generator().manual_seed(0)
    for size in (1e-3, 1.0, 1e4):
        y = (size * torch.randn(20, 1, 8, 8, generator=generator)).expand(20, 51, 8, 8).clone()
        scale, free = y[:, 0].abs(), (torch.rand(y.shape, generator=generator) < 0.5).float()
        mean = WeightedMean()
        mean.add(y, torch.rand(20, 51, generator=generator), free)
        assert (mean.result().error < 1e-5 * scale).all()
