import pytest
import torch

from tempograd.core.question import Question
from tempograd.engine import Ask
from tests.helpers.models import linear, series

GIVEN = {
    "none": None,
    "average": "average",
    "number": 0.5,
    "per channel": torch.tensor([1.0, 2.0]),
    "per step": torch.arange(5.0)[:, None],
    "per series": torch.arange(4.0)[:, None, None],
    "per cell": series(4, 5, 2, seed=1),
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_baselines_arrive_as_they_were_given(given):
    x = series(4, 5, 2)
    ask = Ask.create(linear(5, 2), x, Question(baseline=given))
    if given is None:
        expected = torch.zeros_like(x)
    elif isinstance(given, str):
        expected = x.mean(1, keepdim=True).expand_as(x)
    else:
        expected = torch.as_tensor(given).expand_as(x)
    for rows in (slice(0, 3), slice(3, 4)):
        torch.testing.assert_close(ask.block(rows).baseline, expected[rows])
