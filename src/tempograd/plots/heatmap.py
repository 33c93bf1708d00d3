"""Many channels as heat maps: the input beside its attribution, one pair for each series."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tempograd._utils import validation
from tempograd.engine import Model
from tempograd.errors import InputError
from tempograd.explanation import Explanation
from tempograd.plots import style, wording
from tempograd.plots.parts import (
    attribution_bar,
    cells,
    draw_dashes,
    heading,
    input_bar,
    map_note,
    time_axis,
)
from tempograd.plots.said import Said, said
from tempograd.plots.subject import (
    Flags,
    Floats,
    Scores,
    chosen_channels,
    observed,
    position,
    scores,
    time_names,
    whole_series,
)
from tempograd.shown import channel_names, limit, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

MOST = 24  # channels shown where nobody says how many
ORDERS = ("effect", "given")


@dataclass(frozen=True)
class Case:
    """One series of the picture.

    Attributes
    ----------
    id : int or str
    said : Said
        What was explained.
    x : array of shape (time, channel)
    shade : array like ``x``
        The input from 0, the lowest value of its channel in all series of the picture, to 1, the highest.
    observed : array of bool like ``x``
    scores : Scores
    limit : float
        The size of attribution that gets the full colour: 98 % of the observed cells are at or below it.
    """

    id: int | str
    said: Said
    x: Floats
    shade: Floats
    observed: Flags
    scores: Scores
    limit: float


@dataclass(frozen=True)
class HeatmapRecord:
    """What the picture shows: its cases, and the names of steps and channels in the order of the picture."""

    times: tuple[str, ...]
    channels: tuple[str, ...]
    cases: tuple[Case, ...]


def heatmap(
    explanation: Explanation,
    i: int | str | Sequence[int | str] = 0,
    *,
    model: Model | None = None,
    x: Any = None,
    y: Any = None,
    channels: Any = None,
    order: str = "effect",
    classes: Sequence[str] | None = None,
    title: str | None = None,
) -> "Picture":
    """Draw the input and the attribution of some series side by side.

    Cells that push the prediction down are blue and have a dash, cells that push it up are orange. Hatched: not
    observed. Inputs are shaded channel by channel, since channels have different units.

    Parameters
    ----------
    explanation : Explanation
    i : int, str, or sequence of them
        Positions or names of the series, one pair of maps each.
    model, x, y, classes, title
        As for :func:`series`.
    channels : int, or sequence of str or int, optional
        How many of the strongest channels, or which; by default all, but no more than 24.
    order : {"effect", "given"}
        Whether the channels with the largest attribution over all of these series come first.

    Returns
    -------
    matplotlib.figure.Figure
    """
    record = heatmap_record(explanation, i, model=model, x=x, y=y, channels=channels, order=order, classes=classes)
    return draw_heatmap(record, title)


def heatmap_record(
    explanation: Explanation,
    i: int | str | Sequence[int | str] = 0,
    *,
    model: Model | None = None,
    x: Any = None,
    y: Any = None,
    channels: Any = None,
    order: str = "effect",
    classes: Sequence[str] | None = None,
) -> HeatmapRecord:
    """Collect what :func:`heatmap` draws; the arguments are the same."""
    validation.one_of(order, "order", ORDERS)
    several = i if isinstance(i, Sequence) and not isinstance(i, str) else [i]
    rows = [position(explanation, row) for row in several]
    if not rows:
        raise InputError("i is empty: name at least one series.")
    values, names = whole_series(explanation, x), channel_names(explanation)
    every = [scores(explanation, row) for row in rows]
    effect = np.sum([np.abs(one.values).sum(0) for one in every], axis=0)
    picked = chosen_channels(channels, names, effect, MOST, ordered=order == "effect")
    if order == "given" and not isinstance(channels, Sequence):
        picked = sorted(picked)
    seen = np.stack([observed(explanation, row)[:, picked] for row in rows])
    inputs = np.stack([plain(values[row])[:, picked] for row in rows])
    shades = shaded(inputs, seen)
    cases = tuple(
        Case(
            id=explanation.called(row),
            said=said(explanation, row, model, values, y, classes),
            x=inputs[place],
            shade=shades[place],
            observed=seen[place],
            scores=every[place].channels(picked),
            limit=limit(every[place].values[:, picked], seen[place]),
        )
        for place, row in enumerate(rows)
    )
    return HeatmapRecord(time_names(explanation), tuple(names[d] for d in picked), cases)


def shaded(x: Floats, seen: Flags) -> Floats:
    """Scale each channel from 0, its lowest observed value, to 1, its highest; one half where they are equal.

    Examples
    --------
    >>> x = np.array([[[1.0, 7.0], [3.0, 7.0], [2.0, 9.0]]])
    >>> seen = np.array([[[True, True], [True, True], [True, False]]])
    >>> shaded(x, seen)[0].T
    array([[0. , 1. , 0.5],
           [0.5, 0.5, 0.5]])
    """
    low = np.min(x, axis=(0, 1), where=seen, initial=np.inf)
    high = np.max(x, axis=(0, 1), where=seen, initial=-np.inf)
    spread = high - low
    usable = spread > 0
    shade = (x - np.where(usable, low, 0)) / np.where(usable, spread, 1)
    return np.asarray(np.where(seen & usable, shade, 0.5))


def draw_heatmap(record: HeatmapRecord, title: str | None = None) -> "Picture":
    """Draw the record of some series."""
    count, depth = len(record.cases), len(record.channels)
    with style.drawing(8.2, count * (0.45 + max(0.115 * depth, 0.7)) + 0.9) as picture:
        grid = picture.subplots(count, 2, squeeze=False, sharex=True)
        for case, (left, right) in zip(record.cases, grid, strict=True):
            values = cells(left, case.shade, case.observed, style.input_colours(), 0)
            shown = draw_scores(right, case.scores, case.observed, case.limit)
            left.set_title(f"Series {wording.name(str(case.id))}  ·  {case.said.text}")
            channel_axis(left, record.channels)
            right.set_yticks([])
            attribution_bar(picture, shown, right, case.scores, case.limit)
        for axes in grid[-1]:
            time_axis(axes, record.times)
        input_bar(picture, values, list(grid[:, 0]))
        missing = not all(case.observed.all() for case in record.cases)
        map_note(picture, signed=record.cases[0].scores.signed, missing=missing)
        method = wording.method(record.cases[0].scores.method)
        text = f"Input (left) and attribution by {method} (right)" if title is None else title
        heading(picture, text)
        return picture


def draw_scores(axes: "Axes", found: Scores, seen: Flags, full: float) -> Any:
    """Draw the scores of a series as cells in colour."""
    shade = np.clip(found.values / (full or 1.0), -1, 1)
    image = cells(axes, shade, seen, style.colours(signed=found.signed), -1 if found.signed else 0)
    if found.signed:
        draw_dashes(axes, shade, seen)
    return image


def channel_axis(axes: "Axes", channels: Sequence[str]) -> None:
    """Name the channels of a heat map."""
    size = min(7.5, max(4.5, 300 / max(len(channels), 1) / 1.4))
    axes.set_yticks(range(len(channels)), [wording.name(label, 18) for label in channels], fontsize=size)
