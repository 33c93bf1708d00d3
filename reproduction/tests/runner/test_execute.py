"""A cell against the same steps done by hand with the public functions."""

import platform
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import tempograd as tg
from reproduction.tests.helpers.plans import MEASURES, content, plan
from tempograd.core.errors import TempogradWarning
from tempograd.data import DATASETS, Series
from tempograd.models import build
from tempograd_paper.protocols import settings
from tempograd_paper.protocols.series import evenly
from tempograd_paper.released import released, released_metric, train_as_released
from tempograd_paper.runner import Record, execute, run_cells
from tempograd_paper.runner.execute import _scores
from tempograd_paper.runner.store import Store
from tempograd_paper.runner.watching import collected


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("run")


def record_of(cell, folder):
    outcome = run_cells([cell], folder, root=None, device="cpu")
    assert not outcome.failed
    return Record.load(Store(folder).record_path(cell))


def by_hand(protocol):
    data = DATASETS["toy"](fold=0)
    train = train_as_released if protocol == "published" else tg.train
    model = train("gru", data, seed=42, options={"hidden": 4}, epochs=1, learning_rate=0.01)
    test = data.test.take([0, 6, 13])
    return data, model, test


def test_published_cells_use_the_paper_s_settings_and_measures(folder, monkeypatch):
    monkeypatch.setitem(settings.STAND_INS, "toy", "state")
    (cell,) = plan("published", ("integrated_gradients",)).cells()
    record = record_of(cell, folder)
    _, model, test = by_hand("published")
    found = tg.explain(model, tg.Series(test.x, ids=test.ids), released("integrated_gradients", "state"), seed=42)
    cpd = released_metric("cpd")
    torch.testing.assert_close(record.scores["cpd_zero"], tg.evaluate(model, found, metrics=[cpd], k=0.1)["cpd"])
    average = tg.evaluate(model, found, metrics=[cpd], k=5, baseline="average")["cpd"]
    torch.testing.assert_close(record.scores["cpd_average"], average)
    pooled = tg.evaluate(model, found, metrics=[tg.METRICS["aup"](pooled=True)], truth=test.truth)["aup"]
    torch.testing.assert_close(record.scores["aup"], pooled.reshape(1))
    assert record.ids.tolist() == test.ids.tolist()
    assert record.facts["parameters"]["quirks"] == ["A6", "B7"]
    assert record.facts["model"]["accuracy"] == tg.accuracy(model, DATASETS["toy"]().test)


def test_fair_cells_sum_over_classes_and_score_series_by_series(folder):
    (cell,) = plan("fair", ("integrated_gradients",)).cells()
    record = record_of(cell, folder)
    _, model, test = by_hand("fair")
    found = tg.explain(model, tg.Series(test.x, ids=test.ids), "integrated_gradients", seed=42)
    expected = tg.evaluate(model, found, metrics=["cpd", "aup"], k=0.1, truth=test.truth)
    torch.testing.assert_close(record.scores["cpd_zero"], expected["cpd"])
    torch.testing.assert_close(record.scores["aup"], expected["aup"])
    removed = tg.evaluate(model, found, metrics=["accuracy"], k=0.2)["accuracy"]
    torch.testing.assert_close(record.scores["accuracy"], removed)
    assert record.facts["chosen"] is None


def test_fair_settings_are_those_with_the_highest_validation_cpd(folder):
    (cell,) = plan("fair", ("rand_ig",)).cells()
    record = record_of(cell, folder)
    data, model, _ = by_hand("fair")
    sample = evenly(data.validation, 100)
    scores = {}
    for p in (0.3, 0.5, 0.7):
        found = tg.explain(model, tg.Series(sample.x, ids=sample.ids), "rand_ig", p=p, seed=42)
        scores[p] = float(tg.evaluate(model, found, metrics=["cpd"])["cpd"].mean())
    assert record.facts["chosen"] == {"p": max(scores, key=scores.get)}
    assert len(set(scores.values())) > 1


def test_settings_of_the_plan_are_not_chosen_again(folder):
    (cell,) = plan("fair", ("rand_ig",)).cells()
    record = record_of(replace(cell, settings=(("p", 0.9),)), folder)
    assert record.facts["chosen"] is None
    assert record.facts["parameters"]["p"] == 0.9


