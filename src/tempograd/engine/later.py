"""A yes or no from the device that the host need not wait for until it asks."""

import torch
from torch import Tensor


class Later:
    """Starts the copy of flags to the host; asking for them waits for the copy, not for later work.

    Examples
    --------
    >>> bool(Later(torch.tensor(True)))
    True
    """

    def __init__(self, flags: Tensor) -> None:
        self._event: torch.cuda.Event | None = None
        self._flags = flags
        if flags.is_cuda:
            self._flags = torch.empty(flags.shape, dtype=flags.dtype, pin_memory=True)
            self._flags.copy_(flags, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch has no types here
            self._event.record()

    def __bool__(self) -> bool:
        return bool(self._arrived())

    def tolist(self) -> list[bool]:
        """Return all flags."""
        return list(self._arrived().tolist())

    def _arrived(self) -> Tensor:
        if self._event is not None:
            self._event.synchronize()
        return self._flags
