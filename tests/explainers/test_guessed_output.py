"""What was assumed about the output is said."""

import warnings

import pytest
import torch
from torch import nn

import tempograd as tg
from tests.helpers.models import linear, series

X = series(12, 10, 2)


class Says(nn.Module):
    """A model whose answers are a linear map of the series, then whatever a function makes of it."""

    def __init__(self, outputs, finish=lambda y: y, seed=0):
        super().__init__()
        self.map, self.finish = linear(10, 2, outputs, seed), finish

    def forward(self, x):
        return self.finish(self.map(x))


def explained(model, **options):
    return tg.explain(model, X, "occlusion", **options)


def test_a_regression_that_cannot_be_told_is_said_in_words():
    found = tg.explain(tg.Predictor(Says(1), task="classification"), X, "random")
    assert "output='probability' (a sigmoid of the one output)" in repr(found)
    assert "(softmax over 3 outputs)" in repr(tg.explain(Says(3), X, "random"))
    assert "output='raw', baseline" in repr(tg.explain(Says(3), X, "random", output="raw"))
    assert found.output == "probability"
    assert type(found.output) is str


def test_words_survive_a_file(tmp_path):
    found = tg.explain(Says(3), X, "random")
    assert repr(tg.Explanation.load(found.save(tmp_path / "e.safetensors"))) == repr(found)


def test_cpd_of_one_raw_output_says_that_it_counts_all():
    model = Says(4)
    found = explained(model, output="raw", target=2)
    with pytest.warns(tg.TempogradWarning, match="cpd and cpp count all 4 outputs.*of='score'"):
        tg.evaluate(model, found)
    with pytest.warns(tg.TempogradWarning, match="cpp count all 4 outputs"):
        tg.evaluate(model, found, metrics="cpp")
    tg.evaluate(model, found, metrics=["prediction_difference", "comprehensiveness"])
    tg.evaluate(model, explained(model))
    tg.evaluate(Says(1), explained(Says(1), output="raw"))
    softmax = Says(4, lambda y: y.softmax(-1))
    tg.evaluate(softmax, explained(softmax, output="raw"))


def test_the_warned_metric_follows_the_explained_output_alone():
    model, alone = Says(4), None
    found = explained(model, output="raw", target=2)
    alone = Says(4, lambda y: y[:, 2:3])
    same = explained(alone, output="raw")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tg.TempogradWarning)
        of_all = tg.evaluate(model, found, metrics=["cpd", "prediction_difference"], k=3)
        of_one = tg.evaluate(alone, same, metrics=["cpd", "prediction_difference"], k=3)
    assert torch.allclose(of_all["prediction_difference"], of_one["prediction_difference"], atol=1e-6)
    assert bool((of_all["cpd"] > of_one["cpd"] + 1e-3).all())
