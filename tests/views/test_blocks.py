"""Sums over blocks of steps equal a slow loop and pandas' groupby, and intervals those of a textbook."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.core.errors import InputError
from tests.helpers.explanations import made, waves, with_gaps
from tests.helpers.models import series


def looped(found, rows, edges):
    """Sum, average and spread in plain Python, (channel, block) each."""
    depth = found.values.shape[2]
    mean, error = np.zeros((depth, len(edges) - 1)), np.zeros((depth, len(edges) - 1))
    for d in range(depth):
        for b in range(len(edges) - 1):
            sums = [sum(float(found.values[n, t, d]) for t in range(edges[b], edges[b + 1])) for n in rows]
            mean[d, b] = sum(sums) / len(sums)
            spread = sum((each - mean[d, b]) ** 2 for each in sums)
            error[d, b] = math.sqrt(spread / (len(sums) * (len(sums) - 1)))
    return mean, error


@pytest.mark.parametrize("steps", [7, 30, None])
def test_blocks_are_those_of_a_slow_loop(steps):
    found, rows = with_gaps(waves(series=6)), [0, 2, 3, 5]
    blocks = found.blocks(rows, steps=steps)
    mean, error = looped(found, rows, blocks.edges)
    np.testing.assert_allclose(blocks.mean, mean, atol=1e-6)
    np.testing.assert_allclose(blocks.error, error, atol=1e-6)
    np.testing.assert_allclose(blocks.high - blocks.mean, 3.182446 * error, rtol=1e-4, atol=1e-6)  # t for 3
    np.testing.assert_allclose(blocks.mean - blocks.low, blocks.high - blocks.mean, atol=1e-9)
    flags = torch.zeros(6, dtype=torch.bool)
    flags[rows] = True
    np.testing.assert_array_equal(found.blocks(flags, steps=steps).mean, blocks.mean)


def test_blocks_are_those_of_a_groupby_of_the_table_of_cells():
    pytest.importorskip("pandas")
    found = replace(waves(series=5, channels=3), channels=("a", "b", "c"))
    cells = found.to_dataframe()
    cells["block"] = cells["time"] // 6
    sums = cells.groupby(["id", "channel", "block"])["attribution"].sum()
    expected = sums.groupby(["channel", "block"]).agg(["mean", "sem"])
    blocks = found.blocks(steps=6)
    np.testing.assert_allclose(blocks.mean.ravel(), expected["mean"], rtol=1e-5)
    np.testing.assert_allclose(blocks.error.ravel(), expected["sem"], rtol=1e-5)
    assert blocks.channels == ("a", "b", "c")
    assert blocks.times[:2] == ("steps 0–5", "steps 6–11")
    assert blocks.edges == (0, 6, 12, 18, 24, 30)


def test_blocks_over_all_steps_sum_to_the_scores():
    found = waves(series=4)
    np.testing.assert_allclose(found.blocks(steps=11).mean.sum(1), found.values.sum(1).mean(0), rtol=1e-5)


def test_size_and_presence():
    found = with_gaps(waves(series=2, time=30))
    blocks = found.blocks(steps=1)
    np.testing.assert_allclose(blocks.size, found.values.abs().mean(0).T, rtol=1e-5)
    np.testing.assert_array_equal(blocks.present, found.mask.double().mean(0).T)
    unsigned = made(-np.ones((2, 4, 1)), signed=False).blocks(steps=4)
    assert unsigned.mean.tolist() == [[0.0]]  # less than nothing is nothing


def test_one_series_has_no_interval_over_series():
    blocks = waves().blocks([1], steps=10)
    assert np.isinf(blocks.error).all()
    assert (blocks.low == -np.inf).all()
    assert (blocks.high == np.inf).all()


def test_stamps_of_the_blocks():
    hours = replace(waves(series=2), times=tuple(f"{t} h" for t in range(30)))
    assert hours.blocks(steps=12).times == ("0–11 h", "12–23 h", "24–29 h")
    own = replace(waves(series=2), times=tuple(tuple(f"{n}.{t}" for t in range(30)) for n in range(2)))
    assert own.blocks(steps=15).times == ("steps 0–14", "steps 15–29")  # stamps that differ are none of a group
    assert own.blocks([1], steps=2).times[:2] == ("1.0–1.1", "1.2–1.3")


def test_the_interval_of_a_mean_holds_the_truth_as_often_as_it_says():
    """Of 400 groups of 6 series with the mean 1, about 380 must hold it; 357 to 397 leave no room for luck."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        blocks = made(1 + rng.normal(size=(6, 1, 1))).blocks(steps=1)
        held += bool(blocks.low[0, 0] <= 1 <= blocks.high[0, 0])
    assert 357 <= held <= 397


