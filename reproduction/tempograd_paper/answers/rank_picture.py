"""Critical-difference diagrams: mean ranks of methods over data sets, and bars over what cannot be told apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tempograd.plots import parts
from tempograd.plots.parts import heading
from tempograd.views import palette
from tempograd_paper.answers.blocks import Comparison
from tempograd_paper.statistics import inseparable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

OWN = "timing"
STEP, BAR = 0.75, 0.42  # between two names, and between two bars, in units of the axis


@dataclass(frozen=True)
class RankPanel:
    """One diagram.

    Attributes
    ----------
    title : str
    methods : tuple of str
        Best first.
    labels : tuple of str
        What they are called.
    ranks : tuple of float
    difference : float
        Nemenyi's critical difference.
    groups : tuple of pairs
        First and last position of the methods of each bar.
    """

    title: str
    methods: tuple[str, ...]
    labels: tuple[str, ...]
    ranks: tuple[float, ...]
    difference: float
    groups: tuple[tuple[int, int], ...]


def rank_panel(comparison: Comparison, title: str) -> RankPanel:
    """Put the methods of a comparison into order, with the groups that cannot be told apart."""
    order = sorted(range(len(comparison.methods)), key=lambda index: comparison.test.ranks[index])
    ranks = tuple(comparison.test.ranks[index] for index in order)
    groups = tuple((group[0], group[-1]) for group in inseparable(ranks, comparison.difference))
    methods = tuple(comparison.methods[index] for index in order)
    labels = tuple(comparison.labels[index] for index in order)
    return RankPanel(title, methods, labels, ranks, comparison.difference, groups)


def draw_ranks(panels: Sequence[RankPanel]) -> "Picture":
    """Draw one diagram below the other."""
    depths = [_depth(panel) for panel in panels]
    with parts.drawing(7.4, 0.5 + 0.21 * sum(depths)) as picture:
        every = picture.subplots(len(panels), 1, squeeze=False, height_ratios=depths)[:, 0]
        for axes, panel, depth in zip(every, panels, depths, strict=True):
            _draw(axes, panel, depth)
        note = "mean rank over data sets, 1 is best; a bar joins what Nemenyi's test cannot tell apart at 95 %"
        picture.supxlabel(note, fontsize=7.5, color=palette.MUTED)
        heading(picture, "Which methods can be told apart?")
        return picture


def _depth(panel: RankPanel) -> float:
    half = -(-len(panel.methods) // 2)
    return 2.6 + BAR * len(panel.groups) + STEP * half


def _draw(axes: "Axes", panel: RankPanel, depth: float) -> None:
    count = len(panel.methods)
    axes.set_xlim(count + 1.1, -0.1)  # the best on the right, as these diagrams are read
    axes.set_ylim(-depth + 1.9, 1.9)
    axes.set_axis_off()
    axes.set_title(panel.title)
    axes.plot([1, count], [0, 0], color=palette.INK, linewidth=0.8)
    for tick in range(1, count + 1):
        axes.plot([tick, tick], [0, 0.15], color=palette.INK, linewidth=0.8)
        axes.annotate(str(tick), (tick, 0.2), ha="center", va="bottom", fontsize=7.5, color=palette.MUTED)
    axes.plot([1, 1 + panel.difference], [1.2, 1.2], color=palette.MUTED, linewidth=1.2, marker="|", markersize=5)
    text = f"critical difference {panel.difference:.2f}"
    axes.annotate(text, (1 + panel.difference, 1.2), (-4, 0), textcoords="offset points", ha="right", va="center")
    for place, (first, last) in enumerate(panel.groups):
        height = -BAR * (place + 0.9)
        ends = [panel.ranks[first] - 0.04, panel.ranks[last] + 0.04]
        axes.plot(ends, [height] * 2, color=palette.MUTED, linewidth=2.6, solid_capstyle="butt", label="group")
    floor, half = -BAR * len(panel.groups), count // 2
    for place, (name, label, rank) in enumerate(zip(panel.methods, panel.labels, panel.ranks, strict=True)):
        good = place < count - half
        depth_of = floor - STEP * (place + 1 if good else count - place)
        side = 0.45 if good else count + 0.55
        colour = palette.UP if name == OWN else palette.INK
        axes.plot([rank, rank, side], [0, depth_of, depth_of], color=colour, linewidth=0.7)
        axes.annotate(
            f"{label}  {rank:.2f}" if good else f"{rank:.2f}  {label}",
            (side, depth_of),
            (3 if good else -3, 0),
            textcoords="offset points",
            ha="left" if good else "right",
            va="center",
            color=colour,
            fontweight="bold" if name == OWN else "normal",
        )
