"""The modules behind a model: itself, the owner of a method, or what a function reaches for."""

import functools
import types
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from tempograd import checks
from tempograd.errors import ModelError

Model = Callable[[Tensor], Tensor]
DEEP = 6  # function in function in container …
MANY = 2000  # objects looked at, so that a function that holds a data set costs nothing
CONTAINERS = (list, tuple, set, frozenset)
NO_NUMBERS = (
    "The model has weights on the device meta, which holds no numbers: load them with "
    "model.load_state_dict(state, assign=True)."
)
OPAQUE = (Tensor, str, bytes, int, float, complex, type, type(None))  # nothing to look for inside


def owner(model: Model) -> nn.Module | None:
    """Return the module behind a model: itself, or the object a method such as ``net.predict`` belongs to."""
    module = getattr(model, "__self__", model)
    return module if isinstance(module, nn.Module) else None


def modules_of(model: Model) -> list[nn.Module]:
    """Return the modules that can be found behind a model, those that its code names first.

    A function is searched: what it closes over, its defaults, the globals and attributes that it names, what a
    ``partial`` or a method holds, and what lies in containers there. One inside another is not listed.

    Examples
    --------
    >>> net = nn.Linear(2, 1)
    >>> modules_of(lambda z: net(z.mean(1))) == [net]
    True
    """
    checks.model(model)  # every use of a model begins with its modules
    module = owner(model)
    if module is not None:
        return [module]
    found = [part for part in reached(model) if isinstance(part, nn.Module)]
    inside = {id(part) for module in found for part in module.modules() if part is not module}
    return [module for module in found if id(module) not in inside]


def is_compiled(model: Model) -> bool:
    """Tell whether ``torch.compile`` has had its hands on a model or on what can be found behind it."""
    if owner(model) is None and any(hasattr(part, "_torchdynamo_orig_callable") for part in reached(model)):
        return True
    parts = chain.from_iterable(module.modules() for module in modules_of(model))
    return any(
        type(part).__name__ == "OptimizedModule" or part.__dict__.get("_compiled_call_impl") is not None
        for part in parts
    )


def place(model: Model, x: Tensor) -> tuple[torch.device, torch.dtype]:
    """Where the model computes and in which precision; a model without weights follows ``x``."""
    for module in modules_of(model):
        for tensor in chain(module.parameters(), module.buffers()):
            if tensor.is_meta:
                raise ModelError(NO_NUMBERS)
            if tensor.is_floating_point():
                return tensor.device, tensor.dtype
    if owner(model) is None:
        loose = [part for part in reached(model) if isinstance(part, Tensor) and part.is_floating_point()]
        for tensor in loose:
            if isinstance(tensor, nn.Parameter):
                return tensor.device, tensor.dtype
        if x.device.type == "cpu" and loose:
            return loose[0].device, x.dtype
    return x.device, x.dtype


def require_numbers(module: nn.Module) -> None:
    """Refuse a module with weights that were never loaded."""
    for tensor in chain(module.parameters(), module.buffers()):
        if is_lazy(tensor):
            raise ModelError(
                "The model has lazy layers that were never called, so they have no weights yet: call the model "
                "once with series, or load its weights."
            )
        if tensor.is_meta:
            raise ModelError(NO_NUMBERS)


def reached(model: Any) -> Iterator[Any]:
    """Yield the objects that a function can reach, itself first, each once."""
    seen: set[int] = set()
    waiting = [(model, 0)]
    for _ in range(MANY):
        if not waiting:
            return
        thing, depth = waiting.pop(0)
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        yield thing
        if depth < DEEP and not isinstance(thing, (nn.Module, *OPAQUE)):
            waiting += [(part, depth + 1) for part in _inside(thing)]


def _inside(thing: Any) -> Iterable[Any]:
    """Return what an object holds, as far as calling it could reach that."""
    found: Iterable[Any] = ()
    if isinstance(thing, types.FunctionType):
        found = _named(thing)
    elif isinstance(thing, types.MethodType):
        found = [*_attributes(thing.__self__, _names(thing.__func__.__code__)), thing.__func__, thing.__self__]
    elif isinstance(thing, functools.partial):
        found = [thing.func, *thing.args, *thing.keywords.values()]
    elif isinstance(thing, dict):
        found = islice(thing.values(), MANY)
    elif isinstance(thing, CONTAINERS):
        found = islice(thing, MANY)
    elif hasattr(thing, "__dict__") and not isinstance(thing, types.ModuleType):
        call = type(thing).__dict__.get("__call__")
        names = _names(call.__code__) if isinstance(call, types.FunctionType) else ()
        found = [*_attributes(thing, names), call, *vars(thing).values()]
    return found


def _named(function: types.FunctionType) -> list[Any]:
    """Return what a function closes over, its defaults, and the globals that its code names."""
    found: list[Any] = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    names = _names(function.__code__)
    found += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for name in names:
        thing = function.__globals__.get(name)
        if isinstance(thing, types.ModuleType):  # mynets.net: only what is named there
            found += _attributes(thing, names)
        else:
            found.append(thing)
    held = [part for part in found if hasattr(part, "__dict__") and not callable(part)]
    found += chain.from_iterable(_attributes(part, names) for part in held)
    return [*found, *vars(function).values()]


def _names(code: types.CodeType) -> tuple[str, ...]:
    inner = (part for part in code.co_consts if isinstance(part, types.CodeType))
    return (*code.co_names, *chain.from_iterable(map(_names, inner)))


def _attributes(thing: Any, names: Iterable[str]) -> list[Any]:
    held = getattr(thing, "__dict__", {})
    return [held[name] for name in names if name in held]
