"""Rows that are steps: a folder decides what their times mean as ``read_series`` does for one file."""

from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from torch import nn

import tempograd as tg
from tests.bulk.conftest import explain_files


class Sum(nn.Module):
    def forward(self, x):
        return x.sum((1, 2))[:, None]


def day(number, hour=0):
    return datetime(2026, 1, number, hour)


pytestmark = pytest.mark.filterwarnings("ignore:0 is far from every value")
ROWS = {  # the times of each series, in the order of its rows
    "all alike": {"u": [0, 1, 2], "v": [0, 1, 2]},
    "ends early": {"u": [0, 1], "v": [0, 1, 2], "w": [0]},
    "not sorted": {"u": [2, 0, 1], "v": [1, 2, 0]},
    "a gap": {"u": [0, 1, 2, 3], "v": [0, 1, 3], "w": [0, 1, 2, 3]},
    "a gap of the first": {"u": [0, 2, 3], "v": [0, 1, 2]},
    "a gap where the first has ended": {"u": [0, 1], "v": [0, 1, 2, 3], "w": [0, 1, 3]},
    "begins late": {"u": [0, 1, 2], "v": [1, 2]},
    "times of their own": {"u": [0.5, 1.25], "v": [0.75, 3.5]},
    "even steps of any width": {"u": [0.1, 7.5], "v": [0.1, 7.5]},
    "a time twice": {"u": [0, 1, 2], "v": [0, 1, 1]},
    "numbers as texts": {"u": ["9", "10", "11"], "v": ["10", "9", "11.0"]},
    "a gap in texts": {"u": ["9", "10", "11"], "v": ["9", "11"]},
    "dates as texts": {"u": ["2026-01-31", "2026-02-01"], "v": ["2026-01-31T00:00"]},
    "words": {"u": ["early", "late"]},
    "stamps": {"u": [day(1), day(2)], "v": [day(2), day(1)]},
    "a gap in stamps": {"u": [day(1), day(1, 12), day(2)], "v": [day(1), day(2)]},
    "a stamp twice": {"u": [day(1), day(2), day(2)]},
    "no time": {"u": [0, None, 2]},
    "no number": {"u": [0.0, np.inf]},
}


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """Write the rows of series with these times into one file, and return their number."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake").mkdir()

    def write(times, group=100, name="q"):
        ids = [each for each, rows in times.items() for _ in rows]
        stamps = pa.array([time for rows in times.values() for time in rows])
        a = np.arange(1.0, len(ids) + 1)
        pq.write_table(
            pa.table({"id": ids, "time": stamps, "a": a, "b": -a}), f"lake/{name}.parquet", row_group_size=group
        )
        return len(ids)

    return write


def explain(source="lake", out="out", **options):
    known = {"channels": ["a", "b"], "time": "time", "method": "integrated_gradients", "n_steps": 2}
    return explain_files(tg.Predictor(Sum(), task="regression"), source, out, **(known | options))


def seen(found):
    """Return the series and what was observed of them, by their names."""
    mask = found.mask if found.mask is not None else np.ones(found.x.shape, dtype=bool)
    names = found.ids if isinstance(found, tg.Series) else found.names
    return {name: (found.x[row].tolist(), mask[row].tolist()) for row, name in enumerate(names)}


def either(call):
    """Return what a call gives, or that it refuses."""
    try:
        return call()
    except tg.TempogradError:
        return "refused"


@pytest.mark.filterwarnings("ignore:.*end before the last step")
@pytest.mark.parametrize("align", [None, "time", "order"])
@pytest.mark.parametrize("case", ROWS)
def test_a_folder_decides_as_one_file_does(case, align, lake):
    lake(ROWS[case])
    whole = either(lambda: seen(tg.read_series("lake/q.parquet", align=align).padded()))
    assert either(lambda: seen(explain(align=align).take(sorted(ROWS[case])))) == whole


@pytest.mark.parametrize("case", ["a gap", "a time twice", "words", "a gap in stamps", "no time"])
def test_what_is_wrong_with_times_is_refused_before_anything_starts(case, lake, tmp_path):
    lake(ROWS[case])
    with pytest.raises(tg.TempogradError):
        explain()
    assert not (tmp_path / "out").exists()


def test_the_rows_of_a_series_may_stand_apart(lake):
    lake({"u": [0, 1], "v": [0, 1]})
    rows = pq.read_table("lake/q.parquet")
    pq.write_table(rows.take([1, 2, 0, 3]), "lake/q.parquet")
    assert explain().take(["u", "v"]).x[..., 0].tolist() == [[1, 2], [3, 4]]


@pytest.mark.filterwarnings("ignore:.*end before the last step")
def test_each_file_has_times_of_its_own(lake):
    lake({"u": [0, 1, 3], "v": [0, 3]}, name="p")
    lake({"w": [day(1), day(2)]}, name="q")
    found = explain(align="time").take(["u", "v", "w"])
    assert found.mask[..., 0].tolist() == [[True, True, True], [True, False, True], [True, True, False]]
    assert found.x[1, :, 0].tolist() == [4, 0, 5]
