"""Tables of the tuned protocol say how settings were found, who had none, and who could not answer."""

import pytest

from reproduction.tests.helpers.results import GOOD, IG, NAN, RANDOM, TIMING, toy_plan, toy_record, toy_records
from tempograd_paper.cell import Measure
from tempograd_paper.labels import FAMILY, SEGMENTS_ONLY
from tempograd_paper.protocols.settings import SEGMENTS
from tempograd_paper.runner import Row, load_plan
from tempograd_paper.statistics import crossed_interval
from tempograd_paper.tables.archive import load_records, write_archive
from tempograd_paper.tables.rendering import render
from tempograd_paper.tables.tabulation import tabulate

ZERO, OTHERS = Measure("cpd_zero", "cpd", 0.1), Measure("cpd_background", "cpd", 0.1, "background")
DEEP_LIFT = Row("deep_lift", "DeepLIFT")
WHY = "cannot compare with other series"
FOUND = {"settings": {"p": 0.1}, "verdict": "p 0.1: …", "cost": 4.0}


def made(protocol="tuned"):
    """TIMING was tuned, IG and DeepLIFT had nothing to choose, and the latter has no background."""
    plan = toy_plan(
        rows=(DEEP_LIFT, IG, TIMING, RANDOM), measures=(ZERO, OTHERS), folds=(0,), protocol=protocol, table=None
    )
    values = {
        "deep_lift": ([1.0, 2.0], [NAN, NAN], {"zero": None}, {"background": WHY}),
        "integrated_gradients": ([2.0, 3.0], [2.0, 4.0], {"zero": None, "background": None}, {}),
        "timing": ([3.0, 5.0], [4.0, 6.0], {"zero": FOUND, "background": FOUND}, {}),
        "random": ([0.0, 1.0], [0.0, 1.0], {"zero": None, "background": None}, {}),
    }
    records = {}
    for cell in plan.cells():
        zero, others, chosen, left_out = values[cell.method]
        scores = {"cpd_zero": zero, "cpd_background": others}
        records[cell.key] = toy_record(cell, scores, GOOD, chosen=chosen, left_out=left_out)
    return plan, records


def test_a_row_without_a_number_has_a_mark_and_a_reason():
    text = render(tabulate(*made()), "markdown")
    assert "| method   |    CPD 10% zero ↑ | CPD 10% background ↑ |" in text
    assert "| DeepLIFT |     1.500 (0.500) |                    ‡ |" in text
    assert f"- ‡ DeepLIFT: {WHY}.\n" in text
    assert "| TIMING   | **4.000 (1.000)** |    **5.000 (1.000)** |" in text


def test_the_notes_say_how_settings_were_found_and_who_had_none():
    text = render(tabulate(*made()), "markdown")
    assert (
        "Every method is tuned by the same call under the same budget (30 explanations of 100 validation" in text
    )
    assert "- Nothing to choose: DeepLIFT, IG.\n" in text


def test_other_protocols_have_no_such_notes():
    plan = toy_plan(protocol="fair", rows=(IG, TIMING))
    text = render(tabulate(plan, toy_records(plan)), "markdown")
    assert "same call" not in text
    assert "Nothing to choose" not in text
    assert tabulate(plan, toy_records(plan)).untuned == ()


def test_what_has_no_number_is_not_missing_and_not_ranked():
    table = tabulate(*made())
    assert table.missing == 0
    (panel,) = table.panels
    assert [row[1].mark for row in panel.entries] == ["", "second", "best", ""]
    assert panel.entries[0][1].refused == WHY
    assert panel.entries[0][0].refused == ""


def test_a_model_at_chance_is_not_ranked():
    plan, records = made()
    poor = {key: toy_record(each.cell, {n: s.tolist() for n, s in each.scores.items()}, GOOD | {"at_chance": True})
            for key, each in records.items()}  # fmt: skip
    (panel,) = tabulate(plan, poor).panels
    assert not panel.ranked


def test_an_archive_keeps_what_was_chosen_and_left_out(tmp_path):
    plan, records = made()
    found = load_records(write_archive(tmp_path, plan, records), plan)
    assert {key: record.facts for key, record in found.items()} == {k: r.facts for k, r in records.items()}
    assert render(tabulate(plan, found), "markdown") == render(tabulate(plan, records), "markdown")


