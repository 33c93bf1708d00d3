"""A matplotlib figure in our style. Only imported once something is drawn, because it needs matplotlib."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import rcParams
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure

from tempograd.core.io import write_atomically
from tempograd.views.palette import FRAME, INK, MUTED

SETTINGS: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": FRAME,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 8.5,
    "figure.facecolor": "white",
    "figure.titlesize": 10.5,
    "font.family": "DejaVu Sans",  # comes with matplotlib, so a picture is the same everywhere
    "font.size": 8,
    "hatch.linewidth": 0.4,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "savefig.facecolor": "white",
    "svg.hashsalt": "tempograd",  # the same picture gives the same file
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a channel's name is a dollar sign
    "xtick.color": FRAME,
    "xtick.labelcolor": MUTED,
    "xtick.labelsize": 7.5,
    "xtick.major.size": 2.5,
    "ytick.color": FRAME,
    "ytick.labelcolor": MUTED,
    "ytick.labelsize": 7.5,
    "ytick.major.size": 2.5,
}


@contextmanager
def house() -> Iterator[None]:
    """Draw in our style: no setting of the user's reaches the picture, and none of ours stays behind."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from")  # of a user's name; the box says it
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)  # type: ignore[arg-type]  # its stubs list every key
        yield


class Picture(Figure):
    """A figure that is drawn and saved in our style, and that shows itself in a notebook.

    It is no part of ``pyplot``: nothing has to be closed, and no window opens. Save it with
    ``picture.savefig("name.png")`` (or ``.svg``, ``.pdf``), or leave it as the last line of a notebook's cell.
    """

    def draw(self, renderer: RendererBase) -> None:
        """Draw in our style, since matplotlib looks some settings up this late."""
        with house():
            super().draw(renderer)

    def savefig(self, fname: Any, **options: Any) -> None:
        """Save in our style, and without the date, so that the same picture is the same file."""
        if not isinstance(fname, (str, Path)):
            self._save(fname, **options)
            return
        path, kind = Path(fname), options.pop("format", None)
        if kind is None and not path.suffix:
            kind = rcParams["savefig.format"]
            path = path.with_name(f"{path.name}.{kind}")
        kind = kind or path.suffix[1:]
        write_atomically(path, lambda temporary: self._save(temporary, format=kind, **options))

    def _save(self, fname: Any, **options: Any) -> None:
        if str(options.get("format")).lower() == "svg":
            options["metadata"] = {"Date": None} | (options.get("metadata") or {})
        with house():
            super().savefig(fname, **options)

    def _repr_png_(self) -> bytes:
        """Show the picture where a notebook would print its name."""
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()
