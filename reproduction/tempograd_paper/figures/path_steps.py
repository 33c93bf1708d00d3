"""How TIMING works, from the real masks, path points and gradients of one series."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, brief
from tempograd.core.question import Question
from tempograd.engine import Ask, Model, compute_gradients, frozen, slices
from tempograd.explainers import Timing
from tempograd.explanation import Explanation
from tempograd.plots import parts
from tempograd.plots.parts import draw_bars, heading, runs, scale_ticks, time_axis, value_ticks
from tempograd.sampling.estimators import WeightedMean
from tempograd.views import labels, palette
from tempograd.views.groups import chosen_channels
from tempograd.views.labels import channel_names
from tempograd.views.series import Flags, Floats, position, to_numpy, whole_series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

SHOWN = 4  # points of the path that are drawn
BATCH = 256  # points that are differentiated at once
STORY = """② random segments (grey) stay,
the rest is a share α of the way
from the baseline to the series
③ the gradient counts where
a cell moves
④ its mean over {points} such points
⑤ times (series − baseline)"""


@dataclass(frozen=True)
class TimingStepsRecord:
    """What the picture shows, for one channel of one series.

    Attributes
    ----------
    id, points : int
        The series, and how many path points there are.
    channel : str
    times : tuple of str
    x, baseline : array of shape (time,)
    observed : array of bool of shape (time,)
    alpha : array of shape (point,)
        How far each shown point is on its way from the baseline (0) to the series (1).
    held : array of bool of shape (point, time)
        Where a segment holds the series.
    z : array of shape (point, time)
        The points.
    gradient : array of shape (point, time)
        Gradient of the explained output there.
    mean_gradient : array of shape (time,)
        Weighted mean over all points, the shown and the others, in which a cell moves.
    values : array of shape (time,)
        The attribution: the mean gradient times the way from the baseline to the series, less the noise that
        positions and scores explain.
    """

    id: int | str
    points: int
    channel: str
    times: tuple[str, ...]
    x: Floats
    baseline: Floats
    observed: Flags
    alpha: Floats
    held: Flags
    z: Floats
    gradient: Floats
    mean_gradient: Floats
    values: Floats


def timing_steps(
    model: Model,
    explanation: Explanation,
    i: int | str = 0,
    *,
    x: Any = None,
    channel: str | int | None = None,
    shown: int = SHOWN,
    title: str | None = None,
) -> "Picture":
    """Draw how TIMING came to the attribution of one channel of a series.

    The masks, path points and gradients are those of the explanation: they depend on its seed and on the id of the
    series, and are drawn again here.

    Parameters
    ----------
    model : nn.Module or callable
        The model that was explained.
    explanation : Explanation
        By TIMING, without quirks.
    i : int or str
        Position of the series, or its name.
    x : Tensor or array of shape (series, time, channel), optional
        The explained series, by default those kept with the explanation.
    channel : str or int, optional
        By default the one with the largest attribution.
    shown : int, default=4
        How many points of the path.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    return draw_timing_steps(timing_steps_record(model, explanation, i, x=x, channel=channel, shown=shown), title)


def timing_steps_record(
    model: Model,
    explanation: Explanation,
    i: int | str = 0,
    *,
    x: Any = None,
    channel: str | int | None = None,
    shown: int = SHOWN,
) -> TimingStepsRecord:
    """Compute what :func:`timing_steps` draws; the arguments are the same."""
    i, names = position(explanation, i), channel_names(explanation)
    timing = _explainer(explanation)
    effect = np.abs(to_numpy(explanation.values[i])).sum(0)
    (d,) = chosen_channels(1 if channel is None else [channel], names, effect, 1, ordered=True)
    first = timing.schedule.stages[0]  # later stages begin at the start of the path again
    count = min(validation.check_int(shown, "shown", 1), first)
    chosen = ((np.arange(count) + 0.5) / count * first).astype(int)
    whole = whole_series([explanation]) if x is None else x
    with frozen(model):
        ask = _question(model, explanation, i, whole)
        block = ask.block(slice(0, 1))
        paths, mean, drawn, done = timing.paths(ask), WeightedMean(), [], 0
        used = sum(timing.schedule.stages) if explanation.n_evals is None else int(explanation.n_evals[i])
        for stage, points in enumerate(timing.schedule.stages):
            if done == used:  # good enough before the last stage
                break
            path = paths(block, stage)
            path = path if path.resample is None else path.resample()
            for batch in slices(points, BATCH):
                at = path.at(batch)
                ((gradient, _, _, block),) = compute_gradients([ask], at.z, [block])
                mean.add(gradient, at.weight, at.active)
                active = torch.ones_like(at.z) if at.active is None else at.active
                drawn.append(torch.stack([at.z[0, ..., d], gradient[0, ..., d], active[0, ..., d]]))
            done += points
    z, slope, moved = (to_numpy(part) for part in torch.cat(drawn, 1)[:, chosen])
    return TimingStepsRecord(
        id=explanation.label(i),
        points=done,
        channel=names[d],
        times=explanation.times_of(i),
        x=to_numpy(block.x[0, :, d]),
        baseline=to_numpy(block.baseline[0, :, d]),
        observed=block.observed[0, :, d].cpu().numpy(),
        alpha=(chosen + 0.5) / first,
        held=moved == 0,
        z=z,
        gradient=slope,
        mean_gradient=to_numpy(mean.result().mean[0, :, d]),
        values=to_numpy(explanation.values[i, :, d]),
    )


