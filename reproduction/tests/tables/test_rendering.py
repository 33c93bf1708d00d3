"""Tables as text: exactly, for small ones."""

import csv
import io
import json
import re

import pytest

from reproduction.tests.helpers.results import (
    ACCURACY,
    AUP,
    GOOD,
    IG,
    LIME,
    RANDOM,
    SCORES,
    TIMING,
    toy_plan,
    toy_record,
    toy_records,
)
from tempograd_paper.runner import Measure, Row
from tempograd_paper.tables.rendering import FIELDS, render
from tempograd_paper.tables.sheets import WIDTH, make_sheets
from tempograd_paper.tables.tabulation import tabulate


def shown(plan, records, form="markdown"):
    return render(tabulate(plan, records), form)


MARKDOWN = """\
# A toy (published protocol)

## State, GRU

Mean ± standard error over 3 folds, each the mean over its 2 test series. Models: test accuracy 0.900 ± 0.000, \
largest class 0.500, AUROC 0.950 ± 0.000.

| method |    CPD 10% zero ↑ |     published |  Δ/σ |
| :----- | ----------------: | ------------: | ---: |
| IG     |   _1.833 ± 0.441_ | 0.162 ± 0.002 | +3.8 |
| TIMING | **3.667 ± 1.202** | 0.163 ± 0.002 | +2.9 |
| random |                 – |             – |    – |

## State, GRU: paired difference, method minus TIMING, with 95 % interval

| method |          CPD 10% zero ↑ |
| :----- | ----------------------: |
| IG     | −1.833 [−5.419, +1.752] |
| random |                       – |

- A head names the metric, the cells removed (a count or a share) and what takes their place.
- An error after ± is over folds, one in brackets over the test series of one fold.
- Best in bold, second best in italics, by the arrow's direction; random is not ranked.
- Δ/σ: ours minus published, in units of both standard errors together. The folds start from the same initial \
weights and most share their test series, so it measures a distance and tests nothing.
- Intervals are Student's t over paired folds.
- The paper does not say how TIMING is set on State: of the released settings ours has the highest CPD on the \
test series themselves.
- Table 4 of the paper does not say what takes the place of removed cells: its CPD stands beside zero.
- 3 of 9 cells are not there (–): run python -m tempograd_paper run toy --protocol published --out RESULTS
"""

CAPTION = (
    r"State, GRU. Mean $\pm$ standard error over 3 folds, each the mean over its 2 test series. Models: "
    r"test accuracy 0.900 $\pm$ 0.000, largest class 0.500, AUROC 0.950 $\pm$ 0.000."
)
DISTANCE = (
    "The folds start from the same initial weights and most share their test series, so it measures a distance "
    "and "
    "tests nothing."
)
CHOSEN = (
    "The paper does not say how TIMING is set on State: of the released settings ours has the highest CPD on "
    "the test "
    "series themselves."
)
LATEX = r"""\paragraph{A toy (published protocol).}

\begin{table}[htbp]
\centering\scriptsize\setlength{\tabcolsep}{3pt}
\caption{CAPTION}
\begin{tabular}{lrrr}
\hline
method & CPD 10\% zero $\uparrow$ & published & $\Delta$/$\sigma$ \\
\hline
IG & \underline{1.833 $\pm$ 0.441} & 0.162 $\pm$ 0.002 & +3.8 \\
TIMING & \textbf{3.667 $\pm$ 1.202} & 0.163 $\pm$ 0.002 & +2.9 \\
random & -- & -- & -- \\
\hline
\end{tabular}
\end{table}

\begin{table}[htbp]
\centering\scriptsize\setlength{\tabcolsep}{3pt}
\caption{State, GRU: paired difference, method minus TIMING, with 95 \% interval.}
\begin{tabular}{lr}
\hline
method & CPD 10\% zero $\uparrow$ \\
\hline
IG & $-$1.833 [$-$5.419, +1.752] \\
random & -- \\
\hline
\end{tabular}
\end{table}

A head names the metric, the cells removed (a count or a share) and what takes their place.

An error after $\pm$ is over folds, one in brackets over the test series of one fold.

Best in bold, second best underlined, by the arrow's direction; random is not ranked.

$\Delta$/$\sigma$: ours minus published, in units of both standard errors together. DISTANCE

Intervals are Student's t over paired folds.

CHOSEN

Table 4 of the paper does not say what takes the place of removed cells: its CPD stands beside zero.

3 of 9 cells are not there (--): run python -m tempograd\_paper run toy -{}-protocol published -{}-out RESULTS
"""


