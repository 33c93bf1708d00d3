"""The published protocol: which series its explainers learn from, that masks are ignored, how it measures."""

from dataclasses import replace

import pytest
import torch

import tempograd as tg
from reproduction.tests.helpers.plans import MEASURES, WARD, load_toy, load_ward, plan
from tempograd.data import DATASETS
from tempograd.models import build
from tempograd_paper.protocols import published, settings
from tempograd_paper.released import released, released_metric, train_as_released
from tempograd_paper.runner import Measure, Record, run_cells
from tempograd_paper.runner.execute import metric
from tempograd_paper.runner.store import Store


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    """Explain the ward as MIMIC-III was explained, and the toy as State was."""
    monkeypatch.setitem(DATASETS._entries, "ward", WARD)
    monkeypatch.setitem(settings.STAND_INS, "ward", "mimic3")
    monkeypatch.setitem(settings.STAND_INS, "toy", "state")


def cell_of(method, dataset="ward", **changes):
    (cell,) = plan("published", (method,), datasets=(dataset,)).cells()
    return replace(cell, **({"measures": MEASURES[:3]} | changes))


def explainer_of(method, dataset, data, test=None, seed=42):
    """Make the explainer of a cell with one epoch of learning, and the same method not fitted yet."""
    quick = () if method in {"occlusion", "winit", "integrated_gradients"} else (("epochs", 1),)
    cell = cell_of(method, dataset, settings=quick, seed=seed)
    model = build("gru", 2, 2, per_step=data.per_step, hidden=4)
    plain = replace(released(method, settings.STAND_INS[dataset]), **dict(quick))
    return published.make_published_explainer(cell, model, data, data.test if test is None else test), plain, model


def weights(network):
    return torch.cat([weight.flatten() for weight in network.state_dict().values()])


def test_masks_of_missing_values_are_ignored(tmp_path):
    cell = cell_of("integrated_gradients")
    assert not run_cells([cell], tmp_path, root=None, device="cpu").failed
    store = Store(tmp_path)
    test, model = load_ward(fold=0).test.take([0, 3, 6]), store.model(cell, "cpu")
    found = tg.explain(model, tg.Series(test.x, ids=test.ids), released("integrated_gradients", "mimic3"), seed=42)
    torch.testing.assert_close(store.explanation(cell)[0].values, found.values)
    assert store.explanation(cell)[0].mask is None
    assert bool((found.values[~test.mask] != 0).all())
    scores = Record.load(store.record_path(cell)).scores
    cpd = released_metric("cpd")
    torch.testing.assert_close(scores["cpd_zero"], tg.evaluate(model, found, metrics=[cpd], k=0.1)["cpd"])
    average = tg.evaluate(model, found, metrics=[cpd], k=5, baseline="average")["cpd"]
    torch.testing.assert_close(scores["cpd_average"], average)
    masked = tg.explain(model, tg.Series(test.x, mask=test.mask, ids=test.ids), "integrated_gradients")
    assert not torch.allclose(average, tg.evaluate(model, masked, metrics=[cpd], k=5, baseline="average")["cpd"])


@pytest.mark.parametrize(("dataset", "load"), [("ward", load_ward), ("toy", load_toy)])
def test_occlusion_replaces_by_the_training_mean(dataset, load):
    data = load(fold=1)
    found, _, model = explainer_of("occlusion", dataset, data)
    mean = data.train.x.double().sum(0) / len(data.train)
    torch.testing.assert_close(found.means, mean)
    explanation = found(model, data.test.x[:2])
    torch.testing.assert_close(explanation.baseline, mean.float().expand(2, -1, -1))


def test_methods_that_need_no_series_get_none():
    found, plain, _ = explainer_of("integrated_gradients", "ward", load_ward(fold=0))
    assert found == plain
    assert cell_of("integrated_gradients").settings == ()


