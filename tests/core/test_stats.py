import pytest
import torch
from scipy import stats

from tempograd.core.stats import t_quantile


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_agrees_with_scipy_for_whole_and_fractional_degrees_of_freedom(level):
    freedom = torch.tensor([0.1, 0.37, 0.9, 1, 1.5, 2, 3.7, 12, 29.9, 30.1, 49, 400, 1e6], dtype=torch.float64)
    expected = torch.from_numpy(stats.t.ppf(0.5 + level / 2, freedom.numpy()))
    torch.testing.assert_close(t_quantile(level, freedom), expected, rtol=2e-4, atol=0)


def test_nothing_is_known_without_freedom():
    assert t_quantile(0.95, torch.tensor([0.0, -1.0])).isinf().all()


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_expansion_is_exact_to_a_millionth_or_so(level):
    freedom = torch.tensor([30.1, 35, 49, 400], dtype=torch.float64)
    expected = torch.from_numpy(stats.t.ppf(0.5 + level / 2, freedom.numpy()))
    torch.testing.assert_close(t_quantile(level, freedom), expected, rtol=2e-6, atol=0)
