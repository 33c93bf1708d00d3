"""Settings with their bounds: declared once, beside the default, and checked by one function.

A field of an explainer or a metric is written ``points: int = whole(50, least=1)``. What it may hold lies in the
field's metadata, where checks, help and documentation find it (:func:`rules`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np

from tempograd._utils import validation
from tempograd.errors import InputError, SettingError, brief

LARGEST = 10_000_000  # of counts: beyond, memory ends long before the work does
LONGEST = 100  # characters of a text, which messages repeat
KEY = "setting"


class Rule(Protocol):
    """What a setting may hold; its text says so in words."""

    def check(self, value: Any, name: str) -> Any:
        """Return the value as plain Python data, or raise one sentence."""


@dataclass(frozen=True)
class Whole:
    """Integers between two bounds."""

    least: int
    most: int

    def check(self, value: Any, name: str) -> int:
        """Return a Python integer."""
        return validation.whole(value, name, self.least, self.most)

    def __str__(self) -> str:
        return f"an integer of at least {self.least}"


@dataclass(frozen=True)
class Number:
    """Finite numbers between two bounds, which are included where they are ``closed``."""

    low: float
    high: float
    closed: tuple[bool, bool]

    def check(self, value: Any, name: str) -> int | float:
        """Return a Python number."""
        found = validation.real(value, name)
        inside = self.low <= found if self.closed[0] else self.low < found
        inside &= found <= self.high if self.closed[1] else found < self.high
        if not (inside and math.isfinite(found)):
            raise SettingError(f"{name} must {self._bounds()}, got {brief(value)}.")
        return value.item() if isinstance(value, np.generic) else value  # type: ignore[no-any-return]

    def _bounds(self) -> str:
        low, high = f"{self.low:g}", f"{self.high:g}"
        if math.isinf(self.high):
            if self.closed[0] and self.low == 0:
                return "be finite and not negative"
            return f"be a finite number {'of at least' if self.closed[0] else 'above'} {low}"
        if all(self.closed):
            return f"lie between {low} and {high}"
        least, most = "at least" if self.closed[0] else "above", "at most" if self.closed[1] else "below"
        return f"be {least} {low} and {most} {high}"

    def __str__(self) -> str:
        return f"a number that must {self._bounds()}"


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def check(self, value: Any, name: str) -> bool:
        """Return a Python bool."""
        return validation.flag(value, name, SettingError)

    def __str__(self) -> str:
        return "True or False"


@dataclass(frozen=True)
class Choice:
    """One of a few words."""

    known: tuple[str, ...]

    def check(self, value: Any, name: str) -> str:
        """Return the word."""
        validation.one_of(value, name, self.known, SettingError)
        return str(value)

    def __str__(self) -> str:
        return " or ".join(map(repr, self.known))


@dataclass(frozen=True)
class Text:
    """Any text, such as the name of a layer."""

    what: str

    def check(self, value: Any, name: str) -> str:
        """Return the text."""
        if not isinstance(value, str) or len(value) > LONGEST or not value.isprintable():
            raise SettingError(f"{name} must be {self.what}, got {brief(value)}.")
        return str(value)

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True)
class Shares:
    """Increasing shares above 0 and at most 1."""

    def check(self, value: Any, name: str) -> tuple[float, ...]:
        """Return them as a tuple."""
        if isinstance(value, np.ndarray) and value.ndim == 1:
            value = value.tolist()
        if not isinstance(value, (tuple, list)):
            raise SettingError(f"{name} must be a tuple of shares, got {brief(value)}.")
        found = tuple(validation.real(part, f"each of {name}") for part in value)
        # written so that NaN is refused too
        if not found or not all(a < b for a, b in zip((0.0, *found), found, strict=False)):
            raise SettingError(f"{name} must be increasing shares above 0, got {brief(found)}.")
        if found[-1] > 1:
            raise SettingError(f"{name} must not be above 1, got {brief(found[-1])}.")
        return found

    def __str__(self) -> str:
        return "increasing shares above 0 and at most 1"


@dataclass(frozen=True)
class Amount:
    """How many cells: a count, or a share of the observed ones."""

    def check(self, value: Any, name: str) -> int | float:
        """Return a Python number; integers are counts."""
        plain = value.item() if isinstance(value, (np.integer, np.floating)) else value
        if isinstance(plain, int) and not isinstance(plain, bool) and plain >= 1:
            return plain
        if isinstance(plain, float) and 0 < plain <= 1:
            return plain
        raise InputError(f"{name} must be a count of at least 1 or a share in (0, 1], got {brief(value)}.")

    def __str__(self) -> str:
        return "a count of at least 1 or a share in (0, 1]"


@dataclass(frozen=True)
class Optional:
    """None, or what another rule allows."""

    rule: Rule

    def check(self, value: Any, name: str) -> Any:
        """Return None or the checked value."""
        return None if value is None else self.rule.check(value, name)

    def __str__(self) -> str:
        return f"{self.rule}, or None"


def whole(default: int | None, *, least: int = 1, most: int = LARGEST, optional: bool = False) -> Any:
    """Declare a setting that is an integer; it may be None where it is by default."""
    return _declared(default, Whole(least, most), optional=optional)


def number(
    default: float | None,
    *,
    low: float = 0.0,
    high: float = math.inf,
    closed: tuple[bool, bool] = (True, True),
    optional: bool = False,
) -> Any:
    """Declare a setting that is a finite number from ``low`` to ``high``, both allowed where ``closed``."""
    return _declared(default, Number(low, high, closed), optional=optional)


def positive(default: float | None, *, optional: bool = False) -> Any:
    """Declare a setting that is a finite number above 0."""
    return number(default, closed=(False, True), optional=optional)


def flag(default: bool) -> Any:
    """Declare a setting that is True or False."""
    return _declared(default, Flag())


def choice(default: str, known: Sequence[str]) -> Any:
    """Declare a setting that is one of a few words."""
    return _declared(default, Choice(tuple(known)))


def text(default: str | None, what: str) -> Any:
    """Declare a setting that is a text; ``what`` says of which kind."""
    return _declared(default, Text(what))


def shares(default: tuple[float, ...]) -> Any:
    """Declare a setting that is a tuple of increasing shares."""
    return _declared(default, Shares())


def amount(default: int | float | None) -> Any:
    """Declare a setting that is a count or a share of cells."""
    return _declared(default, Amount())


def _declared(default: Any, rule: Rule, *, optional: bool = False) -> Any:
    return field(default=default, metadata={KEY: Optional(rule) if optional or default is None else rule})


def rules(kind: Any) -> dict[str, Rule]:
    """Return what the settings of a class, or of one of its objects, may hold, by their names.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Method:
    ...     points: int = whole(50)
    ...     rule: str = choice("midpoint", ("midpoint", "simpson"))
    >>> for name, rule in rules(Method).items():
    ...     print(f"{name}: {rule}")
    points: an integer of at least 1
    rule: 'midpoint' or 'simpson'
    """
    return {part.name: part.metadata[KEY] for part in fields(kind) if KEY in part.metadata}


def check(owner: Any) -> None:
    """Check all declared settings of an object, and put plain Python data in their places.

    So that numbers of numpy are saved, compared and printed like those of Python.
    """
    for name, rule in rules(owner).items():
        object.__setattr__(owner, name, rule.check(getattr(owner, name), name))
