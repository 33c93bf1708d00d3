"""Records as files, and the small form of them."""

import json
import sys
from dataclasses import asdict

import duckdb
import pyarrow
import pytest
import torch
from pyarrow import parquet

from reproduction.tests.helpers.results import (
    AUP,
    CPD,
    GOOD,
    IG,
    NAN,
    RANDOM,
    SCORES,
    TIMING,
    toy_plan,
    toy_record,
    toy_records,
)
from tempograd.core.errors import DataError, MissingExtraError
from tempograd_paper.runner import Measure, Row
from tempograd_paper.tables.archive import join_records, load_records, read_archive, unfinished, write_archive
from tempograd_paper.tables.rendering import render
from tempograd_paper.tables.tabulation import tabulate


def mixed():
    """A plan with pooled scores, undefined ones, settings, and a cell that was not run."""
    settings = (("n_steps", 5), ("rule", "midpoint"))
    measures = (CPD, AUP, Measure("cpd50", "cpd", 50, "average"))
    plan = toy_plan(rows=(IG, Row("timing", "TIMING", settings), RANDOM), measures=measures)
    records = {}
    for number, cell in enumerate(plan.cells()[:-1]):
        scores = {"cpd10": [number, NAN, 1 / 3], "aup": [number / 7], "cpd50": [0.1, -number, 1e-8]}
        ids = [5, -3, 2**40 + number // 3]  # the same for all methods of a fold
        records[cell.key] = toy_record(cell, scores, ids=ids, seconds={"explain": number + 0.5}, chosen=None)
    return plan, records


def save(records, folder):
    for key, record in records.items():
        record.save(folder / "records" / f"{key}.safetensors")


def test_records_and_archive_give_the_same_records_and_tables(tmp_path):
    plan, records = mixed()
    save(records, tmp_path / "run")
    loaded = load_records(tmp_path / "run", plan)
    archived = load_records(write_archive(tmp_path / "archive", plan, loaded), plan)
    assert list(loaded) == list(archived) == list(records)
    for key, record in records.items():
        for found in (loaded[key], archived[key]):
            assert found.cell == record.cell
            assert found.cell.key == key
            assert found.facts == record.facts
            assert set(found.scores) == set(record.scores)
            torch.testing.assert_close(found.ids, record.ids, rtol=0, atol=0)
            for name, scores in record.scores.items():
                close = {"rtol": 0, "atol": 0} if found is loaded[key] else {"rtol": 0, "atol": 0.02}
                torch.testing.assert_close(found.scores[name], scores, equal_nan=True, **close)
    table = tabulate(plan, records)
    assert tabulate(plan, loaded) == table
    assert (table.missing, table.total) == (1, 9)
    for form in ("markdown", "latex"):
        assert render(tabulate(plan, archived), form) == render(table, form)


def test_any_reader_of_parquet_reads_an_archive(tmp_path):
    plan = toy_plan(measures=(CPD, AUP))
    cell = plan.cell("state", "gru", 2, TIMING)
    record = toy_record(cell, {"cpd10": [1.0, NAN, 4.0], "aup": [0.5]}, ids=[7, 8, 3])
    write_archive(tmp_path, plan, {cell.key: record})
    rows = duckdb.sql(f"SELECT * FROM '{tmp_path / 'records.parquet'}'")
    assert dict(zip(rows.columns, map(str, rows.types), strict=True)) == {
        "tempograd_record": "VARCHAR",
        "id": "BIGINT",
        "cpd10": "INTEGER",
        "aup": "INTEGER",
    }
    found = rows.fetchall()
    about = json.loads(found[0][0])
    assert list(about) == ["key", "cell", "steps", "pooled", "facts"]
    assert (about["key"], about["cell"]["method"], about["cell"]["fold"]) == (cell.key, "timing", 2)
    assert (about["steps"], about["pooled"], about["facts"]) == ({"cpd10": 1.0}, {"aup": 0.5}, record.facts)
    assert [row[1:] for row in found] == [(7, 1, None), (8, None, None), (3, 4, None)]


def test_the_same_records_give_the_same_files(tmp_path):
    plan, records = mixed()
    backwards = dict(reversed(records.items()))
    for name, found in (("a", records), ("b", backwards)):
        write_archive(tmp_path / name, plan, found)
    again = write_archive(tmp_path / "c", plan, load_records(tmp_path / "b", plan))  # is rounded no further
    first, *others = (
        (folder / "records.parquet").read_bytes() for folder in (tmp_path / "a", tmp_path / "b", again)
    )
    assert others == [first, first]
    assert list(read_archive(again / "records.parquet")) == [cell.key for cell in plan.cells()[:-1]]


def test_pooled_scores_alone_keep_the_ids(tmp_path):
    plan = toy_plan(measures=(AUP,), folds=(0,))
    records = {}
    for row, value in ((IG, 0.25), (TIMING, 0.5)):
        cell = plan.cell("state", "gru", 0, row)
        records[cell.key] = toy_record(cell, [value], ids=[4, 1])
    archived = load_records(write_archive(tmp_path, plan, records), plan)
    assert [record.ids.tolist() for record in archived.values()] == [[4, 1], [4, 1]]
    assert [record.scores["aup"].tolist() for record in archived.values()] == [[0.25], [0.5]]
    assert all(set(record.scores) == {"aup"} for record in archived.values())


def test_one_series_is_not_taken_for_a_pooled_score(tmp_path):
    plan = toy_plan(folds=(0,))
    records = toy_records(plan, {"TIMING": {0: [3.0]}}, ids=[9])
    (record,) = load_records(write_archive(tmp_path, plan, records), plan).values()
    assert (record.ids.tolist(), record.scores["cpd10"].tolist()) == ([9], [3.0])


def test_only_the_cells_of_the_plan_are_read(tmp_path):
    plan, other = toy_plan(), toy_plan(seed=3)
    save(toy_records(plan) | toy_records(other), tmp_path)
    (tmp_path / "records" / "stray.safetensors").write_bytes(b"never opened")
    assert set(load_records(tmp_path, plan)) == set(toy_records(plan))
    write_archive(tmp_path / "both", plan, toy_records(plan))
    small = toy_plan(folds=(1,))
    assert set(load_records(tmp_path / "both", small)) == {cell.key for cell in small.cells()}
    assert load_records(tmp_path / "both", other) == {}


def test_what_is_no_result(tmp_path):
    plan = toy_plan()
    sentence = (
        f"{tmp_path} holds no results, neither records/ of a run nor records.parquet of an archive: run "
        f"python -m tempograd_paper run toy --protocol published --out {tmp_path} first."
    )
    with pytest.raises(DataError, match=sentence):
        load_records(tmp_path, plan)
    with pytest.raises(DataError, match=r"No cell of toy is there: nothing can be archived before it was run."):
        write_archive(tmp_path, plan, {})
    assert list(tmp_path.iterdir()) == []


def test_damaged_archives(tmp_path):
    plan = toy_plan()
    path = write_archive(tmp_path, plan, toy_records(plan)) / "records.parquet"
    whole = path.read_bytes()
    other = toy_plan(measures=(AUP,))
    about = {"key": "a", "cell": asdict(other.cells()[0]), "steps": {}, "pooled": {}, "facts": {}}
    texts = [
        "",
        "{",
        "3",
        "[3]",
        "[" * 100_000,
        '{"key": "a"}',
        json.dumps(about),
        json.dumps(about | {"steps": 3}),
    ]
    for content in (b"", whole[:-40], b"PAR1" * 9, *map(told, texts)):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"records.parquet is no archive of a benchmark: write it again with"):
            load_records(tmp_path, plan)


