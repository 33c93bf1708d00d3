"""Pictures: what is written in them, and what the stored ones are compared with."""

from pathlib import Path

import matplotlib
import pytest
import torch
from matplotlib.figure import Figure

import tempograd as tg
from tempograd.views.labels import as_mapping
from tempograd.views.prediction import series_view
from tests.helpers.explanations import waves

TOLERANCE = 4  # root mean square of 0 … 255: rounding gives less, a bar that is missing more
DPI = 50


def stored(test: str) -> Path:
    """Return the folder of the pictures that a test compares with, given its file."""
    return Path(test).parent / "pictures"


def check_picture(figure: Figure, path: Path, folder: Path, *, renewing: bool) -> None:
    """Compare a drawing with the stored one, or store it where the two differ."""
    from matplotlib.testing.compare import compare_images
    from matplotlib.testing.exceptions import ImageComparisonFailure

    if matplotlib.__version_info__ < (3, 11):
        pytest.skip("matplotlib before 3.11 sets letters in another way")
    found = folder / path.name
    figure.savefig(found, dpi=DPI)
    missing = None if path.exists() else "no such picture is stored"
    try:
        difference = missing or compare_images(str(path), str(found), TOLERANCE)
    except ImageComparisonFailure as error:  # of another size
        difference = str(error)
    if renewing and difference is not None:
        path.write_bytes(found.read_bytes())
    else:
        assert difference is None, f"{difference}: make snapshots stores it, look at it before you commit it"


def quadratic(x):
    """Return a score that grows with the square of channel 0, and with channel 1 early on."""
    return (x[..., 0].square().sum(1) / 10 - x[:, :5, 1].sum(1))[:, None]


def three_methods():
    x = waves(series=6, channels=2).x
    return [tg.explain(quadratic, x, method, output="raw") for method in ("timing", "occlusion", "random")]


def view(found, i=0, **options):
    """Return what a picture shows of one series, by one method or by several."""
    return series_view(as_mapping(found), i, **options)


def texts(picture) -> list[str]:
    """Return everything that is written in a picture."""
    from matplotlib.text import Text

    return [text.get_text() for text in picture.findobj(Text) if text.get_text()]


def linear_forecast():
    """Return an explained forecast of the day ahead from three days, and its model."""
    hour = torch.arange(72.0)
    day = torch.stack([(hour * torch.pi / 12).sin(), (hour * torch.pi / 12).cos(), (hour * 1.7).sin()], 1)
    weight = torch.zeros(24, 72, 3)
    for step in range(24):
        weight[step, 48 + step, 0], weight[step, 24 + step, 0] = 0.7, 0.2  # as yesterday, and the day before
        weight[step, 71, 1] = -0.4 * 0.8**step

    def model(z):
        return torch.einsum("btd,htd->bh", z, weight)

    series = tg.Series(day[None], channels=["load", "temperature", "wind"])
    return tg.explain(model, series, "integrated_gradients", n_steps=2, output="raw", targets="all"), model