def test_the_learning_rate_is_the_one_with_the_lowest_validation_loss(folder):
    (cell,) = plan("fair", ("random",), training=(("epochs", 1),)).cells()
    record = record_of(cell, folder)
    data = DATASETS["toy"](fold=0)
    losses = {
        rate: tg.train("gru", data, seed=42, options={"hidden": 4}, epochs=1, learning_rate=rate).facts[
            "validation_loss"
        ]
        for rate in (5e-4, 2e-3, 8e-3)
    }
    assert record.facts["model"]["learning_rate"] == min(losses, key=losses.get)
    assert record.facts["model"]["validation_loss"] == min(losses.values())


def test_signed_rank_reaches_the_metrics(folder):
    (cell,) = plan("fair", ("integrated_gradients",)).cells()
    signed = record_of(replace(cell, rank="signed"), folder)
    _, model, test = by_hand("fair")
    found = tg.explain(model, tg.Series(test.x, ids=test.ids), "integrated_gradients", seed=42)
    expected = tg.evaluate(model, found, metrics=[tg.METRICS["cpd"](rank="signed")], k=0.1)["cpd"]
    torch.testing.assert_close(signed.scores["cpd_zero"], expected)
    assert not torch.equal(signed.scores["cpd_zero"], record_of(cell, folder).scores["cpd_zero"])


def test_published_deep_lift_on_real_data_is_scored_through_a_second_softmax():
    """B4: probabilities became logits, which shrinks CPD."""
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 2))
    x = torch.randn(4, 6, 2, generator=torch.Generator().manual_seed(0))
    (cell,) = plan("published", ("random",)).cells()
    cell = replace(cell, measures=MEASURES[:1])
    found = tg.explain(model, x, "integrated_gradients")
    once = _scores(cell, model, {"zero": found}, Series(x, torch.zeros(4, dtype=torch.long)))["cpd_zero"]
    found.parameters["quirks"] = ["B4"]
    twice = _scores(cell, model, {"zero": found}, Series(x, torch.zeros(4, dtype=torch.long)))["cpd_zero"]

    def chances(series):
        return model(series).softmax(-1).softmax(-1)

    strongest = found.values.abs().flatten(1).argmax(1, keepdim=True)  # k = 0.1 of 12 cells is one cell
    without = x.flatten(1).scatter(1, strongest, 0.0).view_as(x)
    torch.testing.assert_close(twice, (chances(without) - chances(x)).abs().mean(-1).detach())
    assert bool((twice < 0.5 * once).all())


@pytest.mark.parametrize(("series", "expected"), [(None, 10), (20, 10), (3, [0, 3, 6]), (10, 10)])
def test_series_are_taken_evenly_because_files_are_sorted(series, expected):
    split = Series(torch.zeros(10, 2, 1), torch.zeros(10, dtype=torch.long))
    taken = evenly(split, series).ids.tolist()
    assert taken == (list(range(expected)) if isinstance(expected, int) else expected)


def test_an_explanation_made_before_is_used_again(folder, tmp_path):
    (cell,) = plan("fair", ("random",)).cells()
    run_cells([cell], tmp_path, root=None, device="cpu")
    store = Store(tmp_path)
    first = store.explanation_path(cell).stat().st_mtime_ns
    other = replace(cell, measures=MEASURES[:1])
    run_cells([other], tmp_path, root=None, device="cpu")
    assert store.explanation_path(other).stat().st_mtime_ns == first
    facts, _ = content(store.record_path(other))
    assert [each["name"] for each in facts["cell"]["measures"]] == ["cpd_zero"]
    torch.testing.assert_close(
        Record.load(store.record_path(other)).scores["cpd_zero"],
        Record.load(store.record_path(cell)).scores["cpd_zero"],
    )


def test_warnings_of_a_method_are_in_its_record(folder):
    (cell,) = plan("fair", ("timing",)).cells()
    record = record_of(replace(cell, settings=(("max_length", 6), ("min_length", 6), ("segments", 12))), folder)
    assert any("expect large errors" in message for message in record.facts["warnings"])


def test_only_the_library_s_warnings_are_collected_each_once():
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with collected() as messages:
            for text in ("b", "a", "b"):
                warnings.warn(text, TempogradWarning, stacklevel=1)
            warnings.warn("of somebody else", UserWarning, stacklevel=1)
    assert messages == ["a", "b"]


