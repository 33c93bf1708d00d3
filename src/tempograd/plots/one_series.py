"""One series with its attribution channel by channel, or as heat maps; and the heat map of a forecast."""

from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from tempograd.explanation import Explanation, Explanations
from tempograd.explanation.core import require
from tempograd.explanation.targets import called
from tempograd.plots import parts
from tempograd.typing import Channels
from tempograd.views import labels, palette
from tempograd.views.labels import Compared, as_mapping
from tempograd.views.prediction import SeriesView, series_view, shaded
from tempograd.views.series import Flags, Floats, Scores, color_limit, position

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

WIDTH, AROUND = 7.6, 1.3  # inches: the picture, and what is above and below its rows
VALUES, BARS, GAP = 0.52, 0.42, 0.12  # heights of rows in inches
WHISKERS = 240  # bars that have room for a whisker


def series(
    explanation: Explanation,
    i: int | str = 0,
    *,
    channels: Channels | None = None,
    **look: Unpack[parts.Look],
) -> "Picture":
    """Show one series with its attribution, channel by channel.

    Every channel has its values on top and its attribution below, as bars that point up where a value pushed the
    prediction up. Whiskers are 95 % intervals; bars are pale where the interval includes 0. Hatched: not observed.
    A black line: known to decide the label (``truth`` of the series).

    Parameters
    ----------
    explanation : Explanation
        With the explained series. Where it knows the values before scaling (``raw``), those are drawn.
    i : int or str
        Position of the series, or its name.
    channels : int, or sequence of str or int, optional
        How many of the strongest channels, or which; by default all if they are at most eight.
    **look
        ``title``, instead of the one that says what is shown; an empty one leaves it out. ``width``: ``"column"``
        or ``"text"``, 3.25 or 6.75 inches, as a column and a page of most journals, or any other number of inches.
        ``ax``, where in a figure of yours to draw: that figure, or the place of these axes, of a grid such as from
        ``plt.subplots``.

    Returns
    -------
    matplotlib.figure.Figure
        Fonts and sizes of letters are those of ``matplotlib.rcParams``, where you changed them.
    """
    view = series_view({require(explanation).method: explanation}, i, channels=channels)
    depth = len(view.channels)
    heights = [VALUES, BARS, GAP] * depth  # with empty rows between channels
    with parts.drawing(parts.inches(WIDTH, look), AROUND + sum(heights), look) as picture:
        grid = picture.add_gridspec(len(heights), 1, height_ratios=heights, hspace=0.02)
        rows = [picture.add_subplot(grid[3 * d + part, 0]) for d in range(depth) for part in (0, 1)]
        for d in range(depth):
            _draw_values(rows[2 * d], view, d)
            _draw_bars(rows[2 * d + 1], view, d)
        for row in rows:
            row.set_xlim(-0.5, len(view.times) - 0.5)
            row.set_xticks([])
            row.tick_params(axis="y", labelsize="small")
            row.spines["bottom"].set_visible(False)
        parts.time_axis(rows[-1], view.times)
        text = f"Series {view.id}  ·  {labels.method(view.scores[0].method)}  ·  {view.said.text}"
        parts.heading(picture, text + parts.left_out_text(depth, view.left_out), look)
        narrow = parts.wide(picture) < parts.NARROW
        keys: dict[str, Any] = {"ncols": 2, "fontsize": "small"} if narrow else {"ncols": 5}
        picture.legend(handles=_legend(view), loc="outside lower center", handlelength=1.4, **keys)
        return picture


def _draw_values(axes: "Axes", view: SeriesView, d: int) -> None:
    seen, values = view.observed[:, d], view.x[:, d]
    where = np.flatnonzero(seen)
    parts.hatch_missing(axes, seen)
    axes.plot(where, values[where], color=palette.FRAME, linewidth=0.7)  # joins values across a gap
    axes.plot(np.where(seen, values, np.nan), color=palette.INK, linewidth=0.9)
    alone = [start for start, stop in parts.runs(seen) if stop - start == 1]
    axes.plot(alone, values[alone], ".", color=palette.INK, markersize=3.5)
    if len(where):
        parts.value_ticks(axes)
    else:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no value observed", transform=axes.transAxes, ha="center", va="center")
    if view.truth is not None:
        thick: dict[str, Any] = {"linewidth": 2.4, "clip_on": False, "solid_capstyle": "butt"}
        edge = axes.get_xaxis_transform()  # heights as shares of the row
        for start, stop in parts.runs(view.truth[:, d]):
            axes.plot([start - 0.5, stop - 0.5], [1.05, 1.05], color=palette.TRUTH, transform=edge, **thick)
    name = labels.with_unit(view.channels[d], view.units[d])
    axes.set_ylabel(name, rotation=0, ha="right", va="center", color=palette.INK)


