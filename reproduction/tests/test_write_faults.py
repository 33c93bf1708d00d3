"""Every step of the reproduction's writers fails once, as in tests/core/test_write_faults.py."""

import json
from functools import cache
from pathlib import Path
from unittest import mock

import pytest
import torch
from safetensors.torch import load_file

import tempograd as tg
from reproduction.tests.helpers.results import toy_plan, toy_records
from tempograd.core.io import write_atomically
from tempograd_paper.datasets.prepared import load_prepared, save_prepared
from tempograd_paper.runner.store import Store
from tempograd_paper.tables import archive
from tempograd_paper.tables.rendering import TABLE, render
from tempograd_paper.tables.tabulation import tabulate
from tests.helpers.write_faults import NUMBERS, Faults, attempt, fails_at_every_step, stops_halfway

PLAN = toy_plan()
RECORDS = toy_records(PLAN)
CELL, RECORD = PLAN.cells()[0], next(iter(RECORDS.values()))
DATA = tg.Series(torch.ones(2, 3, 1), torch.tensor([0, 1]))
FACTS = {"chosen": {}, "warnings": [], "seconds": {}}


def record(seed):
    return type(RECORD)(RECORD.cell, RECORD.ids + seed, RECORD.scores, RECORD.facts)


@cache
def table(seed):
    return render(tabulate(toy_plan(title=f"Toy {seed}"), RECORDS), "markdown")


def write_table(path, seed):
    text = table(seed)
    write_atomically(path, lambda temporary: temporary.write_text(text), kind=TABLE)


def write_archive(path, seed):
    with mock.patch.object(archive, "ARCHIVE", path.name):
        archive.write_archive(path.parent, PLAN, {CELL.key: record(seed)})


WRITERS = {
    "table": (write_table, Path.read_text),
    "record": (
        lambda path, seed: record(seed).save(path),
        lambda path: load_file(path)["ids"].tolist(),
    ),
    "archive": (
        write_archive,
        lambda path: archive.read_archive(path)[CELL.key].ids.tolist(),
    ),
    "prepared": (
        lambda path, seed: save_prepared(tg.Dataset(f"toy{seed}", DATA, None, DATA, 2, ("a",)), path),
        lambda path: load_prepared(path).name,
    ),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("there", [True, False], ids=["replaced", "new"])
def test_a_fault_at_any_step_of_a_writer(tmp_path, monkeypatch, name, there):
    write, read = WRITERS[name]
    fails_at_every_step(write, read, tmp_path / "here", monkeypatch, there=there)


@pytest.mark.parametrize("name", ["record", "prepared"])
def test_a_real_limit_halfway_through_a_file(tmp_path, name):
    write, read = WRITERS[name]
    stops_halfway(write, read, tmp_path)


def test_a_fault_at_any_step_of_what_a_cell_leaves(tmp_path, monkeypatch):
    """Where an explanation is, its facts are."""
    found = tg.explain(lambda x: x.sum(1), torch.ones(2, 3, 2), "random", output="raw", target=0)
    store = Store(tmp_path)
    faults = Faults(monkeypatch)
    store.save_explanation(CELL, found, FACTS)
    store.note_failure(CELL, "why")
    steps = faults.step
    paths = store.explanation_path(CELL), store.explanation_path(CELL).with_suffix(".json")
    for failing in range(steps):
        for path in (*paths, store._failure_path(CELL)):
            path.unlink(missing_ok=True)
        faults.start(failing, NUMBERS[failing % 4])
        said = attempt(lambda: (store.save_explanation(CELL, found, FACTS), store.note_failure(CELL, "why")))
        faults.start(-1, 0)
        if paths[0].exists():
            assert store.explanation(CELL)[1] == FACTS
        if paths[1].exists():
            assert json.loads(paths[1].read_text()) == FACTS
        if not said:
            assert store._failure_path(CELL).read_text() == f"{CELL}\n\nwhy"
    store.sweep()
    assert list(tmp_path.rglob(".tempograd-*")) == []
