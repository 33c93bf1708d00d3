"""Every error and warning this library raises on purpose, and values as their messages show them."""

import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from os import PathLike, fspath
from reprlib import Repr
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from tempograd.core.findings import Finding

T = TypeVar("T")
WIDTH = 60  # characters of a message that a value may take
LONGEST = 300  # characters of a message, which people read in a terminal
FIGURES = re.compile(r"\d+(?:[.,]\d+)*")


class TempogradError(Exception):
    r"""Base class, so that callers can catch everything raised on purpose; its message is always one line.

    Attributes
    ----------
    finding : Finding
        What was refused: its code, by default that of the class, and the sentence with its arguments marked.

    Examples
    --------
    >>> print(TempogradError("There is no channel a\nb."))
    There is no channel a\nb.
    >>> InputError("x is empty.", code="series.empty").code
    'series.empty'
    """

    default_code: ClassVar[str] = "error"

    def __init__(self, message: object = "", *, code: str | None = None, **data: object) -> None:
        from tempograd.core.findings import Finding  # noqa: PLC0415  # dataclasses, which help does not need

        self.finding = Finding(code or self.default_code, "refusal", data, one_line(str(message), None))
        super().__init__(self.finding.say())

    @property
    def code(self) -> str:
        """Return the code of the finding."""
        return self.finding.code

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep what was said, for other processes: subclasses make their message from other arguments."""
        return type(self).__new__, (type(self),), {**vars(self), "args": self.args}


class InputError(TempogradError, ValueError):
    """An argument has the wrong shape, type or value."""

    default_code = "input"


class SettingError(TempogradError, ValueError):
    """The hyper-parameters of a method do not fit each other or the series."""

    default_code = "setting"


class ModelError(TempogradError, ValueError):
    """The model returned something that cannot be explained."""

    default_code = "model"


class DataError(TempogradError, ValueError):
    """A file is missing, damaged or in a format that cannot be read."""

    default_code = "data"


class OutputError(TempogradError, OSError):
    """A file cannot be written, or must not be."""

    default_code = "output"


class MissingExtraError(TempogradError, ImportError):
    """An optional package is not installed."""

    default_code = "extra"

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"This needs {package}: pip install 'tempograd[{extra}]'.")


class UnknownNameError(TempogradError, KeyError):
    """A name is in no registry; ``short`` tells what people call known names for short, for the hint."""

    default_code = "name"

    def __init__(
        self,
        kind: str,
        name: object,
        known: Iterable[str],
        longest: int = LONGEST,
        short: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        known = sorted(known)
        plain = name[:LONGEST].lower().replace("-", "_").replace(" ", "_") if isinstance(name, str) else ""
        lowered = {entry.lower(): entry for entry in known}
        meant = short[plain] if short.get(plain) in known else lowered.get(closest(plain, list(lowered)) or "")
        hint = "" if meant is None else f" Did you mean {quote(meant)}?"
        start = f"No {kind} is called {quote(name) if isinstance(name, str) else brief(name)}.{hint}"
        names = f"Known names: {listed(known, longest - len(start) - 30)}." if known else "There is none."
        super().__init__(f"{start} {names}")

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0])


class TempogradWarning(UserWarning):
    """Something works, but not as well as it could; the text says how to improve it.

    Attributes
    ----------
    finding : Finding
        What it is about, which says itself in the words of Python and of the command line.
    """

    def __init__(self, finding: "Finding | str" = "") -> None:
        from tempograd.core.findings import Finding  # noqa: PLC0415  # dataclasses, which help does not need

        self.finding = finding if isinstance(finding, Finding) else Finding("warning", "warning", text=finding)
        super().__init__(self.finding.say())


class WarningCounts:
    r"""Warnings that were counted instead of said: what the first of each kind said, and how many there were.

    Two warnings are of one kind where they differ in figures alone, such as the number of series. Arguments in
    them stay marked until it is known who reads them.

    Examples
    --------
    >>> counts = WarningCounts({"12 cells are rarely free.": 3})
    >>> counts.update({"7 cells are rarely free.": 1, "The model draws.": 2})
    >>> print(*counts.lines(), sep="\n")
    12 cells are rarely free. (4 times)
    The model draws. (2 times)
    """

    def __init__(self, counts: Mapping[str, int] = MappingProxyType({})) -> None:
        self._kinds: dict[str, tuple[str, int]] = {}
        self.update(counts)

    def update(self, counts: Mapping[str, int]) -> None:
        """Count warnings, each so many times."""
        for message, times in counts.items():
            kind = FIGURES.sub("#", message)
            first, before = self._kinds.get(kind, (message, 0))
            self._kinds[kind] = first, before + times

    def plain(self) -> dict[str, int]:
        """Return how often each was said, in the order in which they came first."""
        return dict(self._kinds.values())

    def lines(self) -> list[str]:
        """Return one line for each."""
        return [text if times == 1 else f"{text} ({times:,} times)" for text, times in self.plain().items()]

    def say(self) -> None:
        """Warn of each once."""
        for line in self.lines():
            warn(line)


@contextmanager
def held(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Let a variable have a value inside the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


_counting: ContextVar[WarningCounts | None] = ContextVar("tempograd_warnings", default=None)


@contextmanager
def counted_warnings() -> Iterator[WarningCounts]:
    """Count the warnings of this library in this thread, none of which is said meanwhile.

    Warnings of others come as ever, and nothing is said at the end: :meth:`WarningCounts.say` does that.

    Examples
    --------
    >>> with counted_warnings() as counts:
    ...     for cells in (3, 5):
    ...         warn(f"{cells} cells are rarely free.")
    >>> counts.plain()
    {'3 cells are rarely free.': 2}
    """
    counts = WarningCounts()
    with held(_counting, counts):
        yield counts


def are_counted() -> bool:
    """Tell whether warnings are counted here, and said later."""
    return _counting.get() is not None


_collecting: "ContextVar[list[Finding] | None]" = ContextVar("tempograd_findings", default=None)


def collect_findings() -> "list[Finding]":
    """Return an empty list, which what is noted in this thread goes to until the next such list."""
    findings: list[Finding] = []
    _collecting.set(findings)
    return findings


def note(finding: "Finding") -> None:
    """Put a finding on the list of the explanation that is being made, once."""
    findings = _collecting.get()
    if findings is not None and finding not in findings:
        findings.append(finding)


def warn(message: "str | Finding", **data: object) -> None:
    """Warn at the line that called the library, however deep inside it this is; the explanation keeps it too.

    ``message`` is a finding, the code of a row of :data:`tempograd.core.findings.SAYS` with its ``data``, or a
    sentence.
    """
    from tempograd.core.findings import SAYS, Finding  # noqa: PLC0415  # dataclasses, which help does not need

    if isinstance(message, Finding):
        finding = message
    elif message in SAYS:
        finding = Finding(message, "warning", data)
    else:
        finding = Finding("warning", "warning", data, one_line(message, None))
    note(finding)
    counts = _counting.get()
    if counts is not None:
        counts.update({one_line(finding.text, None): 1})
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("tempograd."):
        level, frame = level + 1, frame.f_back
    warnings.warn(TempogradWarning(finding), stacklevel=level)


def silenced() -> AbstractContextManager[object]:
    """Let the block warn of nothing, since what there is to say was said."""
    return warnings.catch_warnings(action="ignore", category=TempogradWarning)


def closest(word: str, known: Sequence[str]) -> str | None:
    """Return the known word that was probably meant; two neighbours that changed places are the likeliest slip.

    Examples
    --------
    >>> closest("cdp", ["cpp", "cpd"]), closest("eval", ["explain", "evaluate"]), closest("dance", ["demo"])
    ('cpd', 'evaluate', None)
    """
    from difflib import get_close_matches  # noqa: PLC0415  # a third of what this module takes to import

    word = word[:LONGEST]
    swapped = {word[:place] + word[place : place + 2][::-1] + word[place + 2 :] for place in range(len(word) - 1)}
    return next(iter([*(name for name in known if name in swapped), *get_close_matches(word, known, n=1)]), None)


def one_line(text: str, most: int | None = 30) -> str:
    r"""Write a text of anybody's in a message: in one line, cut where it is long, nothing that steers a terminal.

    None cuts nothing.

    Examples
    --------
    >>> one_line("bed 7"), one_line("a\x1b[31m\n"), one_line("x" * 1000, most=6)
    ('bed 7', 'a\\x1b[31m\\n', 'xxxxx…')
    """
    short = text if most is None else text[: most + 1]
    if not short.isprintable():
        short = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in short)
    return short if most is None or len(short) <= most else f"{short[: most - 1]}…"


def printable(value: Any) -> Any:
    r"""Return names as they may be shown: a space in the place of whatever steers a terminal.

    Lists, tuples and mappings of texts are gone through; where there is nothing to change, they stay themselves.

    Examples
    --------
    >>> printable("heart\trate"), printable(("bed 7", "\x1b[31mbed 8"))
    ('heart rate', ('bed 7', ' [31mbed 8'))
    """
    if isinstance(value, str):
        return value if value.isprintable() else "".join(sign if sign.isprintable() else " " for sign in value)
    if isinstance(value, dict):
        return {printable(name): printable(part) for name, part in value.items()}
    if not isinstance(value, (list, tuple)):
        return value
    with suppress(TypeError):  # more than texts
        if "".join(value).isprintable():  # at once, since there may be very many
            return value
    parts = [printable(part) for part in value]
    return value if all(new is old for new, old in zip(parts, value, strict=True)) else type(value)(parts)


def quote(text: object, most: int = 30) -> str:
    """Quote a text of anybody's, or write another value as Python does.

    Examples
    --------
    >>> print(quote("bed 7"), quote("x" * 1000, most=6), quote(None))
    'bed 7' 'xxxxx…' None
    """
    return f"'{one_line(text, most)}'" if isinstance(text, str) else one_line(repr(text), most)


def short_path(path: "str | PathLike[str]", most: int = 80) -> str:
    """Write a path in a message, the end of it where it is long.

    Examples
    --------
    >>> short_path("data/ward.csv"), short_path("/home/somebody/measurements/2026/ward.csv", most=18)
    ('data/ward.csv', '…nts/2026/ward.csv')
    """
    text = str(fspath(path))
    return one_line(text if len(text) <= most else f"…{text[len(text) - most + 1 :]}", most)


def listed(names: Iterable[object], most: int = 90) -> str:
    """List names in a message, the first of them where there are many.

    Examples
    --------
    >>> listed(["a", "b"]), listed((f"t{step}" for step in range(5000)), most=14)
    ('a, b', 't0, t1, t2, t3, … (5000)')
    """
    texts = [one_line(str(name), 30) for name in names]
    shown, size = 0, 0
    while shown < len(texts) and (size := size + len(texts[shown]) + 2) <= most + 2:
        shown += 1
    return ", ".join([*texts[:shown], *([f"… ({len(texts)})"] if shown < len(texts) else [])])


class _Short(Repr):
    """Python's own way to shorten values, with arrays in lists as shapes."""

    def repr1(self, x: Any, level: int) -> str:
        return _array(x) or super().repr1(x, level)


