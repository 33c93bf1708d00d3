"""Files are known by where they lie and by what they hold: never by their names, sizes and times alone."""

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from torch import nn

import tempograd as tg
from tempograd.bulk.worker import Worker
from tempograd.data import files
from tests.bulk.conftest import explain_files, table_of

SERIES, TIME, CHANNELS = 6, 5, 2
KINDS = ("npy", "npz", "csv", "parquet")


class Net(nn.Module):
    def forward(self, x):
        low = x.tanh().sum((1, 2))
        return torch.stack([low, -low], 1)


def numbers(seed):
    return np.random.RandomState(seed).randn(SERIES, TIME, CHANNELS).astype(np.float32)


def write(path, x, ids=None):
    """Write series so that all files of a kind have one size, and one time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, x)
    elif path.suffix == ".npz":
        np.savez(path, x=x)
    elif path.suffix == ".csv":
        cells = [[f"{value:+.6f}" for value in step] for row in x for step in row]
        rows = [f"{ids[place // TIME]},{place % TIME},{','.join(step)}" for place, step in enumerate(cells)]
        path.write_text("\n".join(["id,time,a,b", *rows]) + "\n")
    else:
        columns = {} if ids is None else {"id": ids}
        rows = pa.array(x.tolist(), pa.list_(pa.list_(pa.float32())))
        pq.write_table(pa.table(columns | {"x": rows}), path, compression="none", use_dictionary=False)
    os.utime(path, (1.6e9, 1.6e9))


def explain(source, out, **options):
    known = {"method": "occlusion", "target": 0, "fragment": 3}
    return explain_files(Net(), source, out, **known | options)


@pytest.fixture
def ran(monkeypatch):
    """The files that are explained from now on, one entry for every fragment of them."""
    done, real = [], Worker.run

    def run(self, fragment):
        done.extend(piece.origin for piece in fragment.pieces)
        return real(self, fragment)

    monkeypatch.setattr(Worker, "run", run)
    return done


def ids_of(run):
    return sorted(table_of(run)["id"].to_pylist())


# One name, size and time in two folders


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("listed", ["folders", "files", "patterns"])
def test_two_files_of_one_name_size_and_time_are_two(listed, kind, tmp_path):
    """Ids of the files are kept; where there are none, series are called after the files."""
    named, data, sites = kind in {"csv", "parquet"}, {"A": numbers(0), "B": numbers(1)}, ("A", "B")
    ids = {
        site: [f"{site}{row}" if named else f"{site}/day.{kind}:{row}" for row in range(SERIES)] for site in sites
    }
    files = [tmp_path / site / f"day.{kind}" for site in sites]
    for site, path in zip(sites, files, strict=True):
        write(path, data[site], ids[site] if named else None)
    assert len({(path.stat().st_size, path.stat().st_mtime_ns) for path in files}) == 1
    folders = [path.parent for path in files]
    source = {"folders": folders, "files": files, "patterns": [f"{folder}/d*" for folder in folders]}[listed]
    run = explain(source, tmp_path / "out")
    assert ids_of(run) == ids["A"] + ids["B"]
    assert run.summary()["left"] == 0
    assert np.allclose(run.take(ids["A"] + ids["B"]).x, np.concatenate([data["A"], data["B"]]), atol=1e-6)
    if named:
        alone = explain(files[1], tmp_path / "alone").take(ids["B"])
        assert torch.equal(run.take(ids["B"]).values, alone.values)


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_series_without_ids_are_called_after_their_files(kind, tmp_path):
    for site in "AB":
        write(tmp_path / site / f"day.{kind}", numbers(ord(site)))
    run = explain([tmp_path / "A", tmp_path / "B"], tmp_path / "out")
    assert ids_of(run) == [f"{site}/day.{kind}:{row}" for site in "AB" for row in range(SERIES)]


def origins(*places):
    return [file.origin for file in files.list_files(list(map(str, places)))]


def test_names_are_as_long_as_it_takes(tmp_path):
    for name in ("a/x.npy", "a/deep/y.npy", "b/x.npy", "b/deep/y.npy"):
        write(tmp_path / name, numbers(0))
    a, b = tmp_path / "a", tmp_path / "b"
    assert origins(a) == ["deep/y.npy", "x.npy"]
    assert origins(a / "x.npy", b / "deep") == ["x.npy", "y.npy"]
    assert origins(a, b) == ["a/deep/y.npy", "a/x.npy", "b/deep/y.npy", "b/x.npy"]
    assert origins(a / "x.npy", b / "x.npy") == ["a/x.npy", "b/x.npy"]
    assert origins(a / "deep", b) == ["y.npy", "deep/y.npy", "x.npy"]
    assert origins(tmp_path, a / "deep", b / "x.npy") == origins(tmp_path)  # a file is listed once
    assert origins(a / "x.npy", a / "x.npy", f"{b}/*.npy") == ["a/x.npy", "b/x.npy"]


def test_addresses_of_a_store_are_told_apart_too(tmp_path):
    for site in "AB":
        write(tmp_path / site / "day1.parquet", numbers(ord(site)), [f"{site}{row}" for row in range(SERIES)])
    places = [(tmp_path / site).as_uri() for site in "AB"]
    assert origins(*places) == ["A/day1.parquet", "B/day1.parquet"]
    assert len(ids_of(explain(places, tmp_path / "out"))) == 2 * SERIES


def test_a_list_that_grows_counts_no_series_twice(tmp_path, ran):
    """What they are called becomes longer by the third; what is done keeps its names."""
    for site, seed in (("a", 0), ("b", 1), ("c", 2)):
        write(tmp_path / site / ("x.npy" if site != "b" else "y.npy"), numbers(seed))
    folders = [tmp_path / site for site in "abc"]
    assert len(explain(folders[:2], tmp_path / "out")) == 2 * SERIES
    ran.clear()
    run = explain(folders, tmp_path / "out")
    assert set(ran) == {"c/x.npy"}
    assert ids_of(run) == [f"{name}:{row}" for name in ("c/x.npy", "x.npy", "y.npy") for row in range(SERIES)]
    for site, name in (("a", "x.npy"), ("b", "y.npy"), ("c", "c/x.npy")):
        found = run.take([f"{name}:{row}" for row in range(SERIES)])
        assert np.array_equal(found.x, np.load(tmp_path / site / name[-5:]))


def test_rows_that_were_numbers_are_called_after_their_file_when_a_second_one_comes(tmp_path):
    for site, seed in (("a", 0), ("b", 1)):
        write(tmp_path / "in" / f"{site}.npy", numbers(seed))
        run = explain(tmp_path / "in", tmp_path / "out")
    assert ids_of(run) == [f"{site}.npy:{row}" for site in "ab" for row in range(SERIES)]


@pytest.mark.parametrize("listed", ["one folder", "two folders"])
def test_what_is_moved_as_a_whole_goes_on_where_it_was(listed, tmp_path, ran):
    for site, seed in (("a", 0), ("b", 1)):
        write(tmp_path / "lake" / site / "x.npy", numbers(seed))

    def source(root):
        return root if listed == "one folder" else [root / "a", root / "b"]

    Path(explain(source(tmp_path / "lake"), tmp_path / "out").files()[1]).unlink()
    shutil.copytree(
        tmp_path / "lake", tmp_path / "elsewhere" / "sea", copy_function=shutil.copyfile
    )  # other times
    shutil.rmtree(tmp_path / "lake")
    ran.clear()
    run = explain(source(tmp_path / "elsewhere" / "sea"), tmp_path / "out")
    assert len(ran) == 1
    assert len(run) == 2 * SERIES
    assert run.summary()["left"] == 0
    ids = ids_of(run)
    assert np.array_equal(run.take(ids).x, np.concatenate([numbers(0), numbers(1)]))  # which lie there now


# One size and time, other content


def edited(path, seconds, **names):
    """Change one number in the middle, and leave the size as it was, and the time but for some seconds."""
    before, x = path.stat(), numbers(0)
    x[3, 2, 1] = -x[3, 2, 1] if path.suffix == ".csv" else x[3, 2, 1] + np.float32(0.01)
    write(path, x, **names)
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    os.utime(path, (1.6e9 + seconds, 1.6e9 + seconds))
    return x


@pytest.mark.parametrize(
    ("kind", "place"), [*((kind, "disk") for kind in KINDS), ("parquet", "file"), ("parquet", "store")]
)
def test_what_is_rewritten_with_its_size_and_time_is_explained_anew(kind, place, tmp_path, ran, monkeypatch):
    path, ids = tmp_path / f"x.{kind}", list(range(SERIES))
    source = {"disk": path, "file": path.as_uri(), "store": f"s3://{path.name}"}[place]
    if place == "store":  # whose clock goes by seconds
        store = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
        monkeypatch.setattr(files, "open_address", lambda uri: (store, uri.removeprefix("s3://")))
    write(path, numbers(0), ids)
    run = explain(source, tmp_path / "out")
    old = run.take(ids)
    x = edited(path, place != "disk", ids=ids)  # a store elsewhere gives a time that nobody sets back
    with pytest.warns(tg.TempogradWarning, match="has changed since it was explained: the series themselves"):
        assert run.take(ids).x is None
    ran.clear()
    run = explain(source, tmp_path / "out")
    new = run.take(ids)
    assert len(run) == SERIES
    assert ran
    assert torch.equal(
        new.values, tg.explain(Net(), torch.from_numpy(new.x.numpy()), "occlusion", target=0).values
    )
    assert np.allclose(new.x, x, atol=1e-6)
    assert not torch.equal(new.values, old.values)


@pytest.mark.parametrize("kind", KINDS)
def test_a_time_alone_is_no_change(kind, tmp_path, ran):
    path, ids = tmp_path / f"x.{kind}", list(range(SERIES))
    write(path, numbers(0), ids)
    before = explain(path, tmp_path / "out").take(ids)
    path.touch()
    ran.clear()
    again = explain(path, tmp_path / "out").take(ids)
    assert ran == []
    assert torch.equal(again.x, before.x)
