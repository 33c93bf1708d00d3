"""The paper's reproduction: data sets, protocols, tables and figures, and what the released code does."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # names are loaded on first use, so that a command's help need not wait for torch
    from tempograd_paper.released import released, released_metric, train_as_released

__all__ = ["released", "released_metric", "train_as_released"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a public name the first time that somebody asks for it."""
        if name not in __all__:
            raise AttributeError(f"module 'tempograd_paper' has no attribute {name!r}")
        home = import_module("tempograd_paper.released")
        globals().update({each: getattr(home, each) for each in __all__})  # over the module of that name
        return globals()[name]
