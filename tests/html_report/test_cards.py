"""The card of a series: drivers by what would be predicted without them, and how sure that is."""

from dataclasses import replace

import pytest
import torch

import tempograd as tg
from tempograd.views.prediction import percent_text
from tests.helpers.models import RunningMean, random_series
from tests.helpers.report_page import Page
from tests.views.test_as_usual import BOTH, NAMES, USUAL, gate, spikes


def page(path, model, found, **options):
    return Page(tg.report(path / "r.html", model, found, **options)).content


def test_rows_tell_what_plain_forwards_predict(tmp_path):
    model, x = gate("and"), spikes(*BOTH)
    found = tg.explain(model, x, target=1, n_samples=100)
    content = page(tmp_path, model, found, usual=USUAL)
    (card,) = content["maps"][0]["cards"]
    assert card["remarks"][0].startswith("The prediction needs both ")
    assert {row["d"] for row in card["rows"]} == {0, 1}
    for row in card["rows"]:
        z = x.x.clone()
        z[0, slice(*row["part"]), row["d"]] = USUAL.x[..., row["d"]].double().quantile(0.5).float()
        before, then = (float(model.model(each).softmax(-1)[0, 1]) for each in (x.x, z))
        assert (row["before"], row["then"]) == pytest.approx((before, then), abs=1e-5)
        assert row["text"] == f"{percent_text(before).removesuffix(' %')} → {percent_text(then)}"
    ends = torch.quantile(USUAL.x.flatten(0, 1).double(), torch.tensor([0.05, 0.95]).double(), dim=0)
    assert content["usual"][0] == pytest.approx(ends[0].tolist())
    assert content["usual"][1] == pytest.approx(ends[1].tolist())


def test_what_no_score_names_has_a_row_if_the_prediction_needs_it(tmp_path):
    model = gate("and")
    found = tg.explain(model, spikes(*BOTH), target=1, n_samples=100)
    values = found.values.clone()
    values[..., 0] = 0.0
    card = page(tmp_path, model, replace(found, values=values), usual=USUAL)["maps"][0]["cards"][0]
    (row,) = [row for row in card["rows"] if row["d"] == 0]
    assert (row["driver"], row["push"], row["part"]) == (None, "", [0, 20])
    assert row["then"] < 0.01


def test_without_a_model_rows_are_those_of_the_sentence(tmp_path):
    found = tg.explain(gate("sum"), spikes(*BOTH), target=1, n_samples=100)
    card = page(tmp_path, None, found)["maps"][0]["cards"][0]
    assert [NAMES[row["d"]] in found.describe(0) for row in card["rows"]] == [True] * len(card["rows"])
    assert not any("then" in row for row in card["rows"])
    assert card["remarks"] == []


def test_models_of_each_step_tell_means(tmp_path):
    x = random_series(2)
    found = tg.explain(RunningMean(), x, "integrated_gradients", target=1, steps=[0, 7, 9])
    content = page(tmp_path, RunningMean(), found)
    for i, card in enumerate(content["maps"][0]["cards"]):
        said = float(RunningMean()(x).softmax(-1)[i, [0, 7, 9], 1].mean())
        assert [row["before"] for row in card["rows"]] == pytest.approx([said] * len(card["rows"]), abs=1e-5)
        assert card["number"] == f"{100 * said:.0f} %"


def test_methods_agree_if_their_first_drivers_overlap(tmp_path):
    model = gate("sum")
    found = tg.explain(model, spikes(*BOTH), "integrated_gradients", target=1)

    def first_at(step, channel):
        values = torch.zeros_like(found.values)
        values[0, step, channel] = 1.0
        return replace(found, values=values)

    others = {"same": first_at(5, 0), "later": first_at(9, 0), "elsewhere": first_at(5, 1)}
    said = {
        ("same",): "methods agree on the first driver",
        ("later",): "methods name other first drivers",
        ("elsewhere",): "methods name other first drivers",
        ("same", "later", "elsewhere"): "1 of 3 other methods agree on it",
    }
    for names, words in said.items():
        named = {"mine": first_at(5, 0), **{name: others[name] for name in names}}
        card = page(tmp_path, None, named | {"random": replace(found, method="random")})["maps"][0]["cards"][0]
        assert [text for _, text in card["sure"]][1:] == [words]


@pytest.mark.parametrize(("cpd", "passed"), [(0.9, True), (0.5, False)])
def test_the_removal_test_compares_the_strongest_with_the_weakest(tmp_path, cpd, passed):
    found = tg.explain(gate("sum"), spikes(*BOTH), "integrated_gradients", target=1)
    scores = {found.method: {"cpd": torch.tensor([cpd]), "cpp": torch.tensor([0.3])}}
    card = page(tmp_path, None, found, scores=scores)["maps"][0]["cards"][0]
    assert card["sure"][-1] == [passed, f"removal test {'' if passed else 'not '}passed"]
