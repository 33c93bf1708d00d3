"""The tuned protocol: one call tunes every method, and each is explained and removed against the same baseline."""

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch

import tempograd as tg
from reproduction.tests.helpers.plans import MEASURES, WARD, load_ward, plan
from tempograd.core.estimate import Estimate
from tempograd.data import DATASETS, Dataset, Series
from tempograd.models import build
from tempograd_paper.cell import Measure
from tempograd_paper.protocols import tuned
from tempograd_paper.protocols.series import tuned_on
from tempograd_paper.protocols.tuned import TuningSeries, make_tuned_explainer
from tempograd_paper.runner import Record, baselines, run_cells
from tempograd_paper.runner.store import Store
from tests.helpers.models import linear, series

BASELINES = ("zero", "average", "background")
CPDS = tuple(Measure(f"cpd_{name}", "cpd", 0.2, name) for name in BASELINES)


@pytest.fixture(autouse=True)
def ward(monkeypatch):
    monkeypatch.setitem(DATASETS._entries, "ward", WARD)


@pytest.fixture(scope="module")
def data():
    return load_ward(fold=0)


def cell_of(method, **changes):
    (cell,) = plan("tuned", (method,), datasets=("ward",)).cells()
    return replace(cell, **({"measures": CPDS} | changes))


def record_of(cell, folder):
    assert not run_cells([cell], folder, root=None, device="cpu").failed
    return Record.load(Store(folder).record_path(cell))


# A model for which everybody knows the right setting


@dataclass(frozen=True)
class OneChannel(tg.Explainer):
    """Calls one channel important and the others not, whatever the model says."""

    channel: int = 2
    needs_gradient: ClassVar[bool] = False
    takes_background: ClassVar[bool] = True

    @classmethod
    def grid(cls, shape):
        return [{"channel": 0}, {"channel": 1}]

    def attribute(self, ask):
        ask.read_all()
        values = torch.zeros(ask.x.shape)
        values[..., self.channel] = 1
        return [Estimate(values)]


class Sum(torch.nn.Module):
    """Three times the first channel, and the second; the third is ignored."""

    def forward(self, x):
        return torch.stack([torch.zeros(len(x)), (3 * x[..., 0] + x[..., 1]).sum(1) / 10], 1)


def known_answer():
    """Ones in the first channel, wherever one looks: of average and of other series it can tell nothing."""
    x = torch.randn(80, 6, 3, generator=torch.Generator().manual_seed(0))
    x[..., 0] = 1
    whole = Series(x, (x[..., 1].sum(1) > 0).long())
    train, validation, test = (whole.take(part) for part in (slice(40), slice(40, 60), slice(60, 80)))
    return Dataset("ward", train, validation, test, 2, ("a", "b", "c"))


@pytest.mark.parametrize(("baseline", "right"), [("zero", 0), ("average", 1), ("background", 1)])
def test_the_setting_that_is_right_for_a_baseline_is_chosen(monkeypatch, baseline, right):
    monkeypatch.setitem(tg.EXPLAINERS._entries, "one_channel", OneChannel)
    series = TuningSeries.of(known_answer(), "cpu")
    explainer, facts = make_tuned_explainer(cell_of("one_channel"), Sum().eval(), series, baseline)
    assert explainer == OneChannel(channel=right)
    assert facts["settings"] == {"channel": right}
    assert (facts["candidates"], facts["series"], facts["training_series"]) == (2, 60, 40)
    assert facts["verdict"].startswith(f"channel={right}: CPD ")
    assert 0 < facts["cost"] <= 30


# The same as one would write by hand


def by_hand(model, data, method, baseline):
    """Tune, explain and score as the handbook says, with nothing of the protocol."""
    parts = data.validation, data.train
    x, mask = torch.cat([part.x for part in parts]), torch.cat([part.mask for part in parts])
    pool = {"background": data.train.x}
    learns = pool if tg.EXPLAINERS[method].needs_fit or baseline == "background" else {}
    found = tg.tune(
        model, tg.Series(x, mask=mask), method, metric="cpd", budget=30, baseline=baseline, seed=42, **learns
    )
    test, against = data.test.take([0, 3, 6]), pool if baseline == "background" else {}
    exp = tg.explain(
        model,
        tg.Series(test.x, mask=test.mask, ids=test.ids),
        found.explainer,
        baseline=baseline,
        seed=42,
        **against,
    )
    return found, tg.evaluate(model, exp, metrics="cpd", k=0.2, baseline=baseline, **against)["cpd"]


