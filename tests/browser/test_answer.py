"""The first screen is the answer: sentence, badge, picture and the strongest values, on a desk and on a phone."""

import re
from dataclasses import replace

import pytest

from tempograd.views import palette
from tempograd.views.drivers import describe_series, told_channels
from tests.helpers.browser import BOTH_WIDTHS

pytestmark = pytest.mark.browser

BOX = "e => { const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; }"
CODE = re.compile(r"points=|tolerance=|max_samples=|\bpass |--set")
CONTROLS = "#view-series .controls > *, #view-series .controls > .chooser > *"
TOPS = f"all => all.filter(e => e.checkVisibility() && e.textContent.trim()).map({BOX})"


def box(sheet, selector):
    return sheet.find(selector).first.evaluate(BOX)


def desk(sheet, wide=1440):
    sheet.page.set_viewport_size({"width": wide, "height": 900})
    sheet.page.reload()
    sheet.page.wait_for_selector("body[data-ready=true]", state="attached")
    return sheet


@pytest.mark.parametrize("name", ["ward_round", "classifier", "binary"])
def test_on_a_desk_the_answer_is_in_view(visit, name):
    sheet = desk(visit(name))
    assert box(sheet, "#card .big")[3] < 300
    assert box(sheet, "#sentence")[3] < 520
    rows = sheet.find("#card .rows li").all()
    assert rows
    assert max(row.evaluate(BOX)[3] for row in rows) < 480
    top = box(sheet, "#chart-channels > .plots")[1]
    assert top + sheet.panels("chart-channels")[0]["bottom"] <= 900
    assert max(box(sheet, "#badge")) < 1440


@pytest.mark.parametrize("wide", [1280, 1440])
@pytest.mark.parametrize("name", ["ward_round", "per_step"])
def test_on_a_desk_the_controls_are_one_row(visit, name, wide):
    sheet = desk(visit(name), wide)
    boxes = sheet.page.eval_on_selector_all(CONTROLS, TOPS)
    middles = [(first + last) / 2 for _, first, _, last in boxes]
    assert max(middles) - min(middles) < 8


@pytest.mark.parametrize("width", ["phone"], indirect=True)
@pytest.mark.parametrize("name", ["ward_round", "classifier", "stamped", "regression"])
def test_on_a_phone_the_prediction_and_the_first_driver_are_on_the_first_screen(visit, name):
    sheet = visit(name)
    assert box(sheet, "#card .big")[3] < 300
    for part in (".spark", ".dumbbell"):
        assert box(sheet, f"#card .rows li:first-child {part}")[3] < 560
    assert len({(panel["left"], panel["right"]) for panel in sheet.panels("chart-channels")}) == 1


@BOTH_WIDTHS
def test_a_value_alone_is_a_dot(visit):
    """Values without a neighbour have no line: each of them has a dot of its own."""
    sheet = visit("ward_round")
    case = sheet.case
    sheet.choose(507)
    row = case.row(507)
    sheet.set("channels-shown", 20)
    seen = case.observed(row)
    alone = [
        (t, d)
        for t, d in seen.nonzero().tolist()
        if not (t and seen[t - 1, d]) and not (t < 47 and seen[t + 1, d])
    ]
    alone = [(t, d) for t, d in alone if t != int(sheet.value("cursor"))]  # where a line stands above them
    assert len(alone) > 10
    values = case.shown()[row]
    places = {plot["title"]: place for place, plot in enumerate(sheet.plots("chart-channels")) if plot["title"]}
    for t, d in alone:
        (name,) = [each for each in places if each.split(" [")[0] == case.first.channels[d]]
        assert sheet.painted("chart-channels", places[name], [(t, float(values[t, d]))]) == [palette.INK]


@pytest.mark.parametrize("name", ["ward_round", "classifier", "regression", "per_step"])
def test_the_sentence_is_the_librarys(visit, name):
    sheet = visit(name)
    case = sheet.case
    for method, explanation in case.explanations.items():
        sheet.by(method)
        for number in case.ids[:2]:
            sheet.choose(number)
            row = case.row(number)
            said = describe_series(replace(explanation, y=case.split.y), row)
            assert sheet.text("#sentence") == " ".join(f"{said}.".split())


