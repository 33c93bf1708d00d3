"""Every step of every writer fails once: files are whole, the old or the new one, and one sentence tells."""

import builtins
import errno
import io
import json
import os
import random
import resource
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from toy_results import toy_plan, toy_records

import tempograd as tg
from tempograd import plots
from tempograd._utils.io import write_atomically
from tempograd.errors import OutputError
from tempograd.models import build, load_model
from tempograd_paper.datasets.prepared import load_prepared, save_prepared
from tempograd_paper.runner.store import Store
from tempograd_paper.tables import archive
from tempograd_paper.tables.rendering import TABLE, render
from tempograd_paper.tables.tabulate import tabulate

SLOW = {"report", "picture"}  # which see one of the errors at each step, and few of very many steps
NUMBERS = (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO)
CALLS = ("open", "mkdir", "fsync", "replace", "chmod", "stat", "lstat", "fstat")
SAVERS = (
    "tempograd.explanation.files",
    "tempograd.models.files",
    "tempograd_paper.runner.record",
    "tempograd_paper.datasets.prepared",
)
PLAN = toy_plan()
RECORDS = toy_records(PLAN)
CELL, RECORD = PLAN.cells()[0], next(iter(RECORDS.values()))
DATA = tg.Split(torch.ones(2, 3, 1), torch.tensor([0, 1]))


@cache
def explanation(seed):
    return tg.explain(lambda x: x.sum(1), torch.ones(2, 3, 2), "random", output="raw", target=0, seed=seed)


@cache
def model(seed):
    found = build("cnn", 2, 2, hidden=2)
    with torch.no_grad():
        for weights in found.parameters():
            weights.fill_(seed)
    return found


def record(seed):
    return type(RECORD)(RECORD.cell, RECORD.ids + seed, RECORD.scores, RECORD.facts)


@cache
def picture(seed):
    return plots.series(explanation(seed), 0)


@cache
def table(seed):
    return render(tabulate(toy_plan(title=f"Toy {seed}"), RECORDS), "markdown")


def write_table(path, seed):
    text = table(seed)
    write_atomically(path, lambda temporary: temporary.write_text(text), kind=TABLE)


def values(path):
    return tg.Explanation.load(path).values.tolist()


# name: what is written with some seed, and what a reader finds of it; the file is a result that is kept
WRITERS = {
    "explanation": (lambda path, seed: explanation(seed).save(path), values, True),
    "model": (
        lambda path, seed: tg.save_model(model(seed), path),
        lambda path: [weights.tolist() for weights in load_model(path).state_dict().values()],
        True,
    ),
    "report": (
        lambda path, seed: tg.report(path, None, [explanation(0)], title=f"title {seed}"),
        lambda path: (path.read_text().count(f"title {0}"), path.read_text().endswith("</html>\n")),
        False,  # found out before the work
    ),
    "table": (write_table, Path.read_text, True),
    "record": (
        lambda path, seed: record(seed).save(path),
        lambda path: load_file(path)["ids"].tolist(),
        False,
    ),
    "prepared": (
        lambda path, seed: save_prepared(tg.Dataset(f"toy{seed}", DATA, None, DATA, 2, ("a",)), path),
        lambda path: load_prepared(path).name,
        False,
    ),
    "picture": (
        lambda path, seed: picture(seed).savefig(path, format="svg"),
        lambda path: (path.read_text().endswith("</svg>\n"), len(path.read_text()) > 1000),
        False,
    ),
}


class Faults:
    """Counts the steps that writers take, and lets one of them fail."""

    def __init__(self, monkeypatch):
        self.start(-1, 0)
        self.thread = threading.get_ident()  # others, which run the tests, are left alone
        for name in CALLS:
            monkeypatch.setattr(os, name, self.call(getattr(os, name)))
        for module in (io, builtins):
            monkeypatch.setattr(module, "open", self.opening(io.open if module is io else builtins.open))
        for module in SAVERS:
            home = sys.modules[module]
            monkeypatch.setattr(home, "save_file", self.saving(home.save_file))

    def start(self, failing, number):
        self.step, self.failing, self.number, self.removing = 0, failing, number, False

    def due(self):
        if threading.get_ident() != self.thread:
            return False
        self.step += 1
        if self.step - 1 != self.failing:
            return False
        frame, inside = sys._getframe(), []
        while frame is not None:
            inside.append(Path(frame.f_code.co_filename).name)
            frame = frame.f_back
        self.removing = "shutil.py" in inside
        return True

    def error(self):
        return OSError(self.number, os.strerror(self.number))

    def call(self, real):
        def called(*args, **options):
            if self.due():
                raise self.error()
            return real(*args, **options)

        return called

    def opening(self, real):
        def opened(file, mode="r", *args, **options):
            if not set(mode) & set("wax+"):
                return real(file, mode, *args, **options)
            if self.due():
                raise self.error()
            return _File(real(file, mode, *args, **options), self)

        return opened

    def saving(self, real):
        def saved(tensors, filename, *args, **options):
            real(tensors, filename, *args, **options)
            if self.due():
                os.truncate(filename, 20)
                raise SafetensorError(f"Error while serializing: I/O error: no luck (os error {self.number})")

        return saved


