"""Dynamask against its definition and models with known answers."""

import math
from typing import get_args

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch.nn.functional import kl_div

from tempograd.core.errors import InputError, ModelError, SettingError, TempogradWarning
from tempograd.engine import Block
from tempograd.explainers import Dynamask
from tempograd.explainers.masks import area_term, perturbation, time_term
from tempograd.typing import MaskPerturbation
from tests.helpers.models import Recurrent, linear, series, smooth

DOUBLE = torch.float64
EVERY = torch.rand(2, 9, 3, generator=torch.Generator().manual_seed(4), dtype=DOUBLE) < 0.7


def block(x, observed=None, baseline=0.0):
    observed = torch.ones_like(x, dtype=torch.bool) if observed is None else observed
    start = torch.where(observed, torch.full_like(x, baseline), x)
    rows, lengths = torch.arange(len(x)), torch.full((len(x),), x.shape[1])
    return Block(slice(0, len(x)), x, start, observed, rows, lengths, rows)


def masks(x, areas=2):
    return torch.rand(len(x), areas, *x.shape[1:], generator=torch.Generator().manual_seed(1), dtype=x.dtype)


def literal_perturbation(kind, x, mask, observed, width):
    """One value at a time."""
    found = x[:, None].repeat(1, mask.shape[1], 1, 1)
    for n, a, t, d in torch.cartesian_prod(*map(torch.arange, mask.shape)).tolist():
        if not observed[n, t, d]:
            continue
        m, seen = mask[n, a, t, d], [u for u in range(x.shape[1]) if observed[n, u, d]]
        if kind == "blur":
            spread = width * (1 + 1e-6 - m)
            near = [u for u in seen if abs(u - t) <= math.ceil(4 * width)]
            weight = torch.stack([torch.exp(-((u - t) ** 2) / (2 * spread**2)) for u in near])
            found[n, a, t, d] = (weight * x[n, near, d]).sum() / weight.sum()
            continue
        near = [u for u in seen if kind == "mean" or abs(u - t) <= width]
        towards = 5.0 if kind == "reference" else x[n, near, d].mean()
        found[n, a, t, d] = m * x[n, t, d] + (1 - m) * towards
    return found


@pytest.mark.parametrize("kind", get_args(MaskPerturbation))
@pytest.mark.parametrize("observed", [torch.ones_like(EVERY), EVERY])
def test_perturbations_are_what_they_are_called(kind, observed):
    x, width = series(2, 9, 3, dtype=DOUBLE), 1.0 if kind == "blur" else 2.0
    perturb, mask = perturbation(kind, block(x, observed, 5.0), width, DOUBLE), masks(x)
    torch.testing.assert_close(perturb(mask), literal_perturbation(kind, x, mask, observed, width))
    assert torch.equal(perturb(torch.ones_like(mask)), x[:, None].expand_as(mask))


@pytest.mark.parametrize("kind", ["blur", "mean", "window"])
def test_a_constant_series_stays_as_it_is_under_any_mask(kind):
    x = torch.full((2, 9, 3), 1.7, dtype=DOUBLE)
    mask = masks(x)
    torch.testing.assert_close(perturbation(kind, block(x), 2.0, DOUBLE)(mask), x[:, None].expand_as(mask))


def test_the_blur_needs_no_more_than_four_widths():
    x = series(1, 60, 1, dtype=DOUBLE)
    mask = masks(x)
    clock = torch.arange(60)
    spread = 1.5 * (1 - mask[0, :, :, 0])
    weight = torch.exp(-((clock - clock[:, None]) ** 2) / (2 * spread[..., None] ** 2))
    whole = (weight @ x[0, :, 0]) / weight.sum(-1)
    found = perturbation("blur", block(x), 1.5, DOUBLE)(mask)[0, :, :, 0]
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-3)


def test_the_area_term_compares_the_sorted_mask_with_a_step():
    observed, areas = EVERY, (0.1, 0.35, 0.9, 1.0)
    mask = masks(EVERY.double(), 4)
    expected = 0.0
    for n in range(2):
        for a, area in enumerate(areas):
            inside = mask[n, a][observed[n]].sort().values
            step = torch.ones(len(inside))
            step[: int((1 - area) * len(inside) + 1e-9)] = 0
            expected += (inside - step).square().mean()
    torch.testing.assert_close(area_term(observed, areas)(mask), expected)


def test_equal_cells_share_their_part_of_the_area():
    mask = torch.full((1, 1, 10, 1), 0.5, requires_grad=True)
    area_term(torch.ones(1, 10, 1, dtype=torch.bool), (0.3,))(mask).backward()
    torch.testing.assert_close(mask.grad, torch.full_like(mask, 2 * (0.5 - 0.3) / 10))


