"""One rule says which channel matters most, in the report, in pictures and on the command line.

FIT and WinIT give scores below 0 to values that matter less than nothing. Here are three channels: "much" matters
most, "little" a little, and "less" has the largest numbers, all of them below 0.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

import tempograd as tg
from tempograd import plots
from tempograd.html_report import report
from tempograd.views import series
from tempograd.views.groups import channel_sums
from tests.helpers.pictures import view
from tests.helpers.report_page import Page

COUNT, TIME = 5, 6
NAMES = ("less", "little", "much")
RANKED = ("much", "little", "less")


def model(x):
    return torch.stack([x.sum((1, 2)), -x.sum((1, 2))], 1)


@pytest.fixture
def scores():
    part = torch.rand(COUNT, TIME, 3, generator=torch.Generator().manual_seed(0)) + 0.5
    return part * torch.tensor([-9.0, 0.1, 1.0])


def unsigned(scores, *, signed=False):
    x = torch.randn(COUNT, TIME, 3, generator=torch.Generator().manual_seed(1))
    made = tg.explain(model, tg.Series(x, channels=NAMES), "random", target=0)
    return replace(made, values=scores, method="fit", signed=signed)


def expected(scores):
    """Of each channel in each series, what its values above 0 sum to."""
    return [[sum(max(v, 0.0) for v in scores[i, :, d].tolist()) for d in range(3)] for i in range(COUNT)]


def test_scores_below_0_count_as_nothing_and_only_without_a_sign(scores):
    assert series.sizes(unsigned(scores)).sum(1).tolist() == [pytest.approx(row) for row in expected(scores)]
    assert torch.equal(series.sizes(unsigned(scores, signed=True)), scores.abs())


def test_the_summary_of_the_report(scores, tmp_path):
    found = unsigned(scores)
    group, totals = channel_sums(found), np.array(expected(scores))
    np.testing.assert_allclose(group.size[:, 0], totals.mean(0), rtol=1e-5)
    np.testing.assert_allclose(group.mean, group.size)  # there is no direction
    packed = Page(report(tmp_path / "r.html", model, found)).content
    size = packed["summary"]["maps"][0][0]["size"]
    assert tuple(packed["channels"][d] for d in np.argsort(-size)) == RANKED


def test_the_channels_of_a_series_in_the_report(scores, tmp_path):
    packed = Page(report(tmp_path / "r.html", model, unsigned(scores))).content["maps"][0]
    np.testing.assert_allclose(packed["effect"].reshape(COUNT, 3), expected(scores), rtol=1e-5)
    best = scores.clamp(min=0).flatten(1)
    assert (packed["limit"] <= best.amax(1).numpy() + 1e-6).all()  # else the full colour would be for nothing
    first = packed["order"].reshape(COUNT, -1)[:, 0]
    assert first.tolist() == best.argmax(1).tolist()


def test_series_that_differ_are_chosen_by_what_matters(scores):
    """The strongest and the weakest of five, by the sum of what is above 0."""
    total = torch.tensor(expected(scores)).sum(1)
    assert series.chosen(unsigned(scores), None, 2) == sorted([int(total.argmin()), int(total.argmax())])


def test_the_picture_of_drivers(scores):
    axes = plots.channel_importance(unsigned(scores)).axes[0]
    assert tuple(label.get_text() for label in axes.get_yticklabels()) == RANKED
    signed = channel_sums(unsigned(scores, signed=True))
    assert signed.channels[int(signed.size.argmax())] == "less"


def test_pictures_of_a_series_show_the_strongest_channels(scores):
    found = unsigned(scores)
    assert view(found, channels=1).channels == ("much",)
