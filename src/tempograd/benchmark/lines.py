"""In which line of a TOML text a key or an entry stands: ``tomllib`` tells that of syntax errors only."""

import re
import tomllib
from bisect import bisect_right

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
