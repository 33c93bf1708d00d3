"""Scores as a Markdown table that is readable as it is."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tempograd.pages.numbers import with_error

if TYPE_CHECKING:
    from torch import Tensor


def table(rows: Sequence[Sequence[str]]) -> str:
    """Align rows, the first of which is the head; the first column is text, the others are numbers.

    Examples
    --------
    >>> print(table([["method", "CPD"], ["timing", "0.5"]]))
    | method | CPD |
    | :----- | --: |
    | timing | 0.5 |
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [
        [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        for row in rows
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], rule, *lines[1:]])


def score_rows(scores: Mapping[str, Mapping[str, "Tensor"]]) -> list[list[str]]:
    """Return a head and one row per method: mean ± standard error of every metric."""
    from tempograd.metrics import METRICS, summarise

    metrics = list(next(iter(scores.values())))
    head = ["method", *(f"{name.upper()} {'↑' if METRICS[name].higher_is_better else '↓'}" for name in metrics)]
    body = []
    for method, found in scores.items():
        summaries = [summarise(found[name]) for name in metrics]
        body.append([method, *(with_error(s.mean, s.standard_error) for s in summaries)])
    return [head, *body]
