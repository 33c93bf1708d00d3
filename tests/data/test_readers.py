"""Series from files of one's own: every form of the same content gives the same tensors, bit for bit."""

import gzip
import time as clock

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import torch

import tempograd as tg
from tempograd.data import table as tables

X = [  # (series, time, channel): a series of three steps with a missing pulse, one of two, one of four
    [[80.1, 140.25], [None, 139.5], [82.3, 141.0]],
    [[95.7, 1e-30], [97.3, -133.125]],
    [[60.0, 138.0], [61.5, None], [0.1, 137.0], [63.3333333333, 136.0]],
]
NAMES = ("bed 7", "bed 3", "bed 12")
LABELS = ("well", "ill", "well")
CHANNELS = ("pulse", "sodium")


def tensors(content=X):
    """The same by hand: a plain loop over cells."""
    length = max(map(len, content))
    x, mask = torch.zeros(len(content), length, len(content[0][0])), None
    mask = torch.zeros(x.shape, dtype=torch.bool)
    for row, steps in enumerate(content):
        for step, cells in enumerate(steps):
            for channel, cell in enumerate(cells):
                if cell is not None:
                    x[row, step, channel] = torch.tensor(cell, dtype=torch.float64).float()
                    mask[row, step, channel] = True
    return x, mask


def same_cells(found, content):
    """Each series has its own length, and 0 where nothing was observed."""
    x, mask = tensors(content)
    assert [len(one) for one in found.x] == list(map(len, content))
    padded = found.padded()
    assert torch.equal(padded.x, x)
    assert torch.equal(padded.mask, mask)


def cell(value):
    return "" if value is None else repr(value)


def long_rows():
    rows = ["patient,hour,pulse,sodium,state"]
    for name, label, steps in zip(NAMES, LABELS, X, strict=True):
        rows += [f"{name},{t},{cell(a)},{cell(b)},{label}" for t, (a, b) in enumerate(steps)]
    return rows


def ts_lines():
    lines = ["# made here", "@problemName Ward", "@timeStamps false", "@missing true", "@univariate false"]
    lines += ["@dimensions 2", "@equalLength false", "@classLabel true well ill", "@data"]
    for label, steps in zip(LABELS, X, strict=True):
        columns = [",".join("?" if v is None else repr(v) for v in column) for column in zip(*steps, strict=True)]
        lines.append(":".join([*columns, label]))
    return lines


def parquet(source, path):
    pq.write_table(pa_csv.read_csv(source), path)
    return path


WARD = {"id": "patient", "label": "state"}


@pytest.mark.parametrize("kind", ["long", "long.parquet", "long.gz", "semicolon"])
def test_tables_give_the_tensors_of_a_plain_loop(kind, write, tmp_path):
    rows = long_rows()
    path = write("ward.csv", [row.replace(",", ";") for row in rows] if kind == "semicolon" else rows)
    if kind.endswith("parquet"):
        path = parquet(path, tmp_path / "ward.parquet")
    if kind.endswith("gz"):
        packed = tmp_path / "ward.csv.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        path = packed
    found = tg.read_series(path, **WARD)
    same_cells(found, X)
    assert found.y.tolist() == [1, 0, 1]
    assert found.classes == ("ill", "well")
    assert (found.ids, found.channels, found.times) == (NAMES, CHANNELS, ("0", "1", "2", "3"))


def test_a_ts_file_gives_the_same_tensors(write):
    found = tg.read_series(write("ward.ts", ts_lines()), channels=CHANNELS)
    same_cells(found, X)
    assert (found.y.tolist(), found.classes, found.channels) == ([1, 0, 1], ("ill", "well"), CHANNELS)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_wide_table_has_one_row_per_series(ending, write, tmp_path):
    content = [[[0.1], [0.2], [None]], [[3.5], [None], [-7.25]]]
    rows = ["case,t0,t1,t2,label"] + [
        f"{10 - r},{','.join(cell(v[0]) for v in s)},{r}" for r, s in enumerate(content)
    ]
    path = write("w.csv", rows)
    found = tg.read_series(path if ending == "csv" else parquet(path, tmp_path / "w.parquet"))
    same_cells(found, [content[0][:2], content[1]])  # its last step has no value
    assert found.ids.tolist() == [10, 9]
    assert (found.y.tolist(), found.classes) == ([0, 1], None)
    assert found.times == ("t0", "t1", "t2")


