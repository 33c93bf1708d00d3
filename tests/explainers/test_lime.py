"""LIME: the regressions against scikit-learn, the method against captum on the same masks."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import Lasso

from tempograd.errors import TempogradWarning
from tempograd.explainers import Lime, lime
from tempograd.explainers.lime import lasso
from tests.helpers.literal_methods import captum_lime, seen_by
from tests.helpers.models import Recurrent, linear, series, smooth


def problems(count: int, samples: int, cells: int, questions: int = 1):
    draw = torch.Generator().manual_seed(7)
    z = (torch.rand(count, samples, cells, generator=draw) < 0.5).double()
    weight = torch.rand(count, samples, generator=draw).double() + 0.1
    weight[:, ::5] = 0
    effect = torch.randn(count, cells, questions, generator=draw).double()
    return z, z @ effect + 3 + 0.3 * torch.randn(count, samples, questions, generator=draw).double(), weight


def by_sklearn(z, y, weight, alpha, *, relative):
    """One coefficient vector and its penalty."""
    z, y, weight = (np.asarray(part, dtype=np.float64) for part in (z, y, weight))
    p = weight / weight.sum()
    level = np.abs((z - p @ z).T @ (p * (y - p @ y))).max() if relative else 1.0
    model = Lasso(alpha * level, tol=1e-13, max_iter=300_000).fit(z, y, sample_weight=weight)
    return torch.from_numpy(model.coef_), alpha * level


def objective(beta, z, y, weight, alpha):
    p = weight / weight.sum()
    left = (y - p @ y) - (z - p @ z) @ beta
    return 0.5 * (p * left**2).sum() + alpha * beta.abs().sum()


@pytest.mark.parametrize(
    ("samples", "cells", "questions", "alpha"),
    [(40, 12, 1, 0.01), (40, 12, 3, 1e-6), (25, 60, 1, 0.05), (25, 60, 3, 0.3), (30, 29, 1, 0.02),
     (150, 170, 1, 0.1), (30, 1, 1, 0.01), (30, 2, 1, 0.5)],
)  # fmt: skip
def test_regressions_agree_with_scikit_learn(samples, cells, questions, alpha):
    z, y, weight = problems(4, samples, cells, questions)
    for relative, penalty in ((True, alpha), (False, alpha * 0.5)):
        found = lasso(z, y, weight, penalty, relative=relative).beta
        for i in range(4):
            for j in range(questions):
                expected, _ = by_sklearn(z[i], y[i, :, j], weight[i], penalty, relative=relative)
                torch.testing.assert_close(found[i, :, j], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("samples", [6, 60])
def test_tied_cells_share_one_optimum(samples):
    """Equal, opposite and constant columns: several solutions, one objective and one fit."""
    z, y, weight = problems(20, samples, 40)
    z[..., 1], z[..., 3], z[..., 5] = z[..., 0], 1 - z[..., 2], 1
    found = lasso(z, y, weight, 0.02, relative=True).beta[..., 0]
    assert (found[:, 5] == 0).all()
    for i in range(20):
        expected, alpha = by_sklearn(z[i], y[i, :, 0], weight[i], 0.02, relative=True)
        values = [objective(beta, z[i], y[i, :, 0], weight[i], alpha) for beta in (found[i], expected)]
        assert float(values[0]) <= float(values[1]) * (1 + 1e-9)
        seen = weight[i] > 0
        fits = [z[i][seen] @ beta for beta in (found[i], expected)]
        torch.testing.assert_close(fits[0] - fits[0].mean(), fits[1] - fits[1].mean(), rtol=0, atol=1e-4)


def test_few_samples_need_no_iterations(monkeypatch):
    """The path ends at the solution by itself; the iterations are for what it leaves."""
    z, y, weight = problems(30, 25, 60)
    expected = lasso(z, y, weight, 0.02, relative=True)
    monkeypatch.setattr(lime, "_descend", None)
    torch.testing.assert_close(lasso(z, y, weight, 0.02, relative=True), expected, rtol=0, atol=0)


def test_without_its_start_the_iteration_arrives_at_the_same_place(monkeypatch):
    z, y, weight = problems(3, 25, 40)
    expected = lasso(z, y, weight, 0.05, relative=True)
    monkeypatch.setattr(lime, "FEW", 0)
    torch.testing.assert_close(lasso(z, y, weight, 0.05, relative=True), expected, rtol=1e-6, atol=1e-7)
    monkeypatch.setattr(lime, "PATIENCE", 20)
    with pytest.warns(TempogradWarning, match="did not converge in 20 iterations"):
        lasso(z, y, weight, 0.05, relative=True)


def test_a_constant_score_has_no_coefficients():
    z, _, weight = problems(50, 30, 8)
    y = torch.rand(50, 1, 1, generator=torch.Generator().manual_seed(0)).double().expand(-1, 30, -1)
    assert (lasso(z, y, weight, 0.01, relative=True).beta == 0).all()


def test_a_linear_model_is_recovered():
    model, x = linear(5, 3).double(), series(4, 5, 3, dtype=torch.float64)
    found = Lime(60, alpha=1e-9)(model, x, target=1, baseline=0.7, output="raw").values
    expected = model[1].weight[1].view(5, 3) * (x - 0.7)
    torch.testing.assert_close(found, expected.float().detach(), rtol=1e-5, atol=1e-5)


def test_the_penalty_takes_the_same_share_of_every_coefficient():
    """With all masks of two cells each coefficient loses four times the penalty: a half has variance 1/4."""
    x = torch.tensor([[[3.0], [-1.0]]])
    found = Lime(20_000, alpha=0.25, width=1e6)(lambda z: z.sum((1, 2)), x, output="raw").values.flatten()
    torch.testing.assert_close(found, torch.tensor([2.25, -0.25]), rtol=0, atol=0.05)
    times = Lime(500)(lambda z: 1000 * z.sum((1, 2)), x, output="raw").values
    torch.testing.assert_close(times, 1000 * Lime(500)(lambda z: z.sum((1, 2)), x, output="raw").values)


@pytest.mark.parametrize("distance", ["kept", "series"])
def test_samples_weights_and_scores_are_those_of_the_formula(distance):
    """From the sequences the model saw, with a mask, an odd baseline and a narrow kernel."""
    model, x = smooth(6, 2), series(1, 6, 2, dtype=torch.float64)
    mask = torch.ones(1, 6, 2)
    mask[0, 1, 1], mask[0, 4:, 0] = 0, 0
    found, seen = seen_by(Lime(40, width=0.2, distance=distance), model, x, mask=mask, baseline=9.0, target=1)
    observed = mask[0].bool().flatten()
    kept = (seen[1:] == x).flatten(1)[:, observed].double()
    assert kept.shape == (40, 9)
    assert ((seen[1:] == x) | ((seen[1:] == 9) & mask.bool())).all()
    if distance == "kept":
        cosine = [row.sum() / math.sqrt(9) / row.norm() if row.any() else torch.tensor(0.0) for row in kept]
    else:
        clean, rows = x.flatten()[observed], seen[1:].flatten(1)[:, observed]
        cosine = [row @ clean / row.norm() / clean.norm() for row in rows]
    weight = torch.tensor([math.exp(-((1 - c) ** 2) / (2 * 0.2**2)) for c in cosine])
    score = model(seen[1:]).softmax(-1)[:, 1].detach()
    expected, _ = by_sklearn(kept, score, weight, 0.01, relative=True)
    assert (found.values[~mask.bool()] == 0).all()
    torch.testing.assert_close(found.values[mask.bool()].double(), expected, rtol=1e-4, atol=1e-6)


def test_captum_finds_the_same_on_the_same_masks():
    model, x = linear(6, 2).float(), 2 * series(1, 6, 2)
    explainer = Lime(60, 0.01, relative=False, distance="series")
    found, seen = seen_by(explainer, model, x)
    expected = captum_lime(lambda z: model(z).softmax(-1), x, int(model(x).argmax()), seen[1:] == x, 0.01)
    assert (expected == 0).any()
    torch.testing.assert_close(found.values, expected, rtol=1e-3, atol=1e-5)


def test_own_steps_are_each_steps_own_regression():
    model, x = Recurrent(per_step=True).double().eval(), series(3, 6, 3, dtype=torch.float64)
    for samples in (20, 60):  # fewer and more than cells
        own = Lime(samples)(model, x, steps="own").values
        assert (own != 0).any()
        for t in range(6):
            one = Lime(samples)(model, x, steps=t).values[:, t]
            torch.testing.assert_close(own[:, t], one, rtol=1e-4, atol=1e-7)


def test_twice_as_many_masks_as_observed_cells_by_default():
    x, mask = series(2, 40, 2), torch.ones(2, 40, 2)
    mask[1, 10:] = 0
    found, seen = seen_by(Lime(), linear(40, 2), x, mask=mask)
    assert len(seen) == 2 + 2 * 160
    alone, seen = seen_by(Lime(), linear(40, 2), x[1:], mask=mask[1:], ids=[1])
    assert len(seen) == 1 + 50
    torch.testing.assert_close(found.values[1:], alone.values)


def test_half_of_the_cells_are_kept_independently():
    _, seen = seen_by(Lime(4000), linear(7, 10), torch.ones(1, 7, 10))
    kept = seen[1:].flatten(1)
    assert (kept.mean(0) - 0.5).abs().max() < 4.5 * 0.5 / math.sqrt(4000)
    together = torch.corrcoef(kept.T).fill_diagonal_(0)
    assert together.abs().max() < 5 / math.sqrt(4000)


def test_models_outside_pytorch_are_explained():
    weight = np.arange(6.0).reshape(3, 2)
    model = lambda z: torch.from_numpy((z.detach().numpy() * weight).sum((1, 2)))  # noqa: E731
    found = Lime(alpha=1e-8)(model, torch.ones(1, 3, 2).double(), output="raw").values
    torch.testing.assert_close(found[0].double(), torch.from_numpy(weight), rtol=1e-5, atol=1e-5)