def test_rounding_does_not_decide_which_cells_have_a_place():
    mask = torch.tensor([0.6, 0.6 + 1e-7, 0.6 - 1e-7, 0.4, 0.1]).view(1, 1, 5, 1).requires_grad_()
    area_term(torch.ones(1, 5, 1, dtype=torch.bool), (0.4,))(mask).backward()
    expected = torch.tensor([0.6 - 2 / 3, 0.6 - 2 / 3, 0.6 - 2 / 3, 0.4, 0.1]) * 2 / 5
    torch.testing.assert_close(mask.grad.flatten(), expected, rtol=1e-4, atol=0)


def test_the_time_term_counts_changes_between_observed_neighbours():
    mask, total = masks(EVERY.double()), 0.0
    for n in range(2):
        pairs = [(t, d) for t in range(8) for d in range(3) if EVERY[n, t, d] and EVERY[n, t + 1, d]]
        total += sum((mask[n, :, t + 1, d] - mask[n, :, t, d]).abs().sum() for t, d in pairs) / len(pairs)
    torch.testing.assert_close(time_term(EVERY)(mask), total)


@pytest.mark.parametrize("area", [0.2, 0.7])
def test_a_model_that_sees_nothing_leaves_the_size_alone(area):
    blind = lambda z: z.sum((1, 2))[:, None] * 0  # noqa: E731
    found = Dynamask((area,), epochs=300)(blind, series(3, 10, 2), output="raw").values
    torch.testing.assert_close(found.mean((1, 2)), torch.full((3,), area), rtol=0, atol=0.01)


@pytest.mark.parametrize("deletion", [False, True])
@pytest.mark.parametrize("kind", ["mean", pytest.param("reference", marks=pytest.mark.slow)])
def test_finds_the_cells_that_a_sum_of_squares_is_made_of(kind, deletion):
    x = series(4, 10, 4, dtype=DOUBLE).abs() + 1
    salient = torch.zeros(4, 10, 4, dtype=torch.bool)
    salient[:, 2:7, 1:3] = True
    x[:, ::2] += 4  # far from the mean, in either direction

    def model(z):
        return (z.square() * salient[:1])[..., 1:3].flatten(1)

    explainer = Dynamask((0.25,), kind, epochs=200, lr=0.05, deletion=deletion, growth=1000.0)
    found = explainer(model, x, output="raw").values
    assert roc_auc_score(salient.flatten(), found.flatten()) > 0.999
    assert found[salient].mean() > 0.95
    assert found[~salient].mean() < 0.05


def literal_fit(model, x, area, explainer, steps):
    """One series and one area, from the definition."""
    mask = torch.full_like(x, 0.5, requires_grad=True)
    optimiser = torch.optim.Adam([mask], lr=explainer.lr)
    clean = model(x[None]).softmax(-1).detach()
    zeros = int((1 - area) * x.numel() + 1e-9)
    for epoch in range(steps):
        z = mask * x + (1 - mask) * x.mean(0)
        wrong = -(clean * model(z[None]).log_softmax(-1)).sum()
        order = mask.detach().flatten().sort()
        step = torch.ones_like(order.values)
        step[:zeros] = 0
        equal = (order.values - order.values[zeros]).abs() <= 1e-4  # they share their part
        step[equal] = step[equal].mean()
        wanted = torch.empty_like(step).scatter_(0, order.indices, step).view_as(x)
        size = (mask - wanted).square().mean()
        rough = (mask[1:] - mask[:-1]).abs().mean()
        growing = explainer.size_weight * explainer.growth ** (epoch / explainer.epochs)
        optimiser.zero_grad()
        (wrong + growing * size + explainer.time_weight * rough).backward()
        optimiser.step()
        mask.data.clamp_(0, 1)
    z = mask * x + (1 - mask) * x.mean(0)
    return mask.detach(), kl_div(model(z[None]).log_softmax(-1), clean, reduction="sum").detach()


@pytest.mark.parametrize("weight", [0.1, 0.0])
def test_every_series_and_area_is_a_problem_of_its_own(weight):
    """Seven series and three areas in blocks of uneven size, against one fit at a time."""
    model, x, areas = smooth(5, 3), series(7, 5, 3, dtype=DOUBLE), (0.2, 0.45, 0.8)
    options = {"size_weight": weight, "time_weight": 0.3, "growth": 50.0, "tolerance": None}
    explainer = Dynamask(areas, epochs=10, lr=0.06, **options)
    fits = [[literal_fit(model, x[n], area, explainer, 10) for area in areas] for n in range(7)]
    expected = [min(each, key=lambda fit: fit[1])[0].float() for each in fits]
    for batch_size in (2, 9, 100):
        found = explainer(model, x, batch_size=batch_size).values
        torch.testing.assert_close(found, torch.stack(expected), rtol=1e-4, atol=1e-6)


