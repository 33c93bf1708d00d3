"""A model in other units has the same map in other units, with the same error."""

import pytest
import torch

import tempograd as tg
from tests.helpers.models import linear, series

X, TRAIN = series(3, 6, 2), series(9, 6, 2, seed=1)
NET, BENT = linear(6, 2, 2), linear(6, 2, 2, seed=1)


def answer(z):
    return NET(z) + BENT(z).square()


@pytest.mark.parametrize("unit", [2.0**100, 2.0**70, 2.0**-60, 2.0**-90])
@pytest.mark.parametrize("method", ["timing", "rand_ig", "gradient_shap"])
@pytest.mark.parametrize("target", [None, 1])
def test_scores_and_errors_have_the_units_of_the_output(unit, method, target):
    options = {"output": "raw", "target": target} | ({"background": TRAIN} if method == "gradient_shap" else {})
    plain = tg.explain(answer, X, method, **options)
    found = tg.explain(lambda z: answer(z) * unit, X, method, **options)
    assert torch.allclose(found.values.double() / unit, plain.values.double(), rtol=1e-4, atol=1e-6)
    assert torch.allclose(
        found.standard_error.double() / unit, plain.standard_error.double(), rtol=1e-3, atol=1e-6
    )
    assert found.verdict() == plain.verdict()
    assert torch.equal(found.target, plain.target)
    if plain.delta is not None:
        assert torch.allclose(found.delta.double() / unit, plain.delta.double(), rtol=1e-4)


def test_a_linear_model_with_a_huge_output_has_the_scores_and_the_verdict_of_the_model():
    found = tg.explain(lambda z: 1e30 * NET(z), X, output="raw")
    assert found.verdict() == tg.explain(NET, X, output="raw").verdict()
    exact = (NET[1].weight.view(2, 6, 2)[found.target] * X).detach()
    assert torch.allclose(found.values / 1e30, exact, rtol=1e-3, atol=1e-5)
