"""Numbers as they stand in files: plain decimal notation in ASCII, and nothing else that Python would accept."""

import re
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from tempograd.data.own.table import Floats, missing

# a digit may stand in one place only, or long texts would take quadratic time; ASCII has the spaces of float()
DECIMAL = re.compile(r"\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", re.ASCII)
PLAIN = re.compile("-?[0-9]{1,18}")  # most of them, and quickly read
HEXADECIMAL = re.compile(r"\s*[+-]?0[xob][0-9a-f_]+\s*", re.IGNORECASE)
BEYOND = 2**63  # of int64: the smallest size that does not fit, but for -2^63


def number(text: str) -> float | None:
    """Return the number that a text is in plain decimal notation, None if it is none.

    Python would also read ``1_000``, digits of other scripts, ``infinity`` and ``nan``.

    Examples
    --------
    >>> [number(text) for text in ("-1.5", " 2e3", ".5", "1_000", "٣", "0x10", "inf", "nan", "²")]
    [-1.5, 2000.0, 0.5, None, None, None, None, None, None]
    """
    return float(text) if DECIMAL.fullmatch(text) else None


def numbers(cells: Sequence[str]) -> Floats | None:
    """Return a column of numbers, NaN where a cell is missing; None if one of them is no number."""
    together = "".join(cells)
    if not together.isascii() or "_" in together:  # what float() reads and number() does not
        return _one_by_one(cells)
    try:
        found = np.fromiter((float(cell or "nan") for cell in cells), np.float64, len(cells))
    except ValueError:
        return _one_by_one(cells)
    return _one_by_one(cells) if np.isinf(found).any() else found


def _one_by_one(cells: Sequence[str]) -> Floats | None:
    found = np.empty(len(cells))
    for place, cell in enumerate(cells):
        value = np.nan if missing(cell) else number(cell)
        if value is None:
            return None
        found[place] = value
    return found


def whole(text: str) -> int | None:
    """Return the integer that a text is, to its last digit, however it is written; None if it is none.

    Examples
    --------
    >>> whole("9007199254740993"), whole("2.0"), whole("1e3"), whole("2.5"), whole("one")
    (9007199254740993, 2, 1000, None, None)

    Integers that do not fit into 64 bits are all alike:

    >>> whole("1e300") == BEYOND == whole("9223372036854775808"), whole("-9223372036854775808") == -BEYOND
    (True, True)
    """
    if PLAIN.fullmatch(text):
        return int(text)
    value = number(text)
    if value is None:
        return None
    if abs(value) >= 2 * BEYOND:  # to write the digits of 1e999999999 down would take all memory
        return BEYOND
    if abs(value) < 1:  # nor are those of 1e-999999999
        return None if re.search("[1-9]", text.lower().split("e")[0]) else 0
    exact = Decimal(text.strip())
    if exact != exact.to_integral_value():
        return None
    found = int(exact.to_integral_value())
    return found if -BEYOND <= found < BEYOND else BEYOND


def resembles_number(text: str) -> bool:
    """Tell whether a text that is no number here is one to other programs.

    Examples
    --------
    >>> [resembles_number(text) for text in ("1_000", "٣", "0x10", "Infinity", "1st", "12")]
    [True, True, True, True, False, False]
    """
    if number(text) is not None or missing(text):
        return False
    if HEXADECIMAL.fullmatch(text):
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True
