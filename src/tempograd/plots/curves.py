"""Curves: the prediction as cells are removed, the error as samples are added, and faithfulness against cost."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from tempograd.core.errors import InputError, arg, one_line
from tempograd.core.formatting import percent
from tempograd.explanation import diagnostics
from tempograd.metrics import removal_curve, summarise
from tempograd.plots import style
from tempograd.plots.parts import decade_ticks, heading, note, spread, value_ticks
from tempograd.typing import Array, Baseline, Model
from tempograd.views import labels, palette
from tempograd.views.groups import half_interval, mean_and_error
from tempograd.views.labels import Compared, as_mapping

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

MOST_TICKS = 9


def removal(
    model: Model,
    explanations: Compared,
    *,
    x: Array | None = None,
    k: int | float = 0.1,
    baseline: Baseline | None = None,
    batch_size: int | None = None,
    title: str | None = None,
    background: Array | None = None,
    draws: int | None = None,
    width: style.Width = None,
    ax: Any = None,
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
    x, k, baseline, batch_size, background, draws
        As for :func:`tempograd.evaluate`.
    title, width, ax
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
    options: dict[str, Any] = {"batch_size": batch_size, "background": background, "draws": draws}
    deltas = {
        descending: {
            label: removal_curve(model, each, x, k, baseline, descending=descending, **options).delta.cpu()
            for label, each in named.items()
        }
        for descending in (True, False)
    }
    count, room = len(deltas[True][next(iter(named))]), style.inches(width, 7.4, ax)
    across = 1 if room < style.NARROW else 2
    with style.drawing(room, 3.4 if across > 1 else 5.2, ax) as picture:
        panels = picture.subplots(2 // across, across).flat
        heads = (
            "strongest cells first: high is good (ends at CPD)",
            "weakest cells first: low is good (ends at CPP)",
        )
        for axes, curves, head in zip(panels, deltas.values(), heads, strict=True):
            for index, (label, delta) in enumerate(curves.items()):
                _draw_curve(axes, label, delta, index)
            axes.set_title(head)
            axes.set_xlabel("cells removed")
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            value_ticks(axes, most=5)
            value_ticks(axes, along="x", most=5)
        panels[0].set_ylabel("change of the prediction")
        keys = panels[0].get_legend_handles_labels()
        columns = min(len(named), max(1, style.letters(picture) // 24))
        picture.legend(*keys, loc="outside lower center", ncols=columns, handlelength=2.6)
        about = "one series" if count < 2 else f"mean of {count} series with its 95 % interval"
        heading(picture, f"The prediction as cells are removed  ·  {about}", title)
        return picture


def _draw_curve(axes: "Axes", label: str, delta: torch.Tensor, index: int) -> None:
    """Draw the mean over series of the total change so far, with its interval."""
    mean, error = mean_and_error(torch.cat([torch.zeros(len(delta), 1), delta], 1).double().cumsum(1))
    end = summarise(delta.sum(1))  # in the order that evaluate adds up, so that both agree to the last digit
    mean[-1], error[-1] = end.mean, end.standard_error
    look, removed = style.method_style(index), np.arange(len(mean))
    half = half_interval(error, len(delta) - 1)
    if np.isfinite(half).all():
        axes.fill_between(removed, mean - half, mean + half, color=look["color"], alpha=0.15, linewidth=0)
    axes.plot(removed, mean, label=labels.method(label), linewidth=1.4, **look)
    axes.set_xlim(right=removed[-1])


def convergence(
    explanations: Compared, *, title: str | None = None, width: style.Width = None, ax: Any = None
) -> "Picture":
    """Show how the estimated error of the scores fell as samples were added, for one or more methods or settings.

    Both axes are logarithmic, so that an error that falls with the square root of the samples is a straight line.
    The line is the middle series, the band holds nine of ten, and a series that was good enough and got no more
    samples keeps its error. Dashed: the goal.

    Parameters
    ----------
    explanations : Explanation, or sequence or mapping of them
        Of the same series, each with errors along the samples (``curve_samples``).
    title, width, ax
        As for :func:`series`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    named, courses = as_mapping(explanations), {}
    for label, explanation in named.items():
        course = diagnostics.error_curve(explanation)
        if course is None:
            raise InputError(
                f"Nobody looked at the error of {one_line(label)} on the way: explain with a tolerance, as in "
                f"{arg:method.tolerance=0.05}, or with more samples."
            )
        courses[label] = course
    count = len(next(iter(named.values())))
    with style.drawing(style.inches(width, 5.6, ax), 3.4, ax) as picture:
        axes = picture.subplots()
        axes.set_xscale("log")
        axes.set_yscale("log")
        for index, (name, course) in enumerate(courses.items()):
            look = style.method_style(index)
            if count > 1:
                band = (course.points, course.low, course.high)
                axes.fill_between(*band, color=look["color"], alpha=0.15, linewidth=0)
            look |= {"label": labels.method(name), "linewidth": 1.4, "marker": "o", "markersize": 3.5}
            axes.plot(course.points, course.middle, **look)
        beside: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        for goal in sorted({course.goal for course in courses.values()}):
            axes.axhline(goal, color=palette.DOWN, linewidth=1, linestyle=(0, (4, 3)))
            axes.annotate(f"goal {percent(goal)}", (0, goal), (4, 3), color=palette.DOWN, **beside)
        bottom, top = axes.get_ylim()
        axes.set_ylim(bottom / 1.25, top * 1.25)
        _round_ticks(axes, sorted({int(points) for course in courses.values() for points in course.points}))
        axes.set_xlabel("samples per series")
        axes.set_ylabel("estimated error of the scores")
        axes.grid(color=palette.FAINT, linewidth=0.5)
        if len(courses) > 1:
            axes.legend(loc="upper right", handlelength=3.2)
        if count > 1:
            note(picture, "line: the middle series; band: nine of ten")
        about = f"{count:,} series" if count > 1 else "one series"
        heading(picture, f"The error as samples are added  ·  {about}", title)
        return picture


