"""Words and numbers as they stand in pictures."""

import math
from collections.abc import Sequence

LONGEST = 28  # letters of a name
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def name(label: str, longest: int = LONGEST) -> str:
    r"""Put a name on one line and cut it where it is too long.

    Examples
    --------
    >>> name("heart\nrate"), name("a" * 40, 6)
    ('heart rate', 'aaaaa…')
    """
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in label).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def method(label: str) -> str:
    """Write the name of a method without underscores."""
    return name(label.replace("_", " "))


def number(value: float) -> str:
    """Write three significant digits with a true minus, and powers of ten where they are shorter.

    Examples
    --------
    >>> number(-0.0123456), number(0.5), number(12345.0), number(2.5e-6), number(0.0)
    ('−0.0123', '0.5', '12345', '2.5 × 10⁻⁶', '0')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}".replace("-0", "0").replace("-", "−").replace("inf", "∞")
    power = math.floor(math.log10(abs(value)))
    if -4 <= power < 6:
        text = f"{value:.{max(2 - power, 0)}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        text = f"{value / 10.0**power:.3g} × 10{str(power).translate(RAISED)}"
    return text.replace("-", "−")


def probability(value: float) -> str:
    """Write a probability with two digits, and never as 0 or 1 where it is neither.

    Examples
    --------
    >>> probability(0.934), probability(0.9999), probability(0.0001), probability(1.0)
    ('0.93', '> 0.99', '< 0.01', '1.00')
    """
    if 0 < value < 0.005:
        return "< 0.01"
    if 0.995 <= value < 1:
        return "> 0.99"
    return f"{value:.2f}"


def class_name(index: int, classes: Sequence[str] | None) -> str:
    """Call a class by its name, or by its number.

    Examples
    --------
    >>> class_name(1, ("survived", "died")), class_name(1, None)
    ('“died”', 'class 1')
    """
    return f"class {index}" if classes is None else f"“{name(str(classes[index]))}”"
