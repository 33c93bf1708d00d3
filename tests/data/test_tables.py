"""One table in every format, read as a file and as a folder, gives equal series; or the same one sentence."""

from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import tempograd as tg

CHANNELS = ("pulse", "blood, pressure")
TIMES = ("2026-03-01 08:00", "2026-03-01 09:00", "2026-03-01 10:00")
NAMES, LABELS = ("bed 7", "bed 3"), ("well", "ill")
X = np.array([[[80, 140.5], [82, np.nan], [81, 139]], [[95, 133], [97, 132], [99, 131.25]]], np.float32)
LONG = {"id": "patient", "label": "state"}
STEPS = len(TIMES)


def rows():
    """One row per step, as everybody has it."""
    return {
        "patient": np.repeat(NAMES, STEPS).tolist(),
        "time": [datetime.fromisoformat(time) for _ in NAMES for time in TIMES],
        "state": np.repeat(LABELS, STEPS).tolist(),
        **{
            name: [None if np.isnan(v) else float(v) for v in X[..., d].ravel()] for d, name in enumerate(CHANNELS)
        },
    }


def frame():
    return pd.DataFrame(rows())


def csv(path, **options):
    content = frame()
    content["time"] = np.tile(TIMES, len(NAMES))
    content.to_csv(path, index=False, **options)


def long_parquet(path):
    pq.write_table(pa.table(rows()), path, row_group_size=4)


def lists_parquet(path, *, flat=False):
    x = X.reshape(len(X), -1) if flat else X
    seen = np.isfinite(x).astype(np.float32)
    columns = {"x": np.nan_to_num(x).tolist(), "seen": seen.tolist()}
    pq.write_table(pa.table({"patient": NAMES, "state": LABELS, **columns}), path)


def npz(path):
    parts = {"mask": np.isfinite(X), "y": np.array(LABELS), "ids": np.array(NAMES), "channels": np.array(CHANNELS)}
    np.savez(path, x=np.nan_to_num(X), times=np.array(TIMES), **parts)


IN_ORDER = LONG | {"channels": CHANNELS}
FORMATS = {  # how a file is written, its ending, and what is said of it
    "quotes": (csv, "csv", LONG),
    "semicolons": (lambda path: csv(path, sep=";"), "csv", LONG),
    "tabs, packed": (lambda path: csv(path, sep="\t"), "tsv.gz", LONG),
    "rows as steps": (long_parquet, "parquet", LONG),
    "lists": (lists_parquet, "parquet", IN_ORDER | {"mask": "seen"}),
    "flat lists": (
        lambda path: lists_parquet(path, flat=True),
        "parquet",
        IN_ORDER | {"mask": "seen", "shape": X.shape[1:]},
    ),
    "arrays": (npz, "npz", {}),
}


def parts(series):
    """What is the same in all formats; lists of whole series have no times."""
    y = [series.classes[label] for label in series.y.tolist()]
    return series.x.tolist(), series.mask.tolist(), list(series.ids), y, series.channels


EXPECTED = (np.nan_to_num(X).tolist(), np.isfinite(X).tolist(), list(NAMES), list(LABELS), CHANNELS)


@pytest.mark.filterwarnings("ignore:0 is far from every value")
@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_holds_the_same_series_as_a_file_and_as_a_folder(kind, tmp_path):
    write, ending, options = FORMATS[kind]
    path = tmp_path / f"ward.{ending}"
    write(path)
    for place in (path, tmp_path, str(tmp_path / f"*.{ending}"), path.as_uri(), [path]):
        found = tg.read_series(place, **options)
        assert parts(found) == EXPECTED
        assert "lists" in kind or found.times == TIMES
    columns = {name: part for name, part in options.items() if name != "label"} | {"label": options.get("label")}
    source = tg.Source(tmp_path, **columns, keep=["state"] if "label" in options else [])
    model = tg.Predictor(lambda x: x.sum((1, 2))[:, None], task="regression")
    run = tg.explain_dataset(model, source, tmp_path / "out", method="occlusion").take(NAMES)
    assert (run.x.tolist(), run.channels) == (EXPECTED[0], CHANNELS)
    assert run.mask.tolist() == EXPECTED[1]


