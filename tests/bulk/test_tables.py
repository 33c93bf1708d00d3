"""The tables of a run: what databases read of them, by names, and that they tell what one call tells."""

import re
from datetime import date, datetime, timedelta

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.bulk.store import TABLES
from tempograd.models import build
from tempograd.views.drivers import describe_series, drivers_of
from tests.bulk.conftest import explain_files, table_of

SERIES, TIME, CHANNELS = 16, 30, 3
CALLED = ("alpha", "beta", "gamma")


# Columns that go along


class Sum(nn.Module):
    def forward(self, x):
        return x.sum((1, 2))[:, None]


def kept_files(folder, **columns):
    """Write a file for each column of numbers that go along, and explain both."""
    for place, (name, column) in enumerate(columns.items()):
        x = np.random.default_rng(place).normal(size=(len(column), 4, 2)).astype(np.float32)
        ids = [f"{name}{row}" for row in range(len(column))]
        folder.mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": ids, "x": x.tolist(), "machine": column}), folder / f"{name}.parquet")
    model = tg.Predictor(Sum(), task="regression")
    return explain_files(model, folder, folder.with_name("out"), keep=["machine"], method="occlusion")


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize(
    ("first", "second", "both"),
    [("int32", "int64", "int64"), ("int64", "int32", "int64"), ("int16", "double", "double")],
)
def test_kept_columns_have_one_type_in_all_files(first, second, both, joined, tmp_path, request):
    if not joined:
        request.getfixturevalue("alone")
    run = kept_files(tmp_path / "in", p=pa.array([1, 2, None], first), q=pa.array([4, 5], second))
    expected = {"p0": 1, "p1": 2, "p2": None, "q0": 4, "q1": 5}
    for table in TABLES:
        assert len(run.files(table)) == (1 if joined else 2)
        for path in run.files(table):
            assert str(pq.read_schema(path).field("machine").type) == both
        place = f"{run.folder}/{table}"
        assert dict(duckdb.sql(f"SELECT id, machine FROM '{place}/*.parquet'").fetchall()) == expected
        assert dict(pl.read_parquet(f"{place}/*.parquet")["id", "machine"].iter_rows()) == expected
        found = ds.dataset(place).to_table(["id", "machine"]).to_pylist()
        assert {row["id"]: row["machine"] for row in found} == expected
    assert run.take(["q1", "p0"]).values.isfinite().all()


def test_kept_columns_of_no_common_type_are_refused_before_anything_starts(tmp_path):
    with pytest.raises(tg.TempogradError, match=r"q\.parquet holds other .* machine has .*: int64 vs string"):
        kept_files(tmp_path / "in", p=pa.array([1, 2]), q=pa.array(["three"]))
    assert not (tmp_path / "out").exists()


# Drivers and sentences


def weights(seed):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def x():
    return torch.randn(SERIES, TIME, CHANNELS, generator=weights(0))


@pytest.fixture(scope="module")
def seen():
    return torch.rand(SERIES, TIME, CHANNELS, generator=weights(1)) < 0.7


class Plain(nn.Module):
    """Sums that push both ways, in stretches."""

    def forward(self, x):
        score = (x[:, 4:12, 0] - x[:, 10:20, 1].tanh().sum(1, keepdim=True)).sum(1) + x[:, 25, 2] ** 2
        return torch.stack([score, -score], 1)


class Constant(nn.Module):
    def forward(self, x):
        return 0 * x[:, 0, :2]


def network(kind):
    if kind == "plain":
        return Plain()
    if kind == "constant":
        return Constant()
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return build(kind, CHANNELS, 2, hidden=6).eval()


CASES = {
    "a network": ("gru", False, {"n_samples": 12, "seed": 1}),
    "a network, rough": ("gru", False, {"n_samples": 3}),
    "gaps": ("cnn", True, {"n_samples": 12}),
    "no errors": ("gru", False, {"method": "integrated_gradients", "n_steps": 4}),
    "no errors, gaps": ("plain", True, {"method": "occlusion", "target": 1}),
    "both ways": ("plain", False, {"n_samples": 12, "target": 0, "output": "raw"}),
    "no sign": ("plain", False, {"method": tg.Dynamask(epochs=3), "target": 0}),
    "a control": ("plain", False, {"method": "random"}),
    "no drivers": ("constant", False, {"method": "occlusion"}),
}


@pytest.mark.filterwarnings("ignore::tempograd.core.errors.TempogradWarning")
@pytest.mark.parametrize("case", CASES)
def test_drivers_and_sentences_are_those_of_one_call(case, x, seen, tmp_path):
    kind, masked, options = CASES[case]
    model, ids = network(kind), [f"bed {row}" for row in range(SERIES)]
    series = tg.Series(x, mask=seen if masked else None, ids=ids, channels=CALLED)
    run = explain_files(model, series, tmp_path / "out", fragment=5, batch_size=3, **options)
    asked = dict(options)
    one = tg.explain(model, series, *([asked.pop("method")] if "method" in asked else []), **asked)
    table = table_of(run, "drivers").to_pylist()
    sentences = {row["id"]: row["sentence"] for row in table_of(run).to_pylist()}
    compared = 0
    for row, name in enumerate(ids):
        told = [each for each in table if each["id"] == name]
        expected = drivers_of(one, row)
        compared += len(expected)
        assert [each["rank"] for each in told] == list(range(1, len(expected) + 1))
        assert [(each["channel"], each["from"], each["to"]) for each in told] == [
            (CALLED[each.channel], str(each.start), str(each.stop - 1)) for each in expected
        ]
        assert [each["effect"] for each in told] == pytest.approx([each.total for each in expected], rel=1e-6)
        assert [each["certain"] for each in told] == [each.certain for each in expected]
        for each, driver in zip(told, expected, strict=True):
            here = x[row, driver.start : driver.stop, driver.channel]
            here = here[seen[row, driver.start : driver.stop, driver.channel]] if masked else here
            assert each["value"] == pytest.approx(float(here.double().mean()), rel=1e-5)
            assert (each["low"] is None) == (each["high"] is None)
            if each["low"] is not None:
                assert each["low"] <= each["effect"] <= each["high"]
                assert each["certain"] == (each["low"] > 0 or each["high"] < 0)
        words = re.compile("raised|lowered|no driver is certain|what matters|no value|random|alpha|beta|gamma")
        described = describe_series(one, row).partition("; not certain: ")[0]
        assert words.findall(sentences[name]) == words.findall(described), (sentences[name], described)
    assert (compared > SERIES) != (case == "no drivers")


