"""Explanations that are compared are of the same series, as far as they keep them."""

import pytest
import torch

import tempograd as tg
from tempograd.core.errors import InputError
from tempograd.explanation.targets import other_series
from tempograd.views.labels import as_mapping


@pytest.fixture
def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 2))


@pytest.fixture
def x():
    return torch.randn(5, 6, 2, generator=torch.Generator().manual_seed(1))


def test_other_values_are_no_comparison(model, x):
    changed = x.clone()
    changed[3, 2, 1] += 0.1
    both = [tg.explain(model, x), tg.explain(model, changed, "integrated_gradients")]
    with pytest.raises(InputError, match=r"is of other series .* than 'timing'"):
        as_mapping(both)


def test_another_precision_is_the_same_series(model, x):
    found = tg.explain(model, x)
    assert other_series(found, x.double() * (1 + 1e-6)) == []
    assert other_series(found, x.half()) == other_series(found, x.bfloat16()) == []
    assert other_series(found, x.bfloat16().float()) == [0, 1, 2, 3, 4]  # as exact as float32, and other values


def test_what_was_not_observed_may_hold_other_values(model, x):
    x[1, 2, 0] = torch.nan
    zero = tg.explain(model, tg.Series(x, mask="nan"))
    one = tg.explain(model, tg.Series(x, mask="nan", fill=1), "integrated_gradients")
    assert not torch.equal(zero.x, one.x)
    assert list(as_mapping([zero, one])) == ["timing", "integrated_gradients"]
