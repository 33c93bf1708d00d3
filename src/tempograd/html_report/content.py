"""Everything that the page's script needs, as one packed text: arrays and a header, which a browser unpacks.

The layout, before gzip and base64: four bytes with the length of the header (little-endian), the header as JSON,
padded so that what follows starts at a multiple of eight, and the arrays, each at a multiple of eight.
Scores and half-widths of their intervals are single precision, infinite where nothing is known of an error.
"""

import base64
import gzip
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core.formatting import first_sentence
from tempograd.core.series import Series, shared_times
from tempograd.core.stats import t_quantile
from tempograd.explanation import Explanation
from tempograd.explanation.record import Blocks
from tempograd.html_report.cards import STEADY, cards_of, usual_ranges
from tempograd.metrics import METRICS
from tempograd.metrics.aggregate import ARROWS, MetricScores, PaperTable, TableCell
from tempograd.typing import Inputs, Model
from tempograd.views import prediction, series
from tempograd.views.as_usual import WhatIf, what_if
from tempograd.views.drivers import CONTROL, describe_series, reader_verdict, told_channels
from tempograd.views.groups import blocks_of, channel_sums, value_effects
from tempograd.views.labels import (
    are_numbers,
    channel_names,
    output_name,
    output_unit,
    outputs_of,
    short_times,
    unit_apart,
)
from tempograd.views.prediction import POSITIVE, RemovedOutputs
from tempograd.views.series import Flags, Floats, to_numpy

Usual = Inputs | Series | str | None
STUDENT = 401  # values of a table


