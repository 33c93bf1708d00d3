"""A matplotlib figure in our style. Only imported once something is drawn, because it needs matplotlib."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import matplotlib
from matplotlib import rcParams
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure

from tempograd.views.palette import FRAME, INK, MUTED

HOUSE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": FRAME,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "figure.titlesize": 10,
    "font.size": 8,
    "hatch.linewidth": 0.4,
    "legend.fontsize": "medium",
    "legend.frameon": False,
    "pdf.fonttype": 42,  # outlines that a journal can embed: many refuse type 3, matplotlib's default
    "ps.fonttype": 42,
    "savefig.dpi": 200,
    "savefig.facecolor": "white",
    "svg.hashsalt": "tempograd",  # the same picture gives the same file
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a channel's name is a dollar sign
    "xtick.color": FRAME,
    "xtick.labelcolor": MUTED,
    "xtick.major.size": 2.5,
    "ytick.color": FRAME,
    "ytick.labelcolor": MUTED,
    "ytick.major.size": 2.5,
}
THEIRS = ("font.", "mathtext.", "savefig.", "figure.dpi"), ("titlesize", "labelsize", "fontsize", "fonttype")


def drawn_with() -> dict[str, Any]:
    """Return our settings, with the fonts and the sizes of letters that the user has chosen."""
    default = matplotlib.rcParamsDefault
    theirs = {name: rcParams[name] for name in default if name.startswith(THEIRS[0]) or name.endswith(THEIRS[1])}
    changed: dict[str, Any] = {str(name): value for name, value in theirs.items() if value != default[name]}
    larger = {"figure.titlesize": "large"} if "font.size" in changed else {}
    return HOUSE | larger | changed


@contextmanager
def house(found: dict[str, Any]) -> Iterator[None]:
    """Draw with some of :func:`drawn_with`; no setting stays behind."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from")  # of a user's name; the box says it
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(found)  # type: ignore[arg-type]  # its stubs list every key
        yield


class Picture(Figure):
    """A figure that is drawn and saved with the settings that it was made with, and shows itself in a notebook.

    It is no part of ``pyplot``: nothing has to be closed, and no window opens. Save it with
    ``picture.savefig("name.pdf")`` (or ``.svg``, ``.png``), or leave it as the last line of a notebook's cell.
    """

    def __init__(self, *args: Any, settings: dict[str, Any], **options: Any) -> None:
        super().__init__(*args, **options)
        self._settings = settings

    def draw(self, renderer: RendererBase) -> None:
        """Draw in our style, since matplotlib looks some settings up this late; what was laid out once stays."""
        with house(self._settings):
            super().draw(renderer)
            self.set_layout_engine("none")  # it would move things a little each time

    def savefig(self, fname: Any, **options: Any) -> None:
        """Save in our style."""
        with house(self._settings):
            super().savefig(fname, **options)

    def _repr_png_(self) -> bytes:
        """Show the picture where a notebook would print its name."""
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()
