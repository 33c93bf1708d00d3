"""Batches that fit the device: their size halves whenever memory runs out."""

import gc
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext

import torch
from torch import nn

from tempograd.core.errors import ModelError
from tempograd.core.progress import progress_bar

LIMIT = 65536  # sequences per pass on a GPU: beyond, no faster, and memory must not grow with the data
LARGE = 2**37  # bytes of memory that a GPU needs for so many; a smaller one begins with fewer
DEFAULT = 256  # on a CPU, where nothing is known of the model
SLACK = 1.05  # a few series more rather than a small last block
CELLS = 2**26  # values per pass, twice as many on a large GPU; a tensor of them takes 256 MB in float32

Work = Callable[[slice, int], None]


class Batching:
    """How many sequences go through the model at once, by default what the device should hold of so many cells.

    ``on_cpu`` is how many suit a CPU.
    """

    def __init__(self, device: torch.device, cells: int, size: int | None = None, on_cpu: int = DEFAULT) -> None:
        self.device = device
        self.together = 1  # series that stay in one block, counted from the first
        most, room = on_cpu, CELLS
        if device.type == "cuda":
            memory_of = torch.cuda.get_device_properties
            share = min(1.0, memory_of(device).total_memory / LARGE) if torch.cuda.is_available() else 1.0
            most, room = int(LIMIT * share), max(CELLS, int(2 * CELLS * share))
        usual = max(1, min(most, room // cells))
        self.size = usual if size is None else size

    def run(self, series: int | slice, per_series: int, work: Work, label: str = "") -> None:
        """Call ``work(rows, size)`` until all ``series`` are done, ``per_series`` sequences for each.

        ``work`` sends at most ``size`` sequences at a time; one series with more of them than that
        splits them itself (see :func:`slices`). With a ``label`` progress is shown.
        """
        start, stop = (0, series) if isinstance(series, int) else (series.start, series.stop)
        shown = label and sys.stderr.isatty()
        with progress_bar(stop - start, label) if shown else nullcontext(lambda _: None) as advance:
            while start < stop:
                rows = self.next_rows(start, stop, per_series)
                try:
                    work(rows, int(self.size * SLACK))
                except (RuntimeError, MemoryError) as error:
                    if not out_of_memory(error):
                        raise
                    if self.size == 1:
                        raise ModelError(
                            "One sequence at a time does not fit into the memory of the device: use a smaller "
                            "model, shorter series or a larger device."
                        ) from error
                    self.size //= 2
                else:
                    advance(rows.stop - rows.start)
                    start = rows.stop
                    continue
                # outside the handler, where the error no longer holds on to the tensors of the failed pass
                gc.collect()
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()

    def next_rows(self, start: int, series: int, per_series: int) -> slice:
        """Return the series that come next, from ``start`` on: as many as later, so that no pass is small."""
        most = max(1, int(self.size // per_series * SLACK))
        count = next(slices(series - start, most, even=True), slice(0, 0)).stop
        if self.together > 1:
            count = min(math.ceil(count / self.together), max(1, most // self.together)) * self.together
        return slice(start, min(start + count, series))


# Passes with a gradient on a CPU. What a pass keeps for the way back is written and read once, so it should stay
# near the processor, and calls of small operations should not outweigh their work. Measured with one thread and
# two (forward and backward per sequence; GRUs of 8, 32, 64 and 200 units, the library's CNN and transformer, an
# MLP; 24 to 192 steps of 8 to 128 channels; 32 to 4,096 sequences): the fastest sizes kept 20 to 60 MB whatever
# the model with one thread and up to 130 MB with two, and near them time hardly changes. A matrix of weights keeps
# about one number per step for each of its rows. Around the pass, points, masks, gradients and effects are a dozen
# tensors as large as the series: where these are wide, it is they that no longer stay, and memory asked for anew
# at each pass (a page fault for every 4 kB) costs more than a pass less saves. Threads do not count: more cores
# should not change the digits of a score.

ROOM = 5 * 2**24  # bytes that a pass may keep
WIDE = 2**24  # bytes of the series themselves in a pass
LEAST, MOST_ON_CPU = 64, 4096  # sequences: with fewer, calls outweigh their work; more are no faster


def suits_cpu(modules: Iterable[nn.Module], time: int, channels: int, precision: torch.dtype) -> int:
    """Return how many series (time, channel) suit a pass with a gradient through some modules on a CPU.

    Examples
    --------
    >>> small, large = nn.GRU(8, 32), nn.GRU(8, 200)
    >>> suits_cpu([small], 48, 8, torch.float32), suits_cpu([large], 48, 8, torch.float32)
    (2100, 359)
    >>> suits_cpu([nn.GRU(128, 32)], 48, 128, torch.float32)
    682
    """
    layers = [part for module in modules for part in module.modules()]
    computed = [part for part in layers if not isinstance(part, (nn.Embedding, nn.EmbeddingBag))]  # no tables
    weights = [weight for part in computed for weight in part._parameters.values() if weight is not None]
    rows = sum(len(weight) for weight in weights if weight.ndim > 1)
    if rows == 0:
        return DEFAULT
    values = time * channels * precision.itemsize
    kept = time * rows * precision.itemsize + 2 * values
    return max(LEAST, min(MOST_ON_CPU, ROOM // kept, WIDE // values))


def slices(total: int, size: int, *, even: bool = False) -> Iterator[slice]:
    """Cut 0 … total-1 into runs of at most ``size``; if they are to be ``even``, none is much shorter.

    Examples
    --------
    >>> [(batch.start, batch.stop) for batch in slices(5, 2)]
    [(0, 2), (2, 4), (4, 5)]
    >>> [(batch.start, batch.stop) for batch in slices(21, 20, even=True)]
    [(0, 11), (11, 21)]
    """
    size = math.ceil(total / math.ceil(total / size)) if even and total else size
    for start in range(0, total, size):
        yield slice(start, min(total, start + size))


def out_of_memory(error: Exception) -> bool:
    """Tell whether a pass failed because the device is full."""
    known = isinstance(error, (torch.OutOfMemoryError, MemoryError))
    return known or "can't allocate memory" in str(error) or "ALLOC_FAILED" in str(error)
