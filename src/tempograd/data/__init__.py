"""Series to explain: what a data set holds, and the ones that can be loaded by name."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tempograd.core.series import Series
    from tempograd.data.base import Dataset, fold_indices
    from tempograd.data.loading import DATASETS, Loader, dataset, load_dataset
    from tempograd.data.source import Source, read_series
    from tempograd.data.synthetic import load_state, load_switch_feature

__all__ = [
    "DATASETS",
    "Dataset",
    "Loader",
    "Series",
    "Source",
    "dataset",
    "fold_indices",
    "load_dataset",
    "load_state",
    "load_switch_feature",
    "read_series",
]

_HOMES = {
    "Series": "core.series",
    "Dataset": "data.base",
    "fold_indices": "data.base",
    **dict.fromkeys(("Source", "read_series"), "data.source"),
    **dict.fromkeys(("DATASETS", "Loader", "dataset", "load_dataset"), "data.loading"),
    **dict.fromkeys(("load_state", "load_switch_feature"), "data.synthetic"),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a public name the first time that somebody asks for it."""
        if name not in _HOMES:
            raise AttributeError(f"module 'tempograd.data' has no attribute {name!r}")
        import_module("tempograd.data.synthetic")  # which adds its data sets to the others
        globals()[name] = getattr(import_module(f"tempograd.{_HOMES[name]}"), name)
        return globals()[name]
