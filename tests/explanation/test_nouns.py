"""An explanation gives back what it was given: the series, the question, and what was found out."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import tempograd as tg
from tempograd.core.errors import DataError, Finding, arg
from tempograd.explanation.files import checksum
from tests.helpers.models import Recurrent, linear, series

X = series(4, 6, 2)
MASK = torch.rand(X.shape, generator=torch.Generator().manual_seed(1)) < 0.8
GAPS = X.masked_fill(~MASK, torch.nan)
STATIC = torch.linspace(-1, 1, 12).view(4, 3)
MODEL = linear(6, 2)
Y = torch.tensor([0, 1, 2, 0])


def of_two(past, static):
    return torch.stack([past.sum((1, 2)), static.sum(1)], 1)


def with_weight(x, weight, power):
    return torch.stack([x.sum((1, 2)) * weight, x.square().sum((1, 2)) ** power], 1)


def reads_gaps(x):
    return torch.stack([x.nansum((1, 2)), x.isnan().float().sum((1, 2))], 1)


def of_any_length(x):
    return torch.stack([x.sum((1, 2)), x.mean((1, 2))], 1)


NAMED = {"channels": ["pulse", "sodium"], "units": ["bpm", ""], "times": list("abcdef")}
ASKED = {
    "plain": (MODEL, tg.Series(X)),
    "all of it": (MODEL, tg.Series(X, Y, mask=MASK, raw=100 * X, ids=list("pqrs"), **NAMED)),
    "numbers": (
        MODEL,
        tg.Series(X, Y.float(), ids=[7, 3, 2**40, -1], times=[[f"{r}:{t}" for t in range(6)] for r in range(4)]),
    ),
    "labels of each step": (MODEL, tg.Series(X, Y[:, None].expand(4, 6))),
    "lengths": (of_any_length, tg.Series([X[0], X[1, :3], X[2, :5], X[3, :2]], Y, times=list("abcdef"))),
    "gaps": (MODEL, tg.Series(GAPS, mask="nan")),
    "gaps that the model reads": (reads_gaps, tg.Series(GAPS, mask="nan", fill=None)),
    "inputs": (
        of_two,
        tg.Series({"past": X, "static": STATIC}, mask={"past": MASK}, channels={"static": list("xyz")}),
    ),
    "inputs in order": (of_two, tg.Series((X, STATIC), ids=list("pqrs"))),
    "fixed": (with_weight, tg.Series(X, fixed={"weight": torch.arange(4.0), "power": 2})),
    "fixed in order": (with_weight, tg.Series(X, fixed=(torch.arange(4.0), 2))),
}


def explained(case, **options):
    model, asked = ASKED[case]
    return tg.explain(
        tg.Predictor(model, task="classification"), asked, "integrated_gradients", n_steps=3, **options
    )


def alike(one, other):
    """Tell whether two things hold the same, however deep."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one.nan_to_num(9e9), other.nan_to_num(9e9))
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and list(one) == list(other)
            and all(alike(one[key], other[key]) for key in one)
        )
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(alike, one, other))
    return type(one) is type(other) and one == other


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", ASKED)
def test_the_series_come_back_as_they_were_given(case, tmp_path):
    found, asked = explained(case), ASKED[case][1]
    loaded = tg.Explanation.load(found.save(tmp_path / "e"))
    for one in (found.series, loaded.series, tg.concat([found[:1], found[1:]]).series):
        assert alike(one.x, asked.filled if case == "gaps" else asked.x)
        for name in ("y", "ids", "fixed", "raw"):
            assert alike(getattr(one, name), getattr(asked, name)), name
        if not isinstance(asked.x, dict | tuple):
            assert all(alike(getattr(one, name), getattr(asked, name)) for name in ("channels", "units", "times"))
            assert alike(one.mask, asked.mask)
    for rows in ([2, 0], [1]):
        part, expected = found[rows].series, asked.take(rows)
        assert all(alike(getattr(part, name), getattr(expected, name)) for name in ("y", "ids", "fixed"))
        assert len(part) == len(rows)
    again = tg.explain(
        tg.Predictor(ASKED[case][0], task="classification"), loaded.series, "integrated_gradients", n_steps=3
    )
    assert torch.equal(again.values, found.values)
    assert again.labels == found.labels