class Streamed:
    """A frame of another library, which Arrow reads."""

    def __init__(self, table):
        self.table, self.columns = table, table.column_names

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("kind", [frame, lambda: pa.table(rows()), lambda: Streamed(pa.table(rows()))])
def test_frames_hold_them_too(kind):
    found = tg.read_series(kind(), **LONG)
    assert parts(found) == EXPECTED
    assert found.times == TIMES


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_wide_table_is_one_as_well(ending, tmp_path):
    content = pd.DataFrame({"id": [7, 3], "t0": [1.5, 2.5], "t1": [None, 3.5], "t2": [4.0, 5.0], "y": [1, 0]})
    write = {"csv": pd.DataFrame.to_csv, "parquet": pd.DataFrame.to_parquet}[ending]
    write(content, tmp_path / f"w.{ending}", index=False)
    for place in (tmp_path, tmp_path / f"w.{ending}", content):
        found = tg.read_series(place)
        assert (found.x[..., 0].tolist(), found.ids.tolist()) == ([[1.5, 0, 4], [2.5, 3.5, 5]], [7, 3])
        assert (found.y.tolist(), found.times) == ([1, 0], ("t0", "t1", "t2"))


def test_time_zones_are_one_clock(tmp_path):
    stamps = ["2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T02:30:00+00:00"]
    (tmp_path / "z.csv").write_text("time,a\n" + "\n".join(f"{s},{k}" for k, s in enumerate(stamps)))
    zoned = pa.array([datetime.fromisoformat(stamp) for stamp in stamps], pa.timestamp("s", "Europe/Berlin"))
    pq.write_table(pa.table({"time": zoned, "a": [0, 1, 2]}).take([2, 0, 1]), tmp_path / "z.parquet")
    for name in ("z.csv", "z.parquet"):
        assert tg.read_series(tmp_path / name).x.flatten().tolist() == [0, 1, 2]


def test_decimal_commas_are_one_sentence_everywhere(tmp_path):
    (tmp_path / "c.csv").write_text("id;time;a\n1;0;1,5\n1;1;2,5\n")
    said = set()
    for place in (tmp_path, tmp_path / "c.csv"):
        with pytest.raises(tg.TempogradError) as raised:
            tg.read_series(place)
        said.add(str(raised.value))
    (text,) = said
    assert "decimal point" in text


# Lakes and many files


def test_folders_are_columns_that_go_along(tmp_path):
    for day in ("2026-01-01", "2026-01-02"):
        folder = tmp_path / "lake" / f"day={day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [f"a{day}"], "x": [[[1.0], [2.0]]]}), folder / "p.parquet")
    source = tg.Source(tmp_path / "lake", keep=["day"])
    assert source.read().ids == ("a2026-01-01", "a2026-01-02")
    model = tg.Predictor(lambda x: x.sum((1, 2))[:, None], task="regression")
    run = tg.explain_dataset(model, source, tmp_path / "out", method="occlusion")
    found = [row["day"] for path in run.files() for row in pq.read_table(path).to_pylist()]
    assert sorted(found) == ["2026-01-01", "2026-01-02"]


def test_classes_of_all_files_are_numbered_together(tmp_path):
    for name, label in (("a", "well"), ("b", "ill")):
        (tmp_path / f"{name}.csv").write_text(f"id,time,v,label\n{name},0,1,{label}\n{name},1,2,{label}\n")
    found = tg.read_series(tmp_path)
    assert (found.y.tolist(), found.classes, found.ids) == ([1, 0], ("ill", "well"), ("a", "b"))


