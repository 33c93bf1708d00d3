"""What a file of series holds: a split, and the names that people know its parts by."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.data.base import Split


@dataclass(frozen=True, eq=False, repr=False)
class Series(Split):
    """A :class:`Split` with the names its file gave to series, channels, steps and classes.

    Parameters
    ----------
    channels, times : tuple of str, optional
        Names of the channels and of the time steps.
    names : tuple of str, optional
        What the file calls its series, where that is not a whole number: those are in ``ids``.
    classes : tuple of str, optional
        What the file calls class 0, 1, …, where that is text.
    labelled : bool
        Whether the file has labels. Without them all series are in class 0.

    Examples
    --------
    >>> read = Series(torch.zeros(2, 5, 1), torch.tensor([1, 0]), names=("ward 3", "ward 7"), channels=("pulse",))
    >>> read.take([1]).names
    ('ward 7',)
    >>> sorted(read.options)
    ['channels', 'ids', 'mask', 'names', 'times']
    """

    channels: tuple[str, ...] | None = None
    times: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    labelled: bool = True

    @property
    def options(self) -> dict[str, Any]:
        """What :func:`tempograd.explain` takes beside ``x``: ``explain(model, series.x, **series.options)``."""
        return {name: getattr(self, name) for name in ("mask", "ids", "channels", "times", "names")}

    def take(self, indices: "Tensor | NDArray[Any] | Sequence[int] | slice") -> Self:
        """Return the series at ``indices`` (positions, a slice or a bool mask), with their ids and names."""
        part = super().take(indices)
        if self.names is None:
            return part
        rows = torch.arange(len(self))[indices].reshape(-1).tolist()
        return replace(part, names=tuple(self.names[row] for row in rows))
