"""The table of data sets that can be loaded by name, and how each of them is read."""

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tempograd.core.errors import DataError, UnknownNameError, short_path
from tempograd.core.io import as_path
from tempograd.core.registry import Registry
from tempograd.data.base import Dataset

ReadsDataset = Callable[..., Dataset]  # reads or makes a data set for root=, variant= and fold=, or None for each
ROOT_VARIABLE = "TEMPOGRAD_DATA"
MORE = "The paper's data sets come with tempograd-paper: pip install ./reproduction in a clone of tempograd."


@dataclass(frozen=True)
class Loader:
    """A data set that can be loaded by name.

    Parameters
    ----------
    read : function of root, variant and fold
        Reads or makes the data set; ``root`` is the folder that holds its files, if it needs any.
    variants : tuple of str
        The versions it offers, the default first.
    own_folds : bool
        Whether it brings its own training, validation and test series for each fold, in place of cutting the
        training series by the rule of ``tempograd.data.fold_indices``.
    needs_files : bool
        Whether it is read from files that the user has.
    """

    read: ReadsDataset
    variants: tuple[str, ...]
    own_folds: bool = False
    needs_files: bool = False

    def __post_init__(self) -> None:
        for name in ("__doc__", "__module__", "__qualname__"):  # those of the function, as a decorator has them
            object.__setattr__(self, name, getattr(self.read, name, None))

    def __call__(self, **choices: Any) -> Dataset:
        return self.read(**choices)


DATASETS: Registry[Loader] = Registry(
    "dataset",
    "tempograd.datasets",
    lambda thing: isinstance(thing, Loader),
    "a function under @tempograd.data.dataset, nor a Loader",
)


def dataset(
    name: str, variants: Collection[str], *, own_folds: bool = False, needs_files: bool = False
) -> Callable[[ReadsDataset], ReadsDataset]:
    """Decorate a function to make it available under ``name``; it stays a plain function."""

    def add(read: ReadsDataset) -> ReadsDataset:
        DATASETS.register(name)(Loader(read, tuple(variants), own_folds, needs_files))
        return read

    return add


def load_dataset(
    name: str, *, root: str | Path | None = None, fold: int | None = None, variant: str | None = None
) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        A key of ``DATASETS``.
    root : path, optional
        Folder with the data sets' files, by default the environment variable ``TEMPOGRAD_DATA``. Synthetic
        data needs none.
    fold : int, optional
        0 … 4: cut the training series into ``.train`` and ``.validation`` by a shuffled five-fold rule
        (``tempograd.data.fold_indices``); data sets that come with splits of their own take split ``fold``,
        test series included. Without it ``.validation`` is None.
    variant : str, optional
        Which version of the data; each data set says what it offers and what its default is.

    Examples
    --------
    >>> data = load_dataset("switch_feature", fold=0)
    >>> len(data.train), len(data.validation), len(data.test), data.channels
    (640, 160, 200, ('feature 0', 'feature 1', 'feature 2'))
    """
    folder = root if root is not None else os.environ.get(ROOT_VARIABLE) or None
    try:
        loader = DATASETS[name]
    except UnknownNameError as error:
        if not DATASETS.offers:  # no other package brings any
            error.args = (f"{error} {MORE}",)
            error.finding.text += f" {MORE}"
        raise
    return loader(root=None if folder is None else _folder(folder), variant=variant, fold=fold)


def _folder(root: str | Path) -> Path:
    """Return the folder of the data sets; it need not be there, but its name must be one."""
    folder = as_path(root, "root")
    try:
        folder.exists()
    except OSError as error:
        raise DataError(f"root {short_path(folder)} cannot be a folder: {error.strerror}.") from error
    return folder


def choose_variant(dataset: str, variant: str | None, known: Collection[str]) -> str:
    """Return ``variant``, or the first of ``known`` when None; other names are refused."""
    if variant is None:
        return next(iter(known))
    if variant not in known:
        raise UnknownNameError(f"variant of {dataset}", variant, known)
    return variant
