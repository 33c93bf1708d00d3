"""What installed packages offer through their entry points, found without importing anything of theirs.

``importlib.metadata`` takes four times as long to import as argparse, which a command's help cannot afford. So
the folders of the path are read here, as it does, and it is asked only where packages come from elsewhere.
"""

import os
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any, NamedTuple

from tempograd.core.errors import one_line, warn

ENDINGS = (".dist-info", ".egg-info")


class Offer(NamedTuple):
    """An entry point: a name, what it points to as ``module:attribute``, and the package that has it."""

    name: str
    value: str
    package: str
    version: str
    summary: str

    def load(self) -> Any:
        """Import what it points to."""
        module, _, name = self.value.partition(":")
        found: Any = import_module(module)
        for part in filter(None, name.split(".")):
            found = getattr(found, part)
        return found

    def is_of(self, thing: object) -> bool:
        """Tell whether a thing comes from the same package."""
        return _root(str(getattr(thing, "__module__", ""))) == _root(self.value.partition(":")[0])

    def points_to(self, thing: object) -> bool:
        """Tell whether this is a thing, by where it is defined or where a loaded module has it."""
        module, _, name = self.value.partition(":")
        there: object = sys.modules.get(module)
        for part in name.split("."):
            there = getattr(there, part, None)
        own = f"{getattr(thing, '__module__', '')}:{getattr(thing, '__qualname__', '')}"
        return there is thing or own == self.value

    @property
    def about(self) -> str:
        """One line about what it points to, as lines of a command's help are: small, without a full stop.

        It is the first line of the docstring, read from the source, or, where that is not found, the summary of
        the package.
        """
        import ast  # noqa: PLC0415  # for the few who have such a package

        module, _, name = self.value.partition(":")
        try:
            (found,) = (node for node in ast.parse(_source(module)).body if getattr(node, "name", None) == name)
            text = ast.get_docstring(found, clean=False)  # type: ignore[arg-type]  # to clean it loads inspect
            line = text.strip().splitlines()[0]  # type: ignore[union-attr]
        except Exception:  # whatever is odd about another package's files is said when somebody wants to use it
            line = self.summary
        line = line[:1].lower() + line[1:] if line[1:2].islower() else line
        return one_line(line.removesuffix("."), 120)


def offers(group: str) -> list[Offer]:
    """Return the entry points of a group; a package whose list cannot be read is left out, with a warning."""
    others = any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder)
    if others or any(os.path.isfile(folder) for folder in sys.path):  # a zip file
        return _asked(group)
    found: dict[str, list[Offer]] = {}
    for folder in sys.path:
        for entry in sorted(_listed(folder)):
            package = re.sub(r"[-_.]+", "-", entry.partition("-")[0]).lower()
            if package not in found:  # the first on the path is the one that is imported
                found[package] = _read(os.path.join(folder, entry), group)
    return [offer for each in found.values() for offer in each]


def _listed(folder: str) -> Iterator[str]:
    try:
        yield from (entry for entry in os.listdir(folder or ".") if entry.endswith(ENDINGS))
    except OSError:  # what is on the path need not be there
        return


def _read(folder: str, group: str) -> list[Offer]:
    """Read the list of one package."""
    try:
        with open(os.path.join(folder, "entry_points.txt"), encoding="utf-8") as file:
            text = file.read()
        if f"[{group}]" not in text:
            return []
        fields = _fields(folder)
        return [Offer(name, value, *fields) for name, value in _pairs(text, group)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        name = one_line(_stem(folder))
        warn(f"The entry points of the package {name} cannot be read: {one_line(str(error), 120)}.")
        return []


def _fields(folder: str) -> tuple[str, str, str]:
    """Return the name, the version and the summary of a package."""
    file = "METADATA" if folder.endswith(".dist-info") else "PKG-INFO"
    with open(os.path.join(folder, file), encoding="utf-8") as text:
        head = text.read().partition("\n\n")[0]
    found = dict(re.findall(r"^(Name|Version|Summary): *(.*)$", head, re.MULTILINE))
    return found.get("Name", _stem(folder)), found.get("Version", ""), found.get("Summary", "")


def _stem(folder: str) -> str:
    return os.path.basename(folder).partition("-")[0]


def _pairs(text: str, group: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#") and section == group:
            name, equals, value = line.partition("=")
            if not equals:
                raise ValueError(f"{line!r} is no entry")
            yield name.strip(), re.sub(r"\s+|\[.*", "", value)  # without the extras that it needs


def _asked(group: str) -> list[Offer]:
    """Ask ``importlib.metadata``, which knows every kind of package."""
    from importlib.metadata import distributions  # noqa: PLC0415

    found: dict[str, list[Offer]] = {}
    for part in distributions():
        name = ""
        try:
            name, version, summary = (_field(part.metadata, field) for field in ("Name", "Version", "Summary"))
            if name and name not in found:
                text = part.read_text("entry_points.txt") or ""
                found[name] = [Offer(*pair, name, version, summary) for pair in _pairs(text, group)]
        except (OSError, ValueError) as error:
            if name:  # who has none was half removed
                told = one_line(str(error), 120)
                warn(f"The entry points of the package {one_line(name)} cannot be read: {told}.")
    return [offer for each in found.values() for offer in each]


def _field(metadata: Any, name: str) -> str:
    """Return a field, nothing where it lacks; the importlib_metadata package, once loaded, raises for that."""
    return str(metadata[name] or "") if metadata is not None and name in metadata else ""


def _root(module: str) -> str:
    return module.partition(".")[0]


def _source(module: str) -> str:
    """Return the source of a module; its packages are not imported, as ``find_spec`` of its name would do."""
    from importlib.util import find_spec  # noqa: PLC0415

    root, *inner = module.split(".")
    spec: Any = find_spec(root)
    for name in inner:
        spec = PathFinder.find_spec(f"{spec.name}.{name}", spec.submodule_search_locations)
    return str(spec.loader.get_source(spec.name))
