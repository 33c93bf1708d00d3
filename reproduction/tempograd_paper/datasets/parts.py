"""What data sets of files share: where the files are, and series of their own for every fold."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core.errors import DataError, InputError, short_path
from tempograd.core.series import Series
from tempograd.data.datasets import FOLDS, SEED, Dataset, check_fold

TRAIN, VALIDATION, TEST = range(3)
HANDS = FOLDS**2
Parts = NDArray[np.int8]
Real = NDArray[np.floating[Any]]


def locate(root: Path | None, dataset: str, names: Sequence[str], source: str) -> Path:
    """Return the first of ``names``, paths below the data root with the usual place first, that exists.

    Where none does, the message tells what the data set is called and where users "Get it from".
    """
    if root is None:
        raise DataError(
            f"{dataset} is read from files, and no folder was given: pass root= (--root) or set TEMPOGRAD_DATA to "
            f"the folder that holds {names[0]}. Get it from {source}."
        )
    for name in names:
        if (root / name).exists():
            return root / name
    others = f" ({', '.join(names[1:])} would do as well)" if len(names) > 1 else ""
    place = short_path(root, 120)
    raise DataError(f"{dataset} is not in {place}: put it at {place}/{names[0]}{others}. Get it from {source}.")


def stratified_parts(strata: NDArray[np.int64], fold: int | None, *, validation: float, seed: int = SEED) -> Parts:
    r"""Tell which groups train (0), validate (1) and test (2) where the published split files cannot be had.

    The groups are shuffled within their stratum, laid out stratum by stratum, and dealt like cards into 25 hands:
    the one at position :math:`p` goes to hand :math:`h = p \bmod 25`. In fold :math:`k` the five hands with
    :math:`h \equiv k \pmod 5` test, so the five test parts are disjoint and hold everything once; the first
    of the hands with :math:`h \equiv k + 1` validate, and the rest trains. The part of a stratum in every hand is
    within one group of its share.

    Parameters
    ----------
    strata : array of shape (groups,)
        The class of each group, or whatever else is to be spread evenly.
    fold : int or None
        Which fold, from 0 to 4; None: the split of fold 0.
    validation : float
        The share that validates, a multiple of 1/25 up to 1/5.
    seed : int, default=42

    Examples
    --------
    >>> np.bincount(stratified_parts(np.zeros(500), 0, validation=0.08))
    array([360,  40, 100])
    """
    fold = 0 if fold is None else fold
    check_fold(fold)
    hands = round(validation * HANDS)
    if not math.isclose(hands, validation * HANDS) or not 0 <= hands <= FOLDS:
        raise InputError(f"validation must be a multiple of 1/{HANDS} up to 1/{FOLDS}, got {validation!r}.")
    if len(strata) < HANDS:
        raise DataError(f"Splits need at least {HANDS} groups of series, got {len(strata)}: fetch the whole file.")
    rng = np.random.RandomState(seed)
    order = np.concatenate([rng.permutation(np.flatnonzero(strata == stratum)) for stratum in np.unique(strata)])
    hand = np.empty(len(strata), dtype=np.int64)
    hand[order] = np.arange(len(strata)) % HANDS
    part = np.full(len(strata), TRAIN, dtype=np.int8)
    part[(hand % FOLDS == (fold + 1) % FOLDS) & (hand // FOLDS < hands)] = VALIDATION
    part[hand % FOLDS == fold] = TEST
    return part


def is_training(part: Parts, fold: int | None) -> NDArray[np.bool_]:
    """Tell which series train: without a fold those that would validate do as well."""
    return np.isin(part, (TRAIN, VALIDATION) if fold is None else TRAIN)


class Scaled(NamedTuple):
    """Standardised series, and what undoes it: (channel,) each, or (1,)."""

    x: Real
    centre: Tensor
    scale: Tensor


def standardise(x: Real, train: NDArray[np.bool_], axes: tuple[int, ...], *, floor: float) -> Scaled:
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
    centre, scale = mean.astype(x.dtype), np.where(constant & (floor == 0), 1, deviation).astype(x.dtype)
    result: Real = x - centre
    result /= scale
    return Scaled(result, *(torch.from_numpy(part).double().flatten() for part in (centre, scale)))


def divide(
    name: str,
    variant: str,
    whole: Series,
    part: Parts,
    fold: int | None,
    channels: tuple[str, ...],
    scaled: Scaled | None,
) -> Dataset:
    """Hand every series to its part; those of no part are left out.

    ``scaled`` is what the series of ``whole`` come from, None where that cannot be undone.

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
        centre=None if scaled is None else scaled.centre,
        scale=None if scaled is None else scaled.scale,
    )