# What databases ask

HOURS, SENSORS = 6, ("vibration", "temperature", "pressure")


class Alarm(nn.Module):
    """An alarm where some sensor is above 1 for a while."""

    def forward(self, x):
        high = (x - 1).relu().sum((1, 2))
        return torch.stack([0 * high, high / 4 - 0.3], 1)


@pytest.fixture
def plant(tmp_path):
    """Machines at two sites over four days, in one file for each day; some sensors are high from some hour on."""
    high = {
        ("m2", 3): ("vibration", 4),
        ("m4", 3): ("temperature", 2),
        ("m1", 3): ("pressure", 1),  # at the other site
        ("m2", 2): ("pressure", 0),
    }
    (tmp_path / "lake").mkdir()
    for day in range(1, 5):
        rows = []
        for machine in ("m1", "m2", "m3", "m4"):
            for hour in range(HOURS):
                values = dict.fromkeys(SENSORS, 0.1)
                sensor, since = high.get((machine, day), ("", HOURS))
                values |= {sensor: 3.0} if hour >= since else {}
                when = datetime(2026, 5, day) + timedelta(hours=hour)
                about = {"id": f"{machine}/{day}", "time": when, "machine": machine, "day": f"2026-05-0{day}"}
                rows.append(about | {"site": "AB"[int(machine[1]) % 2 == 0]} | values)
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "lake" / f"{day}.parquet")
    keep, classes = ["machine", "day", "site"], ["normal", "alarm"]  # texts that go along are no channels
    source = tg.Source(tmp_path / "lake", keep=keep, partition="day", time="time", classes=classes)
    return tg.explain_dataset(Alarm(), source, tmp_path / "out", method="occlusion")


ANSWER = [("m2", "vibration", "04:00"), ("m4", "temperature", "02:00")]


def test_a_day_is_a_folder(plant, tmp_path):
    for table in TABLES:
        days = (2, 3) if table == "drivers" else (1, 2, 3, 4)  # nothing drove the others
        files = [path.removeprefix(f"{plant.folder}/") for path in plant.files(table)]
        assert [file.rpartition("/")[0] for file in files] == [f"{table}/day=2026-05-0{day}" for day in days]
        assert all("day" not in pq.read_schema(path).names for path in plant.files(table))
        place = f"{plant.folder}/{table}/**/*.parquet"
        asked = duckdb.sql(
            f"SELECT DISTINCT id, day FROM read_parquet('{place}', hive_partitioning = true) ORDER BY id"
        ).fetchall()
        assert {str(day) for _, day in asked} == {f"2026-05-0{day}" for day in days}
        assert all(str(day)[-1] == name[-1] for name, day in asked)
    assert len(plant) == 16
    assert plant.take(["m2/3", "m1/1"]).values.isfinite().all()
    kept = {"keep": ["machine", "day", "site"], "partition": "day"}
    source = tg.Source(tmp_path / "lake", time="time", classes=["normal", "alarm"], **kept)
    again = tg.explain_dataset(Alarm(), source, plant.folder, method="occlusion")
    assert again.version == plant.version


def test_which_sensors_drove_the_alarms_of_a_day_at_a_site_and_since_when(plant):
    """Asked by names alone, of DuckDB and of polars."""
    asked = duckdb.sql(f"""
        SELECT machine, channel, "from"
        FROM read_parquet('{plant.folder}/drivers/**/*.parquet', hive_partitioning = true)
        SEMI JOIN (SELECT id FROM '{plant.folder}/summary/**/*.parquet' WHERE class = 'alarm') USING (id)
        WHERE day = '2026-05-03' AND site = 'B' AND effect > 0 AND (certain OR rank = 1)
        ORDER BY machine
    """).fetchall()
    alarms = pl.scan_parquet(f"{plant.folder}/summary", hive_partitioning=True).filter(pl.col("class") == "alarm")
    drivers = pl.scan_parquet(f"{plant.folder}/drivers", hive_partitioning=True)
    wanted = (
        (pl.col("day") == date(2026, 5, 3)) & (pl.col("site") == "B") & pl.col("certain") & (pl.col("effect") > 0)
    )
    found = drivers.filter(wanted).join(alarms, on="id", how="semi").sort("machine").collect()
    for answer in (asked, found["machine", "channel", "from"].rows()):
        assert [(machine, sensor) for machine, sensor, _ in answer] == [each[:2] for each in ANSWER]
        for (*_, since), (*_, hour) in zip(answer, ANSWER, strict=True):
            assert "2026-05-03" in since
            assert hour in since
    (sentence,) = (row["sentence"] for row in table_of(plant).to_pylist() if row["id"] == "m2/3")
    assert re.search(r"probability of .?alarm.?, raised by vibration 3 at .*04:00.*05:00", sentence)
