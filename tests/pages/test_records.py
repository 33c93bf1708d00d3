"""The numbers behind the pictures are the library's own, cell by cell."""

import numpy as np
import pytest
import torch
from toy_models import Flat, Running, masked_series, random_series, three_explanations

from tempograd.data import Split
from tempograd.engine import pick
from tempograd.errors import InputError
from tempograd.explainers import explain
from tempograd.pages import predictions, selection
from tempograd.pages.records import StepOutputs, record


@pytest.fixture(scope="module")
def flat():
    return Flat().eval()


@pytest.fixture(scope="module")
def masked_split():
    return masked_series()


@pytest.fixture(scope="module")
def explanations(flat, masked_split):
    return three_explanations(flat, masked_split)


@pytest.fixture
def shown(explanations, masked_split):
    return record(selection.labelled(explanations), masked_split.x, 2, masked_split)


def test_channels_hold_values_gaps_and_truth(shown, masked_split):
    assert shown.id == 42
    assert [channel.name for channel in shown.channels] == ["pulse", "<img src=x onerror=alert(1)>", "O₂ & more"]
    for d, channel in enumerate(shown.channels):
        np.testing.assert_array_equal(channel.x, masked_split.x[2, :, d].numpy())
        np.testing.assert_array_equal(channel.observed, masked_split.mask[2, :, d].numpy())
        np.testing.assert_array_equal(channel.truth, masked_split.truth[2, :, d].numpy())
        assert channel.baseline == 0.0


def test_a_baseline_that_changes_with_time_has_no_single_level(flat, masked_split):
    ramp = torch.linspace(0, 1, 20)[:, None].expand(20, 3)
    moved = explain(flat, masked_split.x, "integrated_gradients", baseline=ramp)
    assert record({"a": moved}, masked_split.x, 0).channels[0].baseline is None


def test_maps_hold_scores_and_intervals(shown, explanations):
    low, high = (side[2].numpy() for side in explanations[0].interval(0.95))
    np.testing.assert_array_equal(shown.maps[0].values, explanations[0].values[2].numpy())
    np.testing.assert_array_equal(shown.maps[0].low, low)
    np.testing.assert_array_equal(shown.maps[0].high, high)
    np.testing.assert_array_equal(shown.maps[0].uncertain, (low <= 0) & (high >= 0))
    assert not shown.maps[1].uncertain.any()
    assert [drawn.signed for drawn in shown.maps] == [True, True, False]