def test_a_file_without_series_has_none(tmp_path):
    loaded = tg.Explanation.load(explained("all of it").save(tmp_path / "e", series=False))
    assert (loaded.series, loaded.y) == (None, None)
    assert loaded.names == tuple("pqrs")


def spread(output):
    """How far outputs are apart."""
    return output.amax(1) - output.amin(1)


QUESTIONS = {
    "nothing": {},
    "a number": {"target": 2, "output": "raw", "baseline": "average"},
    "a name": {"target": "mid"},
    "numbers": {"target": [2, 0, 1, 1], "baseline": 0.5},
    "an array": {"target": np.array([2, 0, 1, 1]), "baseline": X.flip(0)},
    "one baseline": {"baseline": X[:1] + 1},
    "words": {"target": tg.targets.difference(1, 0)},
}


@pytest.mark.parametrize("case", QUESTIONS)
def test_the_question_comes_back_as_it_was_asked(case, tmp_path):
    asked = QUESTIONS[case]
    found = tg.explain(
        tg.Predictor(MODEL, classes=["low", "mid", "high"]), X, "integrated_gradients", n_steps=3, **asked
    )
    path = found.save(tmp_path / "e")
    for one in (found, tg.Explanation.load(path)):
        assert isinstance(one.question, tg.Question)
        for name, value in vars(tg.Question(**asked)).items():
            plain = torch.as_tensor(value) if isinstance(value, np.ndarray) and one is not found else value
            plain = one.baseline if case == "one baseline" and name == "baseline" and one is not found else plain
            now = getattr(one.question, name)
            assert alike(now, plain), name
    with safe_open(path, "pt") as file:
        kept = [name for name in file.keys() if name.startswith("question")]  # noqa: SIM118
    assert kept == []  # numbers for each series are what the scores are of
    if case in {"numbers", "an array"}:
        assert found[[3, 1]].question.target.tolist() == [1, 0]
    if case == "an array":
        assert torch.equal(found[[3, 1]].question.baseline, X.flip(0)[[3, 1]])


def test_the_baseline_of_several_inputs_can_be_asked_for_again(tmp_path):
    class Two(nn.Module):
        def forward(self, past, age):
            return torch.stack([(past.sum((1, 2)) + age[:, 0]).square(), past[:, 0, 0] * age[:, 0]], 1)

    inputs = {"past": X, "age": X[:, 0, :1]}
    asked = {"past": X[:1] - 1, "age": 0.5}
    found = tg.explain(Two(), inputs, "integrated_gradients", n_steps=3, baseline=asked, target=0)
    loaded = tg.Explanation.load(found.save(tmp_path / "e"))
    baseline = loaded.question.baseline
    again = tg.explain(Two(), loaded.series, "integrated_gradients", n_steps=3, baseline=baseline, target=0)
    assert torch.equal(again.values, found.values)


def test_steps_functions_and_backgrounds(tmp_path):
    per_step = tg.explain(Recurrent(2, per_step=True).eval(), X, "integrated_gradients", steps=[1, 3], n_steps=3)
    picked = tg.explain(MODEL, X, "integrated_gradients", target=spread, n_steps=3)
    drawn = tg.explain(MODEL, X, n_samples=10, baseline="background", background=X + 1)
    back = [tg.Explanation.load(each.save(tmp_path / "e")) for each in (per_step, picked, drawn)]
    assert back[0].question.steps == per_step.question.steps == [1, 3]
    assert (picked.picker, back[1].picker) == (spread, None)
    assert picked.target_text == back[1].target_text == back[1].question.target == "How far outputs are apart"
    for each in (drawn, back[2]):
        assert each.question.baseline == each.baseline_kind == "background"
        assert each.question.background == each.background
        assert each.background.startswith("4 series:")


