"""Explanations know what the model says about each series: the same number that the model itself gives."""

import pytest
import torch

import tempograd as tg
from tests.helpers.models import Risk, RunningMean, patients, random_series, series, smooth

TARGETED = [
    "timing",
    "integrated_gradients",
    "occlusion",
    "lime",
    "deep_lift",
    "random",
    "extremal_mask",
    "rand_ig",
]


@pytest.mark.parametrize("method", TARGETED)
def test_it_is_the_probability_of_the_explained_class(method):
    model, x = smooth(6, 2).float(), series(5, 6, 2)
    settings = {"epochs": 2} if method == "extremal_mask" else {}
    found = tg.explain(model, x, method, batch_size=2, **settings)
    expected = model(x).softmax(-1).gather(1, found.target[:, None])[:, 0]
    torch.testing.assert_close(found.prediction, expected.detach(), rtol=1e-5, atol=1e-6)


def test_of_one_logit_of_either_class_of_raw_outputs_and_of_functions():
    model, x = Risk(), patients()
    logit = model(x)[:, 0].detach()
    cases = {
        "class 1": tg.explain(model, x).prediction - logit.sigmoid(),
        "class 0": tg.explain(model, x, target=0).prediction - (1 - logit.sigmoid()),
        "raw": tg.explain(tg.Predictor(model, task="regression"), x, output="raw").prediction - logit,
        "label": tg.explain(tg.Predictor(model, task="multilabel"), x).prediction - logit.sigmoid(),
        "picked": tg.explain(model, x, target=lambda said: 3 * said[:, 0], output="raw").prediction - 3 * logit,
    }
    for name, rest in cases.items():
        assert float(rest.abs().max()) < 1e-5, name


def test_of_several_targets_each_has_its_own():
    model, x = smooth(6, 2).float(), series(3, 6, 2)
    found = tg.explain(model, x, targets=[0, 2])
    said = model(x).softmax(-1).detach()
    for target in (0, 2):
        torch.testing.assert_close(found[target].prediction, said[:, target], rtol=1e-5, atol=1e-6)


def test_over_steps_it_is_their_sum_and_for_each_by_itself_there_is_none():
    model, x = RunningMean(), random_series(3)
    found = tg.explain(model, x, target=1, steps=[4, 7])
    expected = model(x).softmax(-1)[:, [4, 7], 1].sum(1)
    torch.testing.assert_close(found.prediction, expected, rtol=1e-5, atol=1e-6)
    assert tg.explain(model, x, target=1, steps="own").prediction is None


def test_very_large_outputs_are_not_in_another_unit():
    x = patients()
    found = tg.explain(tg.Predictor(lambda z: 1e30 * Risk()(z), task="regression"), x, output="raw")
    torch.testing.assert_close(found.prediction, 1e30 * Risk()(x)[:, 0], rtol=1e-5, atol=0)


def test_a_model_that_draws_is_known_by_its_mean():
    def noisy(z):
        return Risk()(z) + torch.randn(len(z), 1)

    noisy.tempograd_task = "regression"
    found = tg.explain(noisy, patients(), "occlusion", draws=64)
    assert float((found.prediction - Risk()(patients())[:, 0]).abs().max()) < 5 / 64**0.5


def test_it_is_kept_in_files_and_in_parts(tmp_path):
    found = tg.explain(Risk(), tg.Series(patients(), ids=[3, 9]))
    again = tg.Explanation.load(found.save(tmp_path / "e.safetensors"))
    assert torch.equal(again.prediction, found.prediction)
    assert torch.equal(found[1].prediction, found.prediction[1:])
    assert torch.equal(tg.concat([found[1], found[0]]).prediction, found.prediction.flip(0))
