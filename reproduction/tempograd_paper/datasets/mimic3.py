"""MIMIC-III: who dies in intensive care, told from 48 hours of vital signs and laboratory values."""

import csv
import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tempograd.core.errors import DataError, OutputError
from tempograd.core.io import made, scratch, write_atomically
from tempograd.data import Dataset, Series
from tempograd.data.datasets import choose_variant, dataset
from tempograd.data.files import File
from tempograd_paper.datasets.parts import locate
from tempograd_paper.datasets.queries import connect, read_parquet, run_script, show_csv, write_parquet

# The tables of MIMIC-III: where they lie, and the two small ones that are made of them once and kept.

CACHE_VARIABLE = "TEMPOGRAD_CACHE"
MEMORY_VARIABLE = "TEMPOGRAD_MEMORY"
FOLDERS = ("MIMIC3", "MIMIC3-demo", "mimiciii")
SOURCE = (
    "https://physionet.org/content/mimiciii/1.4/ (for credentialed users), or its open demo from "
    "https://physionet.org/content/mimiciii-demo/1.4/"
)
COLUMNS = {  # what is needed of each table
    "icustays": {
        "subject_id": "BIGINT",
        "hadm_id": "BIGINT",
        "icustay_id": "BIGINT",
        "first_careunit": "VARCHAR",
        "intime": "TIMESTAMP",
        "outtime": "TIMESTAMP",
    },
    "admissions": {
        "hadm_id": "BIGINT",
        "admittime": "TIMESTAMP",
        "deathtime": "TIMESTAMP",
        "ethnicity": "VARCHAR",
        "hospital_expire_flag": "INTEGER",
        "has_chartevents_data": "INTEGER",
    },
    "patients": {"subject_id": "BIGINT", "gender": "VARCHAR", "dob": "TIMESTAMP"},
    "chartevents": {
        "subject_id": "BIGINT",
        "hadm_id": "BIGINT",
        "icustay_id": "BIGINT",
        "itemid": "BIGINT",
        "charttime": "TIMESTAMP",
        "valuenum": "DOUBLE",
        "error": "INTEGER",
    },
    "labevents": {
        "subject_id": "BIGINT",
        "hadm_id": "BIGINT",
        "itemid": "BIGINT",
        "charttime": "TIMESTAMP",
        "valuenum": "DOUBLE",
    },
}


