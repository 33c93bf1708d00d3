"""The diagrams of ranks and the dots of tables show the numbers they stand for."""

import pytest

from reproduction.tests.helpers.results import CPD, IG, RANDOM, TIMING, toy_plan, toy_records
from tempograd_paper.answers.blocks import Comparison
from tempograd_paper.answers.dot_picture import dot_panels, draw_dots
from tempograd_paper.answers.rank_picture import draw_ranks, rank_panel
from tempograd_paper.statistics import Friedman
from tempograd_paper.tables.tabulation import tabulate


def comparison(ranks, difference):
    test = Friedman(9.0, 0.01, len(ranks) - 1, ranks, 7)
    return Comparison(("lime", "timing", "fit", "integrated_gradients")[: len(ranks)], (), None, test, difference)


def test_methods_stand_in_their_order_with_bars_over_what_cannot_be_told_apart():
    panel = rank_panel(comparison((2.0, 1.2, 3.9, 2.9), 1.0), "A title")
    assert panel.methods == ("timing", "lime", "integrated_gradients", "fit")
    assert panel.ranks == (1.2, 2.0, 2.9, 3.9)
    assert panel.groups == ((0, 1), (1, 2), (2, 3))
    (axes,) = draw_ranks([panel]).axes
    bars = [line.get_xdata() for line in axes.lines if line.get_label() == "group"]
    assert [(round(left, 2), round(right, 2)) for left, right in bars] == [
        (1.16, 2.04),
        (1.96, 2.94),
        (2.86, 3.94),
    ]
    texts = [text.get_text() for text in axes.texts]
    assert {"TIMING  1.20", "LIME  2.00", "2.90  IG", "3.90  FIT", "critical difference 1.00"} <= set(texts)
    stems = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 3]
    assert stems == [1.2, 2.0, 2.9, 3.9]


def test_a_table_has_one_dot_for_each_number():
    plan = toy_plan(rows=(IG, TIMING, RANDOM))
    (panel,) = dot_panels(tabulate(plan, toy_records(plan)))
    assert panel.title == "State, GRU\nCPD 10% zero ↑, 3 folds"
    first, second = panel.dots  # random was not run
    assert (first.label, first.mean, first.published) == ("IG", pytest.approx(5.5 / 3), 0.162)
    half = 4.3027 * 0.4409585  # Student's t with two degrees, and the standard error of 1, 2, 2.5
    assert (first.low, first.high) == (
        pytest.approx(5.5 / 3 - half, rel=1e-3),
        pytest.approx(5.5 / 3 + half, rel=1e-3),
    )
    assert (second.label, second.published) == ("TIMING", 0.163)
    axes = draw_dots(tabulate(plan, toy_records(plan))).axes[0]
    dots = [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if line.get_marker() == "o"]
    assert dots == [(first.mean, 0), (second.mean, 1)]
    diamonds = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "D"]
    assert diamonds == [0.162, 0.163]


def test_published_means_stand_beside_comparable_numbers_only():
    plan = toy_plan(rows=(IG, TIMING), protocol="fair", measures=(CPD,))
    (panel,) = dot_panels(tabulate(plan, toy_records(plan)))
    assert [dot.published for dot in panel.dots] == [None, None]


def test_one_fold_has_its_interval_over_series():
    plan = toy_plan(folds=(0,))
    (panel,) = dot_panels(tabulate(plan, toy_records(plan)))
    assert panel.title.endswith("2 series")
    assert panel.dots[1].high - panel.dots[1].mean == pytest.approx(12.706, rel=1e-3)  # of 1 and 3: t · 1


def test_rows_with_fewer_folds_have_hollow_dots():
    plan = toy_plan(rows=(IG, TIMING))
    records = toy_records(plan)
    del records[plan.cell(plan.datasets[0], "gru", 2, IG).key]
    table = tabulate(plan, records)
    (panel,) = dot_panels(table)
    assert [dot.whole for dot in panel.dots] == [False, True]
    picture = draw_dots(table)
    faces = [line.get_markerfacecolor() for line in picture.axes[0].lines if line.get_marker() == "o"]
    assert faces[0] == "white"
    assert faces[1] != "white"
    assert picture.get_supxlabel().endswith("hollow dots: fewer folds than other rows")
