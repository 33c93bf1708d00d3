"""Scores that a report compares are about the same removals."""

import torch

import tempograd as tg
from tempograd.html_report.build import compute_scores
from tests.helpers.models import linear, series


def test_all_explanations_lose_the_same_values():
    model, x = linear(6, 2), series(5, 6, 2) + 2
    zero, average = (tg.explain(model, x, "occlusion", baseline=kind) for kind in ("zero", "average"))
    found = compute_scores(model, {"zero": zero, "average": average})
    alone = tg.evaluate(model, average, metrics="cpd", baseline="zero")["cpd"]
    torch.testing.assert_close(found["average"]["cpd"], alone)
    assert not torch.allclose(found["average"]["cpd"], tg.evaluate(model, average, metrics="cpd")["cpd"])
