r"""Which channels and moments matter, over many series and for each class: one rule for all who show it.

For the series :math:`n` of a group, with scores :math:`A_{n,t,d}`, a channel's push and size are

.. math:: p_{n,d} = \sum_t A_{n,t,d}, \qquad s_{n,d} = \sum_t |A_{n,t,d}|

and what is shown are their means over the group with standard errors. A cell that was not observed counts as 0: it
did nothing. So does a score below 0 of a method without signs, which says that the cell matters less than nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from tempograd.core import stats, validation
from tempograd.core.errors import InputError, arg, brief, listed
from tempograd.explanation import Explanation
from tempograd.explanation.core import require
from tempograd.typing import ArrayLike, Channels, EffectUnit
from tempograd.views.labels import channel_names
from tempograd.views.series import Floats, sizes


class Effects(NamedTuple):
    """Scores of some series on the CPU, (series, time, channel): with their signs, and as sizes."""

    push: Tensor
    size: Tensor

    @classmethod
    def of(cls, explanation: Explanation, rows: Any = slice(None)) -> "Effects":
        """Return those of the series at ``rows``; without a sign a push is a size."""
        size = sizes(explanation)[rows].detach().cpu()
        return cls(explanation.values[rows].detach().cpu() if explanation.signed else size, size)


def mean_and_error(totals: Tensor) -> tuple[Floats, Floats]:
    """Mean and standard error of each column (infinite below two series); what is not defined does not count."""
    totals = totals.double()
    known = ~totals.isnan()
    count = known.sum(0)
    mean = totals.nansum(0) / count
    squares = torch.where(known, (totals - mean) ** 2, 0).sum(0)
    error = torch.where(count > 1, (squares / (count * (count - 1))).sqrt(), torch.inf)
    return mean.numpy(), error.numpy()


def half_interval(error: Floats, freedom: Any, level: float = 0.95) -> Floats:
    """Return half the width of Student's interval; infinite where nothing is known of the spread."""
    factor = stats.t_quantile(level, torch.as_tensor(freedom, dtype=torch.float64)).numpy()
    return np.asarray(np.where(np.isfinite(error), np.where(error == 0, 0, factor * error), np.inf))


@dataclass(frozen=True)
class ChannelEffects:
    """How far channels moved predictions, over some series; arrays are (channel,).

    Attributes
    ----------
    names : tuple of str
    series : int
    signed : bool
    push, push_half : array
        Mean over the series of the scores of a channel, summed over time or per observed value, and half the width
        of its 95 % interval, infinite below two series.
    size, size_half : array
        The same of the sizes of scores.
    present : array
        Share of the series in which the channel was observed at all.
    """

    names: tuple[str, ...]
    series: int
    signed: bool
    push: Floats
    push_half: Floats
    size: Floats
    size_half: Floats
    present: Floats


def channel_effects(
    explanation: Explanation,
    target: int | None = None,
    *,
    rows: ArrayLike | None = None,
    per: EffectUnit = "series",
) -> ChannelEffects:
    r"""Return how far each channel moved the predictions of some series, of those explained for a class.

    With attributions :math:`A_{i,t,d}` of the :math:`n` series, the effect of a channel in a series is
    :math:`s_{i,d} = \sum_t A_{i,t,d}` (its size :math:`\sum_t |A_{i,t,d}|`), divided by the number of observed
    values for ``per="value"``; means and intervals are over the series.
    """
    validation.check_choice(per, "per", get_args(EffectUnit))
    index = _rows(require(explanation), target, rows)
    effects = Effects.of(explanation, index)
    mask = torch.ones_like(effects.size) if explanation.mask is None else explanation.mask[index].cpu()
    count = mask.double().sum(1)
    share = count if per == "value" else torch.ones_like(count)
    known = (count > 0).double().sum(0) if per == "value" else torch.full_like(count[0], len(index))
    (push, push_error), (size, size_error) = (mean_and_error(part.double().sum(1) / share) for part in effects)
    return ChannelEffects(
        names=channel_names(explanation),
        series=len(index),
        signed=explanation.signed,
        push=push,
        push_half=half_interval(push_error, known - 1),
        size=size,
        size_half=half_interval(size_error, known - 1),
        present=(count > 0).double().mean(0).numpy(),
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


@dataclass(frozen=True)
class Group:
    """One method on the series of one explained class, or on all of them (``kind`` is None)."""

    kind: int | None
    count: int
    push: Floats  # (channel,), as the next three
    push_error: Floats
    size: Floats
    size_error: Floats
    mean: Floats  # (time, channel), of the scores at every moment, and of their sizes
    mean_size: Floats


def groups(explanations: Mapping[str, Explanation]) -> dict[str, tuple[Group, ...]]:
    """Summarise every method for all series and, where a class was explained per series, for each class."""
    target = next(iter(explanations.values())).target
    kinds: list[int | None] = [None]
    if target is not None and target.ndim == 1:
        classes = sorted(set(target.tolist()))
        kinds += classes if len(classes) > 1 else []
    return {
        label: tuple(_group(explanation, target, kind) for kind in kinds)
        for label, explanation in explanations.items()
    }


def _group(explanation: Explanation, target: Tensor | None, kind: int | None) -> Group:
    rows = slice(None) if kind is None or target is None else target.to(explanation.values.device) == kind
    push, size = Effects.of(explanation, rows)
    means = (*mean_and_error(push.sum(1)), *mean_and_error(size.sum(1)))
    moments = (part.double().mean(0).numpy() for part in (push, size))
    return Group(kind, len(push), *(part.astype(np.float32) for part in (*means, *moments)))


def channel_shares(explanation: Explanation, most: int) -> list[tuple[str, float]]:
    r"""Return the strongest channels with their parts of the sum of all sizes, :math:`\sum_{n,t} |A_{ntd}|`."""
    size = sizes(explanation).sum((0, 1)).double()
    share = size / size.sum() if float(size.sum()) else size
    names = channel_names(explanation)
    return [(names[d], float(share[d])) for d in share.argsort(descending=True, stable=True)[:most].tolist()]


def chosen_channels(
    wanted: Channels | None, names: Sequence[str], effect: Floats, most: int, *, ordered: bool
) -> list[int]:
    """Return the channels to show: how many of the strongest by ``effect``, or which; None: at most ``most``.

    Where nobody asked for an order the strongest come first, or, without ``ordered``, all keep their places.

    Examples
    --------
    >>> effect = np.array([1.0, 3.0, 2.0])
    >>> chosen_channels(2, "abc", effect, 8, ordered=False)
    [1, 2]
    >>> chosen_channels(["c", 0], "abc", effect, 8, ordered=False)
    [2, 0]
    """
    strongest = [int(d) for d in np.argsort(-effect, kind="stable")]
    if wanted is None:
        return list(range(len(names))) if len(names) <= most and not ordered else strongest[:most]
    if isinstance(wanted, (np.ndarray, Tensor)) and wanted.ndim == 1:
        wanted = wanted.tolist()
    if isinstance(wanted, (str, bool)) or not isinstance(wanted, Sequence):
        return strongest[: validation.check_int(wanted, "channels", 1)]
    places = {label: d for d, label in enumerate(names)}
    found = [places.get(label) if isinstance(label, str) else label for label in wanted]
    for label, d in zip(wanted, found, strict=True):
        if isinstance(d, bool) or not isinstance(d, (int, np.integer)) or not 0 <= d < len(names):
            raise InputError(f"There is no channel {brief(label)}: expected a count or some of {listed(names)}.")
    return [int(d) for d in found if d is not None]