def told(text):
    """Return an archive whose one record tells this of itself."""
    rows = pyarrow.table({"tempograd_record": [text], "id": [0], "cpd10": [1]})
    with pyarrow.BufferOutputStream() as stream:
        parquet.write_table(rows, stream)
        return stream.getvalue().to_pybytes()


def test_without_pyarrow(tmp_path, monkeypatch):
    plan = toy_plan()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"This needs pyarrow: pip install 'tempograd\[parquet\]'."):
        write_archive(tmp_path / "archive", plan, toy_records(plan))
    assert not (tmp_path / "archive").exists()
    save(toy_records(plan, SCORES), tmp_path)
    assert len(load_records(tmp_path, plan)) == 6  # a run is read without it


# several folders


def values(records, plan, label):
    """Return the scores of a row by fold."""
    row = next(row for row in plan.rows if row.label == label)
    keys = {fold: plan.cell("state", "gru", fold, row).key for fold in plan.folds}
    return {fold: records[key].scores["cpd10"].tolist() for fold, key in keys.items() if key in records}


def test_the_methods_of_a_model_come_from_one_folder_the_fullest(tmp_path):
    """A model that was trained again is another one: its TIMING does not stand beside the IG of the first."""
    plan, old, new = toy_plan(), tmp_path / "old", tmp_path / "new"
    kept = {"TIMING": {0: [1.0, 3.0], 1: [2.0, 4.0]}, "IG": {0: [1.0, 1.0]}}
    write_archive(old, plan, toy_records(plan, kept))
    again = {"TIMING": {0: [9.0, 9.0], 1: [8.0, 8.0], 2: [5.0, 5.0]}, "IG": {1: [7.0, 7.0]}}
    for key, record in toy_records(plan, again).items():
        record.save(new / "records" / f"{key}.safetensors")
    found = join_records([old, new], plan)
    assert values(found, plan, "TIMING") == {0: [1.0, 3.0], 1: [8.0, 8.0], 2: [5.0, 5.0]}
    assert values(found, plan, "IG") == {0: [1.0, 1.0], 1: [7.0, 7.0]}
    assert values(join_records([new, old], plan), plan, "TIMING") == {0: [1.0, 3.0], 1: [8.0, 8.0], 2: [5.0, 5.0]}


