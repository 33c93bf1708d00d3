"""Data sets: what one holds, which of its series train, validate and test, and those that are loaded by name."""

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import update_wrapper
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core.errors import InputError, UnknownNameError, listed
from tempograd.core.io import as_path
from tempograd.core.registry import Registry
from tempograd.core.series import Series

PARTS = ("train", "validation", "test")
FOLDS = 5
SEED = 42  # of the shuffle before the cut
Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Training and test series with what is needed to build a model for them.

    Parameters
    ----------
    name : str
        What the data set is called in tables and files.
    train, validation, test : Series
        With the names and units of their channels.
        ``validation`` is None unless a fold was asked for.
    classes : int
        Labels run from 0 to ``classes - 1``; the number of outputs where they are real values.
    channels : tuple of str
        The channels' names, in the order of the last axis of ``x``.
    variant : str
        Which version of the data this is, for instance ``"released"`` or ``"paper"``.
    centre, scale : Tensor that broadcasts to (time, channel), optional
        What was taken from the source's values, and what the rest was divided by: :meth:`raw` undoes it. None
        where nothing was, or where it cannot be undone.
    units : tuple of str, optional
        What the source's values are measured in, one text per channel, empty where there is none (a score, a
        share); None where the source does not say.

    Examples
    --------
    >>> series = Series(torch.tensor([[[-1.0], [2.0]]]), torch.tensor([0]))
    >>> scaling = {"centre": torch.tensor([37.0]), "scale": torch.tensor([0.5]), "units": ("°C",)}
    >>> toy = Dataset("toy", series, None, series, classes=1, channels=("Temp",), **scaling)
    >>> toy.raw(toy.test).flatten().tolist(), toy.units
    ([36.5, 38.0], ('°C',))
    """

    name: str
    train: Series
    validation: Series | None
    test: Series
    classes: int
    channels: tuple[str, ...]
    variant: str = "default"
    centre: Tensor | None = None
    scale: Tensor | None = None
    units: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for part in PARTS:
            series = vars(self)[part]
            if series is None:
                continue
            y = series.y
            if y is None:
                raise InputError(f"The {part} series of {self.name} have no labels: pass y=.")
            if len(series) and not y.is_floating_point() and not 0 <= int(y.min()) <= int(y.max()) < self.classes:
                raise InputError(f"The labels of {self.name} must lie in 0 … {self.classes - 1}.")
            vars(self)[part] = replace(series, channels=self.channels, units=self.units)
        if (self.centre is None) != (self.scale is None):
            raise InputError(f"{self.name} has one of centre and scale: pass both, or neither.")

    def raw(self, series: Series) -> Tensor:
        """Return series of this data set as the source has them, in ``units``.

        In double precision, like ``series.x``; NaN where nothing was observed. Without ``centre`` and ``scale``
        the values are those of ``series.x``.
        """
        if series.x.shape[1:] != self.train.x.shape[1:]:
            expected, got = (tuple(part.x.shape[1:]) for part in (self.train, series))
            raise InputError(f"raw is for series of {self.name}, of shape {expected}, got {got}.")
        x: Tensor = series.x.double()
        if self.centre is not None and self.scale is not None:
            x = x * self.scale.to(x) + self.centre.to(x)
        return x if series.mask is None else x.masked_fill(~series.mask, torch.nan)

    def __repr__(self) -> str:
        """Write one line per part."""
        head = f"Dataset {self.name} ({self.variant}), {self.classes} classes, channels {listed(self.channels)}"
        parts = [f"  {part:10} {series!r}" for part in PARTS if (series := getattr(self, part)) is not None]
        return "\n".join([head, *parts])

    @property
    def per_step(self) -> bool:
        """Whether every time step has a label of its own."""
        return bool(self.train.y.shape == self.train.x.shape[:2])

    def fold(self, fold: int | None) -> "Dataset":
        """Cut the training series into those of fold 0 … 4 that train and that validate; None: leave them."""
        if fold is None:
            return self
        train, validation = fold_indices(len(self.train), fold)
        return replace(self, train=self.train.take(train), validation=self.train.take(validation))


def fold_indices(series: int, fold: int, *, folds: int = FOLDS, seed: int = SEED) -> tuple[Positions, Positions]:
    r"""Positions of the training and of the validation series of one fold.

    Shuffle :math:`0, \dots, n-1` with the legacy Mersenne generator and cut the result into contiguous blocks of
    :math:`\lfloor n/K \rfloor` (the first :math:`n \bmod K` blocks are one longer); block :math:`k` validates,
    the rest trains, both in ascending order.

    Parameters
    ----------
    series : int
        How many series there are.
    fold : int
        Which fold, from 0 to ``folds - 1``.
    folds, seed : int, default=5 and 42

    Notes
    -----
    Equal to scikit-learn's ``KFold(folds, shuffle=True, random_state=seed)``.

    Examples
    --------
    >>> fold_indices(7, 0)
    (array([2, 3, 4, 5, 6]), array([0, 1]))
    """
    check_fold(fold, folds)
    if series < folds:
        raise InputError(f"{folds} folds need at least {folds} series, got {series}.")
    order = np.arange(series)
    np.random.RandomState(seed).shuffle(order)
    validation = np.sort(np.array_split(order, folds)[fold])
    return np.setdiff1d(order, validation), validation


def check_fold(fold: int, folds: int = FOLDS) -> None:
    """Refuse a fold that is not there."""
    if fold not in range(folds):
        raise InputError(f"fold must be an integer from 0 to {folds - 1} or None, got {fold!r}.")


# Data sets that are loaded by name

ReadsDataset = Callable[..., Dataset]  # reads or makes a data set for root=, variant= and fold=, or None for each


@dataclass(eq=False)
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
        update_wrapper(self, self.read)

    def __call__(self, **choices: Any) -> Dataset:
        return self.read(**choices)


_WANTED = "a function under @tempograd.data.dataset, nor a Loader"
DATASETS = Registry[Loader]("dataset", "tempograd.datasets", lambda thing: isinstance(thing, Loader), _WANTED)
DATASETS.more = (
    "The paper's data sets come with tempograd-paper: pip install ./reproduction in a clone of tempograd."
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
    loader, folder = DATASETS[name], root if root is not None else os.environ.get("TEMPOGRAD_DATA") or None
    return loader(root=None if folder is None else as_path(folder, "root"), variant=variant, fold=fold)


def choose_variant(dataset: str, variant: str | None, known: Collection[str]) -> str:
    """Return ``variant``, or the first of ``known`` when None; other names are refused."""
    chosen = next(iter(known)) if variant is None else variant
    if chosen not in known:
        raise UnknownNameError(f"variant of {dataset}", chosen, known)
    return chosen
