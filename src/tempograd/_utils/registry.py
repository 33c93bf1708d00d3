"""Names for what other rooms and packages bring: registries, and functions of upper rooms."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from tempograd.errors import TempogradError, UnknownNameError, one_line, quote, warn

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """A read-only mapping that grows only through :meth:`register` and the entry points of installed packages.

    Parameters
    ----------
    kind : str
        What a thing is called in messages.
    group : str, optional
        Entry points of this group belong to it. They are found at the first look, and each is loaded when it is
        asked for; what it points to is taken, unless loading it registers something under its name.

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
        self._points: dict[str, EntryPoint] | None = None if group else {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorate a class or function to make it available under ``name``."""

        def add(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"Two {self.kind}s called {name!r}: {self._entries[name]} and {entry}.")
            self._entries[name] = entry
            return entry

        return add

    @property
    def points(self) -> Mapping[str, EntryPoint]:
        """What installed packages offer; a name that is taken is left out, with a warning."""
        if self._points is None:
            self._points, refused = {}, []
            for point in entry_points(group=str(self._group)):
                there = self._points.get(point.name)
                if there is None and (point.name not in self._entries or _is(self._entries[point.name], point)):
                    self._points[point.name] = point
                elif there is None or there.value != point.value:
                    refused.append(point)
            for point in refused:
                warn(
                    f"The package {_package(point)} offers a {self.kind} called {quote(point.name)}, "
                    "a name that is already taken: it is left out."
                )
        return self._points

    def name_of(self, thing: T) -> str | None:
        """Return the name of a thing, if it has one; nothing is loaded for it."""
        known = (name for name, entry in self._entries.items() if entry is thing)
        return next(known, next((name for name, point in self.points.items() if _is(thing, point)), None))

    def working(self) -> dict[str, T]:
        """Load everything; what cannot be loaded is left out, with a warning."""
        found = {}
        for name in self:
            try:
                found[name] = self[name]
            except TempogradError as error:
                warn(str(error))
        return found

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise UnknownNameError(self.kind, name, self)
        if name not in self._entries:
            found = self._load(self.points[name])
            self._entries.setdefault(name, found)
        return self._entries[name]

    def _load(self, point: EntryPoint) -> T:
        try:
            found: T = point.load()
        except Exception as error:  # whatever happens while another package is imported
            raise TempogradError(
                f"The {self.kind} {quote(point.name)} of the package {_package(point)} cannot be loaded: "
                f"{type(error).__name__}: {one_line(str(error), 120)}"
            ) from error
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self.points or name in self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._entries, *self.points)))

    def __len__(self) -> int:
        return len({*self._entries, *self.points})


def _is(thing: object, point: EntryPoint) -> bool:
    """Tell whether an entry point points to a thing, without loading it."""
    return f"{getattr(thing, '__module__', '')}:{getattr(thing, '__qualname__', '')}" == point.value


def _package(point: EntryPoint) -> str:
    return one_line(point.dist.name if point.dist else point.module)


# What lower rooms call of upper ones, such as the drawing of an explanation.
# The package joins them by name (``tempograd/__init__.py``); they are loaded when they are called, not before.

_PLACES: dict[str, str] = {}


def join(**places: str) -> None:
    """Say where functions are, each as ``module.function``."""
    _PLACES.update(places)


def joined(name: str) -> Callable[..., Any]:
    """Return a function of an upper room."""
    module, _, function = _PLACES[name].rpartition(".")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
