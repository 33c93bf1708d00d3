"""Faithfulness against cost: every method a point, with the error of its score."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tempograd.errors import InputError
from tempograd.plots import style
from tempograd.plots.parts import decade_ticks, heading, spread, value_ticks
from tempograd.views import labels, palette
from tempograd.views.series import Flags, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture


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


def cost(
    rows: Iterable[tuple[str, float, float, float]],
    *,
    cost_label: str = "seconds per series",
    score_label: str = "mean CPD",
    title: str | None = None,
) -> "Picture":
    """Draw methods as points: what they cost to the right, how faithful they are upwards.

    Parameters
    ----------
    rows : iterable of (method, cost, mean, error)
        Costs above 0, of any unit.
    cost_label, score_label : str
        What the axes show. Higher scores count as better.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> record = cost_record([("timing", 0.04, 0.37, 0.02), ("lime", 2.0, 0.3, 0.02), ("random", 0.01, 0.1, 0.02)])
    >>> record.methods, record.best.tolist()
    (('random', 'timing', 'lime'), [True, True, False])
    """
    return draw_cost(cost_record(rows, cost_label=cost_label, score_label=score_label), title)


def cost_record(
    rows: Iterable[tuple[str, float, float, float]],
    *,
    cost_label: str = "seconds per series",
    score_label: str = "mean CPD",
) -> CostRecord:
    """Sort and check what :func:`cost` draws; the arguments are the same."""
    given = sorted((CostRow(*row) for row in rows), key=lambda row: row.cost)
    if not given:
        raise InputError("There is nothing to draw: pass at least one row (method, cost, mean, error).")
    for row in given:
        if not 0 < row.cost < np.inf or not np.isfinite(row.mean):
            raise InputError(
                f"{row.method} has cost {row.cost} and mean {row.mean}: costs must be above 0 and finite."
            )
    means = np.array([row.mean for row in given])
    return CostRecord(
        methods=tuple(row.method for row in given),
        cost=np.array([row.cost for row in given]),
        mean=means,
        error=np.array([row.error for row in given]),
        best=means >= np.maximum.accumulate(means),
        cost_label=cost_label,
        score_label=score_label,
    )


def draw_cost(record: CostRecord, title: str | None = None) -> "Picture":
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
        text = "Faithfulness against cost  ·  filled: nothing cheaper is better" if title is None else title
        heading(picture, text)
        return picture


def _label_points(axes: "Axes", record: CostRecord) -> None:
    """Name the points in a column at the right, with a thin line to each; names beside them would overlap."""
    low, high = axes.get_ylim()
    heights = spread([(mean - low) / (high - low) for mean in record.mean], 0.048)
    for method, cost_, mean, height in zip(record.methods, record.cost, record.mean, heights, strict=True):
        axes.annotate(
            labels.method(method),
            (cost_, mean),
            (1.03, height),
            textcoords="axes fraction",
            va="center",
            fontsize=7.5,
            arrowprops={
                "arrowstyle": "-",
                "color": palette.MUTED,
                "linewidth": 0.5,
                "linestyle": ":",
                "relpos": (0, 0.5),
            },
        )
