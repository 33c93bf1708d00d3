"""The fair protocol: masks count, choices are made on validation series, nothing learns from the test series."""

from dataclasses import replace

import pytest
import torch

import tempograd as tg
from reproduction.tests.helpers.plans import MEASURES, WARD, load_ward, plan
from tempograd.core.errors import ModelError, SettingError
from tempograd.data import DATASETS
from tempograd.models import build
from tempograd_paper.protocols import fair
from tempograd_paper.runner import Record, execute, run_cells
from tempograd_paper.runner.store import Store


@pytest.fixture(autouse=True)
def ward(monkeypatch):
    monkeypatch.setitem(DATASETS._entries, "ward", WARD)


@pytest.fixture(scope="module")
def model():
    return build("gru", 2, 2, hidden=4, seed=3).eval()


@pytest.fixture(scope="module")
def data():
    return load_ward(fold=0)


def cell_of(method, **changes):
    (cell,) = plan("fair", (method,), datasets=("ward",)).cells()
    return replace(cell, **({"measures": MEASURES[:3]} | changes))


def weights(network):
    return torch.cat([weight.flatten() for weight in network.state_dict().values()])


def cpd_by_hand(model, explainer, sample, **settings):
    """Return the mean CPD of the most important tenth of the observed cells."""
    found = explainer(model, tg.Series(sample.x, mask=sample.mask, ids=sample.ids), seed=42)
    return float(tg.evaluate(model, found, metrics=[tg.METRICS["cpd"](k=0.1, **settings)])["cpd"].double().mean())


def test_masks_reach_explainers_and_metrics(tmp_path, data):
    cell = cell_of("rand_ig", settings=(("p", 0.5),))
    assert not run_cells([cell], tmp_path, root=None, device="cpu").failed
    store = Store(tmp_path)
    model, test = store.model(cell, "cpu"), data.test.take([0, 3, 6])
    found = tg.explain(model, tg.Series(test.x, mask=test.mask, ids=test.ids), "rand_ig", p=0.5, seed=42)
    kept, _ = store.explanation(cell)
    torch.testing.assert_close(kept.values, found.values)
    assert torch.equal(kept.mask, test.mask)
    assert bool((kept.values[~test.mask] == 0).all())
    scores = Record.load(store.record_path(cell)).scores
    average = tg.evaluate(model, found, metrics=["cpd"], k=5, baseline="average")["cpd"]
    torch.testing.assert_close(scores["cpd_average"], average)
    blind = replace(found, mask=None)
    assert not torch.allclose(average, tg.evaluate(model, blind, metrics=["cpd"], k=5, baseline="average")["cpd"])


@pytest.mark.parametrize("rank", ["absolute", "signed"])
def test_candidates_are_scored_by_cpd_on_what_was_observed(model, data, rank):
    sample, explainer = data.validation, tg.RandIG(p=0.3)
    found = fair._validation_cpd(cell_of("rand_ig", rank=rank), explainer, model, sample)
    expected = cpd_by_hand(model, explainer, sample, rank=rank)
    assert found == pytest.approx(expected, rel=1e-6)
    blind = replace(sample, mask=None)
    assert found != pytest.approx(cpd_by_hand(model, explainer, blind, rank=rank), rel=1e-3)


def test_the_first_of_the_best_candidates_is_taken(model, data, monkeypatch):
    scores = {0.2: 1.0, 0.4: 3.0, 0.6: 3.0, 0.8: 2.0}
    monkeypatch.setitem(fair.GRIDS, "rand_ig", [{"p": p} for p in scores])
    monkeypatch.setattr(fair, "_validation_cpd", lambda cell, explainer, *_: scores[explainer.p])
    explainer, chosen = fair.make_fair_explainer(cell_of("rand_ig"), model, data, data.validation)
    assert (explainer, chosen) == (tg.RandIG(p=0.4), {"p": 0.4})


