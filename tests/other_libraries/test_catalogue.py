"""The check of other libraries' models can fail, and its page says what was found. Needs none of the libraries."""

import importlib

import pytest
import torch
from torch import nn

import tempograd as tg
from tests.other_libraries import check_models, models_page
from tests.other_libraries.catalogue.cases import CASES, Built, Case, case, walks

for group in check_models.GROUPS:
    importlib.import_module(f"tests.other_libraries.catalogue.{group}")


class Curved(nn.Module):
    """Two inputs, of which the first may be normalised by statistics that autograd does not see."""

    def __init__(self, *, detached=False):
        super().__init__()
        self.detached = detached

    def forward(self, series, static):
        scale = series.abs().mean((1, 2)) + 1
        scale = scale.detach() if self.detached else scale
        of_series = (series[:, -3:].sum((1, 2)) ** 2 + series.sum((1, 2))) / scale
        return (of_series + 100 * static.prod(1) + 50 * static[:, 0])[:, None]


X = {"series": walks(2, time=12), "static": torch.rand(4, 2) + 1}
LINES = 'exp = tg.explain(tg.Predictor(model, task="regression"), x, "{}")'


def built(model):
    return Built({"model": model, "x": X}, X, lambda z: model(**z)[:, 0])


def judged(model, method="integrated_gradients", *, flagged="", spoil=lambda values: values):
    """Judge lines whose scores were spoilt."""
    one = Case("torch", "Curved", LINES.format(method), lambda: built(model), flagged)
    made, found, _ = check_models.run_lines(one, one.lines)
    found = tg.Explanation(**{**vars(found), "values": spoil(found.values)})
    return check_models.judge(one, made, found)


@pytest.mark.parametrize(("method", "outcome"), [("integrated_gradients", "stated"), ("occlusion", "wrong")])
def test_right_scores_are_right_and_others_not(method, outcome):
    """Only a method whose scores have a known sum can state by itself how much is missing."""
    assert judged(Curved(), method)["outcome"] == "right"
    assert judged(Curved(), method, spoil=lambda values: 1.05 * values)["outcome"] == outcome
    assert judged(Curved(), method, spoil=torch.zeros_like)["outcome"] == "wrong"


@pytest.mark.parametrize("method", ["integrated_gradients", "occlusion"])
def test_scores_of_another_output_than_that_of_the_plain_forward_are_wrong(method):
    one = Case("torch", "Curved", LINES.format(method), lambda: built(Curved()))
    made, found, _ = check_models.run_lines(one, one.lines)
    other = made._replace(score=lambda z: 1.05 * made.score(z))
    assert check_models.judge(one, other, found)["outcome"] == "wrong"
    still = made._replace(score=lambda z: torch.zeros(4))
    assert check_models.judge(one, still, found)["outcome"] == "wrong"


def test_occlusion_is_compared_cell_by_cell_and_in_every_input():
    def swapped(values):
        values = values.clone()
        values[:, -1, 2:] = values[:, -1, 2:].flip(1)  # the static values
        return values

    assert judged(Curved(), "occlusion", spoil=swapped)["outcome"] == "wrong"


def test_gradients_of_another_function_are_told():
    found = judged(Curved(detached=True), flagged="detached")
    assert found["gap"] > check_models.MOST
    assert found["outcome"] == "told"
    assert judged(Curved(), flagged="detached")["outcome"] == "right, although it was said to fail"


def test_a_case_has_at_most_three_lines():
    with pytest.raises(ValueError, match="4 lines"):
        case("torch", "Long", "a = 1\nb = 2\nc = 3\nexp = d")


def test_what_is_kept_was_found_for_every_case_and_is_on_the_page():
    kept = models_page.kept()
    lines = {key: each.lines for key, each in CASES.items()}
    assert {(found["library"], found["model"]): found["lines"] for found in kept} == lines
    assert {found["outcome"] for found in kept} <= {"right", "told", "stated"}
    page = models_page.PAGE.read_text(encoding="utf-8")
    assert models_page.written(page, kept) == page
    assert len(kept) >= 14
    assert len({found["library"] for found in kept}) >= 6
