"""Choices: settings as differences to the default, and explainers as differences to the best."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from tempograd.core import stats
from tempograd.core.formatting import alike
from tempograd.plots import style
from tempograd.plots.parts import heading, value_ticks
from tempograd.tuning import Ranking, Tuning
from tempograd.views import labels, palette
from tempograd.views.series import Flags, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

ROW, MARGINS, WIDTH = 0.2, 1.1, 6.4  # inches: of one line, of all above and below, of the picture
LONGEST = 44  # letters of a name


@dataclass(frozen=True)
class ChoiceRecord:
    """What the picture shows, the best first.

    Attributes
    ----------
    names : tuple of str
    score, difference, low, high : arrays of shape (rows,)
        Mean score (of settings that did not run on all series, that of the default and the difference to it),
        difference to the reference on the same series, and the limits of the 95 % interval of that: of each by
        itself for settings, of all at once for explainers.
    series : array of shape (rows,)
        How many series a row is about.
    full : array of bool
        Settings that ran to the end; explainers that cannot be told from the best one.
    chosen : array of bool
        The setting that won; explainers that may be the best.
    reference : str
        What differences are to.
    metric : str
    higher_is_better : bool
    """

    names: tuple[str, ...]
    score: Floats
    difference: Floats
    low: Floats
    high: Floats
    series: Floats
    full: Flags
    chosen: Flags
    reference: str
    metric: str
    higher_is_better: bool
    heading: str
    title: str | None = None


def tuning_record(found: Tuning, *, title: str | None = None) -> ChoiceRecord:
    """Show how much better or worse than the default each setting is, with 95 % intervals, the best first.

    Filled dots ran on all series, open ones went out before. The name of the winner is bold.

    Parameters
    ----------
    found : Tuning
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure or ChoiceRecord
        The picture, or from ``tuning_record`` the numbers behind it.
    """
    sign = 1 if found.higher_is_better else -1
    rows = sorted(found.table, key=lambda row: -sign * row.difference)
    gap, error = (np.array([getattr(row, name) for row in rows]) for name in ("difference", "difference_error"))
    series = np.array([float(row.series) for row in rows])
    half = stats.t_quantile(0.95, torch.as_tensor(series - 1)).numpy() * error
    return ChoiceRecord(
        names=tuple(row.words for row in rows),
        score=found.default.score + gap,
        difference=gap,
        low=gap - half,
        high=gap + half,
        series=series,
        full=np.array([row.finished for row in rows]),
        chosen=np.array([row.chosen for row in rows]),
        reference="the default",
        metric=found.metric,
        higher_is_better=found.higher_is_better,
        heading=f"Settings of {labels.method(found.method)}  ·  95 % intervals, up to {found.series} series",
        title=title,
    )


def ranking_record(found: Ranking, *, title: str | None = None) -> ChoiceRecord:
    """Show how far explainers are from the best one, with intervals that hold for all of them at once.

    Filled dots cannot be told from the best one.

    Parameters
    ----------
    found : Ranking
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure or ChoiceRecord
        The picture, or from ``ranking_record`` the numbers behind it.
    """
    rows = found.table
    score, gap, low, high = (
        np.array([getattr(row, name) for row in rows]) for name in ("score", "difference", "low", "high")
    )
    return ChoiceRecord(
        names=tuple(row.method for row in rows),
        score=score,
        difference=gap,
        low=low,
        high=high,
        series=np.array([float(row.series) for row in rows]),
        full=np.array([row.ties for row in rows]),
        chosen=np.array([row.method in found.best for row in rows]),
        reference=labels.method(rows[0].method),
        metric=found.metric,
        higher_is_better=found.higher_is_better,
        heading=f"Faithfulness of explainers  ·  simultaneous 95 % intervals, {found.series} series",
        title=title,
    )


def draw_tuning(record: ChoiceRecord) -> "Picture":
    """Draw the record of settings."""
    return _draw(record)


def draw_ranking(record: ChoiceRecord) -> "Picture":
    """Draw the record of explainers."""
    return _draw(record)


def _draw(record: ChoiceRecord) -> "Picture":
    count = len(record.names)
    with style.drawing(WIDTH, MARGINS + ROW * count) as picture:
        axes = picture.subplots()
        place = np.arange(count)
        known = np.isfinite(record.low) & np.isfinite(record.high)
        colour = np.where(record.full, palette.INK, palette.MUTED)
        axes.axvline(0, color=palette.FRAME, linewidth=0.8, zorder=1)
        axes.hlines(place[known], record.low[known], record.high[known], color=list(colour[known]), linewidth=0.9)
        for row in range(count):
            fill = colour[row] if record.full[row] else "white"
            axes.plot(record.difference[row], row, "o", markersize=4.5, color=colour[row], markerfacecolor=fill)
        _name_rows(axes, record)
        better = "right" if record.higher_is_better else "left"
        axes.set_xlabel(f"{record.metric.upper()} minus that of {record.reference} ({better} is better)")
        value_ticks(axes, along="x", most=7)
        axes.grid(axis="x", color=palette.FAINT, linewidth=0.5)
        heading(picture, record.heading, record.title)
        return picture


def _name_rows(axes: "Axes", record: ChoiceRecord) -> None:
    """Write names on the left, those chosen bold, and mean scores on the right."""
    count = len(record.names)
    axes.set_yticks(range(count), [labels.name(labels.method(name), LONGEST) for name in record.names])
    axes.set_ylim(count - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    for text, chosen in zip(axes.get_yticklabels(), record.chosen, strict=True):
        text.set(color=palette.INK, fontweight="bold" if chosen else "normal")
    right = axes.twinx()
    right.set_ylim(*axes.get_ylim())
    right.set_yticks(range(count), alike(*record.score.tolist()))
    right.tick_params(axis="y", length=0)
    right.spines[:].set_visible(False)
    axes.spines["left"].set_visible(False)
    right.text(1.01, 1.01, record.metric.upper(), transform=right.transAxes, fontsize=7.5, color=palette.MUTED)


tuning = style.drawn(tuning_record, draw_tuning)
ranking = style.drawn(ranking_record, draw_ranking)
