"""Groups of series in the page: blocks, differences and the pictures of values equal the library's."""

import re

import pytest
import torch

import tempograd as tg
from tempograd.core import stats
from tempograd.views import palette
from tempograd.views.groups import compare_groups, value_effects

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
    assert (" differ in no channel" in said) == (not found.certain_together.any())


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


@pytest.mark.parametrize("name", ["ward_round", "per_step", "binary"])
def test_the_sentence_on_all_names_what_certainly_pushes_and_when(visit, name):
    """No channel below a tenth of the strongest, no block of time that has hardly more than its share."""
    sheet = visit(name).view("summary")
    first = sheet.case.first
    values = first.values.double()
    size, sums = values.abs().sum(1).mean(0), values.sum(1)
    names = first.channels or [f"channel {d}" for d in range(len(size))]
    half = stats.t_quantile(0.95, torch.tensor(len(sums) - 1.0)) * sums.std(0) / len(sums) ** 0.5
    certain = (sums.mean(0).abs() > half) & (size >= 0.1 * size.max())
    near = (sums.mean(0).abs() - half).where(certain, 0)
    wanted = {names[d] for d in near.argsort(descending=True)[:3].tolist() if certain[d]}
    said = sheet.text("#summary-sentence")
    assert {part for part in names if re.search(rf"\b{part} pushes", said)} == wanted
    for part in wanted:
        share = 100 * float(sums.mean(0)[names.index(part)].abs() / size.sum())
        (told,) = re.findall(rf"\b{part} pushes [^()]*\((\d+) % of the push \[", said)
        assert int(told) == pytest.approx(share, abs=0.51)
    if not wanted:
        effects = zip(names, value_effects(first), strict=True)
        found = sorted(effects, key=lambda pair: -pair[1].strength)[:3]
        assert all(f"{channel} ({effect.words})" in said for channel, effect in found if effect.strength > 0)
    assert "may be chance" not in said
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
    """One rule for directions, in Python: about all series, whichever are chosen."""
    sheet = visit("ward_round").view("summary")
    case = sheet.case
    effects = value_effects(case.first)
    assert int(sheet.value("depend-channel")) == max(range(20), key=lambda d: effects[d].strength)
    sheet.set("group-a", "label:1")
    for d in (0, 3, 17):
        sheet.set("depend-channel", d)
        (plot,) = sheet.plots("chart-depend")
        centre, mean = plot["data"]
        assert centre == pytest.approx(effects[d].centre)
        assert mean == pytest.approx(effects[d].mean)
        assert sheet.text("#depend-words") == effects[d].words
        place = len(centre) // 2
        said = sheet.pointed("chart-depend", 0, (centre[place] - plot["x"][0]) / (plot["x"][1] - plot["x"][0]))
        assert said[-1] == f"{effects[d].series[place]} series"


def test_a_click_on_a_channel_shows_its_values(visit):
    sheet = visit("ward_round").view("summary")
    order = sheet.plots("chart-swarm")[0]["rows"]
    sheet.pointed("chart-swarm", 0, 0.5, 0.25)
    sheet.page.mouse.down()
    sheet.page.mouse.up()
    assert int(sheet.value("depend-channel")) == order[2]


def test_methods_are_dots_with_intervals_against_the_first(visit):
    sheet = visit("ward_round").view("summary")
    case = sheet.case
    scores = {m: tg.evaluate(case.model, e, metrics=["cpd", "cpp"]) for m, e in case.explanations.items()}
    names = ["timing", "integrated gradients", "random (control)"]
    for place, metric in enumerate(("cpd", "cpp")):
        (low, high) = sheet.plots("chart-scores")[place]["x"]
        for row, method in enumerate(case.explanations):
            said = sheet.pointed("chart-scores", place, 0.5, (row + 0.5) / 3)
            assert said[0] == names[row]
            mean = float(scores[method][metric].mean())
            colour = palette.MUTED if method == "random" else palette.INK
            at = sheet.painted("chart-scores", place, [(mean, row + 0.5)])
            assert at == [palette.PAPER if method == "random" else colour]
            if method == "timing":
                continue
            gap = tg.compare(scores[method][metric], scores["timing"][metric])
            first = float(scores["timing"][metric].mean())
            ends = [(first + end, row + 0.5) for end in (gap.low, gap.high)]
            wide = (gap.high - gap.low) / (high - low)
            assert low < ends[0][0] <= ends[1][0] < high
            if wide > 0.1:
                inside = [(x + sign * 0.02 * (high - low), y) for (x, y), sign in zip(ends, (1, -1), strict=True)]
                assert sheet.painted("chart-scores", place, inside) == [colour, colour]


def test_with_one_method_nothing_is_said_of_how_methods_compare(visit):
    sheet = visit("single").view("summary")
    assert not sheet.find("#trust").is_visible()
    assert sheet.unfold().find("#scores").is_visible()
    assert not sheet.view("series").find("#methods-maps").is_visible()
