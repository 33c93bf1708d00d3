"""How every picture looks: its size, its place, colours and dashes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from tempograd.core import validation
from tempograd.core.errors import InputError, MissingExtraError, brief, listed
from tempograd.views.palette import INPUT, METHODS, STOPS

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

    from tempograd.plots.picture import Picture

Width = Literal["column", "text"] | float | None
WIDTHS = {"column": 3.25, "text": 6.75}  # inches: of a column and of a page of two, as most journals have them
NARROW = 4.6  # inches below which panels stand below each other
SIZE = 8  # points of letters, unless the user chose others
PAPER, HATCH = "#f3f4f6", "////"  # below and in the hatching of what was not observed
METHOD_DASHES = ("-", "--", ":", "-.")


class Look(TypedDict, total=False):
    """What every picture takes: its title, its width, and its place in a figure of the user's."""

    title: str | None
    width: Width
    ax: Any


def inches(usual: float, look: Look) -> float:
    """Return how wide a picture is: as its place, as was asked for, or as usual."""
    if unknown := set(look) - set(Look.__annotations__):
        raise TypeError(f"A picture has no option {min(unknown)!r}; all take {listed(Look.__annotations__)}.")
    width = look.get("width")
    if look.get("ax") is not None:
        return wide(look["ax"])
    if isinstance(width, str):
        return WIDTHS[validation.check_choice(width, "width", tuple(WIDTHS))]
    return usual if width is None else validation.check_float(width, "width")


def wide(picture: Any) -> float:
    """Return how wide a figure, or its part, is in inches."""
    return float(picture.bbox.width / picture.figure.dpi)


@contextmanager
def drawing(width: float, height: float, look: Look | None = None) -> "Iterator[Picture]":
    """Give an empty figure of this size in inches, to be filled inside the block in our style.

    With ``ax`` that is the part of the user's figure where these axes are, or that figure. Heights are for
    letters of our size, and grow with the user's.
    """
    try:
        from tempograd.plots.picture import Picture, drawn_with, house  # noqa: PLC0415  # it needs matplotlib
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plots") from error
    found, place = drawn_with(), (look or {}).get("ax")
    with house(found):
        if place is None:
            size = (width, height * found["font.size"] / SIZE)
            yield Picture(figsize=size, layout="constrained", settings=found)
            return
        figure, tall = place.figure, place.bbox.height / place.figure.dpi
        if tall < height / 2:
            raise InputError(f"ax is {tall:.1f} inches high, and the picture takes about {height:.1f}.")
        if figure.get_layout_engine() is None:
            figure.set_layout_engine("constrained")
        if not hasattr(place, "get_subplotspec"):
            yield place
            return
        spec = place.get_subplotspec()
        if spec is None:
            raise InputError(f"ax must be a figure, or axes of a grid as from plt.subplots, got {brief(place)}.")
        place.remove()
        yield figure.add_subfigure(spec)


def letters(picture: Any, size: float = 1.0) -> int:
    """Return how many letters of a size, as a share of the usual one, fit beside each other in a picture."""
    from matplotlib import rcParams  # noqa: PLC0415  # an extra

    return max(12, int(72 * wide(picture) / (0.53 * size * rcParams["font.size"])))


def colours(*, signed: bool | None) -> "Colormap":
    """Return the colours of attribution: blue, white, orange from -1 to 1, or white to purple from 0 to 1.

    None stands for those of values: light to dark green, a hue that no attribution has.
    """
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415  # an extra

    stops = {True: (*reversed(STOPS["down"]), *STOPS["up"][1:]), False: STOPS["size"], None: INPUT}
    return LinearSegmentedColormap.from_list("tempograd", stops[signed])


def method_style(index: int) -> dict[str, Any]:
    """Return colour and dashes of the curve of a method; no two of the first eight have the same of both."""
    return {"color": METHODS[index % len(METHODS)], "linestyle": METHOD_DASHES[index % len(METHOD_DASHES)]}