def test_times_are_told_apart(tmp_path, monkeypatch):
    clock = iter([0, 1, 3, 7, 15, 31, 63])  # around training, fitting, explaining and evaluating
    monkeypatch.setattr(execute, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    (cell,) = plan("fair", ("random",)).cells()
    record = record_of(cell, tmp_path)
    assert record.facts["seconds"] == {"train": 1, "fit": 7 - 3, "explain": 15 - 7, "evaluate": 63 - 31}
    assert record.facts["device"] == f"cpu ({platform.machine()})"
    assert record.facts["versions"] == {
        "tempograd": tg.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def test_the_seed_of_the_cell_is_that_of_the_explanation(folder):
    (cell,) = plan("fair", ("random",)).cells()
    record_of(cell, folder)
    _, model, test = by_hand("fair")
    kept, _ = Store(folder).explanation(cell)
    found = tg.explain(model, tg.Series(test.x, ids=test.ids), "random", seed=42)
    assert torch.equal(kept.values, found.values)
    assert (kept.seed, kept.ids.tolist()) == (42, test.ids.tolist())


def test_all_series_are_taken_as_they_are():
    split = Series(torch.zeros(4, 2, 1), torch.zeros(4, dtype=torch.long))
    assert evenly(split, 4) is split


@pytest.mark.parametrize("protocol", ["fair", "published"])
def test_models_learn_and_series_are_explained_on_the_device(protocol, monkeypatch):
    seen = []
    of_protocol = getattr(execute, protocol)
    name = "train" if protocol == "fair" else "train_as_released"
    monkeypatch.setattr(of_protocol, name, lambda *_, device, **__: seen.append(device))
    monkeypatch.setattr(of_protocol, "_validation_loss", lambda _: 0.0, raising=False)
    (cell,) = plan(protocol, ("random",)).cells()
    data = DATASETS["toy"](fold=0)
    getattr(of_protocol, f"train_{protocol}_model")(cell, data, "meta")

    def explain(model, x, **options):
        """Explain nothing."""

    made = (explain, None) if protocol == "fair" else explain
    monkeypatch.setattr(of_protocol, f"make_{protocol}_explainer", lambda *_: made)
    to, numbers = torch.Tensor.to, data.test.x

    def noted(self, *place, **options):
        if self is numbers and "meta" in place:
            seen.append(place[0])
            return self  # a device without numbers, which series are refused on
        return to(self, *place, **options)

    monkeypatch.setattr(torch.Tensor, "to", noted)
    execute._explain(cell, None, data, data.test, "meta")
    assert seen == ["meta", "meta"]


def test_an_explanation_outlives_a_measure_that_fails(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("made for the test")

    (cell,) = plan("fair", ("random",)).cells()
    with monkeypatch.context() as patch:
        patch.setattr(execute, "measure", broken)
        assert run_cells([cell], tmp_path, root=None, device="cpu").failed
    monkeypatch.setattr(execute, "_explain", None)  # it is not to be explained again
    assert not any(record_of(cell, tmp_path).facts["parameters"].values())


def test_published_metrics_look_at_all_steps_whatever_was_explained():
    """B6: the released masks of State explain the last step, and are scored on every step."""
    model = build("gru", 2, 2, per_step=True, hidden=4)
    x = torch.randn(4, 6, 2, generator=torch.Generator().manual_seed(0))
    last = tg.explain(model, x, "integrated_gradients", steps=5)
    split = Series(x, torch.zeros(4, 6, dtype=torch.long))
    (cell,) = plan("published", ("random",)).cells()
    cell = replace(cell, measures=MEASURES[:1])
    everywhere = tg.evaluate(model, replace(last, steps=None), metrics=[released_metric("cpd")])
    torch.testing.assert_close(_scores(cell, model, {"zero": last}, split)["cpd_zero"], everywhere["cpd"])
    own = _scores(replace(cell, protocol="fair"), model, {"zero": last}, split)["cpd_zero"]
    torch.testing.assert_close(own, tg.evaluate(model, last, metrics=["cpd"])["cpd"])
    assert not torch.allclose(own, 2 * everywhere["cpd"])
