"""Words and marks that keep a reader from a wrong idea: what ± is, what a number is called, what is certain."""

import re

import pytest

from tempograd.views import palette
from tests.helpers.browser import BOTH_WIDTHS

pytestmark = pytest.mark.browser

BOX = "e => { const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; }"


def test_what_stands_behind_a_plus_minus_is_said_beside_it(visit):
    sheet = visit("ward_round")
    sheet.choose(500)
    for method, shown in (("timing", True), ("integrated_gradients", False)):  # which has no error
        sheet.by(method)
        assert ("±" in sheet.text("#sentence")) == shown
        assert sheet.find("#spread").is_visible() == shown
    sheet.by("timing")
    assert sheet.text("#spread") == palette.WORDS["spread"]
    sheet.view("summary")
    sheet.set("group-a", "high")
    sheet.set("group-b", "low")
    assert sheet.text("#view-summary .said").endswith("]: 95 % interval")


def test_outputs_of_which_nobody_told_what_they_are_predict_no_class(visit):
    sheet = visit("scores")
    said = sheet.text("#facts")
    assert said.startswith("Explained: output 0 (")
    assert "predicted" not in said
    assert sheet.text("#sentence").startswith("Output 0 is ")
    assert sheet.text("#key-up") == "pushes output 0 up"
    sheet.unfold()
    assert not sheet.find("#filter-class").is_visible()


def test_a_number_is_called_by_its_name_and_unit(visit):
    sheet = visit("length_of_stay")
    case = sheet.case
    for number in case.ids[:2]:
        sheet.choose(number)
        row = case.row(number)
        told, true = float(case.answer(case.x[row : row + 1])), float(case.split.y[row])
        said = [f"{value:.3g}".replace("-", "−") for value in (told, true)]
        assert sheet.text("#sentence").startswith(f"Length of stay is {said[0]} days (true: {said[1]} days), ")
        assert sheet.text("#facts") == f"Explained: length of stay ({said[0]} days); true value: {said[1]} days"
        assert sheet.find("#series option:checked").inner_text() == f"{number} · length of stay {said[0]} days"
    assert sheet.text("#key-up") == "pushes length of stay up"
    assert sheet.text("#probabilities tbody th") == "length of stay [days] (explained)"


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("ward_round", "probability of died"),
        ("length_of_stay", "length of stay [days]"),
        ("scores", "output 0"),
        ("alarms", "mean explained probability"),
    ],
)
def test_the_curve_says_what_it_shows(visit, name, title):
    sheet = visit(name)
    assert sheet.plots("chart-removal")[0]["label"] == title
    several = len(sheet.case.explanations) > 1
    assert sheet.find("#removal-keys").is_visible() == several
    if several:
        assert sheet.text("#removal-keys").endswith("random (control)")


def test_an_uncertain_value_is_as_pale_as_its_bar(visit):
    """By construction values of channel 1 are uncertain, those of channel 0 certain."""
    sheet = visit("length_of_stay")
    sheet.find("#top-more").click()
    ground = "e => [getComputedStyle(e).backgroundColor, getComputedStyle(e).color]"
    seen = set()
    for row in sheet.find("#top tr[data-time]").all():
        channel, value = int(row.get_attribute("data-channel")), float(row.get_attribute("data-value"))
        hue = palette.DOWN if value < 0 else palette.UP
        behind, letters = row.locator("td:nth-child(4) > span").evaluate(ground)
        assert behind == (rgb(palette.PALE[hue]) if channel else "rgba(0, 0, 0, 0)")
        assert letters == rgb(palette.INK if channel else hue)  # pale letters could not be read
        seen.add(channel)
    assert seen == {0, 1}


def rgb(colour):
    return f"rgb({', '.join(str(int(colour[place : place + 2], 16)) for place in (1, 3, 5))})"


PIECES = """e => [...e.querySelectorAll('span')].map(s => [s.textContent, s.getClientRects().length])"""


@pytest.mark.parametrize("width", ["phone"], indirect=True)
def test_no_line_ends_inside_a_range_or_a_date(visit):
    sheet = visit("stamped")
    for row in sheet.case.ids:
        sheet.choose(row)
        for part in ("#sentence", "#card li:first-child .what"):
            words = [word for word in sheet.find(part).inner_text().split() if re.search(r"\S[-–]\S", word)]
            pieces = sheet.find(part).evaluate(PIECES)
            assert words
            assert [text for text, _ in pieces] == words
            assert {lines for _, lines in pieces} == {1}


@pytest.mark.parametrize("width", ["phone"], indirect=True)
def test_names_that_begin_alike_can_be_told_apart(visit):
    sheet = visit("scores")
    plots = sheet.plots("chart-map")
    shown = [
        (text, sheet.case.first.channels[d])
        for plot in plots
        for d, text in zip(plot["rows"], plot["names"], strict=True)
    ]
    assert len(shown) == 4  # the map of values, and that of scores
    for text, name in shown:
        assert text != name
        assert text.startswith("acce")
        assert text.endswith(name[-3:])


@pytest.mark.parametrize("width", ["phone"], indirect=True)
def test_the_strongest_values_need_no_scrolling_aside(visit):
    sheet = visit("ward_round")
    wider = "e => e.parentElement.scrollWidth - e.parentElement.clientWidth"
    assert sheet.find("#top").evaluate(wider) <= 0
    assert sheet.unfold().find("#series-scores").evaluate(wider) <= 0


@pytest.mark.parametrize("width", ["phone"], indirect=True)
def test_what_to_type_can_be_read(visit):
    """The words in an empty field are not cut."""
    room, wide = visit("ward_round").page.evaluate(
        """() => { const e = document.getElementById("find-channel"), s = getComputedStyle(e),
            pen = document.createElement("canvas").getContext("2d");
            pen.font = s.font;
            return [e.clientWidth - parseFloat(s.paddingLeft) - parseFloat(s.paddingRight),
                pen.measureText(e.placeholder).width]; }"""
    )
    assert wide <= room


@BOTH_WIDTHS
@pytest.mark.parametrize("name", ["ward_round", "length_of_stay"])
def test_how_sure_it_is_folds_out_beside_the_answer(visit, name):
    """What the badge says covers neither the sentence nor what stands above it, and nothing leaves the screen."""
    sheet = visit(name)
    for view, fold in (("series", "certainty"), ("summary", "summary-certainty")):
        sheet.view(view).find(f"#{fold} > summary").click()
        left, top, right, _ = sheet.find(f"#{fold}-text").evaluate(BOX)
        below = top - sheet.find(f"#view-{view} .answer").evaluate(BOX)[3]
        assert 0 <= below < 40
        assert 0 <= left < right <= sheet.page.viewport_size["width"]


def test_the_table_says_that_its_rows_are_single_values(visit):
    sheet = visit("ward_round")
    assert sheet.text("#top-title") == "Strongest single values, by timing"
    assert sheet.text("#top-title + p") == "One value a row; the sentence above adds up neighbours."
