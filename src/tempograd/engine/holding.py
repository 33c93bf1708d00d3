"""What calls change outside themselves while they run, counted: it is put back when the last of them is done.

Two threads may explain one model at the same time. If each put back what it had found, the second would find, and
leave, what the first had changed.
"""

import threading
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from dataclasses import dataclass

_lock = threading.RLock()


@dataclass
class _Held:
    restore: Callable[[], None]
    users: int = 0


_held: dict[Hashable, _Held] = {}


class Hold:
    """What one call has changed, alone or together with others."""

    def __init__(self) -> None:
        self._mine: dict[Hashable, None] = {}

    def take(self, key: Hashable, change: Callable[[], Callable[[], None]]) -> bool:
        """Change something, and tell whether this call had not done so before.

        Parameters
        ----------
        key : hashable
            Names what is changed.
        change : function
            Called unless another call has changed it already; returns what puts it back.
        """
        if key in self._mine:
            return False
        with _lock:
            if key not in _held:
                _held[key] = _Held(change())
            _held[key].users += 1
            self._mine[key] = None
        return True

    def release(self) -> None:
        """Put back what no other call holds, the last change first, and all of it even if some of it fails."""
        with _lock, ExitStack() as stack:
            for key in self._mine:
                held = _held[key]
                held.users -= 1
                if held.users == 0:
                    del _held[key]
                    stack.callback(held.restore)
            self._mine.clear()
