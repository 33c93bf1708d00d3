"""The text files of the PhysioNet 2012 challenge, out of a folder or an archive, as columns of numbers."""

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
from numpy.typing import NDArray

from tempograd.errors import DataError, one_line, quote, short_path

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
    rows = Rows(path, texts)
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


class Rows:
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


def _check_ids(rows: Rows, value: NDArray[np.float64], named: NDArray[np.bool_]) -> None:
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