def test_full_colour_ignores_what_was_not_observed(shown, explanations, masked_split):
    size = explanations[1].values[2][masked_split.mask[2]].abs().sort().values
    rank = -(-98 * (len(size) - 1) // 100)  # the first size with at least 98 % of the others below it
    assert shown.maps[1].limit == float(size[rank])


def test_strongest_cells_are_those_of_the_explanation(shown, explanations):
    top = explanations[0][2:3].top(6)
    assert [cell.value for cell in shown.strongest] == top.values[0].tolist()
    assert [int(cell.time) for cell in shown.strongest] == top.time[0].tolist()


def test_nothing_observed_leaves_no_strongest_cells(flat):
    x = torch.zeros(1, 20, 3)
    none = explain(flat, x, "integrated_gradients", mask=torch.zeros(1, 20, 3))
    found = record({"a": none}, x, 0)
    assert found.strongest == ()
    assert found.maps[0].limit == 0.0


def test_outputs_are_the_probabilities_of_the_model(flat, explanations, masked_split):
    found = predictions.outputs(flat, explanations[0], masked_split.x, 3, masked_split)
    expected = flat(masked_split.x[3:4]).softmax(-1)[0].detach().numpy()
    np.testing.assert_allclose(found.values, expected, rtol=1e-6)
    assert found.label == 0
    assert found.target == int(expected.argmax())


def test_outputs_per_step_follow_class_one_and_the_labels():
    x = random_series(2)
    labels = (x[..., 1] > 0).long()
    split = Split(x, labels)
    explanation = explain(Running(), x, "integrated_gradients", steps=[4, 5])
    found = predictions.outputs(Running(), explanation, x, 1, split)
    assert isinstance(found, StepOutputs)
    np.testing.assert_allclose(found.values, Running()(x[1:2]).softmax(-1)[0, :, 1].numpy(), rtol=1e-6)
    np.testing.assert_array_equal(found.labels, labels[1].bool().numpy())
    assert np.flatnonzero(found.explained).tolist() == [4, 5]


def test_removal_curve_takes_the_strongest_observed_cells_first(flat, explanations, masked_split):
    curve = predictions.curves(flat, {"ig": explanations[1]}, masked_split.x, 2)[0]
    assert curve.shares[:3] == (0.0, 0.05, 0.1)
    assert curve.shares[-1] == 1.0
    observed = masked_split.mask[2]
    size = explanations[1].values[2].abs().masked_fill(~observed, -1).flatten()
    for place in (0, 2, 10, 20):
        gone = size.argsort(descending=True)[: round(curve.shares[place] * int(observed.sum()))]
        series = masked_split.x[2].clone().flatten()
        series[gone] = 0
        answer = flat(series.view(1, 20, 3)).softmax(-1).detach()
        assert curve.scores[place] == pytest.approx(float(pick(answer, explanations[1].target[2:3])), rel=1e-5)


def test_removal_curve_per_step_averages_the_explained_steps():
    x = random_series(2)
    explanation = explain(Running(), x, "integrated_gradients", steps=[4, 5])
    curve = predictions.curves(Running(), {"ig": explanation}, x, 0)[0]
    answer = Running()(x[:1]).softmax(-1)[0, 4:6].gather(-1, explanation.target[0, 4:6, None])
    assert curve.scores[0] == pytest.approx(float(answer.mean()), rel=1e-5)
    assert curve.scores[-1] == pytest.approx(0.5)


def test_split_is_found_by_id_whatever_its_order(explanations, masked_split):
    turned = masked_split.take([4, 2, 0, 1, 3])
    assert torch.equal(selection.aligned(explanations[0], turned).y, masked_split.y)


def test_explanations_without_ids_belong_to_the_first_series(flat, masked_split):
    plain = explain(flat, masked_split.x[:3], "random")
    assert torch.equal(selection.aligned(plain, masked_split).y, masked_split.y[:3])


def test_a_split_of_other_series_is_refused(explanations, masked_split):
    other = Split(masked_split.x + 1, masked_split.y, ids=masked_split.ids)
    with pytest.raises(InputError, match="not in split"):
        selection.aligned(explanations[0], other)


def test_explanations_of_different_series_are_refused(explanations):
    with pytest.raises(InputError, match=r"same series.*'timing 2'"):
        selection.labelled([explanations[0], explanations[0][1:]])
    with pytest.raises(InputError, match=r"ids 44 … 40 instead of .* ids 40 … 44"):
        selection.labelled([explanations[0], explanations[1][[4, 3, 2, 1, 0]]])


def test_chosen_series_spread_over_classes_and_sizes(flat):
    x = random_series(60)
    explanation = explain(flat, x, "integrated_gradients", target=torch.tensor([0] * 40 + [1] * 18 + [2] * 2))
    picked = selection.chosen(explanation, None)
    assert [sum(low <= p < high for p in picked) for low, high in ((0, 40), (40, 58), (58, 60))] == [5, 5, 2]
    size = explanation.values.abs().sum((1, 2))
    assert {int(size[:40].argmin()), int(size[:40].argmax())} <= set(picked)


@pytest.mark.parametrize("series", [[5], [0, 0], []])
def test_series_that_do_not_exist_are_refused(explanations, series):
    with pytest.raises(InputError, match="distinct positions in 0 … 4"):
        selection.chosen(explanations[0], series)