def test_parts_with_other_questions_say_what_each_series_was_asked():
    ours, theirs = (
        tg.explain(MODEL, tg.Series(X[rows], ids=rows), "integrated_gradients", n_steps=3, target=k, baseline=b)
        for rows, k, b in (([0, 1], 0, "zero"), ([2, 3], 2, 1.0))
    )
    joined = tg.concat([ours, theirs]).question
    assert joined.target.tolist() == [0, 0, 2, 2]
    assert joined.baseline[:, 0, 0].tolist() == [0, 0, 1, 1]
    assert tg.concat([ours[:1], ours[1:]]).question.target == 0


FOUND = (
    Finding(
        "model.task",
        "assumption",
        {"columns": 3},
        f"The outputs are scores of classes: pass {arg:predictor.task=regression}.",
    ),
    Finding("model.draws", "warning", {}, "The model draws."),
)


def test_findings_stay_and_assumptions_are_said(tmp_path):
    found = replace(explained("plain"), findings=FOUND)
    loaded = tg.Explanation.load(found.save(tmp_path / "e"))
    more = replace(found, findings=(*FOUND, Finding("x", "warning", {}, "One more.")))
    assert loaded.findings == found[1:].findings == FOUND
    assert tg.concat([found[:2], more[2:]]).findings == more.findings
    said = "the outputs are scores of classes"
    for each in (found, loaded):
        assert each.assumptions == (f"T{said[1:]}: pass tg.Predictor(model, task='regression').",)
        assert repr(each).endswith(f"\nAssumed: {said}")
        assert each.describe(0).endswith(f"; assumed: {said}")
    sure = tg.explain(MODEL, X, "integrated_gradients", n_steps=3, target=0, baseline="zero")
    assert sure.assumptions == ()
    assert "ssumed" not in repr(sure)


WRONG = {
    "question": (
        3,
        [],
        {"output": "logits"},
        {"background": 3},
        {"target": {"tensor": "nowhere"}},
        {"target": {"own": "x"}},
    ),
    "findings": (3, [3], [{"code": "a"}], [{"code": "a", "severity": "mild", "data": {}, "text": ""}]),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_what_nobody_wrote_is_refused(name, value, tmp_path):
    path = explained("plain").save(tmp_path / "e")
    with safe_open(path, "pt") as file:
        header, tensors = dict(file.metadata()), {each: file.get_tensor(each) for each in file.keys()}  # noqa: SIM118
    header["tempograd"] = json.dumps(json.loads(header["tempograd"]) | {name: value})
    save_file(tensors, tmp_path / "wrong", header | {"checksum": checksum(tensors, header)})
    with pytest.raises(DataError, match="is damaged"):
        tg.Explanation.load(tmp_path / "wrong")


def test_a_slice_is_not_verified_again(monkeypatch):
    found = explained("plain")
    monkeypatch.setattr(tg.Explanation, "verify", lambda self: pytest.fail("verified"))
    assert len(tg.concat([found[:2], found[2:]])) == 4


def test_parts_that_were_asked_alike_keep_the_question():
    forecast = tg.Predictor(lambda x: x.cumsum(1), task="forecast")
    parts = [
        tg.explain(forecast, tg.Series(X[rows], ids=rows), "integrated_gradients", n_steps=3, target=(2, 1))
        for rows in ([0, 1], [2, 3])
    ]
    assert tg.concat(parts).question.target == parts[0][1].question.target == (2, 1)
    mixed = replace(parts[1], question=tg.Question(target=torch.tensor([5, 5])))
    assert tg.concat([parts[0], mixed]).question.target.tolist() == [5, 5, 5, 5]
