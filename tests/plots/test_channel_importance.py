"""Drivers: means and errors over series against a loop over plain numbers."""

import math
import statistics

import numpy as np
import pytest
import torch
from scipy import stats

import tempograd as tg
from tempograd import plots
from tempograd.views.groups import channel_effects
from tests.helpers.explanations import made

VALUES = torch.tensor(
    [[[1.0, -2.0, 0.0], [3.0, 1.0, 0.0]], [[-1.0, 0.5, 0.0], [2.0, 0.0, 0.0]], [[5.0, 5.0, 5.0], [5.0, 5.0, 5.0]]]
)
MASK = torch.tensor([[[1, 1, 0], [1, 1, 0]], [[1, 1, 0], [1, 0, 0]], [[1, 1, 1], [1, 1, 1]]]).bool()


def explanation(**parts):
    return made(VALUES, mask=MASK, channels=("a", "b", "c"), target=torch.tensor([1, 1, 0]), **parts)


def slow(rows, d, size, per):
    """Return mean and standard error of a channel, number by number."""
    found = []
    for i in rows:
        cells = [float(VALUES[i, t, d]) for t in range(2) if MASK[i, t, d]]
        cells = [abs(cell) for cell in cells] if size else cells
        if per == "series":
            found.append(sum(cells))
        elif cells:
            found.append(sum(cells) / len(cells))
    error = statistics.stdev(found) / math.sqrt(len(found)) if len(found) > 1 else math.inf
    return (statistics.mean(found) if found else math.nan), error


@pytest.mark.parametrize("per", ["series", "value"])
@pytest.mark.parametrize(("target", "rows"), [(1, (0, 1)), (None, (0, 1, 2)), (0, (2,))])
def test_means_and_intervals_over_the_series_of_a_class(target, rows, per):
    found = channel_effects(explanation(), target, per=per)
    assert (found.series, found.names) == (len(rows), ("a", "b", "c"))
    present = MASK[list(rows)].any(1).double()
    assert found.present.tolist() == present.mean(0).tolist()
    for d in range(3):
        freedom = (int(present[:, d].sum()) if per == "value" else len(rows)) - 1
        for size, mean, half in ((False, found.push, found.push_half), (True, found.size, found.size_half)):
            expected, error = slow(rows, d, size, per)
            width = error * stats.t.ppf(0.975, freedom) if freedom > 0 else math.inf
            np.testing.assert_allclose((mean[d], half[d]), (expected, width), rtol=1e-3, equal_nan=True)


def channels(*arguments, **options):
    axes = plots.channel_importance(*arguments, **options).axes[0]
    return [label.get_text() for label in axes.get_yticklabels()]


def test_order_is_by_size_or_by_push():
    pushes = made([[[1.0, -5.0, 2.0]]], channels=("a", "b", "c"))
    assert channels(pushes) == ["b", "c", "a"]
    assert channels(pushes, by="signed") == ["c", "a", "b"]
    assert channels(pushes, by="signed", channels=1) == ["c"]
    assert channels(explanation(), 1) == ["a 100 %", "b 100 %", "c 0 %"]
    assert channels(made([[[-2.0, 1.0]]], signed=False)) == ["channel 1", "channel 0"]


def test_rows_choose_series_before_the_class_does():
    assert channel_effects(explanation(), rows=torch.tensor([False, True, True])).series == 2
    assert channel_effects(explanation(), 1, rows=[1, 2]).push.tolist() == [1, 0.5, 0]


def test_lines_are_the_intervals_of_the_channels_that_have_one():
    found = channel_effects(explanation(), per="value")
    axes = plots.channel_importance(explanation(), per="value", channels=["a", "c"]).axes[0]
    (line,) = [segment for lines in axes.collections for segment in lines.get_segments()]
    ends = [found.push[0] - found.push_half[0], found.push[0] + found.push_half[0]]
    assert line[:, 0].tolist() == pytest.approx(ends)


def test_questions_without_an_answer_are_refused():
    with pytest.raises(tg.TempogradError, match="none of those given was explained for class 7"):
        plots.channel_importance(explanation(), 7)
    with pytest.raises(tg.TempogradError, match="needs an explanation of one class per series"):
        plots.channel_importance(made(VALUES, target=torch.zeros(3, 2, dtype=torch.int64)), 1)
    with pytest.raises(tg.TempogradError, match="per must be 'series' or 'value'"):
        plots.channel_importance(explanation(), per="cell")
