"""Why CPD: effects of opposite sign cancel when all cells go at once, and cannot when they go one by one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from tempograd.core.errors import InputError
from tempograd.core.formatting import short_number
from tempograd.engine import Model
from tempograd.explainers import IntegratedGradients
from tempograd.explanation import Explanation
from tempograd.metrics import removal_curve
from tempograd.metrics.removal import rankings
from tempograd.plots import parts
from tempograd.plots.parts import draw_bars, heading, scale_ticks, value_ticks
from tempograd.views import labels, palette
from tempograd.views.labels import Compared, as_mapping
from tempograd.views.series import Floats, position

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

STEPS, STRONG, WEAK, TOP = 60, 1.0, 0.25, 20  # of the example


@dataclass(frozen=True)
class Removed:
    """One method on one series.

    Attributes
    ----------
    method : str
    values : array of shape (cell,)
        Estimate, cell by cell.
    top : array of int
        The cells that are removed, in this order.
    difference : array of shape (K + 1,)
        How far the explained output is from where it was, :math:`|F(x) - F(x_k)|`.
    cumulative : array of shape (K + 1,)
        The total of all changes up to there, whose end is the CPD.
    """

    method: str
    values: Floats
    top: NDArray[np.int64]
    difference: Floats
    cumulative: Floats


@dataclass(frozen=True)
class CancelOutRecord:
    """What the picture shows: two or more methods on one series."""

    id: int | str
    methods: tuple[Removed, ...]


def cancel_out(
    model: Model | None = None,
    explanations: Compared | None = None,
    i: int | str = 0,
    *,
    k: int | float = TOP,
    title: str | None = None,
) -> "Picture":
    """Draw the difference of a prediction from start to end beside the total of its changes, for one series.

    Without arguments it draws :func:`cancel_out_example`, where the answer is known: one method finds the strong
    cells, whose effects have both signs and cancel; the other finds weak cells that all push the same way.
    Removing all cells at once prefers the wrong one.

    Parameters
    ----------
    model : nn.Module or callable, optional
    explanations : Explanation, or sequence or mapping of them, optional
        Of the same series.
    i : int or str
        Position of the series, or its name.
    k : int or float
        How many cells are removed: a count, or a share.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    if model is None or explanations is None:
        if model is not None or explanations is not None:
            raise InputError("Pass a model and its explanations, or neither of them for the example.")
        model, explanations = cancel_out_example()
    return draw_cancel_out(cancel_out_record(model, explanations, i, k=k), title)


def cancel_out_example() -> tuple[Model, Mapping[str, Explanation]]:
    r"""Return a model with a known answer, and two explanations of it.

    The model adds up weighted values, :math:`F(x) = \sum_t w_t x_t`, so that removing step :math:`t` changes it by
    exactly :math:`w_t x_t`. Twenty of its sixty effects are strong, +1 and -1 in turn; the others are weak, +0.25.
    The first method is integrated gradients, exact here. The second sees nothing but the weak effects.
    """
    step = torch.arange(STEPS)
    strong, sign = step % 3 == 1, 1 - 2 * ((step // 3) % 2)
    effect = torch.where(strong, STRONG * sign, torch.tensor(WEAK))
    x = (2 + torch.sin(step / 4)).view(1, -1, 1)
    weights = (effect / x.flatten()).view(-1, 1)

    def model(series: torch.Tensor) -> torch.Tensor:
        return series.flatten(1) @ weights.to(series)

    right = IntegratedGradients(n_steps=1)(model, x, output="raw")
    values = torch.where(strong, 0.0, effect).view_as(x)
    return model, {"right order, both signs": right, "wrong order, one sign": replace(right, values=values)}


def cancel_out_record(
    model: Model, explanations: Compared, i: int | str = 0, *, k: int | float = TOP
) -> CancelOutRecord:
    """Compute what :func:`cancel_out` draws; the arguments are the same."""
    named = as_mapping(explanations)
    first = next(iter(named.values()))
    i = position(first, i)
    methods = tuple(_removed(model, label, each[i : i + 1], k) for label, each in named.items())
    return CancelOutRecord(first.label(i), methods)


def _removed(model: Model, label: str, one: Explanation, k: int | float) -> Removed:
    curve = removal_curve(model, one, k=k)
    if curve.score is None:
        raise InputError(
            "A function picked the explained score, and it is not kept: explain with a class as target."
        )
    score = curve.score[0].double().cpu().numpy()
    cumulative = np.concatenate([[0.0], curve.delta[0].double().cpu().numpy().cumsum()])
    return Removed(
        method=label,
        values=one.values[0].flatten().cpu().numpy(),
        top=_order(one)[: int(curve.limit[0])],
        difference=np.abs(score - score[0]),
        cumulative=cumulative,
    )


def _order(one: Explanation) -> NDArray[np.int64]:
    """Return the cells of the only series, in the order of their removal."""
    seen = torch.ones_like(one.values, dtype=torch.bool) if one.mask is None else one.mask
    rank = rankings(one.importance.flatten(1).cpu(), seen.flatten(1).cpu(), one.ids)
    return np.asarray(rank[0].argsort().numpy(), dtype=np.int64)


def draw_cancel_out(record: CancelOutRecord, title: str | None = None) -> "Picture":
    """Draw the record: the attributions on top, both measures below."""
    count = len(record.methods)
    with parts.drawing(7.4, 4.6) as picture:
        grid = picture.add_gridspec(2, 2 * count, height_ratios=(1, 1.25))
        span = max(float(np.abs(each.values).max()) for each in record.methods)
        for index, each in enumerate(record.methods):
            _draw_removed(picture.add_subplot(grid[0, 2 * index : 2 * index + 2]), each, span)
        ends = ("all at once: |F(x) − F(without k cells)|", "one by one: sum of the changes (CPD)")
        for place, text in enumerate(ends):
            axes = picture.add_subplot(grid[1, place * count : (place + 1) * count])
            for index, each in enumerate(record.methods):
                curve = each.cumulative if place else each.difference
                axes.plot(curve, label=labels.method(each.method), linewidth=1.5, **parts.method_style(index))
                end = (len(curve) - 1, curve[-1])
                axes.annotate(short_number(curve[-1]), end, (3, 0), textcoords="offset points", va="center")
            axes.set_title(text)
            axes.set_xlabel("k, cells removed")
            axes.set_ylim(bottom=0)
            axes.set_xlim(0, len(curve) - 1)
            value_ticks(axes, most=4)
            value_ticks(axes, along="x", most=5)
            if not place:
                axes.legend(loc="upper left", handlelength=2.6)
        text = "Removing all cells at once lets effects cancel" if title is None else title
        heading(picture, text)
        return picture


def _draw_removed(axes: "Axes", each: Removed, span: float) -> None:
    colour = [palette.UP if value >= 0 else palette.DOWN for value in each.values]
    gone = np.isin(np.arange(len(each.values)), each.top)
    faded = [c if chosen else palette.PALE[c] for c, chosen in zip(colour, gone, strict=True)]
    draw_bars(axes, np.arange(len(each.values)), each.values, 0.85, faded)
    axes.set_xlim(-1, len(each.values))
    axes.axhline(0, color=palette.MUTED, linewidth=0.5)
    scale_ticks(axes, -span, span)
    axes.set_title(f"{labels.method(each.method)}: {len(each.top)} go (dark)")
    axes.set_xlabel("cell")
    value_ticks(axes, along="x", most=5)
