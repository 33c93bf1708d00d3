"""Pictures: what is written in them, and what the stored ones are compared with."""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

import tempograd as tg
from tests.helpers.explanations import waves

TOLERANCE = 4  # root mean square of 0 … 255: rounding gives less, a bar that is missing more
DPI = 50
OLDER = "before_3.11"  # matplotlib, which set letters in another way: the same pictures, with other letters


def stored(test: str) -> Path:
    """Return the folder of the pictures that a test compares with, given its file."""
    return Path(test).parent / "pictures" / (OLDER if matplotlib.__version_info__ < (3, 11) else "")


def check_picture(figure: Figure, path: Path, folder: Path, *, renewing: bool) -> None:
    """Compare a drawing with the stored one, or store it where the two differ."""
    from matplotlib.testing.compare import compare_images

    found = folder / path.name
    figure.savefig(found, dpi=DPI)
    missing = None if path.exists() else "no such picture is stored"
    difference = missing or compare_images(str(path), str(found), TOLERANCE)
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


def texts(picture) -> list[str]:
    """Return everything that is written in a picture."""
    from matplotlib.text import Text

    return [text.get_text() for text in picture.findobj(Text) if text.get_text()]
