"""Aggregates of records whose numbers can be checked by hand."""

import math

import pytest

from reproduction.tests.helpers.results import (
    ACCURACY,
    AUP,
    CPD,
    GOOD,
    IG,
    LIME,
    NAN,
    RANDOM,
    SCORES,
    TIMING,
    toy_plan,
    toy_record,
    toy_records,
)
from tempograd.core.errors import DataError
from tempograd_paper.runner import Measure, Row
from tempograd_paper.tables.entries import Outlier, outlier_folds
from tempograd_paper.tables.tabulation import tabulate

T2 = 4.302652729696142  # Student's t, 97.5 %, two degrees of freedom


def entries(table, panel=0, measure=0):
    """Return the entries of a column by label."""
    rows = table.panels[panel].entries
    return {row.label: found[measure] for row, found in zip(table.plan.rows, rows, strict=True)}


def marks(table, panel=0, measure=0):
    return {label: entry.mark for label, entry in entries(table, panel, measure).items() if entry.mark}


def test_folds_give_one_value_each_and_errors_over_folds():
    plan = toy_plan()
    table = tabulate(plan, toy_records(plan))
    (panel,) = table.panels
    assert (panel.dataset, panel.model, panel.folds, panel.over) == ("state", "gru", (0, 1, 2), "folds")
    assert (table.missing, table.total, panel.series) == (0, 6, (2, 2))
    timing, ig = entries(table)["TIMING"], entries(table)["IG"]
    # 2, 3, 6: variance (25 + 4 + 49) / 9 / 2 = 13 / 3
    assert timing.summary.mean == pytest.approx(11 / 3)
    assert timing.summary.standard_error == pytest.approx(math.sqrt(13 / 3 / 3))
    assert timing.summary.count == 3
    assert timing.difference is None
    # 1, 2, 2.5, and minus TIMING -1, -1, -3.5: variance (25/36 + 25/36 + 100/36) / 2 = 25 / 12
    assert ig.summary.mean == pytest.approx(11 / 6)
    assert ig.summary.standard_error == pytest.approx(math.sqrt((25 / 36 + 1 / 36 + 16 / 36) / 2 / 3))
    assert ig.difference.mean == pytest.approx(-11 / 6)
    assert ig.difference.low == pytest.approx(-11 / 6 - T2 * 5 / 6, rel=1e-4)
    assert ig.difference.high == pytest.approx(-11 / 6 + T2 * 5 / 6, rel=1e-4)
    assert ig.difference.count == 3


def test_one_fold_is_summarised_over_its_series():
    plan = toy_plan(folds=(1,))
    scores = {"TIMING": {1: [2.0, 4.0, 3.0, NAN]}, "IG": {1: [3.0, 1.0, 2.0, 5.0]}}
    table = tabulate(plan, toy_records(plan, scores))
    assert (table.panels[0].over, table.panels[0].series) == ("series", (4, 4))
    timing, ig = entries(table)["TIMING"], entries(table)["IG"]
    assert (timing.summary.mean, timing.summary.count) == (3.0, 3)
    assert timing.summary.standard_error == pytest.approx(1 / math.sqrt(3))
    assert (ig.summary.mean, ig.summary.count) == (2.75, 4)
    assert ig.difference.mean == pytest.approx((1 - 3 - 1) / 3)  # of the three series with both scores
    assert ig.difference.count == 3
    half = T2 * math.sqrt((4 + 4 + 0) / 2 / 3)
    assert ig.difference.high == pytest.approx(-1 + half, rel=1e-4)
    assert ig.complete
    assert timing.complete


