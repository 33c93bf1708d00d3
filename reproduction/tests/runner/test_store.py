"""The folder of a run: what each name depends on, what is read when, and files that are not whole."""

import json
import re
from dataclasses import asdict, replace

import pytest
import torch
from safetensors.torch import load_file, save_file

import tempograd as tg
from reproduction.tests.helpers.plans import load_ward, plan
from tempograd.core.errors import DataError, InputError, short_path
from tempograd.data import DATASETS, Loader
from tempograd.explanation import Explanation
from tempograd.models import build
from tempograd_paper.runner import Measure, Record, prepare, run_cells
from tempograd_paper.runner.plan import variant_of
from tempograd_paper.runner.store import Store


@pytest.fixture
def readings(monkeypatch):
    """Register a data set that is cut here and one with folds of its own; return what both were asked for."""
    seen = []
    monkeypatch.delenv("TEMPOGRAD_DATA", raising=False)

    def read(*, root=None, variant=None, fold=None):
        """Cut the series in two places, so that folds and variants differ."""
        seen.append((root, variant, fold))
        data = load_ward(fold=fold)
        return replace(data, test=data.test.take(slice(3))) if variant == "published" else data

    for name, own in (("cut", False), ("own", True)):
        monkeypatch.setitem(DATASETS._entries, name, Loader(read, ("right", "published"), own_folds=own))
    return seen


def cell_of(dataset="cut", **changes):
    (cell,) = plan(methods=("random",), datasets=(dataset,)).cells()
    return replace(cell, **changes)


def record_of(cell, **facts):
    scores = {measure.name: torch.tensor([0.5, 0.25]) for measure in cell.measures}
    return Record(cell, torch.arange(2), scores, facts)


def test_each_protocol_runs_on_its_version_of_the_data(readings):
    assert variant_of("cut", "published") == "published"
    assert variant_of("cut", "fair") == "right"
    assert variant_of("state", "published") == "redrawn"  # has none called published
    assert [cell_of("cut").variant, plan("published", ("random",), datasets=("cut",)).cells()[0].variant] == [
        "right",
        "published",
    ]


def test_one_file_serves_all_folds_of_a_data_set(readings, tmp_path):
    store = Store(tmp_path / "out")
    for fold in (3, 1):
        store.prepare(cell_of("cut", fold=fold), tmp_path)
    assert readings == [(tmp_path, "right", None)]
    for fold in (3, 1):
        found, expected = store.data(cell_of("cut", fold=fold)), load_ward(fold=fold)
        assert found.train.ids.tolist() == expected.train.ids.tolist()
        assert found.validation.ids.tolist() == expected.validation.ids.tolist()
        assert torch.equal(found.validation.x, expected.validation.x)


def test_folds_of_a_data_set_that_brings_them_lie_apart(readings, tmp_path):
    store = Store(tmp_path / "out")
    for fold in (3, 1, 3):
        store.prepare(cell_of("own", fold=fold), None)
    assert readings == [(None, "right", 3), (None, "right", 1)]
    for fold in (3, 1):
        assert (
            store.data(cell_of("own", fold=fold)).validation.ids.tolist()
            == load_ward(fold=fold).validation.ids.tolist()
        )


def test_data_of_recorded_cells_is_not_read_again(readings, tmp_path):
    done, waiting = cell_of("own", fold=1), cell_of("own", fold=2)
    record_of(done).save(Store(tmp_path).record_path(done))
    prepare([done, waiting], tmp_path, None)
    assert readings == [(None, "right", 2)]


def test_variants_lie_apart(readings, tmp_path):
    store = Store(tmp_path)
    for variant in ("right", "published"):
        store.prepare(cell_of("cut", variant=variant), None)
    assert [variant for _, variant, _ in readings] == ["right", "published"]
    assert len(store.data(cell_of("cut", variant="published")).test) == 3
    assert len(store.data(cell_of("cut")).test) == 10


def test_a_model_comes_back_where_it_shall_compute(tmp_path):
    cell = cell_of("toy")
    Store(tmp_path).save_model(cell, build("gru", 2, 2, hidden=4), {})
    assert {weight.device.type for weight in Store(tmp_path).model(cell, "cpu").parameters()} == {"cpu"}
    with pytest.raises(InputError, match="There is no device 'meta' here"):
        Store(tmp_path).model(cell, "meta")


