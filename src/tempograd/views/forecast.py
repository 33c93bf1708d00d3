"""A forecast as numbers: its past, the steps ahead, and how far each past step pushed each of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from tempograd.core.errors import InputError, arg, brief
from tempograd.explanation import Explanation, Explanations
from tempograd.explanation.core import require
from tempograd.explanation.targets import address, called, number
from tempograd.typing import Array, Channels, Model
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

MOST = 3  # channels of the past, where nobody says which


@dataclass(frozen=True)
class Horizon:
    """A forecast, and which past values pushed which of its steps.

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


def horizon_view(
    explanation: Explanation | Explanations,
    i: int | str = 0,
    *,
    model: Model | None = None,
    x: Array | None = None,
    channel: int | str | None = None,
    channels: Channels | None = None,
    variable: int | None = None,
) -> Horizon:
    """Return what the picture of a forecast shows; see :func:`tempograd.plots.horizon`."""
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
    return Horizon(
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
