"""What is drawn is what the library says: colours of maps, heights of bars, curves, marks of the truth."""

import re

import numpy as np
import pytest

from tempograd.views import palette
from tests.helpers.browser import BOTH_WIDTHS

pytestmark = pytest.mark.browser


def rgb(colour):
    return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]


SIGNED = [rgb(colour) for colour in (*reversed(palette.STOPS["down"]), *palette.STOPS["up"][1:])]
UNSIGNED = [rgb(colour) for colour in palette.STOPS["size"]]
VALUES = [rgb(colour) for colour in palette.INPUT]
UNSEEN = [-1, -1, -1]  # transparent: the hatching below is seen
UP, DOWN, INK = palette.UP, palette.DOWN, palette.INK
PALE_UP, PALE_DOWN = palette.PALE[UP], palette.PALE[DOWN]
BAR = re.compile(r"M([\d.]+) ([\d.]+)h([\d.]+)V([\d.]+)h")
ERROR = re.compile(r"M([\d.]+) ([\d.]+)V([\d.]+)")
POINT = re.compile(r"[ML]([\d.]+) ([\d.]+)")
RUN = re.compile(r"M([\d.]+) [\d.]+H([\d.]+)V")
CROSS = re.compile(r"M([\d.]+) ([\d.]+)l8 8")


def painted(values, stops, low, high, observed):
    """Return the colours of a map, (row, column, RGB), between evenly spaced stops."""
    share = np.clip((values - low) / (high - low), 0, 1)
    places = np.linspace(0, 1, len(stops))
    colours = np.stack([np.interp(share, places, [stop[band] for stop in stops]) for band in range(3)], -1)
    return np.where(observed[..., None], colours, UNSEEN)


def by_effect(explanation, row):
    """Return the channels of a series, the largest sum of sizes first."""
    return np.argsort(-explanation.values[row].abs().sum(0).numpy(), kind="stable")


def full_colour(values, observed):
    """Return the size that 98 % of the observed cells do not pass, or a quarter of the largest."""
    size = np.abs(values[observed])
    return max(np.quantile(size, 0.98, method="higher"), size.max() / 4)


def steps_of(panel, places, count):
    return [round((place - panel["left"]) / (panel["right"] - panel["left"]) * count - 0.5) for place in places]


def pixels_per_unit(sheet, panel):
    """Return how high a score of 1 is drawn, by the numbers beside the scores, which fill the lower half."""
    marks = [
        (written(text), float(y))
        for text, y in sheet.page.eval_on_selector_all(
            "#chart-channels > svg text[text-anchor=end]",
            "all => all.map(e => [e.textContent, e.getAttribute('y')])",
        )
        if panel["bottom"] - 56 <= float(y) - 3.5 <= panel["bottom"]
    ]
    (low, below), (high, above) = min(marks), max(marks)
    return (below - above) / (high - low)


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
        order = by_effect(explanation, row)
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
        names = sheet.page.eval_on_selector_all("#chart-map text title", "all => all.map(e => e.textContent)")
        named = explanation.channels or [f"channel {d}" for d in range(scores.shape[1])]
        assert names[: len(order)] == [named[d] for d in order]


def test_maps_of_the_methods_share_the_order_of_the_chosen_one(visit):
    sheet = visit("binary")
    case = sheet.case
    sheet.choose(30)
    row, seen = case.row(30), case.observed(case.row(30)).numpy()
    for chosen in case.explanations:
        sheet.by(chosen)
        order = by_effect(case.explanations[chosen], row)
        for found, explanation in zip(sheet.pixels("chart-methods"), case.explanations.values(), strict=True):
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
    order, values = by_effect(timing, row), timing.values[row].numpy()
    low, high = (limit[row].numpy() for limit in timing.interval(0.95))
    panels = sheet.panels("chart-channels")
    found = {}
    for path in sheet.paths("chart-channels"):
        for x, zero, wide, end in BAR.findall(path["d"]):
            (place,) = [i for i, panel in enumerate(panels) if panel["top"] <= float(zero) <= panel["bottom"]]
            (step,) = steps_of(panels[place], [float(x) + float(wide) / 2], 20)
            found[step, order[place]] = (float(zero) - float(end), path["fill"])
    assert set(found) == {(t, d) for t in range(20) for d in range(4) if case.observed(row)[t, d]}
    scale = pixels_per_unit(sheet, panels[0])
    for cell, (height, colour) in found.items():
        assert height == pytest.approx(scale * values[cell], abs=0.12, rel=0.01)
        certain = low[cell] > 0 or high[cell] < 0
        assert colour == ((UP if certain else PALE_UP) if values[cell] >= 0 else (DOWN if certain else PALE_DOWN))


