"""Boiler: abnormal blow-downs, told from 20 sensors over an hour and a half."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tempograd.core.errors import DataError
from tempograd.data import Dataset, Series
from tempograd.data.datasets import choose_variant, dataset
from tempograd_paper.datasets.parts import Parts, Real, divide, is_training, locate, standardise, stratified_parts
from tempograd_paper.datasets.text_tables import Floats, Rows, numbers, read_csv

VARIANTS = ("windows", "windows_random", "published")
SOURCE = "the data of TimeX, https://github.com/mims-harvard/TimeX"
PLACES = tuple(f"Boiler/{name}.csv{packed}" for name in ("full", "boiler_1_test") for packed in ("", ".gz"))
SENSORS = 20
WINDOW = 6
MINUTES = 15  # between two rows
DAY = 24 * 60
NO_PART = -1
VALIDATION_SHARE = 0.2
FLOOR = 1e-5  # the published loader adds it to the standard deviation


@dataset("boiler", VARIANTS, own_folds=True, needs_files=True)
def load_boiler(*, root: Path | None = None, variant: str | None = None, fold: int | None = None) -> Dataset:
    r"""Windows over the log of a boiler's 20 sensors, one row every 15 minutes.

    Class 1 is an abnormal blow-down in the last row of the window, class 0 none. 60 % of the windows train, 20 %
    validate, 20 % test. The published split files cannot be had; the five folds are seeded here, and their test
    parts are disjoint. A series' number is that of its last row in the file, from 0.

    Parameters
    ----------
    root : path
        The folder with ``Boiler/full.csv``, the 90,120 rows of the paper, or else ``Boiler/boiler_1_test.csv``, a
        fifth of them (both may be gzipped).
    variant : {"windows", "windows_random", "published"}, optional
        * ``"windows"`` (the default): the 6 rows up to each row, T = 6. Neighbouring windows share 5 of their 6
          rows, so whole days go to training, validation or test, and a window that reaches from one of these into
          another is left out. The days without a positive row, with some, and with at least half of their rows
          positive are spread evenly. No window bridges a gap: its rows follow each other by 15 minutes.
        * ``"windows_random"``: the same windows, but they are scattered one by one, so that nearly every test
          window shares rows with training windows.
        * ``"published"`` does what the released code does: T = 36 pseudo-steps, which are six blocks of six. Block
          :math:`l` holds the last :math:`l` rows, followed by zeros: 15 of 36 steps are padding, and the time axis
          runs through the same rows six times. Gaps are bridged, windows scattered one by one. Padding takes part
          in the standardisation, is no zero after it, and counts as observed.

    fold : int, optional
        0 … 4: which split. Without it, split 0 with its validation windows joined to those that train.

    Notes
    -----
    Each channel is standardised with the mean and standard deviation of the training windows. The file was scaled
    to [0, 1] with outliers in it, so that counters such as "Combustion time" vary by :math:`10^{-9}` to
    :math:`10^{-6}` around a constant. In ``"published"`` that is lost: values are rounded to single precision
    first, the deviation is that between values and padding, and :math:`10^{-5}` is added to it. The other variants
    standardise in double precision and add nothing, so that these channels weigh as much as the others. The price:
    "Power Usage_Meter" jumps in two rows by :math:`10^4` times its usual deviation, and in a fold where they test
    they stand out by as much.

    The log gives the time of day but no date: a gap of whole days cannot be seen. A day ends where the clock goes
    back. A blow-down may last for days (one takes 650 of the 669 positive rows of ``boiler_1_test``), so that even
    with whole days the model is tested on other days of an event that it knows.

    The reference that the paper gives for this file ("simulated boiler") is about another data set; this one is
    the log of sensors, with nothing simulated, that TimeX [1]_ used.

    References
    ----------
    .. [1] O. Queen et al., "Encoding time-series explanations through self-supervised model behavior consistency",
       NeurIPS 2023. https://arxiv.org/abs/2306.02109
    """
    variant = choose_variant("boiler", variant, VARIANTS)
    log = read_log(locate(root, "boiler", PLACES, SOURCE))
    last = np.arange(WINDOW - 1, len(log.labels))
    if variant != "published":
        clock = clock_minutes(log.rows)
        last = last[unbroken(clock, log.boilers)]
    if variant == "windows":
        day = days(clock, log.boilers)
        by_day = stratified_parts(blow_down_share(log.labels, day), fold, validation=VALIDATION_SHARE)
        part = keep_apart(by_day[day], last)
    else:
        part = stratified_parts(log.labels[last], fold, validation=VALIDATION_SHARE)
    x = log.sensors[last[:, None] + np.arange(1 - WINDOW, 1)]  # (window, step, sensor)
    if variant == "published":
        x = nest(x.astype(np.float32))
    scaled = standardise(x, is_training(part, fold), (0, 1), floor=FLOOR if variant == "published" else 0)
    x = torch.from_numpy(scaled.x).float()
    whole = Series(x=x, y=torch.from_numpy(log.labels[last]), ids=torch.from_numpy(last))
    return divide("boiler", variant, whole, part, fold, log.channels, scaled)


@dataclass(frozen=True)
class Log:
    """A boiler log as it stands in the file."""

    rows: Rows
    boilers: NDArray[np.str_]
    sensors: Floats  # (row, sensor)
    labels: NDArray[np.int64]
    channels: tuple[str, ...]


def read_log(path: Path) -> Log:
    """Read the columns boiler_no, TIME, 20 sensors, label."""
    header, rows = read_csv(path)
    if header[:2] != ["boiler_no", "TIME"] or len(header) != SENSORS + 3:
        raise DataError(
            f"{path} starts with other columns than boiler_no, TIME, {SENSORS} sensors and a label: "
            f"fetch it again."
        )
    table = numbers(rows, ",", header, texts=2)
    for row in np.flatnonzero(~np.isin(table[:, -1], (0, 1))):
        raise rows.fault(row, f"label {table[row, -1]:g} instead of 0 or 1")
    if len(table) < WINDOW:
        raise DataError(f"{path} holds {len(table)} rows, fewer than a window of {WINDOW}: fetch it again.")
    return Log(
        rows=rows,
        boilers=np.array([text.partition(",")[0] for text in rows.texts]),
        sensors=table[:, :-1],
        labels=table[:, -1].astype(np.int64),
        channels=tuple(header[2:-1]),
    )


def clock_minutes(rows: Rows) -> NDArray[np.int64]:
    """Minutes since midnight in every row; the log writes 09hh45mm for a quarter to ten."""
    minutes = np.empty(len(rows.texts), dtype=np.int64)
    for row, text in enumerate(rows.texts):
        time = text.split(",", 2)[1]
        found = re.search(r"\b(\d\d)(?:hh|:)(\d\d)(?:mm|:\d\d)?$", time)
        if found is None or int(found[1]) > 23 or int(found[2]) > 59:
            raise rows.fault(row, f"TIME is {time!r} instead of, say, 09hh45mm")
        minutes[row] = 60 * int(found[1]) + int(found[2])
    return minutes


def unbroken(clock: NDArray[np.int64], boilers: NDArray[np.str_]) -> NDArray[np.bool_]:
    """Tell for each row from the sixth on whether the six rows up to it follow each other by 15 minutes."""
    follows = (np.diff(clock) % DAY == MINUTES) & (boilers[1:] == boilers[:-1])
    return np.asarray(sliding_window_view(follows, WINDOW - 1).all(axis=1))


def days(clock: NDArray[np.int64], boilers: NDArray[np.str_]) -> NDArray[np.int64]:
    """Count the days up to each row: a new one begins where the clock does not move on, and with each boiler."""
    begins = (np.diff(clock) <= 0) | (boilers[1:] != boilers[:-1])
    return np.concatenate([[0], np.cumsum(begins)])


def blow_down_share(labels: NDArray[np.int64], day: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each day 0: no row is positive, 1: some are, 2: at least half of them are."""
    share = np.bincount(day, labels) / np.bincount(day)
    return (share > 0).astype(np.int64) + (share >= 0.5)


def keep_apart(part: Parts, last: NDArray[np.int64]) -> Parts:
    """Part of every window, given that of every row: none where the window reaches from one into another.

    Six rows without a gap lie on two days at most, so that the first and the last of them tell.
    """
    return np.where(part[last] == part[last - WINDOW + 1], part[last], NO_PART).astype(np.int8)


def nest(windows: Real) -> Real:
    """Turn windows (N, 6, D) into (N, 36, D): for l = 1 … 6 the last l rows, followed by 6 - l rows of zeros."""
    nested = np.zeros((len(windows), WINDOW * WINDOW, windows.shape[2]), dtype=windows.dtype)
    for length in range(1, WINDOW + 1):
        start = (length - 1) * WINDOW
        nested[:, start : start + length] = windows[:, WINDOW - length :]
    return nested
