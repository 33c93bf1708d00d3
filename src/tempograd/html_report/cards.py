"""The answer card of a series, as plain data for the page: the prediction, what drives it, and how sure that is.

A row is a channel: where its strongest driver lies, its share of the push, and what would be predicted with it as
usual. Channels come by how much that changes the prediction, then those of the sentence.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from tempograd.explanation import Explanation
from tempograd.views.as_usual import Outcome, Portion, WhatIf
from tempograd.views.drivers import CONTROL, Driver, drivers_of, named_drivers, reader_verdict, values_text, whole
from tempograd.views.prediction import Said, percent_text, said_of, with_unit_of
from tempograd.views.series import Floats, observed_cells, shown_values, to_numpy

ROWS = 3
REMARKS = 2
LIKE = 0.9  # of what a whole channel changes: a driver that changes as much is told in its place
TWICE = 2  # times what the weakest values do, which the strongest must do to pass
STEADY = {  # whether numbers are good, and a word for it, by the badge of the verdict
    "exact": (True, "numbers exact"),
    "converged": (True, "numbers steady"),
    "rough": (False, "numbers rough: the order of drivers may change"),
    "unreliable": (False, "numbers not reliable"),
    "unknown": (False, "steadiness of the numbers not known"),
}
IF = {"median": "if usual", "neighbours": "if like its neighbours", "baseline": "if at its baseline"}


def usual_ranges(asked: Sequence[WhatIf], explanation: Explanation) -> Floats:
    """Return what is usual in each channel, 5 and 95 %, (2, channel): of usual series, else of those explained."""
    if asked and asked[0].quantiles is not None and not np.isnan(asked[0].quantiles).any():
        return np.asarray(asked[0].quantiles[::2])
    values, seen = to_numpy(shown_values([explanation])), observed_cells(explanation)
    known = [values[..., d][seen[..., d]] for d in range(values.shape[2])]
    return np.stack([np.quantile(part, (0.05, 0.95)) if len(part) else [np.nan] * 2 for part in known], 1)


def cards_of(
    label: str, shown: Mapping[str, Explanation], found: WhatIf | None, scores: Mapping[str, Tensor]
) -> list[dict[str, Any]]:
    """Return the card of each shown series by the method called ``label``, with its ``scores`` of these series."""
    explanation, made = shown[label], []
    others = [
        each for name, each in shown.items() if CONTROL not in {each.method, explanation.method} and name != label
    ]
    for i in range(len(explanation)):
        said, (steady, word) = said_of(explanation, i), STEADY[reader_verdict(explanation, i).badge]
        sure = [(steady, word)] + ([_agreement(explanation, others, i)] if others else [])
        if {"cpd", "cpp"} <= set(scores):
            passed = bool(scores["cpd"][i] > TWICE * scores["cpp"][i])
            sure.append((passed, f"removal test {'not ' * (not passed)}passed"))
        made.append(
            {
                "number": None if said.output is None else _number(said, said.output),
                "what": "mean of " * said.mean + said.what.strip("“”"),
                "rows": _rows(explanation, i, found),
                "remarks": [] if found is None else [remark.text for remark in found.remarks(i)[:REMARKS]],
                "sure": sure,
            }
        )
    return made


def _number(said: Said, output: float) -> str:
    return percent_text(output) if said.probable else with_unit_of(output, said.unit)


def _rows(explanation: Explanation, i: int, found: WhatIf | None) -> list[dict[str, Any]]:
    """Return the channels that count most in a series, at most three."""
    if explanation.method == CONTROL:
        return []
    named, strongest = dict[int, Driver](), dict[int, Outcome]()
    drivers = sorted(named_drivers(explanation, i), key=lambda driver: not driver.certain)
    for driver in drivers if drivers and drivers[0].certain else drivers[:1]:
        named.setdefault(driver.channel, driver)
    for outcome in [] if found is None else found.strongest(i):
        if len(outcome.parts) == 1:
            strongest.setdefault(outcome.parts[0].channel, outcome)
    rest = [*named][: 1 if strongest else None]  # the first driver in any case
    order = [*dict.fromkeys([*strongest, *rest])][:ROWS]
    return [_row(explanation, i, d, named.get(d), found, strongest.get(d)) for d in order]


def _row(
    explanation: Explanation, i: int, d: int, driver: Driver | None, found: WhatIf | None, outcome: Outcome | None
) -> dict[str, Any]:
    """Describe a channel of a series: its driver, if it has one, and what would be predicted with it as usual."""
    time, said = explanation.values.shape[1], said_of(explanation, i)
    row: dict[str, Any] = {"d": d, "driver": None, "push": "", "what": values_text(explanation, i, d, 0, time)}
    if driver is not None:
        turned = "counts" if not explanation.signed else "raised it" if driver.total > 0 else "lowered it"
        amount = driver.amount(said) + f" of {whole(explanation)}" * said.probable
        certain = ", not certain" * (not driver.certain)
        row |= {"driver": [driver.start, driver.stop], "what": driver.what, "push": f"{turned}: {amount}{certain}"}
        row["up"] = driver.total > 0
    if found is None:
        return row
    alone = {
        each.parts[0]: each for each in found.outcomes[i] if len(each.parts) == 1 and each.parts[0].channel == d
    }
    outcome = outcome or max(alone.values(), key=lambda each: abs(each.change))
    if driver is not None:
        there = alone[Portion(d, driver.start, driver.stop)]
        outcome = there if abs(there.change) >= LIKE * abs(outcome.change) else outcome
    (part,) = outcome.parts
    before = outcome.prediction - outcome.change
    ends = [found.said(i, each) for each in (before, outcome.prediction)]
    unit = f" {ends[1].rpartition(' ')[2]}"
    row |= {
        "part": [part.start, part.stop],
        "if": IF[found.usual] + " throughout" * (part.stop - part.start == time),
        "before": before,
        "then": outcome.prediction,
        "text": f"stays {ends[1]}" if ends[0] == ends[1] else f"{ends[0].removesuffix(unit)} → {ends[1]}",
        "usual": found.usual_text(d),
    }
    return row


def _agreement(explanation: Explanation, others: Sequence[Explanation], i: int) -> tuple[bool, str]:
    """Tell whether the first driver of a series is the same by the other methods."""
    own, same = drivers_of(explanation, i, 1), 0
    for other in (drivers_of(each, i, 1) for each in others):
        pairs = zip(own, other, strict=False)
        same += any(a.channel == b.channel and a.start < b.stop and b.start < a.stop for a, b in pairs)
    words = {0: "methods name other first drivers", len(others): "methods agree on the first driver"}
    return 2 * same >= len(others), words.get(same, f"{same} of {len(others)} other methods agree on it")