@pytest.fixture
def explanation():
    data = load_ward(fold=0)
    return tg.explain(
        build("gru", 2, 2, hidden=4), tg.Series(data.test.x, mask=data.test.mask, ids=data.test.ids), "random"
    )


def test_an_explanation_is_kept_with_its_facts_and_without_its_series(tmp_path, explanation):
    store, cell = Store(tmp_path), cell_of("toy")
    assert store.explanation(cell) is None
    noted = {"chosen": {"p": 0.3}, "warnings": [], "seconds": {"explain": 1.5}}
    store.save_explanation(cell, explanation, noted)
    found, facts = store.explanation(cell)
    assert facts == noted
    assert torch.equal(found.values, explanation.values)
    assert torch.equal(found.mask, explanation.mask)
    assert found.x is None
    assert "x" not in load_file(store.explanation_path(cell))


def test_where_an_explanation_is_its_facts_are(tmp_path, explanation, monkeypatch):
    """A run that is killed between the two files must not leave an explanation without facts."""
    store, cell = Store(tmp_path), cell_of("toy")

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Explanation, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            store.save_explanation(cell, explanation, {"chosen": None})
    assert store.explanation_path(cell).with_suffix(".json").exists()
    assert store.explanation(cell) is None


def test_the_traceback_of_a_failure_goes_when_the_cell_succeeds(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("made for the test")

    (cell,) = plan(methods=("occlusion",)).cells()
    with monkeypatch.context() as patch:
        patch.setattr("tempograd.explainers.Occlusion.attribute", broken)
        outcome = run_cells([cell], tmp_path, root=None, device="cpu")
    assert outcome.failed == {cell: "ZeroDivisionError: made for the test"}
    (path,) = (tmp_path / "failures").iterdir()
    text = path.read_text()
    assert text.startswith("occlusion on toy/only, gru, fold 0\n\nTraceback (most recent call last):")
    assert text.endswith("ZeroDivisionError: made for the test\n")
    assert run_cells([cell], tmp_path, root=None, device="cpu").done == 1
    assert list((tmp_path / "failures").iterdir()) == []


def test_a_record_comes_back(tmp_path):
    measures = (Measure("cpd_zero", "cpd", 0.1), Measure("aup", "aup"))
    cell = cell_of("toy", settings=(("areas", (0.1, 1.0)),), rank="signed", series=None, measures=measures)
    scores = {"cpd_zero": torch.tensor([0.5, torch.nan]), "aup": torch.tensor([0.25])}
    record = Record(cell, torch.tensor([7, 3]), scores, {"b": 1, "a": {"deep": [None, "ü"]}})
    found = Record.load(record.save(tmp_path / "deep" / "r.safetensors"))
    assert found.cell == cell
    assert hash(found.cell) == hash(cell)
    assert found.ids.tolist() == [7, 3]
    assert found.facts == record.facts
    assert list(found.scores) == sorted(scores)
    for name, score in scores.items():
        torch.testing.assert_close(found.scores[name], score, equal_nan=True)


def test_equal_records_are_equal_files(tmp_path):
    facts = ({"b": 1, "a": 2}, {"a": 2, "b": 1})
    one, two = (
        Record(cell_of("toy"), torch.arange(2), {"s": torch.ones(2)}, fact)
        .save(tmp_path / str(number))
        .read_bytes()
        for number, fact in enumerate(facts)
    )
    assert one == two


def header(**changes):
    return {"tempograd": json.dumps({"cell": asdict(cell_of("toy")) | changes, "facts": {}})}


@pytest.mark.parametrize(
    "damage",
    [
        None,
        {"other": "x"},
        {"tempograd": "{"},
        {"tempograd": '{"facts": {}}'},
        header(colour="red"),
        header(measures=3),
    ],
)
def test_another_file_is_no_record(tmp_path, damage):
    path = tmp_path / "r.safetensors"
    save_file({"ids": torch.arange(2)}, path, damage)
    with pytest.raises(
        DataError, match=r"r.safetensors is no record of a benchmark: remove it, and run the plan again"
    ):
        Record.load(path)


def test_half_a_record_is_none_and_a_missing_one_is_named(tmp_path):
    path = tmp_path / "r.safetensors"
    with pytest.raises(DataError, match=rf"^{re.escape(short_path(path))} does not exist\.$"):
        Record.load(path)
    record_of(cell_of("toy")).save(path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(
        DataError, match=r"r.safetensors is no record of a benchmark: remove it, and run the plan again"
    ):
        Record.load(path)
