"""A question about some of the series has the rows of these, and keeps what all series share."""

import numpy as np
import pytest
import torch

import tempograd as tg

X, STATIC = torch.randn(4, 4, 2), torch.randn(4, 2)
ROWS = [2, 0]

PER_SERIES = {
    "target": {"target": torch.arange(4)},
    "target of each step": {"target": torch.arange(16).view(4, 4)},
    "array": {"target": np.arange(4)},
    "steps": {"steps": torch.rand(4, 4) > 0.5},
    "baseline": {"baseline": X + 1},
    "baseline as series": {"baseline": tg.Series(X + 1)},
}
SHARED = {
    "class": {"target": 1},
    "name": {"target": "ill"},
    "address": {"target": (3, 1)},
    "steps": {"steps": [0, 1, 2, 3]},
    "own": {"steps": "own"},
    "number": {"baseline": 0.5},
    "channels": {"baseline": [0.1, 0.2]},
    "one series": {"baseline": torch.ones(4, 2)},
    "one row": {"baseline": torch.ones(1, 4, 2)},
    "background": {"baseline": "background", "background": X},
}


@pytest.mark.parametrize("options", PER_SERIES.values(), ids=PER_SERIES)
def test_rows_of_the_series_are_taken(options):
    ((name, value),) = options.items()
    whole = torch.as_tensor(value.x if isinstance(value, tg.Series) else value)
    taken = tg.Question(**options).take(ROWS, tg.Series(X))
    assert torch.equal(getattr(taken, name), whole[ROWS])


@pytest.mark.parametrize("options", SHARED.values(), ids=SHARED)
def test_what_all_series_share_stays(options):
    taken = tg.Question(**options).take(ROWS, tg.Series(X))
    assert all(getattr(taken, name) is value for name, value in options.items())


def test_several_targets_and_several_inputs():
    pick = len
    taken = tg.Question(targets=[1, torch.arange(4), pick]).take(slice(1, 2), tg.Series(X))
    assert taken.targets == [1, torch.tensor([1]), pick]
    several = {"baseline": {"x": X, "static": STATIC}}, {"baseline": {"x": torch.ones(4, 2), "static": 0.5}}
    cut, kept = (tg.Question(**each).take(ROWS, tg.Series({"x": X, "static": STATIC})) for each in several)
    assert torch.equal(cut.baseline["x"], X[ROWS])
    assert torch.equal(cut.baseline["static"], STATIC[ROWS])
    assert kept.baseline["x"].shape == (4, 2)
    by_place = tg.Question(baseline=(X, 0.0)).take(ROWS, tg.Series((X, STATIC)))
    assert torch.equal(by_place.baseline[0], X[ROWS])
