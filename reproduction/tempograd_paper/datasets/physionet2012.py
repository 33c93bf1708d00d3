"""PhysioNet 2012: two days in intensive care, and whether the patient leaves the hospital alive."""

import gzip
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray

from tempograd.core.errors import DataError, one_line, quote, short_path
from tempograd.data import Dataset, Series
from tempograd.data.datasets import choose_variant, dataset
from tempograd.data.files import File
from tempograd_paper.datasets.parts import locate

# The text files of the PhysioNet 2012 challenge, out of a folder or an archive, as columns of numbers.

HEADER = b"Time,Parameter,Value\n"
RECORD = re.compile(r"(?:^|/)([0-9]{1,9})\.txt$")
LARGEST = 10_000_000  # bytes; the records have some ten thousand
CHUNK = 1 << 20
LONGEST = 24  # characters of a number
HOURS = 48
EMPTY, RECORD_ID = "", "RecordID"

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
NUMERIC = np.isin(np.arange(256), np.frombuffer(b"0123456789+-.eE", dtype=np.uint8))


@dataclass(frozen=True)
class Records:
    """All rows of one set of records, in the records' order.

    Parameters
    ----------
    ids : array of shape (N,)
        The records' numbers, ascending.
    record, hour, parameter : arrays of shape (rows,)
        Which record (0 … N-1), which hour (0 … 47) and which of the known parameters a row belongs to.
    value : array of shape (rows,)
    """

    ids: Integers
    record: Integers
    hour: Integers
    parameter: Integers
    value: NDArray[np.float64]


def read_records(path: Path, parameters: tuple[str, ...]) -> Records:
    """Read every ``<record>.txt`` in a folder, tar or zip archive; nothing is unpacked to the disk.

    Rows without a parameter's name are left out, all other rows must be ``HH:MM,Parameter,Value`` with a known
    parameter. 48:00, the last minute of a record, counts to hour 47.
    """
    texts = dict(sorted(_texts(path)))
    if not texts:
        raise DataError(f"{path} holds no record: files called <number>.txt were expected in it.")
    for number, text in texts.items():
        if not text.startswith(HEADER):
            _refuse(path, number, 1, text.split(b"\n")[0], "Time,Parameter,Value")
    rows = StayRows(path, texts)
    value, parameter = rows.numbers(), rows.choose((EMPTY, RECORD_ID, *parameters))
    _check_ids(rows, value, parameter == 1)
    kept = parameter > 1
    return Records(np.array(list(texts)), rows.record[kept], rows.hours()[kept], parameter[kept] - 2, value[kept])


