"""Numbers as people read them, and tables that are readable as they are."""

import math
import re
from collections.abc import Sequence

SMALL, LARGE = 1e-4, 1e6  # plain decimals between these
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Write a count with its noun.

    Examples
    --------
    >>> counted(1, "step"), counted(1200, "step"), counted(2, "series", "series")
    ('1 step', '1,200 steps', '2 series')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def short_number(value: float) -> str:
    """Write a number with three significant digits, or as a whole number, and a true minus.

    Examples
    --------
    >>> [short_number(value) for value in (-0.012345, 0.24, 1171.3, 2.5e-5, math.inf)]
    ['−0.0123', '0.24', '1171', '2.5 × 10⁻⁵', '∞']
    """
    if not math.isfinite(value) or value == 0:
        return f"{value:g}".replace("-", "−").replace("inf", "∞")
    if SMALL <= abs(value) < LARGE:
        text = _fixed(value, _places(value))
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, power = f"{value:.2e}".split("e")
    return f"{float(mantissa):g}".replace("-", "−") + _times(int(power))


def alike(*values: float) -> tuple[str, ...]:
    """Write numbers that belong together to the same digit, the third of the largest.

    Examples
    --------
    >>> alike(-0.00567, -0.023, 0.0117), alike(2e-6, -1.5e-5), alike(1.0, math.inf)
    (('−0.0057', '−0.0230', '0.0117'), ('0.20 × 10⁻⁵', '−1.50 × 10⁻⁵'), ('1.00', '∞'))
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if largest == 0:
        return tuple(short_number(value) for value in values)
    power = 0 if SMALL * 10 <= largest < LARGE else math.floor(math.log10(largest))
    places, tail = (_places(largest), "") if power == 0 else (2, _times(power))
    return tuple(
        _fixed(value / 10.0**power, places) + tail if math.isfinite(value) else short_number(value)
        for value in values
    )


def with_error(mean: float, error: float) -> str:
    """Write a mean and its standard error to the same digit: two significant ones of the error.

    Examples
    --------
    >>> with_error(0.41372, 0.0502), with_error(12.3, 0.0), with_error(0.5, math.inf)
    ('0.414 ± 0.050', '12.3 ± 0', '0.5')
    >>> with_error(0.0000152, 0.00000041)
    '(1.520 ± 0.041) × 10⁻⁵'
    """
    if not math.isfinite(error):
        return short_number(mean)  # a single series has no spread
    if error == 0 or not math.isfinite(mean):
        return f"{short_number(mean)} ± {short_number(error)}"
    places = max(1 - math.floor(math.log10(error)), 0)
    largest = max(abs(mean), error)
    if largest >= SMALL:
        places = min(places, 9)
        return f"{_fixed(mean, places)} ± {_fixed(error, places)}"
    power = math.floor(math.log10(largest))
    places = min(places + power, 9)
    return f"({_fixed(mean / 10.0**power, places)} ± {_fixed(error / 10.0**power, places)}){_times(power)}"


def _places(size: float) -> int:
    """Return how many decimals show the third significant digit; none for 100 and more."""
    return max(2 - math.floor(math.log10(float(f"{abs(size):.2e}"))), 0)


def _fixed(value: float, places: int) -> str:
    text = f"{value:.{places}f}".replace("-", "−")
    return text if any(digit in text for digit in "123456789") else text.lstrip("−")


def _times(power: int) -> str:
    return f" × 10{str(power).translate(RAISED)}"


def percent(share: float) -> str:
    """Write an error with two digits.

    Examples
    --------
    >>> percent(0.0183), percent(0.224), percent(0.0002), percent(1.5)
    ('1.8 %', '22 %', 'under 0.1 %', 'over 100 %')
    """
    if share > 1:
        return "over 100 %"
    return f"{float(f'{100 * share:.2g}'):g} %" if share >= 0.001 else "under 0.1 %"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table, aligned; the first row is the head, the first column text, the others numbers.

    Examples
    --------
    >>> print(table([["method", "CPD"], ["timing", "0.5"]]))
    | method | CPD |
    | :----- | --: |
    | timing | 0.5 |
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    place = [str.ljust, *[str.rjust] * (len(widths) - 1)]
    lines = [[put(cell, width) for put, cell, width in zip(place, row, widths, strict=True)] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], rule, *lines[1:]])


def first_sentence(documentation: str) -> str:
    r"""Return the first paragraph as one line, without its formulas, which a terminal cannot show.

    Examples
    --------
    >>> first_sentence("Change of the output, :math:`|F|`,\nat the end.\n\nMore.")
    'Change of the output, at the end.'
    """
    return re.sub(r",? :math:`[^`]*`", "", " ".join(documentation.split("\n\n", maxsplit=1)[0].split()))
