"""The strongest cells of each series, as tensors that print themselves for people."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

SHOWN = 5  # series that a short text names


class _Cells(NamedTuple):
    time: Tensor
    channel: Tensor
    values: Tensor


class Top(_Cells):
    """The strongest cells of each series, (series, k) each; -1 and 0 where a series has fewer observed cells."""

    series: Sequence[object] = ()
    times: Sequence[str] | None = None
    channels: Sequence[str] | None = None

    def __repr__(self) -> str:
        """Write one line per series, the first few of them, with the names that people know."""
        parts = (self.time.tolist(), self.channel.tolist(), self.values.tolist())
        lines = [f"Top {self.time.shape[1]} cells of {len(self.time)} series, as time/channel value:"]
        for row, cells in enumerate(zip(*parts, strict=True)):
            if row == SHOWN:
                lines.append(f"  … and {len(self.time) - SHOWN} more series")
                break
            found = [
                f"{self.times[t] if self.times else t}/{self.channels[d] if self.channels else d} {value:+.3g}"
                for t, d, value in zip(*cells, strict=True)
                if t >= 0
            ]
            whose = self.series[row] if self.series else row
            lines.append(f"  {whose}: {', '.join(found) or 'no cell observed'}")
        return "\n".join(lines)
