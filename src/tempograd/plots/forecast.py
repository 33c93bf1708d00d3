"""A forecast: its past, the steps ahead, and which past values pushed which of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from tempograd.core.errors import InputError, arg, brief
from tempograd.explanation import Explanation, Explanations
from tempograd.explanation.core import require
from tempograd.explanation.targets import address, called, number
from tempograd.plots import style
from tempograd.plots.maps import draw_scores
from tempograd.plots.parts import (
    hatch_missing,
    heading,
    left_out_text,
    map_note,
    scale_bar,
    score_ticks,
    step_ticks,
    time_axis,
    value_ticks,
)
from tempograd.typing import Array, Channels, Model
from tempograd.views import labels, palette
from tempograd.views.channels import chosen_channels
from tempograd.views.labels import channel_names, time_names, with_unit
from tempograd.views.prediction import model_outputs
from tempograd.views.series import (
    Flags,
    Floats,
    Scores,
    color_limit,
    observed_cells,
    position,
    scores,
    to_numpy,
    whole_series,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

MOST = 3  # channels of the past, where nobody says which
WIDTH = 8.2  # inches
ROWS = 14  # steps ahead that can all be named


@dataclass(frozen=True)
class HorizonRecord:
    """What the picture of a forecast shows.

    Attributes
    ----------
    id : int or str
    times, channels : tuple of str
        Names of the past steps, and of the channels whose past is shown.
    left_out : int
        How many channels are not shown.
    x : array of shape (time, channel)
        The past.
    observed : array of bool like ``x``
    steps : tuple of int
        The explained steps of the horizon, in their order.
    names : tuple of str
        What they are called.
    forecast : array of shape (horizon,), optional
        What the model says, at all steps of the horizon.
    forecast_of : int, optional
        Which of the shown channels the forecast continues, where that is known.
    variable : int, optional
        Which variable is forecast, of several.
    scores : Scores
        How much each past step pushed each step ahead, (time, step): the sum over the channels ``pushed_by``.
    seen : array of bool of shape (time,)
        Past steps at which something was observed.
    totals : array of shape (step,)
        How far all past values together pushed each step ahead.
    limit : float
        The size of attribution that gets the full colour.
    pushed_by : str
    """

    id: int | str
    times: tuple[str, ...]
    channels: tuple[str, ...]
    left_out: int
    x: Floats
    observed: Flags
    steps: tuple[int, ...]
    names: tuple[str, ...]
    forecast: Floats | None
    forecast_of: int | None
    variable: int | None
    scores: Scores
    seen: Flags
    totals: Floats
    limit: float
    pushed_by: str
    title: str | None = None


def horizon_record(
    explanation: Explanation | Explanations,
    i: int | str = 0,
    *,
    model: Model | None = None,
    x: Array | None = None,
    channel: int | str | None = None,
    channels: Channels | None = None,
    variable: int | None = None,
    title: str | None = None,
) -> HorizonRecord:
    """Show which past values pushed which step of a forecast.

    The past lies above a heat map with one row for each explained step of the horizon: orange where the values at
    a past step pushed it up, blue where they pushed it down. Beside them are the forecast and the sum of each row,
    how far all past values together pushed that step.

    Parameters
    ----------
    explanation : Explanations or Explanation
        Of the steps of a horizon, as from ``targets="all"`` or ``targets=[0, 5, 11]``, or of one of them.
    i : int or str
        Position of the series, or its name.
    model : nn.Module or callable, optional
        Adds the forecast.
    x : Tensor or array of shape (series, time, channel), optional
        The explained series, by default those kept with the explanation.
    channel : int or str, optional
        Which channel's values push, in the heat map; by default all channels together.
    channels : int, or sequence of str or int, optional
        How many of the strongest channels to show the past of, or which; by default three.
    variable : int, optional
        Which variable's forecast, where targets are addresses (step, variable) of several of them.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure or HorizonRecord
        The picture, or from ``horizon_record`` the numbers behind it.
    """
    parts = list(explanation.values()) if isinstance(explanation, Explanations) else [require(explanation)]
    explanation = parts[0]
    i = position(explanation, i)
    ahead, column = _ahead(parts, i, variable)
    values, names = whole_series(explanation, x), channel_names(explanation)
    known, units = values if x is not None or explanation.raw is None else explanation.raw, explanation.units
    shown = [scores(part, i) for part in ahead.values()]
    first = shown[0]
    pushing = list(range(len(names)))
    if channel is not None:
        pushing = chosen_channels([channel], names, first.effect, 1, ordered=False)
    seen = observed_cells(explanation)[i]
    pushes = np.stack([each.values[:, pushing].sum(1) for each in shown], 1)
    effect = np.sum([each.effect for each in shown], axis=0)
    picked = chosen_channels(channels if channel is None else [channel], names, effect, MOST, ordered=False)
    told = None if model is None else _forecast(model, explanation[i : i + 1], values[i : i + 1], column)
    continued = _continued(explanation, column, picked) if known is values else None  # else on other scales
    visible = seen[:, pushing].any(1)
    return HorizonRecord(
        id=explanation.label(i),
        times=time_names(explanation, [i]),
        channels=tuple(with_unit(names[d], "" if units is None else units[d]) for d in picked),
        left_out=len(names) - len(picked),
        x=to_numpy(known[i])[:, picked],
        observed=seen[:, picked],
        steps=tuple(ahead),
        names=tuple(str(called(part)) if explanation.classes else str(step) for step, part in ahead.items()),
        forecast=told,
        forecast_of=continued,
        variable=column,
        scores=Scores(first.method, first.signed, pushes, None, None),
        seen=visible,
        totals=pushes.sum(0),
        limit=color_limit(pushes, np.repeat(visible[:, None], len(ahead), 1)),
        pushed_by=names[pushing[0]] if len(pushing) == 1 else f"all {len(names)} channels",
        title=title,
    )


def _ahead(
    parts: Sequence[Explanation], i: int, variable: int | None
) -> tuple[dict[int, Explanation], int | None]:
    """Return the explanation of each step of the horizon, and which variable they forecast, of several."""
    places: dict[tuple[int, ...], Explanation] = {}
    for part in parts:
        one = part[i : i + 1]
        step = number(one)
        if step is None or (one.target is not None and one.target.ndim > 1):
            raise InputError(
                f"A horizon needs the steps of a forecast as targets, got {brief(called(one))}: pass "
                f"{arg:question.targets=all}, or a list of steps."
            )
        places[address(one) or (step,)] = part
    rests = sorted({place[1:] for place in places})
    variables = sorted({rest[0] for rest in rests if rest})
    if variable is not None:
        if variable not in variables:
            raise InputError(
                f"{arg:source.variable={brief(variable)}} is none of these targets': "
                f"{variables or 'there are none'}."
            )
        rests = [rest for rest in rests if rest[0] == variable]
    if len(rests) > 1:
        raise InputError(
            f"These targets are of {len(variables)} variables, {variables}: pass {arg:source.variable}, one of "
            "them."
        )
    (rest,) = rests
    ahead = {place[0]: part for place, part in sorted(places.items()) if place[1:] == rest}
    return ahead, rest[0] if rest else None


def _forecast(model: Model, explanation: Explanation, x: Tensor, column: int | None) -> Floats:
    """Return what the model says about one series at all steps of the horizon."""
    outputs = model_outputs(model, explanation, x).reshape(-1)
    if column is None:
        return to_numpy(outputs)
    return to_numpy(outputs.reshape(explanation.output_shape).flatten(1)[:, column])


def _continued(explanation: Explanation, column: int | None, picked: list[int]) -> int | None:
    """Return which of the shown channels the forecast continues: the only one, or that of the same number."""
    depth = explanation.values.shape[2]
    whose = 0 if depth == 1 else column if explanation.output_shape[1:] == (depth,) else None
    return picked.index(whose) if whose in picked else None


def draw_horizon(record: HorizonRecord) -> "Picture":
    """Draw the record of a forecast."""
    depth, count = len(record.channels), len(record.steps)
    rows = max(1.0, min(0.17 * count, 3.2))
    with style.drawing(WIDTH, 0.95 + 0.85 * depth + rows + 0.75) as picture:
        last = record.steps[-1] + 1 if record.forecast is None else len(record.forecast)
        share = min(max(last / len(record.times), 0.28), 0.6)
        grid = picture.add_gridspec(depth + 1, 2, width_ratios=[1, share], height_ratios=[0.85] * depth + [rows])
        past = [picture.add_subplot(grid[d, 0]) for d in range(depth)]
        for d, axes in enumerate(past):
            _draw_past(axes, record, d)
        if record.forecast is not None:
            place = record.forecast_of or 0
            joined = past[place] if record.forecast_of is not None else None
            _draw_forecast(picture.add_subplot(grid[place, 1], sharey=joined), record)
        heat, totals = picture.add_subplot(grid[depth, 0]), picture.add_subplot(grid[depth, 1])
        seen = np.repeat(record.seen[:, None], count, 1)
        image = draw_scores(heat, record.scores, seen, record.limit)
        time_axis(heat, record.times)
        ticks = range(count) if count <= ROWS else step_ticks(count)
        heat.set_yticks(list(ticks), [labels.name(record.names[place], 14) for place in ticks])
        heat.set_ylabel("step of the forecast")
        heat.set_title(f"Attribution of each past step to each step ahead, {labels.name(record.pushed_by)}")
        _draw_totals(totals, record)
        scale_bar(picture, image, [heat, totals], score_ticks(record.scores, record.limit))
        map_note(picture, signed=record.scores.signed, missing=not record.seen.all())
        method = labels.method(record.scores.method)
        heading(picture, f"Series {labels.name(str(record.id))}  ·  forecast explained by {method}", record.title)
        return picture


horizon = style.drawn(horizon_record, draw_horizon)


def _draw_past(axes: "Axes", record: HorizonRecord, d: int) -> None:
    seen = record.observed[:, d]
    hatch_missing(axes, seen)
    axes.plot(np.where(seen, record.x[:, d], np.nan), color=palette.INK, linewidth=0.9)
    value_ticks(axes)
    axes.set_xlim(-0.5, len(record.times) - 0.5)
    axes.set_xticks([])
    shown = left_out_text(len(record.channels), record.left_out)
    axes.set_title(labels.name(record.channels[d]) + (shown if d == 0 else ""))


def _draw_forecast(axes: "Axes", record: HorizonRecord) -> None:
    """Draw the forecast beside the past, with a dot at each explained step."""
    told = record.forecast if record.forecast is not None else np.zeros(0)
    axes.plot(told, color=palette.MUTED, linewidth=0.9, linestyle=(0, (3, 1)))
    dots = [step for step in record.steps if step < len(told)]
    axes.plot(dots, told[dots], ".", color=palette.INK, markersize=5)
    axes.set_xlim(-0.5, len(told) - 0.5)
    axes.set_xticks(step_ticks(len(told), 4))
    whose = "" if record.variable is None or record.forecast_of is not None else f" of variable {record.variable}"
    axes.set_title(f"forecast{whose}")
    if (record.forecast_of or 0) + 1 < len(record.channels):  # there is room below, beside the next channel
        for tick in axes.get_xticklabels():
            tick.set_in_layout(False)
    if record.forecast_of is None:
        value_ticks(axes)
    else:
        axes.tick_params(labelleft=False)


def _draw_totals(axes: "Axes", record: HorizonRecord) -> None:
    """Draw how far all past values together pushed each step ahead, as bars beside its row."""
    signed, count = record.scores.signed, len(record.steps)
    colour = [
        palette.SIZE if not signed else palette.UP if total >= 0 else palette.DOWN for total in record.totals
    ]
    axes.barh(np.arange(count), record.totals, height=0.8 if count <= 4 * ROWS else 1.0, color=colour, linewidth=0)
    axes.axvline(0, color=palette.MUTED, linewidth=0.5)
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    value_ticks(axes, "x", most=3)
    axes.set_title("sum of each row")