def test_an_address_of_fsspec(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    csv(tmp_path / "w.csv")
    store.pipe("/ward/w.csv", (tmp_path / "w.csv").read_bytes())
    long_parquet(tmp_path / "w.parquet")
    store.pipe("/steps/w.parquet", (tmp_path / "w.parquet").read_bytes())
    for place in ("memory://ward/w.csv", "memory://ward", "memory://steps", "memory://steps/*.parquet"):
        assert parts(tg.read_series(place, **LONG)) == EXPECTED


# What is unclear, in one message


def machines():
    """Machines with clocks of their own, as one person has them."""
    start, lines = datetime(2026, 3, 30), ["machine_id,timestamp,vibration,status"]
    for number in range(3):
        for step in range(4):
            stamp = start + timedelta(days=number, minutes=10 * step)
            lines.append(f"M-{number:03},{stamp.isoformat()},{number + step / 10},{'ok' if number else 'failure'}")
    return lines


def test_all_that_is_unclear_comes_at_once_with_what_to_write(tmp_path):
    path = tmp_path / "pm.csv"
    path.write_text("\n".join(machines()))
    with pytest.raises(tg.TempogradError) as raised:
        tg.read_series(path)
    said = str(raised.value)
    assert "machine_id" in said
    assert "status" in said
    call = said[said.index("tg.read_series") :].removesuffix(".")
    path_named = call if str(path) in call else call.replace("(path", f"({str(path)!r}")
    found = eval(path_named, {"tg": tg})  # noqa: S307  # what a person pastes
    assert (len(found), found.shape, found.classes) == (3, (3, 4, 1), ("failure", "ok"))
    assert "--id machine_id --label status --align order" in raised.value.finding.say("shell")


@pytest.mark.parametrize("name", ["machine_id", "device", "device_id", "unit", "asset", "customer_id"])
def test_columns_that_name_series_are_proposed(name, write):
    with pytest.raises(tg.TempogradError, match=f"id='{name}'"):
        tg.read_series(write("a.csv", [f"{name},time,a", "7,0,1", "7,1,2", "8,0,3", "8,1,4"]))


@pytest.mark.parametrize("name", ["status", "state", "failure", "alarm"])
def test_columns_that_are_labels_are_proposed(name, write):
    path = write("a.csv", [f"id,time,a,{name}", "7,0,1,0", "7,1,2,0"])
    with pytest.raises(tg.TempogradError, match=f"label='{name}'"):
        tg.read_series(path)
    assert tg.read_series(path, channels=["a", name]).channels == ("a", name)


# Scaled values keep what they were


GAPS = ["id,time,a,b", "u,0,1,10", "u,1,,20", "u,2,3,", "v,0,,30", "v,1,5,", "v,2,7,50"]


@pytest.mark.parametrize(
    ("fill", "a", "b"),
    [
        (None, [1, 0, 3, 0, 5, 7], [10, 20, 0, 30, 0, 50]),
        ("zero", [1, 0, 3, 0, 5, 7], [10, 20, 0, 30, 0, 50]),
        ("forward", [1, 1, 3, 5, 5, 7], [10, 20, 20, 30, 30, 50]),
        ("mean", [1, 4, 3, 4, 5, 7], [10, 20, 27.5, 30, 27.5, 50]),
    ],
)
def test_what_the_model_reads_where_values_are_missing(fill, a, b, write):
    found = tg.read_series(write("g.csv", GAPS), fill=fill)
    assert found.x[..., 0].flatten().tolist() == a
    assert found.x[..., 1].flatten().tolist() == b
    assert int(found.mask.sum()) == 8


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_values_are_scaled_by_a_file_and_stay_in_natural_units(kind, write, tmp_path):
    path, scale = write("g.csv", GAPS), tmp_path / f"scale.{kind}"
    table = pd.DataFrame({"channel": ["b", "a"], "mean": [30, 4], "std": [10, 2.0]})
    table.to_csv(scale, index=False) if kind == "csv" else table.to_parquet(scale)
    found = tg.read_series(path, scale=str(scale), fill="forward", units=["°C", "bar"])
    assert found.x[..., 0].tolist() == [[-1.5, -1.5, -0.5], [0.5, 0.5, 1.5]]
    assert found.raw[0, 0].tolist() == [1, 10]
    assert bool(found.raw[0, 1, 0].isnan())
    assert found.units == ("°C", "bar")
    (tmp_path / "in").mkdir()
    path.rename(tmp_path / "in" / "g.csv")
    model = tg.Predictor(lambda x: x.sum((1, 2))[:, None], task="regression")
    source = tg.Source(tmp_path / "in", scale=str(scale), fill="forward")
    run = tg.explain_dataset(model, source, tmp_path / "out", method="occlusion")
    assert torch.equal(run.take(["u", "v"]).x, found.x.where(found.mask, run.take(["u", "v"]).x))
    with pytest.raises(tg.TempogradError, match="does not know the mean"):
        tg.explain_dataset(model, tg.Source(tmp_path / "in", scale="standard"), tmp_path / "b", method="occlusion")


@pytest.mark.parametrize("fill", [None, "forward"])
def test_gaps_of_arrays_are_read_by_a_run_as_from_a_file(fill, tmp_path):
    x = np.arange(1, 13, dtype=np.float32).reshape(2, 3, 2)
    x[0, 1, 0] = np.nan
    (tmp_path / "in").mkdir()
    np.savez(tmp_path / "in" / "a.npz", x=x, ids=[5, 6])
    source = tg.Source(tmp_path / "in", missing="mask", fill=fill)
    model = tg.Predictor(lambda x: x.sum((1, 2))[:, None], task="regression")
    run = tg.explain_dataset(model, source, tmp_path / "out", method="occlusion").take([5, 6])
    found = source.read()
    assert torch.equal(run.x, found.x)
    assert torch.equal(run.mask, found.mask)
    assert found.x[0, 1, 0] == (0 if fill is None else 1)


def test_gaps_of_arrays_may_be_gaps_of_what_people_know(tmp_path):
    x = np.arange(6, dtype=np.float32).reshape(2, 3, 1)
    x[0, 1, 0] = np.nan
    np.savez(tmp_path / "a.npz", x=x, raw=x * 10)
    found = tg.read_series(tmp_path / "a.npz", missing="mask")
    assert found.raw[1].flatten().tolist() == [30, 40, 50]
    assert found.raw[0].isnan().flatten().tolist() == [False, True, False]


def test_standard_scaling_is_that_of_what_was_observed(write):
    found = tg.read_series(write("g.csv", GAPS), scale="standard")
    values = np.array([1, 3, 5, 7.0])
    expected = (values - values.mean()) / values.std()
    assert found.x[..., 0][found.mask[..., 0]].tolist() == pytest.approx(expected.tolist())
    assert found.x[~found.mask].tolist() == [0] * 4


def test_arrays_of_many_files_are_matched_by_the_names_of_their_channels(tmp_path):
    x = torch.arange(24.0).reshape(2, 4, 3).numpy()
    np.savez(tmp_path / "a.npz", x=x, raw=x + 1, ids=["a", "b"], channels=["p", "q", "r"], units=["C", "bar", "m"])
    swapped = {"x": x[..., ::-1], "raw": x[..., ::-1] + 1, "ids": ["c", "d"], "channels": ["r", "q", "p"]}
    np.savez(tmp_path / "b.npz", **swapped, units=["m", "bar", "C"])
    series = tg.read_series(tmp_path)
    assert series.channels == ("p", "q", "r")
    assert torch.equal(series.x[2:], series.x[:2])
    two = tg.read_series(tmp_path / "a.npz", channels=["r", "p"])
    assert (two.channels, two.units) == (("r", "p"), ("m", "C"))
    assert torch.equal(two.x, series.x[:2, :, [2, 0]])
    assert torch.equal(two.raw, two.x + 1)
    with pytest.raises(tg.TempogradError, match="heat"):
        tg.read_series(tmp_path / "a.npz", channels=["heat"])


def test_a_mask_of_other_numbers_is_refused_from_a_file_and_from_a_folder(tmp_path):
    x = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0)).numpy()
    mask = np.ones_like(x)
    mask[1, 2, 0] = np.nan
    np.savez(tmp_path / "a.npz", x=x, mask=mask)
    lists = pd.DataFrame({"id": range(3), "x": x.tolist(), "seen": np.where(np.isnan(mask), 0.5, 1.0).tolist()})
    lists.to_parquet(tmp_path / "b.parquet")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 2))
    for name, fields in (("a.npz", {}), ("b.parquet", {"mask": "seen"})):
        source = tg.Source(tmp_path / name, **fields)
        for read in (
            source.read,
            lambda source=source: tg.explain_dataset(net, source, tmp_path / "out", n_samples=2),
        ):
            with pytest.raises(tg.TempogradError, match=r"must hold 1 \(observed\) and 0 \(missing\)"):
                read()


@pytest.mark.parametrize("rows", ["1,1\n", "1,1\n2,\n", "1,1\n2,nan\n"])
def test_a_scale_has_one_finite_number_per_channel(tmp_path, rows):
    np.savez(tmp_path / "a.npz", x=np.ones((3, 4, 2), np.float32))
    (tmp_path / "scale.csv").write_text(f"mean,std\n{rows}")
    with pytest.raises(tg.TempogradError, match="one finite mean and std per channel"):
        tg.read_series(tmp_path / "a.npz", scale=str(tmp_path / "scale.csv"))


def test_ids_that_a_file_counts_from_0_are_its_own(tmp_path):
    for name, ids in (("a", [0, 1]), ("b", [2, 3])):
        np.savez(tmp_path / f"{name}.npz", x=np.ones((2, 3, 1), np.float32), ids=ids)
    assert list(tg.read_series(tmp_path).ids) == [0, 1, 2, 3]
