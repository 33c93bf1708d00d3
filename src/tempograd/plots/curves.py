"""Curves: the prediction as cells are removed, the error as samples are added, and faithfulness against cost."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core import stats
from tempograd.core.errors import InputError, arg, one_line
from tempograd.core.formatting import percent
from tempograd.explanation import diagnostics
from tempograd.metrics import removal_curve, summarise
from tempograd.plots import style
from tempograd.plots.parts import decade_ticks, heading, spread, value_ticks
from tempograd.typing import Array, Baseline, Model
from tempograd.views import labels, palette
from tempograd.views.channels import mean_and_error
from tempograd.views.labels import Compared, as_mapping
from tempograd.views.series import Flags, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture


# Removal curves: how far the prediction has moved while cells are taken away, strongest or weakest first.


@dataclass(frozen=True)
class MeanCurve:
    """Mean over the series of the total change so far, after 0 … K removals, with its standard error."""

    method: str
    mean: Floats  # (K + 1,)
    error: Floats  # infinite below two series


@dataclass(frozen=True)
class RemovalRecord:
    """What the picture shows.

    Attributes
    ----------
    removed : array of shape (K + 1,)
        Cells removed.
    series : int
        How many series were averaged.
    cpd, cpp : tuple of Curve
        One for each method, strongest cells first and weakest cells first. They end at the mean CPD and CPP.
    """

    removed: NDArray[np.int64]
    series: int
    cpd: tuple[MeanCurve, ...]
    cpp: tuple[MeanCurve, ...]
    title: str | None = None

    @property
    def factor(self) -> float:
        """How many standard errors make the 95 % interval of a mean, by Student's t."""
        return float(stats.t_quantile(0.95, torch.tensor([float(self.series - 1)])))


def removal_record(
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
) -> RemovalRecord:
    r"""Show how the prediction moves while cells are removed one by one, for one or more methods.

    On the left the cells that a method finds strongest go first, and a good method moves the prediction soon: high
    is good, and the end is the mean CPD. On the right the weakest go first, low is good, and the end is the mean
    CPP. Bands are 95 % intervals of the mean over series.

    Parameters
    ----------
    model : nn.Module or callable
        The model that was explained.
    explanations : Explanation, or sequence or mapping of them
        Of the same series.
    x, k, baseline, batch_size, background, draws
        As for :func:`tempograd.evaluate`.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure or RemovalRecord
        The picture, or from ``removal_record`` the numbers behind it.

    Notes
    -----
    After :math:`j` removals a series has changed by :math:`\sum_{k<j} \lVert F(x_k) - F(x_{k+1}) \rVert_1`.
    A series with fewer cells than others stays where it is once all it has to lose is gone.
    """
    named = as_mapping(explanations)
    found: dict[bool, list[MeanCurve]] = {True: [], False: []}
    for label, explanation in named.items():
        for descending, curves in found.items():
            options: dict[str, Any] = {"batch_size": batch_size, "background": background, "draws": draws}
            delta = removal_curve(model, explanation, x, k, baseline, descending=descending, **options).delta.cpu()
            curves.append(_curve(label, delta))
    steps = len(found[True][0].mean)
    return RemovalRecord(np.arange(steps), len(delta), tuple(found[True]), tuple(found[False]), title)


def _curve(label: str, delta: Tensor) -> MeanCurve:
    mean, error = mean_and_error(torch.cat([torch.zeros(len(delta), 1), delta], 1).double().cumsum(1))
    end = summarise(delta.sum(1))  # in the order that evaluate adds up, so that both agree to the last digit
    mean[-1], error[-1] = end.mean, end.standard_error
    return MeanCurve(label, mean, error)


def draw_removal(record: RemovalRecord) -> "Picture":
    """Draw the record of removal curves."""
    with style.drawing(7.4, 3.3) as picture:
        left, right = picture.subplots(1, 2)
        _draw_curves(left, record, record.cpd)
        _draw_curves(right, record, record.cpp)
        left.set_title("strongest cells first: high is good (ends at CPD)")
        right.set_title("weakest cells first: low is good (ends at CPP)")
        left.set_ylabel("total change of the prediction")
        handles, labels = left.get_legend_handles_labels()
        picture.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5), handlelength=2.6)
        about = "one series" if record.series < 2 else f"mean of {record.series} series with its 95 % interval"
        heading(picture, f"The prediction as cells are removed  ·  {about}", record.title)
        return picture


removal = style.drawn(removal_record, draw_removal)


