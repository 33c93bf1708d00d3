"""Which channels, at which times, over a group of series: blocks of steps in colour, and totals with intervals."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tempograd.core.formatting import alike, short_number
from tempograd.explanation.core import Explanation
from tempograd.plots import style
from tempograd.plots.parts import cells, heading, left_out_text, scale_bar, value_ticks
from tempograd.typing import ArrayLike, BlockSteps, Channels
from tempograd.views import labels, palette
from tempograd.views.blocks import blocks_of
from tempograd.views.channels import chosen_channels
from tempograd.views.series import Flags, Floats, color_limit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

MOST = 16  # channels shown where nobody says how many
WRITTEN = 12  # blocks beyond which there is no room for numbers in the cells
DARK = 0.6  # of the full colour: from here on letters are white


@dataclass(frozen=True)
class BlocksRecord:
    """What the picture shows, channels in its order; arrays are (channel, block) or, for totals, (channel,).

    Attributes
    ----------
    method : str
    signed : bool
    series : int
    channels, times : tuple of str
    left_out : int
        Channels that are not shown.
    mean, low, high : array
        Mean over the series of the sum of a block, and its 95 % interval.
    present : array of bool
        Where any of the series has a value.
    total, total_low, total_high : array
        The same for the sum over all steps of the blocks.
    limit : float
        The size that gets the full colour; one extreme block does not take it all.
    """

    method: str
    signed: bool
    series: int
    channels: tuple[str, ...]
    times: tuple[str, ...]
    left_out: int
    mean: Floats
    low: Floats
    high: Floats
    present: Flags
    total: Floats
    total_low: Floats
    total_high: Floats
    limit: float
    title: str | None = None

    @property
    def uncertain(self) -> Flags:
        """Tell of which blocks the interval includes 0, or is not known."""
        return np.asarray((self.low <= 0) & (self.high >= 0))


def blocks_record(
    explanation: Explanation,
    rows: ArrayLike | None = None,
    *,
    steps: BlockSteps | None = None,
    channels: Channels | None = None,
    title: str | None = None,
) -> BlocksRecord:
    """Show which channels push the predictions of a group of series, and at which times.

    Each cell is the mean over the series of the scores of a channel in a block of steps; pale numbers are those
    whose 95 % interval over the series includes 0. On the right the sums over all blocks, with their intervals.

    Parameters
    ----------
    explanation : Explanation
    rows, steps
        The series of the group, and how long blocks are; see :meth:`tempograd.Explanation.blocks`.
    channels : int, or sequence of str or int, optional
        How many of the strongest channels, or which; by default all, but no more than 16.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure or BlocksRecord
        The picture, or from ``blocks_record`` the numbers behind it.
    """
    found = blocks_of(explanation, rows, steps=steps)
    whole = blocks_of(explanation, rows, steps=[found.edges[0], found.edges[-1]])
    picked = chosen_channels(channels, found.channels, found.size.sum(1), MOST, ordered=True)
    mean, present = found.mean[picked], found.present[picked] > 0
    return BlocksRecord(
        method=explanation.method,
        signed=found.signed,
        series=found.series,
        channels=tuple(found.channels[d] for d in picked),
        times=found.times,
        left_out=len(found.channels) - len(picked),
        mean=mean,
        low=found.low[picked],
        high=found.high[picked],
        present=present,
        total=whole.mean[picked, 0],
        total_low=whole.low[picked, 0],
        total_high=whole.high[picked, 0],
        limit=color_limit(mean, present),
        title=title,
    )


def draw_blocks(record: BlocksRecord) -> "Picture":
    """Draw the record of blocks."""
    depth, count = record.mean.shape
    with style.drawing(2.9 + min(0.62 * count, 6.2), 1.5 + 0.22 * max(depth, 3)) as picture:
        ratio = (max(0.62 * count, 1.2), 1.5)
        left, right = picture.subplots(1, 2, width_ratios=ratio, sharey=True)
        shade = np.clip(record.mean / (record.limit or 1.0), -1, 1)
        image = cells(left, shade.T, record.present.T, style.colours(signed=record.signed), -record.signed)
        if count <= WRITTEN:
            _write(left, record, shade)
        places = range(0, count, -(-count // WRITTEN))
        texts = [labels.name(record.times[b].removeprefix("steps "), 14) for b in places]
        long = max(map(len, texts)) * len(texts) > 8.5 * count
        left.set_xticks(places, texts, rotation=35 if long else 0, ha="right" if long else "center")
        left.set_xlabel("steps" if record.times[0].startswith("step") else "time")
        left.set_yticks(range(depth), [labels.name(name, 20) for name in record.channels], color=palette.INK)
        left.tick_params(length=0)
        full = short_number(float(f"{record.limit:.2g}"))
        more = " and more" if float(np.abs(record.mean).max()) > 1.01 * record.limit else ""
        ticks = (
            {-1.0: f"−{full}", 0.0: "0", 1.0: f"+{full}{more}"} if record.signed else {0.0: "0", 1.0: full + more}
        )
        scale_bar(picture, image, left, ticks, location="bottom", aspect=40, shrink=0.5, pad=0.02)
        _draw_totals(right, record)
        note = "mean over series of a block's scores; pale, or an open dot: its 95 % interval includes 0"
        picture.supxlabel(note, fontsize=7.5, color=palette.MUTED)
        text = f"Which channels, and when  ·  {record.series:,} series  ·  {labels.method(record.method)}"
        heading(picture, text + left_out_text(depth, record.left_out), record.title)
        return picture


def _write(axes: "Axes", record: BlocksRecord, shade: Floats) -> None:
    """Write the numbers into the cells, pale where the sign is not certain."""
    texts = np.array(alike(*record.mean.ravel().tolist())).reshape(record.mean.shape)
    for d, b in zip(*np.nonzero(record.present), strict=True):
        if not any(digit in texts[d, b] for digit in "123456789"):
            continue  # too small for a number: its cell is white
        dark = abs(shade[d, b]) > DARK
        colour = "white" if dark else palette.MUTED if record.uncertain[d, b] else palette.INK
        weight, alpha = ("normal", 0.55) if record.uncertain[d, b] else ("bold", 1.0)
        look: dict[str, Any] = {"color": colour, "alpha": alpha, "fontweight": weight, "fontsize": 6.5}
        axes.text(b, d, texts[d, b], ha="center", va="center", **look)


def _draw_totals(axes: "Axes", record: BlocksRecord) -> None:
    place = np.arange(len(record.total))
    sure = (record.total_low > 0) | (record.total_high < 0)
    hue = np.where(record.total > 0, palette.UP, palette.DOWN) if record.signed else palette.SIZE
    colour = np.broadcast_to(hue, place.shape)
    known = np.isfinite(record.total_low)
    axes.axvline(0, color=palette.FRAME, linewidth=0.8, zorder=1)
    axes.hlines(
        place[known], record.total_low[known], record.total_high[known], color=list(colour[known]), linewidth=1.0
    )
    for row in place:
        fill = colour[row] if sure[row] else "white"
        axes.plot(record.total[row], row, "o", markersize=4, color=colour[row], markerfacecolor=fill)
    axes.set_title("all blocks together")
    axes.tick_params(axis="y", length=0, labelleft=False)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=palette.FAINT, linewidth=0.5)
    value_ticks(axes, along="x", most=3)


blocks = style.drawn(blocks_record, draw_blocks)