def test_blocks_print_themselves(said):
    said(repr(waves(series=3).blocks(steps=10)))
    said(repr(waves(channels=12).blocks([0], steps=15)))


def test_blocks_that_are_none(said):
    said.refused(InputError, waves().blocks, [])
    said.refused(InputError, waves().blocks, [0, 0])
    said.refused(InputError, waves().blocks, [0, 9])
    said.refused(InputError, waves().blocks, steps=0)
    said.refused(InputError, waves().blocks, steps="day")


# Two groups


def test_differences_of_groups_are_welchs():
    """Against the textbook: two samples per channel, whose sums over time are known."""
    found = waves(series=7)
    first, second = [0, 1, 2], [3, 4, 5, 6]
    groups = tg.compare_groups(found, first, second)
    for d in range(3):
        a, b = ([float(found.values[n, :, d].sum()) for n in rows] for rows in (first, second))
        va, vb = np.var(a, ddof=1) / 3, np.var(b, ddof=1) / 4
        freedom = (va + vb) ** 2 / (va**2 / 2 + vb**2 / 3)
        assert groups.difference[d] == pytest.approx(np.mean(a) - np.mean(b), rel=1e-4, abs=1e-6)
        assert groups.error[d] == pytest.approx(math.sqrt(va + vb), rel=1e-4)
        factor = (groups.high[d] - groups.difference[d]) / groups.error[d]
        assert float(tg.core.stats.t_quantile(0.95, torch.tensor(freedom))) == pytest.approx(factor, rel=1e-3)


class Sensor(torch.nn.Module):
    """An alarm that channel 1 sets off, and that channel 2 sets off by mistake."""

    tempograd_task = "classification"

    def forward(self, x):
        return 2 * x[:, :, 1].sum(1, keepdim=True) + 2 * x[:, :, 2].sum(1, keepdim=True) - 2


def test_false_alarms_against_true_ones_name_their_cause():
    x = 0.05 * series(40, 5, 4)
    x[:20, 2, 1], x[20:, 3, 2] = 2.0, 2.0
    found = tg.explain(
        Sensor(), tg.Series(x, channels=["speed", "pressure", "dust", "heat"]), "integrated_gradients"
    )
    groups = tg.compare_groups(found, range(20), range(20, 40), names=("true alarms", "false alarms"))
    assert {groups.channels[d] for d in groups.order[:2]} == {"pressure", "dust"}
    assert groups.low[1] > 0 > groups.high[2]
    assert groups.certain_together[[1, 2]].all()
    assert groups.verdict().startswith("true alarms (20) and false alarms (20) differ in ")
    back = tg.compare_groups(found, range(20, 40), range(20))
    np.testing.assert_allclose(back.difference, -groups.difference)
    np.testing.assert_allclose(back.low, -groups.high)


def test_groups_print_themselves_and_have_a_table(said):
    found = tg.compare_groups(waves(series=8), [0, 1, 2], [3, 4, 5, 6, 7], names=("true", "false"))
    said(repr(found))
    np.testing.assert_array_equal(found.difference, found.first - found.second)
    assert found.certain_together.tolist() == [False] * 3


def test_a_group_of_one_series_has_no_interval():
    groups = tg.compare_groups(waves(series=3), [0], [1, 2])
    assert np.isinf(groups.error).all()
    assert not groups.certain_together.any()


def test_groups_that_are_none(said):
    said.refused(InputError, tg.compare_groups, waves(series=3), [0, 1], [1, 2])
    said.refused(InputError, tg.compare_groups, waves(series=3), [0, 1], [])
    said.refused(InputError, tg.compare_groups, waves(series=3), [0], [1], names="AB")
