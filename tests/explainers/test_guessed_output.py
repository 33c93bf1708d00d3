"""What was guessed about the output is denied where its values deny it, and never for an ordinary classifier."""

import math
import warnings

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.engine.guesses import objection
from tempograd.models import build
from tests.helpers.models import Recurrent, linear, series

X = series(12, 10, 2)


class Says(nn.Module):
    """A model whose answers are a linear map of the series, then whatever a function makes of it."""

    def __init__(self, outputs, finish=lambda y: y, seed=0):
        super().__init__()
        self.map, self.finish = linear(10, 2, outputs, seed), finish

    def forward(self, x):
        return self.finish(self.map(x))


def horizon(count, level=0.0, spread=1.0, moved=0.2):
    """Forecasts: a level per series, and little from step to step of the horizon."""
    return Says(1 + count, lambda y: level + spread * y[:, :1] + moved * y[:, 1:].cumsum(1))


class Rebuilds(nn.Module):
    def forward(self, x):
        return x + 0.1 * x.flip(1)


LABELS = torch.tensor([-4.0, -3.1, -5.2, -3.6, -4.4, -2.9, -3.8, -4.1, -3.3, -4.7])

WRONG = {
    "regression near 150": (
        Says(1, lambda y: 150 + 5 * y),
        "one output is 14.* to 15.*, where its sigmoid is flat",
    ),
    "regression near -60": (Says(1, lambda y: 5 * y - 60), "one output is -6.* to -.*, where its sigmoid is flat"),
    "flat answers": (Says(1, lambda y: 150 + 5 * y[:, 0]), "where its sigmoid is flat"),
    "a sigmoid": (Says(1, torch.sigmoid), "one output lies between 0 and 1, as that of a sigmoid does"),
    "a sigmoid, squeezed": (Says(1, lambda y: y.sigmoid().squeeze(-1)), "one output lies between 0 and 1"),
    "several sigmoids": (
        Says(4, torch.sigmoid),
        "between 0 and 1 and do not sum to 1.*softmax over all 4 of them",
    ),
    "heads with a sigmoid each": (
        Says(2, lambda y: torch.stack([y[:, 0].sigmoid(), y[:, 1].sigmoid()], 1)),
        "do not sum to 1",
    ),
    "sigmoids that leave torch": (
        Says(3, lambda y: torch.from_numpy((8 * y).sigmoid().detach().numpy().copy())),
        "do not sum to 1",
    ),
    "two steps near 150": (horizon(2, level=150), "2 outputs are far from 0, on the scale of data"),
    "forecast near 20": (
        horizon(6, level=20),
        "6 outputs lie on one side of 0 together.*largest taken for the pred",
    ),
    "standardised walks": (
        horizon(8),
        "8 outputs (rise and fall|lie on one side of 0) together, as those of a forecast or of several labels",
    ),
    "sales in thousands": (Says(3, lambda y: 5000 * y), "on the scale of data and not of logits"),
    "a season": (
        Says(1, lambda y: torch.sin(2 * math.pi * torch.arange(24) / 12 + 3 * y)),
        "24 outputs change little from one to the next",
    ),
    "rare labels": (Says(10, lambda y: LABELS + 0.3 * y), "10 outputs lie on one side of 0 together"),
    "several labels": (
        Says(3, lambda y: 6 * y.sign() * torch.tensor([1.0, 1.0, 0.9])),
        "3 outputs are large together in some series and all small in others, as those of several labels are",
    ),
    "an autoencoder": (Rebuilds(), "2 per step, are close to the series themselves"),
    "quantiles per step": (
        lambda z: 3 * z[..., :1] + 20 + torch.linspace(-1, 1, 5),
        "5 outputs lie on one side of 0 together",
    ),
}


def explained(model, **options):
    return tg.explain(model, X, "occlusion", **options)


@pytest.mark.parametrize("case", WRONG)
def test_a_guess_that_the_values_deny_is_warned_of(case):
    model, message = WRONG[case]
    with pytest.warns(tg.TempogradWarning, match=message) as caught:
        explained(model)
    (warning,) = caught
    said = str(warning.message)
    assert "pass t" in said
    assert "task='" in said
    assert "output='raw'" in said
    assert "or task='classification' if" in said
    assert said.count(". ") == 0
    explained(model, output="probability")  # chosen, and so no guess
    explained(model, output="raw")


