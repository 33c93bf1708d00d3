"""Methods as dots with intervals, each against the first one on the same series; the control is marked as such."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tempograd.core.errors import InputError, brief
from tempograd.core.formatting import alike
from tempograd.plots import style
from tempograd.plots.parts import heading, value_ticks
from tempograd.views import labels, palette
from tempograd.views.comparison import MetricScores, ScoreTable, score_table
from tempograd.views.drivers import CONTROL
from tempograd.views.series import Flags, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

ROW, MARGINS = 0.22, 1.35  # inches


@dataclass(frozen=True)
class MethodsRecord:
    """What the picture shows; arrays are (method, metric).

    Attributes
    ----------
    methods : tuple of str
        Strongest first by the first metric.
    reference : str
        The method that others are compared with.
    metrics : tuple of str
        With the direction that is better.
    higher_is_better : tuple of bool, optional
    score : array
        Mean over the series.
    difference, low, high : array
        Score minus that of the reference on the same series, with its 95 % interval; 0 for the reference.
    control : array of bool
        Which methods give random scores on purpose, (method,).
    series : int
    """

    methods: tuple[str, ...]
    reference: str
    metrics: tuple[str, ...]
    higher_is_better: tuple[bool | None, ...]
    score: Floats
    difference: Floats
    low: Floats
    high: Floats
    control: Flags
    series: int
    title: str | None = None


def methods_record(
    scores: MetricScores, *, reference: str | None = None, title: str | None = None
) -> MethodsRecord:
    """Show how faithful methods are, as differences to one of them on the same series, with 95 % intervals.

    Filled dots differ from the reference: their interval leaves 0 out. The diamond is the control, random scores,
    which any method must beat.

    Parameters
    ----------
    scores : mapping
        Of each method, by metric, one score per series: ``{"timing": tg.evaluate(…), "lime": …}``.
    reference : str, optional
        The method that others are compared with, by default timing where it is one of them, else the first.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure or MethodsRecord
        The picture, or from ``methods_record`` the numbers behind it.
    """
    if not isinstance(scores, Mapping) or not scores or not all(isinstance(s, Mapping) for s in scores.values()):
        raise InputError(
            f"scores must be a mapping of methods to what tempograd.evaluate returns of each, got {brief(scores)}."
        )
    reference = reference or ("timing" if "timing" in scores else next(iter(scores)))
    if reference not in scores:
        raise InputError(f"There is no method {brief(reference)} among the scores: {', '.join(scores)}.")
    table = score_table(scores, (reference,))
    better = -1 if table.higher_is_better[0] is False else 1
    first = table.metrics[0]
    methods = sorted(table.methods, key=lambda name: -better * table.cells[name, first].summary.mean)
    parts = {name: _numbers(table, methods, name) for name in ("mean", "low", "high")}
    return MethodsRecord(
        methods=tuple(methods),
        reference=reference,
        metrics=tuple(table.metrics),
        higher_is_better=table.higher_is_better,
        score=np.array([[table.cells[row, metric].summary.mean for metric in table.metrics] for row in methods]),
        difference=parts["mean"],
        low=parts["low"],
        high=parts["high"],
        control=np.array([row == CONTROL for row in methods]),
        series=table.cells[reference, first].summary.count,
        title=title,
    )


def _numbers(table: ScoreTable, methods: list[str], part: str) -> Floats:
    """Return one number of each difference; the reference differs from itself by 0."""
    gaps: list[list[Any]] = [[table.cells[row, metric].difference for metric in table.metrics] for row in methods]
    return np.array([[0.0 if gap is None else getattr(gap, part) for gap in row] for row in gaps])


def draw_methods(record: MethodsRecord) -> "Picture":
    """Draw the record of methods."""
    count, panels = len(record.methods), len(record.metrics)
    with style.drawing(1.9 + 2.7 * panels, MARGINS + ROW * count) as picture:
        every = picture.subplots(1, panels, squeeze=False, sharey=True)[0]
        for place, axes in enumerate(every):
            _draw_panel(axes, record, place)
        names = [labels.method(name) for name in record.methods]
        names = [f"{name} (control)" if bad else name for name, bad in zip(names, record.control, strict=True)]
        every[0].set_yticks(range(count), names)
        for text, name in zip(every[0].get_yticklabels(), record.methods, strict=True):
            bold = "bold" if name == record.reference else "normal"
            text.set(color=palette.MUTED if name == CONTROL else palette.INK, fontweight=bold)
        every[0].set_ylim(count - 0.4, -0.6)
        note = (
            "lines: 95 % intervals of differences on the same series; filled: 0 is outside; numbers: mean scores"
        )
        picture.supxlabel(note, fontsize=7.5, color=palette.MUTED)
        text = f"Methods against {labels.method(record.reference)}  ·  {record.series:,} series"
        heading(picture, text, record.title)
        return picture


def _draw_panel(axes: "Axes", record: MethodsRecord, metric: int) -> None:
    gap, low, high = (part[:, metric] for part in (record.difference, record.low, record.high))
    axes.axvline(0, color=palette.FRAME, linewidth=0.8, zorder=1)
    axes.grid(axis="x", color=palette.FAINT, linewidth=0.5)
    for row, name in enumerate(record.methods):
        own = name == record.reference
        colour = palette.MUTED if record.control[row] else palette.UP if own else palette.INK
        if np.isfinite(low[row]) and np.isfinite(high[row]):
            axes.hlines(row, low[row], high[row], color=colour, linewidth=1.0)
        sure = own or low[row] > 0 or high[row] < 0
        mark, fill = "D" if record.control[row] else "o", colour if sure else "white"
        axes.plot(gap[row], row, mark, markersize=4.5, color=colour, markerfacecolor=fill)
    higher = record.higher_is_better[metric]
    better = {True: ", right is better", False: ", left is better", None: ""}[higher]
    axes.set_title(f"{record.metrics[metric].upper()}{better}")
    axes.set_xlabel(f"minus that of {labels.method(record.reference)}")
    value_ticks(axes, along="x", most=4)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    right = axes.twinx()
    right.set_ylim(len(record.methods) - 0.4, -0.6)
    right.set_yticks(range(len(record.methods)), alike(*record.score[:, metric].tolist()))
    right.tick_params(axis="y", length=0)
    right.spines[:].set_visible(False)


methods = style.drawn(methods_record, draw_methods)
