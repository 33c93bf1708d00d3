"""Which channels drive the predictions of a class, over many series."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import numpy as np
import torch
from torch import Tensor

from tempograd.core import stats, validation
from tempograd.core.errors import InputError, arg
from tempograd.explanation.core import Explanation, require
from tempograd.plots import style
from tempograd.plots.parts import heading, left_out_text, value_ticks
from tempograd.typing import ArrayLike, Channels, EffectUnit, Rank
from tempograd.views import labels, palette
from tempograd.views.channels import Effects, chosen_channels, mean_and_error
from tempograd.views.labels import channel_names, known_classes
from tempograd.views.series import Floats

if TYPE_CHECKING:
    from tempograd.plots.picture import Picture

MOST = 20  # channels shown where nobody says how many
PER = {
    "series": "attribution of the channel, summed over time",
    "value": "attribution of one observed value",
}


@dataclass(frozen=True)
class ChannelImportanceRecord:
    """What the picture shows, channels in the order of the picture.

    Attributes
    ----------
    method, text : str
        Who says so, and about which class.
    signed : bool
    per : {"series", "value"}
    series : int
        How many series count.
    channels : tuple of str
    signed_mean, signed_error : array of shape (channel,)
        Mean over the series of the attribution of a channel, and its standard error (infinite below two series).
    absolute_mean, absolute_error : array of shape (channel,)
        The same of the sizes of attribution.
    present : array of shape (channel,)
        Share of the series in which the channel was observed at all.
    left_out : int
        Channels that are not shown.
    """

    method: str
    text: str
    signed: bool
    per: EffectUnit
    series: int
    channels: tuple[str, ...]
    signed_mean: Floats
    signed_error: Floats
    absolute_mean: Floats
    absolute_error: Floats
    present: Floats
    left_out: int = 0
    title: str | None = None

    @property
    def factor(self) -> Floats:
        """How many standard errors make the 95 % interval of each channel, by Student's t."""
        count = self.series * (self.present if self.per == "value" else np.ones(len(self.channels)))
        return np.asarray(stats.t_quantile(0.95, torch.as_tensor(count.round() - 1)).numpy())


def channel_importance_record(
    explanation: Explanation,
    target: int | None = None,
    *,
    rows: ArrayLike | None = None,
    per: EffectUnit = "series",
    by: Rank = "absolute",
    channels: Channels | None = None,
    classes: Sequence[str] | None = None,
    title: str | None = None,
) -> ChannelImportanceRecord:
    r"""Show which channels drive the predictions of a class: mean effects with 95 % intervals, strongest first.

    Parameters
    ----------
    explanation : Explanation
        By default series are explained for the class that is predicted, so that ``target=1`` takes those that
        the model takes for class 1. A model with a single probability is explained for class 1 of every series.
    target : int, optional
        Only series that were explained for this class; by default all.
    rows : sequence of int or bool, optional
        Only these series, by position or as one flag each; for instance those that are predicted as a class.
    per : {"series", "value"}
        Whether the attribution of a channel is summed over time, or averaged over its observed values. The sum
        tells what moved predictions; channels that are measured often have more of it. With ``"value"`` only
        series count in which the channel was observed.
    by : {"absolute", "signed"}
        What the order is by: the size, or how far the class is pushed up.
    channels : int, or sequence of str or int, optional
        How many of the strongest channels, or which; by default all, but no more than twenty.
    classes : sequence of str, optional
        Names of the classes, by default the explanation's own.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure or ChannelImportanceRecord
        The picture, or from ``channel_importance_record`` the numbers behind it.

    Notes
    -----
    With attributions :math:`A_{i,t,d}` of the :math:`n` series, the effect of a channel in a series is
    :math:`s_{i,d} = \sum_t A_{i,t,d}` (its size :math:`\sum_t |A_{i,t,d}|`), divided by the number of observed
    values for ``per="value"``; means and standard errors are over the series.
    """
    require(explanation)
    validation.check_choice(per, "per", get_args(EffectUnit))
    validation.check_choice(by, "by", get_args(Rank))
    classes = known_classes(explanation, classes)
    index, names = _rows(explanation, target, rows), channel_names(explanation)
    effects = Effects.of(explanation, index)
    mask = torch.ones_like(effects.size) if explanation.mask is None else explanation.mask[index].cpu()
    count = mask.double().sum(1)
    share = count if per == "value" else torch.ones_like(count)
    means = [mean_and_error(part.double().sum(1) / share) for part in effects]  # 0 / 0: not observed
    (signed_mean, signed_error), (size_mean, size_error) = means
    effect = np.nan_to_num(size_mean if by == "absolute" else signed_mean, nan=-np.inf)
    picked = chosen_channels(channels, names, effect, MOST, ordered=True)
    what = "" if target is None else f"{labels.class_name(target, classes)}, "
    return ChannelImportanceRecord(
        method=explanation.method,
        text=f"{what}{len(index)} series",
        signed=explanation.signed,
        per=per,
        series=len(index),
        channels=tuple(names[d] for d in picked),
        signed_mean=signed_mean[picked],
        signed_error=signed_error[picked],
        absolute_mean=size_mean[picked],
        absolute_error=size_error[picked],
        present=(count > 0).double().mean(0).numpy()[picked],
        left_out=len(names) - len(picked),
        title=title,
    )