def test_gradient_shap_is_tried_with_a_pool_and_without(model, data):
    cell, sample = cell_of("gradient_shap"), data.validation
    shap = tg.GradientShap
    scores = [
        cpd_by_hand(model, shap().fit(model, data.train.x), sample),
        cpd_by_hand(model, shap(noise=0.1), sample),
        cpd_by_hand(model, shap(noise=0.5), sample),
    ]
    candidates = [{"pool": True}, {"pool": False, "noise": 0.1}, {"pool": False, "noise": 0.5}]
    for _ in range(2):  # a choice must not use the candidates up
        explainer, chosen = fair.make_fair_explainer(cell, model, data, sample)
        assert chosen == candidates[scores.index(max(scores))]
        assert explainer.noise == chosen.get("noise", 0)
    with_pool, without, _ = (fair.fitted(cell, settings, model, data) for settings in candidates)
    assert torch.equal(with_pool.pool, data.train.x)
    assert with_pool.noise == 0
    assert (without.pool, without.noise) == (None, 0.1)


def test_methods_learn_from_the_training_series_only(model, data):
    winit = fair.fitted(cell_of("winit"), {"sampler": "marginal"}, model, data)
    assert torch.equal(winit.learnt, data.train.x)
    fit = fair.fitted(cell_of("fit"), {"epochs": 1}, model, data)
    expected = tg.EXPLAINERS["fit"](epochs=1).fit(model, data.train.x, seed=42)
    assert torch.equal(weights(fit.learnt), weights(expected.learnt))
    timex = fair.fitted(cell_of("timex"), {"epochs": 1}, model, data)
    expected = tg.EXPLAINERS["timex"](epochs=1).fit(model, data.train.x, seed=42)
    assert torch.equal(weights(timex.learnt), weights(expected.learnt))
    assert fair.fitted(cell_of("occlusion"), {}, model, data).means is None  # one baseline for all methods


def test_a_candidate_that_does_not_fit_the_series_is_skipped(model, data, monkeypatch):
    scores = {0.4: 1.0, 0.6: 2.0}
    monkeypatch.setitem(fair.GRIDS, "rand_ig", [{"p": 0.4}, {"p": 3.0}, {"p": 0.6}])
    monkeypatch.setattr(fair, "_validation_cpd", lambda cell, explainer, *_: scores[explainer.p])
    assert fair.make_fair_explainer(cell_of("rand_ig"), model, data, data.validation)[1] == {"p": 0.6}


def test_a_candidate_that_cannot_explain_the_series_is_skipped(model, data, monkeypatch):
    long = {"min_length": 16, "max_length": 16}  # the series have fifteen steps, which the first call finds
    monkeypatch.setattr(fair, "_candidates", lambda *_: [long, {"segments": 2}])
    assert fair.make_fair_explainer(cell_of("timing"), model, data, data.validation)[1] == {"segments": 2}


def test_no_candidate_left_is_told(model, data, monkeypatch):
    monkeypatch.setitem(fair.GRIDS, "rand_ig", [{"p": 2.0}, {"p": 3.0}])
    with pytest.raises(SettingError, match=r"^No setting of rand_ig fits series of 15 steps\.$"):
        fair.make_fair_explainer(cell_of("rand_ig"), model, data, data.validation)


