"""The error against points: numbers by hand, and what stands in the picture."""

import numpy as np
import pytest

import tempograd as tg
from tempograd import plots
from tempograd.explanation.diagnostics import error_curve
from tests.helpers.explanations import looked_at, made
from tests.helpers.pictures import texts


def test_the_middle_series_and_the_limits_of_nine_in_ten():
    """Of three series the second stops after the first look and keeps its error."""
    found = looked_at([[0.4, 0.2, 0.1], [0.05, None, None], [0.8, 0.6, 0.3]], [50, 100, 200])
    course = error_curve(found)
    assert course.points.tolist() == [50, 100, 200]
    np.testing.assert_allclose(course.middle, [0.4, 0.2, 0.1], rtol=1e-6)
    np.testing.assert_allclose(course.low, [0.05] * 3, rtol=1e-6)
    np.testing.assert_allclose(course.high, [0.8, 0.6, 0.3], rtol=1e-6)


def test_goals_are_the_tolerances_that_were_asked_for():
    errors, points = [[0.4, 0.2]], [50, 100]
    strict = looked_at(errors, points, parameters={"tolerance": 0.02})
    picture = plots.convergence({"a": looked_at(errors, points), "b": strict, "c": strict})
    (axes,) = picture.axes
    assert {"goal 2 %", "goal 10 %"} <= set(texts(picture))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [len(line.get_xdata()) for line in axes.lines[:3]] == [2, 2, 2]
    assert axes.collections[:] == []  # one series has no band
    assert {"a", "b", "c"} <= set(texts(picture))


def test_lines_and_bands_are_those_of_the_record():
    found = looked_at([[0.4, 0.2], [0.1, 0.06], [0.8, 0.6]], [50, 100])
    picture = plots.convergence(found)
    (axes,) = picture.axes
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[50, 0.4], [100, 0.2]], rtol=1e-6)
    (band,) = axes.collections
    corners = {(x, round(y, 3)) for x, y in band.get_paths()[0].vertices.tolist()}
    assert corners == {(50, 0.1), (100, 0.06), (50, 0.8), (100, 0.6)}
    picture._repr_png_()  # ticks are written when they are drawn
    found = [label.get_text() for label in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    assert found[:2] == ["50", "100"]
    assert {"5 %", "10 %", "20 %", "50 %", "100 %"} <= set(found)


def test_an_explanation_that_nobody_looked_at_is_refused():
    with pytest.raises(
        tg.TempogradError, match=r"Nobody looked at the error of timing on the way: .*tolerance=0.05"
    ):
        plots.convergence(made(np.ones((2, 3, 1))))
