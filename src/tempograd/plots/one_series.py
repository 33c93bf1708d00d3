"""One series with its signed attribution: a row of values and a row of bars for each channel."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tempograd.explanation import Explanation
from tempograd.plots import style
from tempograd.plots.parts import (
    FINEST,
    draw_bars,
    hatch_missing,
    heading,
    left_out_text,
    runs,
    scale_ticks,
    strongest_of_groups,
    time_axis,
    value_ticks,
)
from tempograd.typing import Array, ArrayLike, Channels, Model
from tempograd.views import labels, palette
from tempograd.views.prediction import SeriesView, StepOutputs, series_views

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

WIDTH, AROUND = 7.6, 1.3  # inches: the picture, and what is above and below its rows
VALUES, BARS, GAP, OUTPUT = 0.52, 0.42, 0.12, 0.5  # heights of rows in inches
WHISKERS = 240  # bars that have room for a whisker


def series(
    explanation: Explanation,
    i: int | str = 0,
    *,
    model: Model | None = None,
    x: Array | None = None,
    y: ArrayLike | None = None,
    truth: Array | None = None,
    channels: Channels | None = None,
    classes: Sequence[str] | None = None,
    title: str | None = None,
    width: style.Width = None,
    ax: Any = None,
) -> "Picture":
    """Show one series with its attribution, channel by channel.

    Every channel has its values on top and its attribution below, as bars that point up where a value pushed the
    prediction up. Whiskers are 95 % intervals; bars are pale where the interval includes 0. Hatched: not observed.

    Parameters
    ----------
    explanation : Explanation
    i : int or str
        Position of the series, or its name.
    model : nn.Module or callable, optional
        Adds what the model predicts; with one output per step as a row of its own.
    x : Tensor or array of shape (series, time, channel), optional
        The explained series as the model reads them, by default those kept with the explanation. Where it knows
        the values before scaling (``raw``), those are drawn.
    y : Tensor or array of shape (series,) or (series, time), optional
        True labels.
    truth : Tensor or array like ``x``, optional
        1 where a cell is known to decide the label; marked by a black line.
    channels : int, or sequence of str or int, optional
        How many of the strongest channels, or which; by default all if they are at most eight.
    classes : sequence of str, optional
        Names of the classes, by default the explanation's own.
    title : str, optional
        Instead of the one that says what is shown; an empty one leaves it out.
    width : {"column", "text"} or float, optional
        3.25 or 6.75 inches, as a column and a page of most journals, or any other number of inches.
    ax : matplotlib Axes, Figure or SubFigure, optional
        Where in a figure of yours to draw: in the place of these axes, of a grid such as from ``plt.subplots``.

    Returns
    -------
    matplotlib.figure.Figure
        Fonts and sizes of letters are those of ``matplotlib.rcParams``, where you changed them.
    """
    (view,) = series_views(
        explanation, [i], model=model, x=x, y=y, truth=truth, channels=channels, classes=classes
    )
    output, depth = view.said.steps, len(view.channels)
    heights = [OUTPUT, GAP] * (output is not None) + [
        VALUES,
        BARS,
        GAP,
    ] * depth  # with empty rows between channels
    with style.drawing(style.inches(width, WIDTH, ax), AROUND + sum(heights), ax) as picture:
        grid = picture.add_gridspec(len(heights), 1, height_ratios=heights, hspace=0.02)
        first = 2 * (output is not None)
        rows = [picture.add_subplot(grid[first + 3 * d + part, 0]) for d in range(depth) for part in (0, 1)]
        for d in range(depth):
            _draw_values(rows[2 * d], view, d)
            _draw_bars(rows[2 * d + 1], view, d)
        if output is not None:
            rows.insert(0, picture.add_subplot(grid[0, 0]))
            _draw_output(rows[0], output)
        for row in rows:
            row.set_xlim(-0.5, len(view.times) - 0.5)
            row.set_xticks([])
            row.tick_params(axis="y", labelsize="small")
            row.spines["bottom"].set_visible(False)
        time_axis(rows[-1], view.times)
        said = "  ·  ".join([labels.method(view.scores[0].method), view.said.text])
        said += left_out_text(depth, view.left_out)
        heading(picture, f"Series {view.id}  ·  {said}", title)
        narrow = style.inches(None, 0, picture) < style.NARROW
        look: dict[str, Any] = {"ncols": 2, "fontsize": "small"} if narrow else {"ncols": 5}
        picture.legend(handles=_legend(view), loc="outside lower center", handlelength=1.4, **look)
        return picture


def _draw_values(axes: "Axes", view: SeriesView, d: int) -> None:
    seen, values = view.observed[:, d], view.x[:, d]
    where = np.flatnonzero(seen)
    hatch_missing(axes, seen)
    axes.plot(where, values[where], color=palette.FRAME, linewidth=0.7)  # joins values across a gap
    axes.plot(np.where(seen, values, np.nan), color=palette.INK, linewidth=0.9)
    alone = [start for start, stop in runs(seen) if stop - start == 1]
    axes.plot(alone, values[alone], ".", color=palette.INK, markersize=3.5)
    if len(where):
        value_ticks(axes)
    else:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no value observed", transform=axes.transAxes, ha="center", va="center")
    if view.truth is not None:
        thick: dict[str, Any] = {"linewidth": 2.4, "clip_on": False, "solid_capstyle": "butt"}
        edge = axes.get_xaxis_transform()  # heights as shares of the row
        for start, stop in runs(view.truth[:, d]):
            axes.plot([start - 0.5, stop - 0.5], [1.05, 1.05], color=palette.TRUTH, transform=edge, **thick)
    axes.set_ylabel(view.names[d], rotation=0, ha="right", va="center", color=palette.INK)


def _draw_bars(axes: "Axes", view: SeriesView, d: int) -> None:
    shown, seen = view.scores[0], view.observed[:, d]
    place, width = strongest_of_groups(shown.values[:, d], FINEST)
    values, pale = shown.values[place, d], shown.uncertain[place, d]
    full = [palette.SIZE if not shown.signed else palette.UP if value >= 0 else palette.DOWN for value in values]
    colour = [palette.PALE[each] if faint else each for each, faint in zip(full, pale, strict=True)]
    hatch_missing(axes, seen)
    draw_bars(axes, place, values, 0.82 if len(values) <= 120 else width, colour)
    if shown.low is not None and shown.high is not None and len(values) <= WHISKERS:
        low, high = shown.low[place, d], shown.high[place, d]
        known = np.isfinite(low) & np.isfinite(high) & seen[place]
        axes.vlines(place[known], low[known], high[known], color=palette.INK, linewidth=0.4)
    axes.axhline(0, color=palette.MUTED, linewidth=0.5)
    scale_ticks(axes, float(shown.values.min(initial=0)), float(shown.values.max(initial=0)), closest=0.3)
    if not d:
        axes.set_ylabel(palette.WORDS["score"], rotation=0, ha="right", va="center")


def _draw_output(axes: "Axes", steps: StepOutputs) -> None:
    """Draw what the model says at each step, pale where it was not explained, and the label above it."""
    axes.plot(steps.values, color=palette.FRAME, linewidth=0.9)
    axes.plot(np.where(steps.explained, steps.values, np.nan), color=palette.INK, linewidth=0.9)
    if steps.labels is not None:
        for start, stop in runs(steps.labels):
            axes.axvspan(start - 0.5, stop - 0.5, facecolor=palette.FAINT, linewidth=0)
    if steps.title.startswith("probability"):
        axes.set_ylim(-0.05, 1.05)
        axes.set_yticks([0, 1], ["0", "1"])
    else:
        value_ticks(axes)
    axes.set_ylabel(steps.title.replace(" of ", " of\n"), rotation=0, ha="right", va="center", color=palette.INK)


def _legend(view: SeriesView) -> list[Any]:
    from matplotlib.lines import Line2D  # noqa: PLC0415  # an extra
    from matplotlib.patches import Patch  # noqa: PLC0415

    shown = view.scores[0]
    handles: list[Any] = [Patch(color=palette.SIZE, label=palette.WORDS["size"])]
    if shown.signed:
        handles = [
            Patch(color=palette.UP, label=palette.WORDS["up"]),
            Patch(color=palette.DOWN, label=palette.WORDS["down"]),
        ]
    if (shown.uncertain & view.observed).any():
        pale = palette.PALE[palette.UP if shown.signed else palette.SIZE]
        handles.append(Patch(color=pale, label=palette.WORDS["pale"]))
    if not view.observed.all():
        hatched = Patch(facecolor=style.PAPER, edgecolor=palette.MISSING, hatch=style.HATCH, linewidth=0)
        hatched.set_label(palette.WORDS["missing"])
        handles.append(hatched)
    if view.truth is not None:
        handles.append(Line2D([], [], color=palette.TRUTH, linewidth=2.4, label=palette.WORDS["truth"]))
    if view.said.steps is not None and view.said.steps.labels is not None:
        handles.append(Patch(color=palette.FAINT, label="true label: that class"))
    return handles
