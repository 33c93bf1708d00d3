"""Epilepsy: one second of a brain's electrical activity, seizure or not."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from tempograd.core.errors import DataError
from tempograd.data import Dataset, Series
from tempograd.data.datasets import choose_variant, dataset
from tempograd_paper.datasets.parts import divide, is_training, locate, standardise, stratified_parts
from tempograd_paper.datasets.text_tables import Floats, Rows, numbers, read_csv

VARIANTS = ("by_recording", "random", "published")
SOURCE = "the UCI repository, https://archive.ics.uci.edu (Epileptic Seizure Recognition)"
PLACES = ("Epilepsy/data.csv", "Epilepsy/data.csv.gz", "Epilepsy/Epileptic Seizure Recognition.csv")
STEPS = 178
CHUNKS = 23
SEIZURE = 1
FLOOR = 1e-5  # the published loader adds it to the standard deviation
VALIDATION_SHARE = 0.08


@dataset("epilepsy", VARIANTS, own_folds=True, needs_files=True)
def load_epilepsy(*, root: Path | None = None, variant: str | None = None, fold: int | None = None) -> Dataset:
    r"""One-second chunks of EEG recordings, with and without seizures.

    500 recordings of 23.6 s, each cut into 23 chunks of 178 steps: 11,500 series of one channel. Of the five
    classes of the file (100 recordings each) number 1 is a seizure; the task is binary, and as in the published
    processing **class 1 means no seizure**, class 0 a seizure, in every variant.

    72 % of the series train, 8 % validate, 20 % test, each with all five classes of the file in equal shares. The
    published split files cannot be had; the five folds are seeded here, and their test parts are disjoint.

    Parameters
    ----------
    root : path
        The folder with ``Epilepsy/data.csv`` (or ``data.csv.gz``).
    variant : {"by_recording", "random", "published"}, optional
        * ``"by_recording"`` (the default) keeps the 23 chunks of a recording together, and standardises all values
          with one mean and one standard deviation, those of the training series.
        * ``"random"`` is like it, but scatters the chunks: the model has seen the recordings that it is tested on.
        * ``"published"`` does what the released code does: chunks scattered as in ``"random"``; then, with
          :math:`\mu_t` and :math:`\sigma_t` over the *positive* training values of each step,

          .. math:: x'_t = \begin{cases} (x_t - \mu_t) / \sigma_t & x_t > 0 \\ 0 & x_t \le 0, \end{cases}

          which takes negative voltages for missing values and erases 55 % of the signal; then :math:`x'` is
          standardised as above.

    fold : int, optional
        0 … 4: which split. Without it, split 0 with its validation series joined to those that train.

    Notes
    -----
    A row's name is ``X<chunk>.<recording>``. The recording is all that follows the first dot: the published file
    has names such as ``X21.V1.791``, but also ``X21.V1`` and ``X21.V14``, whose number alone says nothing.

    Recordings are put in order by their class and their values, chunks by their number, and a series' number is
    its place in this order. So neither the order of the rows in the file (a random one) nor the names of the
    recordings (which differ between copies) change a split.

    Recordings come from ten people, and the file does not tell who is who: no split is by person.

    References
    ----------
    .. [1] R. G. Andrzejak et al., "Indications of nonlinear deterministic and finite-dimensional structures in
       time series of brain electrical activity", Physical Review E 64, 2001.
    .. [2] O. Queen et al., "Encoding time-series explanations through self-supervised model behavior consistency",
       NeurIPS 2023. https://arxiv.org/abs/2306.02109
    """
    variant = choose_variant("epilepsy", variant, VARIANTS)
    values, classes = read_recordings(locate(root, "epilepsy", PLACES, SOURCE))
    if variant == "by_recording":
        part = np.repeat(stratified_parts(classes, fold, validation=VALIDATION_SHARE), CHUNKS)
    else:
        part = stratified_parts(np.repeat(classes, CHUNKS), fold, validation=VALIDATION_SHARE)
    x, train = values.reshape(-1, STEPS, 1), is_training(part, fold)
    if variant == "published":
        x = erase_negative(x, train)
    scaled = standardise(x, train, (0, 1, 2), floor=FLOOR)
    whole = Series(
        x=torch.from_numpy(scaled.x).float(),
        y=torch.from_numpy(np.repeat(classes != SEIZURE, CHUNKS)).long(),
    )
    undone = None if variant == "published" else scaled  # nobody knows what was erased
    return divide("epilepsy", variant, whole, part, fold, ("EEG",), undone)


def erase_negative(x: Floats, train: NDArray[np.bool_]) -> Floats:
    """Z-score each step by its positive training values, and set to 0 what was not positive."""
    positive = np.ma.masked_less_equal(x[train], 0)
    mean, deviation = positive.mean(axis=0).filled(0), positive.std(axis=0).filled(1)
    return np.where(x > 0, (x - mean) / np.maximum(deviation, 1e-7), 0.0)


def read_recordings(path: Path) -> tuple[Floats, NDArray[np.int64]]:
    """Values of shape (recording, chunk, step), and the class 1 … 5 of each recording."""
    header, rows = read_csv(path)
    if header[1:] != [*(f"X{step}" for step in range(1, STEPS + 1)), "y"]:
        raise DataError(
            f"{path} starts with other columns than the rows' names, X1 … X{STEPS} and y: fetch it again."
        )
    table = numbers(rows, ",", header, texts=1)
    for row in np.flatnonzero(~np.isin(table[:, -1], range(1, 6))):
        raise rows.fault(row, f"class {table[row, -1]:g} instead of 1, 2, 3, 4 or 5")
    chunk, recording = _chunks(rows)
    order = np.lexsort((chunk, recording))
    _check_recordings(rows, order, chunk, recording, table[:, -1])
    values = table[order, :-1].reshape(-1, CHUNKS, STEPS)
    classes = table[order[::CHUNKS], -1].astype(np.int64)
    place = np.lexsort((*values[:, 0, ::-1].T, classes))  # the last key counts most
    return values[place], classes[place]


def _chunks(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tell the number of the chunk and of the recording in every row."""
    names = [re.match(r"X(\d+)\.([^,]+),", text) for text in rows.texts]
    for row, name in enumerate(names):
        if name is None:
            found = rows.texts[row].partition(",")[0]
            raise rows.fault(row, f"the name {found!r} is not of the form X<chunk>.<recording>")
    _, recording = np.unique([name[2] for name in names if name], return_inverse=True)
    return np.array([int(name[1]) for name in names if name]), recording


def _check_recordings(
    rows: Rows, order: NDArray[np.int64], chunk: NDArray[np.int64], recording: NDArray[np.int64], classes: Floats
) -> None:
    """Every recording has 23 chunks of one class; ``order`` sorts the rows by recording and chunk."""

    def name(row: int) -> str:
        return rows.texts[row].partition(",")[0]

    for before, row in pairwise(order):
        if recording[before] != recording[row]:
            continue
        if chunk[before] == chunk[row]:
            raise rows.fault(row, f"{name(row)} stands in line {rows.lines[before]} already")
        if classes[before] != classes[row]:
            raise rows.fault(
                row, f"{name(row)} has class {classes[row]:g}, but {name(before)} class {classes[before]:g}"
            )
    for number, count in enumerate(np.bincount(recording)):
        if count != CHUNKS:
            known = name(int(np.flatnonzero(recording == number)[0])).partition(".")[2]
            raise DataError(
                f"{rows.path} holds {count} chunks of recording {known} instead of {CHUNKS}: fetch it again."
            )