def test_markdown_to_the_letter():
    plan = toy_plan(rows=(IG, TIMING, RANDOM))
    assert shown(plan, toy_records(plan)) == MARKDOWN


def test_latex_to_the_letter():
    plan = toy_plan(rows=(IG, TIMING, RANDOM))
    assert shown(plan, toy_records(plan), "latex") == LATEX.replace("CAPTION", CAPTION).replace(
        "DISTANCE", DISTANCE
    ).replace("CHOSEN", CHOSEN)


def test_latex_escapes_labels():
    plan = toy_plan(rows=(Row("lime", r"a_b & 50% #1 {x} ~ ^ $ \y"),), title="T_1")
    text = shown(plan, {}, "latex")
    assert r"a\_b \& 50\% \#1 \{x\} \textasciitilde{} \textasciicircum{} \$ \textbackslash{}y & --" in text
    assert text.startswith(r"\paragraph{T\_1 (published protocol).}")
    assert text.count("$") % 2 == 1  # all but the escaped one open or close a formula


def test_csv_has_everything_of_a_row_and_measure():
    plan = toy_plan(rows=(IG, TIMING, RANDOM))
    models = {fold: GOOD | {"auroc": auroc} for fold, auroc in enumerate((0.75, 0.5, 1.0))}
    text = shown(plan, toy_records(plan, models=models, seconds={"explain": 3.0}), "csv")
    assert text.split("\n")[0] == ",".join(FIELDS)
    ig, timing, random = csv.DictReader(io.StringIO(text))
    low, high = (float(ig.pop(name)) for name in ("difference_low", "difference_high"))
    assert (low, high) == (pytest.approx(-5.41888, rel=1e-4), pytest.approx(1.75221, rel=1e-4))
    assert ig == {
        "table": "toy",
        "protocol": "published",
        "dataset": "state",
        "model": "gru",
        "folds": "0 1 2",
        "left_out": "",
        "label": "IG",
        "method": "integrated_gradients",
        "rank": "absolute",
        "measure": "cpd10",
        "metric": "cpd",
        "k": "0.1",
        "baseline": "zero",
        "higher_is_better": "yes",
        "scale": "1",
        "mean": "1.83333",
        "standard_error": "0.440959",
        "count": "3",
        "over": "folds",
        "complete": "yes",
        "mark": "second",
        "published_mean": "0.162",
        "published_standard_error": "0.002",
        "deviation": "1.67133",
        "deviation_in_errors": "3.79019",
        "difference": "-1.83333",
        "difference_count": "3",
        "seconds_per_series": "1.5",
        "test_accuracy": "0.9",
        "largest_class": "0.5",
        "auroc": "0.75",
        "auroc_standard_error": "0.144338",
        "folds_at_chance": "",
    }
    assert (timing["mark"], timing["difference"]) == ("best", "")
    assert (random["mean"], random["count"], random["complete"]) == ("", "", "no")


def test_a_single_missing_cell_is_spoken_of_in_the_singular():
    plan = toy_plan()
    records = toy_records(plan)
    records.pop(plan.cells()[0].key)
    assert f"- 1 of {len(plan.cells())} cells is not there" in shown(plan, records, "markdown")