def _draw_bars(axes: "Axes", view: SeriesView, d: int) -> None:
    shown, seen = view.scores[0], view.observed[:, d]
    place, width = parts.strongest_of_groups(shown.values[:, d], parts.FINEST)
    values, pale = shown.values[place, d], shown.uncertain[place, d]
    full = [palette.SIZE if not shown.signed else palette.UP if value >= 0 else palette.DOWN for value in values]
    colour = [palette.PALE[each] if faint else each for each, faint in zip(full, pale, strict=True)]
    parts.hatch_missing(axes, seen)
    parts.draw_bars(axes, place, values, 0.82 if len(values) <= 120 else width, colour)
    if shown.low is not None and shown.high is not None and len(values) <= WHISKERS:
        low, high = shown.low[place, d], shown.high[place, d]
        known = np.isfinite(low) & np.isfinite(high) & seen[place]
        axes.vlines(place[known], low[known], high[known], color=palette.INK, linewidth=0.4)
    axes.axhline(0, color=palette.MUTED, linewidth=0.5)
    parts.scale_ticks(axes, float(shown.values.min(initial=0)), float(shown.values.max(initial=0)))
    if not d:
        axes.set_ylabel(palette.WORDS["score"], rotation=0, ha="right", va="center")


def _legend(view: SeriesView) -> list[Any]:
    from matplotlib.lines import Line2D  # noqa: PLC0415  # an extra
    from matplotlib.patches import Patch  # noqa: PLC0415

    shown = view.scores[0]
    names = ("up", "down") if shown.signed else ("size",)
    handles: list[Any] = [Patch(color=palette.LIGHT[name], label=palette.WORDS[name]) for name in names]
    if (shown.uncertain & view.observed).any():
        handles.append(Patch(color=palette.LIGHT[f"{names[0]}-pale"], label=palette.WORDS["pale"]))
    if not view.observed.all():
        look: dict[str, Any] = {"facecolor": parts.PAPER, "edgecolor": palette.MISSING, "hatch": parts.HATCH}
        handles.append(Patch(linewidth=0, label=palette.WORDS["missing"], **look))
    if view.truth is not None:
        handles.append(Line2D([], [], color=palette.TRUTH, linewidth=2.4, label=palette.WORDS["truth"]))
    return handles


MOST = 24  # channels shown where nobody says how many