@pytest.mark.parametrize(("loss", "joined"), [(0.25, True), (0.25 + 2**-50, False)])
def test_a_model_that_is_the_same_to_the_last_bit_is_completed(tmp_path, loss, joined):
    plan, old, new = toy_plan(rows=(IG, TIMING, RANDOM)), tmp_path / "old", tmp_path / "new"
    first, again = ({0: GOOD | {"validation_loss": value}} for value in (0.25, loss))
    kept = {"TIMING": {0: [1.0, 3.0]}, "IG": {0: [1.0, 1.0]}}
    write_archive(old, plan, toy_records(plan, kept, first))
    save(toy_records(plan, {"TIMING": {0: [5.0, 5.0]}, "random": {0: [0.0, 1.0]}}, again), new)
    found = join_records([old, new], plan)
    assert values(found, plan, "random") == {0: [0.0, 1.0]}
    assert values(found, plan, "TIMING") == {0: [5.0, 5.0]}  # the later one
    assert values(found, plan, "IG") == ({0: [1.0, 1.0]} if joined else {})


def test_of_two_equally_full_folders_the_later_counts(tmp_path):
    plan = toy_plan()
    for name, value in (("first", 1.0), ("second", 2.0)):
        write_archive(tmp_path / name, plan, toy_records(plan, {"TIMING": {0: [value, value]}}))
    found = join_records([tmp_path / "first", tmp_path / "second"], plan)
    assert values(found, plan, "TIMING") == {0: [2.0, 2.0]}


def test_a_fold_is_finished_when_all_its_cells_are_there():
    plan = toy_plan()
    kept = toy_records(plan, {"TIMING": {0: [1.0, 3.0], 1: [2.0, 4.0]}, "IG": {0: [1.0, 1.0]}})
    assert [(cell.fold, cell.method) for cell in unfinished(plan.cells(), kept)] == [
        (fold, method) for fold in (1, 2) for method in ("integrated_gradients", "timing")
    ]
    timing = [cell for cell in plan.cells() if cell.method == "timing"]
    assert [cell.fold for cell in unfinished(timing, kept)] == [2]
