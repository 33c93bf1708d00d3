"""Data frames in memory, read as the tables of files are."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tempograd.core.errors import DataError, quote
from tempograd.core.series import check_times
from tempograd.data.readers.columns import NO_CHANNEL, Table, Text, _Floats, refuse_large, unnamed

FRAME = Path("The data frame")  # what messages call it


def is_frame(value: Any) -> bool:
    """Tell whether something is a data frame, of pandas or of another library: an array with named columns.

    Examples
    --------
    >>> import pandas as pd
    >>> is_frame(pd.DataFrame({"a": [1]})), is_frame(np.zeros((1, 1))), is_frame(pd.DataFrame)
    (True, False, False)
    """
    return not isinstance(value, type) and hasattr(value, "columns") and hasattr(value, "to_numpy")


class FrameTable(Table):
    """A data frame; an index that has a name is a column too."""

    def __init__(self, frame: Any) -> None:
        named = [name for name in getattr(getattr(frame, "index", None), "names", ()) if name is not None]
        self._frame = frame.reset_index(level=named) if named else frame
        self.path = FRAME
        self.columns, self.aside = unnamed([str(name) for name in self._frame.columns])
        twice = next((name for name in self.columns if self.columns.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"{FRAME} has the column {quote(twice)} twice.")
        if not len(self._frame):
            raise DataError(f"{FRAME} holds no series: it has no row.")

    def read(self, texts: Iterable[str], numbers: Sequence[str]) -> tuple[dict[str, Text], _Floats]:
        values = np.empty((len(self._frame), len(numbers)))
        for place, name in enumerate(numbers):
            values[:, place] = self._numbers(name)
        refuse_large(self, values, numbers)
        return {name: Text.of(self._texts(name)) for name in texts}, values

    def fault(self, row: int, what: str) -> DataError:
        return DataError(f"{FRAME}, row {row}: {what}.")

    def _cells(self, name: str) -> "np.ndarray[Any, Any]":
        column = self._frame[self._frame.columns[self.columns.index(name)]]
        return np.asarray(column.to_numpy())

    def _numbers(self, name: str) -> _Floats:
        cells = self._cells(name)
        if cells.dtype.kind == "O":  # whole numbers of which some are missing, say
            cells = np.array([np.nan if _absent(cell) else cell for cell in cells.tolist()], dtype=object)
        if cells.dtype.kind in "OfiubO":
            try:
                if not any(isinstance(cell, (str, bytes)) for cell in cells.tolist()):
                    return cells.astype(np.float64)
            except (TypeError, ValueError):
                pass
        kind = "text" if cells.dtype.kind in "OUST" else str(cells.dtype)
        raise DataError(f"{FRAME}: column {quote(name)} holds {kind}, not numbers: {NO_CHANNEL}.")

    def _texts(self, name: str) -> list[str]:
        """Write every cell: dates as ISO text, what is missing as nothing."""
        cells = ["" if _absent(cell) else cell for cell in self._cells(name)]
        stamps = check_times([cell for cell in cells if not isinstance(cell, str)], 1, _count(cells)) or ()
        written = iter(stamps)
        return [cell if isinstance(cell, str) else str(next(written)) for cell in cells]


def _count(cells: Sequence[object]) -> int:
    return sum(not isinstance(cell, str) for cell in cells)


def _absent(cell: object) -> bool:
    """Tell None, NaN, NaT and pandas' NA, of which nobody knows whether they equal themselves."""
    if cell is None:
        return True
    try:
        return bool(cell != cell)  # noqa: PLR0124
    except (TypeError, ValueError):
        return True
