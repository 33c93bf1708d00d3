"""Names for what other rooms and packages bring."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from tempograd.core.errors import (
    InputError,
    TempogradError,
    UnknownNameError,
    brief,
    listed,
    one_line,
    quote,
    warn,
)
from tempograd.core.plugins import Offer, offers

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """A read-only mapping that grows only through :meth:`register` and the entry points of installed packages.

    Parameters
    ----------
    kind : str
        What a thing is called in messages.
    group : str, optional
        Entry points of this group belong to it. They are found at the first look, and each is loaded when it is
        asked for; what it points to is taken, unless loading it registers something under its name. A name that
        several packages offer is nobody's: asking for it is an error that names them.
    accepts : callable, optional
        Tells whether a thing is of this kind.
    wanted : str
        What it must be, in words.

    Examples
    --------
    >>> tools: Registry[type] = Registry("tool")
    >>> tools.register("hammer")(int)
    <class 'int'>
    >>> tools["hamer"]
    Traceback (most recent call last):
    ...
    tempograd.core.errors.UnknownNameError: No tool is called 'hamer'. Did you mean 'hammer'? Known names: hammer.
    """

    def __init__(
        self, kind: str, group: str | None = None, accepts: Callable[[Any], bool] | None = None, wanted: str = ""
    ) -> None:
        self.kind, self._group = kind, group
        self._accepts, self._wanted = accepts, wanted
        self._entries: dict[str, T] = {}
        self.short: dict[str, str] = {}  # what people call a name, for hints only
        self._offers: dict[str, list[Offer]] | None = None if group else {}

    def register(self, name: str, *short: str) -> Callable[[T], T]:
        """Decorate a class or function to make it available under ``name``.

        Hints know what people call it for short: in small letters, with ``_`` for spaces.
        """

        def add(entry: T) -> T:
            others = [point.value for point in (self._offers or {}).get(name, ()) if not point.is_of(entry)]
            others = [str(self._entries[name])] if name in self._entries else others
            if others:
                raise ValueError(f"Two {self.kind}s called {name!r}: {others[0]} and {entry}.")
            if self._accepts is not None and not self._accepts(entry):
                given = getattr(entry, "__name__", brief(entry))
                raise InputError(f"{given} cannot be the {self.kind} {quote(name)}: it is not {self._wanted}.")
            self._entries[name] = entry
            self.short |= dict.fromkeys(short, name)
            return entry

        return add

    @property
    def offers(self) -> Mapping[str, list[Offer]]:
        """What installed packages offer, by name; a name that is taken here is left out, with a warning."""
        if self._offers is None:
            self._offers = {}
            for point in offers(str(self._group)):
                if point.name in self._entries and not point.is_of(self._entries[point.name]):
                    warn(
                        f"The package {one_line(point.package)} offers a {self.kind} called {quote(point.name)}, "
                        "a name that is already taken: it is left out."
                    )
                else:
                    self._offers.setdefault(point.name, []).append(point)
        return self._offers

    def name_of(self, thing: T) -> str | None:
        """Return the name of a thing, if it has one; nothing is loaded for it."""
        known = (name for name, entry in self._entries.items() if entry is thing)
        offered = (name for name, points in self.offers.items() if any(point.points_to(thing) for point in points))
        return next(known, next(offered, None))

    def origin(self, name: str) -> str:
        """Return which package brings a name, with the version of an installed one; empty for this library."""
        points = self.offers.get(name)
        if points:
            return ", ".join(one_line(f"{point.package} {point.version}") for point in points)
        root = str(getattr(self._entries[name], "__module__", "")).partition(".")[0]
        return "" if root == __name__.partition(".")[0] else root

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
            raise UnknownNameError(self.kind, name, self, short=self.short)
        points = self.offers.get(name, [])
        if len(points) > 1:
            packages = listed(point.package for point in points)
            raise TempogradError(
                f"The packages {packages} each offer a {self.kind} called {quote(name)}: uninstall all but one of "
                "them."
            )
        if name not in self._entries:
            self._entries[name] = self._load(points[0])
        return self._entries[name]

    def _load(self, point: Offer) -> T:
        start = f"The {self.kind} {quote(point.name)} of the package {one_line(point.package)} cannot be"
        try:
            found: T = point.load()
        except (Exception, SystemExit) as error:  # whatever happens while another package is imported
            reason = one_line(str(error), 120)
            raise TempogradError(f"{start} loaded: {type(error).__name__}: {reason}") from error
        found = self._entries.pop(point.name, found)  # which loading may have registered
        if self._accepts is not None and not self._accepts(found):
            raise TempogradError(f"{start} used: {quote(point.value, 60)} is not {self._wanted}.")
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self.offers or name in self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._entries, *self.offers)))

    def __len__(self) -> int:
        return len({*self._entries, *self.offers})
