"""Marks of a model's own code, by which an edited one is told from the one before even if both answer alike."""

import ast
import hashlib
import inspect
import sys
import sysconfig
from contextlib import suppress
from importlib.util import resolve_name
from pathlib import Path
from textwrap import dedent
from threading import Lock
from types import FunctionType
from typing import Any

from tempograd.engine.model import Model, modules_of, reached

LIBRARIES = [Path(__file__).parents[1], *(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))]
INSTALLED = {"site-packages", "dist-packages"}
PLAIN = (int, float, complex, str)
PARSING = Lock()  # CPython 3.11 counts how deep a tree is for all threads together, and fails where they mix


def code_mark(model: Model) -> str:
    """Name the code of a model by a hash of its source, without comments.

    Counted are the files that its classes and functions come from, and those of one's own that these import; of a
    script or a notebook the classes and functions alone; and the plain values that modules and functions hold.
    Libraries are not: an upgrade is no other model.

    Examples
    --------
    >>> code_mark(len) == code_mark(sum)  # nobody's own code
    True
    """
    parts = [part for module in modules_of(model) for part in module.modules()]
    held = [value for part in parts for value in vars(part).values() if isinstance(value, FunctionType)]
    within = [thing for each in (model, *held) for thing in reached(each)]
    kinds = {part if isinstance(part, FunctionType) else type(part) for part in (*parts, *within)}
    here = [part for kind in kinds if kind.__module__ == "__main__" for part in (kind, *vars(kind).values())]
    texts = [_text(part) for part in here if isinstance(part, FunctionType)]
    texts += _own_sources({kind.__module__ for kind in kinds})
    values = [
        f"{name}={value!r}" for part in parts for name, value in vars(part).items() if _is_setting(name, value)
    ]
    values += [repr(value) for value in within if isinstance(value, PLAIN)]
    return hashlib.blake2b("\n".join([*sorted(map(_plain, texts)), *values]).encode(), digest_size=8).hexdigest()


def _is_setting(name: str, value: Any) -> bool:
    """Tell whether an attribute of a module is a plain value, such as a threshold or the size of a kernel."""
    values = value if isinstance(value, tuple) else (value,)
    return name != "training" and not name.startswith("_") and all(isinstance(each, PLAIN) for each in values)


def _text(function: FunctionType) -> str:
    with suppress(OSError, TypeError):  # typed into a shell that keeps nothing
        return dedent(inspect.getsource(function))
    return repr(function.__code__.co_code)


def _plain(source: str) -> str:
    """Return code without comments and layout; a lambda may be a part of what cannot be read alone."""
    with suppress(SyntaxError):
        return ast.dump(_tree(source))
    return source


def _tree(source: str) -> ast.Module:
    with PARSING:
        return ast.parse(source)


def _own_sources(names: set[str]) -> list[str]:
    """Return the code of these modules, and of all that they import, that is of no library."""
    waiting, sources = [*names], dict[str, str]()
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        package, file = getattr(module, "__package__", None), Path(getattr(module, "__file__", None) or "")
        library = INSTALLED & set(file.parts) or any(folder in file.parents for folder in LIBRARIES)
        if name in sources or name == "__main__" or file.suffix != ".py" or library:
            continue
        sources[name] = file.read_text(encoding="utf-8")
        for node in ast.walk(_tree(sources[name])):
            if isinstance(node, ast.Import):
                waiting += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                with suppress(ImportError):  # of a package, in a file that was imported without it
                    home = resolve_name("." * node.level + (node.module or ""), package)
                    waiting += [home, *(f"{home}.{alias.name}" for alias in node.names)]
    return list(sources.values())