@pytest.mark.parametrize("method", ["rand_ig", "augmented_occlusion"])
def test_choices_and_scores_are_those_of_the_library_by_hand(tmp_path, data, method):
    cell = cell_of(method)
    record = record_of(cell, tmp_path)
    model = Store(tmp_path).model(cell, "cpu")
    for baseline in BASELINES:
        found, scores = by_hand(model, data, method, baseline)
        torch.testing.assert_close(record.scores[f"cpd_{baseline}"], scores)
        facts = record.facts["chosen"][baseline]
        assert (facts["settings"], facts["verdict"]) == (found.settings, found.verdict())
        assert facts["cost"] == found.passes / found.unit
        assert record.facts["parameters"][baseline] == found.explainer.parameters
    values = [record.scores[measure.name] for measure in CPDS]
    assert not torch.allclose(values[0], values[1])
    assert not torch.allclose(values[0], values[2])


def test_what_has_nothing_to_choose_is_explained_against_each_baseline(tmp_path, data):
    cell = cell_of("integrated_gradients", measures=(*CPDS, MEASURES[2]))
    record = record_of(cell, tmp_path)
    model, test = Store(tmp_path).model(cell, "cpu"), data.test.take([0, 3, 6])
    for baseline in BASELINES:
        pool = {"background": data.train.x} if baseline == "background" else {}
        exp = tg.explain(
            model,
            tg.Series(test.x, mask=test.mask, ids=test.ids),
            "integrated_gradients",
            baseline=baseline,
            seed=42,
            **pool,
        )
        expected = tg.evaluate(model, exp, metrics="cpd", k=0.2, baseline=baseline, **pool)["cpd"]
        torch.testing.assert_close(record.scores[f"cpd_{baseline}"], expected)
    assert record.facts["chosen"] == dict.fromkeys(BASELINES)
    assert record.facts["left_out"] == {}


def test_known_importance_is_compared_with_the_explanation_against_zero(tmp_path):
    (cell,) = plan("tuned", ("occlusion",)).cells()
    cell = replace(cell, measures=(CPDS[1], CPDS[0], Measure("aup", "aup")))
    record = record_of(cell, tmp_path)
    test = DATASETS["toy"](fold=0).test.take([0, 6, 13])
    model = Store(tmp_path).model(cell, "cpu")
    found = {
        name: tg.explain(model, tg.Series(test.x, ids=test.ids), "occlusion", baseline=name, seed=42)
        for name in ("zero", "average")
    }
    aup = {name: tg.evaluate(model, exp, metrics="aup", truth=test.truth)["aup"] for name, exp in found.items()}
    torch.testing.assert_close(record.scores["aup"], aup["zero"])
    assert not torch.allclose(aup["zero"], aup["average"])


def test_settings_of_a_plan_are_not_tuned(data):
    cell = cell_of("rand_ig", settings=(("p", 0.4),))
    model = build("gru", 2, 2, hidden=4, seed=3).eval()
    found = make_tuned_explainer(cell, model, TuningSeries.of(data, "cpu"), "zero")
    assert found == (tg.RandIG(p=0.4), None)


class StoppedError(Exception):
    """Raised where a test has seen enough."""


def test_the_rank_of_a_row_is_what_it_is_tuned_for(data, monkeypatch):
    seen = []

    def stop(*_, metric, **__):
        seen.append(metric)
        raise StoppedError

    monkeypatch.setattr(tuned, "tune", stop)
    for rank in ("absolute", "signed"):
        with pytest.raises(StoppedError):
            make_tuned_explainer(cell_of("rand_ig", rank=rank), None, TuningSeries.of(data, "cpu"), "zero")
    assert [(metric.name, metric.rank) for metric in seen] == [("cpd", "absolute"), ("cpd", "signed")]
    keys = {cell_of("rand_ig", rank=rank).explanation_key_against("zero") for rank in ("absolute", "signed")}
    assert len(keys) == 2


# Series


