"""Marks of a model's code, by which an edited one is told from the one before even if both answer alike."""

import dis
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import ProxyTypes

import numpy as np
import torch
from torch import Tensor, nn

MANY = 10_000  # things looked at, so that a function that holds a data set costs nothing
PLAIN = (bool, int, float, complex, str, bytes, type(None))
ARRAYS = (Tensor, np.ndarray)
CONTAINERS = (tuple, list, set, frozenset)
AROUND = (MethodType, partial, staticmethod, classmethod, property)  # functions, which they hold as
HELD = ("__func__", "__self__", "func", "args", "keywords", "fget")
FOLLOWED = (FunctionType, MethodType, partial, type, nn.Module)  # from the attributes of an object
FOLDERS = [sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
FOLDERS.append(str(Path(__file__).parents[1]))  # tempograd itself, whose version a run knows
LIBRARIES = tuple(str(Path(folder, "_"))[:-1] for folder in FOLDERS)
INSTALLED = {"site-packages", "dist-packages"}


def code_mark(model: Any) -> str:
    """Name the code of a model by a hash of what its own functions and classes are compiled to.

    Counted are the functions, classes, constants and arrays that these name in turn, what they close over, and
    flags and fractions that objects keep; comments are not, nor the code of libraries: an upgrade is no other
    model. Another version of Python compiles otherwise.

    Examples
    --------
    >>> one, two = lambda x: 2 * x, lambda x: 2.01 * x
    >>> code_mark(one) == code_mark(one), code_mark(one) == code_mark(two)
    (True, False)
    """
    mark = hashlib.blake2b(digest_size=8)
    seen: dict[int, Any] = {}  # and kept, so that no number is given away twice
    waiting: list[Any] = [model]
    while waiting and len(seen) < MANY:
        thing = waiting.pop()
        if isinstance(thing, PLAIN):
            mark.update(repr(thing).encode())
        elif id(thing) not in seen:
            seen[id(thing)] = thing
            waiting += [part for part in _inside(thing) if type(part) not in ProxyTypes]  # which may be dead
    return mark.hexdigest()


def _inside(thing: Any) -> Iterable[Any]:
    """Return what the mark of a thing depends on."""
    found: Iterable[Any] = ()
    if isinstance(thing, FunctionType):
        found = _of_function(thing)
    elif isinstance(thing, type):
        found = [thing.__qualname__] if _is_library(_home(thing)) else _of_class(thing)
    elif isinstance(thing, AROUND):
        found = [getattr(thing, name, None) for name in HELD]
    elif isinstance(thing, dict):
        found = [part for pair in islice(thing.items(), MANY) for part in pair]
    elif isinstance(thing, CONTAINERS):
        found = _ordered(thing) if isinstance(thing, (set, frozenset)) else islice(thing, MANY)
    elif isinstance(thing, ARRAYS):
        found = [_bits(thing)]
    elif not isinstance(thing, ModuleType):
        found = [type(thing), *_of_object(thing)]
    return found


def _of_function(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not filled yet
            yield cell.cell_contents
    if _is_library(function.__code__.co_filename):  # of a decorator perhaps, around one's own
        return
    yield from (_text(function.__code__, function.__doc__), function.__defaults__, function.__kwdefaults__)
    for names in _globals_of(function.__code__):
        thing = function.__globals__.get(names[0])
        for name in names[1:]:  # layers.scale: only what is named there
            if isinstance(thing, ModuleType) and not _is_library(getattr(thing, "__file__", None)):
                thing = vars(thing).get(name)
        yield thing


def _text(code: CodeType, doc: str | None = None) -> str:
    """Write what code is compiled to, without its name, its place and its documentation."""
    constants = [_text(part) if isinstance(part, CodeType) else _constant(part, doc) for part in code.co_consts]
    return repr((code.co_code, code.co_names, constants))


def _constant(part: Any, doc: str | None) -> str:
    part = None if part == doc else part
    return repr(_ordered(part) if isinstance(part, frozenset) else part)


def _ordered(things: Iterable[Any]) -> list[Any]:
    """Return the things of a set in an order that does not differ each time, as theirs and their addresses do."""
    return sorted(things, key=lambda each: repr(each) if isinstance(each, PLAIN) else type(each).__name__)


def _globals_of(code: CodeType) -> Iterator[tuple[str, ...]]:
    """Return the global names that code reads, each with the attributes that are read of it at once."""
    names: list[str] = []
    for step in dis.get_instructions(code):
        if step.opname in {"LOAD_ATTR", "LOAD_METHOD"} and names:
            names.append(step.argval)
        elif step.opname not in {"CACHE", "PUSH_NULL"}:
            if names:
                yield tuple(names)
            names = [step.argval] if step.opname in {"LOAD_GLOBAL", "LOAD_NAME"} else []
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of(constant)


def _of_class(kind: type) -> Iterator[Any]:
    yield from (kind.__qualname__, *kind.__bases__)
    for name, part in vars(kind).items():
        if not name.startswith("__") or isinstance(part, (FunctionType, staticmethod, classmethod)):
            yield part


def _of_object(thing: Any) -> Iterator[Any]:
    """Return the parts of an object that its code may use; whole numbers and texts may be counts and paths."""
    module, own = isinstance(thing, nn.Module), not _is_library(_home(type(thing)))
    if isinstance(thing, (torch.jit.ScriptModule, torch.fx.GraphModule)):
        with suppress(RuntimeError, AttributeError):  # one that only holds others
            yield str(thing.code)
    if module:
        yield from (*thing._forward_pre_hooks.values(), *thing._forward_hooks.values(), *thing._modules.values())
    for name, part in getattr(thing, "__dict__", {}).items():
        if name.startswith("_") or name == "training" or type(part) in ProxyTypes:
            continue
        if isinstance(part, (bool, float)) and (own or module):
            yield from (name, part)
        elif isinstance(part, ARRAYS) and own and not module:
            yield part  # that of a module, beside its weights, may be what it remembers of the last call
        elif isinstance(part, FOLLOWED) or not _is_library(_home(type(part))):
            yield part


def _home(kind: type) -> str | None:
    """Return the file that a class is defined in; None where it is built in."""
    module = sys.modules.get(kind.__module__)
    typed = module is None or kind.__module__ == "__main__"  # into a notebook, say
    return getattr(module, "__file__", None) or ("<typed>" if typed else None)


def _is_library(file: str | None) -> bool:
    return file is None or file.startswith(LIBRARIES) or not INSTALLED.isdisjoint(Path(file).parts)


def _bits(values: Any) -> bytes:
    try:
        if isinstance(values, Tensor):
            values = values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        return b"" if values.dtype.hasobject else hashlib.blake2b(values.tobytes(), digest_size=8).digest()
    except (RuntimeError, TypeError):  # of no plain layout, or on a device without numbers
        return b""