def test_the_sentence_reaches_gradient_methods_too():
    with pytest.warns(tg.TempogradWarning, match="where its sigmoid is flat"):
        tg.explain(Says(1, lambda y: 150 + y), X, n_samples=10)
    with pytest.warns(tg.TempogradWarning, match="(rise and fall|on one side of 0) together"):
        tg.IntegratedGradients(n_steps=4)(horizon(8), X, batch_size=8)


def slow(number):
    return pytest.param(number, marks=pytest.mark.slow)


def fresh(kind, classes, seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if kind == "recurrent":
            return Recurrent(2, classes)
        return build(kind, channels=2, classes=classes, per_step=False)


@pytest.mark.parametrize("kind", ["gru", "cnn", "transformer", "recurrent"])
@pytest.mark.parametrize("classes", [1, 2, 3, slow(5), slow(9), 20])
def test_fresh_classifiers_are_not_suspected(kind, classes):
    for seed in range(3):
        model = fresh(kind, classes, seed)
        for x in (X, X[:1], 10 * X, X + 3):
            tg.explain(model, x, "random")  # any warning is an error here
            assert objection(model.eval()(x).detach(), x) is None  # and nothing depends on what it declares


@pytest.mark.parametrize("classes", [2, 3, slow(4), 7, slow(12), 20])
@pytest.mark.parametrize("size", [0.01, 1.0, 5.0])
def test_logits_of_any_usual_size_are_not_suspected(classes, size):
    """Fresh heads in the worst case: all series alike, so that a row is one draw."""
    generator = torch.Generator().manual_seed(classes)
    one = size * torch.randn(400, 1, classes, generator=generator)
    alike = one + 0.01 * size * torch.randn(400, 12, classes, generator=generator)
    suspected = sum(objection(rows, X) is not None for rows in alike)
    assert suspected <= 1  # 1 in 10,000 by chance, and each kind of evidence has its own


def test_trained_classifiers_are_not_suspected():
    """Confident, imbalanced, and with the common drift that an adaptive optimiser leaves."""
    generator = torch.Generator().manual_seed(0)
    for classes in (2, 5, 20):
        shown = torch.randint(0, classes, (12,), generator=generator)
        confident = torch.randn(12, classes, generator=generator) + 12 * nn.functional.one_hot(shown, classes)
        imbalanced = torch.randn(12, classes, generator=generator) - 2 + 8 * (torch.arange(classes) == 0)
        for logits in (
            confident,
            confident - confident.mean(1, keepdim=True),
            imbalanced,
            confident.log_softmax(-1),
        ):
            assert objection(logits, X) is None
        uniform = (0.1 * torch.randn(12, classes, generator=generator)).log_softmax(-1)  # logarithms: all below 0
        assert objection(uniform, X) is None


def test_one_logit_of_usual_size_is_not_suspected():
    models = [Says(1, lambda y, scale=scale: scale * y) for scale in (0.1, 1, 5, 10)]
    for model in (*models, Says(1, lambda y: 0.3 + 0.05 * y)):  # the last happens to lie between 0 and 1
        assert objection(model(X).detach(), X) is None
        with pytest.warns(tg.TempogradWarning, match="was taken for a logit of class 1"):
            tg.explain(model, X, "random")


def test_bundled_data_and_models_are_not_suspected():
    for name, per_step in (("state", True), ("switch_feature", True)):
        data = tg.load_dataset(name)
        x = data.test.x[:20]
        model = build("gru", channels=3, classes=data.classes, per_step=per_step)
        tg.explain(model, x, "random")
        assert objection(model(x).detach(), x) is None


def test_a_regression_that_cannot_be_told_is_said_in_words():
    found = tg.explain(Says(1), X, "random", task="classification")
    assert "output='probability' (sigmoid of 1 output)" in repr(found)
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
    with pytest.warns(tg.TempogradWarning, match="cpd and cpp count the change of all 4 outputs.*of='score'"):
        tg.evaluate(model, found)
    with pytest.warns(tg.TempogradWarning, match="cpp counts the change of all 4 outputs"):
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