def test_fit_learns_from_the_explained_series_where_every_step_has_a_label():
    data = load_toy(fold=0)
    test = data.test.take([0, 3, 5, 9])
    found, plain, model = explainer_of("fit", "toy", data, test)
    assert torch.equal(weights(found.learnt), weights(plain.fit(model, test.x, seed=42).learnt))
    for other in (data.train, data.test):
        assert not torch.equal(weights(found.learnt), weights(plain.fit(model, other.x, seed=42).learnt))
    assert not torch.equal(weights(found.learnt), weights(plain.fit(model, test.x, seed=1).learnt))


def test_fit_learns_from_the_training_series_where_a_series_has_one_label():
    data = load_ward(fold=0)
    found, plain, model = explainer_of("fit", "ward", data)
    assert torch.equal(weights(found.learnt), weights(plain.fit(model, data.train.x, seed=42).learnt))


def test_winit_draws_from_the_training_series():
    data = load_ward(fold=0)
    assert torch.equal(explainer_of("winit", "ward", data)[0].learnt, data.train.x)


@pytest.mark.parametrize("method", ["timex", "timexpp"])
def test_timex_learns_from_the_whole_training_file_in_its_order(method):
    whole = load_ward()  # the file before a fold cuts it
    found, plain, model = explainer_of(method, "ward", whole.fold(2))
    expected = weights(plain.fit(model, whole.train.x, seed=42).learnt)
    assert torch.equal(weights(found.learnt), expected)
    assert not torch.equal(
        whole.train.x, torch.cat([part.x for part in (whole.fold(2).train, whole.fold(2).validation)])
    )
    without, *_ = explainer_of(method, "ward", whole)  # no fold, so nothing was held out
    assert torch.equal(weights(without.learnt), expected)
    only = weights(plain.fit(model, whole.fold(2).train.x, seed=42).learnt)
    assert not torch.equal(only, expected)


def test_models_are_trained_by_the_published_recipe(tmp_path):
    cell = cell_of("random", training=(("epochs", 2),), seed=7)
    assert not run_cells([cell], tmp_path, root=None, device="cpu").failed
    data = load_ward(fold=0)
    expected = train_as_released("gru", data, seed=7, options={"hidden": 4}, epochs=2, device="cpu")
    model = Store(tmp_path).model(cell, "cpu")
    assert torch.equal(weights(model), weights(expected))
    facts = Record.load(Store(tmp_path).record_path(cell)).facts["model"]
    # not chosen by it, but known: the loss of the held-out series after the last epoch
    chances = expected(data.validation.x).detach().softmax(-1)[torch.arange(6), data.validation.y]
    assert facts["validation_loss"] == pytest.approx(float(-chances.log().mean()), rel=1e-5)
    assert (facts["epochs"], facts["kept_epoch"], facts["learning_rate"]) == (2, 2, 1e-4)


@pytest.mark.parametrize("name", ["cpd", "cpp"])
def test_removal_scores_are_means_over_the_classes(name):
    """Protocol 3.2: half of the paper's sum for two classes."""
    model, x = build("gru", 2, 2, hidden=4).eval(), load_ward().test.x
    found = tg.explain(model, x, "integrated_gradients")
    cell, wanted = cell_of("random"), Measure("mine", name, 5)
    ours, sums = (metric(wanted, each) for each in (cell, replace(cell, protocol="fair")))
    scores = [tg.evaluate(model, found, metrics=[each])["mine"] for each in (ours, sums)]
    torch.testing.assert_close(2 * scores[0], scores[1])


@pytest.mark.parametrize("name", ["aup", "aur", "auroc", "auprc"])
def test_localisation_is_one_number_for_all_series(name):
    """Protocol 3.6: the cells of all series are thrown together."""
    data = load_toy()
    found = tg.explain(build("gru", 2, 2, per_step=True, hidden=4), data.test.x, "random")
    for protocol, count in (("published", 1), ("fair", len(data.test))):
        chosen = metric(Measure("mine", name), cell_of("random", protocol=protocol))
        assert tg.evaluate(found, found, metrics=[chosen], truth=data.test.truth)["mine"].numel() == count