def test_series_are_those_that_were_explained():
    plan = toy_plan(folds=(0,))
    records = toy_records(plan, {"TIMING": {0: [1.0, 2.0]}})
    cell = plan.cell("state", "gru", 0, IG)
    records[cell.key] = toy_record(cell, [1.0, 2.0], ids=[0, 7])
    sentence = (
        "The records of integrated_gradients on state/redrawn, gru, fold 0 and of timing on state/redrawn, gru, "
        "fold 0 are of different series and cannot be compared: remove the older one, and run the plan again."
    )
    with pytest.raises(DataError, match=sentence):
        tabulate(plan, records)


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (CPD, {"LIME": "best", "TIMING": "second"}),
        (ACCURACY, {"IG": "best", "TIMING": "second"}),
        (Measure("s", "sufficiency", 0.2), {"IG": "best", "TIMING": "second"}),
        (Measure("c", "comprehensiveness", 0.2), {"LIME": "best", "TIMING": "second"}),
    ],
)
def test_marks_follow_the_direction_of_the_metric_and_leave_random_out(measure, expected):
    """Random is best in one direction, second best in the other, and neither is marked."""
    plan = toy_plan(rows=(RANDOM, IG, TIMING, LIME), measures=(measure,))
    high = {"random": 9.0, "LIME": 3.0, "TIMING": 2.0, "IG": 1.0}
    for floor in (9.0, 2.5, 1.5, 0.0):
        values = high | {"random": floor}
        scores = {label: {key: [value] for key in plan.folds} for label, value in values.items()}
        assert marks(tabulate(plan, toy_records(plan, scores))) == expected


def test_ties_share_a_mark_and_one_method_has_none():
    plan = toy_plan(rows=(IG, TIMING, LIME, RANDOM))
    scores = {label: {key: [2.0] for key in plan.folds} for label in ("IG", "TIMING")}
    scores["LIME"] = {key: [1.0] for key in plan.folds}
    assert marks(tabulate(plan, toy_records(plan, scores))) == {"IG": "best", "TIMING": "best", "LIME": "second"}
    scores = {label: {key: [2.0] for key in plan.folds} for label in ("IG", "random")}
    assert marks(tabulate(plan, toy_records(plan, scores))) == {}


def test_what_was_not_run_is_missing_and_what_is_incomplete_is_not_ranked():
    plan = toy_plan(rows=(IG, TIMING, LIME, RANDOM), folds=(0, 1, 2, 3))
    scores = SCORES | {"LIME": {0: [9.0], 2: [9.0]}}  # fold 3 was never run
    scores = {label: {fold: (v * 2)[:2] for fold, v in found.items()} for label, found in scores.items()}
    table = tabulate(plan, toy_records(plan, scores))
    assert (table.missing, table.total) == (16 - 3 - 3 - 2, 16)
    assert table.panels[0].folds == (0, 1, 2)
    found = entries(table)
    assert found["random"].summary is None
    assert found["random"].difference is None
    assert (found["LIME"].summary.mean, found["LIME"].summary.count) == (9.0, 2)
    assert found["LIME"].difference.count == 2
    assert found["LIME"].difference.mean == pytest.approx((7 + 3) / 2)
    assert {label: entry.complete for label, entry in found.items()} == {
        "IG": True,
        "TIMING": True,
        "LIME": False,
        "random": False,
    }
    assert marks(table) == {"TIMING": "best", "IG": "second"}


def test_nothing_at_all():
    table = tabulate(toy_plan(), {})
    assert (table.missing, table.total, table.panels[0].folds) == (6, 6, ())
    assert entries(table)["IG"].summary is None
    assert entries(table)["IG"].published == (0.162, 0.002)


def test_records_of_other_plans_are_left_alone():
    plan, other = toy_plan(), toy_plan(seed=7)
    both = toy_records(plan) | toy_records(other, {"IG": {key: [99.0, 99.0] for key in (0, 1, 2)}})
    assert tabulate(plan, both) == tabulate(plan, toy_records(plan))