def test_json_has_what_the_csv_has_with_numbers_as_numbers():
    plan = toy_plan(rows=(IG, TIMING, RANDOM))
    models = {fold: GOOD | {"auroc": auroc} for fold, auroc in enumerate((0.75, 0.5, 1.0))}
    records = toy_records(plan, models=models, seconds={"explain": 3.0})
    rows, found = (
        list(csv.DictReader(io.StringIO(shown(plan, records, "csv")))),
        json.loads(shown(plan, records, "json")),
    )
    assert len(rows) == len(found) > 2
    for row, entry in zip(rows, found, strict=True):
        assert list(row) == list(entry)
        for name, text in row.items():
            value = entry[name]
            if isinstance(value, bool):
                assert text == ("yes" if value else "no")
            elif isinstance(value, float):
                assert float(text) == pytest.approx(value, rel=1e-5)
            elif isinstance(value, list):
                assert text.split() == [str(part) for part in value]
            else:
                assert text == ("" if value is None else str(value))
    assert any(isinstance(entry["mean"], float) for entry in found)


def test_csv_of_one_fold_and_of_a_localisation():
    plan = toy_plan(folds=(0,), measures=(ACCURACY, AUP), protocol="fair")
    records = toy_records(plan, {"IG": {0: {"acc10": [1.0, 0.0], "aup": [0.25]}}}, {0: GOOD | {"at_chance": True}})
    accuracy, aup, *_ = csv.DictReader(io.StringIO(shown(plan, records, "csv")))
    assert (accuracy["higher_is_better"], accuracy["over"], accuracy["count"]) == ("no", "series", "2")
    assert (accuracy["folds_at_chance"], accuracy["auroc_standard_error"]) == ("0", "0.01")
    assert (aup["k"], aup["baseline"], aup["standard_error"], aup["mean"]) == ("", "", "", "0.25")


def test_one_fold_says_so_and_shows_the_plain_deviation():
    plan = toy_plan(folds=(1,))
    text = shown(plan, toy_records(plan, {label: {1: found[1]} for label, found in SCORES.items()}))
    assert "Mean (standard error) over the 2 test series of fold 1." in text
    assert "AUROC 0.950 (0.010)" in text
    assert "test accuracy 0.900," in text
    assert "| method |    CPD 10% zero ↑ |     published |      Δ |" in text
    assert "| IG     |   _2.000 (1.000)_ | 0.162 ± 0.002 | +1.838 |" in text
    assert "- Δ: ours minus published; one fold has no error between folds to measure it by." in text
    assert "Δ/σ" not in text
    assert "Intervals are Student's t over paired series." in text


def test_fair_tables_say_how_the_published_cpd_compares():
    fair = toy_plan(protocol="fair")
    text = shown(fair, toy_records(fair))
    assert "CPD is summed over the classes here, as the paper defines it; the published numbers are means" in text
    assert "multiply those by the number of classes (two, in PAM eight) to compare" in text
    assert "Δ" not in text
    assert "summed over the classes" not in shown(toy_plan(), {})
    assert "summed over the classes" not in shown(toy_plan(protocol="fair", table=None), {})


def test_stand_ins_and_short_runs_are_told():
    plan = toy_plan(stands_for="MIMIC-III", table="2", measures=(Measure("m", "cpd", 50),), series=20)
    text = shown(plan, {})
    assert (
        "The paper has no State: the published numbers beside it are those of MIMIC-III, for orientation only."
        in text
    )
    assert "20 test series, evenly spaced, are explained." in text
    assert "does not say what takes the place" not in text
    assert "Nothing was run here." in text
    assert "Best in bold" not in text
    assert "Intervals" not in text