def test_error_bars_end_at_the_interval(visit):
    sheet = visit("classifier")
    case = sheet.case
    sheet.choose(40)
    row, timing = case.row(40), case.explanations["timing"]
    order, full = by_effect(timing, row), float(timing.values[row].abs().max())
    low, high = (limit[row].numpy() for limit in timing.interval(0.95))
    panels, lines = sheet.panels("chart-channels"), sheet.paths("chart-channels", "path[opacity]")
    scale = pixels_per_unit(sheet, panels[0])
    assert len(lines) == 4
    drawn, expected = [], []
    for d, panel, line in zip(order, panels, lines, strict=True):
        for x, bottom, top in ERROR.findall(line["d"]):
            (step,) = steps_of(panel, [float(x)], 20)
            if max(-low[step, d], high[step, d]) < full:  # else it may leave the picture, and is cut
                drawn.append(float(bottom) - float(top))
                expected.append(scale * (high - low)[step, d])
    assert len(drawn) > 0.9 * int(case.observed(row).sum())
    assert drawn == pytest.approx(expected, abs=0.2, rel=0.02)
    assert sum(drawn) == pytest.approx(sum(expected), rel=0.03)  # each is short, and written to a tenth of a pixel


@BOTH_WIDTHS
def test_curves_follow_the_model_as_values_go(visit):
    sheet = visit("classifier")
    case = sheet.case
    sheet.choose(43)
    row = case.row(43)
    target = int(case.first.target[row])
    (panel,) = sheet.panels("chart-removal")
    total, ends = int(case.observed(row).sum()), {}
    for method in case.explanations:
        sheet.by(method)
        said = [float(case.without(method, row, count)[target]) for count in range(total + 1)]
        still = [c for c in range(total + 1) if abs(said[c] - said[-1]) > (max(said) - min(said)) / 10]
        ends[method] = float(sheet.find("#chart-removal").get_attribute("data-last"))
        assert max(still) < ends[method] <= total  # to where the chosen one still moves, and a bit more
    sheet.by("timing")
    last = ends["timing"]
    curves = sheet.paths("chart-removal", "path[stroke-width]")
    assert len(curves) == 2
    for method, curve in zip(case.explanations, curves, strict=True):
        points = [(float(x), float(y)) for x, y in POINT.findall(curve["d"])]
        assert len(points) > 20
        for x, y in points[::4]:
            count = round((x - panel["left"]) / (panel["right"] - panel["left"]) * last)
            probability = (panel["bottom"] - y) / (panel["bottom"] - panel["top"])
            assert probability == pytest.approx(float(case.without(method, row, count)[target]), abs=1e-3)


def test_the_truth_is_marked(visit):
    sheet = visit("classifier")
    case = sheet.case
    sheet.choose(44)
    order = by_effect(case.first, case.row(44))
    marks, panels = sheet.paths("chart-channels", "path.truth"), sheet.panels("chart-channels")
    assert len(marks) == 4
    for d, mark, panel in zip(order, marks, panels, strict=True):
        one = (panel["right"] - panel["left"]) / 20
        marked = set()
        for start, stop in RUN.findall(mark["d"]):
            first, last = steps_of(panel, [float(start) + one / 2, float(stop) - one / 2], 20)
            marked |= set(range(first, last + 1))
        assert marked == set(case.split.truth[case.row(44), :, d].nonzero().flatten().tolist())
    assert sheet.find("#key-truth").is_visible()
    assert not visit("binary").find("#key-truth").is_visible()