def test_pooled_scores_are_one_value_per_fold():
    plan = toy_plan(measures=(CPD, AUP))
    scores = {
        "TIMING": {fold: {"cpd10": [1.0, 2.0], "aup": [value]} for fold, value in enumerate((0.5, 0.7, 0.9))},
        "IG": {fold: {"cpd10": [1.0, 2.0], "aup": [value]} for fold, value in enumerate((0.4, 0.6, 0.5))},
    }
    found = entries(tabulate(plan, toy_records(plan, scores)), measure=1)
    assert found["TIMING"].summary.mean == pytest.approx(0.7)
    assert found["TIMING"].summary.standard_error == pytest.approx(0.2 / math.sqrt(3))
    assert found["IG"].difference.mean == pytest.approx(-0.2)
    one = toy_plan(measures=(CPD, AUP), folds=(2,))
    single = entries(tabulate(one, toy_records(one, {k: {2: v[2]} for k, v in scores.items()})), measure=1)
    assert (single["TIMING"].summary.count, single["TIMING"].summary.standard_error) == (1, math.inf)
    assert single["IG"].difference is None
    assert single["TIMING"].mark == "best"


def test_a_score_that_is_nowhere_defined():
    plan = toy_plan()
    scores = SCORES | {"IG": {key: [NAN, NAN] for key in (0, 1, 2)}}
    found = entries(tabulate(plan, toy_records(plan, scores)))["IG"]
    assert (found.summary, found.difference, found.mark) == (None, None, "")


def test_published_numbers_stand_beside_ours_with_the_deviation():
    plan = toy_plan()
    found = entries(tabulate(plan, toy_records(plan)))["TIMING"]
    assert found.published == (0.163, 0.002)
    gap = 11 / 3 - 0.163
    assert found.deviation.value == pytest.approx(gap)
    assert found.deviation.in_errors == pytest.approx(gap / math.sqrt(13 / 9 + 0.002**2))


@pytest.mark.parametrize("changes", [{"protocol": "fair"}, {"stands_for": "State", "datasets": ("wafer",)}])
def test_other_data_and_other_rules_are_no_deviation(changes):
    plan = toy_plan(**changes)
    found = entries(tabulate(plan, toy_records(plan)))["TIMING"]
    assert found.published == (0.163, 0.002)
    assert found.deviation is None


def test_one_fold_has_no_error_to_measure_a_deviation_by():
    plan = toy_plan(folds=(0,))
    deviation = entries(tabulate(plan, toy_records(plan, {"TIMING": {0: [1.0, 3.0]}})))["TIMING"].deviation
    assert deviation.value == pytest.approx(2 - 0.163)
    assert deviation.in_errors is None


def test_without_a_table_of_the_paper_nothing_is_published():
    plan = toy_plan(table=None)
    found = entries(tabulate(plan, toy_records(plan)))["TIMING"]
    assert (found.published, found.deviation) == (None, None)


def test_nothing_stands_in_for_data_that_the_paper_has():
    plan = toy_plan(stands_for="Switch-Feature")
    found = entries(tabulate(plan, toy_records(plan)))["TIMING"]
    assert found.published == (0.163, 0.002)
    assert found.deviation is not None


def test_sufficiency_comes_times_a_hundred_with_errors_and_differences():
    plan = toy_plan(measures=(Measure("s", "sufficiency", 0.2),), table="2", stands_for="MIMIC-III")
    found = entries(tabulate(plan, toy_records(plan)))
    assert found["TIMING"].summary.mean == pytest.approx(1100 / 3)
    assert found["TIMING"].summary.standard_error == pytest.approx(100 * math.sqrt(13 / 9))
    assert found["IG"].difference.mean == pytest.approx(-1100 / 6)
    assert found["TIMING"].published == (0.242, 0.136)
    one = toy_plan(measures=plan.measures, folds=(0,))
    single = entries(tabulate(one, toy_records(one, {"TIMING": {0: [0.25, 0.5]}})))["TIMING"]
    assert (single.summary.mean, single.summary.standard_error) == (37.5, pytest.approx(12.5))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((IG, Row("timing", "other", (("n_samples", 5),)), TIMING), "TIMING"),
        ((Row("timing", "TIMING (10, 1, 10)"), Row("timing", "TIMING (50, 10, 48)")), "TIMING (50, 10, 48)"),
        ((IG, Row("timing", "a"), Row("timing", "b")), "a"),
        ((Row("integrated_gradients", "TIMING"), IG), None),
    ],
)
def test_the_row_that_others_are_compared_with(rows, expected):
    table = tabulate(toy_plan(rows=rows), {})
    assert (None if table.reference is None else table.reference.label) == expected


