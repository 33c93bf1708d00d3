"""Data sets that bring training, validation and test series of their own for every fold."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tempograd.data.base import Dataset, Split
from tempograd.data.folds import SEED, TEST, TRAIN, VALIDATION

Parts = NDArray[np.int8]
Real = NDArray[np.floating[Any]]


def is_training(part: Parts, fold: int | None) -> NDArray[np.bool_]:
    """Tell which series train: without a fold those that would validate do as well."""
    return np.isin(part, (TRAIN, VALIDATION) if fold is None else TRAIN)


def standardise(x: Real, train: NDArray[np.bool_], axes: tuple[int, ...], *, floor: float) -> Real:
    r""":math:`(x - \mu) / (\sigma + \text{floor})` with mean and standard deviation of the training series.

    Parameters
    ----------
    x : array of shape (N, T, D)
    train : array of shape (N,)
    axes : tuple of int
        (0, 1): one :math:`\mu` and :math:`\sigma` for each channel; (0, 1, 2): one for all.
    floor : float
        The published loaders add 1e-5 to every deviation, which flattens channels that vary by less. With 0 such
        channels are scaled like the others; one that never varies is only centred.
    """
    known = x[train]
    mean = known.mean(axes, keepdims=True, dtype=np.float64)
    deviation = known.std(axes, keepdims=True, dtype=np.float64, ddof=1) + floor
    constant = known.max(axes, keepdims=True) == known.min(axes, keepdims=True)
    result: Real = x - mean.astype(x.dtype)
    result /= np.where(constant & (floor == 0), 1, deviation).astype(x.dtype)
    return result


def divide(
    name: str, variant: str, whole: Split, part: Parts, fold: int | None, channels: tuple[str, ...]
) -> Dataset:
    """Hand every series to its part; those of no part are left out.

    The published training never shuffles, and takes series in the random order of its split files, which cannot be
    had: the published variants have their training series in a seeded random order.
    """
    training = np.flatnonzero(is_training(part, fold))
    if variant == "published":
        np.random.RandomState(SEED).shuffle(training)
    validation = None if fold is None else whole.take(torch.from_numpy(part == VALIDATION))
    return Dataset(
        name=name,
        train=whole.take(torch.from_numpy(training)),
        validation=validation,
        test=whole.take(torch.from_numpy(part == TEST)),
        classes=2,
        channels=channels,
        variant=variant,
    )
