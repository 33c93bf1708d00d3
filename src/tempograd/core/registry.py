"""Names for what other rooms and packages bring."""

import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

from tempograd.core.errors import InputError, TempogradError, UnknownNameError, listed, one_line, quote, warn

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
        something under its name. A name that several packages offer is nobody's: asking for it is an error that
        names them.
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
        self._offers: dict[str, list[EntryPoint]] | None = None if group else {}

    def register(self, name: str, *short: str) -> Callable[[T], T]:
        """Decorate a class or function to make it available under ``name``.

        Hints know what people call it for short: in small letters, with ``_`` for spaces.
        """

        def add(entry: T) -> T:
            others = [point.value for point in (self._offers or {}).get(name, ()) if not _brings(point, entry)]
            for other in (self._entries.get(name), *others):
                if other is not None:
                    raise ValueError(f"Two {self.kind}s called {name!r}: {other} and {entry}.")
            if self._accepts is not None and not self._accepts(entry):
                given = getattr(entry, "__name__", quote(entry))
                raise InputError(f"{given} cannot be the {self.kind} {quote(name)}: it is not {self._wanted}.")
            self._entries[name] = entry
            self.short |= dict.fromkeys(short, name)
            return entry

        return add

    @property
    def offers(self) -> Mapping[str, "list[EntryPoint]"]:
        """What installed packages offer, by name; a name that is taken here is left out, with a warning."""
        if self._offers is None:
            from importlib.metadata import entry_points  # noqa: PLC0415  # slow, and few need it

            self._offers = {}
            for point in sorted(entry_points(group=str(self._group)), key=lambda point: point.value):
                if point.name in self._entries and not _brings(point, self._entries[point.name]):
                    warn(
                        f"The package {package(point)} offers a {self.kind} called {quote(point.name)}, "
                        "a name that is already taken: it is left out."
                    )
                else:
                    self._offers.setdefault(point.name, []).append(point)
        return self._offers

    def name_of(self, thing: T) -> str | None:
        """Return the name of a thing, if it has one; nothing is loaded for it."""
        known = next((name for name, entry in self._entries.items() if entry is thing), None)
        if known is not None:
            return known
        return next((name for name, points in self.offers.items() if thing in map(_loaded, points)), None)

    def origin(self, name: str) -> str:
        """Return which package brings a name, with the version of an installed one; empty for this library."""
        root = str(getattr(self._entries.get(name), "__module__", "")).partition(".")[0]
        if root == __name__.partition(".")[0]:
            return ""
        points: Any = self.offers.get(name, ())
        return ", ".join(f"{package(point)} {one_line(point.dist.version)}" for point in points) or root

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
            raise UnknownNameError(self.kind, name, self, short=self.short)
        point, *more = self.offers[name]
        if more:
            raise TempogradError(
                f"The packages {listed(map(package, (point, *more)))} each offer a {self.kind} called "
                f"{quote(name)}: uninstall all but one of them."
            )
        start = f"The {self.kind} {quote(name)} of the package {package(point)} cannot be"
        try:
            thing: T = point.load()
        except (Exception, SystemExit) as error:  # whatever happens while another package is imported
            raise TempogradError(f"{start} loaded: {type(error).__name__}: {one_line(str(error), 120)}") from error
        thing = self._entries.get(name, thing)  # which loading may have registered
        if self._accepts is not None and not self._accepts(thing):
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
    """Return one line about what an entry point points to, as lines of a command's help are; it is not imported.

    It is the first line of the docstring, read from the source, or, where that is not found, the summary of the
    package.
    """
    import ast  # noqa: PLC0415  # for the few who have such a package
    from importlib.machinery import PathFinder  # noqa: PLC0415

    try:
        spec: Any = None
        for name in accumulate(point.module.split("."), "{}.{}".format):  # find_spec would import the packages
            spec = PathFinder.find_spec(name, spec and spec.submodule_search_locations)
        tree: Any = ast.parse(spec.loader.get_source(spec.name))
        node = next(node for node in tree.body if getattr(node, "name", None) == point.attr)
        line = (ast.get_docstring(node) or "").splitlines()[0]
    except Exception:  # whatever is odd about another package's files is said when somebody wants to use it
        line = point.dist.metadata.get("Summary", "")
    line = line[:1].lower() + line[1:] if line[1:2].islower() else line
    return one_line(line.removesuffix("."), 120)


def _loaded(point: "EntryPoint") -> object:
    """Return what an entry point points to, None as long as its module is not loaded."""
    place: object = sys.modules.get(point.module)
    for name in point.attr.split("."):
        place = getattr(place, name, None)
    return place


def _brings(point: "EntryPoint", thing: object) -> bool:
    """Tell whether a thing comes from the package of an entry point."""
    return str(getattr(thing, "__module__", "")).partition(".")[0] == point.module.partition(".")[0]
