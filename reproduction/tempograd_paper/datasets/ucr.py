"""Wafer and Freezer: two sets of single-channel series from the UCR archive."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from tempograd.core.errors import DataError
from tempograd.data import Dataset, Series
from tempograd.data.datasets import choose_variant, dataset
from tempograd_paper.datasets.parts import locate
from tempograd_paper.datasets.text_tables import Floats, Rows, numbers, read_rows

VARIANTS = ("published",)
SOURCE = "the UCR archive, https://www.timeseriesclassification.com"
FLOOR = 1e-5  # the published loaders add it to the standard deviation


@dataset("wafer", VARIANTS, needs_files=True)
def load_wafer(*, root: Path | None = None, variant: str | None = None, fold: int | None = None) -> Dataset:
    r"""Sensor readings from the processing of silicon wafers, normal or not.

    The archive's own split: 1,000 series train and 6,164 test, 152 steps, one channel. The archive's label -1
    (abnormal, about one series in ten) is class 0, its label 1 (normal) is class 1.

    With :math:`\mu` and :math:`\sigma` over all values of the training file, :math:`(x - \mu)/(\sigma + 10^{-5})`.

    Parameters
    ----------
    root : path
        The folder with ``UCR/Wafer/Wafer_TRAIN.tsv`` and ``Wafer_TEST.tsv`` (or ``Wafer/…``); ``.txt``, ``.ts``
        and gzipped files are read as well.
    variant : {"published"}, optional
        There is one, and nothing is wrong with it: the split is the archive's, and the statistics come from
        training series alone. They include the series that validate in a fold, but each series was already
        standardised by itself, so that :math:`\mu \approx 0` and :math:`\sigma \approx 1` whichever are taken.
    fold : int, optional
        0 … 4: cut the training series by the published rule.

    Notes
    -----
    Series get the numbers 0, 1, … in the order of the training file; those of the test file follow on.

    References
    ----------
    .. [1] R. T. Olszewski, "Generalized feature extraction for structural pattern recognition in time-series
       data", PhD thesis, Carnegie Mellon University, 2001.
    .. [2] H. A. Dau et al., "The UCR time series archive", IEEE/CAA Journal of Automatica Sinica 6, 2019.
       https://arxiv.org/abs/1810.07758
    """
    return _load("wafer", "Wafer", (-1, 1), "sensor", root, variant).fold(fold)


@dataset("freezer", VARIANTS, needs_files=True)
def load_freezer(*, root: Path | None = None, variant: str | None = None, fold: int | None = None) -> Dataset:
    r"""Power demand of two freezers of one house, to be told apart.

    The archive's ``FreezerRegularTrain`` with its own split: 150 series train and 2,850 test, 301 steps, one
    channel, both classes equally often. The archive's label 1 is class 0, its label 2 is class 1; one is the
    freezer in the kitchen, the other the one in the garage.

    With :math:`\mu` and :math:`\sigma` over all values of the training file, :math:`(x - \mu)/(\sigma + 10^{-5})`.

    Parameters
    ----------
    root : path
        The folder with ``UCR/FreezerRegularTrain/FreezerRegularTrain_TRAIN.tsv`` and ``…_TEST.tsv`` (or
        ``FreezerRegularTrain/…``); ``.txt``, ``.ts`` and gzipped files are read as well.
    variant : {"published"}, optional
        There is one, and nothing is wrong with it, for the reasons given under :func:`load_wafer`.
    fold : int, optional
        0 … 4: cut the training series by the published rule. A fold trains on 120 series only, which is where
        the wide error bars of the published table come from.

    Notes
    -----
    Series get the numbers 0, 1, … in the order of the training file; those of the test file follow on.

    References
    ----------
    .. [1] D. Murray et al., "A data management platform for personalised real-time energy feedback", EEDAL 2015.
    .. [2] H. A. Dau et al., "The UCR time series archive", IEEE/CAA Journal of Automatica Sinica 6, 2019.
       https://arxiv.org/abs/1810.07758
    """
    return _load("freezer", "FreezerRegularTrain", (1, 2), "power demand", root, variant).fold(fold)


def _load(
    name: str, archive: str, codes: tuple[int, int], channel: str, root: Path | None, variant: str | None
) -> Dataset:
    variant = choose_variant(name, variant, VARIANTS)
    train_rows, train = _read(_find(root, name, archive, "TRAIN"))
    test_rows, test = _read(_find(root, name, archive, "TEST"))
    if train.shape[1] != test.shape[1]:
        raise DataError(
            f"{train_rows.path} holds series of {train.shape[1] - 1} steps, but {test_rows.path} series of "
            f"{test.shape[1] - 1}: fetch both from the same place."
        )
    if 2 in train[:, 0] or -1 in train[:, 0]:
        codes = (1, 2) if 2 in train[:, 0] else (-1, 1)  # some copies of the archive write one for the other
    mean, deviation = train[:, 1:].mean(), train[:, 1:].std(ddof=1)

    def split(rows: Rows, table: Floats, first: int) -> Series:
        return Series(
            x=torch.from_numpy((table[:, 1:, None] - mean) / (deviation + FLOOR)).float(),
            y=torch.from_numpy(_classes(rows, table[:, 0], codes)),
            ids=first + torch.arange(len(table)),
        )

    return Dataset(
        name=name,
        train=split(train_rows, train, 0),
        validation=None,
        test=split(test_rows, test, len(train)),
        classes=2,
        channels=(channel,),
        variant=variant,
        centre=torch.tensor([mean], dtype=torch.float64),
        scale=torch.tensor([deviation + FLOOR], dtype=torch.float64),
    )


def _find(root: Path | None, name: str, archive: str, part: str) -> Path:
    places = [
        f"{folder}{archive}/{archive}_{part}{kind}{packed}"
        for folder in ("UCR/", "")
        for packed in ("", ".gz")
        for kind in (".tsv", ".txt", ".ts")
    ]
    present = [place for place in places if root is not None and (root / place).exists()]
    return locate(root, name, present or places[:3], SOURCE)  # twelve names would drown the sentence


def _read(path: Path) -> tuple[Rows, Floats]:
    """Rows of a file and their numbers, the label first."""
    rows = read_rows(path)
    if path.name.removesuffix(".gz").endswith(".ts"):
        rows = _labels_first(rows)
    separator = next((mark for mark in ("\t", ",") if mark in rows.texts[0]), None)
    steps = len(rows.texts[0].split(separator)) - 1
    return rows, numbers(rows, separator, ["label", *(f"value {step}" for step in range(1, 1 + steps))])


def _labels_first(rows: Rows) -> Rows:
    """Drop the header of a ``.ts`` file and bring its lines ``v1,v2,…:label`` into the order of the others."""
    marks = [row for row, text in enumerate(rows.texts) if text.lower().startswith("@data")]
    if not marks:
        raise DataError(f"{rows.path} has no line @data, after which a .ts file holds its series: fetch it again.")
    rows = rows.start(1 + marks[0])
    for row, text in enumerate(rows.texts):
        if text.count(":") != 1:
            raise rows.fault(row, f"{text.count(':')} colons instead of one, between the values and the label")
    halves = [text.split(":") for text in rows.texts]
    return Rows(rows.path, [f"{label},{values}" for values, label in halves], rows.lines)


def _classes(rows: Rows, labels: Floats, codes: tuple[int, int]) -> NDArray[np.int64]:
    for row in np.flatnonzero(~np.isin(labels, codes)):
        raise rows.fault(row, f"label {labels[row]:g} instead of {codes[0]} or {codes[1]}")
    return np.asarray(labels == codes[1], dtype=np.int64)
