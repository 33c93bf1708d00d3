"""A few numbers from the device that the host need not wait for until it asks."""

import torch
from torch import Tensor


class Later:
    """Starts the copy of numbers to the host; asking for them waits for the copy, not for later work.

    Examples
    --------
    >>> bool(Later(torch.tensor(True)))
    True
    """

    def __init__(self, numbers: Tensor) -> None:
        self._event: torch.cuda.Event | None = None
        self._numbers = numbers
        if numbers.is_cuda:
            self._numbers = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
            self._numbers.copy_(numbers, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch has no types here
            self._event.record()

    def __bool__(self) -> bool:
        return bool(self._arrived())

    def tolist(self) -> list[float]:
        """Return all of them."""
        return list(self._arrived().tolist())

    def cpu(self) -> Tensor:
        """Return them as a tensor on the host."""
        return self._arrived()

    def _arrived(self) -> Tensor:
        if self._event is not None:
            self._event.synchronize()
        return self._numbers
