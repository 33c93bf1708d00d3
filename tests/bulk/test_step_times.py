"""Rows that are steps: a folder decides what their times mean as ``read_series`` does for one file."""

from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from torch import nn

import tempograd as tg
from tempograd.bulk import step_times


class Sum(nn.Module):
    def forward(self, x):
        return x.sum((1, 2))[:, None]


def day(number, hour=0):
    return datetime(2026, 1, number, hour)


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
    known = {"x": ["a", "b"], "time": "time", "method": "integrated_gradients", "n_steps": 2}
    return tg.explain_dataset(tg.Predictor(Sum(), task="regression"), source, out, **(known | options))


def refusal(**options):
    with pytest.raises(tg.TempogradError) as raised:
        explain(**options)
    return str(raised.value)


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


@pytest.mark.parametrize(
    "case", ["a gap", "a gap of the first", "a time twice", "words", "a gap in stamps", "a stamp twice", "no time"]
)
def test_what_is_wrong_with_times_is_said_before_anything_starts(case, lake, said, tmp_path):
    lake(ROWS[case])
    said(refusal(), HERE=str(tmp_path))
    assert not (tmp_path / "out").exists()


@pytest.mark.filterwarnings("ignore:.*end before the last step")
@pytest.mark.parametrize("group", [3, 4, 100])
@pytest.mark.parametrize("case", ["a gap", "a time twice", "begins late"])
def test_parts_of_a_file_are_compared_where_nobody_counts_the_steps(case, group, lake):
    """With a shape, files are read once only, part by part."""
    lake(ROWS[case], group=group)
    with pytest.raises(tg.TempogradError, match=r"has no row for time|has time 1 twice"):
        explain(shape=(4, 2), fragment=2)


LENGTHS = {  # of series, and how many files of results are made of them
    "the first": ((9, 1, 2), 3),
    "in the middle": ((2, 9, 1), 3),
    "the last": ((1, 2, 9), 2),
    "all": ((9, 8, 9), 3),
    "one": ((9,), 1),
}


@pytest.mark.filterwarnings("ignore:.*end before the last step")
@pytest.mark.parametrize("written", [{}, {"write_statistics": False}])
@pytest.mark.parametrize(
    ("case", "name"),
    [
        *((case, "s{}") for case in LENGTHS),
        *(("all", name) for name in ("cut short in statistics, perhaps {}", "by code {}", 7)),
    ],
)
def test_a_series_that_fills_row_groups_of_its_own(case, name, written, lake):
    """No fragment begins in its middle, and all rows are those of the file read whole."""
    lengths, files = LENGTHS[case]
    names = [name + k if isinstance(name, int) else name.format(k) for k in range(len(lengths))]
    ids = pa.array([each for each, steps in zip(names, lengths, strict=True) for _ in range(steps)])
    if name == "by code {}":
        ids = ids.dictionary_encode()
    a = np.arange(1.0, len(ids) + 1)
    stamps = [step for steps in lengths for step in range(steps)]
    rows = pa.table({"id": ids, "time": stamps, "a": a, "b": -a})
    pq.write_table(rows, "lake/q.parquet", row_group_size=2, **written)
    run = explain(shape=(9, 2), fragment=2)
    part, whole = run.take(names), tg.read_series("lake/q.parquet").padded()
    assert part.x.tolist() == whole.x.tolist()
    assert (part.mask is None) == (whole.mask is None)
    assert part.mask is None or part.mask.tolist() == whole.mask.tolist()
    assert len(run.files) == files


def test_rows_in_disorder_are_no_gaps(lake):
    lake({"u": [0, 1], "v": [0, 1]})
    rows = pq.read_table("lake/q.parquet")
    pq.write_table(rows.take([1, 2, 0, 3]), "lake/q.parquet")
    with pytest.raises(tg.TempogradError, match=r"the rows of series '[uv]' do not stand together: sort by id"):
        explain()


@pytest.mark.filterwarnings("ignore:.*end before the last step")
def test_each_file_has_times_of_its_own(lake):
    lake({"u": [0, 1, 3], "v": [0, 3]}, name="p")
    lake({"w": [day(1), day(2)]}, name="q")
    found = explain(align="time").take(["u", "v", "w"])
    assert found.mask[..., 0].tolist() == [[True, True, True], [True, False, True], [True, True, False]]
    assert found.x[1, :, 0].tolist() == [4, 0, 5]


def test_more_times_than_steps_can_be(lake, said, monkeypatch, tmp_path):
    monkeypatch.setattr(step_times, "MOST", 3)
    lake({"u": [0, 1], "v": [2, 3]})
    said(refusal(align="time"), HERE=str(tmp_path))
    assert explain(align="order").take(["v"]).x.tolist() == [[[3, -3], [4, -4]]]


@pytest.mark.parametrize(
    "options", [{"x": "a"}, {"time": None}, {"source": np.zeros((1, 2, 2)), "x": "x"}, {"align": "clock"}]
)
def test_an_alignment_of_nothing(options, lake, said, tmp_path):
    lake(ROWS["all alike"])
    said(refusal(**({"align": "time"} | options)), HERE=str(tmp_path))
    assert not (tmp_path / "out").exists()