def metric_words(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what metrics mean and which direction is better, for those that are known."""
    known = {name: METRICS[name] for name in sorted(names) if name in METRICS}
    return {
        name: {"meaning": first_sentence(metric.__doc__ or ""), "arrow": ARROWS[metric.higher_is_better]}
        for name, metric in known.items()
    }


class Pack:
    """Collects arrays; :meth:`text` writes them with the header."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def add(self, array: NDArray[Any] | Tensor | None) -> dict[str, Any] | None:
        """Keep an array, flags as bits, and return where the browser finds it; None stays None."""
        if array is None:
            return None
        cells: NDArray[Any] = array if isinstance(array, np.ndarray) else to_numpy(array)
        # the first flag in the lowest bit of the first byte
        cells = np.packbits(cells.ravel(), bitorder="little") if cells.dtype == np.bool_ else cells
        raw = np.ascontiguousarray(cells).astype(cells.dtype.newbyteorder("<")).tobytes()
        place = {"at": sum(map(len, self._parts)), "length": cells.size, "type": str(cells.dtype)}
        self._parts.append(raw + bytes(-len(raw) % 8))
        return place

    def text(self, header: dict[str, Any]) -> str:
        """Return header and arrays as one base64 text; the same content gives the same text."""
        head = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
        head += b" " * (-(len(head) + 4) % 8)
        content = struct.pack("<I", len(head)) + head + b"".join(self._parts)
        return base64.b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode()  # without a date


def collect(
    model: Model | None,
    explanations: Mapping[str, Explanation],
    rows: Sequence[int],
    scores: MetricScores,
    table: PaperTable | None = None,
    usual: Usual = None,
) -> tuple[dict[str, Any], Pack]:
    """Return what the page shows of the series at positions ``rows``; all else is about all series.

    That is a header of plain data and the arrays that it points to; ``usual`` is that of ``what_if``.
    """
    index, pack = list(rows), Pack()
    shown = {label: explanation[index] for label, explanation in explanations.items()}
    first = next(iter(shown.values()))
    seen = series.observed_cells(first)
    counts = prediction.removal_counts(series.removed_at_most(seen))
    removals = {
        label: prediction.removal_outputs(model, each, series.whole_series([each]), seen, counts)
        for label, each in shown.items()
        if model is not None
    }
    removed = removals.get(next(iter(shown)))
    known: dict[str, Any] = {"mask": None if seen.all() else torch.from_numpy(seen)}
    if removed is not None and removed.score is not None and removed.clean_steps is None:
        known["prediction"] = torch.from_numpy(np.ascontiguousarray(removed.score[:, 0]))  # of the model given
    ones = {label: replace(explanation, **known) for label, explanation in shown.items()}
    outcomes = _outcomes(model, ones, removals, usual)
    blocks, entries = blocks_of(first), []
    for label, found in explanations.items():
        one, removal = ones[label], removals.get(label)
        own = {name: part[index] for name, part in scores.get(label, {}).items()}
        entries.append(
            _map(pack, shown[label], seen, blocks.edges)
            | {
                "label": label,
                "sentences": [describe_series(one, i) for i in range(len(one))],
                "named": [told_channels(one, i) for i in range(len(one))],
                "effects": [effect.data() for effect in value_effects(found)],
                "control": found.method == CONTROL,
                "telling": pack.add(series.certain_sizes(shown[label])),
                "scores": {name: _list(part) for name, part in own.items()},
                "cards": cards_of(label, ones, outcomes.get(label), own),
                "removal": removal and {n: pack.add(getattr(removal, n)) for n in ("outputs", "score")},
                "certainty": _certainty(pack, found, shown[label]),
            }
        )
    header = {
        **_names(first, removed),
        **_predictions(first, removed),
        **_cells(pack, to_numpy(series.shown_values([first])), seen),
        "truth": pack.add(None if first.truth is None else first.truth.cpu().numpy()),
        "counts": counts.tolist(),
        "metrics": metric_words({name for found in scores.values() for name in found}),
        "maps": entries,
        "usual": [*map(_list, usual_ranges([*outcomes.values()], *[*explanations.values()][:1]))],
        "steps": _steps(pack, first, removed),
        "summary": _summary(pack, explanations),
        **_intervals(pack, blocks),
        "table": None if table is None else _table(table, explanations),
    }
    return header, pack


def _outcomes(
    model: Model | None,
    explanations: Mapping[str, Explanation],
    removals: Mapping[str, RemovedOutputs],
    usual: Usual,
) -> dict[str, WhatIf]:
    """Ask what would be predicted with parts as usual, for each method whose scores mean something."""
    return {
        label: what_if(model, found, usual=usual)
        for label, found in explanations.items()
        if model is not None and removals[label].score is not None and found.method != CONTROL
    }


def _names(first: Explanation, removed: Any) -> dict[str, Any]:
    """Return what series, steps, channels and outputs are called."""
    times, given, every = shared_times(first.times), first.classes or (), first.times or ()
    output_units = [output_unit(first, k) for k in range(len(given))]
    named = [unit_apart(each)[0] for each in given] if are_numbers(first) else given
    return {
        "time": first.values.shape[1],
        "times": None if times is None else short_times(times),
        "stamps": None if times is not None or not every else [short_times(tuple(each)) for each in every],
        "exact": times or first.times,
        "channels": channel_names(first),
        "units": first.units,
        "classes": named or _classes(first, removed),  # one for each output; empty where none has a meaning
        "named": bool(given),  # whether somebody gave these names
        "outputUnits": output_units if any(output_units) else None,
        "ids": first.ids.tolist() if first.names is None else list(range(len(first))),  # hashes are beyond 2**53
        "names": None if first.names is None else first.labels,
    }


def _classes(first: Explanation, removed: RemovedOutputs | None) -> list[str]:
    count = first.n_outputs if removed is None else removed.outputs.shape[2]
    if count is None:
        count = 0 if first.target is None else int(first.target.max()) + 1
    elif count == 1:
        return ["the model's output"]
    if outputs_of(first.task).kind == "classes" and first.output == "probability" and removed is not None:
        return [f"class {k}" for k in range(count)]  # the model itself has told
    return [output_name(first, k) for k in range(count)]


def _predictions(first: Explanation, removed: RemovedOutputs | None) -> dict[str, Any]:
    """Return what was explained of each series, what the model says, and what is true."""
    clean, per_step = (None, None) if removed is None else (removed.outputs[:, 0], removed.clean_steps)
    found = prediction.compare_labels(clean, first, first.y, per_step=per_step is not None)
    return {
        "output": first.output,
        "target": first.target.tolist() if first.target is not None and first.target.ndim == 1 else None,
        "picked": None if first.target is not None else first.target_text or "a score of your own",
        "outcome": None if (outcome := found.pop("outcome")) is None else outcome.tolist(),
        **{name: _list(values) for name, values in found.items()},
    }


def _cells(pack: Pack, values: Floats, seen: Flags) -> dict[str, Any]:
    """Pack the values, with mean and standard deviation of those observed of each channel."""
    place = pack.add(values)
    values = np.where(seen, values, np.nan).astype(np.float64).reshape(-1, values.shape[2])
    count = np.maximum((~np.isnan(values)).sum(0), 1)
    middle = np.nansum(values, 0) / count
    spread = np.sqrt(np.nansum((values - middle) ** 2, 0) / count)
    return {
        "values": place,
        "observed": pack.add(seen),
        "observedCount": seen.reshape(len(seen), -1).sum(1).tolist(),
        "middle": middle.tolist(),
        "spread": np.where(spread > 0, spread, 1.0).tolist(),
    }


def _list(values: Any) -> list[Any] | None:
    return None if values is None else [value if np.isfinite(value) else None for value in values.tolist()]


def _map(pack: Pack, found: Explanation, seen: Flags, edges: Sequence[int]) -> dict[str, Any]:
    """Pack the scores of a method, their errors, and what is drawn of them, given which cells were observed."""
    values, sized, strongest = to_numpy(found.values), to_numpy(series.sizes(found)), series.order(found, seen)
    half = None if found.standard_error is None else to_numpy(found.interval(0.95)[1] - found.values)
    limit = [series.color_limit(row, cells) for row, cells in zip(sized, seen, strict=True)]
    pushes = values if found.signed else sized  # exact sums over blocks of steps, (series, channel, block)
    sums = np.add.reduceat(pushes.astype(np.float64), edges[:-1], axis=1).swapaxes(1, 2)
    return {
        "signed": found.signed,
        "values": pack.add(values),
        "half": pack.add(half),
        "limit": pack.add(np.array(limit, dtype=np.float32)),
        "effect": pack.add(sized.sum(1)),
        "blocks": pack.add(sums.astype(np.float32)),
        "order": pack.add(strongest.astype(np.uint16 if values[0].size <= 2**16 else np.uint32)),
        "removed": strongest.shape[1],
    }


def _intervals(pack: Pack, blocks: Blocks) -> dict[str, Any]:
    """Return what intervals of sums over blocks take, of a mean and of the means of all channels at once.

    These are logarithms of Student's t, evenly spaced in 1/freedom from 0 to 1.
    """
    freedom = 1 / torch.linspace(1e-9, 1, STUDENT, dtype=torch.float64)
    levels = {"student": 0.95, "studentAll": 1 - 0.05 / len(blocks.channels)}
    students = {name: pack.add(t_quantile(level, freedom).log()) for name, level in levels.items()}
    return {"edges": blocks.edges, "blockTimes": blocks.times, **students}


def _table(table: PaperTable, explanations: Mapping[str, Explanation]) -> dict[str, Any]:
    """Return mean scores of the methods, and the limits of their differences to the first, moved to its mean."""
    controls = {label for label, found in explanations.items() if found.method == CONTROL} | {CONTROL}
    metrics = [
        {"name": head, "cells": _compared([table.cells[method, metric] for method in table.methods])}
        for metric, head in zip(table.metrics, table.heads, strict=True)
    ]
    return {
        "methods": [{"label": label, "control": label in controls} for label in table.methods],
        "metrics": metrics,
    }


def _compared(cells: list[TableCell]) -> list[dict[str, float | None]]:
    first, found = cells[0].mean, []
    for cell in cells:
        gap = cell.difference if cell.difference and cell.difference.count > 1 else None
        ends = (np.nan,) * 3 if gap is None else (gap.mean, first + gap.low, first + gap.high)
        numbers = _list(np.array([cell.mean, *ends])) or ()
        found.append(dict(zip(("mean", "gap", "low", "high"), numbers, strict=True)))
    return found


def _certainty(pack: Pack, found: Explanation, shown: Explanation) -> dict[str, Any]:
    """Return how sure a method is: of all series, and of each shown one."""
    said = [reader_verdict(found), *(reader_verdict(shown, i) for i in range(len(shown)))]
    return {
        "complete": found.facts.complete,
        "badges": [STEADY[verdict.badge] for verdict in said],
        "texts": [verdict.text for verdict in said],
        "error": pack.add(shown.relative_error),
        "total": pack.add(None if shown.delta is None else shown.values.sum((1, 2))),
        "delta": pack.add(shown.delta),
    }


def _steps(pack: Pack, first: Explanation, removed: RemovedOutputs | None) -> dict[str, Any] | None:
    """Return what a model with one output per step says at each of them."""
    classes = first.classes
    positive = "class 1" if classes is None else classes[POSITIVE] if len(classes) > POSITIVE else ""
    clean, target = None if removed is None else removed.clean_steps, first.target
    steps = None if clean is None else prediction.step_outputs(clean, first, first.y, positive)
    if steps is None or target is None:
        return None
    return {
        **{name: pack.add(part) if isinstance(part, np.ndarray) else part for name, part in steps.items()},
        "own": isinstance(first.steps, str),  # each value is scored by its effect on its own step
        "predicted": bool((target != target.flatten()[0]).any()),  # each step has its own explained class
    }


def _summary(pack: Pack, explanations: Mapping[str, Explanation]) -> dict[str, Any]:
    """Return the mean effects of the channels over all series, and over those of each explained class."""
    target = next(iter(explanations.values())).target
    kinds = sorted(set(target.tolist())) if target is not None and target.ndim == 1 else []
    kinds = [None, *(kinds if len(kinds) > 1 else [])]
    found = [
        [channel_sums(each, None if kind is None else each.target == kind) for kind in kinds]
        for each in explanations.values()
    ]
    names = (("push", "mean"), ("push_error", "error"), ("size", "size"))
    return {
        "groups": [{"kind": kind, "count": sums.series} for kind, sums in zip(kinds, found[0], strict=True)],
        "maps": [
            [{name: pack.add(getattr(sums, of)[:, 0].astype(np.float32)) for name, of in names} for sums in method]
            for method in found
        ],
    }