def _draw_curves(axes: "Axes", record: RemovalRecord, curves: tuple[MeanCurve, ...]) -> None:
    for index, curve in enumerate(curves):
        look = style.method_style(index)
        if np.isfinite(curve.error).all():
            half = record.factor * curve.error
            band = (curve.mean - half, curve.mean + half)
            axes.fill_between(record.removed, *band, color=look["color"], alpha=0.15, linewidth=0)
        axes.plot(record.removed, curve.mean, label=labels.method(curve.method), linewidth=1.4, **look)
    axes.set_xlabel("cells removed")
    axes.set_xlim(0, record.removed[-1])
    axes.set_ylim(bottom=0)
    value_ticks(axes, most=5)
    value_ticks(axes, along="x", most=5)


# How sure the scores are: their estimated error as samples were added.

MOST_TICKS = 9


@dataclass(frozen=True)
class ConvergenceRecord:
    """What the picture shows.

    Attributes
    ----------
    courses : dict of Curve
        How the error of each method fell: the middle series, and limits that hold nine of ten.
    goals : tuple of float
        The relative errors to reach, the smallest first.
    series : int
    """

    courses: dict[str, diagnostics.ErrorCurve]
    goals: tuple[float, ...]
    series: int
    title: str | None = None


def convergence_record(explanations: Compared, *, title: str | None = None) -> ConvergenceRecord:
    """Show how the estimated error of the scores fell as samples were added, for one or more methods or settings.

    Both axes are logarithmic, so that an error that falls with the square root of the samples is a straight line.
    The line is the middle series, the band holds nine of ten, and a series that was good enough and got no more
    samples keeps its error. Dashed: the goal.

    Parameters
    ----------
    explanations : Explanation, or sequence or mapping of them
        Of the same series, each with errors along the samples (``curve_samples``).
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure or ConvergenceRecord
        The picture, or from ``convergence_record`` the numbers behind it.
    """
    courses = {}
    for label, explanation in as_mapping(explanations).items():
        found = diagnostics.error_curve(explanation)
        if found is None:
            raise InputError(
                f"Nobody looked at the error of {one_line(label)} on the way: explain with a tolerance, as in "
                f"{arg:method.tolerance=0.05}, or with more samples."
            )
        courses[label] = found
    goals = sorted({course.goal for course in courses.values()})
    return ConvergenceRecord(courses, tuple(goals), len(explanation), title)


def draw_convergence(record: ConvergenceRecord) -> "Picture":
    """Draw the record of errors."""
    with style.drawing(5.6, 3.4) as picture:
        axes = picture.subplots()
        axes.set_xscale("log")
        axes.set_yscale("log")
        for index, (name, course) in enumerate(record.courses.items()):
            look = style.method_style(index)
            if record.series > 1:
                axes.fill_between(
                    course.points, course.low, course.high, color=look["color"], alpha=0.15, linewidth=0
                )
            look |= {"label": labels.method(name), "linewidth": 1.4, "marker": "o", "markersize": 3.5}
            axes.plot(course.points, course.middle, **look)
        beside: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        for goal in record.goals:
            axes.axhline(goal, color=palette.DOWN, linewidth=1, linestyle=(0, (4, 3)))
            axes.annotate(f"goal {percent(goal)}", (0, goal), (4, 3), fontsize=7.5, color=palette.DOWN, **beside)
        bottom, top = axes.get_ylim()
        axes.set_ylim(bottom / 1.25, top * 1.25)
        _round_ticks(axes, record)
        axes.set_xlabel("samples per series")
        axes.set_ylabel("estimated error of the scores")
        axes.grid(color=palette.FAINT, linewidth=0.5)
        if len(record.courses) > 1:
            axes.legend(loc="upper right", handlelength=3.2)
        many = record.series > 1
        if many:
            note = "line: the middle series; band: nine of ten"
            picture.supxlabel(note, fontsize=7.5, color=palette.MUTED)
        about = f"{record.series:,} series" if many else "one series"
        heading(picture, f"The error as samples are added  ·  {about}", record.title)
        return picture


convergence = style.drawn(convergence_record, draw_convergence)


