"""One table of names per kind of thing, shared by the command line, the benchmark and the tests."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from tempograd.errors import UnknownNameError

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """A read-only mapping that grows only through :meth:`register`.

    Examples
    --------
    >>> tools: Registry[type] = Registry("tool")
    >>> tools.register("hammer")(int)
    <class 'int'>
    >>> tools["hamer"]
    Traceback (most recent call last):
    ...
    tempograd.errors.UnknownNameError: No tool is called 'hamer'. Did you mean 'hammer'? Known names: hammer.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorate a class or function to make it available under ``name``."""

        def add(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"Two {self.kind}s called {name!r}: {self._entries[name]} and {entry}.")
            self._entries[name] = entry
            return entry

        return add

    def __getitem__(self, name: str) -> T:
        if not isinstance(name, str) or name not in self._entries:
            raise UnknownNameError(self.kind, name, self._entries)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
