"""What was said of model and series holds in every call that follows: weights, tasks, names, what was learnt."""

import pandas as pd
import pytest
import torch
from torch import nn

import tempograd as tg
from tests.helpers.models import series

X, FAST = series(6, 8, 2), tg.IntegratedGradients(4)


def flat(outputs: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, outputs)).eval()


@pytest.mark.parametrize("more", ["modules", "reset", "nothing"])
def test_weights_have_one_name_however_they_are_called(more):
    net = flat()
    extra = {"modules": {"modules": [net]}, "reset": {"reset": lambda: None}, "nothing": {}}[more]
    predictor = tg.Predictor(lambda z: net(z * 1), task="classification", **extra)
    assert tg.explain(predictor, X, method=FAST).fingerprint == tg.explain(net, X, method=FAST).fingerprint


def test_a_function_that_is_reset_computes_where_its_module_does():
    net = flat().double()
    predictor = tg.Predictor(lambda z: net(z * 1), task="classification", reset=lambda: None)
    assert bool(tg.explain(predictor, X, method=FAST).values.any())


def test_the_predictor_that_was_explained_is_evaluated():
    predictor = tg.Predictor(flat(1), task="classification")
    explanation = tg.explain(predictor, X, method=FAST)
    assert explanation.task == "binary"
    alone = tg.evaluate(predictor.model, explanation, metrics=["cpd"])["cpd"]
    assert torch.equal(tg.evaluate(predictor, explanation, metrics=["cpd"])["cpd"], alone)


def test_real_labels_do_not_say_that_raw_outputs_are_of_classes():
    with pytest.warns(tg.TempogradWarning, match="were read as scores of classes"):
        tg.explain(flat(), tg.Series(X, torch.randn(6)), output="raw", method=FAST)


@pytest.mark.parametrize("take", [tg.Series.take, lambda x, rows: tg.explain(flat(), x, method=FAST)[rows]])
def test_a_series_is_taken_once(take):
    with pytest.raises(tg.TempogradError, match="distinct"):
        take(tg.Series(X), [0, 0])


def test_names_of_labels_name_targets():
    explanation = tg.explain(flat(), tg.Series(X, ["a", "b", "c"] * 2), target="c", method=FAST)
    assert (explanation.classes, explanation.target.tolist()) == (("a", "b", "c"), [2] * 6)


def test_an_index_of_texts_names_series():
    assert tg.Series(X, ids=pd.Index(list("abcdef"))).ids == tuple("abcdef")


def test_none_is_the_default_number_of_samples():
    assert tg.Timing(n_samples=None) == tg.Timing()
    share = 0.3
    assert tg.Timing(40, share).held == share


def test_both_doors_learn_from_the_background_once():
    model, method = tg.MODELS["gru"](2, 3).eval(), tg.EXPLAINERS["fit"](epochs=1)
    direct = method(model, X, background=X + 1)
    assert torch.equal(direct.values, tg.explain(model, X, method, background=X + 1).values)
    fitted = tg.GradientShap().fit(model, X)
    kept = tg.explain(model, X, fitted, background=X + 5)
    assert torch.equal(kept.values, tg.explain(model, X, fitted).values)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.past, self.rest = nn.Linear(2, 3), nn.Linear(4, 3)

    def forward(self, x, static):
        return self.past(x.sum(1)) + self.rest(static)


@pytest.mark.parametrize("how", ["file", "slice", "join"])
def test_the_baseline_of_several_inputs_can_be_asked_for_again(tmp_path, how):
    torch.manual_seed(0)
    model, x = tg.Predictor(Two(), task="classification"), (torch.randn(4, 5, 2), torch.randn(4, 4))
    explanation = tg.explain(model, x, baseline=(torch.rand(4, 5, 2), torch.rand(4, 4)), method=FAST)
    again = {
        "file": lambda: tg.Explanation.load(explanation.save(tmp_path / "a.safetensors")),
        "slice": lambda: tg.Explanation.load(explanation.save(tmp_path / "a.safetensors"))[:2],
        "join": lambda: tg.concat([explanation[:2], explanation[2:]]),
    }[how]()
    repeated = tg.explain(model, again.series, baseline=again.question.baseline, method=FAST)
    torch.testing.assert_close(repeated.values, explanation.values[: len(again)], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_a_file_keeps_a_baseline_that_can_be_asked_again(tmp_path, dtype):
    baseline = torch.tensor([1, 2], dtype=dtype) / (1 if dtype == torch.int64 else 3)
    explanation = tg.explain(flat(), X, baseline=baseline.to(dtype), method=FAST)
    loaded = tg.Explanation.load(explanation.save(tmp_path / "a.safetensors"))
    assert torch.equal(loaded.question.baseline, baseline.to(X).expand_as(X))
    assert torch.equal(tg.explain(flat(), X, baseline=loaded.question.baseline, method=FAST).values, loaded.values)


def test_the_reason_of_a_refusal_is_the_right_one():
    x = X.clone()
    x[:, 0, 0] = torch.nan
    model = tg.Predictor(lambda z: z.nan_to_num().sum(1) @ torch.ones(2, 3), task="classification")
    with pytest.raises(tg.TempogradError, match="series without NaN"):
        tg.explain(model, tg.Series(x, mask="nan", fill=None), "dynamask")


def test_findings_of_an_outer_call_are_kept():
    class Inner(tg.Explainer):
        def attribute(self, ask):
            tg.explain(flat(), X, FAST)
            return FAST.attribute(ask)

    class Draws(nn.Module):
        def forward(self, z):
            return z.sum(1) + torch.randn(len(z), 2)

    with pytest.warns(tg.TempogradWarning, match="stochastic|classes"):
        explanation = Inner()(Draws(), X)
    assert "model.stochastic" in {finding.code for finding in explanation.findings}
