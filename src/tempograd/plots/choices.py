"""Choices as dots with intervals: settings, explainers, scores of methods, and what the baseline changes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tempograd.core.errors import InputError, brief
from tempograd.metrics import compare, summarise, table
from tempograd.metrics.aggregate import MetricScores
from tempograd.plots import style
from tempograd.plots.parts import draw_dots, heading, name_rows, note, numbers_beside
from tempograd.tuning import Ranking, Tuning
from tempograd.views import labels, palette
from tempograd.views.baselines import BaselineComparison
from tempograd.views.drivers import CONTROL
from tempograd.views.groups import half_interval
from tempograd.views.series import Flags, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

ROW, MARGINS, WIDTH = 0.2, 1.1, 6.4  # inches: of one line, of all above and below, of a picture
LONGEST = 44  # letters of a name


def tuning(found: Tuning, *, title: str | None = None, width: style.Width = None, ax: Any = None) -> "Picture":
    """Show how much better or worse than the default each setting is, with 95 % intervals, the best first.

    Filled dots ran on all series, open ones went out before. The name of the winner is bold.

    Parameters
    ----------
    found : Tuning
    title, width, ax
        As for :func:`series`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    sign = 1 if found.higher_is_better else -1
    rows = sorted(found.table, key=lambda row: -sign * row.difference)
    gap, error, series = (
        np.array([getattr(row, n) for row in rows]) for n in ("difference", "difference_error", "series")
    )
    half = half_interval(error, series - 1.0)
    with style.drawing(style.inches(width, WIDTH, ax), MARGINS + ROW * len(rows), ax) as picture:
        axes = picture.subplots()
        full = np.array([row.finished for row in rows])
        draw_dots(axes, gap, gap - half, gap + half, full, np.where(full, palette.INK, palette.MUTED).tolist())
        scores = (found.default.score + gap).tolist()
        _name(axes, [row.words for row in rows], [row.chosen for row in rows], scores, found.metric)
        _say_better(axes, found.metric, "the default", higher=found.higher_is_better)
        text = f"Settings of {labels.method(found.method)}  ·  95 % intervals, up to {found.series} series"
        heading(picture, text, title)
        return picture


