"""What things are called: explanations by name, methods, channels, steps and classes, in words for people."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, time
from functools import lru_cache
from itertools import count

import numpy as np
import torch

from tempograd.core.errors import InputError, brief, printable
from tempograd.core.formatting import counted
from tempograd.engine import inputs
from tempograd.engine.outputs import LINKS, link_words
from tempograd.engine.outputs import outputs_of as outputs_of  # noqa: PLC0414
from tempograd.explanation import Explanations
from tempograd.explanation.core import Explanation, require
from tempograd.explanation.targets import other_series, same_output

Compared = Explanation | Sequence[Explanation] | Mapping[str, Explanation]
STATIC = inputs.STATIC  # what the step of static values is called
OUTPUTS = 4  # different explained outputs that are counted one by one
LONGEST = 28  # letters of a name in a picture
MIDNIGHT = time()
NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)(\D*)")
UNIT = re.compile(r"(\S.*?)\s*\[([^\[\]]+)\]")


def as_mapping(explanations: Compared) -> dict[str, Explanation]:
    """Give every explanation a distinct name, by default its method's, and check that they fit together."""
    if isinstance(explanations, Explanation | Explanations | str) or not isinstance(explanations, Iterable):
        explanations = [require(explanations)]
    if not isinstance(explanations, Mapping):
        parts = [(require(part).method, part) for part in explanations]
    else:
        parts = [(str(label), require(part)) for label, part in explanations.items()]
    named: dict[str, Explanation] = {}
    for label, part in parts:
        names = (f"{label} {number}" if number > 1 else label for number in count(1))
        named[next(each for each in names if each not in named)] = part
    if not named:
        raise InputError("There is nothing to show: pass at least one explanation.")
    (name, first), *others = named.items()
    for label, other in others:
        same = same_output(first, other) and other.values.shape == first.values.shape
        same = same and torch.equal(other.ids, first.ids) and other.call.lengths == first.call.lengths
        if not same or other_series(first, other.x, other.mask):
            unlike = f"{brief(label)} is of other series or lengths, in another order, or explains another output"
            raise InputError(f"{unlike} than {brief(name)}: compare explanations of the same series.")
    return named


