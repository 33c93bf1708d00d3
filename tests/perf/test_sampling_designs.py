"""The samplers of the study: every design and estimate must know a linear model exactly."""

import pytest
import torch

import samplers
from sampling_case import case
from tests.helpers.models import series

pytestmark = pytest.mark.slow  # weekly

POINTS = 12


@pytest.mark.parametrize("name", sorted(samplers.DESIGNS))
def test_effects_of_a_linear_model_are_exact(name):
    weights = torch.randn(10, 2, generator=torch.Generator().manual_seed(0))
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(20, 1, bias=False))
    model[1].weight.data = weights.view(1, -1)
    x = series(3, 10, 2)
    design, kinds = samplers.DESIGNS[name]
    with case(model, x, None, (3, 2, 4), range(2), 64, output="raw", target=0) as it:
        points = design(it, POINTS)
        seen = points.masks.any(1)
        assert seen.float().mean() > 0.9
        for kind in kinds:
            found = samplers.estimate(it, points, kind)
            if kind != "known":  # it divides by what was expected, not by what was drawn
                torch.testing.assert_close(found[seen], (weights * x).repeat(2, 1, 1)[seen], rtol=1e-3, atol=1e-4)
            assert found[seen].isfinite().all()
