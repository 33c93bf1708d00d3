"""Explanations methods side by side on one series, each with its own scale."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tempograd.engine import Model
from tempograd.plots import style, wording
from tempograd.plots.heatmap import channel_axis, draw_scores, shaded
from tempograd.plots.parts import attribution_bar, cells, heading, map_note, time_axis
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
from tempograd.shown import Explanations, channel_names, labelled, limit, plain

if TYPE_CHECKING:
    from tempograd.plots.picture import Picture

MOST = 24  # channels shown where nobody says how many
COLUMNS = 3


@dataclass(frozen=True)
class MethodsRecord:
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
    """

    id: int | str
    said: Said
    times: tuple[str, ...]
    channels: tuple[str, ...]
    x: Floats
    shade: Floats
    observed: Flags
    scores: tuple[Scores, ...]
    limits: tuple[float, ...]


def methods(
    explanations: Explanations,
    i: int | str = 0,
    *,
    model: Model | None = None,
    x: Any = None,
    y: Any = None,
    channels: Any = None,
    classes: Sequence[str] | None = None,
    title: str | None = None,
) -> "Picture":
    """Draw what several methods say about the same series.

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
    matplotlib.figure.Figure
    """
    record = methods_record(explanations, i, model=model, x=x, y=y, channels=channels, classes=classes)
    return draw_methods(record, title)


def methods_record(
    explanations: Explanations,
    i: int | str = 0,
    *,
    model: Model | None = None,
    x: Any = None,
    y: Any = None,
    channels: Any = None,
    classes: Sequence[str] | None = None,
) -> MethodsRecord:
    """Collect what :func:`methods` draws; the arguments are the same."""
    named = labelled(explanations)
    first = next(iter(named.values()))
    i = position(first, i)
    kept = next((each for each in named.values() if each.x is not None), first)
    values, names = whole_series(kept, x), channel_names(first)
    every = [scores(each, i, label) for label, each in named.items()]
    picked = chosen_channels(channels, names, np.abs(every[0].values).sum(0), MOST, ordered=False)
    seen, inputs = observed(first, i)[:, picked], plain(values[i])[:, picked]
    found = tuple(one.channels(picked) for one in every)
    return MethodsRecord(
        id=first.called(i),
        said=said(first, i, model, values, y, classes),
        times=time_names(first),
        channels=tuple(names[d] for d in picked),
        x=inputs,
        shade=shaded(inputs[None], seen[None])[0],
        observed=seen,
        scores=found,
        limits=tuple(limit(one.values, seen) for one in found),
    )


def draw_methods(record: MethodsRecord, title: str | None = None) -> "Picture":
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
        bar = picture.colorbar(image, ax=places[0], fraction=0.05, pad=0.02, aspect=25)
        bar.set_ticks([0, 1], labels=["low", "high"])
        bar.outline.set_linewidth(0.4)
        for axes, found, full in zip(places[1:], record.scores, record.limits, strict=False):
            shown = draw_scores(axes, found, record.observed, full)
            axes.set_title(wording.method(found.method) + ("" if found.signed else " (no direction)"))
            attribution_bar(picture, shown, axes, found, full)
        for number, axes in enumerate(places):
            axes.set_visible(number < count)
            channel_axis(axes, record.channels if number % columns == 0 else [])
        for axes in places[max(count - columns, 0) : count]:
            axes.tick_params(labelbottom=True)
            time_axis(axes, record.times)
        signed = any(found.signed for found in record.scores)
        map_note(picture, signed=signed, missing=not record.observed.all())
        text = f"Series {wording.name(str(record.id))}  ·  {record.said.text}" if title is None else title
        heading(picture, text)
        return picture
