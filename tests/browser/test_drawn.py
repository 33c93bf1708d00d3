"""What is drawn is what the library says: colours of maps, heights of bars, curves, marks of the truth."""

import re

import numpy as np
import pytest

from tempograd.views import palette
from tempograd.views.drivers import told_channels
from tests.helpers.browser import BOTH_WIDTHS

pytestmark = pytest.mark.browser


def rgb(colour):
    return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]


SIGNED = [rgb(colour) for colour in (*reversed(palette.STOPS["down"]), *palette.STOPS["up"][1:])]
UNSIGNED = [rgb(colour) for colour in palette.STOPS["size"]]
VALUES = [rgb(colour) for colour in palette.INPUT]
UNSEEN = [-1, -1, -1]  # transparent: the hatching below is seen
UP, DOWN, INK, FAINT = palette.UP, palette.DOWN, palette.INK, palette.FAINT
EMPTY = "#000000"  # where nothing is drawn
PALE_UP, PALE_DOWN = palette.PALE[UP], palette.PALE[DOWN]


def painted(values, stops, low, high, observed):
    """Return the colours of a map, (row, column, RGB), between evenly spaced stops."""
    share = np.clip((values - low) / (high - low), 0, 1)
    places = np.linspace(0, 1, len(stops))
    colours = np.stack([np.interp(share, places, [stop[band] for stop in stops]) for band in range(3)], -1)
    return np.where(observed[..., None], colours, UNSEEN)


def by_effect(explanation, row):
    """Return the channels of a series, the largest sum of sizes first."""
    return np.argsort(-explanation.values[row].abs().sum(0).numpy(), kind="stable")


def sentence_first(explanation, row):
    """Return the channels in the order of the page: those of the sentence, then the others by effect."""
    return list(dict.fromkeys([*told_channels(explanation, row), *by_effect(explanation, row).tolist()]))


def full_colour(values, observed):
    """Return the size that 98 % of the observed cells do not pass, or a quarter of the largest."""
    size = np.abs(values[observed])
    return max(np.quantile(size, 0.98, method="higher"), size.max() / 4)


def drawn_channels(sheet, depth):
    """Draw all channels, and return where the values and the scores of each are among the plots."""
    sheet.set("channels-shown", depth)
    titles = [plot["title"] for plot in sheet.plots("chart-channels")]
    rows = sheet.plots("chart-map")[0]["rows"]
    first = len(titles) - 2 * depth
    return {d: first + 2 * place for place, d in enumerate(rows)}


def written(text):
    """Return the number that stands in a text, to its three digits."""
    found = re.search(r"(−?[\d.,]+)(?: × 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?", text)
    power = (found[2] or "⁰").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    return float(found[1].replace("−", "-").replace(",", "")) * 10 ** int(power)


@pytest.mark.parametrize("name", ["classifier", "binary", "empty"])
def test_maps_have_the_colours_of_the_values_and_scores(visit, name):
    sheet = visit(name)
    case = sheet.case
    number = case.ids[2]
    row = case.row(number)
    sheet.choose(number)
    seen = case.observed(row).numpy()
    every = np.stack([case.observed(each).numpy() for each in range(len(case.ids))])
    shown = case.shown().double().numpy()
    for method, explanation in case.explanations.items():
        sheet.by(method)
        order = sentence_first(explanation, row)
        assert sheet.plots("chart-map")[0]["rows"] == order
        scores = explanation.values[row].double().numpy()
        full = full_colour(scores, seen)
        stops, low = (SIGNED, -full) if explanation.signed else (UNSIGNED, 0)
        left, right = (np.array(found) for found in sheet.pixels("chart-map"))
        np.testing.assert_allclose(right, painted(scores, stops, low, full, seen)[:, order].swapaxes(0, 1), atol=2)
        spread = np.zeros_like(scores)
        for d in range(scores.shape[1]):
            known = shown[..., d][every[..., d]]
            if len(known):
                spread[:, d] = (shown[row, :, d] - known.mean()) / (known.std() or 1)
        expected = painted(spread, VALUES, -2.5, 2.5, seen)[:, order].swapaxes(0, 1)
        np.testing.assert_allclose(left, expected, atol=2)


