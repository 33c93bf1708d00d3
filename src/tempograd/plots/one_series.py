"""One series with its signed attribution: a row of values and a row of bars for each channel."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tempograd.explanation import Explanation
from tempograd.plots import style
from tempograd.plots.parts import (
    FINEST,
    draw_bars,
    hatch_missing,
    left_out_text,
    runs,
    scale_ticks,
    strongest_of_groups,
    time_axis,
    value_ticks,
)
from tempograd.typing import Array, ArrayLike, Channels, Model
from tempograd.views import labels, palette
from tempograd.views.channels import chosen_channels
from tempograd.views.labels import channel_names
from tempograd.views.prediction import PredictionText, StepOutputs, prediction_text
from tempograd.views.series import (
    Flags,
    Floats,
    Scores,
    cells_like,
    observed_cells,
    position,
    scores,
    shown_values,
    to_numpy,
    whole_series,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

MOST = 8  # channels shown where nobody says how many
WIDTH, ABOVE, BELOW = 7.6, 0.78, 0.58  # inches: the picture, and around its rows
GAP, SLIT = 0.2, 0.05  # between channels, and between values and bars
VALUES, BARS, OUTPUT = 0.55, 0.45, 0.5  # heights of rows in inches
WHISKERS = 240  # bars that have room for a whisker


@dataclass(frozen=True)
class SeriesRecord:
    """What the picture of one series shows.

    Attributes
    ----------
    id : int or str
    said : Said
        What was explained.
    times, channels : tuple of str
        Names of the steps and of the channels that are shown, in the order of the picture.
    left_out : int
        How many channels are not shown.
    x : array of shape (time, channel)
        The values as people know them.
    observed : array of bool like ``x``
    scores : Scores
        Attribution with its 95 % interval, like ``x``.
    truth : array of bool like ``x``, optional
        Cells that are known to decide the label.
    span : tuple of float
        The lowest and the highest attribution, 0 included: the scale of the bars, the same for all channels.
    """

    id: int | str
    said: PredictionText
    times: tuple[str, ...]
    channels: tuple[str, ...]
    left_out: int
    x: Floats
    observed: Flags
    scores: Scores
    truth: Flags | None
    span: tuple[float, float]
    title: str | None = None
    units: tuple[str, ...] | None = None


def series_record(
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
) -> SeriesRecord:
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

    Returns
    -------
    matplotlib.figure.Figure or SeriesRecord
        The picture, or from ``series_record`` the numbers behind it.
    """
    i = position(explanation, i)
    values, names = shown_values([explanation], x), channel_names(explanation)
    read = None if model is None else whole_series(explanation, x)
    whole = scores(explanation, i)
    picked = chosen_channels(channels, names, whole.effect, MOST, ordered=False)
    shown = whole.channels(picked)
    return SeriesRecord(
        id=explanation.label(i),
        said=prediction_text(explanation, i, model, read, y, classes),
        times=explanation.times_of(i),
        channels=tuple(names[d] for d in picked),
        left_out=len(names) - len(picked),
        x=to_numpy(values[i])[:, picked],
        observed=observed_cells(explanation)[i][:, picked],
        scores=shown,
        truth=None if truth is None else to_numpy(cells_like(truth, explanation, "truth")[i])[:, picked] > 0,
        span=(float(shown.values.min(initial=0)), float(shown.values.max(initial=0))),
        title=title,
        units=None if explanation.units is None else tuple(explanation.units[d] for d in picked),
    )


