"""The terms that TimeX and TimeX++ minimise, against loops written from their definitions."""

import math

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from tempograd.explainers.timex import (
    connection_loss,
    gaussian_kl,
    geometry,
    gsat,
    jensen_shannon,
    label_geometry,
)
from tests.helpers.literal_methods import kl
from tests.helpers.models import series

P = series(5, 4, 3, seed=1, dtype=torch.float64).sigmoid()
FIRST, SECOND = (series(6, 4, 1, seed=seed, dtype=torch.float64)[..., 0].softmax(-1) for seed in (2, 3))
STEPS = tuple(series(5, 7, 3, seed=seed, dtype=torch.float64).softmax(-1) for seed in (4, 5))


def divergence(p, q) -> float:
    m = (p + q) / 2
    return (kl(p, m) + kl(q, m)) / 2


def cosine(a, b) -> float:
    return float((a * b).sum()) / math.sqrt(float((a * a).sum()) * float((b * b).sum()))


def test_gsat_is_the_divergence_from_a_coin():
    """Up to the small numbers that keep it finite."""
    coin = torch.tensor([0.3, 0.7], dtype=torch.float64)
    expected = sum(kl(torch.stack([p, 1 - p]), coin) for p in P.flatten()) / P.numel()
    assert float(gsat(P, 0.3)) == pytest.approx(expected, abs=1e-5)
    assert abs(float(gsat(torch.full((2, 3, 1), 0.3), 0.3))) < 3e-6
    for sure in (torch.zeros(2, 3, 1), torch.ones(2, 3, 1)):
        assert float(gsat(sure, 0.5)) == pytest.approx(math.log(2), abs=1e-5)


def test_connect_is_one_norm_over_the_number_of_jumps():
    squares = [
        (float(P[n, t + 1, d]) - float(P[n, t, d])) ** 2 for n in range(5) for t in range(3) for d in range(3)
    ]
    assert float(connection_loss(P)) == pytest.approx(math.sqrt(sum(squares)) / 45)
    flat = torch.full((2, 5, 3), 0.4, requires_grad=True)
    loss = connection_loss(flat)
    assert float(loss.detach()) == 0
    assert torch.equal(torch.autograd.grad(loss, flat)[0], torch.zeros(2, 5, 3))
    assert float(connection_loss(P[:, :1])) == 0


def test_geometry_compares_all_cosines():
    a, b = (series(6, 5, 1, seed=seed, dtype=torch.float64)[..., 0] for seed in (6, 7))
    wanted = [cosine(a[i], a[j]) for i in range(6) for j in range(6)]
    found = [cosine(b[i], b[j]) for i in range(6) for j in range(6)]
    distance = sum((w - f) ** 2 for w, f in zip(wanted, found, strict=True)) / 36
    mean = sum(wanted) / 36
    variance = sum((w - mean) ** 2 for w in wanted) / 36
    assert float(geometry(a, b)) == pytest.approx(distance / variance)


def test_geometry_ignores_length_and_rotation():
    a = series(6, 5, 1, seed=6, dtype=torch.float64)[..., 0]
    turn = torch.linalg.qr(series(1, 5, 5, seed=8, dtype=torch.float64)[0]).Q
    for same in (a, 3.5 * a, a @ turn):
        assert float(geometry(a, same)) < 1e-25
    assert float(geometry(a, a + 1)) > 0.1


def test_geometry_of_embeddings_that_are_all_alike_is_finite():
    alike = torch.ones(4, 3, requires_grad=True)
    loss = geometry(alike.detach(), alike)
    assert torch.autograd.grad(loss, alike)[0].isfinite().all()
    assert float(loss.detach()) < 1e-4


def test_jensen_shannon_against_the_definition():
    for found, p, q in zip(jensen_shannon(FIRST, SECOND), FIRST, SECOND, strict=True):
        assert float(found) == pytest.approx(divergence(p, q))


def test_jensen_shannon_is_zero_for_equal_predictions_alone():
    assert jensen_shannon(FIRST, FIRST).abs().max() < 1e-15
    assert (jensen_shannon(FIRST, SECOND) > 1e-4).all()


def test_jensen_shannon_of_sure_predictions():
    sure, other = torch.tensor([[1.0, 0.0]], requires_grad=True), torch.tensor([[0.0, 1.0]])
    found = jensen_shannon(sure, other)
    assert float(found.detach()) == pytest.approx(math.log(2), abs=1e-6)
    assert torch.autograd.grad(found.sum(), sure)[0].isfinite().all()


@pytest.mark.parametrize("per_step", [False, True])
def test_label_geometry_goes_over_all_pairs(per_step):
    p, q = STEPS if per_step else (FIRST[:, None], SECOND[:, None])
    pairs = [(i, j, t) for i in range(len(p)) for j in range(i + 1, len(p)) for t in range(p.shape[1])]
    first, second = ([divergence(z[i, t], z[j, t]) for i, j, t in pairs] for z in (p, q))
    expected = sum((a - b) ** 2 for a, b in zip(first, second, strict=True)) / len(pairs)
    given = (p, q) if per_step else (FIRST, SECOND)
    assert float(label_geometry(*given)) == pytest.approx(expected)
    assert float(label_geometry(given[0], given[0])) == 0
    assert float(label_geometry(given[0][:1], given[1][:1])) == 0


def test_gaussian_kl_against_torch():
    mean1, log_var1, mean2, log_var2 = series(4, 6, 5, seed=9, dtype=torch.float64)
    expected = kl_divergence(Normal(mean1, (log_var1 / 2).exp()), Normal(mean2, (log_var2 / 2).exp())).mean()
    torch.testing.assert_close(gaussian_kl(mean1, log_var1, mean2, log_var2), expected)
    assert float(gaussian_kl(mean1, log_var1, mean1, log_var1)) == 0
    assert float(gaussian_kl(mean1, log_var1, mean1 + 0.1, log_var1)) > 0
