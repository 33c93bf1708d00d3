"""Rows of checks: the example of each raises its code, and a plain question passes all of them."""

import pytest

from tempograd.core.errors import run_checks
from tempograd.explainers.checks import METHOD

QUESTION = METHOD
FITS = dict.fromkeys(("takes_background", "uses_baseline", "targeted", "fitted"), True)
ASKED = {"method": "timing"} | FITS | dict.fromkeys(("target", "targets", "steps", "baseline", "background"))


@pytest.mark.parametrize("check", QUESTION, ids=lambda check: check.code)
def test_the_example_of_a_row_raises_its_code(check):
    with pytest.raises(check.error) as caught:
        run_checks(QUESTION, ASKED | dict(check.example))
    assert caught.value.code == check.code
    for dialect in ("python", "shell"):
        text = caught.value.finding.say(dialect)
        assert text.endswith(".")
        assert "{" not in text


def test_a_plain_question_passes():
    run_checks(QUESTION, ASKED)
    run_checks(QUESTION, ASKED | {"targets": "all"})
    run_checks(QUESTION, ASKED | {"targets": [0, 1], "baseline": "background", "background": [1.0]})


def test_codes_are_unique():
    assert len({check.code for check in QUESTION}) == len(QUESTION)
