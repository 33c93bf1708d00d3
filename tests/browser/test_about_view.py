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
        idle = {"tolerance", "max_samples", "stop_when"}  # empty, and nobody asked to stop
        for name in explanation.parameters:
            assert (f"{name} = " in said) == (name not in idle)
        assert ("n_samples = 20" in said) == (explanation.method == "timing")


@pytest.mark.parametrize(
    ("name", "has", "lacks"),
    [
        ("classifier", ["Orange", "Purple", "Pale", "Hatched: not observed", "Black marks", "Crosses"], []),
        ("binary", ["Orange", "Purple", "Pale", "Crosses"], ["Hatched:", "Black marks"]),
        ("single", ["Orange", "Crosses"], ["Purple", "Pale", "Hatched:", "Black marks"]),
        ("bare", ["Orange", "Pale"], ["Purple", "Hatched:", "Black marks", "Crosses"]),
    ],
)
def test_the_legend_explains_the_marks_that_occur(visit, name, has, lacks):
    sheet = visit(name).view("about")
    said = sheet.text(".keys")
    assert [mark for mark in has if mark not in said] == []
    assert [mark for mark in lacks if mark in said] == []
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
