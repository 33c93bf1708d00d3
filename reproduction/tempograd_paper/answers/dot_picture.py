"""A table as a picture: one dot for each method and data set, with its interval and the published mean."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from tempograd.core.stats import t_quantile
from tempograd.plots import parts
from tempograd.plots.parts import heading, value_ticks
from tempograd.views import palette
from tempograd_paper.tables.captions import panel_label
from tempograd_paper.tables.entries import FLOOR, TableEntry
from tempograd_paper.tables.sheets import measure_label
from tempograd_paper.tables.tabulation import Panel, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

ROW, MARGINS, ACROSS = 0.19, 1.25, 4  # inches of a row and around them; panels side by side
NARROWEST = 5.5  # inches, for the title and the note


@dataclass(frozen=True)
class Dot:
    """One method on one data set.

    ``low`` and ``high`` end its 95 % interval, ``published`` may be None, ``whole`` says that no fold is missing.
    """

    label: str
    mean: float
    low: float
    high: float
    published: float | None
    whole: bool = True


@dataclass(frozen=True)
class DotPanel:
    """One data set; methods that were not run there are not among its dots."""

    title: str
    dots: tuple[Dot, ...]


def dot_panels(table: Table) -> list[DotPanel]:
    """Return what the picture of a table shows: its first CPD with zeros, or its first measure.

    Intervals are Student's t over folds, or over series where there is one fold. The published mean stands beside
    ours where the two can be compared: under the published protocol, on the data of the paper.
    """
    measures = table.plan.measures
    index = next((n for n, m in enumerate(measures) if m.metric == "cpd" and m.baseline == "zero"), 0)
    found = []
    for panel in table.panels:
        if not panel.folds or panel.left_out:
            continue
        rows = zip(table.plan.rows, panel.entries, strict=True)
        dots = tuple(dot for row, entries in rows if (dot := _dot(row.label, entries[index], panel)) is not None)
        found.append(DotPanel(f"{panel_label(panel)}\n{measure_label(measures[index])}, {_over(panel)}", dots))
    return found


def draw_dots(table: Table) -> "Picture":
    """Draw the table."""
    panels = dot_panels(table)
    run = {dot.label for panel in panels for dot in panel.dots}
    rows = [row.label for row in table.plan.rows if row.label in run]
    across = min(ACROSS, len(panels))
    down = math.ceil(len(panels) / across)
    with parts.drawing(max(NARROWEST, 1.3 + 1.85 * across), down * (MARGINS + ROW * len(rows))) as picture:
        every = picture.subplots(down, across, squeeze=False, sharey=True)
        for place, axes in enumerate(every.flat):
            if place < len(panels):
                _draw(axes, panels[place], rows)
            else:
                axes.set_axis_off()
        for axes in every[:, 0]:
            axes.set_yticks(range(len(rows)), rows)
            for text in axes.get_yticklabels():
                text.set_color(palette.UP if text.get_text().startswith("TIMING") else palette.INK)
        every[0, 0].set_ylim(len(rows) - 0.4, -0.6)
        dots = [dot for panel in panels for dot in panel.dots]
        hollow = ["diamonds: published"] if any(dot.published is not None for dot in dots) else []
        hollow += [] if all(dot.whole for dot in dots) else ["dots: fewer folds than other rows"]
        note = "lines: 95 % intervals over folds, or over the series of one fold"
        note += f"\nhollow {', hollow '.join(hollow)}" if hollow else ""
        picture.supxlabel(note, fontsize=7.5, color=palette.MUTED)
        heading(picture, f"{table.plan.title} ({table.plan.protocol})")
        return picture


def _dot(label: str, entry: TableEntry, panel: Panel) -> Dot | None:
    ours = entry.summary
    if ours is None:
        return None
    error = ours.standard_error if math.isfinite(ours.standard_error) else 0.0
    freedom = torch.tensor(float(ours.count - 1), dtype=torch.float64)
    half = error * float(t_quantile(0.95, freedom)) if error else 0.0
    theirs = entry.published.mean if entry.published is not None and entry.deviation is not None else None
    whole = panel.over != "folds" or ours.count == len(panel.folds)
    return Dot(label, ours.mean, ours.mean - half, ours.mean + half, theirs, whole)


def _over(panel: Panel) -> str:
    return f"{len(panel.folds)} folds" if panel.over == "folds" else f"{panel.series[0]:,} series"


def _draw(axes: "Axes", panel: DotPanel, rows: list[str]) -> None:
    axes.grid(axis="x", color=palette.FAINT, linewidth=0.5)
    for dot in panel.dots:
        row = rows.index(dot.label)
        own = dot.label.startswith("TIMING")
        colour = palette.MUTED if dot.label == FLOOR else palette.UP if own else palette.INK
        axes.hlines(row, dot.low, dot.high, color=colour, linewidth=1.0)
        axes.plot(dot.mean, row, "o", markersize=4, color=colour, markerfacecolor=colour if dot.whole else "white")
        if dot.published is not None:
            axes.plot(dot.published, row, "D", markersize=5, color=palette.DOWN, markerfacecolor="none")
    axes.set_title(panel.title)
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    value_ticks(axes, along="x", most=4)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
