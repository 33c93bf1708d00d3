"""What lower rooms call of upper ones, such as the drawing of an explanation.

The package joins them by name (``tempograd/__init__.py``); they are loaded when they are called, not before.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

_PLACES: dict[str, str] = {}


def join(**places: str) -> None:
    """Say where functions are, each as ``module.function``."""
    _PLACES.update(places)


def joined(name: str) -> Callable[..., Any]:
    """Return a function of an upper room."""
    module, _, function = _PLACES[name].rpartition(".")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
