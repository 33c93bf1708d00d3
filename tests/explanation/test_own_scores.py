"""Scores that a researcher brings: from a function, or as numbers, through every door that explanations have."""

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.core.errors import InputError
from tests.helpers.models import linear

X = torch.randn(6, 8, 3, generator=torch.Generator().manual_seed(0))


def gradient_times_input(model, x, target):
    x = x.clone().requires_grad_()
    model(x).softmax(-1).gather(1, target[:, None]).sum().backward()
    return x.grad * x.detach()


def test_a_function_is_a_method():
    model = linear(8, 3)
    found = tg.explain(model, X, gradient_times_input)
    target = model(X).argmax(1)
    assert (found.method, found.signed, found.parameters) == ("gradient_times_input", True, {})
    assert torch.equal(found.target, target)
    torch.testing.assert_close(found.values, gradient_times_input(model, X, target))
    torch.testing.assert_close(found.prediction, model(X).softmax(-1).max(1).values)
    torch.testing.assert_close(tg.explain(model, X, gradient_times_input, batch_size=2).values, found.values)
    many = tg.explain(model, X, gradient_times_input, targets=[0, 1])
    assert torch.equal(many[1].target, torch.ones(6, dtype=torch.int64))


def test_what_a_function_may_not_return_is_refused():
    for wrong in (lambda *_: X[:, :4], lambda *_: None, lambda *_: X * torch.nan):
        with pytest.raises(tg.TempogradError):
            tg.explain(linear(8, 3), X, wrong)
    with pytest.raises(tg.TempogradError):
        tg.explain(linear(8, 3), X, gradient_times_input, n_samples=20)
    with pytest.raises(InputError):
        tg.tune(linear(8, 3), X, gradient_times_input, budget=10)


def test_scores_that_are_no_numbers_are_refused_and_not_the_models_fault():
    with pytest.raises(InputError, match="Scores of 'mine' are NaN or infinite"):
        tg.Explanation.of(linear(8, 3), X, X * torch.nan, method="mine")


def test_functions_are_ranked_beside_methods():
    ranking = tg.rank(linear(8, 3), X, [gradient_times_input, "integrated_gradients"])
    assert {row.method for row in ranking.table} == {"gradient_times_input", "integrated_gradients", "random"}


def test_own_scores_are_a_whole_explanation(tmp_path):
    model, mask = linear(8, 3), torch.ones_like(X)
    mask[:, 2, 1] = 0
    series = tg.Series(
        X, torch.tensor([0, 1, 2, 0, 1, 0]), mask=mask, ids=list("abcdef"), channels=["u", "v", "w"]
    )
    values = np.linspace(-1, 1, X.numel()).reshape(X.shape)
    mine = tg.Explanation.of(model, series, values, "mine", target=1)
    assert (mine.method, mine.names, mine.channels) == ("mine", tuple("abcdef"), ("u", "v", "w"))
    assert not mine.values[mask == 0].any()
    torch.testing.assert_close(mine.values[mask == 1], torch.tensor(values, dtype=torch.float32)[mask == 1])
    again = tg.Explanation.load(mine.save(tmp_path / "mine.safetensors"))
    assert torch.equal(again.values, mine.values)
    timing = tg.explain(model, series, target=1, n_samples=20)
    scores = {name: tg.evaluate(model, found) for name, found in {"mine": again, "TIMING": timing}.items()}
    assert tg.table(scores).cells["TIMING", "cpd"].best
    tg.report(tmp_path / "report.html", model, [timing, mine])
    assert mine.fingerprint == timing.fingerprint
    assert "mine" in repr(mine)


def test_own_scores_may_be_of_series_of_unequal_length_and_of_several_inputs():
    def total(x):
        return x.sum((1, 2))[:, None]

    parts = [X[0, :5], X[1, :8]]
    with pytest.warns(tg.TempogradWarning):
        unequal = tg.Explanation.of(tg.Predictor(total, task="regression"), parts, [2 * part for part in parts])
    torch.testing.assert_close(unequal.values[0, :5], 2 * X[0, :5])
    assert not unequal.values[0, 5:].any()

    def both(past, static):
        return past.sum((1, 2))[:, None] + static.sum(1, keepdim=True)

    inputs = {"past": X, "static": X[:, 0]}
    values = {"static": X[:, 1], "past": 3 * X}
    found = tg.Explanation.of(tg.Predictor(both, task="regression"), inputs, values)
    torch.testing.assert_close(found["past"].values, 3 * X)
    torch.testing.assert_close(found["static"].values, X[:, 1])


def test_several_targets_share_one_map_no_more_than_series_do_rows():
    with pytest.raises(InputError):
        tg.Explanation.of(linear(8, 3), X, X[:3])
