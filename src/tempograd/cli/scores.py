"""Scores and their differences as the rows of a table."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tempograd._utils.formatting import alike, with_error

if TYPE_CHECKING:
    from torch import Tensor

    from tempograd.metrics import Difference


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


def difference_rows(gaps: Mapping[str, Mapping[str, "Difference"]], base: str) -> list[list[str]]:
    """Return a head and one row per method: its mean difference to ``base`` with its interval."""
    head = [f"minus {base}", *(name.upper() for name in next(iter(gaps.values())))]
    return [head, *([method, *map(_interval, found.values())] for method, found in gaps.items())]


def verdicts(gaps: Mapping[str, Mapping[str, "Difference"]], base: str) -> list[str]:
    """Say of each method whether the first metric tells it and ``base`` apart, and which is better."""
    from tempograd.metrics import METRICS

    lines = []
    for method, found in gaps.items():
        name, gap = next(iter(found.items()))
        by = f"by {name.upper()}"
        if gap.low > 0 or gap.high < 0:
            wins = (gap.mean > 0) == METRICS[name].higher_is_better
            better, worse = (method, base) if wins else (base, method)
            lines.append(f"{better} is better than {worse} {by}.")
        else:
            lines.append(f"{base} and {method}: these series do not tell them apart {by} (the interval holds 0).")
    return lines


def _interval(gap: "Difference") -> str:
    values = (gap.mean, gap.low, gap.high)
    signed = [f"+{text}" if value > 0 else text for text, value in zip(alike(*values), values, strict=True)]
    return f"{signed[0]} [{signed[1]}, {signed[2]}]"
