"""The picture of a forecast: its past, the steps ahead, and which past values pushed which of them."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tempograd.explanation import Explanation, Explanations
from tempograd.plots import style
from tempograd.plots.maps import draw_scores
from tempograd.plots.parts import (
    hatch_missing,
    heading,
    left_out_text,
    map_note,
    scale_bar,
    score_ticks,
    step_ticks,
    time_axis,
    value_ticks,
)
from tempograd.typing import Array, Channels, Model
from tempograd.views import labels, palette
from tempograd.views.prediction import Horizon, horizon_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

WIDTH = 8.2  # inches
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
        The explained series, by default those kept with the explanation.
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
    depth, count = len(record.channels), len(record.steps)
    rows, room = max(1.0, min(0.17 * count, 3.2)), style.inches(width, WIDTH, ax)
    beside = room >= style.NARROW  # of the past, the forecast and the sums
    with style.drawing(room, 0.95 + 0.85 * depth + rows + 0.75, ax) as picture:
        last = record.steps[-1] + 1 if record.forecast is None else len(record.forecast)
        ratios = [1, min(max(last / len(record.times), 0.28), 0.6)][: 1 + beside]
        heights = [0.85] * depth + [rows]
        grid = picture.add_gridspec(depth + 1, len(ratios), width_ratios=ratios, height_ratios=heights)
        past = [picture.add_subplot(grid[d, 0]) for d in range(depth)]
        for d, axes in enumerate(past):
            _draw_past(axes, record, d)
        heat = picture.add_subplot(grid[depth, 0])
        image = draw_scores(heat, record.scores, np.repeat(record.seen[:, None], count, 1), record.limit)
        time_axis(heat, record.times)
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
        heading(picture, f"Series {labels.name(str(record.id))}  ·  forecast explained by {method}", title)
        return picture


def _draw_past(axes: "Axes", record: Horizon, d: int) -> None:
    seen = record.observed[:, d]
    hatch_missing(axes, seen)
    axes.plot(np.where(seen, record.x[:, d], np.nan), color=palette.INK, linewidth=0.9)
    value_ticks(axes)
    axes.set_xlim(-0.5, len(record.times) - 0.5)
    axes.set_xticks([])
    shown = left_out_text(len(record.channels), record.left_out)
    axes.set_title(labels.name(record.channels[d]) + (shown if d == 0 else ""))


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
    if (record.forecast_of or 0) + 1 < len(record.channels):  # there is room below, beside the next channel
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
