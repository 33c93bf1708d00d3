"""LIME: the regressions against scikit-learn, the method against captum on the same masks."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import Lasso

import tempograd as tg
from tempograd.core.errors import TempogradWarning
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
    found, seen = seen_by(
        Lime(40, width=0.2, distance=distance), model, tg.Series(x, mask=mask), baseline=9.0, target=1
    )
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
    found, seen = seen_by(Lime(), linear(40, 2), tg.Series(x, mask=mask))
    assert len(seen) == 2 + 2 * 160
    alone, seen = seen_by(Lime(), linear(40, 2), tg.Series(x[1:], mask=mask[1:], ids=[1]))
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


# The error: how far a coefficient is from that of infinitely many masks


def all_masks(cells: int) -> torch.Tensor:
    """Return every mask once: what infinitely many draws come to."""
    return ((torch.arange(2**cells)[:, None] >> torch.arange(cells)) & 1).bool()


def converged(model, x, width=1.0, alpha=0.01):
    """Return the coefficients of infinitely many masks, from all of them and scikit-learn."""
    keep = all_masks(x.numel())
    distance = 1 - keep.double().mean(1).sqrt()
    score = model(torch.where(keep.view(-1, *x.shape), x, 0))
    weight = torch.exp(-(distance**2) / (2 * width**2))
    return by_sklearn(keep, score, weight, alpha, relative=True)[0].view(x.shape)


def sandwich(z, y, weight, beta, alpha):
    """Textbook HC2 errors of a Lasso with a relative penalty whose active cells stay, with an inverse."""
    z, y, p, beta = (np.asarray(part, dtype=np.float64) for part in (z, y, weight / weight.sum(), beta))
    active = np.flatnonzero(beta)
    centred, score = z - p @ z, y - p @ y
    gram = sum(p[i] * np.outer(centred[i, active], centred[i, active]) for i in range(len(p)))
    inverse, covariance = np.linalg.inv(gram), centred.T @ (p * score)
    lead = np.abs(covariance).argmax()
    total = np.zeros(len(active))
    for i in range(len(p)):
        leverage = p[i] * (1 + centred[i, active] @ inverse @ centred[i, active])
        residual = (score[i] - centred[i] @ beta) / math.sqrt(1 - leverage)
        penalty = alpha * np.sign(covariance[lead]) * centred[i, lead] * score[i]
        total += (inverse @ (centred[i, active] * residual - np.sign(beta[active]) * penalty) * p[i]) ** 2
    return active, np.sqrt(total)


@pytest.mark.parametrize(
    ("samples", "cells", "alpha", "mean", "most"),
    [(2000, 20, 0.01, 0.005, 0.02), (200, 20, 0.05, 0.045, 0.16), (80, 40, 0.01, 0.08, 0.4)],
)
def test_errors_are_those_of_the_textbook_where_samples_are_drawn(samples, cells, alpha, mean, most):
    """The textbook inverts the sums of products that were drawn, the library their expectation."""
    z, y, _ = problems(6, samples, cells)
    y = y + 0.5 * (z[..., :1] * z[..., 1:2] * z[..., 2:3])  # no linear model has these
    weight = 0.5 + torch.rand(6, samples, generator=torch.Generator().manual_seed(1)).double()
    found, ratios = lasso(z, y, weight, alpha, relative=True), []
    for i in range(6):
        active, expected = sandwich(z[i], y[i, :, 0], weight[i], found.beta[i, :, 0], alpha)
        ratios.append(found.error[i, active, 0] / torch.from_numpy(expected))
    ratio = torch.cat(ratios)
    assert abs(float(ratio.mean()) - 1) < mean
    assert (ratio - 1).abs().quantile(0.95) < most


def test_leverages_of_unequal_weights_sum_to_the_coefficients():
    weight = torch.rand(5, 40, 1, generator=torch.Generator().manual_seed(0)).double() ** 4
    p = weight / weight.sum(1, keepdim=True)
    fitted = torch.tensor([2.0, 7.0, 20.0, 38.0, 39.5]).view(5, 1, 1).double()
    leverage, inflation = lime._leverage(p, fitted, torch.tensor(40))
    torch.testing.assert_close(leverage.sum(1), fitted[:, 0])
    torch.testing.assert_close(leverage, 1 - 1 / (1 + p * inflation * fitted))
    same, most = lime._leverage(torch.full((1, 40, 1), 1 / 40).double(), fitted[1:2], torch.tensor(40))
    torch.testing.assert_close(same, torch.full_like(same, 7 / 40))
    torch.testing.assert_close(most, torch.full_like(most, 40 / 33))


def gate(z):
    return torch.sigmoid(12 * (z[:, :, 0].sum(1) - 0.5)) * (1 + z[:, -1, 1])


# more than half of its masks open the gate: where nearly all leave it shut, 50 of them may not see it
X10 = torch.tensor([[0.4, -0.3], [-0.2, 0.9], [0.7, 0.5], [0.3, -1.1], [0.2, 0.8]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("model", "settings", "most"),
    [
        (lambda z: (z * X10.cos()).sum((1, 2)), {}, 1.3),
        (lambda z: torch.tanh((z * X10.sin()).sum((1, 2))), {}, 1.3),
        (gate, {}, 1.3),
        (gate, {"n_samples": 25}, 1.3),
        (gate, {"n_samples": 100, "width": 0.3}, 1.3),
        (gate, {"alpha": 0.1}, 1.7),  # moves towards 0 end there, which the error does not know
    ],
)
def test_intervals_hold_the_coefficients_of_all_masks(model, settings, most):
    seeds = 400
    found = Lime(**settings)(model, X10.expand(seeds, 5, 2), output="raw")
    settings = {name: value for name, value in settings.items() if name != "n_samples"}
    truth = converged(model, X10, **settings)
    low, high = found.interval(0.95)
    held = (low - 1e-6 <= truth) & (truth <= high + 1e-6)
    assert 0.9 <= float(held.double().mean()) <= 0.985
    error = (found.values - truth).abs().sum((1, 2)).mean() / truth.abs().sum()
    assert 0.7 <= float(found.relative_error.median() / error) <= most


def test_a_cell_that_the_penalty_holds_at_0_has_no_error_but_one_at_the_edge_has():
    x = torch.ones(1, 3, 1, dtype=torch.float64)
    weigh = torch.tensor([10.0, 0.8, 2.1], dtype=torch.float64)[:, None]
    noise = lambda z: 3 * (z.sum((1, 2)) - 1.5) ** 2  # noqa: E731  # no linear model has it
    model = lambda z: (z * weigh).sum((1, 2)) + noise(z)  # noqa: E731
    found = Lime(4000, alpha=0.2, width=1e6)(model, x, output="raw")
    assert found.values[0, 1, 0] == 0
    assert found.standard_error[0, 1, 0] == 0
    assert found.standard_error[0, 2, 0] > 0


def test_errors_of_masked_cells_and_what_they_cost():
    x, mask = series(3, 6, 2), torch.ones(3, 6, 2)
    mask[1, 2:, 1] = 0
    found = Lime()(smooth(6, 2), tg.Series(x, mask=mask))
    for part in (found.standard_error, found.ess, found.n_draws):
        assert (part[~mask.bool()] == 0).all()
        assert (part[mask.bool()] > 0).all()
    assert found.n_evals.tolist() == [50, 50, 50]
    assert found.n_draws[0].unique().tolist() == [50]
    assert Lime(n_samples=70)(smooth(6, 2), x).n_evals.tolist() == [70, 70, 70]


def test_with_too_few_masks_for_the_cells_no_error_is_claimed():
    """A fit through nearly all samples leaves residuals that tell nothing."""
    found = Lime(14)(smooth(10, 2), series(40, 10, 2))
    full = (found.values != 0).flatten(1).sum(1) + 1 > 12
    assert full.any()
    assert found.standard_error[full].isinf().all()
    assert found.standard_error[~full].isfinite().any()
    assert "not converged" in found.verdict()


def test_residuals_that_few_samples_carry_have_few_degrees_of_freedom():
    z, y, _ = problems(1, 200, 10)
    wild = y.clone()
    wild[0, :3] += 50
    weight = torch.ones(1, 200)
    usual, few = (lasso(z, each, weight, 0.01, relative=True).freedom[0, 0, 0] for each in (y, wild))
    assert 150 < float(usual) < 200
    assert 2 < float(few) < 8


def test_the_advised_number_of_masks_reaches_the_goal():
    x = X10 + 0.1 * series(40, 5, 2, dtype=torch.float64)
    advice = Lime()(gate, x, output="raw").verdict()
    assert advice.startswith("not converged")
    count = int(advice.split("n_samples=")[1].split()[0])
    errors = torch.cat([Lime(count)(gate, x, output="raw", seed=seed).relative_error for seed in (1, 2, 3)])
    assert (errors <= 0.105).double().mean() >= 0.95  # what the verdict asks for
    assert errors.median() > 0.06  # and no more than it takes


def test_errors_of_own_steps_are_those_of_each_steps_own_regression():
    model, x = Recurrent(per_step=True).double().eval(), series(3, 6, 3, dtype=torch.float64)
    own = Lime(60)(model, x, steps="own")
    for t in range(6):
        one = Lime(60)(model, x, steps=t)
        torch.testing.assert_close(own.standard_error[:, t], one.standard_error[:, t], rtol=1e-4, atol=1e-7)
        torch.testing.assert_close(own.ess[:, t], one.ess[:, t], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_a_penalty_that_is_not_relative_keeps_its_unit_at_any_size(size):
    """A coefficient of one cell loses four times the penalty, whatever its size."""
    x = torch.ones(1, 2, 1, dtype=torch.float64)
    weigh = torch.tensor([3.0, -1.0], dtype=torch.float64)[:, None] * size
    settings = {"relative": False, "width": 1e6}
    found = Lime(4000, alpha=0.1 * size, **settings)(lambda z: (z * weigh).sum((1, 2)), x, output="raw")
    torch.testing.assert_close(found.values.flatten() / size, torch.tensor([2.6, -0.6]), rtol=0, atol=0.05)
