"""Rounded scores: small, and a table that prints what it printed before."""

import numpy as np
import pytest
import torch

from reproduction.tests.helpers.results import ACCURACY, CPD, IG, LIME, NAN, TIMING, toy_plan, toy_record
from tempograd_paper.tables.archive import write_archive
from tempograd_paper.tables.rendering import render
from tempograd_paper.tables.rounding import in_steps, rounded, step_of
from tempograd_paper.tables.tabulation import tabulate


def drawn(seed, series=300, **changes):
    """A plan of three methods whose scores differ by less than they spread, and their records."""
    plan = toy_plan(rows=(IG, LIME, TIMING), measures=(CPD, ACCURACY), **changes)
    random = np.random.default_rng(seed)
    shared, records = random.lognormal(size=series), {}
    for cell in plan.cells():
        scores = shared * random.lognormal(0.1 * cell.fold, 0.05, size=series)
        scores[3] = NAN
        named = {"cpd10": scores.tolist(), "acc10": (random.random(series) < 0.9).astype(float).tolist()}
        records[cell.key] = toy_record(cell, named)
    return plan, records


@pytest.mark.parametrize("protocol", ["published", "tuned"])
@pytest.mark.parametrize("folds", [(0,), (0, 1), (0, 1, 2)], ids=len)
@pytest.mark.parametrize("seed", range(5))
def test_no_printed_digit_moves(seed, folds, protocol):
    plan, records = drawn(seed, folds=folds, protocol=protocol)
    found = rounded(plan, records)
    assert render(tabulate(plan, found), "markdown") == render(tabulate(plan, records), "markdown")
    for key, record in records.items():
        for name, scores in record.scores.items():
            exact, kept = scores.double().numpy(), found[key].scores[name].double().numpy()
            step, known = step_of(kept[~np.isnan(kept)]), ~np.isnan(exact)
            assert np.array_equal(known, ~np.isnan(kept))
            assert 0 < step <= exact[known].std() / 32 or np.array_equal(exact[known], kept[known])
            assert np.abs(exact - kept)[known].max() <= step
            assert abs(exact[known].sum() - kept[known].sum()) <= step


def test_what_was_rounded_stays(tmp_path):
    plan, records = drawn(0)
    once = rounded(plan, records)
    again = rounded(plan, once)
    for key, record in once.items():
        for name, scores in record.scores.items():
            torch.testing.assert_close(again[key].scores[name], scores, rtol=0, atol=0, equal_nan=True)


def test_a_score_takes_about_a_byte(tmp_path):
    """In single precision it takes three, whatever packs it."""
    plan, records = drawn(0, series=4000)
    size = (write_archive(tmp_path, plan, records) / "records.parquet").stat().st_size
    assert size < 1.3 * 9 * 4000  # nine records, and a bit each for zeros and ones


def test_steps_by_hand():
    assert in_steps(np.array([0.4, 0.45, 0.3, 1.0]), 1.0).tolist() == [0, 1, 0, 1]  # their sum is 2.15
    assert in_steps(np.array([-0.4, -0.45, -0.3, -1.0]), 1.0).tolist() == [0, -1, 0, -1]
    assert in_steps(np.array([0.6, 0.55, 0.6]), 1.0).tolist() == [1, 0, 1]
    for scores, step in (([0.0, -0.75, 1.5], 0.25), ([3.0], 1.0), ([0.0], 1.0), ([], 1.0), ([0.1, 1.0], 0.0)):
        assert step_of(np.array(scores)) == step
    single = float(np.float32(0.1))
    assert (single / step_of(np.array([single]))).is_integer()  # one score is kept as it is


def test_a_spread_below_single_precision_is_kept():
    """Scores whose last bits differ, as of a model that hardly moves, and one measure without any."""
    plan = toy_plan(measures=(CPD,), folds=(0,))
    scores = [1.0, 1.0 + 2**-23, 1.0]
    records = {
        cell.key: toy_record(cell, scores if cell.method == "timing" else [NAN] * 3) for cell in plan.cells()
    }
    found = rounded(plan, records)
    assert [record.scores["cpd10"].tolist() for record in found.values()][1] == scores
