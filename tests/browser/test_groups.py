"""Groups of series in the page: blocks, differences and the pictures of values equal the library's."""

import json
import math
import re

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd.views.blocks import compare_groups
from tempograd.views.value_effects import value_effect

pytestmark = pytest.mark.browser

CLOSE = {"rel": 2e-4, "abs": 1e-7}  # quantiles of Student's t are between those of a table


def rows_of(case, key):
    """Return the series of a group, by what the model says and what is true."""
    chance = case.answer(case.x)
    said, label = chance.argmax(-1), case.split.y
    kind, _, which = key.partition(":")
    if kind == "outcome":
        pairs = {"TP": (1, 1), "FP": (1, 0), "TN": (0, 0), "FN": (0, 1)}
        return ((said == pairs[which][0]) & (label == pairs[which][1])).nonzero().flatten()
    if kind in {"predicted", "label"}:
        return ((said if kind == "predicted" else label) == int(which)).nonzero().flatten()
    order = (-chance[:, 1]).argsort(stable=True)
    quarter = len(order) // 4
    return {"high": order[:quarter], "low": order[-quarter:], "all": torch.arange(len(order))}[kind]


def test_blocks_are_those_of_the_library(visit):
    sheet = visit("ward_round").view("summary").unfold()
    case = sheet.case
    methods = ("timing", "random", "integrated_gradients", "timing", "random")
    keys = ("all", "outcome:FP", "label:1", "predicted:0", "high")
    for key, method in zip(keys, methods, strict=True):
        rows = rows_of(case, key)
        sheet.set("group-a", key)
        assert sheet.text("#summary-count") == f"{len(rows)} series"
        sheet.by(method, "summary-method")
        blocks = case.explanations[method].blocks(rows)
        cells = sheet.rows("#blocks-table td[data-block]")
        assert len(cells) == 20 * 8
        assert sheet.page.eval_on_selector_all(
            "#blocks-table thead th", "all => all.slice(1).map(e => e.textContent)"
        ) == list(blocks.times)
        for cell in cells:
            place = int(cell["channel"]), int(cell["block"])
            for name in ("mean", "low", "high"):
                assert float(cell[name]) == pytest.approx(float(getattr(blocks, name)[place]), **CLOSE)


def test_blocks_by_a_plain_loop(visit):
    sheet = visit("ward_round").view("summary").unfold()
    sheet.set("group-a", "outcome:TP")
    case, rows = sheet.case, rows_of(sheet.case, "outcome:TP").tolist()
    for cell in sheet.rows("#blocks-table td[data-block]")[:40]:
        d, b = int(cell["channel"]), int(cell["block"])
        sums = [sum(float(case.first.values[i, t, d]) for t in range(6 * b, 6 * b + 6)) for i in rows]
        assert float(cell["mean"]) == pytest.approx(sum(sums) / len(sums), rel=1e-4, abs=1e-7)


PAIRS = (("outcome:FP", "outcome:TP"), ("label:1", "label:0"), ("high", "low"), ("outcome:TP", "others"))


def test_differences_of_groups_are_those_of_the_library(visit):
    sheet = visit("ward_round").view("summary").unfold()
    for a, b in PAIRS:
        check_difference(sheet, a, b)
    sheet.set("group-b", "none")
    assert not sheet.find("#comparing").is_visible()


def check_difference(sheet, a, b):
    case = sheet.case
    sheet.set("group-a", a)
    sheet.set("group-b", b)
    first = rows_of(case, a)
    taken = set(first.tolist())
    second = torch.tensor([i for i in range(40) if i not in taken]) if b == "others" else rows_of(case, b)
    found = compare_groups(case.first, first, second)
    lines = sheet.rows("#groups-table tr[data-channel]")
    assert [int(line["channel"]) for line in lines] == found.order
    for line in lines:
        d = int(line["channel"])
        for shown, name in (
            ("first", "first"),
            ("second", "second"),
            ("gap", "difference"),
            ("low", "low"),
            ("high", "high"),
        ):
            assert float(line[shown]) == pytest.approx(float(getattr(found, name)[d]), **CLOSE)
    said = sheet.text("#summary-sentence")
    certain, alone = found.certain_together.any(), found.certain.any()
    assert (" differ in no channel" in said, " may differ in " in said) == (not alone, bool(alone and not certain))


