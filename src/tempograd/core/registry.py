"""Names for what other rooms and packages bring."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tempograd.core.errors import InputError, TempogradError, UnknownNameError, one_line, quote, warn

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """A read-only mapping that grows only through :meth:`register` and the entry points of installed packages.

    Parameters
    ----------
    kind : str
        What a thing is called in messages.
    group : str, optional
        Entry points of this group belong to it. They are found when a name is not known without them, or all are
        listed, and each is loaded when it is asked for; what it points to is taken, unless loading it registers
        something under its name. A name that is taken, also by another package, is left out with a warning.
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
        self, kind: str, group: str = "", accepts: Callable[[Any], bool] = lambda _: True, wanted: str = ""
    ) -> None:
        self.kind, self._group, self._accepts, self._wanted = kind, group, accepts, wanted
        self.more = ""  # how to get more of them, where no package brings any
        self._entries: dict[str, T] = {}
        self.short: dict[str, str] = {}  # what people call a name, for hints only
        self._offers: dict[str, EntryPoint] | None = None if group else {}

    def register(self, name: str, *short: str) -> Callable[[T], T]:
        """Decorate a class or function to make it available under ``name``.

        Hints know what people call it for short: in small letters, with ``_`` for spaces.
        """

        def add(entry: T) -> T:
            point = (self._offers or {}).get(name)
            other = self._entries.get(name) or (point and not _brings(point, entry) and point.value)
            if other:
                raise ValueError(f"Two {self.kind}s called {name!r}: {other} and {entry}.")
            if not self._accepts(entry):
                given = getattr(entry, "__name__", quote(entry))
                raise InputError(f"{given} cannot be the {self.kind} {quote(name)}: it is not {self._wanted}.")
            self._entries[name] = entry
            self.short |= dict.fromkeys(short, name)
            return entry

        return add

    @property
    def offers(self) -> Mapping[str, "EntryPoint"]:
        """What installed packages offer, by name; a name that is taken is left out, with a warning."""
        if self._offers is None:
            from importlib.metadata import entry_points  # noqa: PLC0415  # slow, and few need it

            self._offers = {}
            for point in sorted(entry_points(group=self._group), key=lambda point: point.value):
                known = self._entries.get(point.name)
                if point.name in self._offers or (known is not None and not _brings(point, known)):
                    warn(
                        f"The package {package(point)} offers a {self.kind} called {quote(point.name)}, "
                        "a name that is already taken: it is left out."
                    )
                else:
                    self._offers[point.name] = point
        return self._offers

    def name_of(self, thing: T) -> str | None:
        """Return the name of a thing, if it has one; nothing is loaded for it."""
        value = f"{getattr(thing, '__module__', '')}:{getattr(thing, '__qualname__', '')}"
        known = [name for name, entry in self._entries.items() if entry is thing]
        return next(iter(known or [name for name, point in self.offers.items() if point.value == value]), None)

    def origin(self, name: str) -> str:
        """Return which package brings a name, with the version of an installed one; empty for this library."""
        root = str(getattr(self._entries.get(name), "__module__", "")).partition(".")[0]
        if root == __name__.partition(".")[0]:
            return ""
        point: Any = self.offers.get(name)
        return root if point is None else f"{package(point)} {one_line(point.dist.version)}"

    def working(self) -> dict[str, T]:
        """Load everything; what cannot be loaded is left out, with a warning."""
        things = {}
        for name in self:
            try:
                things[name] = self[name]
            except TempogradError as error:
                warn(error.finding.text)
        return things

    def __getitem__(self, name: str) -> T:
        if name in self._entries:
            return self._entries[name]
        if name not in self:
            raise UnknownNameError(self.kind, name, self, self.short, "" if self.offers else self.more)
        point = self.offers[name]
        start = f"The {self.kind} {quote(name)} of the package {package(point)} cannot be"
        try:
            thing: T = point.load()
        except (Exception, SystemExit) as error:  # whatever happens while another package is imported
            raise TempogradError(f"{start} loaded: {type(error).__name__}: {one_line(str(error), 120)}") from error
        thing = self._entries.get(name, thing)  # which loading may have registered
        if not self._accepts(thing):
            raise TempogradError(f"{start} used: {quote(point.value, 60)} is not {self._wanted}.")
        return self._entries.setdefault(name, thing)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._entries or name in self.offers)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._entries, *self.offers)))

    def __len__(self) -> int:
        return len({*self._entries, *self.offers})


def package(point: Any) -> str:
    """Return the name of the package that an entry point belongs to."""
    return one_line(point.dist.name)


def about(point: Any) -> str:
    """Return one line about an entry point, the summary of its package; it is not imported."""
    return one_line(point.dist.metadata.get("Summary", ""), 120)


def _brings(point: "EntryPoint", thing: object) -> bool:
    """Tell whether a thing comes from the package of an entry point."""
    return str(getattr(thing, "__module__", "")).partition(".")[0] == point.module.partition(".")[0]