@dataclass(frozen=True)
class PreparedMimic3:
    """What ``prepare_mimic3`` leaves behind: two Parquet files, which any tool reads.

    Parameters
    ----------
    stays : path
        One row per ICU stay of the cohort, in database order: ``stay`` (its number), ``subject_id``, ``hadm_id``,
        ``icustay_id``, ``admittime``, ``intime``, ``icu_death``, ``hospital_death``, ``gender``, ``age``,
        ``ethnicity``, ``first_icu_stay`` and ``start`` (of hour 0).
    cells : path
        One row per ``stay``, ``channel`` and ``hour`` with a measurement: the mean ``value`` of the hour, and the
        mean ``inside`` of what was not measured on its very start; NaN where there is none. Hours outside 0 … 47
        only tell that the channel was measured at all.
    """

    stays: Path
    cells: Path

    def read(self) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Return the columns of both files."""
        try:
            with connect(_memory(None)) as connection:
                return read_parquet(connection, self.stays), read_parquet(connection, self.cells)
        except DataError as error:
            raise DataError(f"{error} Delete {self.stays} and {self.cells}: they will be made again.") from error


def prepare_mimic3(
    root: str | Path | None, *, memory: str | None = None, cache: str | Path | None = None
) -> PreparedMimic3:
    """Read the tables of MIMIC-III once and keep the hourly means of its first 48 hours of intensive care.

    ``load_dataset("mimic3")`` does so by itself; call this to choose where and with how much memory. No server is
    needed: DuckDB passes once over the CSV files, and what does not fit into memory waits on the disk. The result
    is kept and found again as long as the tables have the same places, sizes and times of change.

    Parameters
    ----------
    root : path
        The data root: the tables lie in its folder ``MIMIC3``, ``MIMIC3-demo`` or ``mimiciii`` or in itself, as
        ``.csv`` or ``.csv.gz``, with the names that PhysioNet gives them.
    memory : str, optional
        What the database may use, by default the environment variable ``TEMPOGRAD_MEMORY`` or ``"4GB"``.
    cache : path, optional
        Where the result is kept, by default ``TEMPOGRAD_CACHE`` or ``tempograd`` in the user's cache folder.
    """
    tables = find_tables(None if root is None else Path(root))
    script = files("tempograd_paper.datasets").joinpath("mimic3.sql").read_text(encoding="utf-8")
    folder, stem = _cache_folder(cache), f"mimic3-{_key(tables, script)}"
    prepared = PreparedMimic3(folder / f"{stem}-stays.parquet", folder / f"{stem}-cells.parquet")
    if not (prepared.stays.exists() and prepared.cells.exists()):
        headers = {table: _header(path, COLUMNS[table]) for table, path in tables.items()}
        with _scratch(folder) as spill, connect(_memory(memory), spill) as connection:
            for table, path in tables.items():
                show_csv(connection, table, path, headers[table])
            run_script(connection, script, "MIMIC-III", sum(path.stat().st_size for path in tables.values()))
            for path, table, order in (
                (prepared.cells, "cells", "stay, channel, hour"),
                (prepared.stays, "stays", "stay"),
            ):
                write_atomically(path, partial(write_parquet, connection, table, order))
    return prepared


def find_tables(root: Path | None) -> dict[str, Path]:
    """Return the path of each table; all of them lie in one folder."""
    folder = next((folder for folder in _candidates(root) if any(_files_of(folder))), None)
    if folder is None:
        folder = locate(root, "MIMIC-III", FOLDERS, SOURCE)
    found = {table: _file_of(folder, table) for table in COLUMNS}
    missing = ", ".join(table.upper() for table, path in found.items() if path is None)
    if missing:
        raise DataError(
            f"{folder} lacks {missing} of MIMIC-III: put the table there as .csv.gz or .csv. Get it from {SOURCE}."
        )
    return {table: path for table, path in found.items() if path is not None}


def _candidates(root: Path | None) -> list[Path]:
    return [] if root is None else [*(root / name for name in FOLDERS), root]


def _files_of(folder: Path) -> list[Path]:
    return [path for table in COLUMNS if (path := _file_of(folder, table)) is not None]


def _file_of(folder: Path, table: str) -> Path | None:
    names = [stem + suffix for stem in (table.upper(), table) for suffix in (".csv.gz", ".csv")]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _header(path: Path, needed: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of a CSV file, lower case, and the type each is read as."""
    with File(str(path), path.name).text() as file:
        names = [name.strip().lower() for name in next(csv.reader(file), [])]
    missing = ", ".join(name for name in needed if name not in names)
    if missing:
        raise DataError(f"{path} has no column {missing}; its first line must name the columns of MIMIC-III.")
    if len(set(names)) < len(names):
        raise DataError(f"{path} names a column twice in its first line: {', '.join(names)}.")
    return {name: needed.get(name, "VARCHAR") for name in names}


def _key(tables: Mapping[str, Path], script: str) -> str:
    known = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in tables.values()]
    return hashlib.sha256(json.dumps([known, COLUMNS, script]).encode()).hexdigest()[:16]


def _memory(memory: str | None) -> str:
    return memory or os.environ.get(MEMORY_VARIABLE) or "4GB"


def _cache_folder(cache: str | Path | None) -> Path:
    given = cache or os.environ.get(CACHE_VARIABLE)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given) if given else Path(home) / "tempograd"


def _scratch(cache: Path) -> AbstractContextManager[Path]:
    try:
        return scratch(made(cache))
    except OutputError as error:
        raise DataError(f"{cache} cannot be written to: set {CACHE_VARIABLE} to a folder that can.") from error


_Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

