"""What an explanation answers with: its strongest cells, and sums over blocks of steps, which print themselves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core.errors import MissingExtraError
from tempograd.core.formatting import alike, table
from tempograd.core.series import is_nested
from tempograd.typing import Times

if TYPE_CHECKING:
    import pandas as pd

_Numbers = NDArray[np.floating[Any]]
LISTED = 10  # rows of a table that prints itself


def as_table(content: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> "pd.DataFrame":
    """Return columns, or rows, as a DataFrame, where pandas is installed."""
    try:
        import pandas as pd  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise MissingExtraError("pandas", "data") from error
    return pd.DataFrame(content)


def more_channels(count: int) -> str:
    """Say how many channels a table leaves out, on a line of its own; nothing if it has them all."""
    rest = count - LISTED
    return f"\n… and {rest:,} more channel{'s' * (rest > 1)}" if rest > 0 else ""


# The strongest cells of each series, as tensors that print themselves

SHOWN = 5  # series that a short text names


@dataclass(frozen=True, eq=False)
class Top:
    """The strongest cells of each series, (series, k) each; -1 and 0 where a series has fewer observed cells."""

    time: Tensor
    channel: Tensor
    values: Tensor
    series: Sequence[object]
    times: Times | None = None
    channels: Sequence[str] | None = None

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.time, self.channel, self.values))

    def __repr__(self) -> str:
        """Write one line per series, the first few of them, with the names that people know."""
        lines = [f"Top {self.time.shape[1]} cells of {len(self.time)} series, as time/channel value:"]
        for row in range(min(len(self.time), SHOWN)):
            stamps = self.times[row] if is_nested(self.times) else self.times
            cells = zip(*(part[row].tolist() for part in (self.time, self.channel, self.values)), strict=True)
            texts = [
                f"{stamps[t] if stamps else t}/{self.channels[d] if self.channels else d} {value:+.3g}"
                for t, d, value in cells
                if t >= 0
            ]
            lines.append(f"  {self.series[row]}: {', '.join(texts) or 'no cell observed'}")
        more = [f"  … and {len(self.time) - SHOWN} more series"] if len(self.time) > SHOWN else []
        return "\n".join([*lines, *more])


@dataclass(frozen=True, eq=False)
class Blocks:
    """Sums of scores over blocks of steps, as means over a group of series; arrays are (channel, block).

    Attributes
    ----------
    channels, times : tuple of str
        What people call the channels, and the blocks.
    edges : tuple of int
        Block ``b`` holds the steps from ``edges[b]`` to ``edges[b + 1]``, the latter excluded.
    series : int
        How many series the group has.
    signed : bool
        Whether scores have a sign; without, ``mean`` is the mean size.
    mean, error, low, high : array
        Mean over the series, its standard error and 95 % interval (infinite for a single series).
    size : array
        Mean over the series of the sum of the sizes of the scores.
    present : array
        Share of the series in which anything was observed there.
    """

    channels: tuple[str, ...]
    times: tuple[str, ...]
    edges: tuple[int, ...]
    series: int
    signed: bool
    mean: _Numbers
    error: _Numbers
    low: _Numbers
    high: _Numbers
    size: _Numbers
    present: _Numbers

    @property
    def order(self) -> list[int]:
        """Return the channels by their size over all blocks, the largest first."""
        return [int(d) for d in np.argsort(-self.size.sum(1), kind="stable")]

    def __repr__(self) -> str:
        shown = self.order[:LISTED]
        numbered = all(time.startswith("step") for time in self.times)
        times = (time.split(" ", 1)[-1] if numbered else time for time in self.times)
        head = ["steps" if numbered else "", *times]
        texts = iter(alike(*self.mean[shown].ravel().tolist()))
        rows = [[self.channels[d], *(next(texts) for _ in self.times)] for d in shown]
        text = table([head, *rows]) + more_channels(len(self.channels))
        what = "attribution" if self.signed else "importance"
        return f"Mean {what} of {self.series:,} series by channel and block, strongest channels first:\n{text}"

    def to_dataframe(self) -> "pd.DataFrame":
        """Return one row per channel and block, in their order.

        Columns: ``channel``, ``time`` (what the block is called), ``start``, ``stop`` (steps, the latter
        excluded), ``mean``, ``low``, ``high``, ``standard_error``, ``size`` and ``present``.
        """
        depth, count = self.mean.shape
        columns = {
            "channel": [label for label in self.channels for _ in range(count)],
            "time": list(self.times) * depth,
            "start": list(self.edges[:-1]) * depth,
            "stop": list(self.edges[1:]) * depth,
        }
        fields = ("mean", "low", "high", "error", "size", "present")
        numbers = {name: getattr(self, name).ravel() for name in fields}
        return as_table(columns | numbers).rename(columns={"error": "standard_error"})
