"""One series with its attribution channel by channel, or as heat maps; and the heat map of a forecast."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tempograd.explanation import Explanation, Explanations
from tempograd.plots import style
from tempograd.plots.parts import (
    FINEST,
    cells,
    draw_bars,
    draw_dashes,
    hatch_missing,
    heading,
    left_out_text,
    map_note,
    runs,
    scale_bar,
    scale_ticks,
    score_ticks,
    step_ticks,
    strongest_of_groups,
    time_axis,
    value_ticks,
)
from tempograd.typing import Array, ArrayLike, Channels, Model
from tempograd.views import labels, palette
from tempograd.views.labels import Compared, as_mapping, time_names
from tempograd.views.prediction import Horizon, SeriesView, StepOutputs, horizon_view, series_views, shaded
from tempograd.views.series import Flags, Floats, Scores, position

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
        Adds what the model predicts at each step, where it has one output per step, as a row of its own.
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


MOST = 24  # channels shown where nobody says how many


def heatmap(
    explanation: Explanation,
    i: int | str | Sequence[int | str] = 0,
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
    """Show the input and the attribution of some series, side by side.

    Cells that push the prediction down are blue and have a dash, cells that push it up are orange. Hatched: not
    observed. Inputs are shaded channel by channel, since channels have different units.

    Parameters
    ----------
    explanation : Explanation
    i : int, str, or sequence of them
        Positions or names of the series, one pair of maps each.
    channels : int, or sequence of str or int, optional
        How many of the channels with the largest attribution over all of these series, the strongest first, or
        which; by default all, but no more than 24.
    model, x, y, classes, title, width, ax
        As for :func:`series`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    rows = list(i) if isinstance(i, Sequence) and not isinstance(i, str) else [i]
    views = series_views(
        explanation, rows, model=model, x=x, y=y, channels=channels, classes=classes, most=MOST, ordered=True
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
            view = views[place]
            values = _draw_maps(picture, [left, right], view, shades[place])
            told = f"Series {labels.name(str(view.id))}  ·  {view.said.text}"
            left.set_title(told if across > 1 else labels.name(told, style.letters(picture) - 8))
            channel_axis(left, view.channels)
            channel_axis(right, view.channels if across == 1 else [])
        for axes in grid[-1]:
            time_axis(axes, times)
        scale_bar(picture, values, grid.reshape(-1, 2)[-1, 0], {0: "low", 1: "high"})
        found = views[0].scores[0]
        map_note(picture, signed=found.signed, missing=not all(view.observed.all() for view in views))
        both = ("(left)", "(right)") if across > 1 else ("(above)", "(below)")
        text = f"Input {both[0]} and attribution by {labels.method(found.method)} {both[1]}"
        heading(picture, text + left_out_text(depth, views[0].left_out), title)
        return picture


def _draw_maps(picture: "Picture", places: Sequence["Axes"], view: SeriesView, shade: Floats) -> Any:
    """Draw a series, and beside it the scores of each method with their scales; return the series' colours."""
    for axes, found, full in zip(places[1:], view.scores, view.limits, strict=False):
        scale_bar(picture, draw_scores(axes, found, view.observed, full), axes, score_ticks(found, full))
    return cells(places[0], shade, view.observed, style.input_colours(), 0)


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
        image = _draw_maps(picture, places, view, shaded(view.x[None], view.observed[None])[0])
        scale_bar(picture, image, places[0], {0: "low", 1: "high"})
        heads = [labels.method(found.method) + " (no direction)" * (not found.signed) for found in view.scores]
        for axes, head in zip(places, ["the input", *heads], strict=False):
            axes.set_title(head)
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


ROWS = 14  # steps ahead that can all be named


def horizon(
    explanation: Explanation | Explanations,
    i: int | str = 0,
    *,
    model: Model | None = None,
    x: Array | None = None,
    channel: int | str | None = None,
    channels: Channels | None = None,
    variable: int | None = None,
    title: str | None = None,
    width: style.Width = None,
    ax: Any = None,
) -> "Picture":
    """Show which past values pushed which step of a forecast.

    The past lies above a heat map with one row for each explained step of the horizon: orange where the values at
    a past step pushed it up, blue where they pushed it down. Beside them are the forecast and the sum of each row,
    how far all past values together pushed that step.

    Parameters
    ----------
    explanation : Explanations or Explanation
        Of the steps of a horizon, as from ``targets="all"`` or ``targets=[0, 5, 11]``, or of one of them.
    i : int or str
        Position of the series, or its name.
    model : nn.Module or callable, optional
        Adds the forecast.
    x : Tensor or array of shape (series, time, channel), optional
        The explained series as the model reads them, by default those kept with the explanation. Where it knows
        the values before scaling (``raw``), those are drawn; what is passed is drawn on the scale of the forecast.
    channel : int or str, optional
        Which channel's values push, in the heat map; by default all channels together.
    channels : int, or sequence of str or int, optional
        How many of the strongest channels to show the past of, or which; by default three.
    variable : int, optional
        Which variable's forecast, where targets are addresses (step, variable) of several of them.
    title, width, ax
        As for :func:`series`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    asked: dict[str, Any] = {"channel": channel, "channels": channels, "variable": variable}
    record = horizon_view(explanation, i, model=model, x=x, **asked)
    depth, count = len(record.past.channels), len(record.steps)
    rows, room = max(1.0, min(0.17 * count, 3.2)), style.inches(width, 8.2, ax)
    beside = room >= style.NARROW  # of the past, the forecast and the sums
    with style.drawing(room, 0.95 + 0.85 * depth + rows + 0.75, ax) as picture:
        last = record.steps[-1] + 1 if record.forecast is None else len(record.forecast)
        ratios = [1, min(max(last / len(record.past.times), 0.28), 0.6)][: 1 + beside]
        heights = [0.85] * depth + [rows]
        grid = picture.add_gridspec(depth + 1, len(ratios), width_ratios=ratios, height_ratios=heights)
        past = [picture.add_subplot(grid[d, 0]) for d in range(depth)]
        for d, axes in enumerate(past):
            _draw_past(axes, record, d)
        heat = picture.add_subplot(grid[depth, 0])
        image = draw_scores(heat, record.scores, np.repeat(record.seen[:, None], count, 1), record.limit)
        time_axis(heat, record.past.times)
        ticks = range(count) if count <= ROWS else step_ticks(count)
        heat.set_yticks(list(ticks), [labels.name(record.names[place], 14) for place in ticks])
        heat.set_ylabel("step of the forecast")
        whose = f", {labels.name(record.pushed_by)}" * beside
        heat.set_title(f"Attribution of each past step to each step ahead{whose}")
        bar = [heat]
        if beside:
            if record.forecast is not None:
                joined = past[record.forecast_of] if record.forecast_of is not None else None
                _draw_forecast(picture.add_subplot(grid[record.forecast_of or 0, 1], sharey=joined), record)
            bar.append(picture.add_subplot(grid[depth, 1]))
            _draw_totals(bar[1], record)
        scale_bar(picture, image, bar, score_ticks(record.scores, record.limit))
        map_note(picture, signed=record.scores.signed, missing=not record.seen.all())
        method = labels.method(record.scores.method)
        heading(picture, f"Series {labels.name(str(record.past.id))}  ·  forecast explained by {method}", title)
        return picture


def _draw_past(axes: "Axes", record: Horizon, d: int) -> None:
    seen = record.past.observed[:, d]
    hatch_missing(axes, seen)
    axes.plot(np.where(seen, record.past.x[:, d], np.nan), color=palette.INK, linewidth=0.9)
    value_ticks(axes)
    axes.set_xlim(-0.5, len(record.past.times) - 0.5)
    axes.set_xticks([])
    shown = left_out_text(len(record.past.channels), record.past.left_out)
    axes.set_title(labels.name(record.past.names[d]) + (shown if d == 0 else ""))


def _draw_forecast(axes: "Axes", record: Horizon) -> None:
    """Draw the forecast beside the past, with a dot at each explained step."""
    told = record.forecast if record.forecast is not None else np.zeros(0)
    axes.plot(told, color=palette.MUTED, linewidth=0.9, linestyle=(0, (3, 1)))
    dots = [step for step in record.steps if step < len(told)]
    axes.plot(dots, told[dots], ".", color=palette.INK, markersize=5)
    axes.set_xlim(-0.5, len(told) - 0.5)
    axes.set_xticks(step_ticks(len(told), 4))
    whose = "" if record.variable is None or record.forecast_of is not None else f" of variable {record.variable}"
    axes.set_title(f"forecast{whose}")
    if (record.forecast_of or 0) + 1 < len(record.past.channels):  # there is room below, beside the next channel
        for tick in axes.get_xticklabels():
            tick.set_in_layout(False)
    if record.forecast_of is None:
        value_ticks(axes)
    else:
        axes.tick_params(labelleft=False)


def _draw_totals(axes: "Axes", record: Horizon) -> None:
    """Draw how far all past values together pushed each step ahead, as bars beside its row."""
    signed, count = record.scores.signed, len(record.steps)
    colour = [
        palette.SIZE if not signed else palette.UP if total >= 0 else palette.DOWN for total in record.totals
    ]
    axes.barh(np.arange(count), record.totals, height=0.8 if count <= 4 * ROWS else 1.0, color=colour, linewidth=0)
    axes.axvline(0, color=palette.MUTED, linewidth=0.5)
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    value_ticks(axes, "x", most=3)
    axes.set_title("sum of each row")
