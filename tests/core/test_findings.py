"""Findings say themselves in the words of Python and of the command line, and errors and warnings carry them."""

import pickle
import re
import warnings

import pytest
import torch

import tempograd as tg
from tempograd.core import errors
from tempograd.core.errors import SAYS, Finding, arg, said

EXAMPLES = {
    "warning": {"text": "The model draws."},
    "task.classes": {"columns": 3},
    "target.predicted": {},
    "target.label": {},
    "target.one": {},
    "target.score": {
        "score": "the mean over all outputs",
        "outputs": 168,
        "shape": "(24, 7)",
        "example": "(3, 2)",
        "name": "mean",
    },
    "baseline.zero": {},
    "series.lengths": {"count": 3, "least": 4, "most": 9},
    "model.sigmoid": {},
    "model.stochastic": {},
    "model.mixes": {},
    "model.alone": {},
    "fit.model": {"method": "timex", "there": "Net:0123", "here": "Net:4567"},
    "model.fresh": {"name": "Net"},
    "model.accuracy": {"right": "15 %", "chance": "50 %"},
    "baseline.far": {"count": 2, "of": 5, "channel": "'heat'", "low": 51.04, "high": 79.0},
    "gradient.wrong": {"problem": "The gradient misses half of the change"},
    "draws.unused": {"draws": 8},
    "target.unused": {"method": "dynamask"},
    "cells.rare": {
        "setting": "held of 0.9",
        "cell": "step 4",
        "active": "0.5",
        "samples": 10,
        "enough": 41,
        "instead": "a smaller held",
    },
    "pool.missing": {"caveat": "gradient_shap has no pool of baselines"},
    "pool.unused": {"caveat": "gradient_shap has no pool of baselines"},
    "deep_lift.residual": {"caveat": "The scores leave", "share": "30%", "reason": "the gates"},
    "lime.stopped": {"iterations": 1000},
}


def test_every_row_has_an_example():
    assert set(EXAMPLES) == set(SAYS)


@pytest.mark.parametrize("code", SAYS)
def test_a_row_is_one_sentence_in_each_dialect(code):
    finding = Finding(code, "warning", EXAMPLES[code])
    python, shell = finding.say(), finding.say("shell")
    for text in (python, shell):
        assert text.endswith(".")
        assert not re.search(r"[{}\n]", text)
    assert "--" not in python
    assert not re.search(r"(?<![\w-])[a-z_]+=(?!…)|tg\.Series|tg\.Predictor", shell)
    assert str(finding) == python


@pytest.mark.parametrize(
    ("marked", "python", "shell"),
    [
        (f"{arg:method.n_samples=170}", "n_samples=170", "--n-samples 170"),
        (f"{arg:method.rule=midpoint}", "rule='midpoint'", "--set rule=midpoint"),
        (f"{arg:method.n_samples}", "n_samples=", "--n-samples"),
        (f"{arg:question.target=(3, 1)}", "target=(3, 1)", "--target 3,1"),
        (f"{arg:question.target}", "target=", "--target"),
        (f"{arg:predictor.layout=TBD}", "tg.Predictor(model, layout='TBD')", "--model-layout TBD"),
        (f"{arg:series.mask=nan}", "tg.Series(x, mask='nan')", "--missing mask"),
        (f"{arg:source.trust=True}", "trust=True", "--trust"),
        (f"{arg:source.id=None}", "id=None", "--id none"),
        (f"{arg:series.lengths=padded}", "series.padded()", "--lengths padded"),
    ],
)
def test_an_argument_is_written_as_its_reader_writes_it(marked, python, shell):
    assert (said(marked), said(marked, "shell")) == (python, shell)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.InputError, "input"),
        (errors.SettingError, "setting"),
        (errors.ModelError, "model"),
        (errors.DataError, "data"),
        (errors.OutputError, "output"),
    ],
)
def test_an_error_carries_its_finding_to_other_processes(kind, code):
    error = kind(f"pass {arg:question.target=0}\x1b.", steps=3)
    for found in (error, pickle.loads(pickle.dumps(error))):  # noqa: S301  # our own
        assert (found.code, found.finding.severity, found.finding.data) == (code, "refusal", {"steps": 3})
        assert str(found) == r"pass target=0\x1b."
        assert found.finding.say("shell") == r"pass --target 0\x1b."
    assert kind("x", code="series.nan").code == "series.nan"


def test_errors_with_other_arguments_have_codes_too():
    assert errors.MissingExtraError("captum", "captum").code == "extra"
    assert errors.UnknownNameError("metric", "cdp", ["cpd"]).code == "name"


X = torch.randn(4, 6, 2, generator=torch.Generator().manual_seed(0))


def test_a_warning_is_a_finding_of_the_explanation_and_says_where_it_came_from():
    model = tg.Predictor(lambda z: z.flatten(1)[:, :2], task="classification")
    with pytest.warns(tg.TempogradWarning, match="draws=4 makes no difference") as caught:
        found = tg.explain(model, X, "occlusion", draws=4)
    assert caught[0].filename == __file__
    assert caught[0].message.finding == Finding("draws.unused", "warning", {"draws": 4})
    assert caught[0].message.finding in found.findings
    again = tg.explain(model, X, "occlusion")
    assert [finding.severity for finding in again.findings] == ["assumption"] * 2  # nothing of the call before


def test_what_is_counted_keeps_its_arguments_marked():
    with errors.counted_warnings() as counts:
        errors.warn("draws.unused", draws=4)
        errors.warn("draws.unused", draws=5)
    assert list(counts) == [Finding("draws.unused", "warning", {"draws": 4}).marked]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        counts.say()
    (line,) = (each.message.finding.say("shell") for each in caught)
    assert line.startswith("--draws 4 makes no difference")
