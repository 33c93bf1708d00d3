"""Drivers: means and errors over series against a loop over plain numbers."""

import math
import statistics

import numpy as np
import pytest
import torch
from scipy import stats

import tempograd as tg
from tempograd import plots
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
def test_means_and_errors_over_the_series_of_a_class(target, rows, per):
    record = plots.channel_importance_record(explanation(), target, per=per, channels=["a", "b", "c"])
    assert record.series == len(rows)
    for d in range(3):
        mean, error = slow(rows, d, False, per)
        size, spread = slow(rows, d, True, per)
        found = (record.signed_mean[d], record.signed_error[d], record.absolute_mean[d], record.absolute_error[d])
        np.testing.assert_allclose(found, (mean, error, size, spread), rtol=1e-6, equal_nan=True)
    assert record.present.tolist() == [float(MASK[list(rows), :, d].any(1).double().mean()) for d in range(3)]


def test_order_is_by_size_or_by_push():
    assert plots.channel_importance_record(explanation(), 1).channels == ("a", "b", "c")  # sizes 3.5, 1.75, 0
    pushes = made([[[1.0, -5.0, 2.0]]], channels=("a", "b", "c"))
    assert plots.channel_importance_record(pushes).channels == ("b", "c", "a")
    assert plots.channel_importance_record(pushes, by="signed").channels == ("c", "a", "b")
    assert plots.channel_importance_record(pushes, by="signed", channels=1).signed_mean.tolist() == [2]


def test_rows_choose_series_before_the_class_does():
    assert plots.channel_importance_record(explanation(), rows=torch.tensor([False, True, True])).series == 2
    assert plots.channel_importance_record(explanation(), 1, rows=[1, 2]).signed_mean.tolist() == [1, 0.5, 0]


def test_intervals_are_students_over_the_series_that_count():
    record = plots.channel_importance_record(explanation(), per="value", channels=["a", "c"])
    assert record.factor[0] == pytest.approx(stats.t.ppf(0.975, 2), rel=1e-3)  # three series
    assert record.factor[1] == math.inf  # one series: no interval
    lines = plots.draw_channel_importance(record).axes[0].collections[0].get_segments()
    half = record.signed_error[0] * stats.t.ppf(0.975, 2)
    assert len(lines) == 1
    assert lines[0][:, 0].tolist() == pytest.approx(
        [record.signed_mean[0] - half, record.signed_mean[0] + half], 1e-3
    )


def test_sizes_without_direction_are_not_signed():
    record = plots.channel_importance_record(made([[[-2.0, 1.0]]], signed=False))
    assert (record.channels, record.absolute_mean.tolist()) == (("channel 1", "channel 0"), [1, 0])


def test_questions_without_an_answer_are_refused():
    with pytest.raises(tg.TempogradError, match="none of those given was explained for class 7"):
        plots.channel_importance(explanation(), 7)
    with pytest.raises(tg.TempogradError, match="needs an explanation of one class per series"):
        plots.channel_importance(made(VALUES, target=torch.zeros(3, 2, dtype=torch.int64)), 1)
    with pytest.raises(tg.TempogradError, match="per must be 'series' or 'value'"):
        plots.channel_importance(explanation(), per="cell")
