"""One table of names per kind of thing, which other packages extend through their entry points."""

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from tempograd.errors import UnknownNameError

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """A read-only mapping that grows only through :meth:`register` and the entry points of installed packages.

    Parameters
    ----------
    kind : str
        What a thing is called in messages.
    group : str, optional
        Entry points of this group belong to it. They are found at the first look and loaded when asked for;
        loading one may register it, else the registry takes what it points to.

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

    def __init__(self, kind: str, group: str | None = None) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}
        self._group = group
        self._elsewhere: dict[str, EntryPoint] | None = None if group else {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorate a class or function to make it available under ``name``."""

        def add(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"Two {self.kind}s called {name!r}: {self._entries[name]} and {entry}.")
            self._entries[name] = entry
            return entry

        return add

    def _names(self) -> dict[str, None]:
        if self._elsewhere is None:
            self._elsewhere = {each.name: each for each in entry_points(group=str(self._group))}
        return dict.fromkeys((*self._entries, *self._elsewhere))

    def __getitem__(self, name: str) -> T:
        if not isinstance(name, str) or name not in self._names():
            raise UnknownNameError(self.kind, name, self._names())
        if name not in self._entries and self._elsewhere:
            found = self._elsewhere[name].load()
            self._entries.setdefault(name, found)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())
