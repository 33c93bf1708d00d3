"""Colours of attribution: orange pushes up, blue pushes down, purple where there is no direction."""

import numpy as np
from numpy.typing import NDArray

LEVELS = 8  # steps of colour per direction; more cannot be told apart and would make the file larger
UP = ((255, 243, 233), (247, 160, 96), (176, 58, 5))
DOWN = ((233, 243, 251), (120, 176, 220), (12, 82, 145))
SIZE = ((244, 239, 248), (173, 145, 202), (84, 39, 136))
FAINT = 0.28  # opacity of cells whose sign is not certain
FULL = 0.98  # share of the observed cells that stay below the full colour


def limit(values: NDArray[np.float32], observed: NDArray[np.bool_]) -> float:
    """Return the magnitude that gets the full colour: 98 % of the observed cells are below it.

    A single extreme cell would otherwise leave all others white.

    Examples
    --------
    >>> values = np.array([0.0, 1.0, -2.0, 50.0], dtype=np.float32)
    >>> limit(values, np.array([True, True, True, False]))
    2.0
    """
    size = np.abs(values[observed])
    if not len(size):
        return 0.0
    return float(np.quantile(size, FULL, method="higher"))


def levels(values: NDArray[np.float32], full: float) -> NDArray[np.int64]:
    """Return signed steps of colour, -8 … 8; 0 is drawn white.

    Examples
    --------
    >>> levels(np.array([0.0, 0.5, -1.0, 9.0], dtype=np.float32), 1.0)
    array([ 0,  4, -8,  8])
    """
    if full <= 0:
        return np.zeros(values.shape, dtype=np.int64)
    return np.asarray(np.rint(np.clip(values / full, -1, 1) * LEVELS), dtype=np.int64)


def colour(level: int, *, signed: bool = True) -> str:
    """Return the colour of a step other than 0.

    Examples
    --------
    >>> colour(8), colour(-8), colour(8, signed=False)
    ('#b03a05', '#0c5291', '#542788')
    """
    stops = (UP if level > 0 else DOWN) if signed else SIZE
    position = (abs(level) - 1) / (LEVELS - 1) * (len(stops) - 1)
    index = min(int(position), len(stops) - 2)
    share = position - index
    mixed = (round(a + share * (b - a)) for a, b in zip(stops[index], stops[index + 1], strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)