def ranking(found: Ranking, *, title: str | None = None, width: style.Width = None, ax: Any = None) -> "Picture":
    """Show how far explainers are from the best one, with intervals that hold for all of them at once.

    Filled dots cannot be told from the best one.

    Parameters
    ----------
    found : Ranking
    title, width, ax
        As for :func:`series`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    rows = found.table
    gap, low, high = (np.array([getattr(row, name) for row in rows]) for name in ("difference", "low", "high"))
    with style.drawing(style.inches(width, WIDTH, ax), MARGINS + ROW * len(rows), ax) as picture:
        axes = picture.subplots()
        ties = np.array([row.ties for row in rows])
        draw_dots(axes, gap, low, high, ties, np.where(ties, palette.INK, palette.MUTED).tolist())
        bold = [row.method in found.best for row in rows]
        _name(axes, [row.method for row in rows], bold, [row.score for row in rows], found.metric)
        _say_better(axes, found.metric, labels.method(rows[0].method), higher=found.higher_is_better)
        text = f"Faithfulness of explainers  ·  simultaneous 95 % intervals, {found.series} series"
        heading(picture, text, title)
        return picture


def _name(axes: "Axes", names: Sequence[str], bold: Sequence[bool], scores: Sequence[float], metric: str) -> None:
    """Write names on the left, those chosen bold, and mean scores on the right."""
    name_rows(axes, [labels.method(name) for name in names], LONGEST)
    for text, chosen in zip(axes.get_yticklabels(), bold, strict=True):
        text.set_fontweight("bold" if chosen else "normal")
    numbers_beside(axes, scores, metric.upper())


def _say_better(axes: "Axes", metric: str, reference: str, *, higher: bool) -> None:
    axes.set_xlabel(f"{metric.upper()} minus that of {reference} ({'right' if higher else 'left'} is better)")


def methods(
    scores: MetricScores,
    *,
    reference: str | None = None,
    title: str | None = None,
    width: style.Width = None,
    ax: Any = None,
) -> "Picture":
    """Show how faithful methods are, as differences to one of them on the same series, with 95 % intervals.

    Filled dots differ from the reference: their interval leaves 0 out. Pale is the control, random scores, which
    any method must beat. :func:`tempograd.table` writes the same scores as a table for a paper.

    Parameters
    ----------
    scores : mapping
        Of each method, by metric, one score per series: ``{"timing": tg.evaluate(…), "lime": …}``.
    reference : str, optional
        The method that others are compared with, by default timing where it is one of them, else the first.
    title, width, ax
        As for :func:`series`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    found = table(scores)
    reference = reference or ("timing" if "timing" in scores else next(iter(scores)))
    if reference not in scores:
        raise InputError(f"There is no method {brief(reference)} among the scores: {', '.join(scores)}.")
    better, first = -1 if found.higher_is_better[0] is False else 1, found.metrics[0]
    names = sorted(found.methods, key=lambda row: -better * found.cells[row, first].mean)
    room = style.inches(width, 1.9 + 2.7 * len(found.metrics), ax)
    down = len(found.metrics) if room < style.NARROW else 1
    with style.drawing(room, down * (MARGINS + ROW * len(names)) + 0.25, ax) as picture:
        every = picture.subplots(down, len(found.metrics) // down, squeeze=False, sharey=True)
        for axes, metric, higher in zip(every.flat, found.metrics, found.higher_is_better, strict=True):
            gaps = [compare(scores[name][metric], scores[reference][metric]) for name in names]
            middle, low, high = (np.array([getattr(gap, n) for gap in gaps]) for n in ("mean", "low", "high"))
            sure = np.array([name == reference for name in names]) | (low > 0) | (high < 0)
            hues = {reference: palette.UP, CONTROL: palette.MUTED}
            draw_dots(axes, middle, low, high, sure, [hues.get(name, palette.INK) for name in names])
            words = {True: ", right is better", False: ", left is better", None: ""}[higher]
            axes.set_title(f"{metric.upper()}{words}")
            axes.set_xlabel(f"minus that of {labels.method(reference)}")
            numbers_beside(axes, [found.cells[name, metric].mean for name in names])
        for axes in every[:, 0]:
            name_rows(axes, [labels.method(name) + " (control)" * (name == CONTROL) for name in names])
            axes.get_yticklabels()[names.index(reference)].set_fontweight("bold")
        note(
            picture,
            "lines: 95 % intervals of differences on the same series; filled: 0 is outside; numbers: mean scores",
        )
        count = found.cells[reference, first].count
        heading(picture, f"Methods against {labels.method(reference)}  ·  {count:,} series", title)
        return picture


def baselines(
    comparison: BaselineComparison, *, title: str | None = None, width: style.Width = None, ax: Any = None
) -> "Picture":
    """Show how much a map depends on what it compares with.

    First the share of the top tenth of the cells that two maps have in common, with their rank correlation;
    on the diagonal, what a map has in common with that of another seed: baselines differ where they share less.
    Then the score of each map, a row, under each way of removing, a column; bold where a map is
    better than every other of its column by more than chance explains.

    Parameters
    ----------
    comparison : BaselineComparison
        What :func:`tempograd.compare_baselines` returned.
    title, width, ax
        As for :func:`series`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if not isinstance(comparison, BaselineComparison):
        raise InputError(f"What tempograd.compare_baselines returns was expected, got {brief(comparison)}.")
    names, count = comparison.baselines, len(comparison.series)
    shared, correlation = comparison.tables()
    agree = [
        [f"{100 * share:.0f} %\n{rank:.2f}" for share, rank in zip(*rows, strict=True)]
        for rows in zip(shared, correlation, strict=True)
    ]
    found = [[summarise(comparison.scores[row, column]) for column in names] for row in names]
    scores = [
        [f"{s.mean:#.3g}" + ("" if np.isinf(s.standard_error) else f"\n± {s.standard_error:.2g}") for s in row]
        for row in found
    ]
    size = np.abs([[s.mean for s in row] for row in found])
    best = comparison.best
    side = 0.75 * len(names)
    room = style.inches(width, 2 * side + 3.4, ax)
    across = 1 if room < style.NARROW else 2
    with style.drawing(room, (3 - across) * (side + 1.1) + 0.4, ax) as picture:
        left, right = picture.subplots(2 // across, across).flat
        _draw_table(left, names, shared, agree, np.zeros_like(best))
        diagonal = ";\ndiagonal: another seed" if comparison.redrawn else ""
        left.set_title(f"top tenth in common\n(below: rank correlation{diagonal})")
        top = size.max(0, keepdims=True)
        _draw_table(right, names, size / np.where(top == 0, 1, top), scores, best)
        metric = comparison.metric.upper()
        right.set_title(f"{metric} of each map ± standard error\n(bold: better than all of its column)")
        right.set_ylabel("explained against")
        right.set_xlabel("removed to")
        about = "one series" if count < 2 else f"mean of {count} series"
        heading(picture, f"What the baseline changes  ·  {about}", title)
        return picture


def _draw_table(axes: "Axes", names: Sequence[str], shade: Floats, texts: list[list[str]], bold: Flags) -> None:
    """Write numbers into cells that are the darker the larger they are."""
    axes.imshow(np.nan_to_num(shade) * 0.55, cmap=style.input_colours(), vmin=0, vmax=1, aspect="equal")
    for row, line in enumerate(texts):
        for column, text in enumerate(line):
            weight = "bold" if bold[row, column] else "normal"
            look: dict[str, Any] = {"ha": "center", "va": "center", "fontweight": weight, "color": palette.INK}
            axes.text(column, row, text, **look)
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
