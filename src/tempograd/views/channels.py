r"""Over all series: which channels and moments matter for which class.

For the series :math:`n` of a group, with scores :math:`A_{n,t,d}`, a channel's push and size are

.. math:: p_{n,d} = \sum_t A_{n,t,d}, \qquad s_{n,d} = \sum_t |A_{n,t,d}|

and the summary holds their means over the group with standard errors, and the mean of :math:`A` and of
:math:`|A|` at every moment. A cell that was not observed counts as 0: it did nothing. So does a score below 0 of a
method without signs, which says that the cell matters less than nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tempograd.explanation import Explanation
from tempograd.views.labels import plain, sizes
from tempograd.views.series import Floats


@dataclass(frozen=True)
class Group:
    """One method on the series of one explained class, or on all of them (``kind`` is None).

    Attributes
    ----------
    push, push_error, size, size_error : Floats of shape (channel,)
    mean, mean_size : Floats of shape (time, channel)
    """

    kind: int | None
    count: int
    push: Floats
    push_error: Floats
    size: Floats
    size_error: Floats
    mean: Floats
    mean_size: Floats


def summaries(explanations: Mapping[str, Explanation]) -> dict[str, tuple[Group, ...]]:
    """Summarise every method for all series and, where a class was explained per series, for each class."""
    first = next(iter(explanations.values()))
    kinds: list[int | None] = [None]
    if first.target is not None and first.target.ndim == 1:
        classes = sorted(set(first.target.tolist()))
        kinds += classes if len(classes) > 1 else []
    return {
        label: tuple(_group(explanation, first.target, kind) for kind in kinds)
        for label, explanation in explanations.items()
    }


def _group(explanation: Explanation, target: Tensor | None, kind: int | None) -> Group:
    sized = sizes(explanation).detach().cpu()
    values = explanation.values.detach().cpu() if explanation.signed else sized
    if kind is not None and target is not None:
        values, sized = (part[target.cpu() == kind] for part in (values, sized))
    push, push_error = _mean(values.sum(1))
    size, size_error = _mean(sized.sum(1))
    return Group(
        kind=kind,
        count=len(values),
        push=push,
        push_error=push_error,
        size=size,
        size_error=size_error,
        mean=plain(values.double().mean(0)),
        mean_size=plain(sized.double().mean(0)),
    )


def _mean(totals: Tensor) -> tuple[Floats, Floats]:
    totals = totals.double()
    count = len(totals)
    if count < 2:
        return plain(totals.mean(0)), plain(torch.full_like(totals[0], torch.inf))
    return plain(totals.mean(0)), plain(totals.std(0) / count**0.5)
