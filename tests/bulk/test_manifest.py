"""Versions of a run: a reader of one sees it whole whatever is committed meanwhile; what is damaged is healed."""

import json
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.bulk import manifest
from tempograd.bulk.manifest import Entry, Manifest
from tempograd.bulk.store import TABLES, Store
from tempograd.bulk.worker import Worker, _Writing
from tempograd.data.fragments import Fragment, Piece
from tests.bulk.conftest import rows_of

TIME, CHANNELS, EACH = 5, 2, 6


class Net(nn.Module):
    def forward(self, x):
        low = x.tanh().cumsum(1).sum((1, 2))
        return torch.stack([low, -low], 1)


def write(folder, name, seed, count=EACH):
    x = np.random.default_rng(seed).normal(size=(count, TIME, CHANNELS)).astype(np.float32)
    path = folder / "in" / f"{name}.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": [f"{name}-{row}" for row in range(count)], "x": x.tolist()}), path)


@pytest.fixture
def lake(tmp_path):
    for seed, name in enumerate("abcd"):
        write(tmp_path, name, seed)
    return tmp_path


@pytest.fixture
def ran(monkeypatch):
    """The files that are explained from now on, those of each fragment together."""
    done, real = [], Worker.run

    def run(self, fragment):
        done.append("".join(Path(piece.path).stem for piece in fragment.pieces))
        return real(self, fragment)

    monkeypatch.setattr(Worker, "run", run)
    return done


def explain(folder, out="out", **options):
    return tg.explain_dataset(Net(), folder / "in", folder / out, method="occlusion", target=0, **options)


def content(run):
    """Return all that a run tells of each series, by ids."""
    return {row["id"]: repr(row) for row in rows_of(run)}


def names(run):
    return "".join(sorted({row["id"][0] for row in rows_of(run)}))


# Versions


@pytest.mark.usefixtures("alone")
def test_a_version_stays_what_it_was(lake):
    first = explain(lake)
    then, version = content(first), first.version
    write(lake, "a", 10)
    (lake / "in" / "b.parquet").unlink()
    write(lake, "e", 5)
    last = explain(lake, removed="drop")
    assert names(last) == "acde"
    assert content(last) == content(explain(lake, "anew"))
    old = tg.open_run(lake / "out", version=version)
    for run in (old, first):  # also one that was opened before
        assert run.version == version < last.version
        assert all(Path(path).is_file() for table in TABLES for path in run.files(table))
        assert content(run) == then
        assert run.sample(100) == sorted(then)
        assert run.take(["c-0", "d-3"]).values.isfinite().all()
    with pytest.warns(tg.TempogradWarning, match="the series themselves are left out"):
        assert old.take(["a-0", "b-1"]).values.isfinite().all()
    for number in range(last.version + 1):
        run = tg.open_run(lake / "out", version=number)
        assert all(Path(path).is_file() for table in TABLES for path in run.files(table))
        assert len(rows_of(run)) == len(run) if len(run) else run.files() == []


@pytest.mark.parametrize("version", [-1, 99])
def test_a_version_that_is_none_is_refused(version, lake):
    explain(lake)
    with pytest.raises(tg.TempogradError, match=f"The run has no version {version}: the last one is 1"):
        tg.open_run(lake / "out", version=version)


def entry(name, count=1):
    """Make an entry without files."""
    fragment = Fragment((Piece(f"/{name}", name, version=(count,)),))
    return Entry(fragment, {f"summary/{name}.parquet": (count, 1.5)}, {"series": count}, {}, 0.5, {"ids": "texts"})


def replayed(store):
    """Return the entries of every version, by all that was added and removed until then."""
    known, found = {}, [{}]
    for name in sorted(store.files(manifest.VERSIONS)):
        change = json.loads(store.read(name))
        known = {key: value for key, value in known.items() if key not in change["removed"]}
        known |= {each.name: each for each in map(Entry.from_plain, change["added"])}
        assert change["version"] == len(found)
        found.append(known)
    return found


