"""The numbers behind the pictures are the library's own, cell by cell."""

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.core.errors import InputError
from tempograd.explainers import explain
from tempograd.metrics import evaluate
from tempograd.views import groups as channels
from tempograd.views import labels, prediction
from tempograd.views import series as views
from tests.helpers.explanations import masked_series, three_explanations
from tests.helpers.models import Flat, RunningMean, random_series


@pytest.fixture(scope="module")
def flat():
    return Flat().eval()


@pytest.fixture(scope="module")
def masked_split():
    return masked_series()


@pytest.fixture(scope="module")
def explanations(flat, masked_split):
    return three_explanations(flat, masked_split)


def test_full_colour_ignores_what_was_not_observed(explanations, masked_split):
    values, seen = explanations[1].values[2], masked_split.mask[2]
    size = values[seen].abs().sort().values
    rank = -(-98 * (len(size) - 1) // 100)  # the first size with at least 98 % of the others below it
    expected = max(float(size[rank]), float(size[-1]) / 4)
    assert views.color_limit(values.numpy(), seen.numpy()) == expected


def test_full_colour_is_at_least_a_quarter_of_the_largest_score():
    values = np.full(100, 0.01, dtype=np.float32)
    values[7] = -3.0
    assert views.color_limit(values, np.ones(100, dtype=bool)) == 0.75
    assert views.color_limit(values, np.zeros(100, dtype=bool)) == 0.0


def test_order_is_by_strength_and_leaves_missing_cells_for_the_end(explanations, masked_split):
    for explanation in explanations[:2]:
        order = views.order(explanation, masked_split.mask.numpy())
        for series in range(5):
            seen = masked_split.mask[series].flatten()
            size = explanation.values[series].abs().flatten().masked_fill(~seen, -1)
            expected = size.argsort(descending=True)[: int(seen.sum())].numpy()
            np.testing.assert_array_equal(order[series, : len(expected)], expected)


def test_order_of_an_unsigned_method_has_its_lowest_scores_last(explanations, masked_split):
    scores = explanations[2].values - 0.5
    lowered = type(explanations[2])(**{**vars(explanations[2]), "values": scores * masked_split.mask})
    order = views.order(lowered, masked_split.mask.numpy())
    first = scores[0].flatten()[masked_split.mask[0].flatten()]
    assert scores[0].flatten()[order[0, 0]] == first.max()


def test_outputs_after_removal_are_those_of_a_plain_loop(flat, explanations, masked_split):
    observed, counts = masked_split.mask.numpy(), np.array([0, 1, 5, 60])
    found = prediction.removal_outputs(flat, explanations[1], masked_split.x, observed, counts)
    order = views.order(explanations[1], observed)
    for series in range(5):
        for state, count in enumerate(counts):
            cells = masked_split.x[series].flatten().clone()
            cells[order[series, : min(count, int(observed[series].sum()))]] = 0  # the baseline
            answer = flat(cells.view(1, 20, 3)).softmax(-1).detach()[0]
            np.testing.assert_allclose(found.outputs[series, state], answer, rtol=1e-5)
            assert found.score[series, state] == pytest.approx(
                float(answer[explanations[1].target[series]]), rel=1e-5
            )
    assert found.clean_steps is None


def test_removed_cells_take_the_value_of_the_explanations_own_baseline(flat, masked_split):
    explanation = explain(flat, masked_split.x, "integrated_gradients", baseline=torch.full((20, 3), 0.7))
    every = np.ones((5, 20, 3), dtype=bool)
    found = prediction.removal_outputs(flat, explanation, masked_split.x, every, np.array([0, 60]))
    expected = flat(torch.full((1, 20, 3), 0.7)).softmax(-1).detach()[0]
    np.testing.assert_allclose(found.outputs[:, 1], expected.expand(5, 3), rtol=1e-5)


def test_the_last_removed_cells_sum_up_to_cpd(flat, explanations, masked_split):
    """With zeros as baseline, the changes along the slider are what CPD adds up."""
    counts = np.arange(6)
    found = prediction.removal_outputs(flat, explanations[1], masked_split.x, masked_split.mask.numpy(), counts)
    delta = np.abs(np.diff(found.outputs, axis=1)).sum((1, 2))
    scores = evaluate(flat, explanations[1], metrics=["cpd"], k=5)
    np.testing.assert_allclose(delta, scores["cpd"].numpy(), rtol=1e-4)


def test_outputs_per_step_are_averaged_over_the_explained_steps():
    x = random_series(2)
    explanation = explain(RunningMean(), x, "integrated_gradients", steps=[4, 5])
    found = prediction.removal_outputs(
        RunningMean(), explanation, x, np.ones((2, 20, 3), dtype=bool), np.array([0, 60])
    )
    answer = RunningMean()(x).softmax(-1)
    np.testing.assert_allclose(found.outputs[:, 0], answer[:, 4:6].mean(1), rtol=1e-5)
    picked = answer[:, 4:6].gather(-1, explanation.target[:, 4:6, None]).mean((1, 2))
    np.testing.assert_allclose(found.score[:, 0], picked, rtol=1e-5)
    np.testing.assert_allclose(found.outputs[:, 1], 0.5, rtol=1e-6)
    np.testing.assert_allclose(found.clean_steps.numpy(), answer.numpy(), rtol=1e-6)


def test_steps_follow_class_one_and_the_labels():
    x = random_series(2)
    labels = (x[..., 1] > 0).long()
    explanation = explain(RunningMean(), x, "integrated_gradients", steps=[4, 5])
    found = prediction.step_outputs(RunningMean()(x).softmax(-1), explanation, labels)
    np.testing.assert_array_equal(found["values"], RunningMean()(x).softmax(-1)[..., 1].numpy())
    np.testing.assert_array_equal(found["labels"], labels.bool().numpy())
    assert [np.flatnonzero(row).tolist() for row in found["explained"]] == [[4, 5], [4, 5]]
    assert found["name"] == "probability of class 1"


def test_steps_of_more_than_two_classes_follow_the_explained_one():
    x, answer = numbered(2), torch.randn(2, 20, 4, generator=torch.Generator().manual_seed(0))
    model = tg.Predictor(lambda z: answer[z[:, 0, 0].long()], task="per_step")
    explanation = explain(model, x, "random", target=2)
    labels = torch.arange(40).view(2, 20) % 4
    found = prediction.step_outputs(answer, explanation, labels)
    np.testing.assert_array_equal(found["values"], answer[..., 2].numpy())
    np.testing.assert_array_equal(found["labels"], (labels == 2).numpy())
    assert found["name"] == "probability of the explained class"


def test_steps_agree_where_the_explained_class_is_what_the_model_says():
    answer = torch.tensor([[[0.7, 0.3], [0.4, 0.6], [0.6, 0.4]]])
    explanation = explain(
        tg.Predictor(lambda z: z[:, :, :2] * 0 + answer.log(), task="per_step"),
        random_series(1, 3),
        "random",
        target=1,
    )
    found = prediction.step_outputs(answer, explanation, torch.tensor([[0, 1, 1]]))
    assert found["alarm"]
    assert found["agrees"].tolist() == [[False, True, False]]


def numbered(count):
    """Make series whose first value is their number, by which a model may answer."""
    x = random_series(count)
    x[:, 0, 0] = torch.arange(count)
    return x


def _verdict(outputs, labels, output="probability"):
    explanation = explain(
        lambda z: outputs.log()[z[:, 0, 0].long()], numbered(len(labels)), "random", output=output
    )
    return prediction.compare_labels(outputs.numpy(), explanation, labels, per_step=False)


def test_outcomes_of_two_classes_are_about_class_one():
    outputs = torch.tensor([[0.2, 0.8], [0.2, 0.8], [0.9, 0.1], [0.9, 0.1]])
    assert _verdict(outputs, torch.tensor([1, 0, 0, 1]))["outcome"].tolist() == ["TP", "FP", "TN", "FN"]
    assert (
        _verdict(outputs[:, :1] + 2, torch.tensor([1, 0, 0, 1]), "raw")["outcome"] is None
    )  # one output, no class


def test_outcomes_of_more_classes_are_right_or_wrong():
    outputs = torch.tensor([[0.2, 0.5, 0.3], [0.2, 0.5, 0.3], [0.9, 0.05, 0.05]])
    found = _verdict(outputs, torch.tensor([1, 2, 0]))
    assert found["outcome"].tolist() == ["right", "wrong", "right"]
    assert found["predicted"].tolist() == [1, 1, 0]


def test_real_labels_are_values_and_no_classes():
    found = _verdict(torch.tensor([[2.5], [1.0]]), torch.tensor([2.0, 1.5]), output="raw")
    assert found["trueValue"].tolist() == [2.0, 1.5]
    assert [found[name] for name in ("predicted", "label", "outcome")] == [None] * 3


def test_summary_holds_means_and_errors_for_every_class(explanations):
    values, target = explanations[0].values.double().numpy(), explanations[0].target.numpy()
    for kind in (None, *sorted(set(target.tolist()))):
        group, rows = (
            channels.channel_sums(explanations[0], None if kind is None else target == kind),
            values if kind is None else values[target == kind],
        )
        assert group.series == len(rows)
        np.testing.assert_allclose(group.mean[:, 0], rows.sum(1).mean(0), rtol=1e-5, atol=1e-8)
        np.testing.assert_allclose(group.size[:, 0], np.abs(rows).sum(1).mean(0), rtol=1e-5)
        if len(rows) > 1:
            error = rows.sum(1).std(0, ddof=1) / len(rows) ** 0.5
            np.testing.assert_allclose(group.error[:, 0], error, rtol=1e-5)
        else:
            assert np.isinf(group.error).all()


def test_explanations_of_different_series_are_refused(explanations):
    with pytest.raises(InputError, match=r"'timing 2' is of other series"):
        labels.as_mapping([explanations[0], explanations[0][1:]])
    with pytest.raises(InputError, match="is of other series"):
        labels.as_mapping([explanations[0], explanations[1][[4, 3, 2, 1, 0]]])


def test_chosen_series_spread_over_classes_and_sizes(flat):
    x = random_series(60)
    explanation = explain(flat, x, "integrated_gradients", target=torch.tensor([0] * 40 + [1] * 18 + [2] * 2))
    picked = views.chosen(explanation, None, 12)
    assert [sum(low <= p < high for p in picked) for low, high in ((0, 40), (40, 58), (58, 60))] == [4, 4, 2]
    size = explanation.values.abs().sum((1, 2))
    assert {int(size[:40].argmin()), int(size[:40].argmax())} <= set(picked)
    assert views.chosen(explanation, None, 60) == list(range(60))


def test_a_page_holds_as_many_series_as_its_size_allows(explanations):
    """300 series of 48 × 32 with two methods that have errors: 20 bytes a cell, and a third more as text."""
    large = torch.zeros(1, 48, 32)
    per_series = dict.fromkeys(("n_evals", "delta", "prediction", "gradient_check"))
    cells = dict.fromkeys(("values", "standard_error", "baseline", "x"), large)
    absent = ("mask", "n_draws", "ess", "target", "steps", "channels", "times", "names")
    none = dict.fromkeys(absent)
    made = type(explanations[0])(
        **{**vars(explanations[0]), **per_series, **none, **cells, "ids": torch.zeros(1, dtype=torch.int64)}
    )
    assert 300 <= views.most({"a": made, "b": made}) <= 350
    exact = type(made)(**{**vars(made), "standard_error": None})
    sums = 32 * 8 * 4  # of the channels over eight blocks of time
    assert views.most({"a": made}) == 10_500_000 // (48 * 32 * 12 + sums)  # 4 each: value, score, error
    assert views.most({"a": exact}) == 10_500_000 // (48 * 32 * 8 + sums)


@pytest.mark.parametrize("series", [[5], [0, 0], []])
def test_series_that_do_not_exist_are_refused(explanations, series):
    with pytest.raises(InputError, match=r"^series (must be positions in|must be distinct|chooses)"):
        views.chosen(explanations[0], series, 12)
