"""Removal curves: how far the prediction has moved while cells are taken away, strongest or weakest first."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd._utils import stats
from tempograd.engine import Model
from tempograd.metrics import removal_curve, summarise
from tempograd.plots import style, wording
from tempograd.plots.parts import heading, value_ticks
from tempograd.plots.subject import Floats
from tempograd.shown import Explanations, labelled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture


@dataclass(frozen=True)
class Curve:
    """Mean over the series of the total change so far, after 0 … K removals, with its standard error."""

    method: str
    mean: Floats  # (K + 1,)
    error: Floats  # infinite below two series


@dataclass(frozen=True)
class RemovalRecord:
    """What the picture shows.

    Attributes
    ----------
    removed : array of shape (K + 1,)
        Cells removed.
    series : int
        How many series were averaged.
    cpd, cpp : tuple of Curve
        One for each method, strongest cells first and weakest cells first. They end at the mean CPD and CPP.
    """

    removed: NDArray[np.int64]
    series: int
    cpd: tuple[Curve, ...]
    cpp: tuple[Curve, ...]

    @property
    def factor(self) -> float:
        """How many standard errors make the 95 % interval of a mean, by Student's t."""
        return float(stats.quantile(0.95, torch.tensor([float(self.series - 1)])))


def removal(
    model: Model,
    explanations: Explanations,
    *,
    x: Any = None,
    k: int | float = 0.1,
    substitute: Any = "zero",
    chunk: int | None = None,
    title: str | None = None,
) -> "Picture":
    """Draw how the prediction moves while cells are removed one by one, for one or more methods.

    On the left the cells that a method finds strongest go first, and a good method moves the prediction soon: high
    is good, and the end is the mean CPD. On the right the weakest go first, low is good, and the end is the mean
    CPP. Bands are 95 % intervals of the mean over series.

    Parameters
    ----------
    model : nn.Module or callable
        The model that was explained.
    explanations : Explanation, or sequence or mapping of them
        Of the same series.
    x, k, substitute, chunk
        As for :func:`tempograd.evaluate`.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    return draw_removal(removal_record(model, explanations, x=x, k=k, substitute=substitute, chunk=chunk), title)


def removal_record(
    model: Model,
    explanations: Explanations,
    *,
    x: Any = None,
    k: int | float = 0.1,
    substitute: Any = "zero",
    chunk: int | None = None,
) -> RemovalRecord:
    r"""Compute what :func:`removal` draws; the arguments are the same.

    After :math:`j` removals a series has changed by :math:`\sum_{k<j} \lVert F(x_k) - F(x_{k+1}) \rVert_1`.
    A series with fewer cells than others stays where it is once all it has to lose is gone.
    """
    named = labelled(explanations)
    found: dict[bool, list[Curve]] = {True: [], False: []}
    for label, explanation in named.items():
        for descending, curves in found.items():
            change = removal_curve(
                model, explanation, x, k, substitute, descending=descending, chunk=chunk
            ).change.cpu()
            curves.append(_curve(label, change))
    steps = len(found[True][0].mean)
    return RemovalRecord(np.arange(steps), len(change), tuple(found[True]), tuple(found[False]))


def _curve(label: str, change: Tensor) -> Curve:
    total = torch.cat([torch.zeros(len(change), 1), change], 1).double().cumsum(1)
    count = len(total)
    mean, error = total.mean(0), torch.full_like(total[0], torch.inf)
    if count > 1:
        error = total.std(0) / count**0.5
    end = summarise(change.sum(1))  # in the order that evaluate adds up, so that both agree to the last digit
    mean[-1], error[-1] = end.mean, end.standard_error
    return Curve(label, mean.numpy(), error.numpy())


def draw_removal(record: RemovalRecord, title: str | None = None) -> "Picture":
    """Draw the record of removal curves."""
    with style.drawing(7.4, 3.3) as picture:
        left, right = picture.subplots(1, 2)
        _draw_curves(left, record, record.cpd)
        _draw_curves(right, record, record.cpp)
        left.set_title("strongest cells first: high is good (ends at CPD)")
        right.set_title("weakest cells first: low is good (ends at CPP)")
        left.set_ylabel("total change of the prediction")
        handles, labels = left.get_legend_handles_labels()
        picture.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5), handlelength=2.6)
        text = f"The prediction as cells are removed  ·  mean of {record.series} series with its 95 % interval"
        if record.series < 2:
            text = "The prediction as cells are removed  ·  one series"
        heading(picture, text if title is None else title)
        return picture


def _draw_curves(axes: "Axes", record: RemovalRecord, curves: tuple[Curve, ...]) -> None:
    for index, curve in enumerate(curves):
        look = style.method_style(index)
        if np.isfinite(curve.error).all():
            half = record.factor * curve.error
            band = (curve.mean - half, curve.mean + half)
            axes.fill_between(record.removed, *band, color=look["color"], alpha=0.15, linewidth=0)
        axes.plot(record.removed, curve.mean, label=wording.method(curve.method), linewidth=1.4, **look)
    axes.set_xlabel("cells removed")
    axes.set_xlim(0, record.removed[-1])
    axes.set_ylim(bottom=0)
    value_ticks(axes, most=5)
    value_ticks(axes, along="x", most=5)
