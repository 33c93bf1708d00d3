"""Heat maps: the input beside its attribution for some series, or by several methods for one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from tempograd.core import validation
from tempograd.explanation import Explanation
from tempograd.plots import style
from tempograd.plots.parts import (
    cells,
    draw_dashes,
    heading,
    left_out_text,
    map_note,
    scale_bar,
    score_ticks,
    time_axis,
)
from tempograd.typing import Array, ArrayLike, ChannelOrder, Channels, Model
from tempograd.views import labels
from tempograd.views.labels import Compared, as_mapping, time_names
from tempograd.views.prediction import series_views, shaded
from tempograd.views.series import Flags, Scores, position

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

MOST = 24  # channels shown where nobody says how many


def heatmap(
    explanation: Explanation,
    i: int | str | Sequence[int | str] = 0,
    *,
    model: Model | None = None,
    x: Array | None = None,
    y: ArrayLike | None = None,
    channels: Channels | None = None,
    order: ChannelOrder = "effect",
    classes: Sequence[str] | None = None,
    title: str | None = None,
    width: style.Width = None,
    ax: Any = None,
) -> "Picture":
    """Show the input and the attribution of some series, side by side.

    Cells that push the prediction down are blue and have a dash, cells that push it up are orange. Hatched: not
    observed. Inputs are shaded channel by channel, since channels have different units.

    Parameters
    ----------
    explanation : Explanation
    i : int, str, or sequence of them
        Positions or names of the series, one pair of maps each.
    channels : int, or sequence of str or int, optional
        How many of the strongest channels, or which; by default all, but no more than 24.
    order : {"effect", "given"}
        Whether the channels with the largest attribution over all of these series come first.
    model, x, y, classes, title, width, ax
        As for :func:`series`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    validation.check_choice(order, "order", get_args(ChannelOrder))
    rows = list(i) if isinstance(i, Sequence) and not isinstance(i, str) else [i]
    views = series_views(
        explanation, rows, model=model, x=x, y=y, channels=channels, classes=classes, most=MOST, order=order
    )
    times = time_names(explanation, [position(explanation, row) for row in rows])
    shades = shaded(np.stack([view.x for view in views]), np.stack([view.observed for view in views]))
    count, depth = len(views), len(views[0].channels)
    room = style.inches(width, 8.2, ax)
    across = 1 if room < style.NARROW else 2
    tall = (3 - across) * count * (0.45 + max(0.115 * depth, 0.7)) + 0.9
    with style.drawing(room, tall, ax) as picture:
        grid = picture.subplots(2 * count // across, across, squeeze=False, sharex=True)
        for place, (left, right) in enumerate(grid.reshape(-1, 2)):
            view, found = views[place], views[place].scores[0]
            values = cells(left, shades[place], view.observed, style.input_colours(), 0)
            scored = draw_scores(right, found, view.observed, view.limits[0])
            told = f"Series {labels.name(str(view.id))}  ·  {view.said.text}"
            left.set_title(told if across > 1 else labels.name(told, style.letters(picture) - 8))
            channel_axis(left, view.channels)
            channel_axis(right, view.channels if across == 1 else [])
            scale_bar(picture, scored, right, score_ticks(found, view.limits[0]))
        for axes in grid[-1]:
            time_axis(axes, times)
        scale_bar(picture, values, grid.reshape(-1, 2)[-1, 0], {0: "low", 1: "high"})
        found = views[0].scores[0]
        map_note(picture, signed=found.signed, missing=not all(view.observed.all() for view in views))
        both = ("(left)", "(right)") if across > 1 else ("(above)", "(below)")
        text = f"Input {both[0]} and attribution by {labels.method(found.method)} {both[1]}"
        heading(picture, text + left_out_text(depth, views[0].left_out), title)
        return picture


def draw_scores(axes: "Axes", found: Scores, seen: Flags, full: float) -> Any:
    """Draw the scores of a series as cells in colour."""
    shade = np.clip(found.values / (full or 1.0), -1, 1)
    image = cells(axes, shade, seen, style.colours(signed=found.signed), -1 if found.signed else 0)
    if found.signed:
        draw_dashes(axes, shade, seen)
    return image


def channel_axis(axes: "Axes", channels: Sequence[str]) -> None:
    """Name the channels of a heat map."""
    size = "small" if len(channels) <= 30 else "x-small"
    axes.set_yticks(range(len(channels)), [labels.name(label, 18) for label in channels], fontsize=size)


def compare(
    explanations: Compared,
    i: int | str = 0,
    *,
    model: Model | None = None,
    x: Array | None = None,
    y: ArrayLike | None = None,
    channels: Channels | None = None,
    classes: Sequence[str] | None = None,
    title: str | None = None,
    width: style.Width = None,
    ax: Any = None,
) -> "Picture":
    """Show what several methods say about the same series.

    Every method has its own colour scale. Methods without direction are purple, from 0.

    Parameters
    ----------
    explanations : Explanation, or sequence or mapping of them
        Of the same series; the keys of a mapping are the titles.
    i : int or str
        Position of the series, or its name.
    channels : int, or sequence of str or int, optional
        How many of the channels that the first method finds strongest, or which; by default all, up to 24.
    model, x, y, classes, title, width, ax
        As for :func:`series`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    (view,) = series_views(
        as_mapping(explanations), [i], model=model, x=x, y=y, channels=channels, classes=classes, most=MOST
    )
    count, room = 1 + len(view.scores), style.inches(width, 8.5, ax)
    columns = min(max(1, int(room / 2.2)), 3, count)
    rows = -(-count // columns)
    room = room if width is not None or ax is not None else 1.6 + 2.3 * columns
    with style.drawing(room, rows * (0.42 + max(0.115 * len(view.channels), 0.8)) + 0.8, ax) as picture:
        grid = picture.subplots(rows, columns, squeeze=False, sharex=True)
        places = list(grid.flat)
        shade = shaded(view.x[None], view.observed[None])[0]
        image = cells(places[0], shade, view.observed, style.input_colours(), 0)
        places[0].set_title("the input")
        scale_bar(picture, image, places[0], {0: "low", 1: "high"})
        for axes, found, full in zip(places[1:], view.scores, view.limits, strict=False):
            shown = draw_scores(axes, found, view.observed, full)
            axes.set_title(labels.method(found.method) + ("" if found.signed else " (no direction)"))
            scale_bar(picture, shown, axes, score_ticks(found, full))
        for number, axes in enumerate(places):
            axes.set_visible(number < count)
            channel_axis(axes, view.channels if number % columns == 0 else [])
        for axes in places[max(count - columns, 0) : count]:
            axes.tick_params(labelbottom=True)
            time_axis(axes, view.times)
        signed = any(found.signed for found in view.scores)
        map_note(picture, signed=signed, missing=not view.observed.all())
        left_out = left_out_text(len(view.channels), view.left_out)
        heading(picture, f"Series {labels.name(str(view.id))}  ·  {view.said.text}{left_out}", title)
        return picture
