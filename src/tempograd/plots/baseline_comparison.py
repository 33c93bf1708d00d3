"""How much a map depends on its baseline: what maps have in common, and each under each way of removing."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tempograd.core.errors import InputError, brief
from tempograd.metrics import summarise
from tempograd.plots import style
from tempograd.plots.parts import heading
from tempograd.views import palette
from tempograd.views.baselines import BaselineComparison
from tempograd.views.series import Flags, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture


@dataclass(frozen=True)
class BaselinesRecord:
    """What the picture shows, (baseline, baseline) each.

    Attributes
    ----------
    baselines : tuple of str
    shared, correlation : array
        Mean share of the top tenth of the cells that two maps have in common, and their mean rank correlation; on
        the diagonal, of a map and the one of another seed. There a method that draws nothing has 1.
    score, error : array
        Mean score of the map against one baseline (row) with cells removed to another (column), and its standard
        error.
    best : array of bool
        Whether the map is better than every other of its column by more than chance explains.
    metric : str
    series : int
    redrawn : bool
        Whether the diagonal tells what another seed changes.
    """

    baselines: tuple[str, ...]
    shared: Floats
    correlation: Floats
    score: Floats
    error: Floats
    best: Flags
    metric: str
    series: int
    redrawn: bool
    title: str | None = None


def baselines_record(comparison: BaselineComparison, *, title: str | None = None) -> BaselinesRecord:
    """Show how much a map depends on what it compares with.

    On the left the share of the top tenth of the cells that two maps have in common, with their rank correlation;
    on the diagonal, what a map has in common with that of another seed: baselines differ where they share less.
    On the right the score of each map, a row, under each way of removing, a column; bold where a map is
    better than every other of its column by more than chance explains.

    Parameters
    ----------
    comparison : BaselineComparison
        What :func:`tempograd.compare_baselines` returned.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure or BaselinesRecord
        The picture, or from ``baselines_record`` the numbers behind it.
    """
    if not isinstance(comparison, BaselineComparison):
        raise InputError(f"What tempograd.compare_baselines returns was expected, got {brief(comparison)}.")
    names = comparison.baselines
    shared, correlation = np.eye(len(names)), np.eye(len(names))
    pairs = [(each.first, each.second, each) for each in comparison.agreement]
    for first, second, each in (*pairs, *((name, name, found) for name, found in comparison.redrawn.items())):
        place = names.index(first), names.index(second)
        for whole, part in ((shared, each.shared), (correlation, each.correlation)):
            whole[place] = whole[place[::-1]] = summarise(part).mean
    found = [[summarise(comparison.scores[row, column]) for column in names] for row in names]
    score = np.array([[each.mean for each in row] for row in found])
    best = np.array([[comparison.lead(column, row)[1].low > 0 for column in names] for row in names])
    error = np.array([[each.standard_error for each in row] for row in found])
    count, redrawn = len(comparison.series), bool(comparison.redrawn)
    return BaselinesRecord(
        names, shared, correlation, score, error, best, comparison.metric, count, redrawn, title
    )


def draw_baselines(record: BaselinesRecord) -> "Picture":
    """Draw the record of a comparison of baselines."""
    side = 0.75 * len(record.baselines)
    with style.drawing(2 * side + 3.4, side + 1.3) as picture:
        left, right = picture.subplots(1, 2)
        agree = [
            [f"{100 * share:.0f} %\n{rank:.2f}" for share, rank in zip(*rows, strict=True)]
            for rows in zip(record.shared, record.correlation, strict=True)
        ]
        _draw_table(left, record, record.shared, agree, np.zeros_like(record.best))
        diagonal = "; diagonal: another seed" if record.redrawn else ""
        left.set_title(f"top tenth in common\n(below: rank correlation{diagonal})")
        scores = [
            [
                f"{mean:#.3g}" + ("" if np.isinf(error) else f"\n± {error:.2g}")
                for mean, error in zip(*rows, strict=True)
            ]
            for rows in zip(record.score, record.error, strict=True)
        ]
        top = np.abs(record.score).max(0, keepdims=True)
        _draw_table(right, record, np.abs(record.score) / np.where(top == 0, 1, top), scores, record.best)
        right.set_title(
            f"{record.metric.upper()} of each map ± standard error\n(bold: better than all of its column)"
        )
        right.set_ylabel("explained against")
        right.set_xlabel("removed to")
        about = "one series" if record.series < 2 else f"mean of {record.series} series"
        heading(picture, f"What the baseline changes  ·  {about}", record.title)
        return picture


def _draw_table(axes: "Axes", record: BaselinesRecord, shade: Floats, texts: list[list[str]], bold: Flags) -> None:
    """Write numbers into cells that are the darker the larger they are."""
    axes.imshow(np.nan_to_num(shade) * 0.55, cmap=style.input_colours(), vmin=0, vmax=1, aspect="equal")
    for row, line in enumerate(texts):
        for column, text in enumerate(line):
            weight = "bold" if bold[row, column] else "normal"
            axes.text(
                column, row, text, ha="center", va="center", fontsize=8, fontweight=weight, color=palette.INK
            )
    places = range(len(record.baselines))
    axes.set_xticks(places, record.baselines)
    axes.set_yticks(places, record.baselines)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


baselines = style.drawn(baselines_record, draw_baselines)