def name(label: str, longest: int = LONGEST) -> str:
    r"""Put a name on one line and cut it where it is too long.

    Examples
    --------
    >>> name("heart\nrate"), name("a" * 40, 6)
    ('heart rate', 'aaaaa…')
    """
    line = " ".join(printable(label).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def method(label: str) -> str:
    """Write the name of a method without underscores."""
    return name(label.replace("_", " "))


def size(explanation: Explanation, join: str = " × ") -> str:
    """Say how large a series is; of several inputs, which they are."""
    packing, (time, depth) = explanation.call.packing, explanation.values.shape[1:]
    if packing is None:
        return f"{counted(time, 'step')}{join}{counted(depth, 'channel')}"
    return f"{counted(len(packing.names), 'input')}, {', '.join(map(name, packing.names))}"


def channel_names(explanation: Explanation) -> tuple[str, ...]:
    """Return the channels' names, or their numbers."""
    return explanation.channels or tuple(f"channel {d}" for d in range(explanation.values.shape[2]))


def with_unit(label: str, unit: str) -> str:
    """Put the unit of its values behind the name of a channel; of the two, the name is cut.

    Examples
    --------
    >>> with_unit("heart rate", "bpm"), with_unit("score", ""), with_unit("a" * 40, "mmol/L")
    ('heart rate [bpm]', 'score', 'aaaaaaaaaaaaaaaaaa… [mmol/L]')
    """
    unit = name(unit, LONGEST // 2)
    return f"{name(label, LONGEST - len(unit) - 3)} [{unit}]" if unit else name(label)


def time_names(explanation: Explanation, rows: Sequence[int]) -> tuple[str, ...]:
    """Return what the steps of these series are called, or their numbers where that differs between them."""
    found = {explanation.times_of(row) for row in rows}
    return found.pop() if len(found) == 1 else tuple(str(t) for t in range(explanation.values.shape[1]))


@lru_cache(maxsize=4096)
def short_times(times: tuple[str, ...]) -> tuple[str, ...]:
    """Write time stamps without what all of them share: the year, the day, times that are 0.

    Examples
    --------
    >>> short_times(("2026-03-30 23:40:00", "2026-03-31 00:10:00"))
    ('30 Mar 23:40', '31 Mar 00:10')
    >>> short_times(("2026-03-30T08:00", "2026-03-30T09:30"))
    ('08:00', '09:30')
    >>> short_times(("2025-12-31", "2026-01-01")), short_times(("0 h", "1 h"))
    (('2025-12-31', '2026-01-01'), ('0 h', '1 h'))
    """
    try:
        stamps = [datetime.fromisoformat(time.strip()) for time in times if "-" in time]
    except ValueError:
        stamps = []
    if len(stamps) < len(times) or not stamps:
        return tuple(times)
    years, days = len({stamp.year for stamp in stamps}), len({stamp.date() for stamp in stamps})
    clock, exact = any(stamp.time() != MIDNIGHT for stamp in stamps), any(stamp.second for stamp in stamps)
    shown = []
    for stamp in stamps:
        date = f"{stamp:%Y-%m-%d}" if years > 1 else f"{stamp.day} {stamp:%b}"
        clocked = stamp.time().isoformat("auto" if exact else "minutes")
        shown.append(" ".join([date] * (days > 1 or not clock) + [clocked] * clock))
    return tuple(shown)


def when_text(times: Sequence[str], *, numbered: bool = False) -> str:
    """Say when something was, given what people call its steps; ``numbered`` if these are their numbers.

    Examples
    --------
    >>> when_text(("35", "36"), numbered=True), when_text(("35 h", "36 h", "37 h")), when_text(("46:00",))
    ('at steps 35–36', 'at 35–37 h', 'at 46:00')
    >>> when_text(("2026-03-01 08:00", "2026-03-01 09:30")), when_text(("Monday", "Tuesday"))
    ('at 2026-03-01 08:00–09:30', 'from Monday to Tuesday')
    """
    first, last = (" ".join(text.split()) for text in (times[0], times[-1]))
    if len(times) == 1 or first == last:
        return "" if last == STATIC or not last else f"at {'step ' * numbered}{last}"
    if numbered:
        return f"at steps {first}–{last}"
    one, other = NUMBER.fullmatch(first), NUMBER.fullmatch(last)
    if one and other and one[2] == other[2]:
        return f"at {one[1]}–{last}" if "-" not in first + last else f"at {one[1]} to {last}"
    day, _, clock = last.rpartition(" ")
    if ":" in clock and first.startswith(f"{day} "):
        return f"at {first}–{clock}"
    return f"at {first}–{last}" if ":" in first and " " not in first + last else f"from {first} to {last}"


def class_name(index: int, classes: Sequence[str] | None) -> str:
    """Call a class by its name, or by its number where it has none.

    Examples
    --------
    >>> class_name(1, ("survived", "died")), class_name(1, None)
    ('“died”', 'class 1')
    """
    if classes is None or index >= len(classes):
        return f"class {index}"
    return f"“{name(str(classes[index]))}”"


def are_numbers(explanation: Explanation) -> bool:
    """Tell whether outputs are numbers that mean something by themselves, rather than scores of classes."""
    numbers = outputs_of(explanation.task).kind == "numbers"
    return explanation.output != "probability" and (numbers or explanation.n_outputs == 1)


def unit_apart(label: str) -> tuple[str, str]:
    """Part the name of an output from its unit, written behind it as channels have theirs.

    Examples
    --------
    >>> unit_apart("length of stay [days]"), unit_apart("load"), unit_apart("[days]")
    (('length of stay', 'days'), ('load', ''), ('[days]', ''))
    """
    found = UNIT.fullmatch(label.strip())
    return (found[1], found[2]) if found else (label, "")


def output_unit(explanation: Explanation, column: int) -> str:
    """Return the unit of an output that is a number; nothing if it has none."""
    classes = explanation.classes
    if not are_numbers(explanation) or classes is None or column >= len(classes):
        return ""
    return name(unit_apart(str(classes[column]))[1])


def output_name(explanation: Explanation, column: int) -> str:
    """Call an output by its name, or as its task does: a class, a label, a step of a forecast, an address."""
    classes, shape, row = explanation.classes, explanation.output_shape, outputs_of(explanation.task)
    known = explanation.output != "probability" or row.kind == "labels" or tells_class(explanation)
    if classes is not None and column < len(classes) and known:
        whole = str(classes[column])
        return name(unit_apart(whole)[0]) if are_numbers(explanation) else class_name(column, classes)
    if explanation.n_outputs == 1:
        return "the model's output"
    if row.place:
        address = [int(part) for part in np.unravel_index(column, shape or (column + 1,))]
        wide = [part for part, size in zip(address[1:], shape[1:], strict=True) if size > 1]
        what = "" if not wide else f"output {wide[0] if len(wide) == 1 else tuple(wide)} at "
        return f"{what}{row.place.format(address[0])}"
    kind = "label" if row.kind == "labels" else "class" if tells_class(explanation) else "output"
    return f"{kind} {tuple(int(part) for part in np.unravel_index(column, shape)) if shape else column}"


def tells_class(explanation: Explanation) -> bool:
    """Tell whether targets are classes for certain, which takes to know how many outputs the model has."""
    classes = explanation.output == "probability" and outputs_of(explanation.task).kind == "classes"
    return classes and explanation.target is not None and explanation.n_outputs is not None


def explained(explanation: Explanation, *, by: bool = False) -> str:
    """Say in words which output the scores are about, and with ``by`` what makes probabilities of outputs."""
    target = explanation.target
    if target is None:
        return explanation.target_text or "a score of your own"
    kind = link_words(explanation.link, explanation.columns)
    if explanation.link == "raw":
        kind = "as the model returns it"
    elif LINKS[explanation.link].probable:
        kind = "as a probability" + f", by {kind}" * by
    unit, rest = "series", ""
    if target.ndim == 2:
        own = isinstance(explanation.steps, str)
        unit, rest = "steps", f", {'each cell for its own step' if own else 'summed over the steps'}"
        if not (explanation.steps is None or isinstance(explanation.steps, str)):
            target = target[explanation.steps]
    counts = Counter(target.flatten().tolist()).most_common()
    names = [f"{output_name(explanation, column)} for {count:,} {unit}" for column, count in counts[:OUTPUTS]]
    if len(counts) == 1:
        names = [output_name(explanation, counts[0][0])]
    elif len(counts) > OUTPUTS:
        names = [f"{len(counts)} different {'classes' if tells_class(explanation) else 'outputs'}"]
    return f"{', '.join(names)}, {kind}{rest}"
