"""Many series: which channels matter, and removal curves."""

from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import torch

from tempograd.explanation.core import Explanation
from tempograd.metrics import removal_curve
from tempograd.plots import parts
from tempograd.typing import Array, ArrayLike, Baseline, Channels, Model
from tempograd.views import groups, labels, palette
from tempograd.views.labels import Compared, as_mapping

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

MOST = 16  # channels shown where nobody says how many


def channel_importance(
    explanation: Explanation,
    rows: ArrayLike | None = None,
    *,
    channels: Channels | None = None,
    **look: Unpack[parts.Look],
) -> "Picture":
    r"""Show which channels drive the predictions of series: mean effects with 95 % intervals, strongest first.

    Parameters
    ----------
    explanation : Explanation
    rows : sequence of int or bool, optional
        Only these series, by position or as one flag each, by default all; ``rows=exp.target == 1`` are those that
        were explained for class 1.
    channels : int, or sequence of str or int, optional
        How many of the strongest channels, or which; by default all, but no more than 16.
    **look
        As for :func:`series`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    found = groups.channel_sums(explanation, rows)
    mean, low, high, size = (part[:, 0] for part in (found.mean, found.low, found.high, found.size))
    picked = groups.chosen_channels(channels, found.channels, size, MOST, ordered=True)
    depth = len(picked)
    with parts.drawing(parts.inches(6.4, look), 1.35 + 0.2 * depth, look) as picture:
        axes = picture.subplots()
        hues = np.where(mean[picked] >= 0, palette.UP, palette.DOWN).tolist()
        axes.barh(range(depth), mean[picked], color=hues if found.signed else palette.SIZE, height=0.68)
        for row, d in enumerate(picked):
            if np.isfinite(low[d]):
                axes.hlines(row, low[d], high[d], color=palette.INK, linewidth=0.9)
        axes.axvline(0, color=palette.MUTED, linewidth=0.6)
        parts.value_ticks(axes, along="x", most=5)
        axes.spines["left"].set_visible(False)
        axes.set_title("pushes down ← mean attribution → pushes up" if found.signed else "mean importance")
        parts.name_rows(axes, [labels.name(found.channels[d], 20) for d in picked])
        if found.signed:
            parts.numbers_beside(axes, size[picked].tolist(), "size")
        parts.note(
            picture, "attribution summed over time, mean over series, with 95 % intervals; size: whatever the sign"
        )
        text = f"What drives predictions  ·  {found.series} series  ·  {labels.method(explanation.method)}"
        parts.heading(picture, text + parts.left_out_text(depth, len(found.channels) - depth), look)
        return picture


# How good methods are


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
    mean, error = groups.mean_and_error(torch.cat([torch.zeros(len(delta), 1), delta], 1).double().cumsum(1))
    look, removed = parts.method_style(index), np.arange(len(mean))
    half = groups.half_interval(error, len(delta) - 1)
    if np.isfinite(half).all():
        axes.fill_between(removed, mean - half, mean + half, color=look["color"], alpha=0.15, linewidth=0)
    axes.plot(removed, mean, label=labels.method(label), linewidth=1.4, **look)
    axes.set_xlim(right=removed[-1])