@pytest.mark.parametrize(("protocol", "label"), [("fair", "WinIT (marginal)"), ("tuned", "WinIT (marginal)")])
def test_winit_is_called_by_its_sampler_and_stands_beside_the_paper_s(protocol, label):
    plan = load_plan("table2-physionet2012", protocol=protocol, to_run=False)
    row = next(row for row in plan.rows if row.method == "winit")
    assert row.label == label
    cell = plan.cell("physionet2012", "gru", 0, row)
    scores = {measure.name: [1.0, 2.0] for measure in plan.measures}
    (panel,) = tabulate(plan, {cell.key: toy_record(cell, scores)}).panels
    assert panel.entries[plan.rows.index(row)][0].published == (0.020, 0.001)


def test_the_published_winit_is_called_as_in_the_paper():
    rows = load_plan("table2", protocol="published", to_run=False).rows
    assert [row.label for row in rows if row.method == "winit"] == ["WinIT"]


@pytest.mark.parametrize("name", ["table2", "table3", "table4", "table8", "table3-open", "table8-physionet2012"])
def test_plans_ask_for_three_baselines_when_methods_are_tuned(name):
    tuned = load_plan(name, protocol="tuned", to_run=False).measures
    assert {each.baseline for each in tuned if each.metric == "cpd"} == {"zero", "average", "background"}
    for protocol in ("published", "fair"):
        measures = load_plan(name, protocol=protocol, to_run=False).measures if name != "table3-open" else ()
        assert all(each.baseline != "background" for each in measures)


def test_rows_that_the_plan_sets_are_not_called_tuned():
    plan = toy_plan(rows=(Row("rand_ig", "RandIG 0.4", (("p", 0.4),)), TIMING), protocol="tuned", folds=(0,))
    scores = {"RandIG 0.4": {0: [1.0, 2.0]}, "TIMING": {0: [1.0, 3.0]}}
    table = tabulate(plan, toy_records(plan, scores, chosen={"zero": None}))
    assert table.untuned == ("TIMING",)
    assert "- Not tuned, since the plan sets them: RandIG 0.4.\n" in render(table, "markdown")


@pytest.mark.parametrize(("dataset", "shared"), [("state", True), ("boiler", False)])
def test_differences_have_intervals_over_models_and_series(dataset, shared):
    scores = {"IG": {0: [1.0] * 3, 1: [1.0] * 3}, "TIMING": {0: [2.0, 6.0, 10.0], 1: [3.0, 6.0, 9.5]}}
    plan = toy_plan(protocol="tuned", datasets=(dataset,), folds=(0, 1), table=None)
    table = tabulate(plan, toy_records(plan, scores))
    gap = table.panels[0].entries[0][0].difference
    expected = crossed_interval([[-1.0, -5.0, -9.0], [-2.0, -5.0, -8.5]], shared=shared)
    assert (gap.mean, gap.low, gap.high) == pytest.approx((expected.mean, expected.low, expected.high))
    assert gap.count == 2
    assert "- Intervals are Student's t over paired models and series together, or series of one fold." in render(
        table, "markdown"
    )
    fair = toy_plan(protocol="fair", datasets=(dataset,), folds=(0, 1), table=None)
    plain = tabulate(fair, toy_records(fair, scores)).panels[0].entries[0][0].difference
    assert plain.mean == pytest.approx(expected.mean)
    assert (plain.low, plain.high) != pytest.approx((expected.low, expected.high)) or not shared


def test_the_family_and_its_segments_are_told_apart():
    rows = (
        IG,
        Row("timing", FAMILY),
        Row("timing", SEGMENTS_ONLY, SEGMENTS),
        Row("timing", "set", (("held", 0.5),)),
    )
    plan = toy_plan(rows=rows, folds=(0,), protocol="tuned", table=None)
    records = {cell.key: toy_record(cell, [1.0, 2.0], chosen={"zero": FOUND}) for cell in plan.cells()}
    table = tabulate(plan, records)
    assert table.reference.label == FAMILY
    text = render(table, "markdown")
    assert "method minus TIMING family" in text
    assert (
        "- TIMING family: what is tried are segments, single cells, which is RandIG, and nothing held, which is "
        "IG; TIMING (segments): segments alone.\n"
    ) in text
    assert "- Not tuned, since the plan sets them: set.\n" in text