@pytest.mark.parametrize("name", ["ward_round", "stopping", "alarms", "long"])
def test_no_code_in_the_views_of_readers(visit, name):
    sheet = visit(name)
    for view in ("series", "summary"):
        sheet.view(view).unfold()
        assert CODE.search(sheet.find(f"#view-{view}").inner_text()) is None


def test_what_the_metrics_mean_stands_where_they_stand(visit):
    sheet = visit("ward_round").unfold()
    head = sheet.text("#series-scores thead")
    assert "CPD ↑ Total change of the prediction while the most important" in head
    assert "CPP ↓ Total change of the prediction while the least important" in head


def test_reading_off_begins_at_the_strongest_step(visit):
    sheet = visit("binary")
    for method, explanation in sheet.case.explanations.items():
        sheet.by(method)
        for number in (21, 7):
            sheet.choose(number)
            top = explanation.top(1)
            assert int(sheet.value("cursor")) == int(top.time[sheet.case.row(number)])


def test_the_series_with_the_most_certain_effect_comes_first(visit):
    sheet = visit("classifier")
    for method, explanation in sheet.case.explanations.items():
        sheet.by(method)
        size = explanation.values.abs() if explanation.signed else explanation.values.clamp(min=0)
        if explanation.signed and explanation.standard_error is not None:
            low, high = explanation.interval(0.95)
            size = size * ((low > 0) | (high < 0))
        found = dict(zip(sheet.case.ids, size.sum((1, 2)).tolist(), strict=True))
        offered = [int(value) for value in sheet.options("series")]
        assert offered == sorted(found, key=lambda number: -found[number])


@BOTH_WIDTHS
def test_scores_are_as_tall_as_values_and_named(visit):
    sheet = visit("ward_round")
    plots = sheet.plots("chart-channels")
    assert len({plot["height"] for plot in plots}) == 1
    assert {plot["label"] for plot in plots[1::2]} == {palette.WORDS["score"]}
    assert {plot["title"] is None for plot in plots[1::2]} == {True}


@pytest.mark.parametrize("name", ["ward_round", "classifier", "per_step"])
def test_the_channels_of_the_sentence_come_first_and_the_others_are_folded(visit, name):
    sheet = visit(name)
    case = sheet.case
    names = case.first.channels or [f"channel {d}" for d in range(case.x.shape[2])]
    for number in case.ids[:3]:
        sheet.choose(number)
        shown = [plot["title"].split(" [")[0] for plot in sheet.plots("chart-channels") if plot["title"]]
        shown = [title for title in shown if title in names]
        assert shown == [names[d] for d in told_channels(case.first, case.row(number))]
    sheet.find("#other-channels").click()
    sheet.settle()
    drawn = [plot["title"] for plot in sheet.plots("chart-channels") if plot["title"]]
    assert len(drawn) == len(names) + (name == "per_step")
    sheet.find("#other-channels").click()
    sheet.settle()
    assert len(sheet.plots("chart-channels")) == 2 * len(shown) + (name == "per_step")


def test_room_below_zero_only_where_something_is_negative(visit):
    """Integrated gradients of Gauges push both ways; the random control has no sign, so no room below 0."""
    sheet = visit("ward_round")
    lows = {plot["y"][0] / plot["y"][1] for plot in sheet.plots("chart-channels")[1::2]}
    assert len(lows) == 1
    assert lows.pop() < -0.1
    sheet.by("random")
    assert min(plot["y"][0] / plot["y"][1] for plot in sheet.plots("chart-channels")[1::2]) > -0.1


def test_a_channel_is_found_by_its_name(visit):
    sheet = visit("ward_round")
    names = sheet.case.first.channels
    weakest = names[sheet.plots("chart-map")[0]["rows"][19]]

    def first():
        return sheet.plots("chart-channels")[0]["title"]

    by_effect = sheet.case.first.values[sheet.case.row(sheet.value("series"))].abs().sum(0)
    place = by_effect.argsort(descending=True, stable=True).tolist().index(names.index(weakest)) + 1
    sheet.set("find-channel", weakest.upper())
    assert first().startswith(weakest)
    assert sheet.text("#find-channel-answer") == f"{weakest}: {place} of 20 by effect"
    sheet.set("find-channel", "Level 1")  # a part of several names: the strongest of them
    assert first().startswith("Level 1")
    sheet.set("find-channel", "nothing")
    assert sheet.text("#find-channel-answer") == "There is no channel nothing."
    sheet.set("find-channel", "")
    assert sheet.text("#find-channel-answer") == ""
