"""What is said of a prediction: its score, the true value or label beside it, and no class where there is none."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.core.question import Question
from tempograd.html_report.content import collect
from tempograd.metrics.base import Evaluation
from tempograd.views import prediction
from tests.helpers.literal_metrics import by_hand, randn
from tests.helpers.report_page import Page

SERIES, TIME, DEPTH, HORIZON, VARIABLES = 3, 5, 2, 4, 2
X = (1.2 + torch.arange(SERIES * TIME * DEPTH).mul(1.7).sin()).view(SERIES, TIME, DEPTH)
VALUES = randn(SERIES, TIME, DEPTH, seed=2, dtype=torch.float32)
Y = torch.arange(SERIES * HORIZON * VARIABLES).view(SERIES, HORIZON, VARIABLES) + 200.0


def forecast(z):
    """Every series' mean, plus 10 for each step ahead, and the second variable a hundred more."""
    steps = torch.arange(HORIZON)[:, None] * 10.0 + torch.tensor([0.0, 100.0])
    return z.mean((1, 2))[:, None, None] + steps


def labels(z):
    return torch.stack([z.sum((1, 2)), z.sum((1, 2)) * 0 + 2, z[:, 0, 0]], 1)


def addressed(column):
    """The explanation of one output of the forecast."""
    shape, target = (HORIZON, VARIABLES), torch.full((SERIES,), column)
    found = by_hand(VALUES, X, target, output="raw", columns=HORIZON * VARIABLES, task="forecast")
    return replace(found, output_shape=shape)


def multilabel(label=1):
    return by_hand(VALUES, X, torch.full((SERIES,), label), columns=3, task="multilabel")


def said(explanation, model, y=None):
    ask = Evaluation(model, replace(explanation, x=X)).ask()
    block = ask.block(slice(0, SERIES))
    raw = ask.forward(block.x, block.index)
    known = ask.read(block, raw).clean_score if ask.scored else None
    return prediction.said_of(replace(explanation, prediction=known, y=y), 1)


def test_a_forecast_has_an_address_and_a_true_value_and_no_class():
    column = 3 * VARIABLES + 1
    found = said(addressed(column), forecast, y=Y)
    expected = float(X[1].mean()) + 130
    assert found.text == f"output 1 at step 3 of the forecast is {expected:.3g} (true: {float(Y[1, 3, 1]):.3g})"
    assert found.output == pytest.approx(expected, rel=1e-6)
    assert said(addressed(column), forecast, y=Y.flatten(1)).text == found.text
    assert said(addressed(column), forecast, y=torch.tensor([1, 7, 3])).text.endswith("(true: 7)")
    # values of another forecast say nothing of this one
    assert "true" not in said(addressed(column), forecast, y=Y[:, 1:]).text


@pytest.mark.parametrize("task", ["forecast", None])
def test_the_report_of_a_forecast_has_the_true_values_of_its_split(task, tmp_path):
    """Also where nobody told the task: real values, one for each output, are no classes."""

    def double(z):
        return 2 * z[:, :3, 0]

    y = torch.tensor([[1.0, 2.0, 3.5], [4.0, 5.0, 6.5], [7.0, 8.0, 9.5]])
    found = tg.explain(tg.Predictor(double, task=task), X, "integrated_gradients", output="raw", target=2)
    page = Page(tg.report(tmp_path / "r.html", double, [replace(found, y=y)])).content
    assert page["trueValue"] == [3.5, 6.5, 9.5]
    assert [" (true: 3.5), " in page["maps"][0]["sentences"][0], page["label"]] == [True, None]


def test_whole_numbers_are_values_of_a_regression():
    model = lambda z: z.sum((1, 2))[:, None]  # noqa: E731
    target = torch.zeros(SERIES, dtype=torch.int64)
    known, unknown = (by_hand(VALUES, X, target, output="raw", columns=1, task=t) for t in ("regression", None))
    y = torch.tensor([4, 7, 1])
    total = f"the model's output is {float(X[1].sum()):.3g}"
    assert said(known, model, y=y).text == f"{total} (true: 7)"
    assert said(unknown, model, y=y).text == f"{total} (true: class 7)"  # as before, where nobody told the task


def test_a_label_is_there_or_not():
    probability = 1 / (1 + np.exp(-2))
    y = torch.tensor([[0, 0, 1], [0, 1, 0], [1, 1, 1]])
    assert (
        said(multilabel(), labels, y=y).text == f"{100 * probability:.0f} % probability of label 1 (true: present)"
    )
    assert said(multilabel(2), labels, y=y).text.endswith("(true: absent)")
    assert "true" not in said(multilabel(), labels, y=torch.tensor([0, 1, 2])).text  # which label is not said
    assert said(replace(multilabel(), classes=("sepsis", "stroke", "shock")), labels).text.endswith(" of “stroke”")


def test_a_picked_score_is_said_in_its_words():
    def last(y):
        return y[:, -1, 0]

    words = last.__doc__ = "the last step of variable 0"
    found = by_hand(VALUES, X, output="raw", task="forecast", picker=last)
    expected = f"{words} is {float(X[1].mean()) + 30:.3g}"
    assert said(found, forecast).text == expected
    bare = replace(found, question=Question())
    assert said(bare, forecast).text == "a score of your own"

    def error(y, z, seen):
        return ((y - z.mean((1, 2))[:, None, None]) ** 2).sum((1, 2))

    error.takes_input = True
    away = 2 * sum((10 * h) ** 2 for h in range(HORIZON)) + sum(10000 + 2000 * h for h in range(HORIZON))
    assert said(replace(found, question=Question(target=error)), forecast, y=Y).output == pytest.approx(
        away, rel=1e-5
    )


