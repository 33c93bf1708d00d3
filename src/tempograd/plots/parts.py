"""How every picture looks, and what several share: sizes, colours, axes, ticks, hatching, cells in colour."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

import numpy as np

from tempograd.core import validation
from tempograd.core.errors import InputError, MissingExtraError, brief, listed
from tempograd.core.formatting import alike, short_number
from tempograd.views import labels, palette
from tempograd.views.palette import INPUT, METHODS, STOPS
from tempograd.views.series import Flags, Floats, Scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.image import AxesImage

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
    found = drawn_with()
    place: Any = (look or {}).get("ax")
    with house(found):
        if place is None:
            size = (width, height * found["font.size"] / SIZE)
            place = Picture(figsize=size, layout="constrained", settings=found)
        elif place.figure.get_layout_engine() is None:
            place.figure.set_layout_engine("constrained")
        if hasattr(place, "get_subplotspec"):
            figure, spec = place.figure, place.get_subplotspec()
            if spec is None:
                raise InputError(f"ax must be a figure, or axes as from plt.subplots, got {brief(place)}.")
            place.remove()
            place = figure.add_subfigure(spec)
        yield place


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


# Parts of several pictures

TICKS = 8
WIDEST = 16  # letters of a name at a time axis
FINEST = 600  # steps that can be told apart in the width of a picture
DASHED = 0.2  # of the full colour: from here on a cell that pushes down has a dash


def runs(flags: Flags) -> list[tuple[int, int]]:
    """Return where runs of True begin and end, the end excluded.

    Examples
    --------
    >>> runs(np.array([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def strongest_of_groups(values: Floats, most: int) -> tuple[Any, int]:
    """Return the step with the largest value of each group of steps, at most ``most`` groups, and their width.

    A picture has only so many pixels. Means would hide a single strong step; the strongest one stays in sight.

    Examples
    --------
    >>> strongest_of_groups(np.array([0.0, -3.0, 1.0, 2.0, 5.0]), 3)
    (array([1, 3, 4]), 2)
    """
    width = max(math.ceil(len(values) / most), 1)
    starts = range(0, len(values), width)
    return np.array([start + int(np.abs(values[start : start + width]).argmax()) for start in starts]), width


def step_ticks(steps: int, most: int = TICKS) -> list[int]:
    """Return round positions for the ticks of a time axis.

    Examples
    --------
    >>> step_ticks(48), step_ticks(1), step_ticks(10_000)
    ([0, 10, 20, 30, 40], [0], [0, 2000, 4000, 6000, 8000])
    """
    distance = next(
        factor * 10**power for power in range(19) for factor in (1, 2, 5) if steps <= factor * 10**power * most
    )
    return list(range(0, steps, distance))


def time_axis(axes: "Axes", times: Sequence[str], label: str | None = "time") -> None:
    """Name some of the steps, as many as have room."""
    named = [labels.name(time, WIDEST) for time in labels.short_times(tuple(times))]
    places = step_ticks(len(times), min(TICKS, _room(axes, max(map(len, named)))))
    if len(times) > 1 and times[-1] == labels.STATIC:  # which is no step among others
        apart = (places[1] if len(places) > 1 else 1) / 2
        places = [*(t for t in places if len(times) - 1 - t > apart), len(times) - 1]
    axes.set_xticks(places, [named[t] for t in places])
    axes.set_xlim(-0.5, len(times) - 0.5)
    if label is not None:
        axes.set_xlabel(label)


def _room(axes: "Axes", longest: int) -> int:
    """Return how many names of so many letters fit below an axis; those at its ends may stand out."""
    share, spec = axes.get_position().width, cast("Any", axes.get_subplotspec())
    if spec is not None:  # before names take room beside it
        ratios: list[float] = list(spec.get_gridspec().get_width_ratios())
        share = 0.85 * sum(ratios[column] for column in spec.colspan) / sum(ratios)
    return max(1, int(share * letters(axes.figure) / (longest + 4)))


def scale_ticks(axes: "Axes", low: float, high: float) -> None:
    """Let an axis reach a bit beyond two values, with a few round numbers at it."""
    pad = 0.1 * (high - low) or 1.0
    axes.set_ylim(low - pad, high + pad)
    value_ticks(axes)


def value_ticks(axes: "Axes", along: str = "y", most: int = 2) -> None:
    """Put a few round numbers at an axis."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: PLC0415  # an extra

    axis = axes.yaxis if along == "y" else axes.xaxis
    axis.set_major_locator(MaxNLocator(nbins=most, min_n_ticks=2, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(float(f"{value:.6g}"))))


def heading(picture: "Picture", text: str, look: Look | None = None) -> None:
    """Write the title of a picture: ``text``, or the one that was asked for; an empty one leaves it out."""
    title = (look or {}).get("title")
    written = labels.name(text if title is None else title, 160)
    if written:
        lines = textwrap.wrap(written, letters(picture, 1.35))
        picture.suptitle("\n".join(lines), x=0.012, ha="left", fontweight="bold")


def note(picture: "Picture", text: str) -> None:
    """Write below a picture how to read it."""
    lines = textwrap.wrap(text, letters(picture, 0.85))
    picture.supxlabel("\n".join(lines), fontsize="small", color=palette.MUTED)


def name_rows(axes: "Axes", names: Sequence[str]) -> None:
    """Name the rows of a picture, downwards."""
    axes.set_yticks(range(len(names)), [labels.name(name) for name in names])
    axes.tick_params(axis="y", length=0, labelcolor=palette.INK)
    axes.set_ylim(len(names) - 0.4, -0.6)


def numbers_beside(axes: "Axes", numbers: Sequence[float], head: str = "") -> None:
    """Write a number at the right of each row."""
    right = axes.twinx()
    right.set_ylim(*axes.get_ylim())
    right.set_yticks(range(len(numbers)), alike(*numbers))
    right.tick_params(axis="y", length=0)
    right.spines[:].set_visible(False)
    right.text(1.01, 1.01, head, transform=right.transAxes, color=palette.MUTED)


def left_out_text(shown: int, left_out: int) -> str:
    """Say behind a title how many channels are shown, where some are not.

    Examples
    --------
    >>> left_out_text(24, 176), left_out_text(3, 0)
    ('  ·  24 of 200 channels', '')
    """
    return f"  ·  {shown} of {shown + left_out} channels" if left_out else ""


def draw_bars(axes: "Axes", place: Any, values: Floats, width: float, colours: Sequence[str]) -> None:
    """Draw bars from 0 as one collection, which is many times faster than one object for each."""
    from matplotlib.collections import PolyCollection  # noqa: PLC0415  # an extra

    left, right, zero = place - width / 2, place + width / 2, np.zeros(len(values))
    corners = np.stack([left, zero, left, values, right, values, right, zero], -1).reshape(-1, 4, 2)
    axes.add_collection(PolyCollection(list(corners), facecolors=list(colours), linewidths=0, snap=True))


def hatch_missing(axes: "Axes", observed: Flags) -> None:
    """Hatch the steps that were not observed; of many steps the groups in which none was."""
    width = max(math.ceil(len(observed) / FINEST), 1)
    groups = [observed[start : start + width].any() for start in range(0, len(observed), width)]
    spans = [(start * width - 0.5, (stop - start) * width) for start, stop in runs(~np.array(groups))]
    look: dict[str, Any] = {"facecolor": PAPER, "edgecolor": palette.MISSING, "hatch": HATCH}
    if spans:
        axes.broken_barh(spans, (0, 1), transform=axes.get_xaxis_transform(), linewidth=0, zorder=0.5, **look)


def cells(axes: "Axes", shades: Floats, observed: Flags, colours: Any, low: float) -> "AxesImage":
    """Draw (time, channel) cells in colour, from ``low`` to 1, channels downwards; hatched: not observed."""
    steps, depth = shades.shape
    axes.set_facecolor(PAPER)
    axes.patch.set(hatch=HATCH, edgecolor=palette.MISSING)
    shown = np.ma.masked_array(shades, ~observed).T
    box = (-0.5, steps - 0.5, depth - 0.5, -0.5)
    image = axes.imshow(
        shown, cmap=colours, vmin=low, vmax=1, aspect="auto", interpolation="nearest", extent=box, resample=False
    )
    for side in axes.spines.values():
        side.set_visible(True)
    return image


def draw_dashes(axes: "Axes", shades: Floats, observed: Flags) -> None:
    """Mark the cells that push down, so that the sign can be read in grey; one dash for a run of steps."""
    from matplotlib.collections import LineCollection  # noqa: PLC0415  # an extra

    dashes = [
        (start - 0.25, stop - 0.75, d, bool(shades[start:stop, d].mean() < -0.6))
        for d in range(shades.shape[1])
        for start, stop in runs((shades[:, d] <= -DASHED) & observed[:, d])
    ]
    for dark, colour in ((True, "white"), (False, palette.DOWN)):
        lines = [((start, d), (stop, d)) for start, stop, d, on_dark in dashes if on_dark == dark]
        axes.add_collection(LineCollection(lines, colors=colour, linewidths=0.8))


def map_note(picture: "Picture", *, signed: bool, missing: bool) -> None:
    """Say below heat maps what dashes and hatching mean."""
    parts = ["orange pushes up, blue with a dash pushes down"] * signed + ["hatched: not observed"] * missing
    if parts:
        note(picture, "; ".join(parts))


def scale_bar(picture: "Picture", image: "AxesImage", axes: Any, ticks: dict[float, str]) -> None:
    """Draw the scale of heat maps beside them, with the numbers or words of its ticks."""
    bar = picture.colorbar(image, ax=axes, fraction=0.05, pad=0.02, aspect=25)
    bar.set_ticks(list(ticks), labels=list(ticks.values()))
    bar.outline.set_linewidth(0.4)


def score_ticks(found: Scores, limit: float) -> dict[float, str]:
    """Return the ticks of attribution, where 1 is the full colour."""
    full = short_number(limit)
    if limit == 0:
        return {0: "0"}
    return {-1: f"−{full}", 0: "0", 1: f"+{full}"} if found.signed else {0: "0", 1: full}