def _round_ticks(axes: "Axes", record: ConvergenceRecord) -> None:
    """Write the looks, and 1 %, 2 %, 5 %, …; matplotlib's powers of ten would leave one of each."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: PLC0415  # an extra

    low, high = axes.get_ylim()
    round_ones = [factor * 10.0**power for power in range(-6, 6) for factor in (1, 2, 5)]
    looks = sorted({int(points) for course in record.courses.values() for points in course.points})
    for axis, ticks in ((axes.xaxis, looks), (axes.yaxis, [tick for tick in round_ones if low <= tick <= high])):
        axis.set_major_locator(FixedLocator(ticks if len(ticks) <= MOST_TICKS else ticks[::3]))
        axis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))


# Faithfulness against cost: every method a point, with the error of its score.


class CostRow(NamedTuple):
    """One method: what a series costs, and its mean score with a standard error."""

    method: str
    cost: float
    mean: float
    error: float


@dataclass(frozen=True)
class CostRecord:
    """What the picture shows, cheapest first.

    Attributes
    ----------
    methods : tuple of str
    cost, mean, error : array of shape (method,)
    best : array of bool
        Whether no other method is both as cheap and better.
    cost_label, score_label : str
        What the axes show.
    """

    methods: tuple[str, ...]
    cost: Floats
    mean: Floats
    error: Floats
    best: Flags
    cost_label: str
    score_label: str
    title: str | None = None


def cost_record(
    rows: Iterable[tuple[str, float, float, float]],
    *,
    cost_label: str = "seconds per series",
    score_label: str = "mean CPD",
    title: str | None = None,
) -> CostRecord:
    """Show methods as dots: what they cost to the right, how faithful they are upwards.

    Parameters
    ----------
    rows : iterable of (method, cost, mean, error)
        Costs above 0, of any unit.
    cost_label, score_label : str
        What the axes show. Higher scores count as better.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure or CostRecord
        The picture, or from ``cost_record`` the numbers behind it.

    Examples
    --------
    >>> record = cost_record([("timing", 0.04, 0.37, 0.02), ("lime", 2.0, 0.3, 0.02), ("random", 0.01, 0.1, 0.02)])
    >>> record.methods, record.best.tolist()
    (('random', 'timing', 'lime'), [True, True, False])
    """
    given = sorted((CostRow(*row) for row in rows), key=lambda row: row.cost)
    if not given:
        raise InputError("There is nothing to draw: pass at least one row (method, cost, mean, error).")
    for row in given:
        if not 0 < row.cost < np.inf or not np.isfinite(row.mean):
            raise InputError(
                f"{row.method} has cost {row.cost} and mean {row.mean}: costs must be above 0 and finite."
            )
    methods, *columns = zip(*given, strict=True)
    costs, means, errors = map(np.array, columns)
    best = means >= np.maximum.accumulate(means)
    return CostRecord(methods, costs, means, errors, best, cost_label, score_label, title)


def draw_cost(record: CostRecord) -> "Picture":
    """Draw the record of methods."""
    with style.drawing(6.4, 4.0) as picture:
        axes = picture.subplots()
        frontier = record.best
        axes.step(record.cost[frontier], record.mean[frontier], where="post", color=palette.MUTED, linewidth=0.8)
        known = np.isfinite(record.error)
        low, high = (record.mean + side * record.error for side in (-1, 1))
        axes.vlines(record.cost[known], low[known], high[known], color=palette.INK, linewidth=0.9)
        for index in range(len(record.methods)):
            fill = palette.INK if frontier[index] else "white"
            axes.plot(
                record.cost[index], record.mean[index], "o", markersize=5, color=palette.INK, markerfacecolor=fill
            )
        axes.set_xscale("log")
        decade_ticks(axes)
        value_ticks(axes, most=6)
        axes.margins(x=0.1, y=0.1)
        _label_points(axes, record)
        axes.set_xlabel(record.cost_label)
        axes.set_ylabel(f"{record.score_label} ± standard error")
        axes.grid(color=palette.FAINT, linewidth=0.5)
        heading(picture, "Faithfulness against cost  ·  filled: nothing cheaper is better", record.title)
        return picture


cost = style.drawn(cost_record, draw_cost)


def _label_points(axes: "Axes", record: CostRecord) -> None:
    """Name the points in a column at the right, with a thin line to each; names beside them would overlap."""
    low, high = axes.get_ylim()
    heights = spread([(mean - low) / (high - low) for mean in record.mean], 0.048)
    line = {"arrowstyle": "-", "color": palette.MUTED, "linewidth": 0.5, "linestyle": ":", "relpos": (0, 0.5)}
    look: dict[str, Any] = {"textcoords": "axes fraction", "va": "center", "fontsize": 7.5, "arrowprops": line}
    for method, cost_, mean, height in zip(record.methods, record.cost, record.mean, heights, strict=True):
        axes.annotate(labels.method(method), (cost_, mean), (1.03, height), **look)
