"""Two groups of series: what pushes the predictions of each, and the difference with its interval."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tempograd.core.errors import InputError, brief
from tempograd.plots import style
from tempograd.plots.parts import heading, left_out_text, value_ticks
from tempograd.typing import Channels
from tempograd.views import labels, palette
from tempograd.views.blocks import GroupComparison
from tempograd.views.channels import chosen_channels
from tempograd.views.series import Flags, Floats

if TYPE_CHECKING:
    from tempograd.plots.picture import Picture

MOST = 16  # channels shown where nobody says how many


@dataclass(frozen=True)
class GroupDifferenceRecord:
    """What the picture shows, channels in its order, (channel,) each.

    Attributes
    ----------
    names : tuple of str
        What the groups are called.
    counts : tuple of int
        How many series each has.
    channels : tuple of str
    left_out : int
        Channels that are not shown.
    first, second : array
        Mean attribution of a channel in each group, summed over time.
    difference, low, high : array
        First minus second, with its 95 % interval.
    certain : array of bool
        Whether that leaves 0 out.
    """

    names: tuple[str, str]
    counts: tuple[int, int]
    channels: tuple[str, ...]
    left_out: int
    first: Floats
    second: Floats
    difference: Floats
    low: Floats
    high: Floats
    certain: Flags
    title: str | None = None


def group_difference_record(
    comparison: GroupComparison, *, channels: Channels | None = None, title: str | None = None
) -> GroupDifferenceRecord:
    """Show what pushes the predictions of two groups of series, and how they differ, channel by channel.

    On the left the mean attribution of each group, on the right the first minus the second with its 95 % interval;
    filled where that leaves 0 out. The largest differences come first.

    Parameters
    ----------
    comparison : GroupComparison
        What :func:`tempograd.compare_groups` returned.
    channels : int, or sequence of str or int, optional
        How many of the channels that differ most, or which; by default all, but no more than 16.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure or GroupDifferenceRecord
        The picture, or from ``group_difference_record`` the numbers behind it.
    """
    if not isinstance(comparison, GroupComparison):
        raise InputError(f"What tempograd.compare_groups returns was expected, got {brief(comparison)}.")
    names = comparison.channels
    picked = chosen_channels(channels, names, np.abs(comparison.difference), MOST, ordered=True)
    first, second = (labels.name(name) for name in comparison.names)
    numbers = ("first", "second", "difference", "low", "high", "certain")
    return GroupDifferenceRecord(
        names=(first, second),
        counts=comparison.counts,
        channels=tuple(names[d] for d in picked),
        left_out=len(names) - len(picked),
        **{name: getattr(comparison, name)[picked] for name in numbers},
        title=title,
    )


def draw_group_difference(record: GroupDifferenceRecord) -> "Picture":
    """Draw the record of two groups."""
    depth = len(record.channels)
    place = np.arange(depth)
    with style.drawing(7.2, 1.6 + 0.22 * depth) as picture:
        left, right = picture.subplots(1, 2, sharey=True)
        for axes in (left, right):
            axes.axvline(0, color=palette.FRAME, linewidth=0.8, zorder=1)
            axes.grid(axis="x", color=palette.FAINT, linewidth=0.5)
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
            value_ticks(axes, along="x", most=5)
        left.hlines(place, record.first, record.second, color=palette.FRAME, linewidth=1.2)
        one, other = palette.METHODS[1], palette.METHODS[2]
        told = [f"{name} ({count:,} series)" for name, count in zip(record.names, record.counts, strict=True)]
        left.plot(record.first, place, "o", color=one, markersize=5, label=told[0])
        left.plot(record.second, place, "s", color=other, markersize=4.5, label=told[1])
        left.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=1, handletextpad=0.3)
        left.set_yticks(place, [labels.name(name, 20) for name in record.channels], color=palette.INK)
        left.set_ylim(depth - 0.4, -0.6)
        left.set_xlabel("mean attribution, summed over time")
        known = np.isfinite(record.low)
        right.hlines(place[known], record.low[known], record.high[known], color=palette.INK, linewidth=0.9)
        for row in place:
            fill = palette.INK if record.certain[row] else "white"
            right.plot(record.difference[row], row, "o", markersize=4.5, color=palette.INK, markerfacecolor=fill)
        right.set_title(f"{record.names[0]} minus {record.names[1]}")
        right.set_xlabel("lines: 95 % intervals; filled: 0 is outside")
        text = f"What differs between two groups{left_out_text(depth, record.left_out)}"
        heading(picture, text, record.title)
        return picture


group_difference = style.drawn(group_difference_record, draw_group_difference)
