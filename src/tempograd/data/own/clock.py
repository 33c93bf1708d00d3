"""Which step of its series a row is."""

from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from tempograd.data.own.numbers import BEYOND, number, whole
from tempograd.data.own.table import Codes, Floats, Table, Text, missing
from tempograd.errors import DataError, InputError, one_line, quote, short_path


class Steps(NamedTuple):
    """The step of every row, the number of steps, and the steps' names where all series have the same."""

    places: Codes
    total: int
    names: tuple[str, ...] | None


def place_steps(table: Table, series: Text, time: Text | None, align: str | None, *, named: bool) -> Steps:
    """Find the step of every row.

    With the sorted distinct times :math:`g_0 < g_1 < …` of the whole file, a row at time :math:`g_k` is step
    :math:`k` (``align="time"``), or it is the :math:`k`-th of its own series (``align="order"``). Where every
    series has the first few times and no gap, both say the same; otherwise the user has to choose.
    """
    if time is None:
        return _in_order(series.codes)
    moments, labels = _moments(table, time)
    grid, first, ranked = np.unique(moments, return_index=True, return_inverse=True)
    places = ranked[time.codes]
    keys, inverse = np.unique(series.codes * len(grid) + places, return_inverse=True)
    owners, filled = keys // len(grid), keys % len(grid)
    starts = np.searchsorted(owners, np.arange(len(series.texts)))
    ranks = np.arange(len(keys)) - starts[owners]
    if align == "time" or bool((ranks == filled).all()):
        return Steps(places, len(grid), tuple(labels[code] for code in first))
    if align == "order":
        return Steps(ranks[inverse], int(ranks.max()) + 1, None)
    gap = int(np.flatnonzero(ranks != filled)[0])
    whose = f"series {quote(series.texts[owners[gap]], 20)}" if named else "the series"
    raise InputError(
        f"{short_path(table.path)}: {whose} has no row for time {one_line(labels[first[ranks[gap]]], 20)}, which "
        "others have: pass align='time' (--align time) to mask missing times, or align='order' (--align order) "
        "if the k-th row of each series is its step k."
    )


def _in_order(codes: Codes) -> Steps:
    """Count the rows of each series as they come."""
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(int(codes.max()) + 1))
    places = np.empty_like(codes)
    places[order] = np.arange(len(codes)) - starts[codes[order]]
    return Steps(places, int(places.max()) + 1, None)


def _moments(table: Table, time: Text) -> tuple[Floats | Codes, list[str]]:
    """Return the distinct times as numbers, and as the texts that people will read."""
    integers = [moment for moment in map(whole, time.texts) if moment is not None and moment != BEYOND]
    if len(integers) == len(time.texts):  # to the last digit: nanoseconds since 1970 are more than 2^53
        return np.array(integers, np.int64), list(map(str, integers))
    found = [number(text) for text in time.texts]
    if None in found:
        return np.array([_date(table, time, code) for code in range(len(time.texts))]), time.texts
    numbers = np.array(found, np.float64)
    for code in np.flatnonzero(~np.isfinite(numbers)):
        raise table.fault(time.row(int(code)), f"the time is {quote(time.texts[code])}, which is no finite number")
    return numbers, [_written(float(moment)) for moment in numbers]


def _written(moment: float) -> str:
    """Write a time with 15 digits, and with all of them where it takes more to tell it from others.

    Examples
    --------
    >>> _written(0.1), _written(1700000000.1234567)
    ('0.1', '1700000000.1234567')
    """
    short = f"{moment:.15g}"
    return short if float(short) == moment else repr(moment)


def _date(table: Table, time: Text, code: int) -> float:
    text = time.texts[code]
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        if number(text) is not None:  # the one that is no number is at fault
            code = next(code for code, other in enumerate(time.texts) if number(other) is None)
        raise _no_time(table, time, code) from None
    # a local clock would jump twice a year
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _no_time(table: Table, time: Text, code: int) -> DataError:
    if missing(time.texts[code]):
        return table.fault(time.row(code), "the time is missing")
    return table.fault(
        time.row(code),
        f"the time is {quote(time.texts[code])}: all must be numbers, or all dates such as 2026-01-31 or "
        "2026-01-31T12:00",
    )
