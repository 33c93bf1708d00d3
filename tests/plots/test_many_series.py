"""Pictures of many series: blocks, values against scores, two groups, methods. Their numbers, by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd import plots
from tempograd.core.errors import InputError
from tests.helpers.explanations import made, waves, with_gaps
from tests.helpers.pictures import texts


def test_blocks_hold_the_strongest_channels_and_their_totals():
    found = with_gaps(waves(series=5, channels=20))
    record = plots.blocks_record(found, [0, 1, 3], steps=10)
    blocks = found.blocks([0, 1, 3], steps=10)
    order = blocks.order[:16]
    assert record.channels == tuple(f"channel {d}" for d in order)
    assert record.left_out == 4
    np.testing.assert_array_equal(record.mean, blocks.mean[order])
    np.testing.assert_array_equal(record.low, blocks.low[order])
    sums = found.values[[0, 1, 3]].double().sum(1)[:, order]
    np.testing.assert_allclose(record.total, sums.mean(0), rtol=1e-5)
    half = 4.302653 * sums.std(0) / 3**0.5  # Student's t for 2 degrees of freedom
    np.testing.assert_allclose(record.total_high - record.total, half, rtol=1e-4)


def test_one_extreme_block_does_not_take_all_colour():
    values = np.ones((2, 100, 1)) * 0.1
    values[:, 7] = 0.3
    values[:, 50] = 9.0
    record = plots.blocks_record(made(values), steps=1)
    assert record.limit == pytest.approx(9 / 4)  # a quarter of the largest, and not the largest
    written = texts(plots.draw_blocks(record))
    assert any("and more" in text for text in written)


def test_the_title_counts_channels_that_are_not_shown():
    wide = waves(channels=30)
    assert any("24 of 30 channels" in text for text in texts(plots.heatmap(wide, 0)))
    assert any("16 of 30 channels" in text for text in texts(plots.blocks(wide)))
    assert any("20 of 30 channels" in text for text in texts(plots.channel_importance(wide)))
    assert any("24 of 30 channels" in text for text in texts(plots.compare(wide, 0)))
    assert any("6 of 30 channels" in text for text in texts(plots.dependence(wide)))
    assert not any(" of 3 channels" in text for text in texts(plots.heatmap(waves(), 0)))


def test_numbers_in_blocks_are_pale_where_the_sign_is_not_certain():
    values = np.array([[[1.0, 1.0]], [[1.1, -2.0]], [[0.9, 3.0]]])
    record = plots.blocks_record(made(values), steps=1)
    assert record.uncertain.tolist() == [[True], [False]]  # the channel with the larger size is the first


# Values against scores


def linear(slope, count=12, time=10, **parts):
    """Scores that are the value times a slope, in channel 0; channel 1 has none."""
    x = torch.randn(count, time, 2, generator=torch.Generator().manual_seed(0))
    values = torch.stack([slope * x[..., 0], 0.01 * torch.ones_like(x[..., 1])], -1)
    return made(values, x=x, **parts)


@pytest.mark.parametrize(("slope", "words"), [(2.0, "high values push up"), (-0.5, "high values push down")])
def test_a_known_slope_is_named(slope, words):
    record = plots.dependence_record(linear(slope))
    first = record.effects[0]
    assert first.words == words
    assert first.direction == np.sign(slope)
    np.testing.assert_allclose(first.scores, slope * first.values, rtol=1e-5)
    inside = (first.low <= slope * first.centre) & (slope * first.centre <= first.high)
    assert inside[1:-1].all()  # the groups at the ends are skew
    assert record.effects[1].words == "no clear direction"


def test_a_channel_that_pushes_ten_times_less_pushes_a_little():
    found = linear(1.0)
    values = torch.stack([found.x[..., 0], -0.05 * found.x[..., 1]], -1)
    written = texts(plots.dependence(replace(found, values=values)))
    assert "channel 0\nhigh values push up" in written
    assert "channel 1\nhigh values push down a little" in written


def test_groups_of_values_are_averaged_over_series():
    """Eight groups of equally many values; in each the mean of the series' own means, by a slow loop."""
    found = with_gaps(waves(series=6, channels=2))
    (effect,) = plots.dependence_record(found, channels=["channel 0"]).effects
    rows = [
        (float(found.x[n, t, 0]), float(found.values[n, t, 0]), n)
        for n in range(6)
        for t in range(30)
        if found.mask[n, t, 0]
    ]
    assert len(effect.values) == len(rows)
    ordered = sorted(value for value, _, _ in rows)
    groups = {}
    for value, score, n in rows:
        place = sum(other < value for other in ordered) * 8 // len(rows)
        groups.setdefault(place, {}).setdefault(n, []).append(score)
    expected = [np.mean([np.mean(scores) for scores in groups[g].values()]) for g in sorted(groups)]
    np.testing.assert_allclose(effect.mean, expected, rtol=1e-5)
    means = [[np.mean(scores) for scores in groups[g].values()] for g in sorted(groups)]
    error = np.array([np.std(each, ddof=1) / len(each) ** 0.5 for each in means])
    factor = [float(tg.core.stats.t_quantile(0.95, torch.tensor(len(each) - 1.0))) for each in means]
    np.testing.assert_allclose(effect.high - effect.mean, factor * error, rtol=1e-4)


