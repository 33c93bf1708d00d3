"""Labels as numbers: classes as they are, text in sorted order, real values for a regression."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempograd.data.own.clock import Steps
from tempograd.data.own.numbers import BEYOND, number, resembles_number, whole
from tempograd.data.own.table import Table, Text, missing
from tempograd.errors import DataError, listed, one_line, quote, short_path, warn

Numbers = NDArray[Any]  # int64 or float64
Fault = Callable[[int, str], DataError]
"""Says what is wrong with the distinct label of a number, with its place in the file."""


class Labels(NamedTuple):
    """One label per series or per step, int64 or float64, and the names of the classes where they are text."""

    y: Numbers
    classes: tuple[str, ...] | None


def read_labels(
    table: Table, label: Text, series: Text, steps: Steps, classes: Sequence[str] | None = None
) -> Labels:
    """Read a column of labels: one per series where they never change within one, else one per step.

    Steps that a series does not have get class 0, or 0.0; its mask leaves them out.
    """
    for code, text in enumerate(label.texts):
        if missing(text):
            raise table.fault(label.row(code), "the label is missing")
    numbers, names = as_numbers(
        label.texts, classes, short_path(table.path), lambda code, what: table.fault(label.row(code), what)
    )
    values = numbers[label.codes]
    count = len(series.texts)
    y = np.zeros(count, values.dtype)
    y[series.codes] = values
    if not np.array_equal(y[series.codes], values):
        y = np.zeros((count, steps.total), values.dtype)
        y[series.codes, steps.places] = values
    return Labels(y, names)


def as_numbers(
    texts: Sequence[str], classes: Sequence[str] | None, where: str, fault: Fault
) -> tuple[Numbers, tuple[str, ...] | None]:
    """Return the distinct labels as numbers, with the names of the classes where they were text.

    Whole numbers from 0 up are classes, other numbers values of a regression; text and negative numbers such as
    -1 and 1 are classes in sorted order. ``classes`` fixes the order for all of them.

    Examples
    --------
    >>> as_numbers(["sick", "healthy"], None, "a file", lambda code, what: DataError(what))
    (array([1, 0]), ('healthy', 'sick'))
    >>> as_numbers(["2", "0"], None, "a file", lambda code, what: DataError(what))
    (array([2, 0]), None)
    """
    texts = [text.strip() for text in texts]
    if classes is not None:
        return _in_order(texts, [str(name) for name in classes], where)
    for code, text in enumerate(texts):
        if resembles_number(text):
            raise fault(
                code,
                f"the label is {quote(text)}, which is no number in decimal digits: write it as one, or pass "
                "classes= (--classes) if it is the name of a class",
            )
    values = [number(text) for text in texts]
    if None in values:
        return _in_order(texts, sorted(set(texts)), where)
    found = [whole(text) for text in texts]
    if None in found:
        return _real(texts, fault), None
    return _whole(texts, [integer for integer in found if integer is not None], where, fault)


def _real(texts: Sequence[str], fault: Fault) -> NDArray[np.float64]:
    values = np.array([number(text) for text in texts], np.float64)
    for code in np.flatnonzero(~np.isfinite(values)):
        raise fault(int(code), f"the label is {one_line(texts[int(code)])}, which is no finite number")
    return values


def _whole(
    texts: Sequence[str], found: Sequence[int], where: str, fault: Fault
) -> tuple[NDArray[np.int64], tuple[str, ...] | None]:
    """Return classes, exactly."""
    if BEYOND in found:
        code = found.index(BEYOND)
        raise fault(
            code,
            f"the label is {one_line(texts[code])}: labels that are all whole numbers are classes, which end at "
            f"{BEYOND - 1}; divide values of a regression by a constant, or name classes with classes=",
        )
    distinct = sorted(set(found))
    if distinct[0] < 0:
        rank = {integer: number for number, integer in enumerate(distinct)}
        written = dict(zip(reversed(found), reversed(texts), strict=True))  # as each stands in the file first
        return np.array([rank[integer] for integer in found]), tuple(written[integer] for integer in distinct)
    if distinct[0] > 0 and len(distinct) > 1:
        some = listed(distinct, 60)
        warn(
            f"{where}: labels {some} are taken as the numbers of the model's outputs, which begin with 0: pass "
            f"classes={some.replace(' ', '')} (--classes) if {distinct[0]} is its first."
        )
    return np.array(found, np.int64), None


def _in_order(
    texts: Sequence[str], classes: Sequence[str], where: str
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    rank = {name: number for number, name in enumerate(classes)}
    for text in texts:
        if text not in rank:
            raise DataError(f"{where}: label {quote(text)} is none of the classes {listed(classes)}.")
    return np.array([rank[text] for text in texts]), tuple(classes)
