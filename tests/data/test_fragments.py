"""What runs read one by one: files looked at once, small ones together, large ones in parts."""

import gzip
import json
import os
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import tempograd as tg
from tempograd.core.errors import DataError
from tempograd.data import files, fragments
from tempograd.data.files import File
from tempograd.data.fragments import (
    MOST_FILES,
    Fragment,
    Inspected,
    agreed_channels,
    inspect_files,
    joined_fragments,
    kept_types,
    read_fragment,
)

SIZE = 100


def table(path, names=("s1", "s2"), column="a", steps=3, **more):
    """Write a table of steps, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [(name, step, row + step / 8) for row, name in enumerate(names) for step in range(steps)]
    frame = pd.DataFrame(rows, columns=["id", "time", column]).assign(**more)
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return path


def folder_of(path, count=20, ending="csv"):
    for number in range(count):
        table(path / f"f{number:03}.{ending}", [f"{path.name}-{number}"])
    return path


def looked(path, **fields):
    source = tg.Source(path, **fields)
    found = inspect_files(path, source, SIZE)
    return found, agreed_channels(found, source)


def parts_of(path, size=SIZE, **fields):
    found, source = looked(path, **fields)
    kept = kept_types(found)
    return [part for each in joined_fragments(found, size) for part in read_fragment(each, source, size, kept)]


def columns_of(parts):
    """Return ids and values of all parts, and where each is from."""
    ids = [name for part in parts for name in part.ids.to_pylist()]
    return ids, np.concatenate([part.x for part in parts]), [o for part in parts for o in part.more["origins"]]


# One bad file of many


BAD = {
    "empty.csv": b"",
    "empty.ts": b"",
    "empty.npy": b"",
    "text.parquet": b"PAR1 no table PAR1",
    "other.csv": b"id,time,b\ns,0,1\n",
    "noise.csv.gz": gzip.compress(b"id,time,a\ns,0,1\n")[:20],
    "noise.npz": b"PK no archive",
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_cannot_be_read_stops_no_other(name, tmp_path):
    folder_of(tmp_path, 5)
    (tmp_path / name).write_bytes(BAD[name])
    found, source = looked(str(tmp_path))
    wrong = [each for each in found if each.error]
    assert [each.file.origin for each in wrong] == [name]
    assert name in wrong[0].error
    fragments = joined_fragments(found, SIZE)
    assert [piece.origin for each in fragments for piece in each.pieces] == [f"f{n:03}.csv" for n in range(5)]
    assert agreed_channels(found, source).channels == ("a",)


def test_a_truncated_parquet_file_stops_no_other(tmp_path):
    path = folder_of(tmp_path, 3, "parquet") / "f001.parquet"
    path.write_bytes(path.read_bytes()[:-50])
    found, _ = looked(str(tmp_path))
    assert [bool(each.error) for each in found] == [False, True, False]


def test_the_first_file_may_be_the_one_with_other_channels(tmp_path):
    folder_of(tmp_path, 5)
    table(tmp_path / "a.csv", column="b")
    found, source = looked(str(tmp_path))
    assert [each.error for each in found if each.error] == [found[0].error]
    assert "a.csv has no column 'a', unlike others" in found[0].error
    assert agreed_channels(found, source).channels == ("a",)


def test_what_fails_when_it_is_read_is_called_by_its_name_and_tried_apart(tmp_path):
    folder_of(tmp_path, 8)
    (tmp_path / "f003.csv").write_text("id,time,a\ns,0,1\ns,1,x\n")
    found, source = looked(str(tmp_path))
    fragment, *others = joined_fragments(found, SIZE)
    with pytest.raises(DataError, match=r"f003\.csv, line 3: a is 'x'"):
        list(read_fragment(fragment, source, SIZE))
    failed = []
    for each in [piece for whole in (fragment, *others) for piece in whole.apart()]:
        try:
            assert len(next(read_fragment(each, source, SIZE))) == 1
        except DataError:
            failed.append(each.where)
    assert failed == ["f003.csv"]


@pytest.mark.skipif(os.name == "nt", reason="names there are text")
def test_links_to_nothing_and_names_that_are_no_text_are_told(tmp_path):
    folder_of(tmp_path, 3)
    (tmp_path / "link.csv").symlink_to(tmp_path / "nothing.csv")
    (tmp_path / "round.csv").symlink_to("round.csv")
    try:
        shutil.copy(tmp_path / "f000.csv", os.fsencode(tmp_path) + b"/\xff\xfe.csv")
    except OSError:
        pytest.skip("this file system takes text alone")
    found, _ = looked(str(tmp_path))
    wrong = {each.file.origin: each.error for each in found if each.error}
    assert list(wrong) == ["link.csv", "round.csv", "\\udcff\\udcfe.csv"]
    assert "does not exist" in wrong["link.csv"]
    assert "has a name that is no text in UTF-8" in wrong["\\udcff\\udcfe.csv"]
    json.dumps([each.plain for each in found], ensure_ascii=False).encode()


def test_results_of_runs_and_hidden_files_are_no_series(tmp_path):
    folder_of(tmp_path / "lake", 2)
    for name in ("run/summary/x.csv", "run/cells/day=1/x.csv", "run/drivers/x.csv", ".hidden/x.csv", "_own/x.csv"):
        table(tmp_path / "lake" / name)
    (tmp_path / "lake/run/_tempograd").mkdir()
    (tmp_path / "again").symlink_to(tmp_path / "lake")
    for place in (tmp_path, tmp_path / "lake", f"{tmp_path}/lake/**/f*.csv"):
        assert [each.file.path for each in looked(str(place))[0]] == [
            str(tmp_path / "lake" / f"f00{n}.csv") for n in (0, 1)
        ]


# Each file once


def test_files_of_equal_stamps_are_not_opened_again(tmp_path, monkeypatch):
    folder_of(tmp_path, 6)
    (tmp_path / "bad.csv").write_text("")
    source = tg.Source(str(tmp_path), keep=["time"])
    found = inspect_files(source.path, source, SIZE)
    plain = json.loads(json.dumps([each.plain for each in found]))
    known = {each.file.path: each for each in map(Inspected.from_plain, plain)}
    before = (tmp_path / "f002.csv").stat()
    table(tmp_path / "f002.csv", [f"{tmp_path.name}-9"])  # as long
    os.utime(tmp_path / "f002.csv", ns=(before.st_atime_ns, before.st_mtime_ns))
    opened, version = [], File.version
    monkeypatch.setattr(File, "version", property(lambda self: opened.append(self.origin) or version.fget(self)))
    again = inspect_files(source.path, source, SIZE, known)
    assert sorted(opened) == ["bad.csv", "f002.csv"]  # what could not be read may be readable now
    assert [each.plain for each in again[:3]] == [each.plain for each in found[:3]]
    assert again[3].version != found[3].version


def test_a_scale_that_changes_is_another_version(tmp_path):
    folder_of(tmp_path / "lake", 2)
    scale = tmp_path / "scale.csv"
    names, known = [], {}
    for mean in (1, 2):
        scale.write_text(f"channel,mean,std\na,{mean},1\n")
        source = tg.Source(str(tmp_path / "lake"), scale=str(scale))
        found = inspect_files(source.path, source, SIZE, known)
        known = {each.file.path: each for each in found}
        names.append([each.name for each in joined_fragments(found, SIZE)])
    assert not set(names[0]) & set(names[1])


# Small files together


def test_small_files_are_read_together_as_one_by_one(tmp_path):
    folder_of(tmp_path, 30)
    found, source = looked(str(tmp_path))
    fragments = joined_fragments(found, SIZE)
    assert len(fragments) < 4
    assert sum(len(each.pieces) for each in fragments) == 30
    plain = json.loads(json.dumps([each.plain for each in fragments]))
    again = [Fragment.from_plain(each) for each in plain]
    assert (again, [each.name for each in again]) == (fragments, [each.name for each in fragments])
    joined = [part for each in fragments for part in read_fragment(each, source, 7)]
    apart = [part for whole in fragments for each in whole.apart() for part in read_fragment(each, source, 7)]
    assert max(map(len, joined)) == 7
    for one, other in zip(columns_of(joined), columns_of(apart), strict=True):
        np.testing.assert_array_equal(one, other)
    assert joined[0].more["times"] == ("0", "1", "2")
    assert fragments[0].where == f"f000.csv and {len(fragments[0].pieces) - 1} more files"


def test_files_of_known_rows_are_joined_up_to_the_size(tmp_path):
    for number in range(10):
        np.save(tmp_path / f"{number}.npy", np.full((30, 4, 2), number, np.float32))
    fragments = joined_fragments(looked(str(tmp_path))[0], SIZE)
    assert max(each.rows for each in fragments) <= SIZE < 300 == sum(each.rows for each in fragments)
    ids, x, origins = columns_of(parts_of(str(tmp_path)))
    assert [f"{int(cells[0, 0])}.npy" for cells in x] == origins == [name.partition(":")[0] for name in ids]
    np.save(tmp_path / "large.npy", np.zeros((250, 4, 2), np.float32))
    large = [each for each in joined_fragments(looked(str(tmp_path))[0], SIZE) if "large" in each.where]
    assert [(each.rows, len(each.pieces)) for each in large] == [(100, 1), (100, 1), (50, 1)]


def test_folders_that_are_columns_have_fragments_of_their_own(tmp_path):
    for day in (1, 2):
        folder_of(tmp_path / f"day={day}", 4)
    before = _names(tmp_path)
    folder_of(tmp_path / "day=0", 4)
    assert before < _names(tmp_path)
    for each in joined_fragments(looked(str(tmp_path))[0], SIZE):
        assert len({piece.file.columns["day"] for piece in each.pieces}) == 1
    found = [Inspected(File(f"/lake/{n}", str(n)), (1,), (10, 1)) for n in range(3000)]
    assert max(len(each.pieces) for each in joined_fragments(found, 10**6)) == MOST_FILES


def _names(path):
    return {each.name for each in joined_fragments(looked(str(path))[0], SIZE)}


def test_small_files_of_many_folders_are_joined(tmp_path):
    for number in range(12):
        table(tmp_path / f"patient{number:02}" / "rows.csv", [f"p{number}"])
    assert len(joined_fragments(looked(str(tmp_path))[0], SIZE)) == 1


def test_parts_of_other_shapes_and_masks_are_told_apart(tmp_path):
    table(tmp_path / "a.csv", ["a"], steps=3)
    table(tmp_path / "b.csv", ["b"], steps=5)
    (tmp_path / "c.csv").write_text("id,time,a\nc,7,1\nc,8,\nc,9,2\n")
    assert [part.x.shape for part in parts_of(str(tmp_path))] == [(1, 3, 1), (1, 5, 1), (1, 3, 1)]
    (part,) = parts_of(str(tmp_path), shape=(5, 1))
    assert part.mask[..., 0].tolist() == [[True] * 3 + [False] * 2, [True] * 5, [True, False, True, False, False]]
    assert part.more["times"] == [("0", "1", "2"), ("0", "1", "2", "3", "4"), ("7", "8", "9")]


def test_faults_of_joined_rows_stay_with_their_series(tmp_path):
    for number in range(2):
        x = [[[1.0], [2.0]], [[3.0], [4.0]] if number == 0 else None]
        pa.parquet.write_table(
            pa.table({"id": [f"{number}a", f"{number}b"], "x": x}), tmp_path / f"{number}.parquet"
        )
    (part,) = parts_of(str(tmp_path))
    assert part.faults == {3: "there is no series"}
    assert part.ids.to_pylist() == ["0a", "0b", "1a", "1b"]


def test_ids_of_two_kinds_in_one_fragment_are_refused_by_name(tmp_path):
    table(tmp_path / "a.csv", ["7"])
    table(tmp_path / "b.csv", ["s7"])
    with pytest.raises(DataError, match=r"ids of a\.csv are whole numbers, those of b\.csv texts"):
        parts_of(str(tmp_path))


def test_raw_values_stay_beside_scaled_ones(tmp_path):
    folder_of(tmp_path / "lake", 3)
    (tmp_path / "scale.csv").write_text("channel,mean,std\na,1,2\n")
    assert all("raw" not in part.more for part in parts_of(str(tmp_path / "lake")))
    (part,) = parts_of(str(tmp_path / "lake"), scale=str(tmp_path / "scale.csv"), shape=(4, 1))
    np.testing.assert_allclose(part.x[:, :3], (part.more["raw"][:, :3] - 1) / 2)
    assert part.more["raw"].shape == (3, 4, 1)


# Columns that go along


def test_kept_columns_have_one_type_in_all_files(tmp_path):
    table(tmp_path / "a.parquet", ["a"], k=np.int32(1), w=pd.Timestamp("2026-01-01"))
    table(tmp_path / "b.parquet", ["b"], k=0.5, w=pd.Timestamp("2026-01-02", tz=None).as_unit("s"))
    table(tmp_path / "c.parquet", ["c"], k=2**40, w=pd.Timestamp("2026-01-03"))
    found, source = looked(str(tmp_path), keep=["k", "w"], channels=["a"])
    kept = kept_types(found)
    assert kept.field("k").type == pa.float64()
    assert pa.types.is_timestamp(kept.field("w").type)
    (part,) = parts_of(source.path, keep=["k", "w"], channels=["a"])
    assert (part.kept["k"].to_pylist(), part.kept["k"].type) == ([1.0, 0.5, 2.0**40], pa.float64())
    assert part.kept["w"].type == kept.field("w").type
    table(tmp_path / "d.parquet", ["d"], k="text", w=pd.Timestamp("2026-01-03"))
    with pytest.raises(
        DataError,
        match=r"d\.parquet holds other columns .* k has incompatible types: double vs string",
    ):
        kept_types(looked(source.path, keep=["k", "w"], channels=["a"])[0])


def test_a_column_of_text_that_is_empty_in_one_file_stays_text(tmp_path):
    table(tmp_path / "day=1" / "a.csv", ["a"], k="")
    table(tmp_path / "day=1" / "b.csv", ["b"], k="x")
    (part,) = parts_of(str(tmp_path), keep=["k", "day"], channels=["a"])
    assert part.kept["k"].to_pylist() == [None, "x"]
    assert part.kept["day"].to_pylist() == ["1", "1"]


def kept_of(types, folder):
    """Write files with a column of these types, and return the type that goes along."""
    for number, kind in enumerate(types):
        columns = {"id": ["s"], "time": [0], "a": [1.0], "k": pa.array([None], kind)}
        pa.parquet.write_table(pa.table(columns), folder / f"{number}.parquet")
    return kept_types(looked(str(folder), keep=["k"], channels=["a"])[0]).field("k").type


@pytest.mark.parametrize(
    ("types", "common"),
    [
        ([pa.int32(), pa.int64(), pa.int8()], pa.int64()),
        ([pa.int64(), pa.float32()], pa.float64()),
        ([pa.timestamp("s"), pa.timestamp("us")], pa.timestamp("us")),
        ([pa.timestamp("s", "UTC"), pa.timestamp("ms", "UTC")], pa.timestamp("ms", "UTC")),
        ([pa.decimal128(5, 2), pa.decimal128(7, 2)], pa.decimal128(7, 2)),
        ([pa.dictionary(pa.int8(), pa.string()), pa.large_string()], pa.string()),
        ([pa.null(), pa.string()], pa.string()),
        ([pa.null()], pa.string()),
    ],
)
def test_types_in_common(types, common, tmp_path):
    assert kept_of(types, tmp_path) == kept_of(types[::-1], tmp_path) == common


@pytest.mark.parametrize("types", [(pa.int64(), pa.string()), (pa.string(), pa.date32())])
def test_types_with_nothing_in_common_are_refused(types, tmp_path):
    with pytest.raises(DataError, match="write its columns alike, or leave them out of keep="):
        kept_of(types, tmp_path)


# Files larger than memory


def mask_of(parts):
    return np.concatenate([np.ones(part.x.shape, bool) if part.mask is None else part.mask for part in parts])


def large(path, names, steps, groups=7, shuffled=None, **more):
    """Write rows as steps, of series of unequal length, in small row groups."""
    lengths = dict(zip(names, np.resize(steps, len(names)), strict=True))
    rows = [
        (name, 2 * step, row + step / 8, -step) for row, name in enumerate(names) for step in range(lengths[name])
    ]
    frame = pd.DataFrame(rows, columns=["id", "time", "a", "b"]).assign(**more)
    frame = frame if shuffled is None else frame.sample(frac=1, random_state=shuffled)
    frame.to_parquet(path, row_group_size=groups, index=False)
    return str(path)


@pytest.mark.parametrize("align", [None, "time", "order"])
@pytest.mark.parametrize("names", [range(40), [f"s{n}" for n in range(40)]])
@pytest.mark.parametrize("steps", [[5], [5, 1, 30, 2], [90, 1, 1, 1]])
def test_a_large_file_is_read_in_parts_as_whole(align, names, steps, tmp_path, monkeypatch):
    path = large(tmp_path / "rows.parquet", list(names), steps, k=3)
    fields = {"align": align, "shape": (max(steps), 2), "keep": ["k"], "channels": ["a", "b"]}
    whole = parts_of(path, **fields)
    monkeypatch.setattr(fragments, "LONG_BYTES", 1 << 11)
    parts = parts_of(path, **fields)
    source = tg.Source(path, **(fields | {"keep": ()}))
    assert len(list(fragments.long_parts(File(path, ""), source))) > 1
    for one, other in zip(columns_of(parts), columns_of(whole), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(mask_of(parts), mask_of(whole))
    assert [k for part in parts for k in part.kept["k"].to_pylist()] == [3] * 40
    if align != "order":
        assert all(part.more["times"] == whole[0].more["times"] for part in parts)


def test_gaps_that_another_part_shows_are_told_as_in_the_whole_file(tmp_path, monkeypatch):
    monkeypatch.setattr(fragments, "LONG_BYTES", 1 << 10)
    frame = pd.DataFrame({"id": np.repeat(range(60), 3), "time": np.tile([0, 1, 2], 60), "a": 1.0})
    frame.loc[frame.id == 59, "time"] += 1
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=9, index=False)
    with pytest.raises(DataError, match="series '59' has no row for time 0, which others have"):
        parts_of(str(tmp_path / "rows.parquet"))
    (_, x, _), whole = columns_of(parts_of(str(tmp_path / "rows.parquet"), align="time")), (60, 4, 1)
    assert x.shape == whole


def test_a_large_file_that_is_not_sorted_is_refused(tmp_path, monkeypatch):
    path = large(tmp_path / "rows.parquet", list(range(40)), [5], shuffled=0)
    assert len(parts_of(path)[0]) == 40
    monkeypatch.setattr(fragments, "LONG_BYTES", 1 << 11)
    with pytest.raises(DataError, match="goes on after another has begun: sort a file of this size by 'id'"):
        parts_of(path)


def test_a_large_parquet_file_is_known_by_parts_and_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BUFFER", 64)
    monkeypatch.setattr(files, "LOOKS", 4)
    path, values = tmp_path / "a.parquet", np.zeros(50_000)
    for most in (2.0, 3.0):
        values[25_000] = most
        pa.parquet.write_table(pa.table({"v": values}), path, compression="none", use_dictionary=False)
        known = File(str(path), "a.parquet").version
        if most == 2.0:
            before = known
    assert known[0] == before[0]
    assert known[1] != before[1]


def test_a_folder_tells_series_of_one_name_apart(tmp_path):
    """A machine is there each day; alone, with no folder in its name, it would be there twice."""
    for day in (1, 2):
        folder = tmp_path / f"day=0{day}"
        folder.mkdir()
        rows = [f"{machine},{time},{day * time}" for machine in ("a", "b") for time in range(3)]
        (folder / "all.csv").write_text("\n".join(["machine,time,x", *rows]))
    source = tg.Source(tmp_path, id="day,machine", time="time")
    names = ["01/a", "01/b", "02/a", "02/b"]
    assert source.read().ids == tuple(names)
    parts = parts_of(tmp_path, id="day,machine", time="time")
    assert [name for part in parts for name in part.ids.to_pylist()] == names
    two = tg.Source(tmp_path, id="time,machine")
    with pytest.raises(tg.TempogradError, match="is called 'time,machine'"):
        two.read()