def test_only_classes_are_predicted():
    outputs = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
    y = torch.tensor([1, 1, 0])
    target = torch.zeros(SERIES, dtype=torch.int64)
    for task in ("regression", "forecast", "multilabel"):
        found = by_hand(VALUES, X, target, output="raw", columns=2, task=task)
        compared = prediction.compare_labels(outputs, found, y, per_step=False)
        assert [compared[name] for name in ("predicted", "label", "outcome")] == [None] * 3
        assert (compared["trueValue"] is None) == (task == "multilabel")
    unknown = by_hand(VALUES, X, target, output="raw", columns=2)
    assert prediction.compare_labels(outputs, unknown, None, per_step=False)["predicted"] is None
    assert prediction.compare_labels(outputs, unknown, y.float(), per_step=False)["predicted"] is None
    told = prediction.compare_labels(outputs, unknown, y, per_step=False)  # labels that are classes say so
    assert told["predicted"].tolist() == [1, 0, 1]
    logits = by_hand(VALUES, X, target, output="raw", columns=2, task="classification")
    assert prediction.compare_labels(outputs, logits, None, per_step=False)["predicted"].tolist() == [1, 0, 1]
    classes = by_hand(VALUES, X, target, columns=2, task="classification")
    compared = prediction.compare_labels(outputs, classes, y, per_step=False)
    assert compared["predicted"].tolist() == [1, 0, 1]
    assert compared["outcome"].tolist() == ["TP", "FN", "FP"]


def test_a_number_has_the_name_and_the_unit_that_somebody_gave():
    def plainly(explanation):
        return prediction.said_of(explanation, 0).text

    target, y = torch.zeros(SERIES, dtype=torch.int64), torch.tensor([101.3, 5.0, 7.0])
    known = {"output": "raw", "columns": 1, "task": "regression", "prediction": torch.tensor([99.6, 1.0, 2.0])}
    known["y"] = y
    found = by_hand(VALUES, X, target, classes=("length of stay [days]",), **known)
    assert plainly(found) == "length of stay is 99.6 days (true: 101 days)"
    assert found.describe(0).startswith("Length of stay is 99.6 days (true: 101 days), ")
    assert all(effect.endswith(" days") for effect in re.findall(r"\(([+−][^)]*)\)", found.describe(0)))
    assert " days)" in found.describe(0)
    bare = by_hand(VALUES, X, target, classes=("length of stay",), **known)
    assert bare.describe(0).startswith("Length of stay is 99.6 (true: 101), ")
    logits = by_hand(VALUES, X, target, classes=("ward [A]", "ward [B]"), output="raw", columns=2)
    assert plainly(logits) == "“ward [A]”"
    scored = replace(logits, prediction=torch.tensor([2.5, 1.0, 2.0]))
    assert plainly(scored) == "“ward [A]” is 2.5"  # a class has no unit


def test_a_page_follows_the_score_of_addresses_and_functions():
    found = addressed(2 * VARIABLES)
    header, _ = collect(forecast, {"hand": found}, range(SERIES), {})
    assert header["classes"][2 * VARIABLES] == "output 0 at step 2 of the forecast"
    seen, counts = np.ones(X.shape, dtype=bool), np.array([0, X[0].numel()])
    removed = prediction.removal_outputs(forecast, found, X, seen, counts)
    np.testing.assert_allclose(removed.score[:, 0], X.mean((1, 2)) + 20, rtol=1e-5)
    np.testing.assert_allclose(removed.score[:, -1], 20, rtol=1e-5)
    picked = by_hand(VALUES, X, output="raw", task="forecast", picker=lambda y: y[:, 2, 0])
    again = prediction.removal_outputs(forecast, picked, X, seen, counts)
    np.testing.assert_array_equal(again.score, removed.score)


def test_the_model_is_called_as_it_was_explained():
    """With several inputs, and for each series with what goes with it."""
    past, static, offset = X, randn(SERIES, 2, seed=5, dtype=torch.float32), torch.tensor([10.0, 20.0, 30.0])

    def model(past, static, offset):
        return (past.sum((1, 2)) * static[:, 0] + offset)[:, None]

    explanation = tg.explain(
        model, tg.Series({"past": past, "static": static}, fixed={"offset": offset}), "occlusion", output="raw"
    )
    expected = model(past, static, offset)
    for rows in (torch.arange(SERIES), torch.tensor([2, 0])):
        curve = tg.removal_curve(model, explanation[rows], k=1)
        torch.testing.assert_close(curve.predictions[:, 0], expected[rows])
    found = prediction.said_of(explanation, 2)
    assert found.output == pytest.approx(float(expected[2]), rel=1e-6)
    every = np.ones(explanation.values.shape, dtype=bool)
    seen = explanation.mask.numpy() if explanation.mask is not None else every
    removed = prediction.removal_outputs(
        model, explanation, explanation.x, seen, np.array([0, int(seen[0].sum())])
    )
    np.testing.assert_allclose(removed.score[:, 0], expected[:, 0], rtol=1e-5)
    np.testing.assert_allclose(removed.score[:, 1], offset, rtol=1e-5)
