"""A yes or no from the device that the host need not wait for until it asks."""

import torch
from torch import Tensor


class Later:
    """Starts the copy of a flag to the host; asking for its truth waits for the copy, not for later work.

    Examples
    --------
    >>> bool(Later(torch.tensor(True)))
    True
    """

    def __init__(self, flag: Tensor) -> None:
        self._event: torch.cuda.Event | None = None
        self._flag = flag
        if flag.is_cuda:
            self._flag = torch.empty(flag.shape, dtype=flag.dtype, pin_memory=True)
            self._flag.copy_(flag, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch has no types here
            self._event.record()

    def __bool__(self) -> bool:
        if self._event is not None:
            self._event.synchronize()
        return bool(self._flag)
