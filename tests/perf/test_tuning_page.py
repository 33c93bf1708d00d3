"""The page on tuning says what was measured."""

import json
import math
import re

import tuning_page
from speed_page import RESULTS, written

PAGE = tuning_page.PAGE.read_text()
CASES = json.loads((RESULTS / "tuning_h200.json").read_text())["cases"]


def test_the_page_holds_the_figures_of_the_results():
    assert written(PAGE, blocks=tuning_page.BLOCKS) == PAGE
    assert {found[1] for found in re.finditer(r"<!-- (\w+) from", PAGE)} == set(tuning_page.BLOCKS)


def test_means_over_cases():
    """One by one, as products and roots instead of sums of logarithms."""
    for line in tuning_page.means({"cases": CASES}).splitlines()[2:]:
        baseline, count, over_best, least, over_automatic, *rivals = (
            part.strip() for part in line.strip("|").split("|")
        )
        found = [case["methods"] for case in CASES if case["case"].split(":")[2] == baseline]
        tuned = [methods["tuned"]["cpd"] for methods in found]
        best = [max(each["cpd"] for name, each in methods.items() if name != "tuned") for methods in found]
        assert int(count) == len(found) > 10
        shown_errors = [part.partition(" ± ")[2] for part in (over_best, over_automatic, *rivals)]
        assert all(0 < float(error) < 0.3 for error in shown_errors)
        assert float(least) == round(min(own / other for own, other in zip(tuned, best, strict=True)), 3)
        for shown, others in [
            (over_best, best),
            (over_automatic, [methods["automatic"]["cpd"] for methods in found]),
            (rivals[2], [methods["rand_ig"]["cpd"] for methods in found]),
            (rivals[-1], [methods["augmented_occlusion"]["cpd"] for methods in found]),
        ]:
            mean = (math.prod(tuned) / math.prod(others)) ** (1 / len(found))
            assert abs(float(shown.partition(" ± ")[0]) - mean) < 6e-4


def test_no_tuning_cost_more_than_its_budget():
    costs = [each["cost"] for case in CASES for each in case["methods"].values() if "cost" in each]
    assert len(costs) > 100
    assert max(costs) <= 30


def test_the_best_of_a_case_is_bold_and_its_setting_named():
    (line,) = (row for row in tuning_page.every_case({"cases": CASES}, "zero").splitlines() if "Wafer, GRU" in row)
    cells = [part.strip() for part in line.strip("|").split("|")]
    assert [cell for cell in cells if cell.startswith("**")] == [cells[2]]
    assert cells[-1] == "held 0.5, segments of 7–15"
    (case,) = (each for each in CASES if each["case"] == "wafer:gru:zero")
    tuned = case["methods"]["tuned"]
    assert cells[-4] == f"{round(100 * tuned['standard_error'] / tuned['cpd'])} %"


def test_the_error_of_a_mean_is_over_cases():
    assert tuning_page.with_error([1.0, 4.0]) == "2.000 ± 1.386"  # 2 times half of log 4


def test_cases_that_are_the_same_question_count_once():
    assert len(CASES) - len(tuning_page.distinct({"cases": CASES})) == 5  # of Wafer and Freezer
