"""How sure the page says the scores are: the library's own words and numbers, and curves in the right place."""

import math

import pytest

from tempograd.views import palette
from tempograd.views.reader import reader_verdict

pytestmark = pytest.mark.browser


def capital(text):
    return f"{text[0].upper()}{text[1:]}."


def percent(error):
    return f"{float(f'{100 * error:.2g}'):g} %"


@pytest.mark.parametrize("name", ["stopping", "classifier", "binary", "single", "bare"])
def test_the_verdict_on_each_series_and_on_all(visit, name):
    """A badge that folds out to the sentence for readers; what one could type stands in the last tab."""
    sheet = visit(name)
    case, seen = sheet.case, set()
    for method, explanation in case.explanations.items():
        readable = " ".join(method.replace("_", " ").split())
        for row in range(len(case.ids)) if name == "stopping" else {0, len(case.ids) - 1}:
            if len(case.ids) > 1:
                sheet.choose(case.ids[row])
            sheet.by(method)
            badge, text = reader_verdict(explanation, row)
            sheet.find("#certainty").evaluate("e => { e.open = true; }")
            assert sheet.text("#badge") == badge.replace("unknown", "not known")
            assert sheet.text("#certainty-text") == f"How sure is {readable}? {capital(text)}"
            rough = badge not in {"converged", "exact"}
            assert ("rough" in sheet.find("#certainty").get_attribute("class").split()) == rough
            seen.add(badge)
            if explanation.relative_error is None:
                assert sheet.find("#certainty").get_attribute("data-error") == ""
            else:
                error = float(explanation.relative_error[row])
                assert sheet.number("#certainty", "error") == pytest.approx(error, rel=1e-5)
            if explanation.delta is not None:
                total = float(explanation.values[row].sum())
                assert sheet.number("#certainty", "total") == pytest.approx(total, rel=1e-4, abs=1e-6)
                assert sheet.number("#certainty", "delta") == pytest.approx(float(explanation.delta[row]))
            said = sheet.find("#sums").text_content() if explanation.delta is not None else ""
            assert ("the scores sum to " in said) == (explanation.delta is not None)
            assert ("does not promise" in said) == (explanation.delta is not None and method == "timing")
    assert name != "stopping" or seen == {"converged", "rough", "exact"}
    sheet.view("summary")
    for method, explanation in case.explanations.items():
        sheet.by(method, "summary-method")
        readable = " ".join(method.replace("_", " ").split())
        told = f"How sure is {readable}? {capital(reader_verdict(explanation).text)}"
        assert " ".join(sheet.find("#summary-certainty-text").text_content().split()) == told


def test_the_error_of_a_series_falls_to_the_goal(visit):
    sheet = visit("stopping").unfold()
    explanation = sheet.case.first
    points = explanation.curve_samples.tolist()
    goal = explanation.parameters["tolerance"]
    for row in (0, int(explanation.n_evals.argmin()), int(explanation.n_evals.argmax())):
        sheet.choose(row)
        errors = [error for error in explanation.curve_error[row].tolist() if not math.isnan(error)]
        (plot,) = sheet.plots("chart-convergence")
        across, aim, curve = plot["data"]
        assert across == points
        assert aim == pytest.approx([goal] * len(points))
        assert curve[: len(errors)] == pytest.approx(errors, rel=1e-5)
        assert curve[len(errors) :] == [None] * (len(points) - len(errors))
        assert plot["x"] == [points[0], points[-1]]
        assert plot["y"] == pytest.approx([min(*errors, goal) / 1.25, max(*errors, goal) * 1.25], rel=1e-5)
        first = sheet.pointed("chart-convergence", 0, 0.01)
        assert first == ["8 samples", f"error {percent(errors[0])}", "goal 4.5 %"]
        last = sheet.pointed("chart-convergence", 0, 0.99)
        reached = f"error {percent(errors[-1])}" if len(errors) == len(points) else "stopped before"
        assert last[:2] == ["256 samples", reached]


def test_the_error_of_all_series(visit):
    """The middle one and the band of nine in ten, each series with its last error after it stopped."""
    sheet = visit("stopping").view("summary").unfold()
    explanation = sheet.case.first
    kept = explanation.curve_error.clone()
    for row in range(len(kept)):
        seen = kept[row][~kept[row].isnan()]
        kept[row, len(seen) :] = seen[-1]
    ordered = kept.sort(0).values
    low, middle, high = ordered[0], ordered[4], ordered[8]  # of nine
    points = explanation.curve_samples.tolist()
    chart = "chart-convergence-all"
    (plot,) = sheet.plots(chart)
    for found, expected in zip(plot["data"][2:], (middle, low, high), strict=True):
        assert found == pytest.approx(expected.tolist(), rel=1e-5)
    assert palette.PALE[palette.DOWN] in sheet.colours(chart)[0]  # the band
    said = sheet.pointed(chart, 0, 0.01)
    assert said == [
        "8 samples",
        f"error {percent(float(middle[0]))}",
        f"nine of ten series: {percent(float(low[0]))} to {percent(float(high[0]))}",
        "goal 4.5 %",
    ]
    label = sheet.find(f"#{chart} > .plots").get_attribute("aria-label")
    ends = [f"{percent(float(middle[k]))} after {points[k]} samples" for k in (0, -1)]
    assert label == f"Error of the middle series: {', '.join(ends)}"


def test_nothing_is_drawn_where_nobody_looked(visit):
    sheet = visit("stopping").unfold()
    assert sheet.find("#how-sure").is_visible()
    sheet.by("integrated_gradients")
    assert not sheet.find("#how-sure").is_visible()
    sheet.view("summary").unfold()
    assert sheet.find("#all-sure").is_visible()
    sheet.by("integrated_gradients", "summary-method")
    assert not sheet.find("#all-sure").is_visible()
    other = visit("binary").unfold()
    assert not other.find("#how-sure").is_visible()
    assert not other.view("summary").find("#all-sure").is_visible()


def test_the_roughest_series_come_first_if_asked(visit):
    sheet = visit("binary")
    sheet.set("sort", "error")
    error = dict(zip(sheet.case.ids, sheet.case.first.relative_error.tolist(), strict=True))
    assert [int(name) for name in sheet.options("series")] == sorted(error, key=lambda name: -error[name])
    assert "error" not in visit("single").options("sort")
