"""The ``.ts`` text format of the UEA and UCR archives: ``dimension:dimension:label``, one series per line."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tempograd.core.errors import DataError, quote
from tempograd.core.progress import progress_bar
from tempograd.data.files import File
from tempograd.data.readers.columns import LARGEST, Text, _Floats, missing, parse_number, parse_numbers
from tempograd.data.readers.pivot import Labels, TableContent, as_numbers, observed
from tempograd.data.source import Source


class _Header(NamedTuple):
    """What the lines with @ say: where @data is, whether a label comes last, all classes, how many dimensions."""

    line: int
    labelled: bool = False
    classes: tuple[str, ...] | None = None
    dimensions: int | None = None


def from_ts(path: File, source: Source) -> TableContent:
    """Read a file; dimensions may differ in length, and the shorter ones end in missing values."""
    series: list[list[_Floats]] = []
    labels: list[str] = []
    found_in: list[int] = []
    with path.text() as file, progress_bar(None, f"read {path.where}") as advance:
        text_lines = enumerate(path.lines(file), start=1)
        header = _read_header(path, text_lines)
        dimensions = header.dimensions
        for place, line in text_lines:
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            parts = text.split(":")
            if header.labelled:
                labels.append(parts.pop().strip())
                found_in.append(place)
            if not parts or len(parts) != (dimensions or len(parts)):
                raise _fault(path, place, f"{len(parts)} dimensions instead of {dimensions or 'at least one'}")
            dimensions = len(parts)
            series.append([_values(path, place, part) for part in parts])
            advance(len(line))
    if not series:
        raise DataError(f"{path.where} holds no series after its line @data.")
    lengths = [len(values) for dimensions in series for values in dimensions]
    shape = (len(series), max(lengths), len(series[0]))
    x = np.full(shape, np.nan, np.float32)
    for row, dimensions_of in enumerate(series):
        for channel, values in enumerate(dimensions_of):
            x[row, : len(values), channel] = values
    found = _labels(path, labels, found_in, header, source)
    return observed(path.where, x, channels=source.channels, labels=found)


def _read_header(path: File, text_lines: Iterator[tuple[int, str]]) -> _Header:
    header = _Header(0)
    for place, line in text_lines:
        text = line.strip()
        key, *rest = text.split() or [""]
        if key.lower() == "@data":
            return header._replace(line=place)
        if text and text[0] not in "@#":
            raise _fault(path, place, "a series before the line @data, which must come first")
        header = _said(path, place, header, key.lower(), rest)
    raise DataError(f"{path.where} has no line @data, after which a .ts file holds its series.")


def _said(path: File, line: int, header: _Header, key: str, rest: list[str]) -> _Header:
    """Take in a line of the header; a wrong word there would turn labels into values."""
    if key in {"@classlabel", "@targetlabel"}:
        return header._replace(labelled=_flag(path, line, key, rest), classes=tuple(rest[1:]) or None)
    if key == "@timestamps" and _flag(path, line, key, rest):
        raise _fault(path, line, "values with time stamps are not read: write a long .csv instead")
    if key == "@univariate" and _flag(path, line, key, rest):
        return header._replace(dimensions=1)
    if key in {"@dimension", "@dimensions"}:
        count = rest[0] if len(rest) == 1 else ""
        if not re.fullmatch("[1-9][0-9]{0,17}", count):
            raise _fault(path, line, f"{key} must be a whole number, got {quote(' '.join(rest))}")
        return header._replace(dimensions=int(count))
    return header


def _flag(path: File, line: int, key: str, rest: list[str]) -> bool:
    word = rest[0].lower() if rest else ""
    if word not in {"true", "false"}:
        raise _fault(path, line, f"{key} must be true or false, got {quote(word)}")
    return word == "true"


def _values(path: File, line: int, part: str) -> _Floats:
    cells = part.replace("?", "nan").split(",")
    values = None if "" in cells else parse_numbers(cells)
    if values is None:
        wrong = next(
            cell for cell in cells if not cell.strip() or not (missing(cell) or parse_number(cell) is not None)
        )
        raise _fault(path, line, f"{quote(wrong.strip())} is no number")
    for value in values[np.abs(values) > LARGEST]:
        raise _fault(path, line, f"{value:g} is no finite number in single precision")
    return values


def _labels(path: File, labels: list[str], lines: list[int], header: _Header, source: Source) -> Labels | None:
    if not header.labelled or not source.labels:
        return None
    classes = source.classes
    if classes is None and header.classes:  # by value where they are numbers, else by letters
        classes = tuple(sorted(header.classes, key=None if None in map(parse_number, header.classes) else float))
    found = Text.of(labels)
    values, names = as_numbers(
        found.texts,
        classes,
        path.where,
        lambda code, what: _fault(path, lines[found.row(code)], what),
        declared=source.classes is None,
    )
    return Labels(values[found.codes], names)


def _fault(path: File, line: int, what: str) -> DataError:
    return DataError(f"{path.where}, line {line}: {what}.")
