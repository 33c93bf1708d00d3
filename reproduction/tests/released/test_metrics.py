"""CPD and CPP as the paper's tables show them, against a loop over cells; areas over all series."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.explainers import Random
from tempograd.metrics import METRICS, evaluate
from tempograd_paper.released import released_metric
from tests.helpers.models import Recurrent, series

K = 5


def literal(model, x, scores, descending):
    """Remove one cell after the other; means over classes and steps, and the sum over the cells."""
    order = sorted(range(x.numel()), key=lambda cell: scores.flatten()[cell].abs(), reverse=descending)
    before, total = model(x[None]).softmax(-1), 0.0
    for cell in order[:K]:
        x = x.clone()
        x.view(-1)[cell] = 0
        after = model(x[None]).softmax(-1)
        total += float((after - before).abs().mean())
        before = after
    return total


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("name", ["cpd", "cpp"])
def test_the_released_scale_is_the_mean_over_classes(name, per_step):
    model, x = Recurrent(per_step=per_step).double().eval(), series(4, 6, 3, dtype=torch.float64)
    explanation = Random()(model, x)
    with torch.no_grad():
        expected = [literal(model, *pair, name == "cpd") for pair in zip(x, explanation.values, strict=True)]
    metric = released_metric(name, k=K)
    assert metric.higher_is_better == METRICS[name].higher_is_better
    found = evaluate(model, explanation, metrics=metric)
    torch.testing.assert_close(found[name], torch.tensor(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("k", "stay"), [(0.2, 4), (0.5, 9), (0.29, 6), (3, 3)])
def test_the_released_sufficiency_removes_a_whole_number_of_cells_and_keeps_the_rest(k, stay):
    """Of 18 cells and a share of 0.2 ⌊0.8 · 18⌋ = 14 go and 4 stay, not ⌊0.2 · 18⌋ = 3; a count is a count."""
    model, x = Recurrent().double().eval(), series(4, 6, 3, dtype=torch.float64)
    explanation = Random()(model, x)
    with torch.no_grad():
        whole, expected = model(x).softmax(-1), []
        for row, scores, target in zip(x, explanation.values, explanation.target, strict=True):
            kept = torch.zeros(18, dtype=torch.float64)
            best = scores.flatten().abs().argsort(descending=True)[:stay]
            kept[best] = row.flatten()[best]
            left = model(kept.view(1, 6, 3)).softmax(-1)
            expected.append(float(whole[len(expected), target] - left[0, target]))
    found = evaluate(model, explanation, metrics=released_metric("sufficiency", k=k))
    torch.testing.assert_close(
        found["sufficiency"].double(), torch.tensor(expected).double(), rtol=1e-5, atol=1e-6
    )


def test_two_classes_of_a_single_logit_move_alike():
    model, x = nn.Sequential(nn.Flatten(), nn.Linear(18, 1)), series(4, 6, 3)
    explanation = Random()(tg.Predictor(model, task="classification"), x)
    found, whole = (
        evaluate(model, explanation, metrics=[make(name) for name in ("cpd", "cpp")], k=4)
        for make in (released_metric, lambda name: METRICS[name]())
    )
    for name, scores in found.items():
        torch.testing.assert_close(scores, whole[name] / 2)


def test_settings_and_names_are_those_of_the_metric():
    assert released_metric("cpd", k=3, rank="signed").parameters == {"k": 3, "rank": "signed"}
    assert replace(released_metric("cpp"), name="other").name == "other"
    assert released_metric("aup").pooled
    assert released_metric("accuracy") == METRICS["accuracy"]()