def _round_ticks(axes: "Axes", looks: list[int]) -> None:
    """Write the looks, and 1 %, 2 %, 5 %, …; matplotlib's powers of ten would leave one of each."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: PLC0415  # an extra

    low, high = axes.get_ylim()
    round_ones = [factor * 10.0**power for power in range(-6, 6) for factor in (1, 2, 5)]
    for axis, ticks in ((axes.xaxis, looks), (axes.yaxis, [tick for tick in round_ones if low <= tick <= high])):
        axis.set_major_locator(FixedLocator(ticks if len(ticks) <= MOST_TICKS else ticks[::3]))
        axis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))


class CostRow(NamedTuple):
    """One method: what a series costs, and its mean score with a standard error."""

    method: str
    cost: float
    mean: float
    error: float


def cost(
    rows: Iterable[tuple[str, float, float, float]],
    *,
    cost_label: str = "seconds per series",
    score_label: str = "mean CPD",
    title: str | None = None,
    width: style.Width = None,
    ax: Any = None,
) -> "Picture":
    """Show methods as dots: what they cost to the right, how faithful they are upwards.

    Filled dots are those than which nothing cheaper is better.

    Parameters
    ----------
    rows : iterable of (method, cost, mean, error)
        Costs above 0, of any unit.
    cost_label, score_label : str
        What the axes show. Higher scores count as better.
    title, width, ax
        As for :func:`series`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    given = sorted((CostRow(*row) for row in rows), key=lambda row: row.cost)
    if not given:
        raise InputError("There is nothing to draw: pass at least one row (method, cost, mean, error).")
    for row in given:
        if not 0 < row.cost < np.inf or not np.isfinite(row.mean):
            wrong = f"{row.method} has cost {row.cost} and mean {row.mean}"
            raise InputError(f"{wrong}: costs must be above 0 and finite.")
    best = [row for place, row in enumerate(given) if all(row.mean >= other.mean for other in given[:place])]
    with style.drawing(style.inches(width, 6.4, ax), 4.0, ax) as picture:
        axes = picture.subplots()
        front = ([row.cost for row in best], [row.mean for row in best])
        axes.step(*front, where="post", color=palette.MUTED, linewidth=0.8)
        for row in given:
            if np.isfinite(row.error):
                ends = (row.mean - row.error, row.mean + row.error)
                axes.vlines(row.cost, *ends, color=palette.INK, linewidth=0.9)
            fill = palette.INK if row in best else "white"
            axes.plot(row.cost, row.mean, "o", markersize=5, color=palette.INK, markerfacecolor=fill)
        axes.set_xscale("log")
        decade_ticks(axes)
        value_ticks(axes, most=6)
        axes.margins(x=0.1, y=0.1)
        _label_points(axes, given)
        axes.set_xlabel(cost_label)
        axes.set_ylabel(f"{score_label} ± standard error")
        axes.grid(color=palette.FAINT, linewidth=0.5)
        heading(picture, "Faithfulness against cost  ·  filled: nothing cheaper is better", title)
        return picture


def _label_points(axes: "Axes", rows: Sequence[CostRow]) -> None:
    """Name the points in a column at the right, with a thin line to each; names beside them would overlap."""
    low, high = axes.get_ylim()
    heights = spread([(row.mean - low) / (high - low) for row in rows], 0.048)
    line = {"arrowstyle": "-", "color": palette.MUTED, "linewidth": 0.5, "linestyle": ":", "relpos": (0, 0.5)}
    look: dict[str, Any] = {"textcoords": "axes fraction", "va": "center", "arrowprops": line}
    for row, height in zip(rows, heights, strict=True):
        axes.annotate(labels.method(row.method), (row.cost, row.mean), (1.03, height), **look)
