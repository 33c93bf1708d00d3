"""The call itself: names and settings, how much is removed, and one sentence for every mistake."""

from dataclasses import replace
from functools import partial

import pytest
import torch

import tempograd as tg
from tempograd.core.errors import InputError, ModelError, SettingError, TempogradWarning, UnknownNameError
from tempograd.explainers import IntegratedGradients
from tempograd.explanation import Explanation
from tempograd.metrics import METRICS, evaluate, removal_curve
from tests.helpers.literal_metrics import Net, by_hand, randn

HIGHER = {"cpd", "prediction_difference", "cross_entropy", "comprehensiveness", "aup", "aur", "auroc", "auprc"}
HIGHER |= {"information"}
LOWER = {"cpp", "accuracy", "log_odds", "sufficiency", "entropy"}


def problem():
    model = Net().double()
    x = randn(4, 5, 2)
    return model, by_hand(randn(4, 5, 2, seed=1), x, model(x).argmax(-1))


def test_the_registry_knows_every_metric_and_its_direction():
    assert set(METRICS) == HIGHER | LOWER
    assert {name for name, kind in METRICS.items() if kind.higher_is_better} == HIGHER
    assert all(METRICS[name]().name == name for name in METRICS)


def test_metrics_are_reported_under_their_names_in_the_order_asked():
    model, explanation = problem()
    large = METRICS["cpd"](k=7, rank="signed", name="cpd7")
    scores = evaluate(model, explanation, metrics=["cpp", large, "cpd"], k=2)
    assert list(scores) == ["cpp", "cpd7", "cpd"]
    alone = evaluate(model, explanation, metrics=METRICS["cpd"](rank="signed"), k=7)["cpd"]
    torch.testing.assert_close(scores["cpd7"], alone)
    assert torch.equal(scores["cpd"], evaluate(model, explanation, metrics="cpd", k=2)["cpd"])
    assert large.parameters == {"k": 7, "rank": "signed"}


@pytest.mark.parametrize(
    ("share", "cells", "count"),
    [(0.1, 30, 3), (0.29, 100, 29), (0.7, 10, 7), (0.1, 19, 1), (0.1, 5, 1), (1.0, 8, 8), (0.1, 1536, 153)],
)
def test_a_share_is_rounded_down_to_at_least_one_cell(share, cells, count):
    x = torch.ones(1, cells, 1)
    explanation = by_hand(randn(1, cells, 1), x, torch.tensor([0]), output="raw")
    total = lambda z: z.sum(1)  # noqa: E731
    assert evaluate(total, explanation, metrics="cpd", k=share)["cpd"].item() == count


def test_a_series_with_fewer_observed_cells_loses_all_it_has():
    x = torch.ones(3, 4, 1)
    mask = torch.tensor([[1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0]]).bool()[..., None]
    explanation = by_hand(randn(3, 4, 1), x, torch.zeros(3, dtype=torch.int64), mask, output="raw")
    total = lambda z: z.sum(1)  # noqa: E731
    names = ["cpd", "cpp", "comprehensiveness", "sufficiency"]
    scores = evaluate(total, explanation, metrics=names, k=3)
    assert {name: scores[name].tolist() for name in names} == {
        "cpd": [3, 2, 0],
        "cpp": [3, 2, 0],
        "comprehensiveness": [3, 2, 0],
        "sufficiency": [1, 0, 0],
    }
    assert evaluate(total, explanation, metrics="cpd", k=0.5)["cpd"].tolist() == [2, 1, 0]
    assert removal_curve(total, explanation, k=3).score.tolist() == [[4, 3, 2, 1], [4, 3, 2, 2], [4, 4, 4, 4]]
    nothing = evaluate(total, explanation[2:], metrics=names, k=3)
    assert {name: nothing[name].tolist() for name in names} == {name: [0.0] for name in names}


def test_a_series_without_explained_steps_has_no_score():
    model = Net(per_step=True).double()
    x = randn(2, 5, 2)
    steps = torch.tensor([[False] * 5, [True] * 5])
    explanation = by_hand(randn(2, 5, 2, seed=1), x, model(x).argmax(-1), steps=steps)
    scores = evaluate(model, explanation, metrics=["cpd", "accuracy"], k=2)
    assert scores["cpd"].isnan().tolist() == scores["accuracy"].isnan().tolist() == [True, False]


@pytest.mark.parametrize("k", [0, 0.0, 1.5, -1, True, "2", float("nan")])
def test_k_is_a_count_or_a_share(k):
    model, explanation = problem()
    sentences, about = set(), (model, explanation)
    for call in (METRICS["cpd"], partial(evaluate, *about), partial(removal_curve, *about)):
        with pytest.raises(InputError) as caught:
            call(k=k)
        sentences.add(str(caught.value))
    (one,) = sentences
    assert "\n" not in one


def test_k_cannot_exceed_the_cells_of_a_series():
    model, explanation = problem()
    assert evaluate(model, explanation, k=10)["cpd"].min() > 0
    with pytest.raises(InputError):
        evaluate(model, explanation, k=11)


