r"""Which channels and moments matter, over many series and for each class: one rule for all who show it.

For the series :math:`n` of a group, with scores :math:`A_{n,t,d}`, a channel's push and size are

.. math:: p_{n,d} = \sum_t A_{n,t,d}, \qquad s_{n,d} = \sum_t |A_{n,t,d}|

and what is shown are their means over the group with standard errors. A cell that was not observed counts as 0: it
did nothing. So does a score below 0 of a method without signs, which says that the cell matters less than nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, brief, listed
from tempograd.explanation import Explanation
from tempograd.typing import Channels
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
