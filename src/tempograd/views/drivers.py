r"""What drove a prediction, in one sentence: values that stand together and push one way are one driver.

In each channel of a series, in this order:

1. A value is *weak* if the size of its score is below a fifth of the largest of its channel.
2. A driver goes from one value that is not weak to another of the same sign. It ends before a value of the other
   sign that is not weak, and where too many weak values follow each other: more than one for every 24 steps of the
   series, or than one. Values that were not observed are passed over.
3. A long driver is cut at its ends to the shortest stretch that holds nine tenths of its sum.

Its total is the plain sum of ``values`` from its first to its last step. Drivers are ordered by the size of it.

The error of a total: standard errors of single cells are known, how the errors of neighbours go together is not.
They are added up, :math:`s = \sum_c s_c`, which no correlation can exceed. Where neighbours err in the same
direction, as they mostly do since they share their samples, that is about right; else it is too large. Totals of a
small GRU over 40 seeds spread by 0.8 of it, and 95 to 98 % of the intervals held what many samples give; with
:math:`\sqrt{\sum_c s_c^2}`, as if cells were independent, 80 %. Where a model is so steep that intervals of cells
are too narrow, those of their sums are too.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from tempograd.core import stats, validation
from tempograd.core.formatting import LARGE, SMALL, alike, short_number
from tempograd.explanation.core import Explanation, require
from tempograd.views.labels import channel_names, name, short_times, when_text
from tempograd.views.prediction import said_of
from tempograd.views.reader import doubt
from tempograd.views.series import Flags, Floats, observed_cells, position, to_numpy

WEAK = 0.2  # of the largest score of a channel
PAUSE = 24  # steps of a series for each weak value that may follow another inside a driver
KEPT = 0.9  # of the sum of a driver
NAMED = 0.1  # of the strongest driver: what is smaller is not worth a place in a sentence
MOST = 4
FEW = 1 / 3  # of all scores, by size: below that, drivers are the strongest of many and not the main ones
LEVEL = 0.95
CONTROL = "random"  # the method whose scores mean nothing, on purpose


@dataclass(frozen=True)
class Driver:
    """Neighbouring values of one channel that push a prediction one way.

    Attributes
    ----------
    channel, start, stop : int
        Which channel, and its steps; ``stop`` is not one of them any more.
    total : float
        The sum of ``values`` there; without a sign, of those above 0.
    error : float, optional
        The standard error of the total, at most: the sum of those of its cells. None for methods without one.
    certain : bool
        Whether the 95 % interval of the total leaves 0 out. A method without an error has nothing against it.
    low, high : float
        Range of the series' values there, as people know them; NaN where the series were not kept.
    words : str
        Channel, values and time: "lactate 15–20 mmol/L at 35–46 h".
    """

    channel: int
    start: int
    stop: int
    total: float
    error: float | None
    certain: bool
    low: float
    high: float
    words: str

    @property
    def text(self) -> str:
        """The words with the total: "lactate 15–20 mmol/L at 35–46 h (+0.28 ± 0.03)"."""
        return f"{self.words} ({_total(self.total, self.error)})"


def _total(total: float, error: float | None) -> str:
    """Write a sum as readers take it in: two digits, or one of its error, and no digit that means nothing.

    Examples
    --------
    >>> _total(0.2837, 0.0312), _total(-1.3871, 0.26), _total(2.0, 7e-7), _total(0.0912, None)
    ('+0.28 ± 0.03', '−1.4 ± 0.3', '+2.00', '+0.091')
    >>> _total(1250.0, 38.0), _total(2.837e-6, 3e-7), _total(0.5, math.inf)
    ('+1250 ± 40', '+2.8 × 10⁻⁶ ± 3 × 10⁻⁷', '+0.50, error not known')
    >>> _total(-3.4e9, 6e5)
    '−3.4 × 10⁹'
    """
    sign = "−" if total < 0 else "+"
    size, known = abs(total), error is not None and math.isfinite(error)
    if size and not SMALL <= size < LARGE:
        spread = f" ± {short_number(float(f'{error:.2g}'))}" if known and error and error > 0.005 * size else ""
        return f"{sign}{short_number(float(f'{size:.2g}'))}{spread}"
    digits = 1 - math.floor(math.log10(size)) if size else 1
    if known and error:
        digits = min(digits + 1, -math.floor(math.log10(float(f"{error:.1g}"))))
    places = max(digits, 0)
    text = f"{sign}{round(size, digits):.{places}f}"
    if error is None:
        return text
    if not known:
        return f"{text}, error not known"
    spread = f"{round(error, digits):.{places}f}"
    return f"{text} ± {spread}" if float(spread) else text


def drivers_of(explanation: Explanation, i: int | str, most: int = MOST) -> list[Driver]:
    """Return what drove the explained score of series ``i``, the strongest first, at most ``most``.

    See :mod:`tempograd.views.drivers` for the rule that groups values.
    """
    row, most = position(explanation, i), validation.check_int(most, "most", 1)
    values, seen = to_numpy(explanation.values[row]).astype(np.float64), observed_cells(explanation[row])[0]
    values = values if explanation.signed else np.maximum(values, 0)
    return [_driver(explanation, row, values, seen, *place) for place in _strongest(values, seen, most)]


def _strongest(values: Floats, seen: Flags, most: int) -> list[tuple[int, int, int]]:
    """Return channel, start and stop of the strongest drivers of a series."""
    sums = np.pad(np.abs(values).cumsum(0), ((1, 0), (0, 0)))
    whole = [
        (sums[stop, d] - sums[start, d], d, start, stop)
        for d in range(values.shape[1])
        for start, stop in _stretches(values[:, d], seen[:, d])
    ]
    found: list[tuple[float, int, int, int]] = []
    for size, d, start, stop in sorted(whole, key=lambda each: -each[0]):
        if len(found) >= most and size * (1 + 1e-9) < -found[most - 1][0]:
            break  # no part of what is left can be as large
        first, last = _cut(np.abs(values[:, d]), start, stop)
        found.append((-abs(values[first:last, d].sum()), d, first, last))
        found.sort()
    return [place for _, *place in found[:most]]  # type: ignore[misc]  # three numbers each


def _stretches(values: Floats, seen: Flags) -> Iterator[tuple[int, int]]:
    """Yield where the drivers of a channel begin and end, in the order of time, before they are cut.

    Examples
    --------
    >>> seen = np.ones(8, dtype=bool)
    >>> list(_stretches(np.array([0.0, 3.0, 0.1, 2.0, -1.0, 0.0, 0.0, -2.0]), seen))
    [(1, 4), (4, 5), (7, 8)]
    """
    steps = np.flatnonzero(seen)
    size = np.abs(values[steps])
    strong = np.flatnonzero(size >= max(WEAK * size.max(initial=0), np.finfo(np.float64).tiny))
    if not len(strong):
        return
    up, pause = values[steps[strong]] > 0, max(1, len(values) // PAUSE)
    ends = np.flatnonzero((np.diff(up.astype(np.int8)) != 0) | (np.diff(strong) > pause + 1))
    starts, stops = np.concatenate([[0], ends + 1]), np.concatenate([ends, [len(strong) - 1]])
    for first, last in zip(steps[strong[starts]].tolist(), steps[strong[stops]].tolist(), strict=True):
        yield first, last + 1


def _cut(size: Floats, start: int, stop: int) -> tuple[int, int]:
    """Return the shortest stretch inside another that holds nine tenths of it, the first of equally short ones."""
    sums = np.concatenate([[0.0], size[start:stop].cumsum()])
    ends = np.searchsorted(sums, sums[:-1] + KEPT * sums[-1] * (1 - 1e-9))
    lengths = np.where(ends < len(sums), ends - np.arange(len(ends)), len(sums))
    first = int(lengths.argmin())
    return start + first, start + int(ends[first])


def _driver(
    explanation: Explanation, row: int, values: Floats, seen: Flags, d: int, start: int, stop: int
) -> Driver:
    """Describe a driver; Student's interval of its total has the freedom of its rarest cell."""
    cells, place = seen[start:stop, d], (row, slice(start, stop), d)
    total, error, certain = float(values[start:stop, d].sum()), None, True
    if explanation.standard_error is not None:
        error = float(explanation.standard_error[place].double().cpu().numpy()[cells].sum())
        certain = explanation.signed and explanation.ess is not None and math.isfinite(error)
        if certain and explanation.ess is not None:
            freedom = explanation.ess[place].double().cpu()[torch.from_numpy(cells)].min() - 1
            certain = abs(total) > float(stats.t_quantile(LEVEL, freedom.clamp(min=0))) * error
    low = high = math.nan
    if explanation.shown is not None:
        there = explanation.shown[place].double().cpu().numpy()[cells]
        low, high = float(there.min()), float(there.max())
    words = _words(explanation, row, d, start, stop, low, high)
    return Driver(d, start, stop, total, error, certain, low, high, words)


