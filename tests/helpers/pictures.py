"""Pictures: what is written in them, and what the stored ones are compared with."""

from pathlib import Path

from matplotlib.figure import Figure

import tempograd as tg
from tests.helpers.explanations import waves

TOLERANCE = 4  # root mean square of 0 … 255: rounding gives less, a bar that is missing more
DPI = 50


def check_picture(figure: Figure, stored: Path, folder: Path, *, renewing: bool) -> None:
    """Compare a drawing with the stored one, or store it where the two differ."""
    from matplotlib.testing.compare import compare_images

    found = folder / stored.name
    figure.savefig(found, dpi=DPI)
    there = stored.exists()
    difference = compare_images(str(stored), str(found), TOLERANCE) if there else "no such picture is stored"
    if renewing and difference is not None:
        stored.write_bytes(found.read_bytes())
    else:
        assert difference is None, f"{difference}: make snapshots stores it, look at it before you commit it"


def quadratic(x):
    """Return a score that grows with the square of channel 0, and with channel 1 early on."""
    return (x[..., 0].square().sum(1) / 10 - x[:, :5, 1].sum(1))[:, None]


def three_methods():
    x = waves(series=6, channels=2).x
    return [tg.explain(quadratic, x, method, output="raw") for method in ("timing", "occlusion", "random")]


def texts(picture) -> list[str]:
    """Return everything that is written in a picture."""
    from matplotlib.text import Text

    return [text.get_text() for text in picture.findobj(Text) if text.get_text()]