@pytest.mark.parametrize("first", [0, 1])  # as pandas and R number rows
def test_a_column_that_numbers_the_rows_is_no_channel(write, tmp_path, first):
    import pandas as pd

    frame = pd.DataFrame(
        {"id": [1, 1, 2], "time": [0, 1, 0], "a": [0.5, 1.5, 2.5]}, index=[first + i for i in range(3)]
    )
    frame.to_csv(tmp_path / "f.csv")
    frame.to_csv(tmp_path / "g.csv", index_label="Unnamed: 0")
    for given in (tmp_path / "f.csv", tmp_path / "g.csv", pd.read_csv(tmp_path / "f.csv")):
        with pytest.raises(tg.TempogradError, match=r"has no name: pass channels=\('a',\)"):
            tg.read_series(given)
        found = tg.read_series(given, channels=["a"])
        assert [one.flatten().tolist() for one in found.x] == [[0.5, 1.5], [2.5]]
    wide = write("w.csv", [",X1,X2,y", "p,1,2,0", "q,3,4,1"])
    named = tg.read_series(wide, id="column 1")
    assert (named.ids, named.x.flatten(1).tolist()) == (("p", "q"), [[1, 2], [3, 4]])
    pq.write_table(pa.table({"__index_level_0__": [7, 7, 7], **frame.to_dict("list")}), tmp_path / "i.parquet")
    assert tg.read_series(tmp_path / "i.parquet").padded().x.tolist() == found.padded().x.tolist()


@pytest.mark.parametrize(
    "rows",
    [
        [",id,time,b", "0,1,0,6", "1,1,1,8"],
        ["id,time,,b", "1,0,5,6", "1,1,7,8"],
        ["id,time,b,", "1,0,5,0", "1,1,7,1"],
        [",id,time,b", "5,1,0,6", "7,1,1,8"],
        [",id,time,b", "7,1,0,6", "8,1,1,8"],
        [",id,time,,b", "0,1,0,5,6", "1,1,1,7,8"],
        [",t0,t1", "p,1,2", "q,3,4"],
    ],
)
def test_a_column_without_a_name_is_refused(write, rows, tmp_path):
    """It may be a channel that lost its name: nothing is left out without a word."""
    path = write("f.csv", rows)
    with pytest.raises(tg.TempogradError, match=r"f\.csv: 'column [134]' has no name"):
        tg.read_series(path)
    with pytest.raises(tg.TempogradError, match="has no name"):
        tg.explain_dataset(lambda x: x.sum(1), str(path), tmp_path / "out")


def test_rows_of_a_large_parquet_file_keep_their_order(tmp_path):
    path, rows = tmp_path / "large.parquet", np.arange(60_000)
    pq.write_table(pa.table({"id": rows, "t0": rows % 1000, "t1": rows % 7}), path, row_group_size=4000)
    found = tg.read_series(path)
    assert torch.equal(found.ids, torch.from_numpy(rows))
    assert torch.equal(found.x[:, 1, 0].long(), torch.from_numpy(rows) % 7)


def test_rows_may_come_in_any_order_and_blocks_of_any_size(write, monkeypatch):
    rows = long_rows()
    shuffled = [rows[0], *(rows[1 + i] for i in (3, 0, 8, 5, 2, 7, 1, 4, 6))]
    monkeypatch.setattr(tables, "CELLS", 10)
    found = tg.read_series(write("ward.csv", shuffled), **WARD)
    order = [NAMES.index(name) for name in found.ids]
    assert order == [1, 0, 2]  # in order of appearance
    same_cells(found, [X[place] for place in order])
    assert found.y.tolist() == [0, 1, 1]


def test_lines_are_counted_over_all_blocks(write, monkeypatch):
    monkeypatch.setattr(tables, "CELLS", 6)
    rows = ["id,time,a", *(f"1,{t},1" for t in range(4)), "1,4,high"]
    with pytest.raises(tg.TempogradError, match="line 6: a is 'high'"):
        tg.read_series(write("f.csv", rows))
    with pytest.raises(tg.TempogradError, match="line 6: 2 cells instead of 3"):
        tg.read_series(write("f.csv", [*rows[:-1], "1,4"]))