def test_writers_at_once_make_every_version_once_and_lose_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "EVERY", 7)
    store, failed = Store(tmp_path / "out"), []

    def commit(writer):
        try:
            mine = Manifest(store)
            for number in range(12):
                gone = [entry(f"{writer}.{number - 2}").name] if number % 3 == 2 else []
                mine.commit([entry(f"{writer}.{number}")], gone)
        except BaseException as error:  # told below
            failed.append(error)

    threads = [threading.Thread(target=commit, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    expected = {entry(f"{writer}.{number}").name for writer in range(4) for number in range(12) if number % 3}
    found = replayed(store)
    assert len(found) == 4 * 12 + 1
    assert found[-1].keys() == expected
    wholes = store.files(manifest.WHOLE)
    assert len(wholes) > 1
    for version, known in enumerate(found):
        assert Manifest(store, version).entries == known
    for name in wholes:  # all entries are where one begins, or it reads all versions
        store.delete(name)
    assert Manifest(store).entries == found[-1]
    store.delete(sorted(store.files(manifest.VERSIONS))[5])
    with pytest.raises(tg.TempogradError, match="is lost or damaged: name another folder"):
        Manifest(store)


def test_a_reader_begins_where_all_entries_are(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "EVERY", 7)
    store = Store(tmp_path / "out")
    writer = Manifest(store)
    for number in range(10):
        writer.commit([entry(str(number))])
    for name in sorted(store.files(manifest.VERSIONS))[:7]:
        store.delete(name)
    assert Manifest(store).entries == writer.entries
    assert len(writer.entries) == 10


def test_a_commit_of_what_is_there_is_none(tmp_path):
    store = Store(tmp_path / "out")
    writer = Manifest(store)
    writer.commit([entry("a"), entry("b")])
    writer.commit([entry("a")], ["nobody's"])
    assert writer.version == Manifest(store).version == 1
    writer.commit([replace(entry("a"), seconds=2.0)])
    assert Manifest(store).entries[entry("a").name].seconds == 2.0


@pytest.mark.usefixtures("alone")
def test_what_is_finished_and_not_committed_is_taken_over(lake, ran, monkeypatch):
    """A driver was killed."""

    def dead(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "commit", dead)
        with pytest.raises(KeyboardInterrupt):
            explain(lake)
    done = ran.copy()
    assert done
    assert len(tg.open_run(lake / "out")) == 0
    run = explain(lake)
    assert sorted(ran) == ["a", "b", "c", "d"]  # nothing twice
    assert names(run) == "abcd"
    assert list((lake / "out" / "_tempograd" / "staged").iterdir()) == []


# What is damaged


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def zeroed(place):
    def damage(path):
        whole = bytearray(path.read_bytes())
        start = int(place * (len(whole) - 500))
        whole[start : start + 500] = bytes(500)
        path.write_bytes(whole)

    return damage


DAMAGES = {
    "cut": cut,
    "zeroed at the beginning": zeroed(0.02),
    "zeroed in the middle": zeroed(0.5),
    "zeroed at the end": zeroed(1),
    "gone": Path.unlink,
}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("table", TABLES)
def test_what_is_damaged_is_healed(table, how, lake, ran):
    for seed, name in enumerate("abcd"):
        write(lake, name, seed, 40)
    run = explain(lake)
    sound = content(run)
    drivers = sorted(map(repr, (row for path in run.files("drivers") for row in pq.read_table(path).to_pylist())))
    damaged = Path(run.files(table)[2])
    DAMAGES[how](damaged)
    ran.clear()
    again = explain(lake)
    assert len(ran) == 1
    assert content(again) == sound
    told = (row for path in again.files("drivers") for row in pq.read_table(path).to_pylist())
    assert sorted(map(repr, told)) == drivers
    explain(lake)
    assert len(ran) == 1


@pytest.mark.usefixtures("alone")
def test_what_was_only_touched_is_read_once(lake, ran, monkeypatch):
    run = explain(lake)
    for path in run.files():
        Path(path).touch()
    ran.clear()
    explain(lake)
    read = []
    monkeypatch.setattr(manifest, "is_readable", lambda path: read.append(path) or True)
    explain(lake)
    assert (ran, read) == ([], [])


# Files of the source


def test_a_file_that_cannot_be_read_costs_no_other(tmp_path, ran):
    for seed in range(20):
        write(tmp_path, chr(ord("a") + seed), seed)
    bad = tmp_path / "in" / "h.parquet"
    bad.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(tg.TempogradError, match=r"1 file or fragment could not be read.*h\.parquet") as raised:
            explain(tmp_path)
        assert len(str(raised.value)) < 320
        run = tg.open_run(tmp_path / "out")
        assert names(run) == "abcdefgijklmnopqrst"
        assert [Path(where).name for where in run.failures()] == ["h.parquet"]
        assert run.summary()["left"] == 1
    before = {path: Path(path).stat().st_ino for table in TABLES for path in run.files(table)}
    write(tmp_path, "h", 7)
    ran.clear()
    run = explain(tmp_path)
    assert ran == ["h"]
    assert {path: Path(path).stat().st_ino for path in before} == before
    assert names(run) == "abcdefghijklmnopqrst"
    assert (run.failures(), run.summary()["left"]) == ({}, 0)


def test_a_joined_file_that_cannot_be_explained_costs_no_other(lake, ran):
    """It opens well, and one of its rows has no id."""
    x = np.ones((2, TIME, CHANNELS), np.float32).tolist()
    pq.write_table(pa.table({"id": ["c-0", None], "x": x}), lake / "in" / "c.parquet")
    with pytest.raises(tg.TempogradError, match=r"1 file or fragment could not be.*c\.parquet"):
        explain(lake)
    assert ran[0] == "abcd"
    run = tg.open_run(lake / "out")
    assert names(run) == "abd"
    write(lake, "c", 2)
    ran.clear()
    assert names(explain(lake)) == "abcd"
    assert ran == ["c"]


@pytest.mark.parametrize("joined", [True, False])
def test_results_of_files_that_are_gone(joined, lake, ran, request):
    if not joined:
        request.getfixturevalue("alone")
    kept = content(explain(lake))
    (lake / "in" / "b.parquet").unlink()
    with pytest.raises(tg.TempogradError, match=r"1 file that the run has explained is gone \(b.parquet\)"):
        explain(lake, removed="refuse")
    ran.clear()
    for _ in range(2):
        with pytest.warns(tg.TempogradWarning, match=r"1 file .* is gone \(b.parquet\): the results stay"):
            run = explain(lake)
        assert content(run) == kept
    assert ran == []
    run = explain(lake, removed="drop")
    assert content(run) == {name: row for name, row in kept.items() if name[0] != "b"}
    assert ran == (["acd"] if joined else [])
    assert run.summary()["left"] == 0
    assert content(explain(lake, removed="refuse")) == content(run)
    write(lake, "b", 1)
    assert content(explain(lake)) == kept


def test_a_changed_file_among_joined_ones(lake, ran):
    before = content(explain(lake))
    assert ran == ["abcd"]
    write(lake, "b", 20)
    write(lake, "e", 21)
    run = explain(lake)
    after = content(run)
    assert after.keys() == before.keys() | {f"e-{row}" for row in range(EACH)}
    assert {name[0] for name in before if after[name] != before[name]} == {"b"}
    assert after == content(explain(lake, "anew"))
    versions = [tg.open_run(lake / "out", version=number) for number in range(run.version + 1)]
    for each in versions:  # never both, and never neither
        assert not len(each) or (content(each).keys() >= before.keys() and len(content(each)) == len(each))


def test_results_of_a_file_that_is_gone_go_with_one_that_changes_and_that_is_said(lake):
    """Both were in one fragment, whose results give way as a whole."""
    before = content(explain(lake))
    (lake / "in" / "b.parquet").unlink()
    write(lake, "c", 30)
    with pytest.warns(tg.TempogradWarning, match=r"The results of b\.parquet go with those of files"):
        after = content(explain(lake))
    assert {name[0] for name in before.keys() - after.keys()} == {"b"}


def test_results_of_a_file_that_cannot_be_read_any_more_stay(lake):
    before = content(explain(lake))
    (lake / "in" / "b.parquet").write_bytes(b"")
    with pytest.raises(tg.TempogradError, match=r"b\.parquet"):
        explain(lake)
    assert content(tg.open_run(lake / "out")) == before


def test_results_of_a_file_that_is_gone_stay_where_the_plan_is_lost_too(lake):
    before = content(explain(lake))
    (lake / "in" / "b.parquet").unlink()
    (lake / "out" / "_tempograd" / "plan.json").unlink()
    with pytest.warns(tg.TempogradWarning, match=r"is gone \(b\.parquet\): the results stay"):
        assert content(explain(lake)) == before


@pytest.mark.usefixtures("alone")
def test_what_a_worker_has_finished_before_it_died_is_not_made_again(lake, monkeypatch):
    """Its process may end between the last file and the word that it is there."""
    writes, real, times = _Writing.write, Worker.run, Counter()

    def counted(writing):
        times[writing.fragment.name] += 1
        return writes(writing)

    def dies_once(worker, fragment):
        entry = real(worker, fragment)
        if fragment is not None and not died:
            died.append(fragment.name)
            raise RuntimeError("the process is gone")
        return entry

    died = []
    monkeypatch.setattr(_Writing, "write", counted)
    monkeypatch.setattr(Worker, "run", dies_once)
    explain(lake)
    assert died
    assert set(times.values()) == {1}
