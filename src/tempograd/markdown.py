"""Markdown tables that are readable as they are."""

from collections.abc import Sequence


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
