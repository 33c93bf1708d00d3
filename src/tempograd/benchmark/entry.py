"""Values of a plan that know in which file and line they stand, so that every complaint can say it."""

import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from tempograd.benchmark.lines import KeyPath, key_lines
from tempograd.data.files import reading
from tempograd.errors import LONGEST, DataError, UnknownNameError, one_line, short_path

LARGEST = 100_000  # bytes of a plan


@dataclass(frozen=True, eq=False)
class Entry:
    """A value of a plan.

    Parameters
    ----------
    value : object
        What ``tomllib`` read.
    path : Path
        The file.
    keys : tuple
        Where in the file.
    lines : mapping
        From :func:`~tempograd.benchmark.lines.key_lines`.
    """

    value: Any
    path: Path
    keys: KeyPath = ()
    lines: Mapping[KeyPath, int] = field(default_factory=dict, repr=False)

    @property
    def line(self) -> int:
        """Return the line; what is missing is missed where the table around it begins."""
        around = (self.keys[:size] for size in range(len(self.keys), 0, -1))
        return next((self.lines[keys] for keys in around if keys in self.lines), 1)

    @property
    def where(self) -> str:
        """Say the file and the line."""
        return f"{short_path(self.path)}, line {self.line}"

    def wrong(self, sentence: object) -> DataError:
        """Return the error to raise."""
        return DataError(f"{self.where}: {one_line(str(sentence), LONGEST - len(self.where) - 2)}")

    def must(self, expected: str) -> DataError:
        """Return the error to raise for a value of the wrong type or size."""
        last = self.keys[-1] if self.keys else "a plan"
        name = last if isinstance(last, str) else f"An entry of {self.keys[-2]}"
        return self.wrong(f"{name} must be {expected}, got {self._shown}.")

    @property
    def _shown(self) -> str:
        """Write the value as a plan has it, as far as there is room."""
        try:
            return one_line(json.dumps(self.value, default=str), 60)
        except (ValueError, RecursionError):  # more digits, or a deeper table, than Python writes
            return "something else"

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.must("a text")
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.must("true or false")
        return self.value

    def whole(self, least: int | None = None, most: int | None = None) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            raise self.must("an integer")
        if abs(self.value) >= 2**63:
            raise self.must("an integer of 64 bits")
        if least is not None and self.value < least:
            raise self.must(f"at least {least}" if most is None else f"an integer from {least} to {most}")
        if most is not None and self.value > most:
            raise self.must(f"an integer from {least} to {most}")
        return self.value

    def number(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self.must("a number")
        try:
            value = float(self.value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise self.must("a finite number")
        return value

    def choice(self, kind: str, known: Iterable[str]) -> str:
        """Return one of the known names."""
        known = list(known)
        if self.text() not in known:
            raise self.wrong(UnknownNameError(kind, self.value, known))
        return self.text()

    def items(self) -> list["Entry"]:
        """Return the entries of a list, which must have some."""
        if not isinstance(self.value, list):
            raise self.must("a list")
        if not self.value:
            raise self.must("a list with at least one entry")
        return [self._inner(position, value) for position, value in enumerate(self.value)]

    def table(self, kind: str, known: Iterable[str], required: Iterable[str] = ()) -> dict[str, "Entry"]:
        """Return the entries of a table whose keys are known."""
        if not isinstance(self.value, dict):
            raise self.must("a table")
        known = list(known)
        for key in self.value:
            if key not in known:
                raise self._inner(key, None).wrong(UnknownNameError(kind, key, known))
        for key in required:
            if key not in self.value:
                raise self.wrong(f"{key} is missing: write it here.")
        return {key: self._inner(key, value) for key, value in self.value.items()}

    def spelt_out(self, key: str) -> "Entry":
        """Return the table that a mere name is short for."""
        value = {key: self.value} if isinstance(self.value, str) else self.value
        return Entry(value, self.path, self.keys, self.lines)

    def typed(self, annotation: Any) -> Any:
        """Return the value if it fits the type of a field, lists as tuples."""
        kinds = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
        kind = next(kind for kind in kinds if kind is not NoneType)
        if get_origin(kind) is tuple:
            return tuple(item.typed(get_args(kind)[0]) for item in self.items())
        return {int: self.whole, float: self.number, bool: self.flag, str: self.text}[kind]()

    def blamed(self, inner: Mapping[str, "Entry"], error: Exception) -> DataError:
        """Return the error to raise when values are refused together, at the one that the error talks about."""
        named = (entry for key, entry in inner.items() if re.search(rf"\b{re.escape(key)}\b", str(error)))
        return next(named, self).wrong(error)

    def _inner(self, key: str | int, value: Any) -> "Entry":
        return Entry(value, self.path, (*self.keys, key), self.lines)


def read_document(path: Path) -> Entry:
    """Read a TOML file."""
    where = short_path(path)
    try:
        with reading(path):
            content = path.read_bytes()
        if len(content) > LARGEST:
            raise DataError(f"{where} has {len(content)} bytes, too many for a plan.")
        text = content.decode("utf-8-sig")
        return Entry(tomllib.loads(text), path, (), key_lines(text))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DataError(f"{where}, line {line}: this is no UTF-8 text.") from error
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).partition(" (at ")
        found = re.match(r"line (\d+)", place)
        line = int(found[1]) if found else len(text.rstrip().splitlines())  # the end of the file
        raise DataError(f"{where}, line {line}: this is no TOML: {one_line(what, 90)}.") from error
    except RecursionError:
        raise DataError(f"{where} is nested too deeply to be a plan.") from None
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{where} holds a number or a date beyond all bounds: {one_line(str(error), 90)}."
        ) from error
