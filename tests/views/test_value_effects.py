"""Which values push: groups by a slow loop, and the direction in words for known effects."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.views.groups import value_effects
from tests.helpers.explanations import made, waves, with_gaps


def effect(function, count=60, time=40, **parts):
    """Return what is found where the score of a value is a function of it, with noise of 0.01."""
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(count, time, 1, generator=draws)
    x = torch.cat([x, -x])[:count] if count % 2 else torch.cat([x[::2], -x[::2]])  # as many high as low ones
    noise = 0.01 * torch.randn(x.shape, generator=draws)
    return value_effects(made(function(x) + noise, x=x, **parts))[0]


@pytest.mark.parametrize(
    ("function", "pushes", "words"),
    [
        (lambda x: 2 * x, (-1, 1), "high values push up, low values down"),
        (lambda x: -x, (1, -1), "high values push down, low values up"),
        (lambda x: x.clamp(min=1.5) - 1.5, (0, 1), "high values push up"),
        (lambda x: (x > 2.1).float(), (0, 1), "high values push up"),  # 1.8 % of the values
        (lambda x: (x < -1.5).float(), (1, 0), "low values push up"),
        (lambda x: -(x < -2.1).float(), (-1, 0), "low values push down"),
        (lambda x: x.square() - 1, (1, 1), "high and low values push up"),
        (lambda x: x + 9, (1, 1), "high and low values push up"),
        (lambda x: x - 9, (-1, -1), "high and low values push down"),
        (lambda x: x.clamp(min=0) - 0.01 * (x < -1), (0, 1), "high values push up"),  # hardly anything below
        (lambda x: 0 * x, (0, 0), "no clear direction"),
    ],
)
def test_the_end_that_acts_is_named(function, pushes, words):
    found = effect(function)
    assert (found.pushes, found.words) == (pushes, words)


def test_without_a_sign_values_matter():
    assert effect(lambda x: x.exp(), signed=False).words == "high values matter more"
    assert effect(torch.abs, signed=False).words == "no clear direction"


def test_the_rare_values_of_a_spike_are_a_group():
    """Three readings in a hundred push; of equally large groups none would be at them."""
    found = effect(lambda x: (x > 1.9).float())
    assert found.counts.tolist() == [48, *[384] * 6, 48]
    assert found.mean[-1] == pytest.approx(1, abs=0.02)
    assert found.centre[-1] > 2


def test_groups_are_averaged_over_series():
    """In each group the mean of the series' own means, by a slow loop."""
    found = with_gaps(waves(series=6, channels=2))
    each = value_effects(found[[0, 2, 3, 5]])[0]
    cells = [
        (float(found.x[n, t, 0]), float(found.values[n, t, 0]), n)
        for n in (0, 2, 3, 5)
        for t in range(30)
        if found.mask[n, t, 0]
    ]
    ordered, groups = sorted(value for value, _, _ in cells), {}
    assert len(ordered) == 96
    for value, score, n in cells:
        inner = min(max(sum(other < value for other in ordered) - 2, 0) * 6 // 92, 5)
        group = 0 if value <= ordered[1] else 7 if value >= ordered[-2] else 1 + inner
        groups.setdefault(group, {}).setdefault(n, []).append(score)
    means = [[np.mean(scores) for scores in groups[g].values()] for g in sorted(groups)]
    np.testing.assert_allclose(each.mean, [np.mean(group) for group in means], rtol=1e-5)
    assert each.series.tolist() == [len(group) for group in means]
    for half, group in zip(each.high - each.mean, means, strict=True):
        if len(group) == 1:
            assert half == np.inf
        else:
            factor = float(tg.core.stats.t_quantile(0.95, torch.tensor(len(group) - 1.0)))
            assert half == pytest.approx(factor * np.std(group, ddof=1) / len(group) ** 0.5, rel=1e-4)


def test_strength_ranks_a_rare_certain_push_above_a_frequent_uncertain_one():
    draws = torch.Generator().manual_seed(1)
    x = torch.randn(40, 30, 2, generator=draws)
    noise = 3 * torch.randn(40, 30, generator=draws)
    rare, loud = value_effects(made(torch.stack([2.0 * (x[..., 0] > 2), noise], -1), x=x))
    assert rare.strength > 3 * loud.strength
    assert loud.words == "no clear direction"


def test_few_values_and_one_series_are_no_error():
    for count, time in ((1, 1), (1, 30), (2, 1), (3, 2)):
        found = effect(lambda x: x, count, time)
        assert found.counts.sum() == count * time
        assert found.data()["words"] == found.words
    nothing = value_effects(with_gaps(waves(series=3, channels=3)))[2]
    assert (nothing.words, nothing.data()["groups"]) == ("no value observed", [])


def test_plain_data_has_no_infinite_limit():
    found = value_effects(waves(series=1, channels=1))[0]
    assert np.isinf(found.low).all()
    assert {group[2] for group in found.data()["groups"]} == {None}


def test_values_are_those_that_people_know():
    found = waves(series=4, channels=2)
    known = value_effects(replace(found, raw=10 * found.x + 37))
    for one, other in zip(value_effects(found), known, strict=True):
        np.testing.assert_allclose(other.centre, 10 * one.centre + 37, rtol=1e-5)
