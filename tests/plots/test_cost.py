"""Cost: which methods are worth it, by brute force."""

import numpy as np
import pytest

import tempograd as tg
from tempograd import plots
from tempograd.plots.parts import spread
from tests.helpers.pictures import texts

ROWS = [
    ("slow", 2.0, 0.30, 0.02),
    ("best", 0.5, 0.40, 0.01),
    ("cheap", 0.1, 0.10, 0.03),
    ("dear", 0.6, 0.35, 0.02),
]


def test_dots_are_filled_where_nothing_cheaper_is_better():
    filled = {
        float(line.get_xdata()[0]): line.get_markerfacecolor() != "white"
        for line in plots.cost(ROWS).axes[0].lines
        if line.get_marker() == "o"
    }
    for _, cost, mean, _ in ROWS:
        beaten = any(other[1] <= cost and other[2] > mean for other in ROWS)
        assert filled[cost] == (not beaten)


def test_points_stand_at_their_cost_and_score():
    picture = plots.cost(ROWS, cost_label="model passes", score_label="CPD")
    axes = picture.axes[0]
    assert axes.get_xscale() == "log"
    points = sorted((float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in axes.lines[1:])
    assert points == sorted((cost, mean) for _, cost, mean, _ in ROWS)
    bars = [segment[:, 1].tolist() for lines in axes.collections for segment in lines.get_segments()]
    assert bars[1] == pytest.approx([0.39, 0.41])
    assert {"model passes", "CPD ± standard error", "slow", "cheap"} <= set(texts(picture))


def test_names_do_not_overlap():
    heights = spread([0.5, 0.5, 0.52, 0.9, 0.1], 0.05)
    gaps = np.diff(sorted(heights))
    assert gaps.min() >= 0.05 - 1e-9
    assert np.argsort(heights).tolist() == np.argsort([0.5, 0.5001, 0.52, 0.9, 0.1]).tolist()


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(tg.TempogradError, match=r"free has cost 0\.0 and mean 1\.0: costs must be above 0"):
        plots.cost([("free", 0.0, 1.0, 0.1)])
    with pytest.raises(tg.TempogradError, match="nothing to draw"):
        plots.cost([])