class _File:
    """A file whose writes may fail halfway."""

    def __init__(self, file, faults):
        self.file, self.faults = file, faults

    def write(self, data):
        if self.faults.due():
            self.file.write(data[: len(data) // 2])
            self.file.flush()
            raise self.faults.error()
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


@pytest.fixture(autouse=True)
def spare(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("spare")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def some(steps):
    """Return all steps, or the first, the last and a few between, where a writer writes line by line."""
    if steps <= 60:
        return range(steps)
    return [*range(8), *random.Random(0).sample(range(8, steps - 12), 4), *range(steps - 12, steps)]


def attempt(work):
    """Return the sentence with which it failed, nothing if it did not."""
    try:
        work()
    except OutputError as error:
        said = str(error)
        assert len(said) <= 300
        assert said.isprintable()
        return said
    return ""


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("there", [True, False], ids=["replaced", "new"])
def test_a_fault_at_any_step_of_a_writer(tmp_path, monkeypatch, spare, name, there):
    write, read, kept = WRITERS[name]
    folder = tmp_path / "here"
    folder.mkdir()
    path = folder / "file"
    write(path, 0)
    old = read(path)
    write(path, 1)
    new = read(path)
    assert old != new or name == "picture"
    faults = Faults(monkeypatch)
    path.unlink()
    if there:
        write(path, 0)
    faults.start(-1, 0)
    write(path, 1)
    steps = faults.step
    assert steps >= 8
    for failing in some(steps):
        for number in NUMBERS[failing % 4 :][:1] if name in SLOW else NUMBERS:
            faults.start(-1, 0)
            path.unlink(missing_ok=True)
            if there:
                write(path, 0)
            faults.start(failing, number)
            said = attempt(lambda: write(path, 1))
            removing = faults.removing
            faults.start(-1, 0)
            assert path.exists() or (said and not there)
            assert not path.exists() or read(path) == (old if said else new)
            assert {each.name for each in folder.iterdir()} <= {"file"} or removing
            if said and kept:
                (result,) = spare.glob("*/*")
                assert str(result) in said
                assert read(result) == new
            for result in spare.glob("*/*"):
                result.unlink()
                result.parent.rmdir()
    write(path, 1)
    assert [each.name for each in folder.iterdir()] == ["file"]


def test_a_fault_at_any_step_of_an_archive(tmp_path, monkeypatch):
    """Two files belong together: the scores come first, and the cells beside them are the old or the new ones."""
    pytest.importorskip("duckdb")
    folder = tmp_path / "archive"
    archive.write_archive(folder, PLAN, RECORDS)
    old = {path.name: path.read_bytes() for path in folder.iterdir()}
    faults = Faults(monkeypatch)
    real = archive.database

    def database():
        connection = real()

        def execute(query):
            if faults.due():
                raise sys.modules["duckdb"].IOException(f'IO Error: {{"errno":"{faults.number}"}}')
            return connection.execute(query)

        return SimpleNamespace(register=connection.register, execute=execute)

    monkeypatch.setattr(archive, "database", database)
    faults.start(-1, 0)
    archive.write_archive(folder, PLAN, RECORDS)
    failed = 0
    for failing in some(faults.step):
        faults.start(failing, NUMBERS[failing % 4])
        failed += bool(attempt(lambda: archive.write_archive(folder, PLAN, RECORDS)))
        removing = faults.removing
        faults.start(-1, 0)
        found = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        assert found == old
        assert len(list(folder.iterdir())) == 2 or removing
    assert failed >= 5


FACTS = {"chosen": {}, "warnings": [], "seconds": {}}


def test_a_fault_at_any_step_of_what_a_cell_leaves(tmp_path, monkeypatch):
    """Where an explanation is, its facts are."""
    store, found = Store(tmp_path), explanation(0)
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


@pytest.mark.parametrize("name", ["explanation", "model", "record", "prepared"])
def test_a_real_limit_halfway_through_a_file(tmp_path, name):
    """The system stops the writer after 200 bytes, inside safetensors too, as a full disk would."""
    write, read, _ = WRITERS[name]
    path = tmp_path / "file"
    write(path, 0)
    old = read(path)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, most[1]))
    try:
        said = attempt(lambda: write(path, 1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert f"cannot be written: {os.strerror(errno.EFBIG)}" in said
    assert read(path) == old
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
