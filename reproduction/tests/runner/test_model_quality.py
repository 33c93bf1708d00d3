"""How good a model is: against scikit-learn, a slow loop and known answers."""

import math

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

from tempograd.data import Series
from tempograd_paper.runner.execute import auroc, model_quality


class Fixed(nn.Module):
    """Returns logits that are part of the series: (batch, 1, classes) → (batch, classes)."""

    def forward(self, x):
        return x[:, 0]


def draw(classes, seed=0, ties=False):
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (200,), generator=generator)
    logits = torch.randn(200, classes, generator=generator) + nn.functional.one_hot(y, classes)
    return (logits.round() if ties else logits), y


@pytest.mark.parametrize("ties", [False, True])
def test_two_classes_agree_with_scikit_learn(ties):
    logits, y = draw(2, ties=ties)
    scores = logits.softmax(-1).double()
    assert auroc(scores, y)[0] == pytest.approx(roc_auc_score(y, scores[:, 1]), abs=1e-12)


def test_several_classes_are_averaged_one_against_the_rest():
    logits, y = draw(4)
    scores = logits.softmax(-1).double()
    expected = roc_auc_score(y, scores, multi_class="ovr", average="macro")
    assert auroc(scores, y)[0] == pytest.approx(expected, abs=1e-12)


def test_error_follows_hanley_and_mcneil():
    # their radiologist's example: area 0.893 from 51 abnormal and 58 normal cases has standard error 0.0326
    area, m, n = 0.893, 51, 58
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    expected = math.sqrt((area * (1 - area) + (m - 1) * (q1 - area**2) + (n - 1) * (q2 - area**2)) / (m * n))
    assert expected == pytest.approx(0.0326, abs=6e-4)
    generator = torch.Generator().manual_seed(1)
    y = torch.tensor([1] * m + [0] * n)
    score = torch.randn(m + n, generator=generator).double() + 1.76 * y
    found, error = auroc(torch.stack([-score, score], 1), y)
    q1, q2 = found / (2 - found), 2 * found**2 / (1 + found)
    by_hand = (found * (1 - found) + (m - 1) * (q1 - found**2) + (n - 1) * (q2 - found**2)) / (m * n)
    assert error == pytest.approx(math.sqrt(by_hand), abs=1e-12)


def test_the_spread_over_data_sets_is_the_error():
    found = [auroc(draw(2, seed)[0].softmax(-1), draw(2, seed)[1]) for seed in range(200)]
    spread = torch.tensor([area for area, _ in found]).std()
    assert float(spread) == pytest.approx(sum(error for _, error in found) / 200, rel=0.15)


def test_a_class_without_series_is_left_out():
    logits, y = draw(3)
    y[y == 2] = 0
    scores = logits.softmax(-1).double()
    expected = (roc_auc_score(y == 0, scores[:, 0]) + roc_auc_score(y == 1, scores[:, 1])) / 2
    assert auroc(scores, y)[0] == pytest.approx(expected, abs=1e-12)
    assert all(math.isnan(number) for number in auroc(scores[:, :2], torch.zeros_like(y)))


def test_a_model_that_ignores_the_label_is_at_chance_though_its_accuracy_is_high():
    generator = torch.Generator().manual_seed(0)
    y = (torch.rand(400, generator=generator) < 0.1).long()
    noise = torch.randn(400, 1, 2, generator=generator) + torch.tensor([5.0, 0.0])
    found = model_quality(Fixed(), Series(noise, y))
    assert found["accuracy"] > 0.85
    assert found["majority"] == int((y == 0).sum()) / 400
    assert found["at_chance"]
    informed = noise + nn.functional.one_hot(y, 2)[:, None]
    assert not model_quality(Fixed(), Series(informed, y))["at_chance"]


def test_one_class_only_is_chance_level():
    assert model_quality(Fixed(), Series(torch.randn(5, 1, 2), torch.zeros(5, dtype=torch.long)))["at_chance"]


@pytest.mark.parametrize("label", [0, 1])
def test_no_pair_to_rank_gives_no_area(label):
    scores = torch.rand(5, 2, generator=torch.Generator().manual_seed(0))
    assert all(math.isnan(number) for number in auroc(scores, torch.full((5,), label)))


def test_the_error_of_several_classes_is_the_mean_of_theirs():
    logits, y = draw(3)
    scores = logits.softmax(-1).double()
    alone = [auroc(torch.stack([-scores[:, c], scores[:, c]], 1), (y == c).long())[1] for c in range(3)]
    assert auroc(scores, y)[1] == pytest.approx(sum(alone) / 3, abs=1e-12)
    assert max(alone) - min(alone) > 1e-4


def test_classes_are_ranked_by_probability_not_by_their_own_logit():
    y = torch.tensor([0, 1] * 20)
    logits = torch.stack([-y.float(), torch.zeros(40)], -1)[:, None]  # the logit of class 1 says nothing
    assert model_quality(Fixed(), Series(logits, y))["auroc"] == 1.0


def test_very_sure_predictions_are_no_ties():
    """Odds of e^18 and e^30 are both certainty in single precision."""
    score = torch.tensor([30.0, 24.0, 18.0, 12.0])
    y = torch.tensor([1, 0, 0, 1])  # two of four pairs are ranked rightly
    found = model_quality(Fixed(), Series(torch.stack([torch.zeros(4), score], -1)[:, None], y))
    assert found["auroc"] == 0.5


@pytest.mark.parametrize(("copies", "at_chance"), [(1, True), (2, False)])
def test_better_than_chance_means_by_1_96_errors(copies, at_chance):
    """The same ranking: its area is 1.5 errors above one half for 40 series, 2.1 for 80."""
    score = torch.arange(40).repeat(copies) / 10
    y = torch.tensor([0, 1, 0, 0, 0] + [0, 0, 1, 0, 1] * 3 + [1, 1, 0, 1, 0] * 4).repeat(copies)
    pairs = [(float(a > b) + float(a == b) / 2) for a in score[y == 1] for b in score[y == 0]]
    area, m, n = sum(pairs) / len(pairs), int((y == 1).sum()), int((y == 0).sum())
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    error = math.sqrt((area * (1 - area) + (m - 1) * (q1 - area**2) + (n - 1) * (q2 - area**2)) / (m * n))
    found = model_quality(Fixed(), Series(torch.stack([-score, score], -1)[:, None], y))
    assert (found["auroc"], found["auroc_error"]) == pytest.approx((area, error), abs=1e-9)
    assert 1 < (area - 0.5) / error < 3
    assert found["at_chance"] == at_chance == ((area - 0.5) / error < 1.96)
