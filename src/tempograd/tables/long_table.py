"""A table for programs: one line per row and measure, with everything that is known of it."""

import math
from collections.abc import Iterator
from typing import Any

from tempograd.benchmark.cell import Measure
from tempograd.metrics import METRICS, Summary
from tempograd.tables.entries import Entry
from tempograd.tables.published_numbers import SCALES
from tempograd.tables.tabulate import Panel, Table

FIELDS = (
    "table", "protocol", "dataset", "model", "folds", "left_out", "label", "method", "rank", "measure", "metric",
    "k", "substitute", "higher_is_better", "scale", "mean", "standard_error", "count", "over", "complete", "mark",
    "published_mean", "published_standard_error", "deviation", "deviation_in_errors",
    "difference", "difference_low", "difference_high", "difference_count",
    "seconds_per_series", "test_accuracy", "largest_class", "auroc", "auroc_standard_error", "folds_at_chance",
)  # fmt: skip


def lines(table: Table) -> Iterator[dict[str, str]]:
    """Yield one line of text per panel, row and measure; what is not known or not finite is empty."""
    for record in records(table):
        yield {name: _plain(value) for name, value in record.items()}


def records(table: Table) -> Iterator[dict[str, Any]]:
    """Yield one record per panel, row and measure; what is not known or not finite is None.

    Numbers are in the units of the paper: ``scale`` times the metric's own.
    """
    plan = table.plan
    for panel in table.panels:
        for row, entries, seconds in zip(plan.rows, panel.entries, panel.seconds, strict=True):
            for measure, entry in zip(plan.measures, entries, strict=True):
                line = {
                    "table": plan.name,
                    "protocol": plan.protocol,
                    **_about(panel),
                    "label": row.label,
                    "method": row.method,
                    "rank": row.rank,
                    **_measure(measure),
                    **_entry(entry),
                    "over": panel.over,
                    "seconds_per_series": seconds,
                }
                yield {name: None if _unknown(value) else value for name, value in line.items()}


def _about(panel: Panel) -> dict[str, Any]:
    quality = panel.quality
    return {
        "dataset": panel.dataset,
        "model": panel.model,
        "folds": panel.folds,
        "left_out": tuple(fold for fold, _ in panel.left_out),
        "test_accuracy": _mean(quality.accuracy),
        "largest_class": _mean(quality.majority),
        "auroc": _mean(quality.auroc),
        "auroc_standard_error": quality.auroc and quality.auroc.standard_error,
        "folds_at_chance": quality.at_chance,
    }


def _measure(measure: Measure) -> dict[str, Any]:
    return {
        "measure": measure.name,
        "metric": measure.metric,
        "k": measure.k,
        "substitute": None if measure.k is None else measure.substitute,
        "higher_is_better": METRICS[measure.metric].higher_is_better,
        "scale": SCALES.get(measure.metric, 1.0),
    }


def _entry(entry: Entry) -> dict[str, Any]:
    ours, theirs, gap, deviation = entry.summary, entry.published, entry.difference, entry.deviation
    return {
        "mean": _mean(ours),
        "standard_error": ours and ours.standard_error,
        "count": ours and ours.count,
        "complete": entry.complete,
        "mark": entry.mark,
        "published_mean": theirs and theirs.mean,
        "published_standard_error": theirs and theirs.standard_error,
        "deviation": deviation and deviation.value,
        "deviation_in_errors": deviation and deviation.in_errors,
        "difference": gap and gap.mean,
        "difference_low": gap and gap.low,
        "difference_high": gap and gap.high,
        "difference_count": gap and gap.count,
    }


def _mean(summary: Summary | None) -> float | None:
    return None if summary is None else summary.mean


def _unknown(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(str(part) for part in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