def test_another_error_of_a_candidate_is_not_hidden(model, data, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("made for the test")

    monkeypatch.setattr(fair, "_validation_cpd", broken)
    with pytest.raises(ZeroDivisionError, match="made for the test"):
        fair.make_fair_explainer(cell_of("rand_ig"), model, data, data.validation)


@pytest.mark.parametrize(
    ("steps", "short", "long"),
    [(48, (1, 4), (4, 24)), (152, (1, 15), (15, 76)), (12, (1, 2), (2, 6)), (3, (1, 2), (2, 2))],
)
def test_timing_is_tried_with_its_own_short_and_long_segments(steps, short, long):
    lengths = [{"min_length": low, "max_length": high} for low, high in (short, long)]
    assert fair._candidates("timing", steps) == [{}, *lengths]


def test_methods_without_a_grid_are_not_chosen(model, data):
    explainer, chosen = fair.make_fair_explainer(cell_of("integrated_gradients"), model, data, data.validation)
    assert (explainer, chosen) == (tg.IntegratedGradients(), None)


def test_a_grid_of_one_is_taken_without_a_choice(model, data):
    explainer, chosen = fair.make_fair_explainer(cell_of("winit"), model, data, data.validation)
    assert (explainer.sampler, chosen) == ("marginal", None)
    assert torch.equal(explainer.learnt, data.train.x)


def test_every_candidate_is_a_setting_of_its_method():
    for method, grid in fair.GRIDS.items():
        for candidate in grid:
            changes = {name: value for name, value in candidate.items() if name != "pool"}
            made = replace(tg.EXPLAINERS[method](), **changes)
            assert {name: made.parameters[name] for name in changes} == changes


@pytest.mark.parametrize("held_out", [True, False])
def test_settings_are_chosen_on_some_validation_series(model, data, monkeypatch, held_out):
    seen = []

    def spy(cell, model, data, sample):
        seen.append(sample)
        return tg.IntegratedGradients(), {"n_steps": 50}

    monkeypatch.setattr(fair, "make_fair_explainer", spy)
    monkeypatch.setattr(fair, "VALIDATION", 2)
    whole = data if held_out else replace(data, validation=None)
    _, noted = execute._explain(cell_of("integrated_gradients"), model, whole, data.test, "cpu")
    source = data.validation if held_out else data.train
    assert seen[0].ids.tolist() == [int(source.ids[0]), int(source.ids[len(source) // 2])]
    assert noted["chosen"] == {"n_steps": 50}


def test_what_is_tried_stays_what_it_is():
    """No key of a record depends on these, so records of old runs would stay: a change must be meant."""
    assert (fair.VALIDATION, fair.LEARNING_RATES) == (100, (5e-4, 2e-3, 8e-3))
    assert fair.GRIDS == {
        "rand_ig": [{"p": 0.3}, {"p": 0.5}, {"p": 0.7}],
        "gradient_shap": [{"pool": True}, {"pool": False, "noise": 0.1}, {"pool": False, "noise": 0.5}],
        "lime": [{}, {"alpha": 0.001}],
        "winit": [{"sampler": "marginal"}],
        "dynamask": [{}, {"deletion": True}],
        "extremal_mask": [{}, {"mask_weight": 1.0}, {"deletion": True}],
        "contralsp": [{}, {"mask_weight": 0.1}],
    }


def test_the_plan_s_learning_rate_and_sizes_are_used(tmp_path, data):
    cell = cell_of("random", training=(("epochs", 2), ("learning_rate", 0.03)), sizes=(("hidden", 5),), seed=6)
    assert not run_cells([cell], tmp_path, root=None, device="cpu").failed
    expected = tg.train("gru", data, seed=6, options={"hidden": 5}, epochs=2, learning_rate=0.03, device="cpu")
    assert torch.equal(weights(Store(tmp_path).model(cell, "cpu")), weights(expected))


def test_the_model_s_quality_is_that_on_the_test_series(tmp_path, data):
    cell = cell_of("random")
    run_cells([cell], tmp_path, root=None, device="cpu")
    model = Store(tmp_path).model(cell, "cpu")
    facts = Record.load(Store(tmp_path).record_path(cell)).facts["model"]
    share = {}
    for part in (data.train, data.validation, data.test):
        guesses = model(part.x).argmax(-1).tolist()
        share[len(part)] = sum(a == b for a, b in zip(guesses, part.y.tolist(), strict=True)) / len(part)
    assert list(share) == [24, 6, 10]
    assert facts["accuracy"] == share[10]
    assert share[10] not in {share[24], share[6]}
    ones = int(data.test.y.sum())
    assert facts["majority"] == max(ones, 10 - ones) / 10


def test_a_learning_rate_that_diverges_is_left_out(monkeypatch):
    (cell,) = plan("fair", ("random",), training=(("epochs", 1),)).cells()
    data = DATASETS["toy"](fold=0)
    whole = fair.train_fair_model(cell, data, "cpu")
    usual, best = fair.train, whole.facts["recipe"]["learning_rate"]

    def train(*arguments, learning_rate, **named):
        if learning_rate in broken:
            raise ModelError("The training loss became nan.")
        return usual(*arguments, learning_rate=learning_rate, **named)

    monkeypatch.setattr(fair, "train", train)
    broken = {best}
    assert fair.train_fair_model(cell, data, "cpu").facts["recipe"]["learning_rate"] != best
    broken = set(fair.LEARNING_RATES)
    with pytest.raises(ModelError, match=r"gru cannot be trained on toy at any rate of 0.0005, 0.002, 0.008\."):
        fair.train_fair_model(cell, data, "cpu")
