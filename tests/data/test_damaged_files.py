"""Files of series that are damaged, hostile or no files: one sentence each, never more memory than there is."""

import gzip
import os
import zipfile
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import tempograd as tg
from tempograd.core.errors import short_path
from tempograd.data import source
from tests.fuzz.series_files import X, npy_bytes, one_sentence, read, sound_files, zip_bytes


def refusal(path, **options):
    """The sentence that says why a file is not read."""
    found = read(path, **options)
    assert isinstance(found, str), found
    return found.replace(short_path(path), Path(path).name) if isinstance(path, Path) else found


def parquet(path, **columns):
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def npz(path, **arrays):
    np.savez(path, **({"x": X} | arrays))
    return path


# --- what is no file -------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "ts", "npy", "npz", "parquet"])
def test_what_is_no_file(ending, tmp_path, monkeypatch):
    path = tmp_path / f"a.{ending}"
    assert refusal(path) == f"{path.name} does not exist."
    os.mkfifo(path)  # nobody writes to it: reading would wait for ever
    assert refusal(path) == f"{path.name} is a device or a pipe: write its content to a file first."
    path.unlink()
    path.symlink_to(path)
    assert "Too many levels of symbolic links" in refusal(path)
    path.unlink()
    assert "File name too long" in refusal(tmp_path / f"{'n' * 300}.{ending}")
    path.write_bytes(b"")

    def denied(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)  # root may read everything
    assert refusal(path) == f"{path.name} cannot be read: Permission denied."


@pytest.mark.parametrize("name", ["a.xlsx", "a", "a.npz.gz", "a.parquet.gz", ".gz"])
def test_endings_that_are_not_read(name, tmp_path):
    (tmp_path / name).write_bytes(b"a")
    assert "files of series end in " in refusal(tmp_path / name)


def test_a_folder_that_is_not_there(tmp_path):
    assert refusal(tmp_path / "lake") == "lake does not exist."


@pytest.mark.parametrize("path", [5, None, b"a.csv", [], object()])
def test_a_path_is_a_text(path):
    assert refusal(path).startswith("path must be the name of a file, as a text or a pathlib.Path, got ")


@pytest.mark.parametrize(
    "kind", ["long.csv", "packed.csv.gz", "text.ts", "array.npy", "plain.npz", "zstd.parquet"]
)
@pytest.mark.parametrize("delta", ["grows", "is replaced", "goes"])
def test_a_file_that_changes_while_it_is_read(kind, delta, tmp_path, monkeypatch):
    (file,) = [file for file in sound_files(tmp_path) if file.name == kind]
    path = file.write(tmp_path)
    assert not isinstance(read(path), str)
    read_part, seen = source.read_part, []

    def meanwhile(*args, **named):
        found = read_part(*args, **named)
        seen.append(delta)
        if delta == "grows":
            with path.open("ab") as grown:
                grown.write(b"\n")
        else:
            path.unlink()
        if delta == "is replaced":
            file.write(tmp_path)
            os.utime(path, ns=(1, 1))
        return found

    monkeypatch.setattr(source, "read_part", meanwhile)
    wanted = (
        "does not exist." if delta == "goes" else "changed while it was read: read it again when it is complete."
    )
    assert refusal(path) == f"{path.name} {wanted}"
    assert len(seen) == 1