@BOTH_WIDTHS
def test_removed_values_are_crossed_out(visit):
    sheet = visit("classifier")
    case = sheet.case
    sheet.choose(45)
    row = case.row(45)
    sheet.set("removal", 7)
    order, panels = by_effect(case.first, row).tolist(), sheet.panels("chart-channels")
    crossed = set()
    for path in sheet.paths("chart-channels", "path.removed"):
        for x, y in CROSS.findall(path["d"]):
            place = next(i for i, panel in enumerate(panels) if panel["top"] <= float(y) + 4 <= panel["bottom"])
            crossed.add((*steps_of(panels[place], [float(x) + 4], 20), order[place]))
    assert crossed == set(case.order("timing", row)[:7])


@BOTH_WIDTHS
def test_the_pointer_reads_values_scores_and_intervals(visit):
    sheet = visit("classifier")
    case = sheet.case
    sheet.choose(41)
    row, timing = case.row(41), case.first
    low, high = timing.interval(0.95)
    order = by_effect(timing, row)
    for place, step in ((0, 2), (3, 18)):
        d = order[place]
        name, value, score = sheet.pointed("chart-channels", place, (step + 0.5) / 20)[:3]
        assert name.endswith(f"step {step}")
        assert name.startswith(timing.channels[d][:50])
        assert written(value.removeprefix("value: ")) == pytest.approx(float(case.shown()[row, step, d]), rel=6e-3)
        assert value.endswith(case.options["units"][d])
        found = [written(part) for part in re.split(r"95 %:| to ", score.removeprefix("timing: "))]
        expected = [float(part[row, step, d]) for part in (timing.values, low, high)]
        assert found == pytest.approx(expected, rel=6e-3, abs=float(timing.values[row].abs().max()) / 2e4)
    place = int(np.flatnonzero(order == 0)[0])  # this channel lacks steps 3 to 5
    assert "value: not observed" in sheet.pointed("chart-channels", place, 4.5 / 20)


@pytest.mark.parametrize("kind", ["push", "size"])
def test_the_summary_map_shows_means_over_the_series(visit, kind):
    sheet = visit("binary").view("summary")
    sheet.set("group-a", "explained:1")
    sheet.set("summary-kind", kind)
    timing = sheet.case.first
    values = timing.values[timing.target == 1].double().numpy()
    order = np.argsort(-np.abs(values).sum(1).mean(0), kind="stable")
    mean = values.mean(0) if kind == "push" else np.abs(values).mean(0)
    full = full_colour(mean, np.ones_like(mean, dtype=bool))
    stops, low = (SIGNED, -full) if kind == "push" else (UNSIGNED, 0)
    expected = painted(mean, stops, low, full, np.ones_like(mean, dtype=bool))[:, order].swapaxes(0, 1)
    (found,) = sheet.pixels("chart-summary-map")
    np.testing.assert_allclose(np.array(found), expected, atol=2)


def test_summary_bars_are_as_long_as_the_means(visit):
    sheet = visit("binary").view("summary").unfold()
    values = sheet.case.first.values.double().numpy()
    size, push = np.abs(values).sum(1).mean(0), values.sum(1).mean(0)
    order = np.argsort(-size, kind="stable")
    bars = [bar for bar in sheet.paths("chart-summary-channels", "rect") if bar.get("height") == "13"]
    expected = [value for d in order for value in (size[d], push[d])]
    scale = float(bars[0]["width"]) / expected[0]
    assert [float(bar["width"]) for bar in bars] == pytest.approx([scale * abs(v) for v in expected], abs=0.2)
    assert [bar["fill"] for bar in bars[1::2]] == [UP if push[d] >= 0 else DOWN for d in order]