def test_wrong_metrics_are_refused():
    model, explanation = problem()
    with pytest.raises(UnknownNameError):
        evaluate(model, explanation, metrics=["cpq"])
    with pytest.raises(InputError):
        evaluate(model, explanation, metrics=["cpd", METRICS["cpd"](k=3)])
    with pytest.raises(InputError):
        evaluate(model, explanation, metrics=[METRICS["cpd"]])
    assert evaluate(model, explanation, metrics=[]) == {}


def test_wrong_settings_are_refused():
    with pytest.raises(SettingError):
        METRICS["auroc"](rank="size")
    with pytest.raises(SettingError):
        METRICS["accuracy"](threshold=50)
    model, explanation = problem()
    with pytest.raises(SettingError):
        removal_curve(model, explanation, rank="size")
    with pytest.raises(InputError):
        evaluate(model, explanation, baseline="mean")
    with pytest.raises(InputError):
        evaluate(model, explanation, batch_size=0)


def test_series_left_out_of_the_file_must_be_put_back(tmp_path):
    model, x = Net(), randn(4, 5, 2, dtype=torch.float32)
    whole = IntegratedGradients(n_steps=3)(model, x)
    bare = Explanation.load(whole.save(tmp_path / "e.safetensors", series=False))
    with pytest.raises(InputError):
        evaluate(model, bare)
    assert torch.equal(evaluate(model, replace(bare, x=x))["cpd"], evaluate(model, whole)["cpd"])
    with pytest.raises(InputError):
        evaluate(None, bare, metrics="aup", truth=torch.zeros(4, 6, 2))


def test_an_explanation_without_ranks_is_refused():
    model, explanation = problem()
    values = explanation.values.clone()
    values[1, 2, 0] = torch.nan
    broken = by_hand(values, explanation.x, explanation.target)
    with pytest.raises(InputError):
        evaluate(model, broken)


def test_a_model_other_than_the_explained_one_is_refused():
    model, explanation = problem()
    per_step = Net(per_step=True).double()
    steps = by_hand(explanation.values, explanation.x, per_step(explanation.x).argmax(-1), steps="own")
    with pytest.raises(ModelError):
        evaluate(model, steps)
    high = by_hand(explanation.values, explanation.x, torch.full((4,), 3))
    with pytest.raises(ModelError):
        evaluate(model, high)
    with pytest.raises(ModelError):
        evaluate(lambda z: per_step(z)[:, :2], explanation)
    both = by_hand(explanation.values, explanation.x, torch.zeros(4, 5, dtype=torch.int64))
    with pytest.raises(ModelError):
        evaluate(model, both)


def test_a_model_with_other_weights_gives_one_warning_at_the_callers_line():
    model, other = Net(), Net()
    with torch.no_grad():
        next(other.parameters()).add_(1)
    explanation = IntegratedGradients(n_steps=3)(model, randn(4, 5, 2, dtype=torch.float32))
    assert evaluate(model, explanation)["cpd"].shape == (4,)
    for call in (evaluate, removal_curve):
        with pytest.warns(
            TempogradWarning, match=r"integrated_gradients explained another model \(Net:.*"
        ) as caught:
            call(other, explanation)
        assert [warning.filename for warning in caught] == [__file__]


def test_metrics_that_never_ask_the_model_do_not_mind_which_it_is():
    explanation = IntegratedGradients(n_steps=3)(Net(), randn(4, 5, 2, dtype=torch.float32))
    truth = explanation.values.abs() >= explanation.values.abs().amax((1, 2), keepdim=True)
    assert evaluate(torch.nn.Identity(), explanation, metrics="auroc", truth=truth)["auroc"].tolist() == [1] * 4


def test_a_model_that_breaks_on_a_removed_cell_is_reported():
    x = torch.ones(2, 3, 1)
    explanation = by_hand(randn(2, 3, 1), x, torch.zeros(2, dtype=torch.int64))
    with pytest.raises(ModelError):
        evaluate(lambda z: torch.cat([1 / z.prod(1), z.sum(1)], 1), explanation)


def test_one_target_per_series_serves_every_step():
    model = Net(per_step=True).double()
    x, values = randn(4, 5, 2), randn(4, 5, 2, seed=1)
    target = torch.tensor([0, 2, 1, 1])
    one = by_hand(values, x, target, steps="own")
    each = by_hand(values, x, target[:, None].expand(4, 5), steps="own")
    names = ["comprehensiveness", "cross_entropy"]
    first, second = (evaluate(model, e, metrics=names, k=3) for e in (one, each))
    for name in names:
        assert torch.equal(first[name], second[name])


def test_a_model_that_reads_nan_is_scored_with_nan_where_it_was_explained():
    def model(x):  # NaN decides more than the values do
        return torch.stack([x.nansum((1, 2)), 3 * x.isnan().float().sum((1, 2))], 1)

    x = torch.randn(4, 6, 2, generator=torch.Generator().manual_seed(0))
    x[:, 1:4, 0] = torch.nan
    predictor = tg.Predictor(model, task="classification")
    explanation = tg.explain(predictor, tg.Series(x, mask="nan", fill=None), "integrated_gradients", n_steps=3)
    curve = tg.removal_curve(predictor, explanation)
    assert torch.allclose(curve.predictions[:, 0], model(x).softmax(1))
