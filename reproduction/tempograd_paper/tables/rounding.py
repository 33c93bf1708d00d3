"""Scores as whole steps: a fifth of their bytes, and not one digit of a printed table moves."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from tempograd_paper.runner.plan import Plan
from tempograd_paper.runner.record import Record
from tempograd_paper.tables.sheets import Sheet, make_sheets
from tempograd_paper.tables.tabulation import Table, tabulate

_Floats = NDArray[np.float64]
COARSE, FINE = 5, 24  # bits of a spread: a step is at most a 32nd of it, and no finer than single precision


def step_of(scores: _Floats) -> float:
    """Return the largest power of two that all scores are multiples of; 0 for scores as they were measured.

    Examples
    --------
    >>> step_of(np.array([0.0, -0.75, 1.5])), step_of(np.array([0.1, 1.0])), step_of(np.zeros(3))
    (0.25, 0.0, 1.0)
    """
    single = _single(scores)
    counts = scores / single
    if not np.array_equal(counts, np.rint(counts)):
        return 0.0
    together = int(np.bitwise_or.reduce(counts.astype(np.int64)))
    return single * (together & -together) if together else 1.0


def _single(scores: _Floats) -> float:
    """Return the last digit of the largest score in single precision."""
    largest = float(np.abs(scores).max(initial=0.0))
    return float(2.0 ** (np.floor(np.log2(largest)) - 23)) if largest else 1.0


def in_steps(scores: _Floats, step: float) -> _Floats:
    """Round scores to whole steps so that their sum is rounded too: those nearest to the other side go there.

    Examples
    --------
    >>> in_steps(np.array([0.4, 0.45, 0.3, 1.0]), 1.0)
    array([0., 1., 0., 1.])
    """
    exact = scores / step
    counts = np.rint(exact)
    missing = round(float(exact.sum() - counts.sum()))
    side = np.sign(missing)
    counts[np.argsort(side * (counts - exact), kind="stable")[: abs(missing)]] += side
    return counts


def rounded(plan: Plan, records: Mapping[str, Record]) -> dict[str, Record]:
    """Round the scores of every measure as coarsely as the table of these records allows.

    The table prints the same, digit by digit, also for standard errors and intervals, and records that were
    rounded before stay as they are.
    """
    bits = {measure.name: COARSE for measure in plan.measures}
    printed = _printed(tabulate(plan, records))
    while True:
        found = {key: _round(record, bits) for key, record in records.items()}
        now = _printed(tabulate(plan, found))
        moved = [name for name in bits if now[name] != printed[name] and bits[name] < FINE]
        if not moved:
            return found
        bits |= {name: bits[name] + 1 for name in moved}


def _round(record: Record, bits: Mapping[str, int]) -> Record:
    scores = {}
    for name, values in record.scores.items():
        given = values.double().numpy()
        defined = ~np.isnan(given)
        given[defined] = _round_to(given[defined], bits[name])
        scores[name] = torch.from_numpy(given).float()
    return replace(record, scores=scores)


def _round_to(scores: _Floats, bits: int) -> _Floats:
    spread = float(scores.std()) if len(scores) else 0.0
    coarse = float(2.0 ** (np.floor(np.log2(spread)) - bits)) if spread else 0.0
    if step_of(scores) >= coarse / 2**COARSE > 0:  # zeros and ones, or rounded before
        return scores
    step = max(coarse, _single(scores))
    return in_steps(scores, step) * step


def _printed(table: Table) -> dict[str, list[Sheet]]:
    """Return what a table prints, by measure."""
    plan = table.plan
    return {
        measure.name: make_sheets(
            replace(
                table,
                plan=replace(plan, measures=(measure,)),
                panels=tuple(
                    replace(panel, entries=tuple((row[place],) for row in panel.entries)) for panel in table.panels
                ),
            )
        )
        for place, measure in enumerate(plan.measures)
    }