def draw_series(record: SeriesRecord) -> "Picture":
    """Draw the record of a series."""
    output, depth = record.said.steps, len(record.channels)
    heights = [VALUES, SLIT, BARS, GAP] * depth  # rows and the space below each, from the top
    heights = ([OUTPUT, GAP] if output else []) + heights
    height, left = ABOVE + sum(heights) + BELOW, _left(record)
    with style.drawing(WIDTH, height, layout=None) as picture:
        rows, edge = [], height - ABOVE
        for size, below in zip(heights[::2], heights[1::2], strict=True):
            box = (left / WIDTH, (edge - size) / height, (WIDTH - left - 0.15) / WIDTH, size / height)
            rows.append(picture.add_axes(box))
            edge -= size + below
        if output:
            _draw_output(rows[0], output)
        for d, (top, bottom) in enumerate(zip(rows[-2 * depth :: 2], rows[1 - 2 * depth :: 2], strict=True)):
            _draw_values(top, record, d)
            _draw_bars(bottom, record, d)
        for row in rows:
            row.set_xlim(-0.5, len(record.times) - 0.5)
            row.set_xticks([])
            row.spines["bottom"].set_visible(False)
            row.yaxis.set_label_coords(-0.45 / (WIDTH - left - 0.15), 0.5)
        time_axis(rows[-1], record.times)
        heading = labels.name(f"Series {record.id}" if record.title is None else record.title, 90)
        picture.text(0.15 / WIDTH, 1 - 0.16 / height, heading, va="top", fontweight="bold", size=10.5)
        picture.text(0.15 / WIDTH, 1 - 0.4 / height, _subtitle(record), va="top", color=palette.MUTED)
        picture.legend(handles=_legend(record), loc="lower center", ncols=5, handlelength=1.4)
        return picture


series = style.drawn(series_record, draw_series)


def _left(record: SeriesRecord) -> float:
    """Return the inches that names and numbers take at the left."""
    names = [_channel(record, d) for d in range(len(record.channels))] + ["probability of"]
    return 0.68 + 0.068 * max(len(label) for label in names)


def _channel(record: SeriesRecord, d: int) -> str:
    """Name a channel, with the unit of its values."""
    return labels.with_unit(record.channels[d], "" if record.units is None else record.units[d])


def _subtitle(record: SeriesRecord) -> str:
    text = "  ·  ".join([labels.method(record.scores.method), record.said.text])
    return text + left_out_text(len(record.channels), record.left_out)


def _draw_values(axes: "Axes", record: SeriesRecord, d: int) -> None:
    seen, values = record.observed[:, d], record.x[:, d]
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
    if record.truth is not None:
        thick: dict[str, Any] = {"linewidth": 2.4, "clip_on": False, "solid_capstyle": "butt"}
        edge = axes.get_xaxis_transform()  # heights as shares of the row
        for start, stop in runs(record.truth[:, d]):
            axes.plot([start - 0.5, stop - 0.5], [1.05, 1.05], color=palette.TRUTH, transform=edge, **thick)
    axes.set_ylabel(_channel(record, d), rotation=0, ha="right", va="center", color=palette.INK)


def _draw_bars(axes: "Axes", record: SeriesRecord, d: int) -> None:
    shown, seen = record.scores, record.observed[:, d]
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
    scale_ticks(axes, *record.span, closest=0.3)
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


def _legend(record: SeriesRecord) -> list[Any]:
    from matplotlib.lines import Line2D  # noqa: PLC0415  # an extra
    from matplotlib.patches import Patch  # noqa: PLC0415

    shown = record.scores
    handles: list[Any] = [Patch(color=palette.SIZE, label=palette.WORDS["size"])]
    if shown.signed:
        handles = [
            Patch(color=palette.UP, label=palette.WORDS["up"]),
            Patch(color=palette.DOWN, label=palette.WORDS["down"]),
        ]
    if (shown.uncertain & record.observed).any():
        pale = palette.PALE[palette.UP if shown.signed else palette.SIZE]
        handles.append(Patch(color=pale, label=palette.WORDS["pale"]))
    if not record.observed.all():
        hatched = Patch(facecolor=style.PAPER, edgecolor=palette.MISSING, hatch=style.HATCH, linewidth=0)
        hatched.set_label(palette.WORDS["missing"])
        handles.append(hatched)
    if record.truth is not None:
        handles.append(Line2D([], [], color=palette.TRUTH, linewidth=2.4, label=palette.WORDS["truth"]))
    if record.said.steps is not None and record.said.steps.labels is not None:
        handles.append(Patch(color=palette.FAINT, label="true label: that class"))
    return handles