def test_incomplete_rows_and_folds_at_chance_are_told():
    plan = toy_plan(protocol="fair", rows=(IG, TIMING, LIME))
    scores = SCORES | {"LIME": {0: [9.0, 9.0], 2: [9.0, 9.0]}}
    text = shown(plan, toy_records(plan, scores, {1: GOOD | {"at_chance": True}}))
    assert (
        "At chance level: fold 1. Not ranked, because a model that has learnt nothing has nothing to explain"
        in text
    )
    assert "State, GRU, without fold 1: Mean ± standard error over 2 folds" in text
    assert "Left out: fold 1, its model is at chance level." in text
    cells = next(line for line in text.split("\n") if line.startswith("| LIME")).strip("|").split("|")
    # in all folds one is missing, in the rest none
    assert [cell.strip() for cell in cells[1:]] == [
        "9.000 ± 0.000 †",
        "0.163 ± 0.002",
        "**9.000 ± 0.000**",
        "0.163 ± 0.002",
    ]
    assert "- † Fewer folds than other rows have: not ranked." in text


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([123.4567], "123.457"),
        ([0.04321], "0.0432"),
        ([0.00098765], "0.000988"),
        ([1.2e-9], "0.000000"),
        ([-0.5], "−0.500"),
        ([0.0], "0.000"),
    ],
)
def test_three_digits_of_the_largest_number(values, expected):
    plan = toy_plan(rows=(TIMING,), folds=(0,), table=None)
    assert f"| TIMING | {expected:>14} |" in shown(plan, toy_records(plan, {"TIMING": {0: values}}))


def test_narrow_tables_stand_side_by_side():
    plan = toy_plan(datasets=("state", "switch_feature"), rows=(TIMING, IG), folds=(0,), table=None, title="Both")
    records = {cell.key: toy_record(cell, [1.0, 2.0]) for cell in plan.cells()}
    first, second = make_sheets(tabulate(plan, records))
    assert first.title == "Both"
    assert first.head == ("method", "State, GRU: CPD 10% zero ↑", "Switch-Feature, GRU: CPD 10% zero ↑")
    assert [line[:35] for line in first.lines] == [
        "State, GRU: Mean (standard error) o",
        "Switch-Feature, GRU: Mean (standard",
    ]
    assert second.title == "Both: paired difference, method minus TIMING, with 95 % interval"
    assert [row[0].text for row in second.body] == ["IG"]


def test_wide_tables_are_cut_by_panel_and_then_by_measure():
    measures = tuple(Measure(f"m{k}", "cpd", k) for k in range(10, 16))
    plan = toy_plan(models=("gru", "cnn"), rows=(TIMING,), measures=measures, folds=(0, 1))
    records = {}
    for number, cell in enumerate(plan.cells()):
        records[cell.key] = toy_record(cell, {m.name: [number + m.k, 1.0] for m in measures})
    found = make_sheets(tabulate(plan, records))
    assert [(sheet.title, sheet.head[1]) for sheet in found] == [
        ("State, GRU", "CPD 10 zero ↑"),
        ("State, CNN", "CPD 10 zero ↑"),
    ]
    assert [len(sheet.lines) for sheet in found] == [1, 1]
    wider = toy_plan(models=("gru",), rows=(TIMING,), measures=measures * 2, folds=(0, 1))
    found = make_sheets(tabulate(wider, {}))
    assert [len(sheet.head) for sheet in found] == [7, 7]
    assert [len(sheet.lines) for sheet in found] == [1, 0]  # said once
    for sheet in found:
        assert max(map(len, sheet.markdown.split("\n"))) <= WIDTH


def test_the_efficiency_figure_shows_seconds():
    plan = toy_plan(table="Fig.efficiency", rows=(IG, TIMING))
    text = shown(plan, toy_records(plan, {"TIMING": SCORES["TIMING"]}, seconds={"explain": 0.08642}))
    assert re.search(r"\| method \| +CPD 10% zero ↑ \| s per series \|", text)
    assert re.search(r"\| TIMING \| +3.667 ± 1.202 \| +0.0432 \|", text)
    assert re.search(r"\| IG +\| +– \| +– \|", text)
    assert "s per series" not in shown(toy_plan(), {})


def test_data_that_was_not_run_is_named_and_takes_no_room():
    plan = toy_plan(datasets=("state", "switch_feature"))
    only = toy_plan()
    text = shown(plan, toy_records(only))
    assert "## State, GRU" in text
    assert "## Switch-Feature, GRU" not in text
    assert "- Nothing was run of Switch-Feature, GRU.\n" in text
    assert "Nothing was run of" not in shown(only, toy_records(only))
    assert "Switch-Feature, GRU: Nothing was run here." in shown(plan, {})
