"""CSV files of a run: channels are chosen and matched by name, as in one file, or a file is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.core.errors import TempogradWarning
from tests.bulk.conftest import explain_files, rows_of, table_of


class Weighted(nn.Module):
    """Counts the second channel a hundredfold, so that channels in another order give other scores."""

    def forward(self, x):
        return (x * torch.tensor([1.0, 100.0])).sum((1, 2))[:, None]


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """An empty folder for files, and how to write them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake").mkdir()

    def write(**files):
        for name, lines in files.items():
            (tmp_path / "lake" / f"{name}.csv").write_text("\n".join(lines.split()))

    return write


def explain(source="lake", **options):
    model = tg.Predictor(Weighted(), task="regression")
    return explain_files(model, source, "out", method="integrated_gradients", n_steps=2, **options)


def scores(run):
    """Return the scores of each series, (time, channel), from the files alone: x times the weights."""
    return {row["id"]: np.array(row["values"]).reshape(-1, 2).round(3).tolist() for row in rows_of(run)}


A = "id,time,a,b u,0,1,10 u,1,2,20"
IN_ORDER = {"u": [[1, 1000], [2, 2000]]}
TURNED = {"u": [[10, 100], [20, 200]]}


@pytest.mark.parametrize("options", [{"channels": ["b", "a"]}, {"channels": ["b", "a"], "shape": (2, 2)}])
def test_channels_choose_columns_in_their_order(options, lake):
    lake(q=A)
    run = explain(**options)
    assert scores(run) == TURNED
    assert run.example.channels == ("b", "a")
    assert run.take(["u"]).x.tolist() == tg.read_series("lake/q.csv", channels=["b", "a"]).x.tolist()


def test_what_the_model_reads_after_shorter_series_is_said(lake):
    lake(long=A, short="id,time,a,b u2,0,1,10 v2,0,1,10 v2,1,2,20")
    with pytest.warns(TempogradWarning, match="1 of 3 series end before the last step: the model reads 0 there"):
        run = explain()
    assert scores(run)["u2"] == [[1, 1000], [0, 0]]


def test_some_channels_of_files_that_hold_text(lake):
    lake(p="id,time,note,b,a u,0,fine,10,1 u,1,odd,20,2", q="id,time,a,b,c v,0,3,30,0 v,1,4,40,0")
    assert scores(explain(channels=["b", "a"])) == TURNED | {"v": [[30, 300], [40, 400]]}


def test_a_label_is_no_channel(lake):
    lake(q="id,time,a,state,b u,0,1,well,10 u,1,2,well,20")
    assert scores(explain(label="state")) == IN_ORDER


def test_columns_are_matched_by_name_in_the_order_of_the_first_file(lake):
    lake(p=A, q="id,time,b,a v,0,10,1 v,1,,2")
    run = explain()
    assert scores(run) == IN_ORDER | {"v": [[1, 1000], [2, 0]]}
    assert run.example.channels == ("a", "b")
    assert run.take(["v"]).mask.tolist() == [[[True, True], [True, False]]]


