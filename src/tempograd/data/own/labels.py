"""Labels as numbers: classes as they are, text in sorted order, real values for a regression."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempograd.data.own.clock import Steps
from tempograd.data.own.table import Table, Text, missing
from tempograd.errors import DataError, warn


class Labels(NamedTuple):
    """One label per series or per step, int64 or float32, and the names of the classes where they are text."""

    y: NDArray[np.int64] | NDArray[np.float32]
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
    numbers, names = as_numbers(label.texts, classes, str(table.path))
    values = numbers[label.codes]
    count = len(series.texts)
    y = np.zeros(count, values.dtype)
    y[series.codes] = values
    if not np.array_equal(y[series.codes], values):
        y = np.zeros((count, steps.total), values.dtype)
        y[series.codes, steps.places] = values
    return Labels(y, names)


def as_numbers(
    texts: Sequence[str], classes: Sequence[str] | None, where: str
) -> tuple[NDArray[np.int64] | NDArray[np.float32], tuple[str, ...] | None]:
    """Return the distinct labels as numbers, with the names of the classes where they were text.

    Whole numbers from 0 up are classes, other numbers values of a regression; text and negative numbers such as
    -1 and 1 are classes in sorted order. ``classes`` fixes the order for all of them.

    Examples
    --------
    >>> as_numbers(["sick", "healthy"], None, "a file")
    (array([1, 0]), ('healthy', 'sick'))
    >>> as_numbers(["2", "0"], None, "a file")
    (array([2, 0]), None)
    """
    texts = [text.strip() for text in texts]
    if classes is not None:
        return _in_order(texts, [str(name) for name in classes], where)
    try:
        numbers = np.array([float(text) for text in texts])
    except ValueError:
        return _in_order(texts, sorted(set(texts)), where)
    if not np.isfinite(numbers).all():
        raise DataError(f"{where}: a label is infinite.")
    if (numbers != numbers.round()).any():
        return numbers.astype(np.float32), None
    if (numbers < 0).any():
        return _in_order(texts, sorted(set(texts), key=float), where)
    found = sorted({int(number) for number in numbers})
    if found[0] > 0 and len(found) > 1:
        warn(
            f"{where}: labels {', '.join(map(str, found))} are taken as the numbers of the model's outputs, which "
            f"begin with 0: pass classes={','.join(map(str, found))} (--classes) if {found[0]} is its first."
        )
    return numbers.astype(np.int64), None


def _in_order(
    texts: Sequence[str], classes: Sequence[str], where: str
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    place = {name: number for number, name in enumerate(classes)}
    for text in texts:
        if text not in place:
            raise DataError(f"{where}: label {text!r} is none of the classes {', '.join(classes)}.")
    return np.array([place[text] for text in texts]), tuple(classes)