def _texts(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number and text of each record, each once."""
    seen: set[int] = set()
    try:
        for name, size, file in _members(path):
            number = RECORD.search(name)
            if number is None:
                continue
            if int(number[1]) in seen:
                raise DataError(f"Record {number[1]} is twice in {path}: leave one of the two.")
            if size > LARGEST:
                raise DataError(f"{name} in {path} has {size} bytes, too many for a record: fetch it again.")
            seen.add(int(number[1]))
            with file() as opened:
                yield int(number[1]), opened.read().replace(b"\r\n", b"\n").rstrip() + b"\n"
    except DataError:
        raise
    except Exception as error:  # zip, tar, gzip and xz fail in a dozen ways
        raise DataError(
            f"{short_path(path)} is damaged and cannot be unpacked ({one_line(str(error), 90)}): fetch it again."
        ) from error


def _members(path: Path) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """Yield name, size and a function that opens it, for each regular file; names are never used as paths."""
    if path.is_dir():
        for file in path.iterdir():
            if file.is_file():
                yield file.name, file.stat().st_size, partial(file.open, "rb")
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as folder:
            for entry in folder.infolist():
                if not entry.is_dir():
                    yield entry.filename, entry.file_size, partial(folder.open, entry)
    else:
        unpack = UNPACKERS.get(path.suffix, open)
        with unpack(path, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as tape:
            for member in tape:
                if member.isfile():
                    yield member.name, member.size, partial(tape.extractfile, member)
            while stream.read(CHUNK):  # checksums are at the end
                pass


def _open_xz(path: Path, mode: Literal["rb"]) -> IO[bytes]:
    try:
        import lzma  # noqa: PLC0415  # Python may have been built without it
    except ImportError as error:
        raise DataError(f"This Python cannot unpack xz: unpack {path} to {path.with_suffix('')}.") from error
    return lzma.open(path, mode)


UNPACKERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".tgz": gzip.open, ".xz": _open_xz}


class StayRows:
    """The rows of all records as positions in one text, cut and read by array operations.

    Five million rows are too many for a loop. Positions of commas and line ends are found at once; a field is
    then a matrix of characters, one row each, which numpy can compare and convert.
    """

    def __init__(self, path: Path, texts: dict[int, bytes]) -> None:
        bodies = [text[len(HEADER) :] for text in texts.values()]
        self.path, self.ids = path, np.array(list(texts))
        self.text = np.frombuffer(b"".join(bodies), dtype=np.uint8)
        self.end = np.flatnonzero(self.text == ord("\n"))
        self.start = np.concatenate([[0], self.end + 1])[:-1]
        lengths = np.array([body.count(b"\n") for body in bodies])
        self.first_row = np.cumsum(lengths) - lengths
        self.record = np.repeat(np.arange(len(bodies)), lengths)
        commas = np.flatnonzero(self.text == ord(","))
        self.check(
            np.bincount(np.searchsorted(self.end, commas), minlength=len(self.end)) == 2, "HH:MM,Parameter,Value"
        )
        self.comma, self.second_comma = commas.reshape(-1, 2).T

    def check(self, right: NDArray[np.bool_], expected: str) -> None:
        """Raise an error that shows the first row that is not right."""
        if right.all():
            return
        row = int(np.argmin(right))
        record = self.record[row]
        line = bytes(self.text[self.start[row] : self.end[row]])
        _refuse(self.path, self.ids[record], row - self.first_row[record] + 2, line, expected)

    def field(self, start: Integers, end: Integers, width: int) -> Bytes:
        """Characters from ``start`` to ``end`` of each row, filled up with zeros to ``width``."""
        characters = np.zeros((len(start), width), dtype=np.uint8)
        length = end - start
        for column in range(width):
            inside = length > column
            characters[inside, column] = self.text[start[inside] + column]
        return characters

    def hours(self) -> Integers:
        """Hour of each row, 0 … 47."""
        expected = "a time from 00:00 to 48:00 before it"
        self.check(self.comma - self.start == len("HH:MM"), expected)
        zero = ord("0")
        tens, ones, colon, ten_minutes, minutes = (self.text[self.start + column] - zero for column in range(5))
        digits = (
            np.maximum.reduce([tens, ones, ten_minutes, minutes]) <= 9
        )  # smaller characters wrap around to 255
        hour: Integers = 10 * tens.astype(np.int64) + ones
        late = (hour > HOURS) | ((hour == HOURS) & (ten_minutes + minutes > 0))
        self.check(digits & (colon == ord(":") - zero) & (ten_minutes < 6) & ~late, expected)
        hour[hour == HOURS] = HOURS - 1
        return hour

    def choose(self, names: tuple[str, ...]) -> Integers:
        """Which of ``names`` each row is about."""
        width = max(map(len, names))
        known = np.array([name.encode() for name in names], dtype=f"S{width}")
        order = np.argsort(known)
        found = self.field(self.comma + 1, self.second_comma, width).view(f"S{width}")[:, 0]
        place = np.minimum(np.searchsorted(known, found, sorter=order), len(names) - 1)
        chosen = order[place]
        fits = self.second_comma - self.comma - 1 <= width
        self.check(fits & (known[chosen] == found), "a parameter of the challenge")
        return chosen

    def numbers(self) -> NDArray[np.float64]:
        """Value of each row."""
        length = self.end - self.second_comma - 1
        width = int(np.clip(length.max(initial=1), 1, LONGEST))
        characters = self.field(self.second_comma + 1, self.end, width)
        expected = "a number after it"
        self.check(NUMERIC[characters].sum(axis=1) == length, expected)
        cells = characters.view(f"S{width}")[:, 0]
        try:
            value = cells.astype(np.float64)
        except ValueError:  # numpy does not say which
            self.check(np.array([_is_number(cell) for cell in cells]), expected)
            raise
        self.check(np.isfinite(value), expected)
        return value


def _is_number(cell: bytes) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _refuse(path: Path, number: int, line: int, row: bytes, expected: str) -> NoReturn:
    shown = quote(row[:100].decode("utf-8", "replace"), 60)
    raise DataError(f"Line {line} of {number}.txt in {short_path(path)} is {shown}, expected {expected}.")


def _check_ids(rows: StayRows, value: NDArray[np.float64], named: NDArray[np.bool_]) -> None:
    """Each record must tell its own number, once."""
    times = np.bincount(rows.record[named], minlength=len(rows.ids))
    if (times != 1).any():
        wrong = int((times != 1).argmax())
        raise DataError(
            f"{rows.ids[wrong]}.txt in {rows.path} has {times[wrong]} rows RecordID, expected one: fetch it again."
        )
    told = value[named]
    if (told != rows.ids).any():
        wrong = int((told != rows.ids).argmax())
        raise DataError(
            f"{rows.ids[wrong]}.txt in {rows.path} says that it is record {told[wrong]:.0f}: fetch it again."
        )


VARIANTS = ("hourly", "with_static", "published")
ENDINGS = ("", ".tar.xz", ".tar.gz", ".tgz", ".tar", ".zip")
SOURCE = (
    "PhysioNet (Computing in Cardiology Challenge 2012, open to everyone: "
    "https://physionet.org/content/challenge-2012/1.0.0/)"
)
OUTCOME_HEADER = "RecordID,SAPS-I,SOFA,Length_of_stay,Survival,In-hospital_death"
SMALL = 1e-5
ABOVE_0 = float(np.nextafter(0.0, 1.0))

# What a living adult can have, ends included; where the MIMIC-III protocol has a limit (4.4), that one.
RANGES = {
    "Albumin": (ABOVE_0, 10.0),
    "ALP": (ABOVE_0, 10_000.0),
    "ALT": (ABOVE_0, 50_000.0),
    "AST": (ABOVE_0, 50_000.0),
    "Bilirubin": (ABOVE_0, 150.0),
    "BUN": (ABOVE_0, 300.0),
    "Cholesterol": (ABOVE_0, 2_000.0),
    "Creatinine": (ABOVE_0, 150.0),
    "DiasABP": (ABOVE_0, 300.0),
    "FiO2": (0.21, 1.0),
    "GCS": (3.0, 15.0),
    "Glucose": (ABOVE_0, 10_000.0),
    "HCO3": (ABOVE_0, 100.0),
    "HCT": (ABOVE_0, 100.0),
    "HR": (ABOVE_0, 300.0),
    "K": (ABOVE_0, 30.0),
    "Lactate": (ABOVE_0, 50.0),
    "Mg": (ABOVE_0, 60.0),
    "MAP": (ABOVE_0, 300.0),
    "MechVent": (0.0, 1.0),
    "Na": (ABOVE_0, 200.0),
    "NIDiasABP": (ABOVE_0, 300.0),
    "NIMAP": (ABOVE_0, 300.0),
    "NISysABP": (ABOVE_0, 400.0),
    "PaCO2": (ABOVE_0, 250.0),
    "PaO2": (ABOVE_0, 800.0),
    "pH": (6.5, 8.0),
    "Platelets": (ABOVE_0, 10_000.0),
    "RespRate": (ABOVE_0, 70.0),
    "SaO2": (ABOVE_0, 100.0),
    "SysABP": (ABOVE_0, 400.0),
    "Temp": (10.0, 50.0),
    "TroponinI": (ABOVE_0, 1_000.0),
    "TroponinT": (ABOVE_0, 1_000.0),
    "Urine": (0.0, 10_000.0),
    "WBC": (ABOVE_0, 1_000.0),
    "Weight": (20.0, 500.0),
    "Age": (0.0, 120.0),
    "Gender": (0.0, 1.0),
    "Height": (100.0, 250.0),
    "ICUType": (1.0, 4.0),
}
# As the challenge describes them, but for magnesium: it says mmol/L, the values (median 2.0) are those in mg/dL.
UNITS = {
    **dict.fromkeys(("Albumin",), "g/dL"),
    **dict.fromkeys(("ALP", "ALT", "AST"), "IU/L"),
    **dict.fromkeys(("Bilirubin", "BUN", "Cholesterol", "Creatinine", "Glucose", "Mg"), "mg/dL"),
    **dict.fromkeys(("DiasABP", "MAP", "SysABP", "NIDiasABP", "NIMAP", "NISysABP", "PaCO2", "PaO2"), "mmHg"),
    **dict.fromkeys(("HCO3", "Lactate"), "mmol/L"),
    **dict.fromkeys(("HCT", "SaO2"), "%"),
    **dict.fromkeys(("K", "Na"), "mEq/L"),
    **dict.fromkeys(("Platelets", "WBC"), "cells/nL"),
    **dict.fromkeys(("TroponinI", "TroponinT"), "µg/L"),
    "HR": "beats/min",
    "RespRate": "breaths/min",
    "Temp": "°C",
    "Urine": "mL",
    "Weight": "kg",
    "Age": "years",
    "Height": "cm",
}
STATIC = ("Age", "Gender", "Height", "ICUType")
MEASURED = tuple(name for name in RANGES if name not in STATIC)


@dataclass(frozen=True)
class Stays:
    """Stays of one or more sets, not yet scaled: arrays (N,), (N,), (N, 48, 41) and (N, 48, 41)."""

    ids: NDArray[np.int64]
    y: NDArray[np.int64]
    x: NDArray[np.float64]
    observed: NDArray[np.bool_]


@dataset("physionet2012", VARIANTS, needs_files=True)
def load_physionet2012(
    *, root: Path | None = None, variant: str | None = None, fold: int | None = None
) -> Dataset:
    r"""48 hours of 12,000 stays in intensive care; class 1 is death in the hospital.

    The open stand-in for MIMIC-III: the same task on the same kind of data, which anyone may have. Sets a and b
    train (8,000 stays, 554 + 568 deaths), set c tests (4,000, 585 deaths).

    A record lists measurements of 37 parameters at irregular times. A cell of ``x``, (48, 37), is the mean
    :math:`v` of the values of one parameter in one hour after admission, 48:00 being part of the last.
    With mean :math:`\mu` and deviation :math:`\sigma` (divisor :math:`n - 1`) of the parameter over the observed
    cells of all training stays it becomes :math:`(v - \mu) / (\sigma + 10^{-5})`; a cell without a value is 0,
    and ``mask`` is False there.

    Parameters
    ----------
    root : path
        The folder with ``PhysioNet2012``: ``Outcomes-a.txt`` and the records as the folder ``set-a`` or as
        ``set-a.tar.xz``, ``.tar.gz``, ``.tgz``, ``.tar`` or ``.zip``, which are read without unpacking; b and c
        alike.
    variant : {"hourly", "with_static", "published"}, optional
        ``"hourly"`` (the default) as above. ``"with_static"`` has four channels more, 41 in all: age, gender (1:
        male), height and type of unit (1 coronary, 2 cardiac surgery, 3 medical, 4 surgical; one channel, as
        the MIMIC-III protocol codes ethnicity), the same in all hours and not observed where unknown.
        ``"published"`` is ``"hourly"`` with the fault of the released MIMIC-III processing (protocol, section
        4.4): a parameter that was never measured in a stay counts as observed 48 times with the value 0, which
        enters :math:`\mu` and :math:`\sigma` and gives the cell :math:`(0 - \mu) / (\sigma + 10^{-5})`.
    fold : int, optional
        0 … 4: cut the training series by the published rule.

    Notes
    -----
    Nothing is imputed or repaired. Not taken for observations, in any variant:

    * values outside of ``RANGES``, such as -1 for an unknown weight or height, a pressure of 0 or a pH of 735:
      6,955 of 5,223,415 measurements;
    * the 2,403 rows of set c that name no parameter. They repeat the albumin of the same stay, many of them an
      hour off.

    Ten stays have no measurement at all and are kept: ``mask`` is False throughout. ``MechVent`` is 1
    whenever it is recorded, so that it becomes 0 and only ``mask`` tells of it, except in ``"published"``.
    ``ids`` are the record numbers; series are in their order.

    References
    ----------
    .. [1] I. Silva, G. Moody, D. J. Scott, L. A. Celi and R. G. Mark, "Predicting in-hospital mortality of ICU
       patients: the PhysioNet/Computing in Cardiology challenge 2012", Computing in Cardiology 39, 2012.
    """
    variant = choose_variant("physionet2012", variant, VARIANTS)
    train, test = read_stays(root, "ab"), read_stays(root, "c")
    return assemble(train, test, variant).fold(fold)


def read_stays(root: Path | None, sets: str) -> Stays:
    """Read the sets with the given letters, one after the other."""
    parts = [_read_set(root, letter) for letter in sets]
    return Stays(*(np.concatenate([getattr(part, name) for part in parts]) for name in Stays.__dataclass_fields__))


def _read_set(root: Path | None, letter: str) -> Stays:
    name = f"PhysioNet2012/set-{letter}"
    path = locate(root, f"Set {letter} of PhysioNet 2012", [name + ending for ending in ENDINGS], SOURCE)
    outcomes = locate(
        root, f"The outcome of set {letter} of PhysioNet 2012", [f"PhysioNet2012/Outcomes-{letter}.txt"], SOURCE
    )
    died = read_outcomes(outcomes)
    records = read_records(path, tuple(RANGES))
    _check_same_stays(path, records.ids, outcomes, np.array(list(died)))
    x, observed = hourly_means(records)
    return Stays(records.ids, np.array([died[number] for number in records.ids]), x, observed)


def read_outcomes(path: Path) -> dict[int, int]:
    """Which records died in the hospital: 1, else 0."""
    died: dict[int, int] = {}
    where = short_path(path)
    with File(str(path), path.name).text() as file:
        for line, text in enumerate(file, start=1):
            row = text.strip()
            if line == 1:
                if row != OUTCOME_HEADER:
                    raise DataError(f"Line 1 of {where} is {quote(row, 60)}, expected {OUTCOME_HEADER!r}.")
                continue
            fields = row.split(",")
            if len(fields) != 6 or not re.fullmatch("[0-9]{1,18}", fields[0]) or fields[5] not in {"0", "1"}:
                raise DataError(
                    f"Line {line} of {where} is {quote(row, 60)}, expected six numbers with the record first and "
                    "0 or 1 (In-hospital_death) last."
                )
            if int(fields[0]) in died:
                raise DataError(f"Line {line} of {where} is a second one for record {fields[0]}: fetch it again.")
            died[int(fields[0])] = int(fields[5])
    return died


def _check_same_stays(
    path: Path, records: NDArray[np.int64], outcomes: Path, with_outcome: NDArray[np.int64]
) -> None:
    for left, right, text in (
        (records, with_outcome, f"are in {path} and have no line in {outcomes}"),
        (with_outcome, records, f"have a line in {outcomes} and are not in {path}"),
    ):
        alone = np.setdiff1d(left, right)
        if len(alone):
            raise DataError(f"{len(alone)} records, the first of them {alone[0]}, {text}: fetch both again.")


def hourly_means(records: Records) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Mean of the possible values in each (stay, hour, parameter), and whether there was one."""
    low, high = np.array(list(RANGES.values())).T[:, records.parameter]
    possible = (low <= records.value) & (records.value <= high)
    shape = (len(records.ids), HOURS, len(RANGES))
    cell = np.ravel_multi_index((records.record, records.hour, records.parameter), shape)[possible]
    count = np.bincount(cell, minlength=np.prod(shape))
    total = np.bincount(cell, weights=records.value[possible], minlength=np.prod(shape))
    x, observed = (total / np.maximum(count, 1)).reshape(shape), (count > 0).reshape(shape)
    static = np.isin(list(RANGES), STATIC)  # told once, at admission
    x[:, :, static], observed[:, :, static] = x[:, :1, static], observed[:, :1, static]
    return x, observed


def assemble(train: Stays, test: Stays, variant: str) -> Dataset:
    """Choose the channels, decide what counts as observed, and scale both splits by the training stays."""
    names = tuple(RANGES) if variant == "with_static" else MEASURED
    chosen = np.isin(list(RANGES), names)
    observed = [stays.observed[..., chosen] for stays in (train, test)]
    if variant == "published":
        observed = [cells | ~cells.any(axis=1, keepdims=True) for cells in observed]
    mean, deviation = _moments(train.x[..., chosen], observed[0])
    unknown = observed[1].any(axis=(0, 1)) & np.isnan(deviation)
    if unknown.any():
        raise DataError(
            f"{names[int(unknown.argmax())]} of PhysioNet 2012 is in the test set, but fewer than two cells of "
            "the training sets have it: it cannot be scaled. Are sets a and b whole?"
        )
    splits = [
        Series(
            x=torch.from_numpy(np.where(cells, (stays.x[..., chosen] - mean) / (deviation + SMALL), 0)).float(),
            y=torch.from_numpy(stays.y),
            mask=torch.from_numpy(cells),
            ids=torch.from_numpy(stays.ids),
        )
        for stays, cells in zip((train, test), observed, strict=True)
    ]
    known = ~np.isnan(deviation)  # a channel that nobody has needs no scale
    return Dataset(
        name="physionet2012",
        train=splits[0],
        validation=None,
        test=splits[1],
        classes=2,
        channels=names,
        variant=variant,
        centre=torch.from_numpy(np.where(known, mean, 0)),
        scale=torch.from_numpy(np.where(known, deviation + SMALL, 1)),
        units=tuple(UNITS.get(name, "") for name in names),
    )


def _moments(
    x: NDArray[np.float64], observed: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation of each channel's observed cells; nan where there are too few."""
    count = observed.sum(axis=(0, 1))
    with np.errstate(invalid="ignore"):
        mean = x.sum(axis=(0, 1), where=observed) / count
        squares = ((x - mean) ** 2).sum(axis=(0, 1), where=observed)
        return mean, np.sqrt(squares / np.where(count > 1, count - 1, 0))
