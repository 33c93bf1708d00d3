"""Explanations of batches joined into one, and those of several inputs in files and metrics."""

import re
from dataclasses import dataclass, field, fields

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.explainers import base
from tempograd.explanation.record import ALIKE
from tests.helpers.models import smooth

X = torch.from_numpy(np.random.default_rng(0).normal(size=(6, 5, 2)))
STATIC = torch.from_numpy(np.random.default_rng(1).normal(size=(6, 3)))
WEIGHT = torch.arange(1, 7)


RAMP, SLOPE = torch.linspace(-0.3, 0.5, 10).double().view(5, 2), torch.tensor([0.4, -0.2, 0.11]).double()


def weighed(past, static, weight, words=None):
    inner = (past * RAMP).sum((1, 2)) + static @ SLOPE
    return torch.stack([past.sum((1, 2)).tanh() * static.sum(1), inner.tanh() * weight], 1)


def explained(rows, method="timing", series=None, **options):
    fixed = {"weight": WEIGHT[rows], "words": [f"w{i}" for i in range(6)][rows]}
    told = {"ids": torch.arange(6)[rows], "fixed": fixed} | (series or {})
    x = tg.Series({"past": X[rows], "static": STATIC[rows]}, **told)
    return tg.explain(weighed, x, method, target=1, output="raw", **options)


TENSORS = (
    "values",
    "standard_error",
    "n_draws",
    "ess",
    "n_evals",
    "delta",
    "target",
    "x",
    "baseline",
    "mask",
    "ids",
)


def assert_same(one, other):
    for name in TENSORS:
        torch.testing.assert_close(getattr(one, name), getattr(other, name), atol=1e-6, rtol=1e-5)
    assert one.names == other.names
    assert one.times == other.times
    assert one.verdict() == other.verdict()


@pytest.mark.parametrize("tolerance", [None, 0.2])
def test_parts_are_as_one_call(tolerance):
    whole = explained(slice(None), tolerance=tolerance)
    parts = [explained(slice(a, b), tolerance=tolerance) for a, b in ((0, 1), (1, 4), (4, 6))]
    joined = tg.concat(parts)
    assert_same(joined, whole)
    torch.testing.assert_close(joined.gradient_check.found, whole.gradient_check.found)
    scores = tg.evaluate(weighed, joined, metrics=["cpd"], of="score", k=4)["cpd"]
    torch.testing.assert_close(scores, tg.evaluate(weighed, whole, metrics=["cpd"], of="score", k=4)["cpd"])


def test_names_times_and_masks_of_parts():
    model = smooth(5, 2)
    masked = torch.ones(3, 5, 2, dtype=torch.bool)
    masked[1, 4] = False
    first = tg.explain(model, tg.Series(X[:3], mask=masked, ids=list("abc"), times=range(5)), "occlusion")
    second = tg.explain(
        model,
        tg.Series(X[3:], ids=[3, 4, 5], times=[[10 * i + t for t in range(5)] for i in range(3)]),
        "occlusion",
    )
    joined = tg.concat([first, second])
    assert torch.equal(joined.mask, torch.cat([masked, torch.ones_like(masked)]))
    assert joined.names == ("a", "b", "c", "3", "4", "5")
    assert joined.times_of(0) == ("0", "1", "2", "3", "4")
    assert joined.times_of(5) == ("20", "21", "22", "23", "24")


def test_ids_that_repeat_need_new_ones():
    parts = [explained(slice(i, i + 1), series={"ids": [0]}) for i in range(3)]
    with pytest.raises(tg.TempogradError):
        tg.concat(parts)


OTHERS = {
    "another method": lambda: explained(slice(1, 2), "occlusion"),
    "another setting": lambda: explained(slice(1, 2), n_samples=7),
    "another seed": lambda: explained(slice(1, 2), seed=3),
    "other fixed inputs": lambda: explained(slice(1, 2), series={"fixed": {"weight": WEIGHT[:1]}}),
    "one input": lambda: tg.explain(
        lambda z: z[:, 0], tg.Series(torch.ones(1, 6, 5).double(), ids=[1]), output="raw", target=1
    ),
    "no explanation": lambda: "E.safetensors",
}


@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.filterwarnings("ignore:.*is active in only")
def test_parts_that_do_not_belong_together(case):
    with pytest.raises(tg.TempogradError):
        tg.concat([explained(slice(0, 1)), OTHERS[case]()])


@dataclass(frozen=True, eq=False)
class Floored(tg.Explanation):
    """With one more field."""

    floor: float = field(default=0.0, metadata=ALIKE)


def test_every_field_says_what_it_is():
    kinds = {"cell", "series", "alike", "call"}
    assert [each.name for each in fields(tg.Explanation) if each.metadata.get("per") not in kinds] == []
    heads = re.findall(r"^    (\w[\w, ]*) : ", tg.Explanation.__doc__, re.MULTILINE)
    told = {name for head in heads for name in head.split(", ")}
    assert {each.name for each in fields(tg.Explanation)} - told == set()


