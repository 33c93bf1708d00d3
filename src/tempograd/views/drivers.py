r"""What drove a prediction, in one sentence, and how sure that is, for those who read it: nothing to type.

:mod:`tempograd.sampling.stretches` has the rule that groups values. Beside a probability, effects are shares of
the push, for its points they would be taken, and scores of a method that promises no sum may add up to more than
the prediction moved. The push of a series is what all its values did, up and down alike, those without a name too:

.. math:: P = \sum_{t,d} |A_{t,d}|, \qquad \text{share} = |\sum_{(t,d) \in \text{driver}} A_{t,d}| / P \le 1.

So the shares of the drivers never exceed the whole, and do not depend on how many are named. Noise makes :math:`P`
larger, and shares smaller: they are careful.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tempograd.core import validation
from tempograd.core.formatting import short_number
from tempograd.explanation.core import Explanation, require
from tempograd.explanation.diagnostics import AGAINST, judge, texts_of, verdict_text
from tempograd.sampling.stretches import MOST, NAMED, Stretches, stretches_of
from tempograd.views.labels import channel_names, name, short_times, when_text
from tempograd.views.prediction import Said, percent_text, said_of
from tempograd.views.series import certain_sizes, observed_cells, position, sizes

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
    name, what : str
        The channel, and its values and the time: "15–20 mmol/L at 35–46 h".
    push : float
        The sum of the sizes of all scores of the series.
    """

    channel: int
    start: int
    stop: int
    total: float
    error: float | None
    certain: bool
    name: str
    what: str
    push: float

    @property
    def words(self) -> str:
        """Channel, values and time: "lactate 15–20 mmol/L at 35–46 h"."""
        equal = "= " * (self.name[-1:].isdigit() and self.what[:1] in "−0123456789")
        return f"{self.name} {equal}{self.what}".strip()

    def amount(self, said: Said) -> str:
        """Write the total in the unit of the output; beside a probability the share of the push."""
        if not said.probable:
            return f"{_total(self.total, self.error)} {said.unit}".strip()
        return _share(abs(self.total) / self.push, None if self.error is None else self.error / self.push)

    def text(self, said: Said) -> str:
        """Return the words with the amount: "pulse at 35–46 h (+0.28 ± 0.03)", "pulse at 35–46 h (38 ± 4 %)"."""
        return f"{self.words} ({self.amount(said)})"


def _total(total: float, error: float | None) -> str:
    """Write a sum to the digit of its error, with two digits where that is not known or too small to matter.

    Examples
    --------
    >>> _total(0.2837, 0.0312), _total(-1.3871, 0.26), _total(2.0, 7e-7), _total(0.0912, None)
    ('+0.28 ± 0.03', '−1.4 ± 0.3', '+2', '+0.091')
    >>> _total(1250.0, 38.0), _total(2.837e-6, 3e-7), _total(0.5, math.inf)
    ('+1250 ± 40', '+2.8 × 10⁻⁶ ± 3 × 10⁻⁷', '+0.5, error not known')
    """
    size, unknown = abs(total), ", error not known" if error == math.inf else ""
    error = 0.0 if error is None or unknown or error < 0.005 * size else error
    digits = -math.floor(math.log10(error)) if error else 1 - math.floor(math.log10(size or 1))
    text = ("−" if total < 0 else "+") + short_number(round(size, digits))
    return text + (f" ± {short_number(float(f'{error:.1g}'))}" if error else unknown)


def _share(share: float, error: float | None) -> str:
    """Write a share with its error.

    Examples
    --------
    >>> _share(0.384, 0.041), _share(0.384, None), _share(0.384, 0.001), _share(0.003, math.inf)
    ('38 ± 4 %', '38 %', '38 %', 'under 1 %, error not known')
    """
    if error is None or error == math.inf or error < 0.005:
        return percent_text(share) + ", error not known" * (error == math.inf)
    return f"{100 * share:.0f} ± {100 * error:.0f} %"


def drivers_of(explanation: Explanation, i: int | str, most: int = MOST) -> list[Driver]:
    """Return what drove the explained score of series ``i``, the strongest first, at most ``most``.

    See :mod:`tempograd.sampling.stretches` for the rule that groups values.
    """
    row, most = position(explanation, i), validation.check_int(most, "most", 1)
    part = explanation[row : row + 1]
    found, push = stretches_of(part, part.mask, most), float(sizes(part).double().sum())
    return [_driver(part, push, found, k) for k in range(len(found.row))]


def named_drivers(explanation: Explanation, i: int) -> list[Driver]:
    """Return the drivers of a series that are worth a place in a sentence."""
    found = drivers_of(explanation, i)
    return [each for each in found if abs(each.total) >= NAMED * abs(found[0].total)]


