"""PAM: eight daily activities seen by seventeen channels of body-worn sensors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tempograd.core.errors import DataError, InputError, one_line, short_path
from tempograd.core.series import Series
from tempograd.data.datasets import FOLDS, Dataset, choose_variant, dataset
from tempograd_paper.datasets.parts import locate
from tempograd_paper.datasets.restricted_pickle import read_npy

CLASSES = 8
SMALL = 1e-5
BLOCK = 256  # series that are in float64 at a time
VARIANTS = ("all_values", "published")
VALUES, LABELS, SPLITS = (
    "processed_data/PTdict_list.npy",
    "processed_data/arr_outcomes.npy",
    "pam_labels_splits.npz",
)
SOURCE = "the data of TimeX (Harvard Dataverse, https://doi.org/10.7910/DVN/B0DEQJ)"

_Floats = NDArray[np.float64]
_Rows = NDArray[np.int64]


@dataset("pam", VARIANTS, own_folds=True, needs_files=True)
def load_pam(*, root: Path | None = None, variant: str | None = None, fold: int | None = None) -> Dataset:
    r"""PAMAP2 physical activity: windows of six seconds, and which of eight activities they show.

    5,333 windows of 600 steps (100 Hz) and 17 channels of inertial sensors, cut with 50 % overlap from the
    recordings of eight people. Class :math:`c` is activity :math:`c` of the eight that were kept; neither the
    order of the activities nor that of the channels is documented. Windows of one person, even overlapping
    ones, lie in different parts of a split.

    With :math:`\mu` and :math:`\sigma` (divisor :math:`n - 1`) of a channel over the training series of the
    split, a value :math:`x` becomes :math:`(x - \mu) / (\sigma + 10^{-5})`.

    Parameters
    ----------
    root : path
        The folder with ``PAM/processed_data/PTdict_list.npy`` and ``arr_outcomes.npy`` (whose last column is
        the label) and ``PAM/splits/PAMAP2_split_{1..5}.npy``. The five splits may also come from
        ``PAM/pam_labels_splits.npz``, whose labels must then agree.
    variant : {"all_values", "published"}, optional
        ``"all_values"`` (the default) standardises and nothing else. ``"published"`` does what the paper's
        released code does: it first standardises each channel with mean and deviation
        (divisor :math:`n`) of its *positive* training values and sets every value :math:`\le 0` to 0, as if it
        had not been measured, although acceleration has two directions; then it standardises as above.
    fold : int, optional
        0 … 4: published split ``fold + 1`` with 4,266, 533 and 534 series, in the published order. Without it
        the training series of split 1 are joined by those that validate, in the order of the file; the
        statistics stay those of its 4,266 training series, so that a series has the same values in both.

    Notes
    -----
    The split files, and perhaps the others, hold pickled arrays. They are read by an unpickler that knows
    nothing but arrays. ``ids`` are the rows of ``PTdict_list.npy``; all values are observed.

    References
    ----------
    .. [1] A. Reiss and D. Stricker, "Introducing a new benchmarked dataset for activity monitoring", ISWC 2012.
    .. [2] X. Zhang et al., "Graph-guided network for irregularly sampled multivariate time series", ICLR 2022.
       https://arxiv.org/abs/2110.05357
    .. [3] O. Queen et al., "Encoding time-series explanations through self-supervised model behavior
       consistency", NeurIPS 2023. https://arxiv.org/abs/2306.02109
    """
    variant = choose_variant("pam", variant, VARIANTS)
    if fold is not None and fold not in range(FOLDS):
        raise InputError(f"fold must be an integer from 0 to {FOLDS - 1} or None, got {fold!r}.")
    raw = read_series(locate(root, "PAM", [f"PAM/{VALUES}"], SOURCE))
    y = read_labels(locate(root, "PAM", [f"PAM/{LABELS}"], SOURCE), len(raw))
    train, validation, test = read_split(root, int(fold or 0) + 1, y)
    x, centre, scale = standardised(raw, train, published=variant == "published")
    undone = variant != "published"  # nobody knows what was erased

    def part(rows: _Rows) -> Series:
        return Series(torch.from_numpy(x[rows]), torch.from_numpy(y[rows]), ids=torch.from_numpy(rows))

    joined = train if fold is not None else np.sort(np.concatenate([train, validation]))
    return Dataset(
        name="pam",
        train=part(joined),
        validation=None if fold is None else part(validation),
        test=part(test),
        classes=CLASSES,
        channels=tuple(f"sensor {channel}" for channel in range(x.shape[2])),
        variant=variant,
        centre=torch.from_numpy(centre) if undone else None,
        scale=torch.from_numpy(scale) if undone else None,
    )


def read_series(path: Path) -> NDArray[Any]:
    """Read the series (N, T, D), as numbers of whatever type they have."""
    found = _numbers(read_npy(path), path)
    if found.ndim != 3 or 0 in found.shape:
        raise DataError(f"{path} holds an array of shape {found.shape}, expected (series, time, channel).")
    return found


def read_labels(path: Path, series: int) -> _Rows:
    """Read the labels (N,): the last column."""
    found = _numbers(read_npy(path), path)
    if found.ndim == 0 or len(found) != series:
        raise DataError(f"{path} holds labels of shape {found.shape} for {series} series.")
    labels = found.reshape(series, -1)[:, -1]
    wrong = np.flatnonzero(~np.isin(labels, np.arange(CLASSES)))
    if len(wrong):
        raise DataError(
            f"The label of row {wrong[0]} of {path} is {labels[wrong[0]]}, expected an integer from 0 to "
            f"{CLASSES - 1} in the last column."
        )
    return labels.astype(np.int64)


def _numbers(found: NDArray[Any], path: Path) -> NDArray[Any]:
    """Return an array of numbers, from one that may hold numbers or whole rows as objects."""
    if found.dtype.kind != "O":
        return found
    try:
        if found.ndim == 1:
            return np.stack([np.asarray(cell, dtype=np.float64) for cell in found])
        return found.astype(np.float64)
    except (TypeError, ValueError) as error:
        reason = one_line(str(error), 90)
        raise DataError(f"{short_path(path)} holds objects that make no array of numbers ({reason}).") from error


def read_split(root: Path | None, number: int, y: _Rows) -> tuple[_Rows, _Rows, _Rows]:
    """Read the rows that train, validate and test in published split ``number``, 1 … 5."""
    path = locate(root, "PAM", [f"PAM/splits/PAMAP2_split_{number}.npy", f"PAM/{SPLITS}"], SOURCE)
    found = _archived_split(path, number, y) if path.name == SPLITS else np.atleast_1d(read_npy(path))
    parts = list(found)
    if len(parts) != 3:
        raise DataError(
            f"{path} holds {len(parts)} arrays, expected three: the rows that train, validate and test."
        )
    train, validation, test = (_rows(part, path) for part in parts)
    together = np.sort(np.concatenate([train, validation, test]))
    if not np.array_equal(together, np.arange(len(y))):
        raise DataError(
            f"The three parts of split {number} in {path} must hold each row from 0 to {len(y) - 1} once; they "
            f"hold {len(together)} from {together.min(initial=0)} to {together.max(initial=0)}, "
            f"{len(np.unique(together))} of them distinct."
        )
    return train, validation, test


def _rows(part: Any, path: Path) -> _Rows:
    rows = np.asarray(part)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise DataError(
            f"{path} holds {rows.dtype} of shape {rows.shape} where the rows of a split, as a list of integers, "
            "were expected."
        )
    return rows.astype(np.int64)


def _archived_split(path: Path, number: int, y: _Rows) -> list[NDArray[Any]]:
    """Read one split from the archive of all five, whose labels must be those of the series at hand."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            labels = archive["y"]
            parts = [archive[f"split{number}_{part}"] for part in ("train", "val", "test")]
    except Exception as error:  # zip, header and contents fail in their own ways
        raise DataError(
            f"{short_path(path)} cannot be read ({one_line(str(error), 90)}): fetch it again."
        ) from error
    if not np.array_equal(labels, y):
        raise DataError(f"The labels in {path} are not those in {LABELS}, so its splits belong to other series.")
    return parts