def _explainer(explanation: Explanation) -> Timing:
    if explanation.method != "timing" or explanation.parameters.get("quirks") or explanation.target is None:
        raise InputError(
            f"timing_steps shows TIMING without quirks, with a class as target, but the explanation is by "
            f"{explanation.method} with {brief(explanation.parameters)}: explain with method='timing'."
        )
    known = {setting.name for setting in fields(Timing)}
    return Timing(**{name: value for name, value in explanation.parameters.items() if name in known})


def _question(model: Model, explanation: Explanation, i: int, x: Tensor) -> Ask:
    """Ask about one series what the explanation asked about it."""
    steps, target = explanation.steps, explanation.target
    return Ask.create(
        model,
        x[i : i + 1],
        Question(
            target=None if target is None else target[i : i + 1],
            output="raw" if explanation.output == "raw" else "probability",
            steps=steps[i].nonzero().flatten().tolist() if isinstance(steps, Tensor) else steps,
            baseline=explanation.baseline[i : i + 1],
        ),
        mask=None if explanation.mask is None else explanation.mask[i : i + 1],
        seed=explanation.seed,
        ids=explanation.ids[i : i + 1],
    )


def draw_timing_steps(record: TimingStepsRecord, title: str | None = None) -> "Picture":
    """Draw the record of a path: the series, some points with their gradients, and what comes of them."""
    count = len(record.alpha)
    with parts.drawing(3.4 + 1.75 * count, 3.5) as picture:
        grid = picture.subplots(2, count + 2, width_ratios=(1.25, *[1] * count, 1.25))
        _draw_start(grid[0, 0], record)
        span = float(np.abs(record.gradient).max(initial=0))
        for place in range(count):
            _draw_point(grid[0, place + 1], record, place, grid[0, 0].get_ylim())
            _draw_bars(grid[1, place + 1], np.where(record.held[place], 0, record.gradient[place]), span)
            _shade(grid[1, place + 1], record.held[place])
        grid[1, 0].axis("off")
        grid[1, 0].text(
            0,
            0.98,
            STORY.format(points=record.points),
            va="top",
            transform=grid[1, 0].transAxes,
            fontsize=7.5,
            linespacing=1.5,
        )
        _draw_bars(grid[0, -1], record.mean_gradient, float(np.abs(record.mean_gradient).max(initial=0)))
        _draw_bars(grid[1, -1], record.values, float(np.abs(record.values).max(initial=0)))
        grid[0, -1].set_title(f"④ mean of {record.points} gradients")
        grid[1, -1].set_title("⑤ attribution")
        grid[1, 1].set_title("③ gradient there")
        for axes in grid[1, 1:]:
            time_axis(axes, record.times, None)
        text = f"How TIMING explains  ·  series {labels.name(str(record.id))}, {labels.name(record.channel)}"
        heading(picture, text, {"title": title})
        return picture


def _draw_start(axes: "Axes", record: TimingStepsRecord) -> None:
    axes.plot(np.where(record.observed, record.x, np.nan), color=palette.INK, linewidth=1)
    axes.plot(
        np.where(record.observed, record.baseline, np.nan),
        color=palette.MUTED,
        linewidth=0.9,
        linestyle=(0, (2, 2)),
    )
    axes.set_title("① series, and baseline (dotted)")
    value_ticks(axes)
    time_axis(axes, record.times, None)


def _draw_point(axes: "Axes", record: TimingStepsRecord, place: int, limits: tuple[float, float]) -> None:
    _shade(axes, record.held[place])
    for values, colour in ((record.x, palette.FRAME), (record.z[place], palette.INK)):
        axes.plot(np.where(record.observed, values, np.nan), color=colour, linewidth=1)
    axes.set_ylim(*limits)
    axes.set_xlim(-0.5, len(record.x) - 0.5)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(f"{'② ' if place == 0 else ''}α = {record.alpha[place]:.2f}")


def _shade(axes: "Axes", held: Flags) -> None:
    for start, stop in runs(held):
        axes.axvspan(start - 0.5, stop - 0.5, facecolor=palette.FAINT, linewidth=0, zorder=0)


def _draw_bars(axes: "Axes", values: Floats, span: float) -> None:
    colour = [palette.UP if value >= 0 else palette.DOWN for value in values]
    draw_bars(axes, np.arange(len(values)), values, 0.9 if len(values) <= 120 else 1.0, colour)
    axes.axhline(0, color=palette.MUTED, linewidth=0.5)
    scale_ticks(axes, -span, span)
    axes.set_xlim(-0.5, len(values) - 0.5)
    axes.set_xticks([])