HOURS = 48
LABS = (
    *("ANION GAP", "ALBUMIN", "BICARBONATE", "BILIRUBIN", "CREATININE", "CHLORIDE", "GLUCOSE", "HEMATOCRIT"),
    *("HEMOGLOBIN", "LACTATE", "MAGNESIUM", "PHOSPHATE", "PLATELET", "POTASSIUM", "PTT", "INR", "PT", "SODIUM"),
    *("BUN", "WBC"),
)
VITALS = ("HeartRate", "SysBP", "DiasBP", "MeanBP", "RespRate", "SpO2", "Glucose", "Temp")
STATIC = ("gender", "age", "ethnicity", "first_icu_stay")
CHANNELS = LABS + VITALS + STATIC
LAB_UNITS = (  # as the database has them
    *("mEq/L", "g/dL", "mEq/L", "mg/dL", "mg/dL", "mEq/L", "mg/dL", "%"),
    *("g/dL", "mmol/L", "mg/dL", "mg/dL", "K/µL", "mEq/L", "s", "", "s", "mEq/L"),
    *("mg/dL", "K/µL"),
)
VITAL_UNITS = ("beats/min", "mmHg", "mmHg", "mmHg", "breaths/min", "%", "mg/dL", "°C")
UNITS = (*LAB_UNITS, *VITAL_UNITS, "", "years", "", "")
MEASURED = len(LABS) + len(VITALS)
TRAIN_SHARE = 0.8
SEED = 42
EPSILON = 1e-5


@dataclass(frozen=True)
class Rules:
    """What the variants disagree about."""

    label: str
    as_published: bool = False


VARIANTS = {
    "icu_death": Rules("icu_death"),
    "hospital_death": Rules("hospital_death"),
    "published": Rules("icu_death", as_published=True),
}


@dataset("mimic3", VARIANTS, needs_files=True)
def load_mimic3(*, root: Path | None = None, variant: str | None = None, fold: int | None = None) -> Dataset:
    r"""48 hours of intensive care (hourly, 32 channels, mostly unobserved); class 1 is a patient who died.

    Read from the CSV tables of MIMIC-III v1.4 or of its open demo, without a database server; the first call makes
    hourly means of them, later ones find these in a cache (``prepare_mimic3``).

    Stays of at least 48 hours outside PICU and NICU, of patients whose age is known, with at least one valid
    vital sign in the first 48 hours; in the order of patient, admission and stay. ``ids`` are the ICUSTAY_ID.
    Hours count from the first vital sign; a cell is the mean of its hour. Channels: 20 laboratory values, 8 vital
    signs, and gender (1 = M), age in whole years, ethnicity (1 … 5: white, black, hispanic, asian, other) and
    whether this is the first ICU stay of the admission, which are the same at every hour.

    With the mean :math:`\mu` and the standard deviation :math:`\sigma` (divisor :math:`n - 1`) of a channel's
    observed cells in all training stays, an observed cell is :math:`(x - \mu) / (\sigma + 10^{-5})` and an
    unobserved one 0. A channel that was observed less than twice there keeps its scale.

    Parameters
    ----------
    root : path
        The data root; the tables lie in its folder ``MIMIC3``, ``MIMIC3-demo`` or ``mimiciii`` or in itself.
    variant : {"icu_death", "hospital_death", "published"}, optional
        * ``"icu_death"`` (the default): death in the ICU. Every fifth patient tests, with all their stays, drawn
          with a fixed seed among those who died in the ICU, later in the hospital, and not. A value measured on
          the full hour belongs to the hour that starts.
        * ``"hospital_death"``: the same stays and split; death before leaving the hospital.
        * ``"published"``: what the released code does. Label: death in the ICU,
          which the paper calls in-hospital mortality. The first 80 % of the stays train, so that a patient may be
          on both sides. A value measured exactly n hours after the first vital sign is dropped, the first vital
          sign itself among them; on the demo that is one vital sign in three. A stay is dropped where a vital sign
          was measured but never inside an hour. A channel that was never measured in a stay counts as observed
          with the raw value 0 in all 48 hours, which also enters the mean and the standard deviation.

    fold : int, optional
        0 … 4: cut the training stays by the published rule, which is by stay and not by patient.

    References
    ----------
    .. [1] A. Johnson et al., "MIMIC-III, a freely accessible critical care database", Scientific Data 3, 2016.
       https://doi.org/10.1038/sdata.2016.35
    .. [2] S. Tonekaboni et al., "What went wrong and when? Instance-wise feature importance for time-series
       black-box models", NeurIPS 2020. https://arxiv.org/abs/2003.02821
    """
    variant = choose_variant("mimic3", variant, VARIANTS)
    rules = VARIANTS[variant]
    stays, cells = prepare_mimic3(root).read()
    x, observed = hourly_series(stays, cells, inside=rules.as_published)
    kept, test = np.ones(len(x), dtype=bool), patients_that_test(stays)
    if rules.as_published:
        measured = measured_at_all(cells, len(x))
        kept = ~lost_vital(measured, observed)
        observed[..., :MEASURED] |= ~measured[:, None]
        test = np.arange(kept.sum()) >= int(TRAIN_SHARE * kept.sum())
    if not kept.any():
        raise DataError(f"No ICU stay in {root} fits the cohort: 48 hours or longer, vital signs charted.")
    x, observed = x[kept], observed[kept]
    x, centre, scale = standardise_observed(x, observed, train=~test)
    whole = Series(
        x=torch.from_numpy(x).float(),
        y=torch.from_numpy(stays[rules.label][kept]).long(),
        mask=torch.from_numpy(observed),
        ids=torch.from_numpy(stays["icustay_id"][kept]),
    )
    train, held_out = whole.take(np.flatnonzero(~test)), whole.take(np.flatnonzero(test))
    return Dataset(
        name="mimic3",
        train=train,
        validation=None,
        test=held_out,
        classes=2,
        channels=CHANNELS,
        variant=variant,
        centre=torch.from_numpy(centre),
        scale=torch.from_numpy(scale),
        units=UNITS,
    ).fold(fold)