_SHORT = _Short()
_SHORT.maxlevel = 2
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = _SHORT.maxfrozenset = _SHORT.maxdict = _SHORT.maxdeque = 4
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = WIDTH


def brief(value: Any) -> str:
    """Describe a value on one line, in at most about 60 characters.

    Examples
    --------
    >>> import numpy as np
    >>> print(brief(0.5), brief("rule"), brief(np.float64(0.5)), brief(None), sep=", ")
    0.5, 'rule', 0.5, None
    >>> print(brief(list(range(1000))), brief(np.zeros((2, 3))), sep=", ")
    [0, 1, 2, 3, ...], an ndarray of shape (2, 3) and float64
    >>> print(brief([np.zeros(2)]))
    [an ndarray of shape (2,) and float64]
    """
    try:
        text = _array(value) or _SHORT.repr(value.item() if type(value).__module__ == "numpy" else value)
    except Exception:  # whatever a foreign object does when it is asked to show itself
        text = " at 0x"
    if not isinstance(value, str) and " at 0x" in text:  # an address tells nobody anything
        text = f"an object of class {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def _array(value: Any) -> str:
    """Describe what has a shape and axes; nothing for anything else."""
    shape = getattr(value, "shape", None)
    if isinstance(value, type) or not isinstance(shape, tuple):
        return ""
    if not shape and not hasattr(value, "requires_grad"):  # a number, unless it is a tensor
        return ""
    kind, dtype = type(value).__name__, str(getattr(value, "dtype", "")).removeprefix("torch.")
    article = "an" if kind[:1].lower() in "aeiou" or kind == "ndarray" else "a"
    return f"{article} {kind} of shape {tuple(map(int, shape))}{f' and {dtype}' if dtype else ''}"