# In words


def _words(explanation: Explanation, row: int, d: int, start: int, stop: int, low: float, high: float) -> str:
    parts = [name(channel_names(explanation)[d])]
    if not math.isnan(low):
        unit = "" if explanation.units is None else name(explanation.units[d])
        parts += ["="] if parts[0][-1:].isdigit() else []
        parts += [_range(low, high), unit]
    when = when_text(short_times(explanation.times_of(row))[start:stop], numbered=explanation.times is None)
    return " ".join(part for part in (*parts, when) if part)


def _range(low: float, high: float) -> str:
    """Write the range of some values, to a digit that the larger of them needs.

    Examples
    --------
    >>> _range(15.2, 19.96), _range(1.0, 1.0), _range(-1.25, 0.5), _range(88.0, 92.0)
    ('15.2–20.0', '1', '−1.25 to 0.50', '88–92')
    """
    if short_number(low) == short_number(high):
        return short_number(low)
    ends = alike(low, high)
    while all("." in end and end[-1] in "0." for end in ends):
        ends = tuple(end[:-1] for end in ends)
    return (" to " if low < 0 else "–").join(ends)


def describe_series(explanation: Explanation, i: int | str = 0) -> str:
    """Say in one sentence what was predicted of series ``i``, what is true, and what drove the prediction."""
    row = position(require(explanation), i)
    said = said_of(explanation, row)
    reasons = _reasons(explanation, row, said.unit)
    counted = said.counted if "(" in reasons else ""  # numbers stand in brackets
    text = "; ".join(filter(None, (doubt(explanation, row), f"{said.text}{reasons}", counted)))
    return text[:1].upper() + text[1:]


