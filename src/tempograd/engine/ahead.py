"""Work beside the model: the next block is prepared, and results travel home, while the device is busy.

On a CPU nothing runs beside anything else, so everything here happens at once.
"""

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Generic, TypeVar

import torch
from torch import Tensor

Prepared = TypeVar("Prepared")


class Ahead(Generic[Prepared]):
    """Prepares a block of series on a stream of its own while the model computes on the one before.

    What was prepared is freed into that stream's memory, so the next preparation may begin only when the model
    is done with the block before: :meth:`take` notes that moment.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = _side_stream(device) if device.type == "cuda" else None
        self._free: torch.cuda.Event | None = None
        self._waiting: tuple[Hashable, Prepared] | None = None

    def take(self, key: Hashable, make: Callable[[], Prepared]) -> Prepared:
        """Return what was prepared under ``key``, or make it now; what was prepared for others is dropped."""
        ready, self._waiting = self._waiting, None
        if self._stream is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_stream(self._stream)
            self._free = current.record_event()
        return ready[1] if ready is not None and ready[0] == key else make()

    def prepare(self, key: Hashable, make: Callable[[], Prepared]) -> None:
        """Make something for later, once the work sent before the last :meth:`take` is done."""
        with self._beside():
            self._waiting = key, make()

    def _beside(self) -> AbstractContextManager[object]:
        if self._stream is None:
            return nullcontext()
        if self._free is not None:
            self._stream.wait_event(self._free)
        return torch.cuda.stream(self._stream)


class Landing:
    """Writes results where they belong, one block late where they come from another device.

    To copy at once would make the host wait for the device, and then the device for the host.
    """

    def __init__(self) -> None:
        self._flying: list[tuple[Tensor, slice | Tensor, Tensor, torch.cuda.Event]] = []
        self._new = 0

    def put(self, whole: Tensor, rows: slice | Tensor, part: Tensor) -> None:
        """Write ``part`` into ``whole[rows]``, at the latest when :meth:`land` is called."""
        if whole.is_cuda or not part.is_cuda:
            whole[rows] = part.to(whole)
            return
        copy = torch.empty(part.shape, dtype=whole.dtype, pin_memory=True)
        copy.copy_(part, non_blocking=True)
        self._new += 1
        self._flying.append((whole, rows, copy, torch.cuda.current_stream(part.device).record_event()))

    def land(self, *, earlier: bool = False) -> None:
        """Wait for all results, or for those alone that were there when somebody last waited."""
        keep, self._new = self._new if earlier else 0, 0
        while len(self._flying) > keep:
            whole, rows, copy, event = self._flying.pop(0)
            event.synchronize()
            whole[rows] = copy


@lru_cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """One stream per device, since each keeps the memory that it once used.

    Of high priority: many small kernels would otherwise wait for one large one of the model each.
    """
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]  # torch has no types here
