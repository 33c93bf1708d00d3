"""The page on sampling shows what was measured, and its picture draws it."""

import json
import re
import statistics

import pytest

import sampling_page
import sampling_picture
import sampling_results
from speed_page import RESULTS, written

STOPPING, SAMPLERS = (json.loads((RESULTS / f"{name}_h200.json").read_text()) for name in ("stopping", "samplers"))
PAGE = sampling_page.PAGE.read_text()
COVERAGE = json.loads((RESULTS / "coverage_cpu.json").read_text())["models"]
NUMBER = re.compile(r"−?\d[\d,]*\.?\d*")
ORDER = ("wafer", "freezer", "epilepsy", "boiler", "physionet2012", "state")
KINDS = ("gru", "cnn", "transformer")


def cell(name, *place):
    """Look one measured number up by data set, model, setting and way."""
    where = [STOPPING["columns"].index(key) for key in ("dataset", "model", "setting", "way")]
    (row,) = (row for row in STOPPING["rows"] if tuple(row[column] for column in where) == place)
    return row[STOPPING["columns"].index(name)]


def mean(name, dataset, setting, way):
    return statistics.fmean(cell(name, dataset, kind, setting, way) for kind in KINDS)


def paired(name, dataset, setting):
    """Return the standard error of a mean of three, from the variances of its parts."""
    parts = [cell(name + "_difference_se", dataset, kind, setting, "default") for kind in KINDS]
    return statistics.fmean(part**2 for part in parts) ** 0.5 / 3**0.5


def shown(block):
    """Return the numbers of a table on the page, row by row."""
    text = re.search(rf"<!-- {block} from \w+ -->(.*?)<!-- end -->", PAGE, re.DOTALL)[1]
    rows = [line.split("|")[2:-1] for line in text.splitlines() if line.startswith("| ")]
    return [
        [float(n.replace(",", "").replace("−", "-")) for n in NUMBER.findall(" ".join(row))] for row in rows[2:]
    ]


def test_the_page_is_what_the_results_give():
    assert written(PAGE, blocks=sampling_page.BLOCKS) == PAGE
    assert {found[1] for found in re.finditer(r"<!-- (\w+) from", PAGE)} == set(sampling_page.BLOCKS)


@pytest.mark.parametrize("row", range(6))
def test_every_table_has_its_numbers_in_their_place(row):
    name, both = ORDER[row], ("paper", "automatic")
    was, now = (mean("error", name, "paper", way) for way in ("released", "default"))
    found = [100 * mean("overlap", name, "paper", way) for way in ("released", "default")]
    unseen = [100 * mean("unseen", name, "paper", way) for way in ("released", "default")]
    ratio = [now / was, paired("error", name, "paper") / was]
    numbers = shown("fifty")[row]
    assert numbers[:4] == pytest.approx([was, now, *ratio], abs=0.0051)
    assert numbers[4:6] == pytest.approx(found, abs=0.51)
    assert numbers[6:] == pytest.approx(unseen, abs=0.051)

    differences = [
        [mean("cpd_difference", name, setting, "default"), paired("cpd", name, setting)] for setting in both
    ]
    levels = [mean("cpd", name, "paper", way) for way in ("released", "default")]
    converged = mean("converged_cpd", name, "paper", "default")
    expected = [*levels, *differences[0], converged, *differences[1]]
    assert shown("cpd")[row] == pytest.approx(expected, abs=0.00051)

    covered = [cell("covered", name, kind, setting, "default") for kind in KINDS for setting in both]
    assert shown("held_out")[row] == pytest.approx(covered, abs=0.0051)

    errors = [100 * cell("error", name, kind, setting, "40 ms") for kind in KINDS for setting in both]
    assert shown("budget")[row][:6] == pytest.approx(errors, abs=0.051)

    expected = [mean(part, name, setting, "default") for part in ("error", "converged_cpd") for setting in both]
    assert shown("settings")[row] == pytest.approx(expected, abs=0.0051)


@pytest.mark.parametrize("row", range(6))
def test_stopping_shows_shares_and_passes_in_both_settings(row):
    name, both = ORDER[row], ("paper", "automatic")
    reached = [
        100 * mean("cpd", name, setting, way) / mean("converged_cpd", name, setting, way)
        for way in ("default", "tolerance 0.1")
        for setting in both
    ]
    lowest = [
        100
        * min(
            cell("cpd", name, kind, setting, "tolerance 0.1")
            / cell("converged_cpd", name, kind, setting, "tolerance 0.1")
            for kind in KINDS
        )
        for setting in both
    ]
    costs = [mean("passes", name, setting, "tolerance 0.1") for setting in both]
    assert shown("stopping")[row] == pytest.approx([*reached, *lowest, *costs], abs=0.51)


