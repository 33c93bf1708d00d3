"""A matplotlib figure in our style. Only imported once something is drawn, because it needs matplotlib."""

from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure

from tempograd.plots.style import house


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
        kind = options.get("format") or (Path(fname).suffix[1:] if isinstance(fname, (str, Path)) else "")
        if kind.lower() == "svg":
            options["metadata"] = {"Date": None} | (options.get("metadata") or {})
        with house():
            super().savefig(fname, **options)

    def _repr_png_(self) -> bytes:
        """Show the picture where a notebook would print its name."""
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()
