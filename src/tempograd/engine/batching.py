"""Batches that fit the device: their size halves whenever memory runs out."""

import gc
from collections.abc import Callable, Hashable, Iterator

import torch

from tempograd._utils.progress import progress_bar
from tempograd.errors import ModelError

LIMIT = 65536  # sequences per pass on a GPU: beyond, no faster, and memory must not grow with the data
LARGE = 2**37  # bytes of memory that a GPU needs for so many; a smaller one begins with fewer
DEFAULT = 256  # on a CPU larger passes leave the cache
SLACK = 1.05  # a few series more rather than a small last block
CELLS = 2**26  # values per pass; a tensor of them takes 256 MB in float32

Work = Callable[[slice, int], None]


class Batching:
    """How many sequences go through the model at once, by default what the device should hold of so many cells.

    ``memory`` is what did fit when memory ran out before, by device and cells; it is kept up to date.
    """

    def __init__(
        self, device: torch.device, cells: int, size: int | None = None, memory: dict[Hashable, int] | None = None
    ) -> None:
        self._memory, self._kind = {} if memory is None else memory, (device, cells)
        self.device, self.automatic = device, size is None
        usual = max(1, min(_most(device), CELLS // cells))
        self.size = min(usual, self._memory.get(self._kind, usual)) if size is None else size

    def run(self, series: int, per_series: int, work: Work, label: str) -> None:
        """Call ``work(rows, size)`` until all ``series`` are done, ``per_series`` sequences for each.

        ``work`` sends at most ``size`` sequences at a time; one series with more of them than that
        splits them itself (see :func:`slices`).
        """
        with progress_bar(series, label) as advance:
            self.run_rows(slice(0, series), per_series, work, advance)

    def run_rows(self, series: slice, per_series: int, work: Work, done: Callable[[int], None]) -> None:
        """Do the same for a run of series, and report the number of those finished to ``done``."""
        start = series.start
        while start < series.stop:
            rows = self.next_rows(start, series.stop, per_series)
            if self._fits(work, rows):
                done(rows.stop - rows.start)
                start = rows.stop

    def next_rows(self, start: int, series: int, per_series: int) -> slice:
        """Return the series that come next, from ``start`` on."""
        left, most = series - start, max(1, self.size // per_series)
        return slice(start, start + (left if left <= most * SLACK else most))

    def _fits(self, work: Work, rows: slice) -> bool:
        try:
            work(rows, int(self.size * SLACK))
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            if self.size == 1:
                raise ModelError(
                    "One sequence at a time does not fit into the memory of the device: use a smaller model, "
                    "shorter series or a larger device."
                ) from error
            self.size //= 2
            self._memory[self._kind] = self.size
        else:
            return True
        # outside the handler, where the error no longer holds on to the tensors of the failed pass
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return False


def _most(device: torch.device) -> int:
    if device.type != "cuda":
        return DEFAULT
    memory = torch.cuda.get_device_properties(device).total_memory if torch.cuda.is_available() else LARGE
    return int(LIMIT * min(1.0, memory / LARGE))


def slices(total: int, size: int) -> Iterator[slice]:
    """Cut 0 … total-1 into runs of at most ``size``.

    Examples
    --------
    >>> [(batch.start, batch.stop) for batch in slices(5, 2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    for start in range(0, total, size):
        yield slice(start, min(total, start + size))


def out_of_memory(error: Exception) -> bool:
    """Tell whether a pass failed because the device is full."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return "can't allocate memory" in str(error) or "ALLOC_FAILED" in str(error)