def _reasons(explanation: Explanation, row: int, unit: str = "") -> str:
    """Write what drove the prediction, behind a comma; uncertain drivers come last, and are called so.

    ``unit`` is that of the output, which the effects have as well.
    """
    if explanation.method == CONTROL:
        return "; the scores are random, a control that says nothing about the model"
    if not observed_cells(explanation[row]).any():
        return "; nothing of the series was observed"
    sides, rest = _told(explanation, row)
    found = [each for side in (*sides, rest) for each in side]
    if not found:
        return "; no value has a score other than 0"
    mainly = "mainly" if _share(explanation, row, found) >= FEW else "among much else"
    if not explanation.signed:
        return f"; what matters is {mainly} {_listed([each.text.replace('(+', '(') for each in found])}"
    unsure = [_with_unit(each, unit) for each in rest]
    if not sides:
        return f"; no driver is certain, the largest: {unsure[0]}"
    text = ""
    for place, side in enumerate(sides):
        how = f"{mainly} " * (place == 0)
        which = _listed([_with_unit(each, unit) for each in side])
        text += f", {'raised' if side[0].total > 0 else 'lowered'} {how}by {which}"
    return f"{text}; not certain: {_listed(unsure)}" if rest else text


def _told(explanation: Explanation, row: int) -> tuple[list[list[Driver]], list[Driver]]:
    """Return the drivers worth a place in a sentence: the certain ones that push each way, and the others."""
    found = drivers_of(explanation, row)
    found = [each for each in found if abs(each.total) >= NAMED * abs(found[0].total)]
    if not explanation.signed:
        return [found], []
    sure, others = [each for each in found if each.certain], [each for each in found if not each.certain]
    ups = dict.fromkeys(each.total > 0 for each in sure)
    return [[each for each in sure if (each.total > 0) == up] for up in ups], others


def told_channels(explanation: Explanation, i: int | str) -> list[int]:
    """Return the channels that the sentence on series ``i`` names, in its order."""
    if explanation.method == CONTROL:
        return []
    sides, rest = _told(explanation, position(explanation, i))
    named = [each for side in sides for each in side] + rest[: None if sides else 1]
    return list(dict.fromkeys(each.channel for each in named))


def _with_unit(driver: Driver, unit: str) -> str:
    return f"{driver.text[:-1]} {unit})" if unit and driver.text.endswith(")") else driver.text


def _share(explanation: Explanation, row: int, found: Sequence[Driver]) -> float:
    """Return what part of all scores, by size, the drivers hold."""
    whole = float(explanation.importance[row].clamp(min=0).double().sum())
    return sum(abs(each.total) for each in found) / whole if whole else 0.0


def _listed(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
