"""Values of a plan that know in which file and line they stand, so that every complaint can say it."""

import json
import math
import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from tempograd.core.errors import LONGEST, DataError, UnknownNameError, one_line, short_path
from tempograd.data.files import reading
from tempograd.explainers import EXPLAINERS
from tempograd.metrics import METRICS

# In which line of a TOML text a key or an entry stands: ``tomllib`` tells that of syntax errors only.

KeyPath = tuple[str | int, ...]
"""Keys and positions from the top of a file to a value, for instance ``("explainers", 2, "method")``."""

DEEPEST = 100
GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
STRING = re.compile(
    r'"""(?:\\.|[^\\])*?""""{0,2}'  # a string of several lines may end in up to two quotes of its own
    r"|'''.*?''''{0,2}"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
BARE_VALUE = re.compile(r"[^,\]}\n#]+")


def key_lines(text: str) -> dict[KeyPath, int]:
    r"""Return the line of every key and of every entry of a list, the first line being 1.

    Parameters
    ----------
    text : str
        What ``tomllib`` can read; nothing is checked here.

    Examples
    --------
    >>> lines = key_lines('seed = 1\n[[explainers]]\nmethod = "timing"\n[[explainers]]\nmethod = "lime"')
    >>> lines["seed",], lines["explainers", 1, "method"]
    (1, 5)
    """
    return _Walk(text).lines


class _Walk:
    """One pass over a text, from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.ends = [match.start() for match in re.finditer("\n", text)]
        self.lines: dict[KeyPath, int] = {}
        self.tables: dict[KeyPath, int] = {}  # [[headers]] so far
        inside: KeyPath = ()
        while self._next():
            inside = self._header() if self._next() == "[" else self._pair(inside)

    def _next(self) -> str:
        """Go to the next thing that is neither blank nor comment, and return its first character."""
        self.at = self._match(GAP).end()
        return self.text[self.at : self.at + 1]

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise ValueError(f"This is no TOML: {self.text[self.at : self.at + 20]!r}.")
        return found

    def _line(self) -> int:
        return bisect_right(self.ends, self.at - 1) + 1

    def _header(self) -> KeyPath:
        """Read ``[a.b]`` or ``[[a.b]]`` and return where the pairs below it belong."""
        path: KeyPath = ()
        line, brackets = self._line(), 2 if self.text.startswith("[[", self.at) else 1
        self.at += brackets
        names = self._key()
        self.at += brackets
        for position, name in enumerate(names, 1):
            path = self._deeper(path, name, line)
            if brackets == 2 and position == len(names):
                self.tables[path] = self.tables.get(path, 0) + 1
            if path in self.tables:
                path = self._deeper(path, self.tables[path] - 1, line)
        return path

    def _pair(self, inside: KeyPath) -> KeyPath:
        """Read ``a.b = value``, and return where the next pair belongs."""
        line, path = self._line(), inside
        for name in self._key():
            path = self._deeper(path, name, line)
        self.at += 1  # the equals sign
        self._value(path)
        return inside

    def _deeper(self, path: KeyPath, key: str | int, line: int) -> KeyPath:
        if len(path) == DEEPEST:  # every key keeps its whole path
            raise RecursionError
        self.lines.setdefault((*path, key), line)
        return (*path, key)

    def _key(self) -> list[str]:
        """Read the parts of a dotted key and stop at what follows it."""
        names = []
        while True:
            quoted = self._next() in {'"', "'"}
            part = self._match(STRING if quoted else BARE_KEY)
            self.at = part.end()
            names.append(tomllib.loads(f"key = {part[0]}")["key"] if quoted else part[0])
            if self._next() != ".":
                return names
            self.at += 1

    def _value(self, path: KeyPath) -> None:
        first = self._next()
        if first not in {"[", "{"}:
            self.at = self._match(STRING if first in {'"', "'"} else BARE_VALUE).end()
            return
        self.at += 1
        position = 0
        while (sign := self._next()) not in {"]", "}"}:
            if sign == ",":
                self.at += 1
            elif first == "{":
                self._pair(path)
            else:
                self._value(self._deeper(path, position, self._line()))
                position += 1
        self.at += 1


Name = TypeVar("Name", bound=str)
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
        From :func:`~tempograd_paper.runner.entry.key_lines`.
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

    def choice(self, kind: str, known: Iterable[Name]) -> Name:
        """Return one of the known names."""
        names = {str(name): name for name in known}
        if self.text() not in names:
            raise self.wrong(UnknownNameError(kind, self.value, names, short=EXPLAINERS.short | METRICS.short))
        return names[self.text()]

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
        kinds = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
        kind = next(kind for kind in kinds if kind is not NoneType)
        if get_origin(kind) is tuple:
            return tuple(item.typed(get_args(kind)[0]) for item in self.items())
        if get_origin(kind) is Literal:
            return self.text()  # the settings check the word themselves
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
