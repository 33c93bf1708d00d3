"""A matplotlib figure in our style. Only imported once something is drawn, because it needs matplotlib."""

from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib import rcParams
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure

from tempograd.core.io import write_atomically
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
