"""Metrics against the truth: scikit-learn series by series and for all of them, and edge cases."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

from tempograd.core.errors import InputError
from tempograd.metrics import METRICS, evaluate
from tempograd.metrics import localisation as localisation_file
from tests.helpers.literal_metrics import by_hand, randn

AREAS = ["aup", "aur", "auroc", "auprc"]
SERIES, TIME, DEPTH = 8, 6, 3


def problem(ties=False, masked=False, unit=1.0):
    values = randn(SERIES, TIME, DEPTH, seed=1) * unit
    if ties:
        values = (values / unit * 2).round() * unit
    truth = randn(SERIES, TIME, DEPTH, seed=2) + values / unit > 0.5
    mask = randn(SERIES, TIME, DEPTH, seed=3) > -0.5 if masked else None
    return by_hand(values, torch.zeros_like(values), mask=mask), truth


def cells(explanation, truth, i, rank):
    """Scores and truth of the observed cells of one series."""
    seen = np.ones((TIME, DEPTH), bool) if explanation.mask is None else explanation.mask[i].numpy()
    score = explanation.values[i].numpy()
    return (abs(score) if rank == "absolute" else score)[seen], truth[i].numpy()[seen]


def area(height, position):
    return sum(
        (b - a) * (p + q) / 2 for a, b, p, q in zip(position, position[1:], height, height[1:], strict=False)
    )


def literal(score, truth):
    """All metrics of one vector of scaled scores, in the words of protocol 3.6."""
    precision, recall, threshold = precision_recall_curve(truth, score)
    salient = [float(m) for m, true in zip(score, truth, strict=True) if true]
    return {
        "aup": area(precision[:-1].tolist(), threshold.tolist()),
        "aur": area(recall[:-1].tolist(), threshold.tolist()),
        "auroc": roc_auc_score(truth, score),
        "auprc": average_precision_score(truth, score),
        "information": -sum(math.log(1 - m) for m in salient),
        "entropy": -sum((m * math.log(m) if m else 0) + (1 - m) * math.log(1 - m) for m in salient),
    }


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
@pytest.mark.parametrize("rank", ["absolute", "signed"])
@pytest.mark.parametrize("unit", [1.0, 1e-7])
def test_scores_per_series_equal_scikit_learn(masked, ties, rank, unit):
    explanation, truth = problem(ties, masked, unit)
    names = [*AREAS, "information", "entropy"]
    ours = evaluate(None, explanation, metrics=[METRICS[name](rank=rank) for name in names], truth=truth)
    for i in range(SERIES):
        score, salient = cells(explanation, truth, i, rank)
        scaled = (score - score.min()) / (score.max() - score.min()) / (1 + 1e-5)
        expected = literal(scaled, salient)
        for name in names:
            assert ours[name][i].item() == pytest.approx(expected[name], rel=1e-5), name


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
@pytest.mark.parametrize("unit", [1.0, 1e-4])
def test_pooled_scores_equal_scikit_learn_on_all_cells(masked, ties, unit):
    explanation, truth = problem(ties, masked, unit)
    ours = evaluate(None, explanation, metrics=[METRICS[name](pooled=True) for name in AREAS], truth=truth)
    parts = [cells(explanation, truth, i, "absolute") for i in range(SERIES)]
    score = np.concatenate([(a - a.min()) / (a.max() - a.min() + 1e-5) for a, _ in parts])
    expected = literal(score, np.concatenate([salient for _, salient in parts]))
    for name in AREAS:
        assert ours[name].shape == ()
        assert ours[name].item() == pytest.approx(expected[name], rel=1e-5), name


def test_pooled_and_single_scores_can_be_asked_together():
    explanation, truth = problem()
    single, pooled, signed = (
        evaluate(None, explanation, metrics=METRICS["aup"](**settings), truth=truth)["aup"]
        for settings in ({}, {"pooled": True}, {"rank": "signed"})
    )
    chosen = [
        METRICS["aup"](),
        METRICS["aup"](pooled=True, name="pooled"),
        METRICS["aup"](rank="signed", name="signed"),
    ]
    together = evaluate(None, explanation, metrics=chosen, truth=truth)
    assert list(together) == ["aup", "pooled", "signed"]
    assert torch.equal(together["aup"], single)
    assert torch.equal(together["pooled"], pooled)
    assert torch.equal(together["signed"], signed)


@pytest.mark.parametrize("name", [*AREAS, "information", "entropy"])
def test_unobserved_cells_change_nothing(name):
    explanation, truth = problem(masked=True)
    mask = explanation.mask
    loud = by_hand(torch.where(mask, explanation.values, -1e30), explanation.x, mask=mask)
    chosen = [METRICS[name](rank="signed")]
    if name in AREAS:
        chosen.append(METRICS[name](pooled=True, name="pooled"))
    one = evaluate(None, explanation, metrics=chosen, truth=truth)
    other = evaluate(None, loud, metrics=chosen, truth=truth ^ ~mask)
    for key in one:
        assert torch.equal(one[key], other[key])


@pytest.mark.parametrize("name", AREAS)
def test_truth_beats_chance_beats_inversion(name):
    truth = randn(100, TIME, DEPTH, seed=4) > 0.5
    noise = randn(100, TIME, DEPTH, seed=5)
    x = torch.zeros_like(noise)
    best, middle, worst = (
        evaluate(None, by_hand(values, x), metrics=METRICS[name](rank="signed"), truth=truth)[name].mean()
        for values in (truth + noise / 10, noise, noise / 10 - truth.double())
    )
    assert best > middle > worst


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_the_unit_of_the_attribution_does_not_matter(factor):
    explanation, truth = problem()
    names = [*AREAS, "information", "entropy"]
    scaled = by_hand(explanation.values * factor, explanation.x)
    one, other = (evaluate(None, e, metrics=names, truth=truth) for e in (explanation, scaled))
    for name in names:
        torch.testing.assert_close(one[name], other[name], rtol=1e-6, atol=0)


def test_scores_that_are_not_defined_are_nan():
    values = randn(4, 2, 2)
    truth = torch.zeros(4, 2, 2)
    truth[1] = 1
    truth[2, 0, 0] = 1
    truth[3] = 1
    mask = torch.ones(4, 2, 2, dtype=torch.bool)
    mask[3] = False
    explanation = by_hand(values, torch.zeros_like(values), mask=mask)
    scores = evaluate(None, explanation, metrics=[*AREAS, "information", "entropy"], truth=truth)
    for name in AREAS:
        undefined = [True, name == "auroc", False, True]
        assert scores[name].isnan().tolist() == undefined, name
    assert scores["auprc"][1] == 1
    assert scores["information"][[0, 3]].tolist() == [0, 0]
    assert scores["entropy"][[0, 3]].tolist() == [0, 0]
    assert not scores["information"].isnan().any()


def test_pooling_nothing_gives_nan():
    values = randn(2, 3, 2)
    mask = torch.zeros(2, 3, 2, dtype=torch.bool)
    explanation = by_hand(values, torch.zeros_like(values), mask=mask)
    scores = evaluate(None, explanation, metrics=[METRICS[n](pooled=True) for n in AREAS], truth=~mask)
    assert all(scores[name].isnan() for name in AREAS)


def test_a_constant_map_knows_nothing():
    values = torch.full((2, 4, 2), 0.7)
    truth = torch.zeros(2, 4, 2, dtype=torch.bool)
    truth[:, 0] = True
    explanation = by_hand(values, torch.zeros_like(values))
    names = [*AREAS, "information", "entropy"]
    scores = evaluate(None, explanation, metrics=names, truth=truth)
    expected = {"aup": 0.0, "aur": 0.0, "auroc": 0.5, "auprc": 0.25, "information": 0.0, "entropy": 0.0}
    assert {name: scores[name].tolist() for name in names} == {name: [v, v] for name, v in expected.items()}
    pooled = evaluate(None, explanation, metrics=[METRICS[n](pooled=True) for n in AREAS], truth=truth)
    assert {name: score.item() for name, score in pooled.items()} == {n: expected[n] for n in AREAS}


def test_scores_do_not_depend_on_company_or_batches(monkeypatch):
    explanation, truth = problem(ties=True, masked=True)
    names = [*AREAS, "information", "entropy"]
    expected = evaluate(None, explanation, metrics=names, truth=truth)
    some = torch.tensor([5, 0, 3])
    few = evaluate(None, explanation[some], metrics=names, truth=truth[some])
    monkeypatch.setattr(localisation_file, "CELLS", 3 * TIME * DEPTH)
    pieces = evaluate(None, explanation, metrics=names, truth=truth.numpy())
    for name in names:
        assert torch.equal(few[name], expected[name][some])
        assert torch.equal(pieces[name], expected[name])


def test_the_series_are_not_needed():
    explanation, truth = problem()
    bare = by_hand(explanation.values, explanation.x)
    object.__setattr__(bare, "x", None)
    expected = evaluate(None, explanation, metrics="auprc", truth=truth)["auprc"]
    assert torch.equal(evaluate(None, bare, metrics="auprc", truth=truth)["auprc"], expected)


@pytest.mark.parametrize("name", [*AREAS, "information", "entropy"])
def test_a_missing_truth_is_asked_for(name):
    explanation, _ = problem()
    with pytest.raises(InputError):
        evaluate(None, explanation, metrics=name)


def test_a_wrong_truth_is_refused():
    explanation, truth = problem()
    with pytest.raises(InputError):
        evaluate(None, explanation, metrics="aup", truth=truth[..., 0])
    with pytest.raises(InputError):
        evaluate(None, explanation, metrics="aup", truth=truth * 2)
