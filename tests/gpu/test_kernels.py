"""Kernels of our own give what plain sums give, whatever the layout, and explanations with them stay the same."""

import shutil

import pytest
import torch

from tempograd.core import kernels, rng
from tempograd.explainers import Timing
from tempograd.sampling import estimators
from tempograd.sampling.integration import masked_points
from tests.helpers.models import Recurrent, series

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
DEVICE = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def _compiled():
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler for Triton")
    assert kernels.available(DEVICE)


def case(series_count=5, points=7, time=37, channels=31):
    """Masks, displacements and a gradient laid out step by step, as recurrent layers give it."""
    torch.manual_seed(0)
    by_step = torch.randn(time, series_count * points, channels, device=DEVICE)
    gradient = by_step.transpose(0, 1).view(series_count, points, time, channels)
    active = (torch.rand(gradient.shape, device=DEVICE) < 0.4).to(torch.uint8)
    return gradient, active, torch.randn(series_count, time, channels, device=DEVICE)


def close(found, expected):
    size = expected.abs().amax()
    assert torch.allclose(found.double(), expected.double(), rtol=0, atol=3e-6 * float(size))


def test_sums_over_cells():
    gradient, active, displacement = case()
    sums = kernels.over_cells(gradient, active, displacement)
    effect, mask, zero = (gradient * displacement[:, None]).double(), active.double(), torch.zeros(5, 1).cuda()
    close(sums.slope, (effect * mask).sum((2, 3)))
    close(sums.following, torch.cat([(effect[:, :-1] * mask[:, 1:]).sum((2, 3)), zero], 1))
    close(sums.before, torch.cat([zero, (effect[:, 1:] * mask[:, :-1]).sum((2, 3))], 1))
    close(sums.way, (displacement[:, None].double().square() * mask).sum((2, 3)))
    close(sums.energy, (effect.square() * mask).sum((2, 3)))


@pytest.mark.parametrize("counts", [(17, 5, 2), (8, 3, 2), (1, 1, 1)])
def test_sums_over_points(counts):
    gradient, active, _ = case()
    factors = [torch.randn(5, count, 7, device=DEVICE) for count in counts]
    found = kernels.over_points(gradient, active, *factors)
    moved = (gradient * active).double()
    for part, factor, summed in zip(found, factors, (active.double(), moved, moved.square()), strict=True):
        close(part, torch.einsum("sfp,sptc->sftc", factor.double(), summed).flatten(2))


def test_a_gradient_that_is_no_number_stays_one():
    gradient, active, displacement = case()
    gradient[1, 2, 3, 4] = torch.nan
    assert kernels.over_cells(gradient, active, displacement).slope.isnan().nonzero().tolist() == [[1, 2]]
    _, effects, _ = kernels.over_points(gradient, active, *(torch.ones(5, 1, 7, device=DEVICE),) * 3)
    assert effects.isnan().nonzero().tolist() == [[1, 0, 3 * 31 + 4]]


def test_points_on_paths():
    _, active, difference = case(series_count=kernels.MANY)
    x, alpha = torch.randn_like(difference), torch.rand(7, device=DEVICE)
    found = masked_points(x, difference, active, alpha)
    close(found, x[:, None] + active * (alpha[:, None, None] - 1) * difference[:, None])
    assert torch.equal(found[active == 0], x[:, None].expand_as(found)[active == 0])


def test_random_words_are_those_of_a_cpu():
    stream, counter = torch.randint(0, 2**32, (2, 6, 5)), torch.randint(0, 2**32, (3, 1031))
    found = rng.bits(stream[..., None, None].cuda(), counter.cuda())
    assert found.tolist() == rng.bits(stream[..., None, None], counter).tolist()


def test_no_random_words_are_none():
    stream = torch.randint(0, 2**32, (2, 6, 5)).cuda()
    assert rng.bits(stream[..., None], torch.arange(0).cuda()).shape == (6, 5, 0)


@pytest.mark.parametrize(
    "settings", [{}, {"n_samples": 120}, {"segments": 30}, {"tolerance": 0.3}, {"held": 0.9, "max_length": 4}]
)
def test_an_explanation_is_the_same_without_them(settings, monkeypatch):
    model, x = Recurrent(3).cuda(), series(kernels.MANY + 3, 20, 3).cuda()
    found = Timing(**settings)(model, x)
    for module in (kernels, estimators):
        monkeypatch.setattr(module, "MANY", 10**9)
    expected = Timing(**settings)(model, x)
    close(found.values, expected.values)
    assert torch.equal(found.n_draws, expected.n_draws)
    known = expected.standard_error.isfinite()
    assert torch.allclose(found.standard_error[known], expected.standard_error[known], rtol=2e-2)
    assert found.gradient_check.found.tolist() == expected.gradient_check.found.tolist()
