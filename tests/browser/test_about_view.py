"""What the page says about itself: what the marks mean, what they cannot tell, and where the numbers come from."""

import pytest

import tempograd as tg

pytestmark = pytest.mark.browser


def test_where_the_numbers_come_from(visit):
    sheet = visit("classifier").view("about")
    for label, explanation in sheet.case.explanations.items():
        (part,) = sheet.find(".provenance section").filter(has=sheet.find(f"h3:text-is('{label}')")).all()
        said = " ".join(part.inner_text().split())
        for fact in (explanation.method, explanation.fingerprint, f"seed {explanation.seed}", "baseline zero"):
            assert fact in said
        assert f"tempograd {tg.__version__}" in said
        idle = {"max_samples", "stop_when"}  # nobody asked to stop
        for name, value in explanation.parameters.items():
            assert (f"{name} = " in said) == (value not in (None, []) and name not in idle)
        assert ("n_samples = 20" in said) == (explanation.method == "timing")


def test_the_legend_explains_the_marks(visit):
    sheet = visit("classifier").view("about")
    said = sheet.text(".keys")
    marks = ["Orange", "Purple", "Pale", "Hatched: not observed", "Black marks", "Crosses"]
    assert [mark for mark in marks if mark not in said] == []
    assert "pushed the explained prediction up" in said
    assert "They explain the model, not the world." in sheet.text("#view-about .limits")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("classifier", "as a probability"),
        ("per_step", "summed over the steps"),
        ("regression", "the model's output, as the model returns it"),
    ],
)
def test_the_question_is_told(visit, name, said):
    assert said in visit(name).view("about").text("#view-about > p >> nth=0")


def test_a_report_without_a_model_says_what_it_lacks(visit):
    sheet = visit("bare")
    assert not sheet.find("#removing").is_visible()
    assert "No model was given" in sheet.view("summary").unfold().text("#view-summary")
