"""Settings with their bounds: declared once, beside the default, and checked by one function.

A field of an explainer or a metric is written ``n_samples: int = integer(50, least=1)``. What it may hold lies
in the field's metadata, where checks find it (:func:`rules`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, get_args

import numpy as np

from tempograd.core import validation
from tempograd.core.errors import InputError, SettingError, brief

LARGEST = 10_000_000  # of counts: beyond, memory ends long before the work does
LONGEST = 100  # characters of a text, which messages repeat
KEY = "setting"
_Check = Callable[[Any, str], Any]


@dataclass(frozen=True)
class Rule:
    """What a setting may hold: in words, and the check that returns it as plain data or raises one sentence."""

    words: str
    check: _Check

    def __str__(self) -> str:
        return self.words


def rules(kind: Any) -> dict[str, Rule]:
    """Return what the settings of a class, or of one of its objects, may hold, by their names.

    Examples
    --------
    >>> from typing import Literal
    >>> Quadrature = Literal["midpoint", "simpson"]
    >>> @dataclass(frozen=True)
    ... class Method:
    ...     n_samples: int = integer(50)
    ...     rule: Quadrature = choice("midpoint", Quadrature)
    >>> for name, rule in rules(Method).items():
    ...     print(f"{name}: {rule}")
    n_samples: an integer of at least 1
    rule: 'midpoint' or 'simpson'
    """
    return {part.name: part.metadata[KEY] for part in fields(kind) if KEY in part.metadata}


def check(owner: Any) -> None:
    """Check all declared settings of an object, and put plain Python data in their places.

    So that numbers of numpy are saved, compared and printed like those of Python.
    """
    for part in fields(owner):
        if KEY in part.metadata:
            vars(owner)[part.name] = part.metadata[KEY].check(getattr(owner, part.name), part.name)


def integer(default: int | None, *, least: int = 1, most: int = LARGEST, optional: bool = False) -> Any:
    """Declare a setting that is an integer; it may be None where it is by default."""
    within = partial(validation.check_int, least=least, most=most)
    return _declared(default, f"an integer of at least {least}", within, optional=optional)


def real(
    default: float | None,
    *,
    high: float = math.inf,
    closed: tuple[bool, bool] = (True, True),
    optional: bool = False,
    by_name: bool = False,
) -> Any:
    """Declare a setting that is a finite number from 0 to ``high``, both allowed where ``closed``.

    ``by_name`` leaves it out of those that may be given by their place.
    """
    least, most = "at least" if closed[0] else "above", "at most" if closed[1] else "below"
    bounds = f"lie between 0 and {high:g}" if all(closed) else f"be {least} 0 and {most} {high:g}"
    if math.isinf(high):
        bounds = "be finite and not negative" if closed[0] else "be a finite number above 0"

    def within(value: Any, name: str) -> Any:
        number = validation.check_float(value, name)
        inside = number >= 0 if closed[0] else number > 0
        inside &= number <= high if closed[1] else number < high
        if not (inside and math.isfinite(number)):
            raise SettingError(f"{name} must {bounds}, got {brief(value)}.")
        return value.item() if isinstance(value, np.generic) else value

    return _declared(default, f"a number that must {bounds}", within, optional=optional, by_name=by_name)


def positive(default: float | None, *, optional: bool = False) -> Any:
    """Declare a setting that is a finite number above 0."""
    return real(default, closed=(False, True), optional=optional)


def boolean(default: bool) -> Any:
    """Declare a setting that is True or False."""
    return _declared(default, "True or False", partial(validation.check_flag, error=SettingError))


def choice(default: str | None, words: object) -> Any:
    """Declare a setting that is one of a few words: those of a ``Literal``, which is the type of the field."""
    known = get_args(words)
    one_of = partial(validation.check_choice, known=known, error=SettingError)
    return _declared(default, " or ".join(map(repr, known)), one_of)


def text(default: str | None, what: str) -> Any:
    """Declare a setting that is a text; ``what`` says of which kind."""

    def short(value: Any, name: str) -> str:
        if not isinstance(value, str) or len(value) > LONGEST or not value.isprintable():
            raise SettingError(f"{name} must be {what}, got {brief(value)}.")
        return str(value)

    return _declared(default, what, short)


def increasing_shares(default: tuple[float, ...]) -> Any:
    """Declare a setting that is a tuple of increasing shares."""
    words = "increasing shares above 0 and at most 1"

    def increasing(value: Any, name: str) -> tuple[float, ...]:
        parts = value.tolist() if isinstance(value, np.ndarray) else value
        parts = parts if isinstance(parts, (tuple, list)) else []
        shares = tuple(validation.check_float(part, f"each of {name}") for part in parts)
        rising = all(a < b for a, b in zip((0.0, *shares), shares, strict=False))  # which NaN is not
        if not shares or not rising or shares[-1] > 1:
            raise SettingError(f"{name} must be {words}, got {brief(value)}.")
        return shares

    return _declared(default, words, increasing)


def count_or_share(default: int | float | None) -> Any:
    """Declare a setting that is a count or a share of cells."""
    return _declared(default, "a count of at least 1 or a share in (0, 1]", check_amount)


def check_amount(value: Any, name: str) -> int | float:
    """Return how many cells, as a Python number: integers are counts, others shares of the observed ones."""
    plain = value.item() if isinstance(value, (np.integer, np.floating)) else value
    if isinstance(plain, int) and not isinstance(plain, bool) and plain >= 1:
        return plain
    if isinstance(plain, float) and 0 < plain <= 1:
        return plain
    raise InputError(f"{name} must be a count of at least 1 or a share in (0, 1], got {brief(value)}.")


def learnt(*, by_name: bool = False) -> Any:
    """Declare a field that holds what a method learnt: no setting, and None before."""
    return field(default=None, metadata={"fitted": True}, repr=False, compare=False, kw_only=by_name)


def _declared(default: Any, words: str, check: _Check, *, optional: bool = False, by_name: bool = False) -> Any:
    rule = Rule(words, check)
    if optional or default is None:
        rule = Rule(f"{words}, or None", lambda value, name: None if value is None else check(value, name))
    return field(default=default, metadata={KEY: rule}, kw_only=by_name)
