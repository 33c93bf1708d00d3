"""Heat maps: the input beside its attribution for some series, or by several methods for one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from tempograd.core import validation
from tempograd.core.errors import InputError
from tempograd.explanation import Explanation
from tempograd.plots import style
from tempograd.plots.parts import (
    cells,
    draw_dashes,
    heading,
    left_out_text,
    map_note,
    scale_bar,
    score_ticks,
    time_axis,
)
from tempograd.typing import Array, ArrayLike, ChannelOrder, Channels, Model
from tempograd.views import labels
from tempograd.views.channels import chosen_channels
from tempograd.views.labels import Compared, as_mapping, channel_names, time_names
from tempograd.views.prediction import PredictionText, prediction_text
from tempograd.views.series import (
    Flags,
    Floats,
    Scores,
    color_limit,
    observed_cells,
    position,
    scores,
    shown_values,
    to_numpy,
    whole_series,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture


# Many channels as heat maps: the input beside its attribution, one pair for each series.

MOST = 24  # channels shown where nobody says how many


@dataclass(frozen=True)
class Case:
    """One series of the picture."""

    id: int | str
    said: PredictionText  # what was explained
    x: Floats  # (time, channel)
    shade: Floats  # x from 0, the lowest value of its channel in all series of the picture, to 1, the highest
    observed: Flags
    scores: Scores
    limit: float  # size of attribution that gets the full colour: 98 % of the observed cells are at or below it


@dataclass(frozen=True)
class HeatmapRecord:
    """What the picture shows: its cases, and the names of steps and channels in the order of the picture.

    ``left_out`` channels are not shown.
    """

    times: tuple[str, ...]
    channels: tuple[str, ...]
    cases: tuple[Case, ...]
    left_out: int = 0
    title: str | None = None


def heatmap_record(
    explanation: Explanation,
    i: int | str | Sequence[int | str] = 0,
    *,
    model: Model | None = None,
    x: Array | None = None,
    y: ArrayLike | None = None,
    channels: Channels | None = None,
    order: ChannelOrder = "effect",
    classes: Sequence[str] | None = None,
    title: str | None = None,
) -> HeatmapRecord:
    """Show the input and the attribution of some series, side by side.

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
    matplotlib.figure.Figure or HeatmapRecord
        The picture, or from ``heatmap_record`` the numbers behind it.
    """
    validation.check_choice(order, "order", get_args(ChannelOrder))
    several = i if isinstance(i, Sequence) and not isinstance(i, str) else [i]
    rows = [position(explanation, row) for row in several]
    if not rows:
        raise InputError("i is empty: name at least one series.")
    values, names = shown_values([explanation], x), channel_names(explanation)
    read = None if model is None else whole_series(explanation, x)
    every = [scores(explanation, row) for row in rows]
    effect = np.sum([one.effect for one in every], axis=0)
    picked = chosen_channels(channels, names, effect, MOST, ordered=order == "effect")
    if order == "given" and not isinstance(channels, Sequence):
        picked = sorted(picked)
    seen = observed_cells(explanation)[rows][..., picked]
    inputs = np.stack([to_numpy(values[row])[:, picked] for row in rows])
    shades = shaded(inputs, seen)
    cases = tuple(
        Case(
            id=explanation.label(row),
            said=prediction_text(explanation, row, model, read, y, classes),
            x=inputs[place],
            shade=shades[place],
            observed=seen[place],
            scores=every[place].channels(picked),
            limit=color_limit(every[place].values[:, picked], seen[place]),
        )
        for place, row in enumerate(rows)
    )
    shown, left_out = tuple(names[d] for d in picked), len(names) - len(picked)
    return HeatmapRecord(time_names(explanation, rows), shown, cases, left_out, title)


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


def draw_heatmap(record: HeatmapRecord) -> "Picture":
    """Draw the record of some series."""
    count, depth = len(record.cases), len(record.channels)
    with style.drawing(8.2, count * (0.45 + max(0.115 * depth, 0.7)) + 0.9) as picture:
        grid = picture.subplots(count, 2, squeeze=False, sharex=True)
        for case, (left, right) in zip(record.cases, grid, strict=True):
            values = cells(left, case.shade, case.observed, style.input_colours(), 0)
            scored = draw_scores(right, case.scores, case.observed, case.limit)
            left.set_title(f"Series {labels.name(str(case.id))}  ·  {case.said.text}")
            channel_axis(left, record.channels)
            right.set_yticks([])
            scale_bar(picture, scored, right, score_ticks(case.scores, case.limit))
        for axes in grid[-1]:
            time_axis(axes, record.times)
        below: dict[str, Any] = {"location": "bottom", "shrink": 0.6, "aspect": 40}
        scale_bar(picture, values, list(grid[:, 0]), {0: "low", 1: "high for its channel"}, **below)
        missing = not all(case.observed.all() for case in record.cases)
        map_note(picture, signed=record.cases[0].scores.signed, missing=missing)
        method = labels.method(record.cases[0].scores.method)
        shown = left_out_text(depth, record.left_out)
        heading(picture, f"Input (left) and attribution by {method} (right){shown}", record.title)
        return picture


heatmap = style.drawn(heatmap_record, draw_heatmap)


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
    axes.set_yticks(range(len(channels)), [labels.name(label, 18) for label in channels], fontsize=size)


# Several methods side by side on one series, each with its own scale.

COLUMNS = 3


@dataclass(frozen=True)
class CompareRecord:
    """What the picture shows.

    Attributes
    ----------
    id : int or str
    said : Said
    times, channels : tuple of str
    x : array of shape (time, channel)
    shade : array like ``x``
        The input from 0, the lowest value of its channel, to 1, the highest.
    observed : array of bool like ``x``
    scores : tuple of Scores
        One for each method.
    limits : tuple of float
        The size of attribution that gets the full colour, one for each method: scores of different methods have
        different units.
    left_out : int
        Channels that are not shown.
    """

    id: int | str
    said: PredictionText
    times: tuple[str, ...]
    channels: tuple[str, ...]
    x: Floats
    shade: Floats
    observed: Flags
    scores: tuple[Scores, ...]
    limits: tuple[float, ...]
    left_out: int = 0
    title: str | None = None


def compare_record(
    explanations: Compared,
    i: int | str = 0,
    *,
    model: Model | None = None,
    x: Array | None = None,
    y: ArrayLike | None = None,
    channels: Channels | None = None,
    classes: Sequence[str] | None = None,
    title: str | None = None,
) -> CompareRecord:
    """Show what several methods say about the same series.

    Every method has its own colour scale. Methods without direction are purple, from 0.

    Parameters
    ----------
    explanations : Explanation, or sequence or mapping of them
        Of the same series; the keys of a mapping are the titles.
    i : int or str
        Position of the series, or its name.
    model, x, y, classes, title
        As for :func:`series`.
    channels : int, or sequence of str or int, optional
        How many of the channels that the first method finds strongest, or which; by default all, up to 24.

    Returns
    -------
    matplotlib.figure.Figure or CompareRecord
        The picture, or from ``compare_record`` the numbers behind it.
    """
    named = as_mapping(explanations)
    first = next(iter(named.values()))
    i = position(first, i)
    kept = next((each for each in named.values() if each.x is not None), first)
    values, names = shown_values(named.values(), x), channel_names(first)
    read = None if model is None else whole_series(kept, x)
    every = [scores(each, i, label) for label, each in named.items()]
    picked = chosen_channels(channels, names, every[0].effect, MOST, ordered=False)
    seen, inputs = observed_cells(first)[i][:, picked], to_numpy(values[i])[:, picked]
    found = tuple(one.channels(picked) for one in every)
    return CompareRecord(
        id=first.label(i),
        said=prediction_text(first, i, model, read, y, classes),
        times=first.times_of(i),
        channels=tuple(names[d] for d in picked),
        x=inputs,
        shade=shaded(inputs[None], seen[None])[0],
        observed=seen,
        scores=found,
        limits=tuple(color_limit(one.values, seen) for one in found),
        left_out=len(names) - len(picked),
        title=title,
    )


def draw_compare(record: CompareRecord) -> "Picture":
    """Draw the record of several methods."""
    count = 1 + len(record.scores)
    columns = min(COLUMNS, count)
    rows = -(-count // columns)
    height = 0.4 + max(0.115 * len(record.channels), 0.8)
    with style.drawing(1.6 + 2.3 * columns, rows * height + 0.8) as picture:
        grid = picture.subplots(rows, columns, squeeze=False, sharex=True)
        places = list(grid.flat)
        image = cells(places[0], record.shade, record.observed, style.input_colours(), 0)
        places[0].set_title("the input")
        scale_bar(picture, image, places[0], {0: "low", 1: "high"})
        for axes, found, full in zip(places[1:], record.scores, record.limits, strict=False):
            shown = draw_scores(axes, found, record.observed, full)
            axes.set_title(labels.method(found.method) + ("" if found.signed else " (no direction)"))
            scale_bar(picture, shown, axes, score_ticks(found, full))
        for number, axes in enumerate(places):
            axes.set_visible(number < count)
            channel_axis(axes, record.channels if number % columns == 0 else [])
        for axes in places[max(count - columns, 0) : count]:
            axes.tick_params(labelbottom=True)
            time_axis(axes, record.times)
        signed = any(found.signed for found in record.scores)
        map_note(picture, signed=signed, missing=not record.observed.all())
        shown_channels = left_out_text(len(record.channels), record.left_out)
        text = f"Series {labels.name(str(record.id))}  ·  {record.said.text}{shown_channels}"
        heading(picture, text, record.title)
        return picture


compare = style.drawn(compare_record, draw_compare)