# --- CSV and other text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty: its first line must hold the names of its columns."),
        (b"id,time,a\n", "holds no series: it has no row of values."),
        (b"id,time,a,a\n1,0,5,6\n", "has the column 'a' twice."),
        (b"id,time,a\n1,0,5\n1,1\n", ", line 3: 2 cells instead of 3."),
        (b'id,time,a\n1,0,"5\n1,1,6\n', ", line 2: unexpected end of data, perhaps a quotation mark"),
        (
            b'id,time,a,y\n1,0,5,a\n2,0,6,"b\n3,0,7,b\n',
            ", line 3: unexpected end of data, perhaps a quotation mark",
        ),
        (b'"id,time,a\n1,0,5\n', ", line 1: unexpected end of data, perhaps a quotation mark"),
        (b"id,time,a\n1,0,5\n1,1,\0\n", ", line 3: a is '\\x00', which is no number"),
        (
            "id,time,ä\n".encode("latin-1"),
            "is no text in UTF-8: save it as UTF-8, or give it the ending of what it is.",
        ),
        ("id,time,a\n1,0,5\n".encode("utf-16"), "is no text in UTF-8"),
    ],
)
def test_text_that_is_wrong(content, sentence, tmp_path):
    for name, written in (("a.csv", content), ("a.csv.gz", gzip.compress(content))):
        (tmp_path / name).write_bytes(written)
        assert refusal(tmp_path / name).removeprefix(name).strip().startswith(sentence)