def random_folds(values, **options):
    plan = toy_plan(rows=(IG, TIMING, RANDOM), folds=tuple(range(len(values))), **options)
    scores = {
        "random": {fold: [value, value] for fold, value in enumerate(values)},
        "TIMING": {fold: [value, 1.0] for fold, value in enumerate(values)},
        "IG": {fold: [1.0, 1.0] for fold in range(len(values))},
    }
    return plan, scores


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1.0, 2.0, 2.0, 6.0, 6.5), {4: 3.25}),  # 6 is three times the median, not more
        ((1.0, 1.0, 1.0), {}),
        ((0.5, 9.0), {}),
        ((0.0, 0.0, 0.25), {2: math.inf}),
        ((1.0, 2.0, 3.0, 8.0), {3: 3.2}),  # the median of four is the mean of the middle two
    ],
)
def test_outliers_are_told_by_random_scores(values, expected):
    plan, scores = random_folds(values)
    records = toy_records(plan, scores)
    assert outlier_folds(records.values()) == tuple(
        Outlier("state", "gru", fold, ratio) for fold, ratio in expected.items()
    )


def test_outliers_are_per_data_set_and_model_and_by_the_first_cpd():
    measures = (AUP, CPD, Measure("cpd50", "cpd", 50))
    records = []
    for dataset, model, high in (("state", "gru", 1.0), ("state", "cnn", 50.0), ("switch_feature", "gru", 10.0)):
        plan = toy_plan(datasets=(dataset,), models=(model,), rows=(RANDOM, TIMING), measures=measures)
        for fold, value in enumerate((1.0, 1.0, high)):
            for row, first in ((RANDOM, value), (TIMING, 1.0)):
                cell = plan.cell(dataset, model, fold, row)
                scores = {"aup": [100.0**fold], "cpd10": [first, NAN], "cpd50": [100.0**fold, 1.0]}
                records.append(toy_record(cell, scores))
    assert outlier_folds(records) == (Outlier("state", "cnn", 2, 50.0), Outlier("switch_feature", "gru", 2, 10.0))


def test_without_random_or_cpd_there_are_no_outliers():
    plan, scores = random_folds((1.0, 1.0, 9.0))
    no_random = {label: found for label, found in scores.items() if label != "random"}
    assert outlier_folds(toy_records(plan, no_random).values()) == ()
    plan, scores = random_folds((1.0, 1.0, 9.0), measures=(ACCURACY,))
    assert outlier_folds(toy_records(plan, scores).values()) == ()


def test_a_table_with_outliers_is_shown_with_and_without_them():
    plan, scores = random_folds((1.0, 2.0, 30.0))
    table = tabulate(plan, toy_records(plan, scores))
    everything, rest = table.panels
    assert (everything.folds, everything.left_out, everything.ranked) == ((0, 1, 2), (), True)
    assert rest.folds == (0, 1)
    assert rest.left_out == ((2, "its random CPD is 15.0 times the median over folds"),)
    assert entries(table, 0)["TIMING"].summary.mean == pytest.approx((1 + 1.5 + 15.5) / 3)
    assert entries(table, 1)["TIMING"].summary.mean == pytest.approx((1 + 1.5) / 2)
    assert marks(table, 0) == marks(table, 1) == {"TIMING": "best", "IG": "second"}
    assert (table.missing, table.total) == (0, 9)


BAD = GOOD | {"at_chance": True, "auroc": 0.5, "accuracy": 0.6}


def test_fair_folds_at_chance_are_not_ranked():
    plan, scores = random_folds((1.0, 2.0, 2.0), protocol="fair")
    table = tabulate(plan, toy_records(plan, scores, {1: BAD}))
    everything, rest = table.panels
    assert not everything.ranked
    assert marks(table, 0) == {}
    assert entries(table, 0)["TIMING"].summary.count == 3
    assert everything.quality.at_chance == (1,)
    assert (rest.folds, rest.ranked, rest.left_out) == ((0, 2), True, ((1, "its model is at chance level"),))
    assert rest.quality.at_chance == ()
    assert marks(table, 1) == {"TIMING": "best", "IG": "second"}