REFUSED = {
    "a column is absent": ({"p": A, "q": "id,time,b v,0,10 v,1,20"}, {}),
    "a column is absent that was chosen": ({"p": A, "q": "id,time,b v,0,10 v,1,20"}, {"channels": ["b", "a"]}),
    "a mask": ({"p": A}, {"mask": "a"}),
    "another column": ({"p": A, "q": "id,time,b,c,a v,0,10,0,1 v,1,20,0,2"}, {}),
    "columns to keep that are none": ({"p": A}, {"keep": ["c"]}),
    "text": ({"p": "id,time,a,note,b u,0,1,fine,10 u,1,2,odd,20"}, {}),
    "a gap": ({"p": "id,time,a,b v,0,1,10 v,2,3,30 w,0,4,40 w,1,5,50"}, {}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_another_file_is_refused(case, lake, tmp_path):
    """Before anything starts, or where there is a sound one beside it, with its name."""
    files, options = REFUSED[case]
    lake(**files)
    with pytest.raises(tg.TempogradError) as raised:
        explain(**options)
    if "q" in files:
        assert "1 file or fragment could not be read" in str(raised.value)
        run = tg.open_run("out")
        assert list(scores(run)) == ["u"]
        assert [Path(where).name for where in run.failures()] == ["q.csv"]
    else:
        assert not (tmp_path / "out").exists()


def test_columns_go_along(lake):
    lake(p="id,time,a,b,ward,day u,0,1,10,ICU,3 u,1,2,20,ICU,3")
    run = explain(channels=["a", "b"], keep=["ward", "day"])
    for table in ("summary", "cells"):
        (row,) = table_of(run, table).to_pylist()
        assert (row["ward"], row["day"]) == ("ICU", "3")
    assert {(row["ward"], row["day"]) for row in table_of(run, "drivers").to_pylist()} == {("ICU", "3")}


def test_files_with_names_and_without_agree_on_channels_that_somebody_chose(lake, tmp_path):
    lake(p=A)
    (tmp_path / "lake" / "q.ts").write_text("@data\n10,20:1,2\n")
    with pytest.raises(tg.TempogradError, match=r"q\.ts has no column 'a', unlike others"):
        explain()
    shutil.rmtree("out")
    assert scores(explain(channels=["b", "a"])) == TURNED | {"q.ts:0": TURNED["u"]}


def test_series_without_ids_are_called_after_their_files(lake):
    lake(p="time,a,b 0,1,10 1,2,20", q="time,a,b 0,3,30 1,4,40")
    assert scores(explain()) == {"p.csv:0": IN_ORDER["u"], "q.csv:0": [[3, 3000], [4, 4000]]}


GAP = "id,time,a,b v,0,1,10 v,2,3,30 w,0,4,40 w,1,5,50 w,2,6,60"


@pytest.mark.parametrize("align", ["time", "order"])
@pytest.mark.filterwarnings("ignore:.*end before the last step")
def test_gaps_in_time_mean_what_they_mean_in_one_file(align, lake):
    lake(p=GAP, q=A)
    run = explain(align=align)
    one = tg.read_series("lake/p.csv", align=align).padded()
    found = run.take(["v", "w"])
    assert (found.x.tolist(), found.mask.tolist()) == (one.x.tolist(), one.mask.tolist())
    assert scores(run)["u"] == [*IN_ORDER["u"], [0, 0]]


def test_longer_series_of_later_files_are_faults(lake):
    lake(p=A, q="id,time,a,b w,0,4,40 w,1,5,50 w,2,6,60")
    assert set(explain(max_faults=0.5).faults()) == {"w"}


def test_other_channels_are_another_run(lake):
    lake(q=A)
    explain()
    with pytest.raises(tg.TempogradError, match="another run, which differs in channels"):
        explain(channels=["b", "a"])


def test_nothing_is_said_where_a_mask_hides_values_of_the_last_step(tmp_path):
    table = pa.table({"id": ["u"], "x": [[[1.0, 10.0], [2.0, 20.0]]], "seen": [[[True, True], [False, False]]]})
    pq.write_table(table, tmp_path / "rows.parquet")
    model = tg.Predictor(Weighted(), task="regression")
    run = explain_files(model, tmp_path / "rows.parquet", tmp_path / "out", method="occlusion", mask="seen")
    assert scores(run) == {"u": [[1, 1000], [0, 0]]}


def test_scaled_series_are_shown_as_they_were(lake):
    lake(one=A, two="id,time,a,b v,0,3, v,1,4,40")
    Path("scale.csv").write_text("channel,mean,std\nb,10,5\na,1,2\n")
    columns = {"scale": "scale.csv", "units": ["°C", "kPa"], "fill": "forward", "missing": "mask"}
    run = explain(**columns)
    series = tg.read_series("lake", **columns)
    found, model = run.take(["v", "u"]), tg.Predictor(Weighted(), task="regression")
    expected = tg.explain(model, series, "integrated_gradients", n_steps=2)[[1, 0]]
    for name in ("x", "raw", "values"):
        torch.testing.assert_close(getattr(found, name).float(), getattr(expected, name), equal_nan=True)
    assert "20 kPa" in found.describe("u")
    assert found.times == (("0", "1"), ("0", "1"))
    again = explain(**columns | {"scale": str(Path("scale.csv").absolute())})  # as run.toml has it
    assert again.version == run.version
    bare = explain_files(model, series, "memory", method="integrated_gradients", n_steps=2)
    assert bare.take(["u"]).units is None  # of values that the run does not keep
    Path("scale.csv").write_text("channel,mean,std\nb,10,5\na,1,3\n")
    lake(two="id,time,a,b v,0,3, v,1,4,41")
    again = explain(**columns)
    events = map(json.loads, (Path(again.folder) / "_tempograd/events.jsonl").read_text().splitlines())
    told = [(event["new"], event["changed"], event["gone"]) for event in events if event["event"] == "inputs"]
    assert told == [([], ["scale.csv", "two.csv"], [])]
    assert scores(again) != scores(run)