def test_a_field_of_any_length_has_a_sentence(tmp_path):
    for cell in (b"7" * 131_073, b'"' + b"x\n" * 70_000):
        (tmp_path / "a.csv").write_bytes(b"id,time,a\n1,0,5\n\n1,1," + cell + b"\n1,2,3\n")
        assert refusal(tmp_path / "a.csv") == (
            "a.csv, line 4: field larger than field limit (131072), perhaps a quotation mark is opened and never "
            "closed."
        )
    (tmp_path / "a.csv").write_bytes(b"i" * 131_073 + b",time,a\n1,0,5\n")
    assert ", line 1: field larger than field limit (131072)" in refusal(tmp_path / "a.csv")
    digits = "1" * 131_000  # a number of so many digits, or one that is none in the end, takes no quadratic time
    for cell, what in ((f"{digits}x", f"a is '{'1' * 23}…', which is no number"), (digits, "a is inf, which")):
        (tmp_path / "a.csv").write_text(f"id,time,a\n1,0,{cell}\n")
        assert what in refusal(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text(f"t{digits},t2\n1,2\n")
    assert "pass time=" in refusal(tmp_path / "a.csv")


def test_other_line_ends_and_marks_are_read(write, tmp_path):
    rows = ["id,time,a", "1,0,5", "1,1,6"]
    for number, end in enumerate(("\n", "\r\n", "\r")):
        for mark in ("", "\ufeff"):
            path = tmp_path / f"{number}.csv"
            path.write_bytes((mark + end.join(rows) + end).encode())
            found = tg.read_series(path)
            assert (found.x.flatten().tolist(), found.ids.tolist()) == ([5, 6], [1])
    found = tg.read_series(write("h.csv", ['id,time,"two', 'lines"', "1,0,5"]))
    assert found.channels == ("two\nlines",)


def test_thousands_of_columns(tmp_path):
    count = 5000
    path = tmp_path / "wide.csv"
    cells = np.arange(3 * count).reshape(3, count) % 1000
    lines = [",".join(f"t{step}" for step in range(count)), *(",".join(map(str, row)) for row in cells.tolist())]
    path.write_text("\n".join(lines))
    found = tg.read_series(path)
    assert torch.equal(found.x[..., 0], torch.from_numpy(cells).float())
    assert found.times[-1] == "t4999"
    path.write_text("\n".join([lines[0], lines[1].replace(",998,", ",x,", 1)]))
    assert ", line 2: t998 is 'x', which is no number" in refusal(path)


def test_many_of_everything(tmp_path):
    """Columns without a name, channels that are chosen, labels below zero."""
    count = 5000
    path = tmp_path / "many.csv"
    path.write_text(f"id,{',' * count}t0,t1\n" + "7," * (count + 2) + "5\n")
    assert "'column 2' has no name: pass id= or label= for it, or take it out" in refusal(path)
    names = [f"c{number}" for number in range(count)]
    path.write_text(f"id,time,{','.join(names)}\n1,0,{','.join(map(str, range(count)))}\n")
    found = tg.read_series(path, channels=names[::-1])
    assert torch.equal(found.x.flatten(), torch.arange(count).flip(0).float())
    path.write_text("t0,t1,label\n" + "".join(f"1,2,{-number}\n" for number in range(count)))
    assert torch.equal(tg.read_series(path).y, torch.arange(count).flip(0))


def test_many_columns_of_parquet(tmp_path):
    count = 3000
    columns = {f"t{step}": [step + 0.5] for step in range(count)}
    found = tg.read_series(parquet(tmp_path / "wide.parquet", **columns))
    assert torch.equal(found.x.flatten(), torch.arange(count) + 0.5)


# --- names that break messages ---------------------------------------------------------------------------------

HOSTILE = (
    "\x1b[31mred\x1b]0;title\x07",
    "a\nb\r\nc",
    "x" * 5000,
    "\u202eabc\u2066",
    "\x7f" * 3000,
    "ä" * 900,
    "'\"",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_never_break_messages(name, tmp_path):
    quoted = '"' + name.replace('"', '""') + '"'
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    tables = [
        (f"{quoted},b\n1,2\n", {}),
        (f"{quoted},{quoted}\n1,2\n", {}),
        (f"id,time,{quoted}\n1,0,x\n", {}),
        (f"id,time,{quoted}\n1,0,1e39\n", {}),
        (f"id,time,a\n1,0,{quoted}\n", {}),
        (f"id,time,a\n{quoted},0,1\n{quoted},0,2\n", {}),
        (f"id,time,a\n{quoted},0,1\n{quoted},2,1\n3,1,1\n", {}),
        (f"id,time,a\n1,{quoted},1\n", {}),
        (f"id,t0,t1\n{quoted},1,1\n{quoted},1,1\n", {}),
        (f"id,t0,t1,y\n1,1,1,{quoted}\n", {"classes": ["a", "b"]}),
        ("id,t0,t1,y\n1,1,1,c\n", {"classes": [name, "b"]}),
        (f"id,t0,t1,y\n1,1,1,1\n2,1,1,{'9' * 400}\n", {}),
        ("id,time,a\n1,0,1\n", {"id": name}),
        ("id,time,a\n1,0,1\n", {"channels": [name]}),
        ("id,time,a\n1,0,1\n", {"channels": [name, name]}),
        ("id,time,a\n1,0,1\n", {"align": name}),
        (f"id,time,channel,value\n1,0,{quoted},1\n", {"channels": ["a"]}),
        ("id,t0,t1\n1,2,3\n", {"channels": [name, "b"]}),
        (f"{','.join(f'c{number}' for number in range(5000))},{quoted}\n1,2\n", {}),
    ]
    for place, (text, options) in enumerate(tables):
        path = folder / f"{place}.csv"
        path.write_text(text, encoding="utf-8", newline="")
        refusal(path, **options)
    for key in ("ids", "channels", "times", "y"):
        refusal(npz(folder / "a.npz", **{key: np.array([name] * 5)}))
    with pytest.warns(tg.TempogradWarning, match="is not read") as caught:
        tg.read_series(npz(folder / "a.npz", **{name[:100]: X}))
    one_sentence(str(caught[0].message))
    refusal(parquet(folder / "a.parquet", **{"id": [1], "time": [2], name: ["x"]}))
    refusal(folder / f"{name[:60].replace('/', '')}.csv")


def test_names_are_kept_as_they_are(write):
    name = "\x1b[31m" + "x" * 500
    found = tg.read_series(write("n.csv", [f"id,time,{name}", f"{name},0,1"]))
    assert (found.ids, found.channels) == ((name,), (name,))


# --- arrays ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4", ">f4", ">f2"])
def test_every_order_of_bytes_and_axes_is_read(kind, order, tmp_path):
    array = np.asarray(X, dtype=kind, order=order)
    np.save(tmp_path / "a.npy", array)
    found = tg.read_series(tmp_path / "a.npy")
    assert torch.equal(found.x.double(), torch.from_numpy(X))
    assert found.x.dtype == {"8": torch.float64, "4": torch.float32, "2": torch.float16}[kind[-1]]
    path = npz(
        tmp_path / "a.npz", x=array, y=np.array([1, 0, 2], ">i4"), ids=np.array([5, 3, 9], ">u2"), mask=X > 0
    )
    found = tg.read_series(path)
    assert (found.y.tolist(), found.ids.tolist()) == ([1, 0, 2], [5, 3, 9])
    assert torch.equal(found.mask, torch.from_numpy(X > 0))


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.ones(X.shape, np.complex128), "x must hold real numbers, got complex128"),
        (np.ones(X.shape, "M8[s]"), "x must hold real numbers, got datetime64[s]"),
        (np.ones(X.shape, [("a", "f8")]), "x must hold real numbers, got [('a', '<f8')]"),
        (np.full(X.shape, "a"), "x must hold real numbers, got <U1"),
        (np.ones(X.shape, np.int64), "x must hold floating-point numbers, got torch.int64"),
        (np.ones((3, 4)), "x must have shape (batch, time, channel), got (3, 4)"),
        (np.ones((0, 4, 1)), "x is empty, its shape is (0, 4, 1)"),
        (np.full(X.shape, np.nan), "x holds NaN: pass missing='mask'"),
    ],
)
def test_arrays_that_are_no_series(array, words, tmp_path):
    np.save(tmp_path / "a.npy", array)
    assert refusal(tmp_path / "a.npy").startswith(f"a.npy: {words}")