def _driver(part: Explanation, push: float, found: Stretches, k: int) -> Driver:
    """Describe a driver of the only series of a part."""
    d, start, stop = (int(part[k]) for part in (found.channel, found.start, found.stop))
    error = None if part.standard_error is None else float(found.error[k])
    times, numbered = short_times(part.times_of(0))[start:stop], part.times is None
    called, when = name(channel_names(part)[d]), when_text(times, numbered=numbered)
    what = f"{values_text(part, 0, d, start, stop)} {when}".strip()
    return Driver(d, start, stop, float(found.total[k]), error, bool(found.certain[k]), called, what, push)


def values_text(explanation: Explanation, row: int, d: int, start: int, stop: int) -> str:
    """Write the observed values of a part of a channel with their unit; nothing where they are not known."""
    if explanation.shown is None:
        return ""
    there = explanation.shown[row, start:stop, d].double().cpu()
    there = there if explanation.mask is None else there[explanation.mask[row, start:stop, d].cpu().bool()]
    unit = "" if explanation.units is None else name(explanation.units[d])
    return f"{_range(float(there.min()), float(there.max()))} {unit}".strip()


def _range(low: float, high: float) -> str:
    """Write the range of some values.

    Examples
    --------
    >>> _range(15.2, 19.96), _range(1.0, 1.0), _range(-1.25, 0.5), _range(88.0, 92.0)
    ('15.2–20', '1', '−1.25 to 0.5', '88–92')
    """
    ends = dict.fromkeys((short_number(low), short_number(high)))
    return (" to " if low < 0 else "–").join(ends)


def describe_series(explanation: Explanation, i: int | str = 0) -> str:
    """Say in one sentence what was predicted of series ``i``, what is true, and what drove the prediction."""
    row = position(require(explanation), i)
    said = said_of(explanation, row)
    reasons = _reasons(explanation, row, said)
    counted = said.counted if "(" in reasons else ""  # numbers stand in brackets
    text = "; ".join(filter(None, (doubt(explanation, row), f"{said.text}{reasons}", counted)))
    return text[:1].upper() + text[1:]


def _reasons(explanation: Explanation, row: int, said: Said) -> str:
    """Write what drove the prediction, behind a comma; uncertain drivers come last, and are called so."""
    if explanation.method == CONTROL:
        return "; the scores are random, a control that says nothing about the model"
    if not observed_cells(explanation[row]).any():
        return "; nothing of the series was observed"
    sides, rest = _told(explanation, row)
    unsure, text = [each.text(said) for each in rest], ""
    if not any(sides):
        text = f"; no driver is certain, the largest: {unsure[0]}" if rest else ""
        text = text or "; no value has a score other than 0"
    elif not explanation.signed:
        text = f"; what matters is {_listed([each.text(said).replace('(+', '(') for each in sides[0]])}"
    else:
        for side in sides:
            verb = "raised" if side[0].total > 0 else "lowered"
            text += f", {verb} by {_listed([each.text(said) for each in side])}"
        text += f"; not certain: {_listed(unsure)}" if rest else ""
    return text.replace(" %)", f" % of {whole(explanation)})", 1)


def whole(explanation: Explanation) -> str:
    """Say what shares are of."""
    return "the push" if explanation.signed else "all importance"


def _told(explanation: Explanation, row: int) -> tuple[list[list[Driver]], list[Driver]]:
    """Return the drivers worth a place in a sentence: the certain ones that push each way, and the others."""
    found = named_drivers(explanation, row)
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


def _listed(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


# How sure that is

BADGES = {  # by the status of the verdict; of any other nothing is known
    **dict.fromkeys(("complete", "exact"), "exact"),
    **dict.fromkeys(("rough", "missed", "incomplete"), "rough"),
    **dict.fromkeys(("noisy", "mixed", "wrong", "empty"), "unreliable"),
    "converged": "converged",
}


def doubts(explanations: Iterable[Explanation]) -> str:
    """Say what was found out about model and baseline, in whole sentences; the rest is for whoever runs it."""
    texts = texts_of(explanations, "warning", ("model.", "baseline."))
    return " ".join(text if text.endswith("?") else f"{text}." for text in texts)


class ReaderVerdict(NamedTuple):
    """How sure an explanation is: one word for a badge, and a sentence."""

    badge: str
    text: str


def reader_verdict(explanation: Explanation, i: int | None = None) -> ReaderVerdict:
    """Return how sure series ``i`` is, by default all of them: the verdict, and nothing to type."""
    verdict = judge(explanation, i)
    return ReaderVerdict(BADGES.get(verdict.status, "unknown"), verdict_text(verdict, "reader"))


def doubt(explanation: Explanation, row: int) -> str:
    """Say what no further samples would mend of a series, or of most of them; nothing where nothing is known."""
    verdict, check = judge(explanation, row), explanation.gradient_check
    if verdict.status not in {*AGAINST, "nothing"} and check is not None and check.mostly_wrong:
        verdict = judge(explanation)
    return f"{AGAINST[verdict.status]}{verdict.where}" if verdict.status in AGAINST else ""


def most_telling(explanation: Explanation) -> int:
    """Return the position of the series that tells most, the first of equals.

    Its scores are the largest, summed by size; where their errors are known, only those with a certain sign count.
    """
    return int(certain_sizes(explanation).argmax())
