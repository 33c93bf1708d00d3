"""Values as messages show them: in a few words on one line, never a whole array."""

from reprlib import Repr
from typing import Any

WIDTH = 60  # characters of a message that a value may take


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
        text = f"an object of class {type(value).__name__}"
    if not isinstance(value, str) and " at 0x" in text:  # an address tells nobody anything
        text = f"an object of class {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def _array(value: Any) -> str:
    """Describe what has a shape and axes; nothing for anything else."""
    shape = getattr(value, "shape", None)
    if isinstance(value, type) or not isinstance(shape, tuple) or (not shape and not _is_tensor(value)):
        return ""
    kind, dtype = type(value).__name__, str(getattr(value, "dtype", "")).removeprefix("torch.")
    article = "an" if kind[:1].lower() in "aeiou" or kind == "ndarray" else "a"
    return f"{article} {kind} of shape {tuple(map(int, shape))}{f' and {dtype}' if dtype else ''}"


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "requires_grad")