def test_y_is_a_channel_beside_x_and_z(write):
    found = tg.read_series(write("a.csv", ["id,time,x,y,z", "1,0,1,2,3"]))
    assert (found.channels, found.y) == (("x", "y", "z"), None)
    assert tg.read_series(write("a.csv", ["id,time,x,y", "1,0,1,2"]), label="y").channels == ("x",)
    assert tg.read_series(write("a.csv", ["id,time,a,y", "1,0,1,2"])).channels == ("a",)


def test_channels_are_chosen_and_ordered_by_name(write):
    found = tg.read_series(write("ward.csv", long_rows()), **WARD, channels=["sodium"])
    same_cells(found, [[step[1:] for step in steps] for steps in X])
    swapped = tg.read_series(write("ward.csv", long_rows()), **WARD, channels=["sodium", "pulse"])
    same_cells(swapped, [[step[::-1] for step in steps] for steps in X])


@pytest.mark.skipif(not hasattr(clock, "tzset"), reason="the system has one time zone")
def test_a_table_without_ids_is_one_series_and_dates_are_times(write, monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")  # where 02:00 did not exist on that day
    clock.tzset()
    rows = ["date,load", "2026-03-29T03:00,2", "2026-03-29T01:00,1", "2026-03-29T02:00,"]
    found = tg.read_series(write("one.csv", rows))
    assert found.x.flatten().tolist() == [1, 0, 2]
    assert found.mask.flatten().tolist() == [True, False, True]
    monkeypatch.undo()
    clock.tzset()
    assert found.times == ("2026-03-29T01:00", "2026-03-29T02:00", "2026-03-29T03:00")
    assert found.y is None


GAPS = ["id,time,a", "1,0,10", "1,5,11", "1,7,12", "2,5,20", "2,0.5,21"]


def test_gaps_are_placed_as_the_user_says(write):
    path = write("gaps.csv", GAPS)
    with pytest.raises(
        tg.TempogradError, match=r"series '1' has no row for time 0\.5, which others have .*: pass align='time'\.$"
    ):
        tg.read_series(path)
    by_time = tg.read_series(path, align="time")
    assert by_time.times == ("0", "0.5", "5", "7")
    same_cells(by_time, [[[10], [None], [11], [12]], [[None], [21], [20]]])
    by_order = tg.read_series(path, align="order")
    assert by_order.times == (("0", "5", "7"), ("0.5", "5", ""))
    assert by_order.take([1]).times == (("0.5", "5"),)
    same_cells(by_order, [[[10], [11], [12]], [[21], [20]]])


@pytest.mark.parametrize(
    ("times", "gap"),
    [
        ("0 1 2 4 5", "2 and 4"),
        ("2026-01-31T22:00 2026-01-31T23:00 2026-02-01T00:00 2026-02-01T03:00", "T00:00 and 2026-02-01T03:00"),
        ("1767225600000000000 1767225600100000000 1767225600200000000 1767225600400000000", "0200000000 and 17"),
        ("0 1 2 3", None),
        ("0 5 65 300", None),  # times of its own
        ("2026-01-31 2026-02-28 2026-03-31 2026-04-30", None),  # months
        ("0 5", None),
    ],
)
def test_a_gap_in_even_times_of_the_only_series(times, gap, write):
    """No other series has the time that it lacks, but the model would read the rest a step early."""
    path = write("one.csv", ["time,a", *(f"{time},{place}" for place, time in enumerate(times.split()))])
    if gap is not None:
        for align in (None, "time"):
            with pytest.raises(tg.TempogradError, match=f"the only series has no row between .*{gap}"):
                tg.read_series(path, align=align)
    found = tg.read_series(path, align=None if gap is None else "order")
    assert found.x.flatten().tolist() == list(range(len(times.split())))


def test_without_times_the_order_of_rows_counts_if_asked_for(write):
    path = write("rows.csv", ["id,a", "x,1", "y,2", "x,3"])
    with pytest.raises(tg.TempogradError, match=r"has the columns id, a: pass time= if"):
        tg.read_series(path)
    found = tg.read_series(path, format="long", align="order")
    same_cells(found, [[[1], [3]], [[2]]])


def test_labels_per_step(write):
    found = tg.read_series(write("l.csv", ["id,t,a,y", "1,0,1,2", "1,1,1,0", "1,2,1,1", "2,0,1,2"]))
    assert found.y.tolist() == [[2, 0, 1], [2, 0, 0]]


@pytest.mark.parametrize(
    ("labels", "options", "y", "classes"),
    [
        (("0.5", "2"), {}, [0.5, 2.0], None),
        (("-1", "1"), {}, [0, 1], ("-1", "1")),
        (("True", "False"), {}, [1, 0], ("False", "True")),
        (("b", "a"), {"classes": ["c", "b", "a"]}, [1, 2], ("c", "b", "a")),
        (("1", "2"), {"classes": ["1", "2"]}, [0, 1], ("1", "2")),
    ],
)
def test_labels_of_every_kind(labels, options, y, classes, write):
    rows = ["id,t0,t1,label", f"1,0,0,{labels[0]}", f"2,0,0,{labels[1]}"]
    found = tg.read_series(write("l.csv", rows), **options)
    assert (found.y.tolist(), found.classes) == (y, classes)
    assert tg.read_series(write("l.csv", rows), labels=False).y is None


def test_numbers_that_do_not_begin_with_zero_are_pointed_out(write):
    with pytest.warns(tg.TempogradWarning, match="labels 1, 2 are taken as the numbers of the model's outputs"):
        found = tg.read_series(write("l.csv", ["t0,t1,label", "0,0,1", "0,0,2"]))
    assert found.y.tolist() == [1, 2]


def test_classes_of_a_ts_header_are_sorted_as_numbers(write):
    lines = ["@classLabel true 10 9 2", "@data", "1,2:9", "1,2:10"]
    found = tg.read_series(write("a.ts", lines))
    assert (found.y.tolist(), found.classes) == ([1, 2], ("2", "9", "10"))


def test_npz_with_text(tmp_path):
    x = np.arange(12, dtype=np.float64).reshape(2, 3, 2)
    np.savez(tmp_path / "a.npz", x=x, y=np.array(["no", "yes"])[[1, 0]], ids=np.array(["p", "q"]), times=[5, 6, 7])
    found = tg.read_series(tmp_path / "a.npz", channels=["u", "v"])
    assert found.x.dtype == torch.float64
    assert torch.equal(found.x, torch.from_numpy(x))
    assert (found.y.tolist(), found.classes) == ([1, 0], ("no", "yes"))
    assert (found.ids, found.times, found.channels) == (("p", "q"), ("5", "6", "7"), ("u", "v"))


def test_parts_keep_their_names(write):
    found = tg.read_series(write("ward.csv", long_rows()), **WARD)
    part = found.take([2, 0])
    assert (part.ids, part.channels) == (("bed 12", "bed 7"), CHANNELS)
    same_cells(part, [X[2], X[0]])
    assert found.take(slice(1, None)).ids == ("bed 3", "bed 12")


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (["id,time,a", "", "1,0,5", "", "1,1"], {}, "f.csv, line 5: 2 cells instead of 3"),
        (["id,time,a", "1,0,5", '1,1,"6\n"', "1,2,x"], {}, "f.csv, line 5: a is 'x'"),
        (["id,time,a", "1,0,1e39"], {}, r"line 2: a is 1e\+39, which is no finite number in single precision"),
        (["id,time,a", "1,0,1", "1,0,2"], {}, "line 3: series '1' has this time twice"),
        (["time,a", "0,1", "0,2"], {}, r"line 3: the only series has this time twice.*pass id= for"),
        (["id,time,a", "1,,1"], {}, "line 2: the time is 'nan'|line 2: the time is missing"),
        (["id,time,a", "1,0,1", ",0,1"], {}, "line 3: the name of the series is missing"),
        (["id,time,a,y", "1,0,1,"], {}, "line 2: the label is missing"),
        (["id,time,a,y", "1,0,1,b"], {"classes": ["a"]}, "label 'b' is none of the classes a"),
        (["a,b,c", "1,2,3"], {}, r"has the columns a, b, c: pass time= if a row is one step"),
        (["id,time,t,a", "1,2,3,4"], {}, "'time' and 't' could both be the time"),
        (["id,time,a", "1,2,3"], {"id": "patiant"}, "No column of .*f.csv is called 'patiant'"),
        (["id,time,a", "1,2,3"], {"channels": ["b"]}, "No column of .*f.csv is called 'b'"),
        (["id,time", "1,2"], {}, "no column is left for a channel"),
        (["a,a", "1,2"], {}, "has the column 'a' twice"),
        (["id,time,a"], {}, "holds no series"),
        (["id,time,a", "1,0,"], {}, "holds no value at all"),
        (["1\t4.1\t4.1", "1\t4.1\t4.1"], {}, "has the column '4.1' twice"),
        (["id,t0,t1", "1,2,3", "2,2,3", "1,2,3"], {}, "f.csv: ids must be distinct, but 1 occurs more than once"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(rows, options, message, write):
    with pytest.raises(tg.TempogradError, match=message):
        tg.read_series(write("f.csv", rows), **options)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["@classLabel true a", "@data", "1,2:3,4:a", "# 2", "1,2:a"], "line 5: 1 dimensions instead of 2"),
        (["@classLabel true a", "@data", "1,2:b"], "label 'b' is none of the classes a"),
        (["@timeStamps true", "@data", "(0,1)"], "not all values are numbers in single precision"),
        (["1,2:a"], "must hold the line @data"),
        (["@data"], "must hold the line @data and series below it"),
        (["@data", "1e300"], "line 2: not all values are numbers in single precision"),
    ],
)
def test_what_is_wrong_with_a_ts_file(lines, message, write):
    with pytest.raises(tg.TempogradError, match=message):
        tg.read_series(write("f.ts", lines))