def test_areas_that_no_loss_knows_are_learnt_once():
    passed, answer, x = [], linear(6, 2), series(3, 6, 2)

    def model(z):
        passed.append(len(z))
        return answer(z)

    Dynamask((0.2, 0.4, 0.6), epochs=4, size_weight=0.0)(model, x)
    once, _ = sum(passed), passed.clear()
    Dynamask((0.6,), epochs=4, size_weight=0.0)(model, x)
    assert sum(passed) == once
    passed.clear()
    Dynamask((0.2, 0.4, 0.6), epochs=4)(model, x)
    assert sum(passed) == once + 2 * 3 * (4 + 1)  # each epoch, and the error of the mask that it ends with


def test_the_smallest_area_that_is_good_enough():
    errors = torch.tensor([[0.3, 0.09, 0.05], [0.05, 0.01, 0.02], [0.9, 0.8, 0.7], [0.4, 0.4, 0.5]])
    areas = (0.1, 0.2, 0.3)
    assert Dynamask(areas, tolerance=None)._choose(errors).tolist() == [2, 1, 2, 0]
    assert Dynamask(areas, tolerance=0.1)._choose(errors).tolist() == [1, 0, 2, 0]
    assert Dynamask(areas, deletion=True, tolerance=None)._choose(errors).tolist() == [0, 0, 0, 2]
    assert Dynamask(areas, deletion=True, tolerance=0.04)._choose(errors).tolist() == [0, 0, 0, 0]


def test_a_generous_tolerance_takes_the_smallest_area():
    model, x = smooth(6, 2), series(3, 6, 2, dtype=DOUBLE)
    both = Dynamask((0.2, 0.6), epochs=20, lr=0.1, tolerance=1e9)(model, x).values
    torch.testing.assert_close(both, Dynamask((0.2,), epochs=20, lr=0.1)(model, x).values)


def test_distances_are_textbook_divergences():
    clean, answer = series(4, 5, 3, dtype=DOUBLE), series(4, 5, 3, seed=1, dtype=DOUBLE)

    def found(clean, answer, output, steps=None):
        return Dynamask()._distance(clean, output, steps)(answer[:, None])[:, 0]

    each = kl_div(answer.log_softmax(-1), clean.softmax(-1), reduction="none").sum(-1)
    torch.testing.assert_close(found(clean, answer, "probability"), each.mean(1))
    chosen = torch.tensor([[1, 0, 0, 1, 1], [0, 0, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]]).bool()
    means = [row[keep].mean() if keep.any() else row.sum() * 0 for row, keep in zip(each, chosen, strict=True)]
    torch.testing.assert_close(found(clean, answer, "probability", chosen), torch.stack(means))
    torch.testing.assert_close(found(clean, answer, "raw"), (clean - answer).square().mean((1, 2)))
    p, q = clean[:, 0, :1].sigmoid(), answer[:, 0, :1].sigmoid()
    bernoulli = p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
    torch.testing.assert_close(found(clean[:, 0, :1], answer[:, 0, :1], "probability"), bernoulli[:, 0])


def test_certain_predictions_have_a_gradient():
    """The probability of the lost class is 0 in single precision, and its logarithm must still have a slope."""
    clean, answer = torch.tensor([[800.0, 0.0]]), torch.tensor([[[0.0, 800.0]]], requires_grad=True)
    wrong = Dynamask()._distance(clean, "probability", None)(answer)
    wrong.sum().backward()
    assert wrong.tolist() == [[800.0]]
    assert answer.grad.tolist() == [[[-1.0, 1.0]]]


def test_mistakes_get_one_sentence():
    x, quick = series(3, 6, 3), Dynamask((0.3,), epochs=2)
    with pytest.raises(InputError, match="explains steps together"):
        quick(Recurrent(per_step=True), x, steps="own")
    with pytest.raises(ModelError, match="in a way autograd can see"):
        quick(lambda z: z.detach().flatten(1)[:, :2], x)
    with pytest.raises(ModelError, match="gradient is NaN"):
        quick(lambda z: (z - z).sqrt().flatten(1)[:, :2], x)
    with pytest.warns(TempogradWarning, match="whole output"):
        quick(linear(6, 3), x, target=1)
    for wrong, message in (
        ({"areas": (0.3, 0.2)}, "increasing"),
        ({"areas": ()}, "increasing"),
        ({"areas": 0.3}, "areas must be increasing shares"),
        ({"tolerance": 0.0}, "tolerance must be a finite number above 0"),
        ({"areas": (0.5, 1.5)}, "at most 1"),
        ({"perturbation": "smear"}, "'blur', 'mean', 'window' or 'reference'"),
        ({"lr": 0}, "lr must be a finite number above 0"),
        ({"size_weight": -1}, "size_weight must be finite and not negative"),
    ):
        with pytest.raises(SettingError, match=message):
            Dynamask(**wrong)