def test_maps_of_the_methods_share_the_order_of_the_chosen_one(visit):
    sheet = visit("binary").unfold()
    case = sheet.case
    sheet.choose(30)
    row, seen = case.row(30), case.observed(case.row(30)).numpy()
    for chosen in case.explanations:
        sheet.by(chosen)
        order = sentence_first(case.explanations[chosen], row)
        others = [explanation for label, explanation in case.explanations.items() if label != chosen]
        for found, explanation in zip(sheet.pixels("chart-methods"), others, strict=True):
            scores = explanation.values[row].double().numpy()
            full = full_colour(scores, seen)
            stops, low = (SIGNED, -full) if explanation.signed else (UNSIGNED, 0)
            expected = painted(scores, stops, low, full, seen)[:, order].swapaxes(0, 1)
            np.testing.assert_allclose(np.array(found), expected, atol=2)


@BOTH_WIDTHS
def test_bars_are_as_high_as_the_scores_and_pale_where_the_sign_is_not_certain(visit):
    sheet = visit("classifier")
    case = sheet.case
    sheet.choose(42)
    row, timing = case.row(42), case.explanations["timing"]
    values, seen = timing.values[row].numpy(), case.observed(row)
    low, high = (limit[row].numpy() for limit in timing.interval(0.95))
    places, checked = drawn_channels(sheet, 4), 0
    for d, place in places.items():
        top = sheet.plots("chart-channels")[place + 1]["y"][1]
        for t in seen[:, d].nonzero().flatten().tolist():
            v, certain = values[t, d], low[t, d] > 0 or high[t, d] < 0
            if abs(v) < 0.15 * top or t == int(sheet.value("cursor")):
                continue  # too low to have a middle
            x = t + 0.25  # beside the line of the interval
            inside, beyond = sheet.painted(
                "chart-channels", place + 1, [(x, 0.5 * v), (x, v + 0.06 * top * np.sign(v))]
            )
            expected = (UP if certain else PALE_UP) if v >= 0 else (DOWN if certain else PALE_DOWN)
            assert np.abs(np.subtract(rgb(inside), rgb(expected))).max() <= 3
            assert beyond in {EMPTY, FAINT}  # a line of the grid
            checked += 1
    assert checked > 10


def test_error_bars_end_at_the_interval(visit):
    sheet = visit("classifier")
    case, checked = sheet.case, 0
    timing = case.explanations["timing"]
    for number in case.ids[:3]:
        sheet.choose(number)
        row = case.row(number)
        high = timing.interval(0.95)[1][row].numpy()
        for d, place in drawn_channels(sheet, 4).items():
            bottom, top = sheet.plots("chart-channels")[place + 1]["y"]
            pixel = (top - bottom) / 58
            for t in case.observed(row)[:, d].nonzero().flatten().tolist():
                v, end = float(timing.values[row, t, d]), float(high[t, d])
                if t == int(sheet.value("cursor")) or v < pixel or end - v < 1.5 * pixel or end + 2 * pixel > top:
                    continue  # too short, or it may leave the picture, and is cut
                places = [(t, (v + end) / 2), (t, end + 1.5 * pixel)]
                inside, beyond = sheet.painted("chart-channels", place + 1, places)
                assert (inside != EMPTY, beyond) == (True, EMPTY)
                checked += 1
    assert checked > 5


@BOTH_WIDTHS
def test_curves_follow_the_model_as_values_go(visit):
    sheet = visit("classifier")
    case = sheet.case
    sheet.choose(43)
    row = case.row(43)
    target = int(case.first.target[row])
    total = int(case.observed(row).sum())
    for method in case.explanations:
        sheet.by(method)
        said = [float(case.without(method, row, count)[target]) for count in range(total + 1)]
        still = [c for c in range(total + 1) if abs(said[c] - said[-1]) > (max(said) - min(said)) / 10]
        end = float(sheet.find("#chart-removal").get_attribute("data-last"))
        assert max(still) < end <= total  # to where the chosen one still moves, and a bit more
    (plot,) = sheet.plots("chart-removal")
    counts, *curves = plot["data"]
    assert counts[-1] == end
    for method, curve in zip(case.explanations, curves, strict=True):
        expected = [float(case.without(method, row, count)[target]) for count in counts[::4]]
        assert curve[::4] == pytest.approx(expected, abs=1e-5)


def test_the_truth_is_marked(visit):
    sheet = visit("classifier")
    case = sheet.case
    sheet.choose(44)
    for d, place in drawn_channels(sheet, 4).items():
        low, high = sheet.plots("chart-channels")[place]["y"]
        bottom = low + (high - low) / 58
        steps = [t for t in range(20) if t != int(sheet.value("cursor"))]
        found = sheet.painted("chart-channels", place, [(t + 0.2, bottom) for t in steps])
        marked = {t for t, colour in zip(steps, found, strict=True) if colour == palette.TRUTH}
        assert marked == {t for t in steps if case.split.truth[case.row(44), t, d]}
    assert sheet.find("#key-truth").is_visible()
    assert not visit("binary").find("#key-truth").is_visible()


