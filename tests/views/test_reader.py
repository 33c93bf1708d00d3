"""How sure an explanation is, in the reader's words: the same numbers as the verdict, and nothing to type."""

import re

import pytest
import torch

import tempograd as tg
from tempograd.core.errors import InputError
from tempograd.views.drivers import reader_verdict
from tests.helpers.explanations import made, waves
from tests.helpers.models import Risk, patients, series, smooth


def rough(error, cells=12, ess=50.0, **parts):
    """Scores from 1 to 12, each with the standard error of a share of it."""
    values = torch.arange(1.0, cells + 1).view(1, cells, 1)
    spread = error * values if not isinstance(error, torch.Tensor) else error.view(1, cells, 1)
    return made(values, standard_error=spread, ess=torch.full_like(values, ess), **parts)


def test_converged_and_rough_with_the_size_of_the_error(said):
    """The relative error is √(2/π) Σ s / Σ |A|: 0.8 times the share."""
    for share in (0.05, 0.225, 3.0):
        found = reader_verdict(rough(share))
        expected = 0.7979 * share
        assert found.badge == ("converged" if expected <= 0.105 else "rough")
        if expected <= 1:
            assert float(re.search(r"about ([\d.]+) %", found.text)[1]) == pytest.approx(100 * expected, rel=0.05)
        said(found.text)


@pytest.mark.parametrize("method", ["timing", "integrated_gradients", "occlusion", "random"])
def test_it_agrees_with_the_verdict_and_asks_for_nothing(method, said):
    model, x = smooth(6, 2).float(), series(4, 6, 2)
    found = tg.explain(model, x, method)
    good = {"converged": "converged", "exact": ("complete", "no sampling"), "rough": "not", "unknown": "no error"}
    for i in (None, 0, 3):
        reader = reader_verdict(found, i)
        assert found.verdict(i).startswith(good[reader.badge])
        assert not re.search(r"pass|=|tolerance|n_samples|_", reader.text)


def test_what_no_samples_mend(said):
    model, x = Risk(), patients()
    with pytest.warns(tg.TempogradWarning, match="gradient is not that of the prediction"):
        found = tg.explain(tg.Predictor(lambda z: (3 * model(z)).round() / 3 + 0 * model(z), task="regression"), x)
    rounded = reader_verdict(found)
    assert rounded.badge == "unreliable"
    said(rounded.text)
    blank = made(torch.zeros(2, 3, 1), delta=torch.tensor([0.5, 0.5]))
    assert reader_verdict(blank).badge == "unreliable"
    said(reader_verdict(blank).text)
    undefined = made(torch.ones(1, 3, 1), delta=torch.tensor([torch.nan]))
    assert reader_verdict(undefined).badge == "unknown"
    said(reader_verdict(undefined).text)
    noisy = made(torch.ones(1, 3, 1), varies=True)
    said(reader_verdict(noisy).text)
    nothing = made(torch.zeros(1, 3, 1), mask=torch.zeros(1, 3, 1, dtype=torch.bool))
    assert reader_verdict(nothing).text == "nothing was explained"


def test_many_series(said):
    values = torch.ones(40, 3, 1)
    error = torch.full_like(values, 0.04)
    ess = torch.full_like(values, 60.0)
    said(reader_verdict(made(values, standard_error=error, ess=ess)).text)
    error[7] = 0.4
    said(reader_verdict(made(values, standard_error=error, ess=ess)).text)
    error[7:20] = 0.4
    said(reader_verdict(made(values, standard_error=error, ess=ess)).text)


def test_a_series_that_is_not_there(said):
    said.refused(InputError, reader_verdict, waves(), 9)