def test_every_field_is_filled_by_a_call(monkeypatch):
    filled = []
    monkeypatch.setattr(base, "Explanation", lambda **content: filled.extend(content) or tg.Explanation(**content))
    explained(slice(None), "timing")
    assert {each.name for each in fields(tg.Explanation)} - {*filled} == {"version"}


def test_a_new_field_is_joined_and_written_as_it_says(tmp_path):
    given = [explained(slice(a, a + 1), "occlusion") for a in (0, 1)]
    told = [{each.name: getattr(part, each.name) for each in fields(part)} for part in given]
    low, high = Floored(**told[0], floor=0.1), Floored(**told[1], floor=0.2)
    with pytest.raises(tg.TempogradError, match=r"^Part 1 differs from part 0 in floor \(0\.2 and 0\.1\)"):
        tg.concat([low, high])
    assert tg.concat([low, Floored(**told[1], floor=0.1)]).floor == 0.1
    assert Floored.load(high.save(tmp_path / "e")).floor == 0.2


def test_nothing_to_join():
    with pytest.raises(tg.TempogradError):
        tg.concat([])


def test_several_inputs_survive_a_file(tmp_path):
    found = explained(slice(None), series={"channels": {"static": ["age", "sex", "weight"]}})
    read = tg.Explanation.load(found.save(tmp_path / "E.safetensors"))
    assert_same(read, found)
    assert read.inputs == ("past", "static")
    assert read["static"].channels == ("age", "sex", "weight")
    assert torch.equal(read["static"].x, STATIC)
    assert torch.equal(read.call.fixed["weight"], WEIGHT)
    assert read.call.fixed["words"] == [f"w{i}" for i in range(6)]
    for metrics in (["cpd", "comprehensiveness"], ["prediction_difference"]):
        ours, theirs = (
            tg.evaluate(weighed, each, metrics=metrics, of="score", k=5) for each in (read[2:4], found[2:4])
        )
        assert all(torch.equal(ours[name], theirs[name]) for name in metrics)


def test_metrics_of_several_inputs_are_those_of_a_loop():
    """Cells of all inputs go one by one, the strongest first, and the score is read after each."""
    found = explained(slice(None), "occlusion")
    scores = tg.evaluate(weighed, found, metrics=["cpd", "comprehensiveness"], of="score", k=6)
    for i in range(6):
        past, static = X[i : i + 1].clone(), STATIC[i : i + 1].clone()
        cells = [("past", t, d) for t in range(5) for d in range(2)] + [("static", v) for v in range(3)]
        size = {c: float(found[c[0]].values[(i, *c[1:])].abs()) for c in cells}
        order = sorted(cells, key=lambda c: -size[c])
        assert len({size[c] for c in order[:7]}) == 7  # no ties among those that go
        score = [float(weighed(past, static, WEIGHT[i])[0, 1])]
        for name, *place in order[:6]:
            {"past": past, "static": static}[name][(0, *place)] = 0
            score.append(float(weighed(past, static, WEIGHT[i])[0, 1]))
        steps = np.abs(np.diff(score)).sum()
        assert float(scores["cpd"][i]) == pytest.approx(steps, abs=1e-5)
        assert float(scores["comprehensiveness"][i]) == pytest.approx(score[0] - score[-1], abs=1e-5)


def test_removed_cells_may_become_something_of_each_input():
    found = explained(slice(None), "occlusion")
    everything = {"past": 0.5, "static": STATIC.mean(0)}
    removed = tg.evaluate(weighed, found, metrics=["comprehensiveness"], baseline=everything, of="score", k=13)
    with torch.no_grad():
        left = weighed(torch.full_like(X, 0.5), STATIC.mean(0).expand(6, 3), WEIGHT)[:, 1]
        expected = weighed(X, STATIC, WEIGHT)[:, 1] - left
    torch.testing.assert_close(removed["comprehensiveness"].double(), expected, atol=1e-5, rtol=0)


@pytest.mark.filterwarnings("ignore:The series have . different lengths")
def test_unequal_series_are_joined_where_their_longest_are_alike():
    rows = [X[:1].repeat(1, 2, 1)[0, :length].float() * length for length in (7, 4, 7, 5, 6)]

    def explained(part):
        x = tg.Series(rows[part], ids=range(5)[part], raw=[2 * row for row in rows[part]])
        return tg.explain(lambda x: x.sum((1, 2)).tanh(), x, n_samples=5, output="raw")

    whole = explained(slice(None))
    joined = tg.concat([explained(slice(0, 2)), explained(slice(2, 4))])
    assert_same(joined, whole[:4])
    assert [part.shape for part in joined.series.x] == [part.shape for part in rows[:4]]
    with pytest.raises(tg.TempogradError, match="steps and channels"):
        tg.concat([joined, explained(slice(4, 5))])
