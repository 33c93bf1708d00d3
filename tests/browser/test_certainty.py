"""How sure the page says the scores are: the library's own words and numbers."""

import pytest

from tempograd.html_report.cards import STEADY
from tempograd.views.drivers import reader_verdict

pytestmark = pytest.mark.browser


def capital(text):
    return f"{text[0].upper()}{text[1:]}."


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
            assert sheet.text("#badge") == STEADY[badge][1]
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


def test_the_roughest_series_come_first_if_asked(visit):
    sheet = visit("binary")
    sheet.set("sort", "error")
    error = dict(zip(sheet.case.ids, sheet.case.first.relative_error.tolist(), strict=True))
    assert [int(name) for name in sheet.options("series")] == sorted(error, key=lambda name: -error[name])
    assert "error" not in visit("single").options("sort")