def test_what_is_wrong_with_parquet(write, tmp_path):
    path = parquet(write("p.csv", ["id,time,a,ward", "1,0,5,ICU"]), tmp_path / "p.parquet")
    with pytest.raises(tg.TempogradError, match=r"'ward' holds text, not numbers: pass channels=\('a',\)"):
        tg.read_series(path)
    assert tg.read_series(path, channels=["a"]).x.item() == 5
    twice = parquet(write("p.csv", ["id,time,a", "1,0,5", "1,0,5"]), tmp_path / "q.parquet")
    with pytest.raises(tg.TempogradError, match=r"q\.parquet, row 2: series '1' has this time twice"):
        tg.read_series(twice)


def test_npz_with_what_people_know(tmp_path):
    x, raw = np.zeros((2, 3, 1), np.float32), np.arange(6.0).reshape(2, 3, 1)
    days = np.array([["2026-01-01", "2026-01-02", "2026-01-03"], ["2026-02-01", "2026-02-02", "NaT"]], "M8[ns]")
    np.savez(tmp_path / "a.npz", x=x, raw=raw, units=np.array(["bpm"]), times=days)
    found = tg.read_series(tmp_path / "a.npz")
    assert found.times == (("2026-01-01", "2026-01-02", "2026-01-03"), ("2026-02-01", "2026-02-02", ""))
    assert (found.units, found.raw.tolist()) == (("bpm",), raw.tolist())
    part = found.take([1])
    assert (part.times, part.raw.tolist()) == ((found.times[1],), [raw[1].tolist()])
    explained = tg.explain(lambda z: z[:, 0], part, "random", output="raw")
    assert (explained.times, explained.units, explained.raw.tolist()) == (part.times, ("bpm",), [raw[1].tolist()])
    for wrong, message in (
        (
            {"times": np.array([["a", "b", "c"]])},
            "times must hold 3 texts, or 3 for each of the 2 series, got 1 rows",
        ),
        ({"units": np.array(["a", "b"])}, "units must have 1 entries, got 2"),
        ({"raw": raw[:, :2]}, r"raw must have the shape of x, \(2, 3, 1\), got \(2, 2, 1\)"),
    ):
        np.savez(tmp_path / "b.npz", x=x, **wrong)
        with pytest.raises(tg.TempogradError, match=message):
            tg.read_series(tmp_path / "b.npz")


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_numbers_of_classes_get_names(kind, tmp_path):
    """Labels 0 and 1 are classes already; other numbers, and names that are numbers, are matched as texts."""
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        path.write_text("id,time,load,label\na,0,1.5,1\nb,0,2.5,0\nc,0,3.5,1\n")
    else:
        np.savez(path, x=np.zeros((3, 1, 1), "f4"), y=np.array([1, 0, 1]))
    found = tg.read_series(path, classes=["fine", "failure"])
    assert (found.y.tolist(), found.classes) == ([1, 0, 1], ("fine", "failure"))
    found = tg.read_series(path, classes=["1", "0"])
    assert (found.y.tolist(), found.classes) == ([0, 1, 0], ("1", "0"))
    with pytest.raises(tg.TempogradError, match="label '1' is none of the classes fine"):
        tg.read_series(path, classes=["fine"])
