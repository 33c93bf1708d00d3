"""The paper's reproduction: data sets, protocols, tables and figures, and what the released code does.

>>> import tempograd_paper
>>> tempograd_paper.released("timing", "wafer").segments
5
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tempograd_paper.released import released, released_metric, train_as_released

__all__ = ["released", "released_metric", "train_as_released"]

if not TYPE_CHECKING:  # loaded on first use, so that a command's help need not wait for torch

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'tempograd_paper' has no attribute {name!r}")
        home = import_module("tempograd_paper.released")  # which can be called
        return home if name == "released" else getattr(home, name)


def __dir__() -> list[str]:
    return sorted(__all__)