def test_designs_are_compared_with_the_released_one():
    """Check one line by hand: Sobol' points with the plain mean and automatic settings."""
    columns = SAMPLERS["columns"]

    def total(dataset, *kind):
        names = ("dataset", "setting", "passes", "design", "estimate")
        wanted = (dataset, "automatic", 50, *kind)
        rows = [row for row in SAMPLERS["rows"] if tuple(row[columns.index(name)] for name in names) == wanted]
        assert len(rows) == 3
        return sum(row[columns.index("error")] for row in rows)

    ratios = [total(name, "sobol", "ratio") / total(name, "released", "ratio") for name in ORDER]
    (line,) = (row for row in sampling_page.designs(SAMPLERS).splitlines() if row.startswith("| Sobol'"))
    assert float(NUMBER.findall(line)[1]) == pytest.approx(statistics.geometric_mean(ratios), abs=0.0051)


def test_words_about_cpd_follow_the_differences():
    """Two data sets in hand: one gains more than its error, the other loses more."""
    columns = ["dataset", "model", "setting", "way", "cpd", "cpd_difference", "cpd_difference_se", "converged_cpd"]
    rows = [
        [name, kind, setting, way, 1.0, {"wafer": 0.08, "state": -0.08}.get(name, 0.05), 0.1, 1.0]
        for name in ORDER
        for kind in KINDS
        for setting in ("paper", "automatic")
        for way in ("released", "default")
    ]
    said = sampling_page.cpd({"columns": columns, "rows": rows}).splitlines()[-1]
    above, level, below = said.split("; ")
    assert above == "More than one standard error above: Wafer (both settings)"
    assert "Freezer" in level
    assert below == "**more than one below**: State (both settings)."


def test_lines_of_a_run_become_rows_without_a_loss_that_matters():
    line = dict.fromkeys(sampling_results.COLUMNS, 0.123456) | {"dataset": "wafer", "passes": 3112.0}
    packed = sampling_results.stopping([line], "2026-02-03")
    (row,) = sampling_picture.records(packed)
    assert row == dict.fromkeys(sampling_results.COLUMNS, 0.1235) | {"dataset": "wafer", "passes": 3112.0}
    text = sampling_page.measured(packed)
    assert text.startswith("Measured on 3 February 2026 on one NVIDIA H200")


def test_lines_about_intervals_are_read_as_they_are_written():
    lines = [
        "smooth (1, 1, 3)   | plain 50: 0.935 err 0.006 n 50 | top .05: 0.969 err 0.003 n 100",
        "LSTM, raw          | 50: 0.928 err 0.288 n 50",
    ]
    assert sampling_results.coverage(lines, "2026-02-03")["models"] == {
        "smooth (1, 1, 3)": {
            "plain 50": {"covered": 0.935, "error": 0.006, "points": 50},
            "top .05": {"covered": 0.969, "error": 0.003, "points": 100},
        },
        "LSTM, raw": {"50": {"covered": 0.928, "error": 0.288, "points": 50}},
    }


def test_every_model_with_a_known_answer_is_in_the_table():
    expected, lstms = [], ("LSTM, probability", "LSTM, raw")
    for start in ("quadratic", "sigmoid 1", "sigmoid 4", "sigmoid 16", "sigmoid 60", *lstms, "smooth"):
        models = [found for name, found in COVERAGE.items() if name.split(" (")[0] == start]
        row = []
        for way in ("plain 50", "50", "200", "anchored .8", "tolerance .05", "top .05"):
            row += sorted({round(end(found[way]["covered"] for found in models), 2) for end in (min, max)})
        expected.append(row)
    for found, row in zip(shown("intervals"), expected, strict=True):
        assert found == pytest.approx(row, abs=0.0051)


def test_the_picture_draws_the_measured_errors():
    for name, axes in zip(ORDER, sampling_picture.errors(STOPPING).axes, strict=True):
        released, fixed, asked = axes.lines
        assert list(released.get_ydata()) == pytest.approx([mean("error", name, "paper", "released")])
        ways = ("default", "200 points", "40 ms")
        assert list(fixed.get_ydata()) == pytest.approx([mean("error", name, "paper", way) for way in ways])
        assert list(asked.get_xdata()) == pytest.approx([mean("passes", name, "paper", "tolerance 0.1")])
