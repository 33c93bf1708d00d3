"""The ``.ts`` text format of the UEA and UCR archives: ``dimension:dimension:label``, one series per line."""

from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from tempograd.data._files import open_text
from tempograd.data.own.assemble import Arrays
from tempograd.data.own.labels import Labels, as_numbers
from tempograd.data.own.numbers import number, numbers
from tempograd.data.own.roles import Asked
from tempograd.data.own.table import LARGEST, Coder, Floats, missing
from tempograd.errors import DataError
from tempograd.progress import progress


class _Header(NamedTuple):
    """What the lines with @ say: the number of the @data line, whether a label comes last, and all classes."""

    line: int
    labelled: bool
    classes: tuple[str, ...] | None


def from_ts(path: Path, asked: Asked) -> Arrays:
    """Read a file; dimensions may differ in length, and the shorter ones end in missing values."""
    series: list[list[Floats]] = []
    labels: list[str] = []
    lines: list[int] = []
    with open_text(path) as file, progress(path.stat().st_size, f"read {path.name}") as advance:
        header = _read_header(path, file)
        for place, line in enumerate(file, start=header.line + 1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            parts = text.split(":")
            if header.labelled:
                labels.append(parts.pop().strip())
                lines.append(place)
            if not parts or (series and len(parts) != len(series[0])):
                wanted = len(series[0]) if series else "at least one"
                raise _fault(path, place, f"{len(parts)} dimensions instead of {wanted}")
            series.append([_values(path, place, part) for part in parts])
            advance(len(line))
    if not series:
        raise DataError(f"{path} holds no series after its line @data.")
    length = max(len(values) for dimensions in series for values in dimensions)
    x = np.full((len(series), length, len(series[0])), np.nan)
    for row, dimensions in enumerate(series):
        for channel, values in enumerate(dimensions):
            x[row, : len(values), channel] = values
    return Arrays(x, asked.channels, None, None, _labels(path, labels, lines, header, asked))


def _read_header(path: Path, file: TextIO) -> _Header:
    labelled, classes = False, None
    for place, line in enumerate(file, start=1):
        text = line.removeprefix("\ufeff").strip()
        key, *rest = text.split() or [""]
        if key.lower() == "@data":
            return _Header(place, labelled, classes)
        if key.lower() in {"@classlabel", "@targetlabel"}:
            labelled = bool(rest) and rest[0].lower() == "true"
            classes = tuple(rest[1:]) or None
        if key.lower() == "@timestamps" and rest and rest[0].lower() == "true":
            raise _fault(path, place, "values with time stamps are not read: write a long .csv instead")
        if text and text[0] not in "@#":
            raise _fault(path, place, "a series before the line @data, which must come first")
    raise DataError(f"{path} has no line @data, after which a .ts file holds its series.")


def _values(path: Path, line: int, part: str) -> Floats:
    cells = part.replace("?", "nan").split(",")
    values = None if "" in cells else numbers(cells)
    if values is None:
        wrong = next(cell for cell in cells if not cell.strip() or not (missing(cell) or _is_number(cell)))
        raise _fault(path, line, f"{wrong.strip()!r} is no number")
    for value in values[np.abs(values) > LARGEST]:
        raise _fault(path, line, f"{value:g} is no finite number in single precision")
    return values


def _is_number(cell: str) -> bool:
    return number(cell) is not None


def _labels(path: Path, labels: list[str], lines: list[int], header: _Header, asked: Asked) -> Labels | None:
    if not header.labelled or not asked.labels:
        return None
    coder = Coder()
    codes = coder.codes(labels)
    distinct = list(coder)
    values, names = as_numbers(
        distinct,
        asked.classes or _ordered(header.classes),
        str(path),
        lambda code, what: _fault(path, lines[labels.index(distinct[code])], what),
    )
    return Labels(values[codes], names)


def _ordered(classes: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Sort all classes that a header names: by value where they are numbers, else by letters."""
    if classes is None:
        return None
    return tuple(sorted(classes, key=float if all(map(_is_number, classes)) else None))


def _fault(path: Path, line: int, what: str) -> DataError:
    return DataError(f"{path}, line {line}: {what}.")
