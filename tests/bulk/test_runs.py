"""What a run's folder promises: resumed, refused, swept; bad series are rows; sums are in the tables."""

import errno
import os
import tempfile
import threading
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.bulk.store import TABLES, RunFolder
from tempograd.bulk.worker import Worker
from tempograd.views.groups import channel_sums
from tests.bulk.conftest import explain_files, rows_of

SERIES, TIME, CHANNELS = 60, 6, 2
SETTINGS = {"n_samples": 10, "seed": 3}


class Net(nn.Module):
    """A small network that refuses series with a large first value, as some models do."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layer = nn.Linear(TIME * CHANNELS, 2)

    def forward(self, x):
        if bool((x[:, 0, 0] > 90).any()):
            raise ValueError("a sensor is off the scale")
        return self.layer(x.tanh().flatten(1))


@pytest.fixture
def x():
    return torch.randn(SERIES, TIME, CHANNELS, generator=torch.Generator().manual_seed(0))


def write(folder, x, name="a", start=0):
    rows = pa.array(x.tolist(), pa.list_(pa.list_(pa.float32())))
    table = pa.table({"id": np.arange(start, start + len(x)), "x": rows, "day": np.arange(len(x)) % 3})
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / f"{name}.parquet", row_group_size=10)


def explain(folder, model=None, **options):
    options = {"fragment": 20, "keep": ["day"], **SETTINGS, **options}
    return explain_files(model or Net(), folder / "in", folder / "out", **options)


def frame(run):
    return pd.DataFrame(rows_of(run)).sort_values("id", ignore_index=True)


def states(run):
    """Return what tells a finished file from another of its name."""
    paths = [path for table in TABLES for path in map(Path, run.files(table))]
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}


def known_as(path):
    """Return the name of the fragment of a file."""
    return Path(path).stem


def values(run):
    return np.stack(frame(run)["values"].to_numpy())


def test_sums_of_rows_are_those_of_the_scores(x, tmp_path):
    write(tmp_path / "in", x)
    run = explain(tmp_path)
    rows, whole = frame(run), tg.explain(Net(), x, **SETTINGS)
    assert rows["day"].tolist() == [row % 3 for row in range(SERIES)]
    sizes = whole.values.abs()
    np.testing.assert_allclose(np.stack(rows["channel_effect"].to_numpy()), whole.values.sum(1), rtol=1e-5)
    np.testing.assert_allclose(np.stack(rows["channel_importance"].to_numpy()), sizes.sum(1), rtol=1e-5)
    np.testing.assert_allclose(np.stack(rows["step_importance"].to_numpy()), sizes.sum(2), rtol=1e-5)
    best = sizes.flatten(1).argmax(1)
    assert [row[0] for row in rows["top_step"]] == (best // CHANNELS).tolist()
    assert [row[0] for row in rows["top_channel"]] == (best % CHANNELS).tolist()
    np.testing.assert_array_equal(rows["score"].to_numpy(), whole.prediction.numpy())
    assert run.summary()["good"] == int((rows["verdict"] == "good").sum())
    assert run.summary()["samples"] == int(rows["samples"].sum())


def test_one_query_tells_which_channels_matter(x, tmp_path):
    """That of the how-to: means over all series of a target, and their standard errors."""
    write(tmp_path / "in", x)
    run = explain(tmp_path)
    explained = tg.explain(Net(), x, **SETTINGS)
    group = channel_sums(explained, explained.target == 1)
    asked = duckdb.sql(f"""
        SELECT channel, avg(effect), stddev(effect) / sqrt(count(*)), avg(importance), count(*)
        FROM (
            SELECT unnest(channel_effect) AS effect, unnest(channel_importance) AS importance,
                unnest(['a', 'b']) AS channel
            FROM '{run.folder}/summary/*.parquet' JOIN '{run.folder}/cells/*.parquet' USING (key) WHERE target = 1
        )
        GROUP BY channel ORDER BY channel
    """).fetchall()
    assert [(row[0], row[4]) for row in asked] == [("a", group.series), ("b", group.series)]
    np.testing.assert_allclose([row[1] for row in asked], group.mean[:, 0], rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose([row[2] for row in asked], group.error[:, 0], rtol=1e-4)
    np.testing.assert_allclose([row[3] for row in asked], group.size[:, 0], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("cells", ["top", "none"])
def test_less_can_be_kept(cells, x, tmp_path):
    write(tmp_path / "in", x)
    run = explain(tmp_path, cells=cells)
    assert "values" not in frame(run)
    assert ("top_value" in frame(run)) == (cells == "top")
    with pytest.raises(tg.TempogradError, match="keeps no map"):
        run.take([0])


def test_what_is_done_is_not_done_again(x, tmp_path, monkeypatch):
    write(tmp_path / "in", x)
    run = explain(tmp_path)
    before = states(run)
    first = known_as(run.files()[1])
    Path(run.files()[1]).unlink()
    (tmp_path / "out" / ".tempograd-abcdefgh").mkdir()  # of a process that was killed
    ran = []
    real = Worker.run
    monkeypatch.setattr(Worker, "run", lambda self, fragment: ran.append(fragment.name) or real(self, fragment))
    after = states(explain(tmp_path))
    assert ran == [first]
    assert before.keys() == after.keys()
    assert {name for name in before if after[name] != before[name]} == {
        name for name in before if known_as(name) == first
    }
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == ["_tempograd", *TABLES]


def test_another_run_is_refused_with_what_differs(x, tmp_path):
    write(tmp_path / "in", x)
    before = states(explain(tmp_path))
    with pytest.raises(
        tg.TempogradError, match=r"differs in n_samples \(10 there, 11 here\), seed \(3 there, 7 here\)"
    ):
        explain(tmp_path, n_samples=11, seed=7)
    other = Net()
    other.layer.bias.data += 1
    with pytest.raises(tg.TempogradError, match=r"differs in model \('Net:"):
        explain(tmp_path, other)
    assert states(tg.open_run(tmp_path / "out")) == before


def test_a_folder_of_somebody_else_is_left_alone(x, tmp_path):
    write(tmp_path / "in", x)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    with pytest.raises(tg.TempogradError, match="is neither a run nor empty"):
        explain(tmp_path)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_changed_input_is_computed_anew_and_the_old_result_put_aside(x, tmp_path):
    write(tmp_path / "in", x[:20], "a")
    write(tmp_path / "in", x[20:40], "b", 20)
    before = states(explain(tmp_path))
    write(tmp_path / "in", x[40:], "b", 40)
    run = explain(tmp_path)
    after = states(run)
    same = before.items() & after.items()
    assert len(same) == len(TABLES)
    assert frame(run)["id"].tolist() == [*range(20), *range(40, 60)]
    gone = {str(Path(name).relative_to(tmp_path / "out")) for name in before.keys() - after.keys()}
    aside = tmp_path / "out" / "_tempograd" / "retired"
    assert {str(path.relative_to(aside)) for path in aside.rglob("*.parquet")} == gone
    assert len(gone) == len(TABLES)
    assert not any(Path(name).exists() for name in before.keys() - after.keys())


def test_bad_series_are_rows_with_their_reason(x, tmp_path):
    whole = tg.explain(Net(), x, **SETTINGS)
    bad = x.clone()
    bad[7, 2, 1], bad[33, 0, 0], bad[34, 0, 0] = torch.nan, 100.0, 100.0
    write(tmp_path / "in", bad)
    run = explain(tmp_path, max_faults=0.05)
    faults = run.faults()
    assert faults.keys() == {7, 33, 34}
    assert "NaN" in faults[7]
    assert faults[33] == "ValueError: a sensor is off the scale"
    rows = frame(run)
    assert rows["values"].isna().tolist() == [row in faults for row in range(SERIES)]
    sound = [row for row in range(SERIES) if row not in faults]
    np.testing.assert_array_equal(np.stack(rows["values"][sound].to_numpy()), whole.values[sound].flatten(1))
    assert run.summary()["faults"] == 3
    assert "3 of 60 series could not be explained" in run.verdict()
    with pytest.raises(tg.TempogradError, match="Series 33 could not be explained"):
        run.take([33])


def test_too_many_faults_stop_the_run(x, tmp_path):
    x[7:10] = torch.nan
    write(tmp_path / "in", x)
    with pytest.raises(tg.TempogradError, match=r"3 of 20 series .* more than max_faults=0.04 allows"):
        explain(tmp_path, max_faults=0.04)
    assert len(tg.open_run(tmp_path / "out")) == 20


def test_an_id_that_occurs_twice_is_a_fault(x, tmp_path):
    rows = pa.table({"id": ["a", "b", "a", "c"], "x": x[:4].tolist()})
    pq.write_table(rows, tmp_path / "x.parquet")
    run = tg.explain_dataset(Net(), tmp_path / "x.parquet", tmp_path / "out", max_faults=0.5, **SETTINGS)
    assert run.faults()["a"].startswith("its id 'a' occurs more than once (x.parquet): make ids of several")


def test_mistakes_fail_before_anything_starts(x, tmp_path):
    write(tmp_path / "in", x)
    for options, said in (
        ({"x": "y"}, "is called 'y'"),
        ({"model": nn.Sequential(nn.Flatten(), nn.Linear(5, 2))}, "5"),
        ({"method": tg.ExtremalMask()}, "learns one network for all series"),
        ({"target": torch.zeros(60)}, "the same for all series"),
    ):
        settings = {} if "method" in options else {"n_samples": 10}
        with pytest.raises(tg.TempogradError, match=said):
            explain_files(
                **{"model": Net(), "source": tmp_path / "in", "out": tmp_path / "out", **settings, **options}
            )
        assert not RunFolder(tmp_path / "out").is_run


def test_a_fragment_that_fails_three_times_is_noted_and_the_others_go_on(x, tmp_path, monkeypatch):
    write(tmp_path / "in", x)
    tries = []
    real = Worker.explain_each

    def failing(self, batch, known):
        if 25 in batch.keys:
            tries.append(1)
            raise RuntimeError("the cable is loose")
        return real(self, batch, known)

    monkeypatch.setattr(Worker, "explain_each", failing)
    with pytest.raises(
        tg.TempogradError, match=r"1 file or fragment could not be read or explained.*the cable is loose"
    ):
        explain(tmp_path)
    assert len(tries) == 3
    run = tg.open_run(tmp_path / "out")
    assert (len(run), run.summary()["left"], len(run.failures())) == (40, 1, 1)
    assert "1 file still to be done" in run.verdict()
    assert run.failures()["a.parquet, from row group 2"].strip().endswith("RuntimeError: the cable is loose")
    monkeypatch.undo()
    assert explain(tmp_path).summary()["failed"] == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_takes_nothing_stops_the_run_at_once(number, x, tmp_path, monkeypatch):
    write(tmp_path / "in", x)
    real, written = pq.ParquetWriter.write_table, []

    def full(self, *args, **options):
        written.append(1)
        if len(written) == 2:
            raise OSError(number, os.strerror(number))
        return real(self, *args, **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(tg.TempogradError, match=r"No space left on device|Read-only file system"):
        explain(tmp_path)
    assert len(written) == 2  # not tried again
    assert [len(tg.open_run(tmp_path / "out").files(table)) for table in TABLES] == [0, 0, 0]
    assert list((tmp_path / "out").rglob("*.parquet")) == []  # nothing half-written
    monkeypatch.undo()
    np.testing.assert_array_equal(values(explain(tmp_path)), tg.explain(Net(), x, **SETTINGS).values.flatten(1))


def test_a_folder_that_is_read_only_is_refused_first(x, tmp_path, monkeypatch):
    write(tmp_path / "in", x)

    def refused(**_):  # permissions do not stop root
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "mkdtemp", refused)
    with pytest.raises(tg.TempogradError, match="cannot be written: Read-only file system"):
        explain(tmp_path)
    assert not RunFolder(tmp_path / "out").is_run


def test_two_drivers_at_once_break_nothing(x, tmp_path):
    write(tmp_path / "in", x)
    found, failed, models = [], [], [Net(), Net()]

    def drive():
        try:
            found.append(explain(tmp_path, models.pop(), fragment=10))
        except BaseException as error:  # told below
            failed.append(error)

    threads = [threading.Thread(target=drive) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    run = tg.open_run(tmp_path / "out")
    assert [len(run.files(table)) for table in TABLES] == [6, 6, 6]
    np.testing.assert_array_equal(values(run), tg.explain(Net(), x, **SETTINGS).values.flatten(1))


def test_a_model_that_is_on_the_device_is_not_copied(x, tmp_path):
    model = Net()
    model.held = threading.Lock()  # which nothing copies
    write(tmp_path / "in", x)
    assert len(explain(tmp_path, model, device="cpu")) == SERIES
