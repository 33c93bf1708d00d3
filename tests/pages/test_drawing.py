"""Colour and place of what is drawn."""

import re
from xml.etree import ElementTree

import numpy as np

from tempograd.pages import colours
from tempograd.pages.drawing import MISSING, channel_row, colour_band, line, marks_row, ticks
from tempograd.pages.records import Channel, Map


def strokes(body):
    """Return (start, length) of every filled run with its colour and opacity."""
    found = {}
    for path in ElementTree.fromstring(f"<g>{body}</g>").iter("path"):
        for start, length in re.findall(r"M(\d+) [\d.]+h(\d+)", path.get("d")):
            found[int(start), int(length)] = (path.get("stroke"), path.get("stroke-opacity"))
    return found


def drawn_map(values, low=None, high=None, signed=True):
    column = [None if side is None else np.float32(side)[:, None] for side in (values, low, high)]
    return Map("timing", signed, column[0], column[1], column[2], 1.0)


def channel(count, gaps=()):
    observed = np.ones(count, dtype=np.bool_)
    observed[list(gaps)] = False
    return Channel("pulse", np.arange(count, dtype=np.float32), observed, None, 0.0)


def test_sign_decides_the_hue_and_size_the_strength():
    found = strokes(colour_band(drawn_map([1, 1, -0.5, 0.01]), 0, channel(4), 10))
    assert found == {(0, 2): (colours.colour(8), None), (2, 1): (colours.colour(-4), None)}


def test_cells_of_uncertain_sign_are_pale():
    found = strokes(colour_band(drawn_map([1, 1], [0.5, -0.5], [1.5, 2.5]), 0, channel(2), 10))
    assert found == {(0, 1): (colours.colour(8), None), (1, 1): (colours.colour(8), str(colours.FAINT))}


def test_missing_cells_are_grey_and_interrupt_the_line():
    row = channel_row(channel(6, gaps=[2, 3]), "", 40)
    assert strokes(row.body)[2, 2] == (MISSING, None)
    points = [path.get("d") for path in ElementTree.fromstring(f"<g>{row.body}</g>").iter("path")][-1]
    assert re.findall(r"([ML])([\d.]+) ", points) == [("M", "0.5"), ("L", "1.5"), ("M", "4.5"), ("L", "5.5")]


def test_scores_of_missing_cells_are_not_drawn():
    assert strokes(colour_band(drawn_map([1, 1]), 0, channel(2, gaps=[1]), 10)) == {
        (0, 1): (colours.colour(8), None)
    }


def test_line_runs_from_the_lowest_value_at_the_bottom_to_the_highest_at_the_top():
    body = line(np.float32([2, 4]), np.array([True, True]), 2.0, 4.0, 40)
    assert 'd="M0.5 35.0L1.5 5.0"' in body


def test_a_value_between_gaps_is_a_dot():
    body = line(np.float32([1, 2, 3]), np.array([False, True, False]), 1.0, 3.0, 40)
    assert 'd="M1.5 20.0h0"' in body
    assert 'stroke-linecap="round"' in body


def test_scale_says_what_the_line_shows():
    row = channel_row(channel(3), "", 40)
    assert (row.low, row.high) == ("0", "2")
    assert channel_row(channel(3, gaps=[0, 1, 2]), "", 40).low == "not observed"


def test_marks_are_drawn_where_they_hold():
    assert list(strokes(marks_row("truth", np.array([False, True, True])).body)) == [(1, 2)]


def test_ticks_are_round_and_few():
    assert ticks(1) == [0]
    assert ticks(48) == [0, 10, 20, 30, 40]
    assert len(ticks(1000)) <= 9
