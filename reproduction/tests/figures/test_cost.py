"""Rows of the cost picture from records, by hand."""

import numpy as np
import pytest

import tempograd as tg
from reproduction.tests.helpers.results import toy_plan, toy_records
from tempograd_paper import figures


def test_rows_of_a_benchmark_are_means_over_folds_and_seconds_per_series():
    records = toy_records(toy_plan(), seconds={"train": 9.0, "explain": 4.0, "evaluate": 1.0})
    rows = {row.method: row for row in figures.cost_rows(records, "cpd10")}
    timing = rows["timing"]  # fold means 2, 3, 6 of two series each
    assert timing.cost == 2.0
    assert timing.mean == pytest.approx(11 / 3)
    assert timing.error == pytest.approx(np.std([2, 3, 6], ddof=1) / 3**0.5)
    single = figures.cost_rows([record for record in records.values() if record.cell.fold == 0], "cpd10")
    assert {row.method: (row.mean, row.error) for row in single} == {
        "timing": (2, 1),
        "integrated_gradients": (1, 0),
    }


def test_what_has_no_rows_is_refused():
    records = toy_records(toy_plan(), seconds={"explain": 4.0})
    with pytest.raises(tg.TempogradError, match="no measure 'cpd': expected one of cpd10"):
        figures.cost_rows(records, "cpd")
    with pytest.raises(tg.TempogradError, match="Two records are of integrated_gradients in fold 0"):
        figures.cost_rows([*records.values(), *records.values()], "cpd10")
