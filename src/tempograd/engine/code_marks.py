"""Marks of a model's own code, by which an edited one is told from the one before even if both answer alike."""

import ast
import hashlib
import inspect
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from types import FunctionType, ModuleType
from typing import Any

from tempograd.engine.model import Model, modules_of, parts_of, reached

NAMES = ("stdlib", "platstdlib", "purelib", "platlib")
LIBRARIES = [Path(sysconfig.get_paths()[name]) for name in NAMES] + [Path(__file__).parents[1]]
INSTALLED = {"site-packages", "dist-packages"}


def code_mark(model: Model) -> str:
    """Name the code of a model by a hash of its source, without comments.

    Counted are the files that its classes and functions come from, and those of one's own that these import; of a
    script or a notebook the classes and functions alone. Libraries are not: an upgrade is no other model.

    Examples
    --------
    >>> code_mark(len) == code_mark(sum)  # nobody's own code
    True
    """
    parts = [part for module in modules_of(model) for part in parts_of(module).modules]
    kinds = {part if isinstance(part, FunctionType) else type(part) for part in (*parts, *reached(model))}
    here = [part for kind in kinds if kind.__module__ == "__main__" for part in (kind, *vars(kind).values())]
    texts = [_text(part) for part in here if isinstance(part, FunctionType)]
    texts += [Path(file).read_text(encoding="utf-8") for file in _own_files({kind.__module__ for kind in kinds})]
    return hashlib.blake2b("\n".join(sorted(map(_plain, texts))).encode(), digest_size=8).hexdigest()


def _text(function: FunctionType) -> str:
    with suppress(OSError, TypeError):  # typed into a shell that keeps nothing
        return dedent(inspect.getsource(function))
    return repr(function.__code__.co_code)


def _plain(source: str) -> str:
    """Return code without comments and layout; a lambda may be a part of what cannot be read alone."""
    with suppress(SyntaxError):
        return ast.dump(ast.parse(source))
    return source


def _own_files(names: set[str]) -> list[str]:
    """Return the files of these modules, and of all that they import, that are of no library."""
    waiting, found = [*names], dict[str, str]()
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if name in found or name == "__main__" or file is None or _is_library(Path(file)):
            continue
        found[name] = file
        waiting += [home for each in vars(module).values() if (home := _home(each)) is not None]
    return list(found.values())


def _home(thing: Any) -> str | None:
    name = getattr(thing, "__name__" if isinstance(thing, ModuleType) else "__module__", None)
    return name if isinstance(name, str) else None


def _is_library(file: Path) -> bool:
    return bool(INSTALLED & set(file.parts)) or any(folder in file.parents for folder in LIBRARIES)
