"""Points in stages, and when they are enough."""

from itertools import pairwise

import pytest
import torch

import tempograd as tg
from tempograd.core.errors import SettingError
from tempograd.explainers import IntegratedGradients, Timing
from tempograd.sampling.integration import WeightedSum, changed, geometric
from tests.helpers.models import Recurrent, series, smooth

SETTING = (6, 2, 6)


def steep(seed=1):
    """A model whose series need different numbers of points."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(40, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)
    ).double()
    return lambda z: 6 * model(z)


@pytest.mark.parametrize(
    ("first", "points", "stages"),
    [
        (50, 50, (50,)),
        (20, 20, (20,)),
        (50, 75, (75,)),
        (50, 76, (50, 26)),
        (50, 100, (50, 50)),
        (50, 400, (50, 50, 100, 200)),
        (50, 1000, (50, 50, 100, 200, 600)),
        (10, 25, (10, 15)),
    ],
)
def test_stages_double_and_a_short_rest_joins_the_last(first, points, stages):
    assert geometric(first, points) == stages


def test_later_stages_have_masks_of_their_own():
    """Were they those of the first stage, the cells would be free exactly twice as often."""
    model, x = steep(), series(4, 20, 2, dtype=torch.float64)
    first, both = (Timing(points, None, *SETTING)(model, x).n_draws for points in (50, 100))
    assert (both != 2 * first).float().mean() > 0.5


@pytest.mark.parametrize("batch_size", [None, 7, 64])
def test_a_series_that_stops_has_the_map_of_as_many_points(batch_size):
    model, x = steep(), series(12, 20, 2, dtype=torch.float64)
    found = Timing(50, None, *SETTING, tolerance=0.06, max_samples=400)(model, x, batch_size=batch_size)
    assert len(set(found.n_evals.tolist())) > 2
    for points in set(found.n_evals.tolist()):
        here = found.n_evals == points
        whole = Timing(points, None, *SETTING)(model, x)
        torch.testing.assert_close(found.values[here], whole.values[here])
        torch.testing.assert_close(found.standard_error[here], whole.standard_error[here])
        assert torch.equal(found.n_draws[here], whole.n_draws[here])


def test_stopping_depends_on_the_series_alone():
    model, x = steep(), series(40, 20, 2, dtype=torch.float64)
    mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.8
    method = Timing(50, None, *SETTING, tolerance=0.06, max_samples=400)
    together = method(model, tg.Series(x, mask=mask))
    for i in (0, 5, 11):
        alone = method(model, tg.Series(x[i : i + 1], mask=mask[i : i + 1], ids=[i]))
        assert alone.n_evals[0] == together.n_evals[i]
        torch.testing.assert_close(alone.values[0], together.values[i])


def test_a_run_ends_where_the_last_series_stopped():
    model, x = smooth(20, 2), series(3, 20, 2, dtype=torch.float64)
    found = Timing(50, None, *SETTING, tolerance=0.5)(model, x)
    assert found.n_evals.tolist() == [50, 50, 50]


def test_the_top_tenth_is_stable_when_few_of_its_cells_changed():
    model, x = steep(), series(40, 20, 2, dtype=torch.float64)
    mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.7
    x = torch.where(mask, x, 100.0)  # what was not observed must not count, however large
    found = Timing(50, None, *SETTING, tolerance=0.2, stop_when="top", max_samples=400)(
        model, tg.Series(x, mask=mask)
    )
    maps = {
        points: Timing(points, None, *SETTING)(model, tg.Series(x, mask=mask)).values
        for points in (50, 100, 200, 400)
    }
    for i, points in enumerate(found.n_evals.tolist()):
        count = -(-int(mask[i].sum()) // 10)
        tops = {
            n: set(map(tuple, (values[i].abs().flatten().topk(count).indices[:, None]).tolist()))
            for n, values in maps.items()
        }
        shares = {n: 1 - len(tops[n] & tops[n // 2]) / count for n in (100, 200, 400)}
        expected = next((n for n in (100, 200) if shares[n] <= 0.2 + 1e-6), 400)
        assert points == expected
    assert len(set(found.n_evals.tolist())) > 1


def test_changed_counts_cells_that_are_new_among_the_largest():
    before = torch.tensor([[[9.0], [-8.0], [1.0], [2.0]] + [[0.5]] * 16])
    after = torch.tensor([[[9.0], [0.0], [-7.0], [2.0]] + [[0.5]] * 16])
    everything = torch.ones(1, 20, 1, dtype=torch.bool)
    assert changed(after, before, everything).tolist() == [0.5]
    assert changed(before, before, everything).tolist() == [0.0]


@pytest.mark.parametrize("batch_size", [None, 1, 9])
def test_the_change_is_that_of_the_score_between_baseline_and_series(batch_size):
    model, x = Recurrent().double().eval(), series(4, 8, 3, dtype=torch.float64)
    baseline = torch.full_like(x, 0.3)
    mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.8
    start = torch.where(mask, baseline, x)
    for method in (Timing(20), IntegratedGradients(20), Timing(20, control_variates=False)):
        found = method(model, tg.Series(x, mask=mask), baseline=baseline, batch_size=batch_size)
        score = [model(z).softmax(-1).gather(1, found.target[:, None])[:, 0] for z in (x, start)]
        torch.testing.assert_close(found.delta.double(), score[0] - score[1], rtol=1e-5, atol=1e-7)
        assert found.n_evals.tolist() == [20] * 4


def test_the_change_sums_over_the_explained_steps():
    model, x = Recurrent(per_step=True).double().eval(), series(3, 6, 3, dtype=torch.float64)
    found = Timing(20)(model, x, target=1, steps=[1, 4])
    score = [model(z).softmax(-1)[:, [1, 4], 1].sum(1) for z in (x, torch.zeros_like(x))]
    torch.testing.assert_close(found.delta.double(), score[0] - score[1], rtol=1e-5, atol=1e-7)
    assert Timing(20)(model, x, target=1, steps="own").delta is None


BAD = {
    "tolerance": ({"tolerance": 0}, "above 0"),
    "per cent": ({"tolerance": 20}, "below 1"),
    "stop_when": ({"tolerance": 0.1, "stop_when": "bottom"}, "'error' or 'top'"),
    "plain": ({"tolerance": 0.1, "control_variates": False}, "needs control_variates=True"),
    "no segments": ({"tolerance": 0.1, "segments": 0}, "needs control_variates=True"),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_what_cannot_stop_is_refused(name):
    options, message = BAD[name]
    with pytest.raises(SettingError, match=message):
        Timing(**options)


def test_a_mean_without_an_error_keeps_its_digits_over_passes_of_any_size():
    """Against double precision; and equal numbers have exactly their mean, whatever their weights."""
    torch.manual_seed(0)
    y, weight = torch.rand(3, 1000, 4, 2), torch.rand(1000)
    y[:, 0] = 0  # all others are on one side of the first
    found, same = WeightedSum(), WeightedSum()
    constant = torch.rand(3, 1, 4, 2).expand_as(y)
    for first, last in pairwise([0, 1, 8, 40, 700, 1000]):
        found.add(y[:, first:last], weight[first:last])
        same.add(constant[:, first:last], weight[first:last])
    expected = (weight.double()[:, None, None] * y.double()).sum(1) / weight.double().sum()
    torch.testing.assert_close(found.mean((3, 4, 2)).double(), expected, rtol=3e-7, atol=0)
    assert torch.equal(same.mean((3, 4, 2)), constant[:, 0])
    plain = WeightedSum()
    plain.add(y)
    torch.testing.assert_close(plain.mean((3, 4, 2)).double(), y.double().mean(1), rtol=3e-7, atol=0)