WATCH = """() => { const pen = CanvasRenderingContext2D.prototype, {fillText: write, clearRect: wipe} = pen;
    window.texts = new Map();
    pen.clearRect = function (...box) { texts.set(this.canvas, []);
        return wipe.apply(this, box); };
    pen.fillText = function (text, x, y) {
        const size = this.measureText(text), at = this.getTransform(),
            far = (a, b) => [at.a * a + at.c * b + at.e, at.b * a + at.d * b + at.f],
            ends = [far(x - size.actualBoundingBoxLeft, y - size.actualBoundingBoxAscent),
                far(x + size.actualBoundingBoxRight, y + size.actualBoundingBoxDescent)],
            side = (k, pick) => pick(...ends.map(end => end[k]));
        if (!texts.has(this.canvas)) texts.set(this.canvas, []);
        const box = [side(0, Math.min), side(1, Math.min), side(0, Math.max), side(1, Math.max)];
        texts.get(this.canvas).push([text, ...box]);
        return write.call(this, text, x, y); }; }"""
COLLIDING = """() => [...texts].filter(([canvas]) => canvas.isConnected && canvas.checkVisibility())
    .flatMap(([canvas, all]) => all.flatMap(([text, left, top, right, bottom], i) => [
        ...(Math.min(left, top, canvas.width - right, canvas.height - bottom) < -1 ? [[text, "is cut"]] : []),
        ...all.slice(i + 1).filter(other => Math.min(right, other[3]) - Math.max(left, other[1]) > 1
            && Math.min(bottom, other[4]) - Math.max(top, other[2]) > 1).map(other => [text, other[0]])]))"""


@BOTH_WIDTHS
@pytest.mark.parametrize("name", ["ward_round", "stamped", "per_step"])
def test_no_word_of_a_picture_lies_over_another_or_is_cut(visit, name):
    sheet = visit(name)
    sheet.page.evaluate(WATCH)
    for view in ("series", "summary"):
        sheet.view(view).unfold().find("#theme").click()  # which draws anew
        sheet.settle()
        assert sheet.page.evaluate(COLLIDING) == []
        assert sheet.page.evaluate("texts.size") > 3
    sheet.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    sheet.settle()
    assert sheet.page.evaluate(COLLIDING) == []


@BOTH_WIDTHS
def test_removed_values_are_crossed_out(visit):
    sheet = visit("classifier")
    case = sheet.case
    sheet.choose(45)
    row = case.row(45)
    places = drawn_channels(sheet, 4)
    sheet.set("removal", 7)
    sheet.set("cursor", next(t for t in range(20) if t not in {cell[0] for cell in case.order("timing", row)[:7]}))
    shown, seen = case.shown()[row], case.observed(row)
    crossed = set()
    for d, place in places.items():
        cells = [(t, float(shown[t, d])) for t in seen[:, d].nonzero().flatten().tolist()]
        found = sheet.painted("chart-channels", place, cells)
        crossed |= {(t, d) for (t, _), colour in zip(cells, found, strict=True) if colour == palette.REMOVED}
    assert crossed == set(case.order("timing", row)[:7])


@BOTH_WIDTHS
def test_the_pointer_reads_values_scores_and_intervals(visit):
    sheet = visit("classifier")
    case = sheet.case
    sheet.choose(41)
    row, timing = case.row(41), case.first
    low, high = timing.interval(0.95)
    places = drawn_channels(sheet, 4)
    for d, step in ((1, 2), (3, 18)):
        name, value, score = sheet.pointed("chart-channels", places[d], (step + 0.5) / 20)[:3]
        assert name.endswith(f"step {step}")
        assert name.startswith(timing.channels[d][:50])
        assert written(value.removeprefix("value: ")) == pytest.approx(float(case.shown()[row, step, d]), rel=6e-3)
        assert value.endswith(case.options["units"][d])
        found = [written(part) for part in re.split(r"95 %:| to ", score.removeprefix("timing: "))]
        expected = [float(part[row, step, d]) for part in (timing.values, low, high)]
        assert found == pytest.approx(expected, rel=6e-3, abs=float(timing.values[row].abs().max()) / 2e4)
    assert "value: not observed" in sheet.pointed(
        "chart-channels", places[0] + 1, 4.5 / 20
    )  # it lacks steps 3 to 5