@pytest.mark.parametrize("kind", ["complex64", "datetime64[s]", "timedelta64[s]", [("a", "f8")]])
def test_labels_that_are_no_labels(kind, tmp_path):
    assert ": y must hold real numbers, got " in refusal(npz(tmp_path / "a.npz", y=np.ones(3, kind)))


def test_objects_are_never_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[[os.system]]], dtype=object), allow_pickle=True)
    assert refusal(tmp_path / "a.npy").endswith("(Object arrays cannot be loaded when allow_pickle=False).")


def test_arrays_that_are_cut(tmp_path):
    content = npy_bytes(X)
    larger = content.replace(b"(3, 4, 2), }" + b" " * 6, b"(3999999, 4, 2), }")
    for written in (content[:-1], larger):
        (tmp_path / "a.npy").write_bytes(written)
        assert "is damaged or holds no plain arrays" in refusal(tmp_path / "a.npy")
        (tmp_path / "a.npz").write_bytes(zip_bytes({"x.npy": written}, zipfile.ZIP_DEFLATED))
        assert "is damaged or holds no plain arrays" in refusal(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"times": np.array(5)}, "times must be a list of 4 names, got 5"),
        (
            {"channels": np.array([["a", "b"]])},
            "channels must be a list of 2 names, got an ndarray of shape (1, 2)",
        ),
        ({"ids": np.array(["a", "b", "a"])}, "ids must be distinct"),
        ({"y": np.array([0.5, np.inf, 1])}, "y holds NaN or infinity"),
        ({"y": np.array([0, 1])}, "y must have one entry per series: 3, got shape (2,)"),
        ({"mask": np.ones((3, 4))}, "mask must have the shape of x"),
    ],
)
def test_arrays_beside_x(arrays, words, tmp_path):
    assert refusal(npz(tmp_path / "a.npz", **arrays)).startswith(f"a.npz: {words}")


def test_arrays_by_other_names_are_told_and_never_unpacked(tmp_path):
    members = {"x.npy": npy_bytes(X), "label.npy": b"no array at all"}
    (tmp_path / "a.npz").write_bytes(zip_bytes(members))
    with pytest.warns(
        tg.TempogradWarning, match=r"a\.npz holds label, which is not read: the arrays .* x, mask, y"
    ):
        assert tg.read_series(tmp_path / "a.npz").y is None
    with pytest.raises(tg.TempogradWarning):  # as pytest is told to treat warnings here
        tg.read_series(tmp_path / "a.npz")
    (tmp_path / "a.npz").write_bytes(zip_bytes({"X.npy": npy_bytes(X)}))
    assert refusal(tmp_path / "a.npz").endswith("must hold an array x (series, time, channel); it has X.")