def standardised(
    raw: NDArray[Any], train: _Rows, *, published: bool
) -> tuple[NDArray[np.float32], _Floats, _Floats]:
    """Return the series in float32, standardised with the statistics of the rows ``train``, and these.

    As published it happens twice; the statistics are then those of the first time.
    """
    x = np.empty(raw.shape, dtype=np.float32)
    mean, deviation = moments(raw, train, positive=published, divisor_less=0 if published else 1)
    if published and np.isnan(mean).any():
        raise DataError(
            f"Sensor {int(np.isnan(mean).argmax())} of PAM has no positive training value, so the published "
            'statistics do not exist: use variant="all_values".'
        )
    scale = np.maximum(deviation, 1e-7) if published else deviation + SMALL
    for rows, block in blocks(raw, np.arange(len(raw))):
        _check_finite(rows, block)
        scaled = (block - mean) / scale
        x[rows] = np.where(block > 0, scaled, 0) if published else scaled
    if published:
        again, deviation = moments(x, train, positive=False, divisor_less=1)
        for rows, block in blocks(x, np.arange(len(x))):
            x[rows] = (block - again) / (deviation + SMALL)
    return x, mean, scale


def _check_finite(rows: _Rows, block: _Floats) -> None:
    wrong = ~np.isfinite(block).all(axis=(1, 2))
    if wrong.any():
        raise DataError(
            f"Row {rows[wrong.argmax()]} of {VALUES} holds values that are not finite: fetch it again."
        )


def moments(x: NDArray[Any], rows: _Rows, *, positive: bool, divisor_less: int) -> tuple[_Floats, _Floats]:
    """Mean and standard deviation of each channel over all or the positive values of the given series."""
    count, total, squares = (np.zeros(x.shape[2]) for _ in range(3))
    for _, block in blocks(x, rows):
        keep = block > 0 if positive else np.ones_like(block, dtype=bool)
        count += keep.sum(axis=(0, 1))
        total += block.sum(axis=(0, 1), where=keep)
    with np.errstate(invalid="ignore"):  # a channel without a value to keep has no mean: nan
        mean = total / count
        for _, block in blocks(x, rows):
            keep = block > 0 if positive else np.ones_like(block, dtype=bool)
            squares += ((block - mean) ** 2).sum(axis=(0, 1), where=keep)
        return mean, np.sqrt(squares / (count - divisor_less))


def blocks(x: NDArray[Any], rows: _Rows) -> Iterator[tuple[_Rows, _Floats]]:
    """Yield rows and their series in float64, few at a time: the whole would take four times the memory."""
    for start in range(0, len(rows), BLOCK):
        chosen = rows[start : start + BLOCK]
        yield chosen, x[chosen].astype(np.float64)
