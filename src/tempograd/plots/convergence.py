"""How sure the scores are: their estimated error as points were added."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tempograd._utils.formatting import percent
from tempograd.errors import InputError, one_line
from tempograd.explanation.diagnostics import curve
from tempograd.plots import style, wording
from tempograd.plots.parts import heading
from tempograd.plots.subject import Floats
from tempograd.shown import Explanations, labelled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

MOST_TICKS = 9


@dataclass(frozen=True)
class Course:
    """How the error of one method fell, (looks,) each: the middle series, and limits that hold nine of ten."""

    method: str
    points: NDArray[np.int64]
    middle: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class ConvergenceRecord:
    """What the picture shows.

    Attributes
    ----------
    courses : tuple of Course
        One for each method.
    goals : tuple of float
        The relative errors to reach, the smallest first.
    series : int
    """

    courses: tuple[Course, ...]
    goals: tuple[float, ...]
    series: int


def convergence(explanations: Explanations, *, title: str | None = None) -> "Picture":
    """Draw how the estimated error of the scores fell as points were added, for one or more methods or settings.

    Both axes are logarithmic, so that an error that falls with the square root of the points is a straight line.
    The line is the middle series, the band holds nine of ten, and a series that was good enough and got no more
    points keeps its error. Dashed: the goal.

    Parameters
    ----------
    explanations : Explanation, or sequence or mapping of them
        Of the same series, each with a look on the way (``curve_points``).
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    return draw_convergence(convergence_record(explanations), title)


def convergence_record(explanations: Explanations) -> ConvergenceRecord:
    """Compute what :func:`convergence` draws; the arguments are the same."""
    named = labelled(explanations)
    courses, goals = [], set()
    for label, explanation in named.items():
        found = curve(explanation)
        if found is None:
            raise InputError(
                f"Nobody looked at the error of {one_line(label)} on the way: explain with a tolerance, as in "
                "tolerance=0.05, or with more points."
            )
        courses.append(Course(label, found.points, found.middle, found.low, found.high))
        goals.add(found.goal)
    return ConvergenceRecord(tuple(courses), tuple(sorted(goals)), len(explanation))


def draw_convergence(record: ConvergenceRecord, title: str | None = None) -> "Picture":
    """Draw the record of errors."""
    with style.drawing(5.6, 3.4) as picture:
        axes = picture.subplots()
        axes.set_xscale("log")
        axes.set_yscale("log")
        for index, course in enumerate(record.courses):
            look = style.method_style(index)
            if record.series > 1:
                axes.fill_between(
                    course.points, course.low, course.high, color=look["color"], alpha=0.15, linewidth=0
                )
            label = wording.method(course.method)
            axes.plot(course.points, course.middle, label=label, linewidth=1.4, marker="o", markersize=3.5, **look)
        for goal in record.goals:
            axes.axhline(goal, color=style.DOWN, linewidth=1, linestyle=(0, (4, 3)))
            axes.annotate(
                f"goal {percent(goal)}",
                (0, goal),
                (4, 3),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                fontsize=7.5,
                color=style.DOWN,
            )
        bottom, top = axes.get_ylim()
        axes.set_ylim(bottom / 1.25, top * 1.25)
        _round_ticks(axes, record)
        axes.set_xlabel("points per series")
        axes.set_ylabel("estimated error of the scores")
        axes.grid(color=style.FAINT, linewidth=0.5)
        if len(record.courses) > 1:
            axes.legend(loc="upper right", handlelength=3.2)
        many = record.series > 1
        if many:
            note = "line: the middle series; band: nine of ten"
            picture.supxlabel(note, fontsize=7.5, color=style.MUTED)
        about = f"{record.series:,} series" if many else "one series"
        heading(picture, f"The error as points are added  ·  {about}" if title is None else title)
        return picture


def _round_ticks(axes: "Axes", record: ConvergenceRecord) -> None:
    """Write the looks, and 1 %, 2 %, 5 %, …; matplotlib's powers of ten would leave one of each."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: PLC0415  # an extra

    low, high = axes.get_ylim()
    round_ones = [factor * 10.0**power for power in range(-6, 6) for factor in (1, 2, 5)]
    looks = sorted({int(points) for course in record.courses for points in course.points})
    for axis, ticks in ((axes.xaxis, looks), (axes.yaxis, [tick for tick in round_ones if low <= tick <= high])):
        axis.set_major_locator(FixedLocator(ticks if len(ticks) <= MOST_TICKS else ticks[::3]))
        axis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