def hourly_series(
    stays: Mapping[str, NDArray[Any]], cells: Mapping[str, NDArray[Any]], *, inside: bool
) -> tuple[_Floats, Bools]:
    """Raw series (stays, 48, 32), 0 where nothing was observed, and where something was."""
    x = np.zeros((len(stays["stay"]), HOURS, len(CHANNELS)))
    observed = np.zeros(x.shape, dtype=bool)
    value = cells["inside" if inside else "value"]
    told = (cells["hour"] >= 0) & (cells["hour"] < HOURS) & ~np.isnan(value)
    place = (cells["stay"][told], cells["hour"][told], cells["channel"][told])
    x[place], observed[place] = value[told], True
    for channel, name in enumerate(STATIC, start=MEASURED):
        x[..., channel], observed[..., channel] = stays[name][:, None], True
    return x, observed


def measured_at_all(cells: Mapping[str, NDArray[Any]], stays: int) -> Bools:
    """Which of the 28 measured channels occur in a stay's 48 hours, (stays, 28), value or not."""
    measured = np.zeros((stays, MEASURED), dtype=bool)
    measured[cells["stay"], cells["channel"]] = True
    return measured


def lost_vital(measured: Bools, observed: Bools) -> Bools:
    """Stays where some vital sign was measured and has no value in any hour."""
    vitals = slice(len(LABS), MEASURED)
    return np.asarray((measured[:, vitals] & ~observed[..., vitals].any(axis=1)).any(axis=1))


def patients_that_test(stays: Mapping[str, NDArray[Any]]) -> Bools:
    """Stays of the patients drawn to test: a fifth of those with each outcome, whatever the label is."""
    patients, owner = np.unique(stays["subject_id"], return_inverse=True)
    outcome = np.zeros(len(patients), dtype=np.int64)
    np.maximum.at(outcome, owner, stays["icu_death"] + stays["hospital_death"])
    drawn = np.zeros(len(patients), dtype=bool)
    rng = np.random.RandomState(SEED)  # numpy promises never to change this stream
    for level in range(3):
        group = rng.permutation(np.flatnonzero(outcome == level))
        drawn[group[: round((1 - TRAIN_SHARE) * len(group))]] = True
    return drawn[owner]


def standardise_observed(x: _Floats, observed: Bools, train: Bools) -> tuple[_Floats, _Floats, _Floats]:
    """Centre and scale every channel by its observed cells in the training stays; the unobserved become 0.

    Returns the series, and the centre and the scale of each channel.
    """
    result = np.zeros_like(x)
    centre, scale = np.zeros(x.shape[2]), np.ones(x.shape[2])
    for channel in range(x.shape[2]):
        seen = observed[..., channel]
        known = x[train, :, channel][seen[train]]
        if len(known):
            centre[channel] = known.mean()
        if len(known) > 1:
            scale[channel] = known.std(ddof=1) + EPSILON
        result[seen, channel] = (x[seen, channel] - centre[channel]) / scale[channel]
    return result, centre, scale