def _rows(explanation: Explanation, target: int | None, rows: ArrayLike | None) -> Tensor:
    """Return the positions of the series that count."""
    index = torch.arange(len(explanation))
    if rows is not None:
        index = validation.check_positions(rows, "rows", len(index))
    if target is not None:
        validation.check_int(target, "target", 0)
        if explanation.target is None or explanation.target.ndim != 1:
            raise InputError(
                f"{arg:question.target} needs an explanation of one class per series: choose series by rows= "
                "instead."
            )
        count = explanation.n_outputs
        if count is not None and target >= count:
            raise InputError(f"target {target} is out of range: the model has {count} outputs, 0 to {count - 1}.")
        index = index[explanation.target.cpu()[index] == target]
    if not len(index):
        raise InputError(
            f"No series is left to average over: none of those given was explained for class {target}. To "
            f"see another class explain it with {arg:question.target}, or choose series by rows=."
        )
    return index


def draw_channel_importance(record: ChannelImportanceRecord) -> "Picture":
    """Draw the record of channels."""
    depth = len(record.channels)
    place = np.arange(depth)
    with style.drawing(7.2, 1.35 + 0.2 * depth) as picture:
        left, right = picture.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        size = (record.absolute_mean, record.absolute_error)
        mean, error = (record.signed_mean, record.signed_error) if record.signed else size
        colour = [palette.SIZE if not record.signed else palette.UP if m >= 0 else palette.DOWN for m in mean]
        for axes, (length, spread), fill in ((left, (mean, error), colour), (right, size, palette.MUTED)):
            axes.barh(place, np.nan_to_num(length), color=fill, height=0.68)
            known = np.isfinite(spread)
            low, high = (length[known] + side * (record.factor * spread)[known] for side in (-1, 1))
            axes.hlines(place[known], low, high, color=palette.INK, linewidth=0.9)
            axes.axvline(0, color=palette.MUTED, linewidth=0.6)
            value_ticks(axes, along="x", most=5)
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
        percent = [
            f"{labels.name(n, 20)}  {p:.0%}".replace("%", " %")
            for n, p in zip(record.channels, record.present, strict=True)
        ]
        left.set_yticks(
            place, percent if (record.present < 1).any() else [labels.name(n) for n in record.channels]
        )
        left.set_ylim(depth - 0.4, -0.6)
        left.set_title("mean attribution: pushes down ← 0 → pushes up" if record.signed else "mean importance")
        right.set_title("mean size, whatever the sign")
        note = PER[record.per] + "; lines: 95 % intervals over series"
        note += "; %: series with a value" if (record.present < 1).any() else ""
        picture.supxlabel(note, fontsize=7.5, color=palette.MUTED)
        text = f"What drives predictions  ·  {record.text}  ·  {labels.method(record.method)}"
        text += left_out_text(depth, record.left_out)
        heading(picture, text, record.title)
        return picture


channel_importance = style.drawn(channel_importance_record, draw_channel_importance)