def test_labels_below_zero_are_classes_as_in_tables(tmp_path):
    found = tg.read_series(npz(tmp_path / "a.npz", y=np.array([1, -1, 1])))
    assert (found.y.tolist(), found.classes) == ([1, 0, 1], ("-1", "1"))


def test_dates_name_times(tmp_path):
    days = np.arange("2026-01-01", "2026-01-05", dtype="M8[D]").astype("M8[ns]")
    assert tg.read_series(npz(tmp_path / "a.npz", times=days)).times[1] == "2026-01-02"


# --- Parquet ---------------------------------------------------------------------------------------------------


def test_parquet_that_is_none(tmp_path):
    path = parquet(tmp_path / "a.parquet", id=[1] * 9, time=range(9), a=range(9))
    whole = path.read_bytes()
    for content in (b"", b"not what it says", whole[:-9], whole[: len(whole) // 2], whole[:-4] + b"PAR2"):
        path.write_bytes(content)
        assert refusal(path).startswith("a.parquet is damaged or no Parquet file: write or fetch it again (")


def test_folders_add_no_columns(tmp_path):
    path = parquet(tmp_path / "label=7" / "a.parquet", id=[1], time=[0], a=[5])
    assert tg.read_series(path).y is None


def test_numbers_of_every_type(tmp_path):
    types = (
        pa.decimal128(9, 2),
        pa.decimal256(50, 2),
        pa.uint8(),
        pa.int64(),
        pa.float16(),
        pa.float32(),
        pa.float64(),
    )
    columns = {f"c{place}": pa.array([1, 2, None], pa.float64()).cast(kind) for place, kind in enumerate(types)}
    found = tg.read_series(parquet(tmp_path / "a.parquet", id=[1] * 3, time=range(3), **columns))
    assert found.x[0].tolist() == [[1] * len(types), [2] * len(types), [0] * len(types)]
    assert found.mask[0].tolist() == [[True] * len(types)] * 2 + [[False] * len(types)]
    for value in (b"x", "x", date(2026, 1, 1)):
        path = parquet(tmp_path / "b.parquet", id=[1], time=[2], a=[value])
        assert "'a' holds text, not numbers" in refusal(path)


# --- memory ----------------------------------------------------------------------------------------------------


def test_memory_that_runs_out_all_the_same(tmp_path, monkeypatch):
    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr("tempograd.data.reading.read_ts", full)
    (tmp_path / "a.ts").write_text("@data\n1\n")
    assert refusal(tmp_path / "a.ts").endswith("a.ts needs more memory than there is: cut it into several files.")


# --- what would be read as something else ------------------------------------------------------------------------


@pytest.mark.parametrize("parameter", [[211, 618], ["HR", "BP"]])
def test_a_row_per_value_is_no_row_per_step(parameter, tmp_path):
    path = parquet(tmp_path / "a.parquet", id=[1, 1], time=[0, 1], parameter=parameter, value=[80.0, 120.0])
    assert "frame.pivot" in refusal(path)


@pytest.mark.parametrize("row", ["1,2,:a", "1,,2:a", ":a"])
def test_an_empty_cell_of_a_ts_file_is_no_step(row, tmp_path):
    path = tmp_path / "a.ts"
    path.write_text(f"@univariate true\n@classLabel true a b\n@data\n{row}\n4,5,6:b\n")
    assert "line 4: not all values are numbers" in refusal(path)


@pytest.mark.parametrize("option", ["id", "mask"])
def test_columns_of_tables_are_not_left_out_of_arrays(option, tmp_path):
    np.save(tmp_path / "x.npy", X)
    assert "id= and mask= are columns of a table" in refusal(tmp_path / "x.npy", **{option: "more.npy"})


def test_a_column_that_has_no_name_in_parquet(tmp_path):
    path = parquet(tmp_path / "a.parquet", **{"": [0, 1], "id": [1, 1], "time": [0, 1], "a": [1.0, 2.0]})
    assert "'' has no name" in refusal(path)
    assert tg.read_series(path, channels=["a"]).x.flatten().tolist() == [1, 2]