def test_raw_values_are_shown_and_methods_without_a_sign_say_so():
    found = linear(1.0)
    known = found.with_names(raw=10 * found.x + 37, units=["°C", ""])
    record = plots.dependence_record(known, channels=[0])
    np.testing.assert_allclose(record.effects[0].values.min(), float(10 * found.x[..., 0].min() + 37), rtol=1e-5)
    assert "channel 0 [°C]\nhigh values push up" in texts(plots.draw_dependence(record))
    unsigned = replace(found, values=found.x.abs(), signed=False)
    assert plots.dependence_record(unsigned, channels=[0]).effects[0].words == "no clear direction"
    assert any("Which values matter?" in text for text in texts(plots.dependence(unsigned)))


def test_a_channel_without_values_is_drawn_empty():
    found = with_gaps(waves(series=3, channels=3))
    effect = plots.dependence_record(found, channels=[2]).effects[0]
    assert effect.words == "no value observed"
    assert any("no value observed" in text for text in texts(plots.dependence(found, channels=[2, 0])))


# Two groups, and methods


def test_the_picture_of_two_groups_has_the_numbers_of_the_comparison():
    groups = tg.compare_groups(waves(series=8, channels=20), range(3), range(3, 8), names=("ill", "well"))
    record = plots.group_difference_record(groups, channels=5)
    order = groups.order[:5]
    np.testing.assert_array_equal(record.difference, groups.difference[order])
    np.testing.assert_array_equal(record.certain, groups.certain[order])
    assert (record.left_out, record.counts) == (15, (3, 5))
    written = texts(plots.draw_group_difference(record))
    assert {"ill (3 series)", "well (5 series)", "ill minus well"} <= set(written)
    with pytest.raises(InputError, match=r"What tempograd.compare_groups returns was expected"):
        plots.group_difference(waves())


SCORES = {
    "random": {"cpd": torch.tensor([0.1, 0.0, 0.2]), "cpp": torch.tensor([0.3, 0.3, 0.4])},
    "timing": {"cpd": torch.tensor([1.0, 0.8, 1.2]), "cpp": torch.tensor([0.1, 0.1, 0.1])},
    "lime": {"cpd": torch.tensor([1.1, 0.7, 1.3]), "cpp": torch.tensor([0.1, 0.2, 0.0])},
}


def test_methods_are_compared_with_timing_on_the_same_series():
    record = plots.methods_record(SCORES)
    assert record.methods == ("lime", "timing", "random")  # by the mean of the first metric
    assert record.reference == "timing"
    assert record.control.tolist() == [False, False, True]
    for row, name in enumerate(record.methods):
        for column, metric in enumerate(("cpd", "cpp")):
            gap = tg.compare(SCORES[name][metric], SCORES["timing"][metric])
            found = (record.difference[row, column], record.low[row, column], record.high[row, column])
            assert found == pytest.approx((0, 0, 0) if name == "timing" else (gap.mean, gap.low, gap.high))
    written = texts(plots.draw_methods(record))
    assert {"random (control)", "CPD, right is better", "CPP, left is better"} <= set(written)


def test_another_reference_and_scores_that_are_none():
    assert plots.methods_record(SCORES, reference="lime").difference[0].tolist() == [0, 0]
    with pytest.raises(InputError, match=r"There is no method 'ig' among the scores: random, timing, lime"):
        plots.methods_record(SCORES, reference="ig")
    with pytest.raises(InputError, match=r"scores must be a mapping of methods"):
        plots.methods_record(SCORES["timing"])