def test_when_all_folds_are_at_chance_nothing_is_ranked():
    plan, scores = random_folds((1.0, 2.0), protocol="fair")
    table = tabulate(plan, toy_records(plan, scores, {0: BAD, 1: BAD}))
    (panel,) = table.panels
    assert (panel.ranked, panel.left_out, marks(table)) == (False, (), {})


def test_published_folds_at_chance_are_told_and_ranked():
    plan, scores = random_folds((1.0, 2.0, 2.0))
    (panel,) = tabulate(plan, toy_records(plan, scores, {1: BAD})).panels
    assert (panel.ranked, panel.quality.at_chance) == (True, (1,))


def test_chance_and_outliers_are_left_out_together():
    plan, scores = random_folds((1.0, 1.0, 9.0, 1.0), protocol="fair")
    table = tabulate(plan, toy_records(plan, scores, {0: BAD, 2: BAD}))
    assert table.panels[1].left_out == (
        (0, "its model is at chance level"),
        (2, "its random CPD is 9.0 times the median over folds"),
    )


def test_quality_of_the_models():
    plan = toy_plan()
    models = {0: GOOD, 1: BAD, 2: GOOD | {"accuracy": 0.75, "auroc": 0.8, "majority": 0.53}}
    (panel,) = tabulate(plan, toy_records(plan, models=models)).panels
    assert panel.quality.accuracy.mean == pytest.approx((0.9 + 0.6 + 0.75) / 3)
    assert panel.quality.accuracy.standard_error == pytest.approx(0.15 / math.sqrt(3))
    assert panel.quality.majority.mean == pytest.approx(0.51)
    assert panel.quality.auroc.mean == pytest.approx(0.75)
    one = toy_plan(folds=(0,))
    (panel,) = tabulate(one, toy_records(one, {"IG": {0: [1.0]}})).panels
    assert (panel.quality.auroc.mean, panel.quality.auroc.standard_error) == (0.95, 0.01)
    assert panel.quality.accuracy.standard_error == math.inf


def test_facts_that_are_not_there():
    plan = toy_plan(folds=(0,))
    records = toy_records(plan, {"IG": {0: [1.0]}}, {0: {"accuracy": 0.5, "auroc": None}})
    (panel,) = tabulate(plan, records).panels
    assert panel.quality.accuracy.mean == 0.5
    assert (panel.quality.majority, panel.quality.auroc, panel.quality.at_chance) == (None, None, ())


def test_seconds_are_per_series_and_over_folds():
    plan = toy_plan()
    records = toy_records(plan, SCORES | {"IG": {0: [1.0, 1.0]}})
    for key, record in records.items():
        explain = {0: 90.0, 1: 6.0, 2: 2.0}[record.cell.fold]  # the first had to warm up
        if record.cell.method == "timing":
            records[key] = toy_record(
                record.cell, SCORES["TIMING"][record.cell.fold], seconds={"explain": explain}
            )
    (panel,) = tabulate(plan, records).panels
    assert panel.seconds == (None, pytest.approx(6 / 2))


def test_panels_are_by_data_set_and_model():
    plan = toy_plan(datasets=("state", "switch_feature"), models=("gru", "cnn"), folds=(0,), rows=(TIMING,))
    records = {}
    for number, cell in enumerate(plan.cells()):
        records[cell.key] = toy_record(cell, [float(number)])
    found = [
        (panel.dataset, panel.model, panel.entries[0][0].summary.mean) for panel in tabulate(plan, records).panels
    ]
    assert found == [
        ("state", "gru", 0.0),
        ("state", "cnn", 1.0),
        ("switch_feature", "gru", 2.0),
        ("switch_feature", "cnn", 3.0),
    ]
