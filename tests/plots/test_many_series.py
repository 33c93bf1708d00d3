"""Pictures of many series: blocks, values against scores, two groups. Their numbers, by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tempograd import plots
from tempograd.views.groups import value_effects
from tempograd.views.series import color_limit
from tests.helpers.explanations import made, waves, with_gaps
from tests.helpers.pictures import texts


def test_blocks_hold_the_strongest_channels():
    found = with_gaps(waves(series=5, channels=20))
    left = plots.blocks(found, [0, 1, 3], steps=10).axes[0]
    blocks = found.blocks([0, 1, 3], steps=10)
    order = blocks.order[:16]
    assert [label.get_text() for label in left.get_yticklabels()] == [f"channel {d}" for d in order]
    shades = left.images[0].get_array()
    mean = blocks.mean[order]
    limit = color_limit(mean, blocks.present[order] > 0)
    np.testing.assert_allclose(shades.filled(0), np.where(shades.mask, 0, np.clip(mean / limit, -1, 1)), atol=1e-6)


def test_one_extreme_block_does_not_take_all_colour():
    values = np.ones((2, 100, 1)) * 0.1
    values[:, 7] = 0.3
    values[:, 50] = 9.0
    picture = plots.blocks(made(values), steps=1)
    assert picture.axes[0].images[0].get_array().max() == 1
    assert picture.axes[0].images[0].get_array()[0, 7] == pytest.approx(0.3 * 4 / 9)  # a quarter of the largest
    assert any("and more" in text for text in texts(picture))


def test_the_title_counts_channels_that_are_not_shown():
    wide = waves(channels=30)
    assert any("16 of 30 channels" in text for text in texts(plots.blocks(wide)))
    assert any("16 of 30 channels" in text for text in texts(plots.channel_importance(wide)))
    assert any("24 of 30 channels" in text for text in texts(plots.compare(wide, 0)))
    assert any("6 of 30 channels" in text for text in texts(plots.dependence(wide)))
    assert not any(" of 3 channels" in text for text in texts(plots.compare(waves(), 0)))


def test_numbers_in_blocks_are_pale_where_the_sign_is_not_certain():
    values = np.array([[[1.0, 1.0]], [[1.1, -2.0]], [[0.9, 3.0]]])
    written = plots.blocks(made(values), steps=1).axes[0].texts
    assert [text.get_alpha() for text in written] == [0.55, 1]  # the channel with the larger size is the first


def test_numbers_stand_in_the_cells_of_their_blocks():
    found = waves(series=5, channels=3)
    blocks = found.blocks(steps=15)
    order = blocks.order
    for text in plots.blocks(found, steps=15).axes[0].texts:
        block, row = map(int, text.get_position())
        assert float(text.get_text().replace("−", "-")) == pytest.approx(blocks.mean[order[row], block], abs=0.01)


# Values against scores


def linear(slope, count=12, time=10, **parts):
    """Scores that are the value times a slope, in channel 0; channel 1 has none."""
    x = torch.randn(count, time, 2, generator=torch.Generator().manual_seed(0))
    values = torch.stack([slope * x[..., 0], 0.01 * torch.ones_like(x[..., 1])], -1)
    return made(values, x=x, **parts)


def test_raw_values_are_shown_and_methods_without_a_sign_say_so():
    found = linear(1.0)
    known = found.with_names(raw=10 * found.x + 37, units=["°C", ""])
    effect = value_effects(known)[0]
    np.testing.assert_allclose(effect.values.min(), float(10 * found.x[..., 0].min() + 37), rtol=1e-5)
    written = texts(plots.dependence(known, channels=[0]))
    assert "channel 0 [°C]\nhigh values push up, low values down" in written
    unsigned = replace(found, values=found.x.abs(), signed=False)
    assert value_effects(unsigned)[0].words == "no clear direction"
    assert any("Which values matter?" in text for text in texts(plots.dependence(unsigned)))


def test_channels_that_push_for_certain_come_first():
    draws = torch.Generator().manual_seed(1)
    x = torch.randn(40, 30, 2, generator=draws)
    loud = 3 * torch.randn(40, 30, generator=draws)
    found = made(torch.stack([loud, 2.0 * (x[..., 1] > 2)], -1), x=x)
    assert plots.dependence(found).axes[0].get_title("left").startswith("channel 1\n")


def test_a_channel_without_values_is_drawn_empty():
    found = with_gaps(waves(series=3, channels=3))
    assert any("no value observed" in text for text in texts(plots.dependence(found, channels=[2, 0])))
