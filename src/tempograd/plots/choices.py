"""How good methods are: dots with intervals, and curves of removal."""

from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import torch

from tempograd.metrics import compare, removal_curve, table
from tempograd.metrics.aggregate import MetricScores
from tempograd.plots import parts
from tempograd.typing import Array, Baseline, Model
from tempograd.views import labels, palette
from tempograd.views.drivers import CONTROL
from tempograd.views.groups import half_interval, mean_and_error
from tempograd.views.labels import Compared, as_mapping

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

ROW, MARGINS = 0.2, 1.1  # inches: of one line, and of all above and below


def methods(scores: MetricScores, **look: Unpack[parts.Look]) -> "Picture":
    """Show how faithful methods are, as differences to timing, or else the first, with 95 % intervals.

    Filled dots differ from the reference: their interval leaves 0 out. Pale is the control, random scores, which
    any method must beat. :func:`tempograd.table` writes the same scores as a table for a paper.

    Parameters
    ----------
    scores : mapping
        Of each method, by metric, one score per series: ``{"timing": tg.evaluate(…), "lime": …}``.
    **look
        As for :func:`series`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    found = table(scores)
    reference = "timing" if "timing" in scores else found.methods[0]
    better, first = -1 if found.higher_is_better[0] is False else 1, found.metrics[0]
    names = sorted(found.methods, key=lambda row: -better * found.cells[row, first].mean)
    room = parts.inches(1.9 + 2.7 * len(found.metrics), look)
    down = len(found.metrics) if room < parts.NARROW else 1
    with parts.drawing(room, down * (MARGINS + ROW * len(names)) + 0.25, look) as picture:
        every = picture.subplots(down, len(found.metrics) // down, squeeze=False, sharey=True)
        for axes, metric, higher in zip(every.flat, found.metrics, found.higher_is_better, strict=True):
            gaps = [compare(scores[name][metric], scores[reference][metric]) for name in names]
            middle, low, high = (np.array([getattr(gap, n) for gap in gaps]) for n in ("mean", "low", "high"))
            sure = np.array([name == reference for name in names]) | (low > 0) | (high < 0)
            axes.axvline(0, color=palette.FRAME, linewidth=0.8, zorder=1)
            axes.grid(axis="x", color=palette.FAINT, linewidth=0.5)
            axes.set_ylim(len(names) - 0.4, -0.6)
            for row, name in enumerate(names):
                colour = palette.UP if name == reference else palette.MUTED if name == CONTROL else palette.INK
                if np.isfinite(low[row]) and np.isfinite(high[row]):
                    axes.hlines(row, low[row], high[row], color=colour, linewidth=0.9)
                face = colour if sure[row] else "white"
                axes.plot(middle[row], row, "o", markersize=4.5, color=colour, markerfacecolor=face)
            axes.spines["left"].set_visible(False)
            parts.value_ticks(axes, along="x", most=4)
            words = {True: ", right is better", False: ", left is better", None: ""}[higher]
            axes.set_title(f"{metric.upper()}{words}")
            axes.set_xlabel(f"minus that of {labels.method(reference)}")
            parts.numbers_beside(axes, [found.cells[name, metric].mean for name in names])
        for axes in every[:, 0]:
            parts.name_rows(axes, [labels.method(name) + " (control)" * (name == CONTROL) for name in names])
            axes.get_yticklabels()[names.index(reference)].set_fontweight("bold")
        parts.note(
            picture,
            "lines: 95 % intervals of differences on the same series; filled: 0 is outside; numbers: mean scores",
        )
        count = found.cells[reference, first].count
        parts.heading(picture, f"Methods against {labels.method(reference)}  ·  {count:,} series", look)
        return picture


def removal(
    model: Model,
    explanations: Compared,
    *,
    k: int | float = 0.1,
    baseline: Baseline | None = None,
    background: Array | None = None,
    **look: Unpack[parts.Look],
) -> "Picture":
    r"""Show how the prediction moves while cells are removed one by one, for one or more methods.

    In one panel the cells that a method finds strongest go first, and a good method moves the prediction soon:
    high is good, and the end is the mean CPD. In the other the weakest go first, low is good, and the end is the
    mean CPP. Bands are 95 % intervals of the mean over series.

    Parameters
    ----------
    model : nn.Module or callable
        The model that was explained.
    explanations : Explanation, or sequence or mapping of them
        Of the same series.
    k, baseline, background
        As for :func:`tempograd.evaluate`.
    **look
        As for :func:`series`.

    Returns
    -------
    matplotlib.figure.Figure

    Notes
    -----
    After :math:`j` removals a series has changed by :math:`\sum_{k<j} \lVert F(x_k) - F(x_{k+1}) \rVert_1`.
    A series with fewer cells than others stays where it is once all it has to lose is gone.
    """
    named = as_mapping(explanations)
    removed: dict[str, Any] = {"k": k, "baseline": baseline, "background": background}
    curves = [
        [removal_curve(model, each, descending=first, **removed).delta.cpu() for each in named.values()]
        for first in (True, False)
    ]
    count, room = len(curves[0][0]), parts.inches(7.4, look)
    across = 1 if room < parts.NARROW else 2
    with parts.drawing(room, 3.4 if across > 1 else 5.2, look) as picture:
        panels = picture.subplots(2 // across, across).flat
        heads = "strongest first: high is good (ends at CPD)", "weakest first: low is good (ends at CPP)"
        for axes, deltas, head in zip(panels, curves, heads, strict=True):
            for index, (label, delta) in enumerate(zip(named, deltas, strict=True)):
                _draw_curve(axes, label, delta, index)
            axes.set_title(head)
            axes.set_xlabel("cells removed")
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            parts.value_ticks(axes, most=5)
            parts.value_ticks(axes, along="x", most=5)
        panels[0].set_ylabel("change of the prediction")
        keys = panels[0].get_legend_handles_labels()
        columns = min(len(named), max(1, parts.letters(picture) // 24))
        picture.legend(*keys, loc="outside lower center", ncols=columns, handlelength=2.6)
        about = "one series" if count < 2 else f"mean of {count} series with its 95 % interval"
        parts.heading(picture, f"The prediction as cells are removed  ·  {about}", look)
        return picture


def _draw_curve(axes: "Axes", label: str, delta: torch.Tensor, index: int) -> None:
    """Draw the mean over series of the total change so far, with its interval."""
    mean, error = mean_and_error(torch.cat([torch.zeros(len(delta), 1), delta], 1).double().cumsum(1))
    look, removed = parts.method_style(index), np.arange(len(mean))
    half = half_interval(error, len(delta) - 1)
    if np.isfinite(half).all():
        axes.fill_between(removed, mean - half, mean + half, color=look["color"], alpha=0.15, linewidth=0)
    axes.plot(removed, mean, label=labels.method(label), linewidth=1.4, **look)
    axes.set_xlim(right=removed[-1])
