import pytest
import torch
from torch import nn

from tempograd.core.errors import InputError
from tempograd.engine.model import rounding
from tempograd.explainers import IntegratedGradients, Timing
from tests.helpers.models import series


def test_bfloat16_rounds_the_products():
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 2, bias=False))
    nn.init.constant_(model[1].weight, 1 + 2**-12)  # 1 in bfloat16, as are the series
    x = torch.ones(1, 6, 2)
    exact, coarse = (
        IntegratedGradients(5)(model, x, output="raw", target=0, precision=p).values for p in ("full", "bf16")
    )
    torch.testing.assert_close(exact, torch.full_like(x, 1 + 2**-12), rtol=1e-6, atol=0)
    torch.testing.assert_close(coarse, x, rtol=1e-6, atol=0)


def test_sums_over_points_keep_all_bits_whatever_the_model_computes_with():
    """The model has no matrix product, so that nothing may change."""

    def model(z):
        return torch.stack([z.square().sum((1, 2)), z.pow(3).sum((1, 2))], 1)

    x = series(3, 20, 2)
    exact, coarse = (Timing()(model, x, output="raw", precision=p) for p in ("full", "bf16"))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        medium = rounding()
        settings = Timing()(model, x, output="raw")
        assert rounding() == medium
    finally:
        torch.set_float32_matmul_precision(before)
    for other in (coarse, settings):
        torch.testing.assert_close(other.values, exact.values)
        torch.testing.assert_close(other.standard_error, exact.standard_error)


def test_settings_are_put_back_after_an_error():
    before, inside = rounding(), []

    def broken(_):
        inside.append(rounding())
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        IntegratedGradients()(broken, series(2, 3, 1), precision="tf32")
    assert inside[0] != before
    assert rounding() == before


def test_an_unknown_precision_is_refused():
    with pytest.raises(InputError, match="'full', 'tf32' or 'bf16', got 'half'"):
        IntegratedGradients()(nn.Flatten(), series(2, 3, 1), precision="half")
