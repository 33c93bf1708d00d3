"""Time stamps of every kind become the texts that people would write."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
import torch

from tempograd.core.errors import InputError
from tempograd.core.series import check_times, shared_times

HOURS = pd.date_range("2026-01-31 22:00", periods=3, freq="h")
WRITTEN = ("2026-01-31 22:00", "2026-01-31 23:00", "2026-02-01 00:00")


@pytest.mark.parametrize(
    "times",
    [
        HOURS,
        list(HOURS),
        HOURS.to_numpy(),
        HOURS.to_numpy().astype("M8[m]"),
        pd.Series(HOURS),
        [moment.to_pydatetime() for moment in HOURS],
        [HOURS[0], HOURS.to_numpy()[1], HOURS[2].to_pydatetime()],
    ],
)
def test_dates_of_any_library_are_written_alike(times):
    assert check_times(times, 2, 3) == WRITTEN
    assert check_times([times, times], 2, 3) == (WRITTEN, WRITTEN)


@pytest.mark.parametrize(
    ("times", "written"),
    [
        (["2026-01-01", "2026-01-02"], ("2026-01-01", "2026-01-02")),
        (["2026-01-01T00:00:00", "2026-01-01T00:00:09"], ("2026-01-01 00:00:00", "2026-01-01 00:00:09")),
        (
            ["2026-01-01T12:00:00.5", "2026-01-01T12:00:00.25"],
            ("2026-01-01 12:00:00.500", "2026-01-01 12:00:00.250"),
        ),
        (["2026-01-01T00:00:00.000000001", "NaT"], ("2026-01-01 00:00:00.000000001", "")),
        (["NaT", "NaT"], ("", "")),
    ],
)
def test_dates_are_as_exact_as_the_finest_needs(times, written):
    assert check_times(np.array(times, "M8[ns]"), 1, 2) == written


def test_days_of_one_series_are_as_exact_as_the_hours_of_another():
    rows = [[dt.date(2026, 1, 1)], [dt.datetime(2026, 1, 1, 8, 30)]]  # as people have them
    assert check_times(rows, 2, 1) == (("2026-01-01 00:00",), ("2026-01-01 08:30",))


def test_numbers_texts_and_zones_stay_as_they_are():
    assert check_times(torch.tensor([[0.1, 2.0], [3.5, torch.nan]]), 2, 2) == (("0.1", "2.0"), ("3.5", ""))
    assert check_times(pd.DataFrame([[1, 2], [3, 4]]), 2, 2) == (("1", "2"), ("3", "4"))
    assert check_times(("t0", b"t1"), 2, 2) == ("t0", "t1")
    assert check_times([["a", None], ("b", "c")], 2, 2) == (("a", ""), ("b", "c"))
    exact = [pd.Timestamp("2026-01-01") + pd.Timedelta(k, "ns") for k in (0, 7)]
    assert check_times(exact, 2, 2) == ("2026-01-01 00:00:00.000000000", "2026-01-01 00:00:00.000000007")
    zone = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert check_times([zone], 2, 1) == ("2026-01-01 00:00:00+00:00",)


def test_equal_stamps_are_shared():
    assert shared_times((("a", "b"), ("a", "b"))) == ("a", "b")
    assert shared_times((("a", "b"), ("a", "c"))) is None
    assert shared_times(("a", "b")) == ("a", "b")
    assert shared_times(None) is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([["a", "b"]], "times must hold 2 texts, or 2 for each of the 3 series, got 1 rows."),
        (np.zeros((3, 4)), "times must have 2 entries, got 4."),
        (
            [["a", "b"], ["a", "b"], "ab"],
            "times must be a list of 2 names, got 'ab'.",
        ),
        (["a"], "times must have 2 entries, got 1."),
        ("ab", "times must be a list of 2 names, got 'ab'."),
        (np.zeros((3, 2, 1)), "times must be a list of 2 names, got an ndarray of shape (3, 2, 1) and float64."),
    ],
)
def test_other_sizes_are_refused_in_a_sentence(wrong, message):
    with pytest.raises(InputError) as caught:
        check_times(wrong, 3, 2)
    assert str(caught.value) == message
