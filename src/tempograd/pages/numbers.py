"""Numbers as people read them."""

import math


def number(value: float) -> str:
    """Write a number with three significant digits and a true minus.

    Examples
    --------
    >>> number(-0.012345), number(math.inf)
    ('−0.0123', '∞')
    """
    return f"{value:.3g}".replace("-", "−").replace("inf", "∞")


def with_error(mean: float, error: float) -> str:
    """Write a mean and its standard error to the same digit: two significant ones of the error.

    Examples
    --------
    >>> with_error(0.41372, 0.0502), with_error(12.3, 0.0), with_error(0.5, math.inf)
    ('0.414 ± 0.050', '12.3 ± 0', '0.5')
    """
    if not math.isfinite(error):
        return number(mean)  # a single series has no spread
    if error == 0 or not math.isfinite(mean):
        return f"{number(mean)} ± {number(error)}"
    places = min(max(1 - math.floor(math.log10(error)), 0), 9)
    return f"{mean:.{places}f} ± {error:.{places}f}".replace("-", "−")