def test_validation_series_come_first_and_training_series_fill_up(data):
    assert [len(data.validation), len(data.train)] == [6, 24]
    few, none = tuned_on(data, 3)
    assert (few.ids.tolist(), none) == (data.validation.ids[[0, 2, 4]].tolist(), 0)
    more, filled = tuned_on(data, 10)
    assert filled == 4
    assert torch.equal(more.x, torch.cat([data.validation.x, data.train.x[[0, 6, 12, 18]]]))
    assert torch.equal(more.mask, torch.cat([data.validation.mask, data.train.mask[[0, 6, 12, 18]]]))
    everything, filled = tuned_on(data, 100)
    assert (len(everything), filled) == (30, 24)
    alone, filled = tuned_on(replace(data, validation=None), 5)
    assert (alone.ids.tolist(), filled) == (data.train.ids[[0, 4, 9, 14, 19]].tolist(), 5)


def test_the_background_are_some_training_series_for_all_methods(data, monkeypatch):
    assert (tuned.POOL, tuned.BUDGET) == (1000, 30)
    monkeypatch.setattr(tuned, "POOL", 6)
    assert torch.equal(tuned.background_of(data, "cpu"), data.train.x[::4])


def test_methods_that_learn_learn_from_all_training_series(data, monkeypatch):
    monkeypatch.setattr(tuned, "POOL", 6)
    series = TuningSeries.of(data, "cpu")
    model = build("gru", 2, 2, hidden=4, seed=3).eval()
    winit, facts = make_tuned_explainer(cell_of("winit"), model, series, "background")
    assert torch.equal(winit.learnt, data.train.x)
    assert winit.sampler == "marginal"
    assert "sampler" not in facts["settings"]
    timex, nothing = make_tuned_explainer(cell_of("timex", settings=(("epochs", 1),)), model, series, "zero")
    expected = tg.EXPLAINERS["timex"](epochs=1).fit(model, data.train.x, seed=42)
    assert nothing is None
    for one, other in zip(timex.learnt.parameters(), expected.learnt.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_contrast_of_contralsp_is_a_candidate():
    assert {"contrastive": "triplet"} in tg.EXPLAINERS["contralsp"].grid((48, 3))


# What is kept


def test_models_are_those_of_the_fair_protocol_and_explanations_are_not(tmp_path, monkeypatch):
    cell = cell_of("integrated_gradients")
    fair = replace(cell, protocol="fair", measures=CPDS[:1])
    assert cell.model_key == fair.model_key
    assert cell.key != fair.key
    record_of(fair, tmp_path)
    monkeypatch.setattr("tempograd_paper.protocols.fair.train_fair_model", None)  # the model is there
    found = record_of(cell, tmp_path)
    assert torch.equal(found.scores["cpd_zero"], record_of(fair, tmp_path).scores["cpd_zero"])
    store = Store(tmp_path)
    paths = {store.explanation_path(cell, name) for name in BASELINES} | {store.explanation_path(fair)}
    assert set((tmp_path / "explanations").glob("*.safetensors")) == paths
    assert len(paths) == 4


def test_a_run_that_was_stopped_tunes_only_what_is_not_there(tmp_path, monkeypatch):
    cell = cell_of("rand_ig")
    first = record_of(cell, tmp_path)
    Store(tmp_path).record_path(cell).unlink()
    Store(tmp_path).explanation_path(cell, "average").unlink()
    usual, seen = tuned.tune, []
    monkeypatch.setattr(tuned, "tune", lambda *a, **k: seen.append(k["baseline"]) or usual(*a, **k))
    again = record_of(cell, tmp_path)
    assert seen == ["average"]
    for name in first.scores:
        assert torch.equal(first.scores[name], again.scores[name])
    assert first.facts["chosen"] == again.facts["chosen"]


def counted(monkeypatch, kind, name):
    """Return a list that the number of series of every call is added to."""
    usual, sizes = getattr(kind, name), []

    def spy(self, asked):
        sizes.append(len((asked[0] if isinstance(asked, list) else asked).x))
        return usual(self, asked)

    monkeypatch.setattr(kind, name, spy)
    return sizes


def test_what_compares_with_no_baseline_and_has_no_choice_learns_and_explains_once(tmp_path, monkeypatch):
    sizes = counted(monkeypatch, tg.EXPLAINERS["timex"], "attribute")
    record = record_of(cell_of("timex", settings=(("epochs", 1),), series=7), tmp_path)
    assert sizes == [7]
    assert set(record.facts["parameters"]) == set(BASELINES)
    assert len(list((tmp_path / "explanations").glob("*.safetensors"))) == 1


@pytest.mark.parametrize(("over", "times"), [(("any", "any", "any"), 1), (("any", "all", "any"), 2)])
def test_settings_that_are_chosen_for_two_baselines_are_explained_once(tmp_path, data, monkeypatch, over, times):
    """AFO compares with no baseline, but is tuned for each."""
    kind = tg.EXPLAINERS["augmented_occlusion"]
    names = {"any": kind().over, "all": "all"}
    sizes = counted(monkeypatch, kind, "attribute")

    def chosen(cell, model, series, baseline):
        value = names[over[BASELINES.index(baseline)]]
        return kind(over=value).fit(model, data.train.x), {"settings": {"over": value}}

    monkeypatch.setattr(tuned, "make_tuned_explainer", chosen)
    record = record_of(cell_of("augmented_occlusion"), tmp_path)
    assert sizes == [3] * times
    assert [record.facts["parameters"][name]["over"] for name in BASELINES] == [names[each] for each in over]
    assert record.facts["seconds"]["explain"] > 0


def test_a_method_that_cannot_compare_with_other_series_has_no_number_there(tmp_path):
    record = record_of(cell_of("dynamask", settings=(("epochs", 1),)), tmp_path)
    assert record.facts["left_out"] == {"background": "cannot compare with other series"}
    assert bool(record.scores["cpd_background"].isnan().all())
    assert not record.scores["cpd_zero"].isnan().any()
    assert set(record.facts["parameters"]) == {"zero", "average"}


def test_who_cannot_compare_with_other_series():
    shown = {name for name in tg.EXPLAINERS if tuned.refusal(name, "background")}
    assert shown == {"deep_lift", "dynamask", "extremal_mask", "contralsp"}
    assert not any(tuned.refusal(name, baseline) for name in tg.EXPLAINERS for baseline in ("zero", "average"))


def test_only_baselines_of_the_measures_are_asked(tmp_path, monkeypatch):
    seen = []
    usual = baselines._explain
    monkeypatch.setattr(baselines, "_explain", lambda *a: seen.append(a[4]) or usual(*a))
    record_of(cell_of("integrated_gradients", measures=CPDS[1:2]), tmp_path)
    assert seen == ["average"]


# TIMING is a family: the row that keeps to segments


def test_a_row_of_segments_tries_no_other_member(tmp_path, data):
    """By hand: the same call with a grid of its own; the family tries single cells and nothing held as well."""
    family, alone = (
        cell_of("timing", measures=CPDS[:1]),
        cell_of("timing", measures=CPDS[:1], settings=tuned.SEGMENTS),
    )
    records = [record_of(cell, tmp_path) for cell in (family, alone)]
    assert family.key != alone.key
    grid = tg.Timing.grid(data.test.x.shape[1:])
    assert {"IG", "RandIG", "segments"} == {tuned.member(each) for each in grid}
    grid = [each for each in grid if tuned.member(each) == "segments"]
    counts = [record.facts["chosen"]["zero"]["candidates"] for record in records]
    assert counts[1] < counts[0]
    model = Store(tmp_path).model(alone, "cpu")
    x, mask = (
        torch.cat([getattr(part, name) for part in (data.validation, data.train)]) for name in ("x", "mask")
    )
    found = tg.tune(
        model, tg.Series(x, mask=mask), "timing", metric="cpd", budget=30, baseline="zero", seed=42, grid=grid
    )
    assert records[1].facts["chosen"]["zero"]["verdict"] == found.verdict()


def test_segments_that_never_leave_a_step_are_not_tried():
    """Of 100 steps, segments of 33 to 50 that hold 97 % hold some steps always: no reason to tune nothing."""
    x = series(4, 100, 3)
    table = tg.tune(linear(100, 3), x, tuned.Segments(), budget=40).table
    assert any(each.setting.get("max_length") == 50 for each in table)
    assert not any(each.setting.get("held") == 0.97 and each.setting["max_length"] == 50 for each in table)
