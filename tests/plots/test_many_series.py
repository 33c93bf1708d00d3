"""Pictures of many series: blocks. Their numbers, by hand."""

import numpy as np
import pytest

from tempograd import plots
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
