"""Does a high value push up? The scores of a channel against its values, over many series."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tempograd.explanation.core import Explanation, require
from tempograd.plots import style
from tempograd.plots.parts import heading, left_out_text, value_ticks
from tempograd.typing import Array, ArrayLike, Channels
from tempograd.views import labels, palette
from tempograd.views.blocks import group_rows
from tempograd.views.channels import chosen_channels
from tempograd.views.labels import channel_names
from tempograd.views.series import Floats, sizes, to_numpy
from tempograd.views.value_effects import ValueEffect, value_effect

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

MOST, COLUMNS = 6, 3
LITTLE = 0.1  # of the range of the strongest channel
DOTS = 1500  # of a channel: more would hide each other


@dataclass(frozen=True)
class DependenceRecord:
    """What the picture shows: one panel for each channel, the strongest first.

    Attributes
    ----------
    method : str
    signed : bool
    series : int
    channels, units : tuple of str
    left_out : int
        Channels that are not shown.
    effects : tuple of ValueEffect
        Of each channel.
    """

    method: str
    signed: bool
    series: int
    channels: tuple[str, ...]
    units: tuple[str, ...]
    left_out: int
    effects: tuple[ValueEffect, ...]
    title: str | None = None


def dependence_record(
    explanation: Explanation,
    rows: ArrayLike | None = None,
    *,
    channels: Channels | None = None,
    x: Array | None = None,
    title: str | None = None,
) -> DependenceRecord:
    """Show whether high values of a channel push the prediction up or down.

    Every dot is an observed value with its score. The line has their means in groups of equally many values, with
    95 % intervals over the series.

    Parameters
    ----------
    explanation : Explanation
    rows : sequence of int or bool, optional
        Only these series, by position or as one flag each.
    channels : int, or sequence of str or int, optional
        How many of the strongest channels, or which; by default six.
    x : Tensor or array, optional
        The series, where the explanation was saved without them.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure or DependenceRecord
        The picture, or from ``dependence_record`` the numbers behind it.
    """
    chosen = group_rows(require(explanation), rows, "rows")
    names = channel_names(explanation)
    strength = to_numpy(sizes(explanation)[chosen].sum((0, 1)))
    picked = chosen_channels(channels, names, strength, MOST, ordered=True)
    units = explanation.units or ("",) * len(names)
    return DependenceRecord(
        method=explanation.method,
        signed=explanation.signed,
        series=len(chosen),
        channels=tuple(names[d] for d in picked),
        units=tuple(units[d] for d in picked),
        left_out=len(names) - len(picked),
        effects=tuple(value_effect(explanation, d, chosen, x=x) for d in picked),
        title=title,
    )


def draw_dependence(record: DependenceRecord) -> "Picture":
    """Draw the record of values and their scores."""
    count = len(record.channels)
    columns = min(COLUMNS, count)
    lines = -(-count // columns)
    with style.drawing(0.8 + 2.4 * columns, 0.8 + 1.95 * lines) as picture:
        grid = picture.subplots(lines, columns, squeeze=False, sharey=True)
        for place, axes in enumerate(grid.flat):
            if place < count:
                _draw_effect(axes, record, place)
            else:
                axes.set_visible(False)
        sides = [_limits(each.scores, np.concatenate([each.mean, [0.0]])) for each in record.effects]
        grid[0, 0].set_ylim(min(low for low, _ in sides), max(high for _, high in sides))
        for row in grid:
            row[0].set_ylabel("attribution" if record.signed else "importance")
        note = "dots: observed values; line: means of groups of equally many, with 95 % intervals over series"
        picture.supxlabel(note, fontsize=7.5, color=palette.MUTED)
        what = "Do high values push up?" if record.signed else "Which values matter?"
        left_out = left_out_text(count, record.left_out)
        text = f"{what}  ·  {record.series:,} series  ·  {labels.method(record.method)}{left_out}"
        heading(picture, text, record.title)
        return picture


def _draw_effect(axes: "Axes", record: DependenceRecord, place: int) -> None:
    found = record.effects[place]
    step = -(-len(found.values) // DOTS) or 1
    value, score = found.values[::step], found.scores[::step]
    colour = np.where(score >= 0, palette.UP, palette.DOWN) if record.signed else palette.SIZE
    axes.axhline(0, color=palette.FRAME, linewidth=0.7, zorder=1)
    axes.scatter(value, score, s=4, c=colour, alpha=0.35, linewidths=0)
    known = np.isfinite(found.low)
    axes.vlines(found.centre[known], found.low[known], found.high[known], color=palette.INK, linewidth=1.0)
    axes.plot(found.centre, found.mean, "o-", color=palette.INK, markersize=3, linewidth=1.0)
    slight = found.direction != 0 and _range(found) < LITTLE * max(map(_range, record.effects))
    words = f"{found.words}{' a little' * slight}"
    axes.set_title(f"{labels.with_unit(record.channels[place], record.units[place])}\n{words}")
    value_ticks(axes, along="x", most=4)
    value_ticks(axes, most=3)
    axes.set_xlim(*_limits(found.values, found.centre))


def _range(found: ValueEffect) -> float:
    """Return how far the means of a channel's groups are apart."""
    return float(np.ptp(found.mean)) if len(found.mean) else 0.0


def _limits(values: Floats, ends: Floats) -> tuple[float, float]:
    """Return limits that hold nearly all dots, and all of the line; a few far dots would take all the room."""
    low, high = np.quantile(values, [0.005, 0.995]) if len(values) else (0.0, 0.0)
    low, high = float(min(low, ends.min(initial=low))), float(max(high, ends.max(initial=high)))
    pad = 0.06 * (high - low) or 1.0
    return low - pad, high + pad


dependence = style.drawn(dependence_record, draw_dependence)
