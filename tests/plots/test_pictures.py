"""Every drawing against a stored picture, with a tolerance.

``make snapshots`` makes those anew that differ: look at them before you commit them.
"""

from dataclasses import replace

import pytest
import torch

from tempograd import plots
from tests.helpers.explanations import HOSTILE, waves, with_gaps
from tests.helpers.pictures import check_picture, linear_forecast, quadratic, stored, three_methods

pytestmark = [pytest.mark.exact_draws, pytest.mark.slow]
STORED = stored(__file__)


def series():
    explanation = replace(waves(channels=4), channels=(*HOSTILE, "never measured"))
    truth = torch.zeros_like(explanation.x)
    truth[:, 8:14, 1] = 1
    return plots.series(with_gaps(explanation), 1, truth=truth)


def series_without_direction():
    return plots.series(
        replace(waves(time=12, channels=1), signed=False, times=tuple(f"{t}:00" for t in range(12)))
    )


def horizon():
    return plots.horizon(linear_forecast()[0])


def compare():
    return plots.compare([with_gaps(each) for each in three_methods()], 1)


def channel_importance():
    explanation = replace(waves(series=9, channels=6), classes=("healthy", "$ill$"))
    return plots.channel_importance(with_gaps(explanation), 0)


def removal():
    return plots.removal(quadratic, three_methods())


DRAWINGS = {
    function.__name__: function
    for function in (
        series,
        series_without_direction,
        horizon,
        compare,
        channel_importance,
        removal,
    )
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawing_looks_as_it_did(name, tmp_path, renewing):
    check_picture(DRAWINGS[name](), STORED / f"{name}.png", tmp_path, renewing=renewing)


def test_every_stored_picture_is_compared():
    assert {path.stem for path in STORED.glob("*.png")} == set(DRAWINGS)
