"""How every picture looks: colours, fonts, and a figure that keeps to them whatever the user's settings are."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tempograd.core.errors import MissingExtraError
from tempograd.views.palette import INPUT, METHODS, STOPS

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

    from tempograd.plots.picture import Picture

P = ParamSpec("P")
Record = TypeVar("Record")
PAPER, HATCH = "#f3f4f6", "////"  # below and in the hatching of what was not observed
METHOD_DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1, 1)),
    (0, (6, 1.5, 1, 1.5)),
    (0, (10, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (2, 3)),
    (0, (8, 2, 3, 2)),
)


@contextmanager
def drawing(width: float, height: float, layout: str | None = "constrained") -> Iterator["Picture"]:
    """Give an empty figure of this size in inches, to be filled inside the block in our style."""
    try:
        from tempograd.plots.picture import Picture, house  # noqa: PLC0415  # it needs matplotlib, an extra
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plots") from error
    with house():
        yield Picture(figsize=(width, height), layout=layout)  # type: ignore[arg-type]  # one of its words


def input_colours() -> "Colormap":
    """Return the colours of values: light to dark green, a hue that no attribution has."""
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415  # an extra

    return LinearSegmentedColormap.from_list("input", INPUT)


def colours(*, signed: bool) -> "Colormap":
    """Return the colours of attribution: blue, white, orange from -1 to 1, or white to purple from 0 to 1."""
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415  # an extra

    stops = (*reversed(STOPS["down"]), *STOPS["up"][1:]) if signed else STOPS["size"]
    return LinearSegmentedColormap.from_list("signed" if signed else "size", stops)


def method_style(index: int) -> dict[str, Any]:
    """Return colour and dashes of the curve of a method; no two of the first eight have the same dashes."""
    return {
        "color": METHODS[index % len(METHODS)],
        "linestyle": METHOD_DASHES[index % len(METHOD_DASHES)],
    }


def drawn(record: Callable[P, Record], draw: "Callable[[Record], Picture]") -> "Callable[P, Picture]":
    """Return the function that computes a record and draws it: what it takes and says is what ``record`` does."""

    @wraps(record)
    def plot(*args: P.args, **options: P.kwargs) -> "Picture":
        return draw(record(*args, **options))

    plot.__name__ = plot.__qualname__ = record.__name__.removesuffix("_record")
    plot.__signature__ = signature(record).replace(return_annotation="Picture")  # type: ignore[attr-defined]
    return plot