def test_a_group_of_one_series_is_compared_with_nothing(visit):
    sheet = visit("ward_round").view("summary")
    case = sheet.case
    sheet.set("group-a", "hand")
    sheet.set("hand", "503")
    said = sheet.text("#summary-sentence")
    assert said.startswith("Chosen series (1): ")
    assert "[" not in said
    assert "chance" not in said
    assert not sheet.find("#summary-spread").is_visible()
    sheet.set("group-b", "others")
    expected = "hosen series (1) and all others (39) cannot be compared: a group needs two series or more"
    assert sheet.text("#summary-sentence") == f"C{expected}."
    others = [i for i in range(40) if i != 3]
    found = tg.compare_groups(case.first, [3], others, names=("chosen series", "all others"))
    assert found.verdict() == f"c{expected}"


@pytest.mark.parametrize("name", ["ward_round", "per_step"])
def test_the_sentence_on_all_names_what_matters_and_when(visit, name):
    """No channel below a tenth of the strongest, no block of time that has hardly more than its share."""
    sheet = visit(name).view("summary")
    values = sheet.case.first.values.double()
    size = values.abs().sum(1).mean(0)
    order = size.argsort(descending=True, stable=True)[:3].tolist()
    said = sheet.text("#summary-sentence")
    names = sheet.case.first.channels or [f"channel {d}" for d in range(len(size))]
    wanted = {names[d] for d in order if size[d] >= 0.1 * size[order[0]]}
    assert {part for part in names if re.search(rf"\b{part} pushes", said)} == wanted
    parts = values.unflatten(1, (8, -1)).sum(2).abs().sum((0, 2))
    share = float(parts.max() / parts.sum())
    told = re.search(r"(\d+) % of all effect falls on", said)
    assert (told is None) == (share < 1.5 / 8)
    assert told is None or int(told[1]) == round(100 * share)


def test_high_and_low_risk_differ_where_the_model_looks(visit):
    """Channel 0 raises the answer of Gauges most."""
    sheet = visit("ward_round").view("summary")
    sheet.set("group-a", "high")
    sheet.set("group-b", "low")
    assert "differ in Level 0 +" in sheet.text("#summary-sentence")


def test_values_against_scores_are_those_of_the_library(visit):
    sheet = visit("ward_round").view("summary")
    case, rows = sheet.case, rows_of(sheet.case, "label:1")
    sheet.set("group-a", "label:1")
    for d in (0, 3, 17):
        sheet.set("depend-channel", d)
        found = value_effect(case.first, d, rows)
        shown = np.array(json.loads(sheet.find("#depending").get_attribute("data-means")), dtype=float)
        assert shown[:, 0] == pytest.approx(found.centre, rel=1e-5)
        size = float(case.first.values.abs().max()) / 16000  # scores that are only looked at have 16 bits
        for place, part in ((1, found.mean), (2, found.low), (3, found.high)):
            assert shown[:, place] == pytest.approx(part, rel=2e-3, abs=size)
        assert sheet.text("#depend-words") == found.words


def test_a_click_on_a_channel_shows_its_values(visit):
    sheet = visit("ward_round").view("summary")
    order = sheet.page.eval_on_selector_all("#chart-swarm text title", "all => all.map(e => e.textContent)")
    sheet.pointed("chart-swarm", 2, 0.5)
    sheet.page.mouse.down()
    sheet.page.mouse.up()
    assert sheet.case.first.channels[int(sheet.value("depend-channel"))] == order[2]


def test_methods_are_dots_with_intervals_against_the_first(visit):
    sheet = visit("ward_round").view("summary")
    case = sheet.case
    scores = {m: tg.evaluate(case.model, e, metrics=["cpd", "cpp"]) for m, e in case.explanations.items()}
    said = [sheet.pointed("chart-scores", place, 0.5) for place in range(6)]
    names = ["timing", "integrated gradients", "random (control)"]
    assert [line[0] for line in said] == names * 2
    panels, intervals = sheet.panels("chart-scores"), sheet.paths("chart-scores", "line.interval")
    assert len(intervals) == 4  # the first of each metric is what the others are compared with
    ends = iter(intervals)
    for place, (metric, method) in enumerate((m, n) for m in ("cpd", "cpp") for n in case.explanations):
        if method == "timing":
            continue
        gap = tg.compare(scores[method][metric], scores["timing"][metric])
        line = next(ends)
        wide = float(line["x2"]) - float(line["x1"])
        first = sheet.paths("chart-scores", "line.first")[0 if metric == "cpd" else 1]
        crosses = float(line["x1"]) <= float(first["x1"]) <= float(line["x2"])
        assert crosses == (gap.low <= 0 <= gap.high) or math.isclose(gap.low * gap.high, 0, abs_tol=1e-6)
        assert 0 <= wide <= panels[place]["right"] - panels[place]["left"]
