"""The tables of MIMIC-III: where they lie, and the two small ones that are made of them once and kept."""

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

from numpy.typing import NDArray

from tempograd._utils.io import scratch, writable, write_atomically
from tempograd.data.files import locate, open_text
from tempograd.data.readers.parquet_file import connect, read_parquet, run_script, show_csv, write_parquet
from tempograd.errors import DataError, OutputError

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
    """What :func:`prepare_mimic3` leaves behind: two Parquet files, which any tool reads.

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
    script = files("tempograd.data").joinpath("mimic3.sql").read_text(encoding="utf-8")
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
    with open_text(path) as file:
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
        return scratch(writable(cache))
    except OutputError as error:
        raise DataError(f"{cache} cannot be written to: set {CACHE_VARIABLE} to a folder that can.") from error
