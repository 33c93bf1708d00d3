"""Time stamps as the texts that people read: one text per step, or one per step of each series."""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any, TypeGuard

import numpy as np
from torch import Tensor

from tempograd.core.errors import InputError
from tempograd.core.validation import as_tensor, check_names
from tempograd.typing import Times

MIDNIGHT = "00:00:00"


def check_times(times: Any, series: int, steps: int) -> Times | None:
    """Return a text for each step, or for each series a text for each of its steps.

    Dates of numpy, pandas and Python are written alike, all of them as exactly as the finest needs. What is
    missing, such as the stamps of steps that a series does not have, is an empty text.

    Examples
    --------
    >>> check_times(np.array(["2026-03-01T08:00", "2026-03-01T09:30"], "datetime64[ns]"), 4, 2)
    ('2026-03-01 08:00', '2026-03-01 09:30')
    >>> check_times([[0.5, 2.0], [1.0, None]], 2, 2)
    (('0.5', '2.0'), ('1.0', ''))
    """
    if times is None:
        return None
    times = _listed(times)
    rows = [_listed(row) for row in times] if is_nested(times) else [times]
    if is_nested(times) and len(rows) != series:
        raise InputError(
            f"times must hold {steps} texts, or {steps} for each of the {series} series, got {len(rows)} rows."
        )
    texts = tuple(check_names(row, steps, "times") or () for row in _texts(rows))
    return texts if is_nested(times) else texts[0]


def is_nested(times: Any) -> TypeGuard[tuple[tuple[str, ...], ...]]:
    """Tell whether there is a list of steps for each series."""
    if hasattr(times, "ndim"):
        return bool(times.ndim == 2)
    return isinstance(times, (list, tuple)) and any(
        isinstance(row, (list, tuple)) or getattr(row, "ndim", 0) == 1 for row in times
    )


def shared_times(times: Times | None) -> tuple[str, ...] | None:
    """Return the texts that all series have in common; None where there are none, or where they differ.

    Examples
    --------
    >>> shared_times((("8:00", "9:00"), ("8:00", "9:00"))), shared_times((("8:00",), ("8:30",)))
    (('8:00', '9:00'), None)
    """
    if times is None or not is_nested(times):
        return times  # type: ignore[return-value]  # which the guard does not tell
    return times[0] if times and all(row == times[0] for row in times[1:]) else None


def _listed(times: Any) -> Any:
    """Return arrays of other libraries as numpy arrays; single precision is not written with digits of double."""
    if isinstance(times, Tensor):
        return as_tensor(times, "times").cpu().numpy()
    convert = getattr(times, "to_numpy", None)
    return convert() if callable(convert) and not isinstance(times, type) else times


def _texts(rows: Sequence[Any]) -> list[Any]:
    """Write the dates of all rows alike, and what is missing as nothing; all else stays what it is."""
    for row in rows:
        plain = isinstance(row, Iterable) and not isinstance(row, (str, bytes, dict, set, np.ma.MaskedArray))
        if not plain or getattr(row, "ndim", 1) != 1:
            return list(rows)  # which is refused
    labels = [[None if _missing(label) else label for label in row] for row in rows]
    known = [label for row in labels for label in row if label is not None]
    dates = [
        moment
        for moment in known
        if isinstance(moment, (np.datetime64, date)) and not getattr(moment, "tzinfo", None)
    ]
    if dates and len(dates) == len(known):
        known = _written([getattr(moment, "isoformat", moment.__str__)() for moment in dates])
    written = iter(known)
    return [["" if label is None else next(written) for label in row] for row in labels]


def _missing(label: Any) -> bool:
    """Tell NaN and NaT, which do not even equal themselves."""
    return isinstance(label, (float, np.floating, np.datetime64, date)) and bool(label != label)  # noqa: PLR0124


def _written(moments: Sequence[str]) -> list[str]:
    """Cut the parts that are zero in all of them.

    Examples
    --------
    >>> _written(["2026-03-01", "2026-03-02T00:00:00.000"]), _written(["2026-03-01T08", "2026-03-01T08:00:07.250"])
    (['2026-03-01', '2026-03-02'], ['2026-03-01 08:00:00.00', '2026-03-01 08:00:07.25'])
    """
    parts = [moment.partition("T") for moment in moments]
    days, clocks = [day for day, _, _ in parts], [clock + MIDNIGHT[len(clock) :] for _, _, clock in parts]
    digits = max(len(clock[9:].rstrip("0")) for clock in clocks)
    if digits:
        clocks = [f"{clock[:8]}.{clock[9:].ljust(digits, '0')[:digits]}" for clock in clocks]
    else:
        length = next(end for end in (0, 5, 8) if not any(clock[end:].strip("0:.") for clock in clocks))
        clocks = [clock[:length] for clock in clocks]
    return [f"{day} {clock}".strip() for day, clock in zip(days, clocks, strict=True)]
