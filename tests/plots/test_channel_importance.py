"""Drivers: means and errors over series against a loop over plain numbers."""

import math
import statistics

import numpy as np
import pytest
import torch
from scipy import stats

from tempograd import plots
from tempograd.views.groups import channel_sums
from tests.helpers.explanations import made, waves
from tests.helpers.pictures import texts

VALUES = torch.tensor(
    [[[1.0, -2.0, 0.0], [3.0, 1.0, 0.0]], [[-1.0, 0.5, 0.0], [2.0, 0.0, 0.0]], [[5.0, 5.0, 5.0], [5.0, 5.0, 5.0]]]
)
MASK = torch.tensor([[[1, 1, 0], [1, 1, 0]], [[1, 1, 0], [1, 0, 0]], [[1, 1, 1], [1, 1, 1]]]).bool()


def explanation(**parts):
    return made(VALUES, mask=MASK, channels=("a", "b", "c"), target=torch.tensor([1, 1, 0]), **parts)


def slow(rows, d):
    """Return mean and standard error of a channel, number by number, and the mean of its sizes."""
    cells = [[float(VALUES[i, t, d]) for t in range(2) if MASK[i, t, d]] for i in rows]
    sums = [sum(each) for each in cells]
    error = statistics.stdev(sums) / math.sqrt(len(sums)) if len(sums) > 1 else math.inf
    return statistics.mean(sums), error, statistics.mean(sum(map(abs, each)) for each in cells)


@pytest.mark.parametrize("rows", [(0, 1), (0, 1, 2), (2,)])
def test_means_and_intervals_over_some_series(rows):
    found = channel_sums(explanation(), rows)
    assert (found.series, found.channels) == (len(rows), ("a", "b", "c"))
    for d in range(3):
        mean, error, size = slow(rows, d)
        half = error * stats.t.ppf(0.975, len(rows) - 1) if len(rows) > 1 else math.inf
        np.testing.assert_allclose(
            (found.mean[d, 0], found.high[d, 0], found.size[d, 0]), (mean, mean + half, size), rtol=1e-3
        )


def channels(*arguments, **options):
    axes = plots.channel_importance(*arguments, **options).axes[0]
    return [label.get_text() for label in axes.get_yticklabels()]


def test_order_is_by_size():
    pushes = made([[[1.0, -5.0, 2.0]]], channels=("a", "b", "c"))
    assert channels(pushes) == ["b", "c", "a"]
    assert channels(pushes, channels=1) == ["b"]
    assert channels(explanation(), [0, 1]) == ["a", "b", "c"]
    assert channels(made([[[-2.0, 1.0]]], signed=False)) == ["channel 1", "channel 0"]


def test_rows_choose_series():
    assert channel_sums(explanation(), rows=torch.tensor([False, True, True])).series == 2
    assert channel_sums(explanation(), explanation().target == 0).series == 1


def test_lines_are_the_intervals_of_the_channels():
    found = channel_sums(explanation())
    axes = plots.channel_importance(explanation(), channels=["a"]).axes[0]
    (line,) = [segment for lines in axes.collections for segment in lines.get_segments()]
    assert line[:, 0].tolist() == pytest.approx([found.low[0, 0], found.high[0, 0]])


def test_the_title_counts_channels_that_are_not_shown():
    assert any("16 of 30 channels" in text for text in texts(plots.channel_importance(waves(channels=30))))
    assert any("24 of 30 channels" in text for text in texts(plots.compare(waves(channels=30), 0)))
    assert not any(" of 3 channels" in text for text in texts(plots.compare(waves(), 0)))