def compare(
    explanations: Compared, i: int | str = 0, *, channels: Channels | None = None, **look: Unpack[parts.Look]
) -> "Picture":
    """Show a series as heat maps: its values, and what one or several methods say about them.

    Cells that push the prediction down are blue and have a dash, cells that push it up are orange. Hatched: not
    observed. Values are shaded channel by channel, since channels have different units, and every method has its
    own colour scale. Methods without direction are purple, from 0.

    Parameters
    ----------
    explanations : Explanation, or sequence or mapping of them
        Of the same series; the keys of a mapping are the titles.
    i : int or str
        Position of the series, or its name.
    channels : int, or sequence of str or int, optional
        How many of the channels that the first method finds strongest, or which; by default all, up to 24.
    **look
        As for :func:`series`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    view = series_view(as_mapping(explanations), i, channels=channels, most=MOST)
    found, depth = view.scores, len(view.channels)
    heads = ["the input", *(labels.method(each.method) + " (no direction)" * (not each.signed) for each in found)]
    count, room = len(heads), parts.inches(1.6 + 2.3 * min(3, 1 + len(found)), look)
    columns = min(max(1, int(room / 2.2)), 3, count)
    rows = -(-count // columns)
    with parts.drawing(room, rows * (0.45 + max(0.115 * depth, 0.8)) + 0.9, look) as picture:
        every = list(picture.subplots(rows, columns, squeeze=False, sharex=True).flat)
        image = parts.cells(every[0], shaded(view.x, view.observed), view.observed, parts.colours(signed=None), 0)
        parts.scale_bar(picture, image, every[0], {0: "low", 1: "high"})
        for axes, each in zip(every[1:], found, strict=False):
            full = color_limit(each.values, view.observed)  # scores of methods have units of their own
            image = draw_scores(axes, each, view.observed, full)
            parts.scale_bar(picture, image, axes, parts.score_ticks(each, full))
        for number, (axes, head) in enumerate(zip(every, heads, strict=False)):
            axes.set_title(labels.name(head, parts.letters(picture) - 8))
            names = view.channels if number % columns == 0 else ()
            size = "small" if depth <= 30 else "x-small"
            axes.set_yticks(range(len(names)), [labels.name(label, 18) for label in names], fontsize=size)
        for axes in every[count:]:
            axes.set_visible(False)
        for axes in every[max(count - columns, 0) : count]:
            axes.tick_params(labelbottom=True)
            parts.time_axis(axes, view.times)
        parts.map_note(picture, signed=any(each.signed for each in found), missing=not view.observed.all())
        text = f"Series {labels.name(str(view.id))}  ·  {view.said.text}"
        parts.heading(picture, text + parts.left_out_text(depth, view.left_out), look)
        return picture


def draw_scores(axes: "Axes", found: Scores, seen: Flags, full: float) -> Any:
    """Draw the scores of a series as cells in colour."""
    shade = np.clip(found.values / (full or 1.0), -1, 1)
    image = parts.cells(axes, shade, seen, parts.colours(signed=found.signed), -1 if found.signed else 0)
    if found.signed:
        parts.draw_dashes(axes, shade, seen)
    return image


ROWS, PAST = 14, 3  # steps ahead that can all be named, and channels whose past is drawn


def horizon(
    explanation: Explanation | Explanations,
    i: int | str = 0,
    *,
    channels: Channels | None = None,
    **look: Unpack[parts.Look],
) -> "Picture":
    """Show which past values pushed which step of a forecast.

    The past of the three strongest channels lies above a heat map with one row for each explained step of the
    horizon: orange where the values at a past step pushed it up, blue where they pushed it down. The numbers
    beside it, of up to 14 steps, are the forecast.

    Parameters
    ----------
    explanation : Explanations or Explanation
        Of the steps of a horizon, as from ``targets="all"`` or ``targets=[0, 5, 11]``, or of one of them.
    i : int or str
        Position of the series, or its name.
    channels : int, or sequence of str or int, optional
        How many of the strongest channels push, in the heat map, or which; by default all together.
    **look
        As for :func:`series`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    forecast = list(explanation.values()) if isinstance(explanation, Explanations) else [require(explanation)]
    steps = {str(place): part for place, part in enumerate(forecast)}
    view = series_view(steps, i, channels=channels, most=forecast[0].values.shape[2])
    past = np.argsort(-np.sum([found.effect for found in view.scores], axis=0), kind="stable")[:PAST]
    pushes: Floats = np.stack([found.values.sum(1) for found in view.scores], 1)
    count = len(forecast)
    seen = np.repeat(np.any(view.observed, 1, keepdims=True), count, 1)
    found, full = Scores(forecast[0].method, forecast[0].signed, pushes, None, None), color_limit(pushes, seen)
    heights = [0.6] * len(past) + [max(1.0, min(0.17 * count, 3.2))]
    with parts.drawing(parts.inches(WIDTH, look), AROUND + sum(heights), look) as picture:
        *rows, heat = picture.subplots(len(heights), 1, height_ratios=heights, sharex=True)
        for axes, d in zip(rows, past.tolist(), strict=True):
            _draw_values(axes, view, d)
        image = draw_scores(heat, found, seen, full)
        parts.time_axis(heat, view.times)
        ticks = parts.step_ticks(count, ROWS)
        heat.set_yticks(ticks, [labels.name(str(called(forecast[tick])), 14) for tick in ticks])
        heat.set_ylabel("step of the forecast")
        said = [part.prediction[position(part, i)] for part in forecast if part.prediction is not None]
        if len(said) == count <= ROWS:
            parts.numbers_beside(heat, [float(number) for number in said], "forecast")
        parts.scale_bar(picture, image, [*rows, heat], parts.score_ticks(found, full))
        parts.map_note(picture, signed=found.signed, missing=not seen.all())
        whose = "" if view.left_out == 0 else f", values of {', '.join(view.channels)}"
        text = f"Series {view.id}  ·  forecast explained by {labels.method(found.method)}{whose}"
        parts.heading(picture, text, look)
        return picture
