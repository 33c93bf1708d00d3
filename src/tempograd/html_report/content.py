"""Everything that the page's script needs, as one packed text: arrays and a header, which a browser unpacks.

The layout, before gzip and base64: four bytes with the length of the header (little-endian), the header as JSON,
padded so that what follows starts at a multiple of eight, and the arrays, each at a multiple of eight.
Scores are only looked at, so they are stored in 16 bits: a score as a multiple of 1/32767 of the largest of its
series, the half-width of an interval on a logarithmic scale with steps of 0.03 %. Tables are exact.
"""

import base64
import gzip
import json
import struct
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core.series import shared_times
from tempograd.core.stats import t_quantile
from tempograd.data import Series
from tempograd.explanation import Explanation
from tempograd.metrics import METRICS
from tempograd.typing import Model
from tempograd.views import series
from tempograd.views.comparison import Cell, MetricScores, ScoreTable
from tempograd.views.drivers import CONTROL, describe_series, told_channels
from tempograd.views.groups import Group, blocks_of, groups, value_effects
from tempograd.views.labels import are_numbers, channel_names, output_name, output_unit, outputs_of, unit_apart
from tempograd.views.prediction import (
    POSITIVE,
    LabelComparison,
    RemovedOutputs,
    StepOutputs,
    compare_labels,
    removal_counts,
    removal_outputs,
    step_outputs,
)
from tempograd.views.reader import Certainty
from tempograd.views.series import Flags, Floats, Indices, Map, to_numpy

STRONGEST = 10  # cells in the table beside a picture
STEPS = 32767
UNKNOWN = 65535  # the code of an infinite half-width
DECADES = 9  # below 1e-9 of the largest half-width of a series the error is shown as 0
TYPES = {"float32", "int16", "uint8", "uint16", "uint32"}


STUDENT = 401  # values of a table
ARROWS = {True: " ↑", False: " ↓", None: ""}
MEANING = {
    "cpd": "how far the prediction moves in all while the strongest values (k = 10 % of those observed, unless "
    "another k was asked for) are removed one after the other; above 1 where it moves to and fro",
    "cpp": "the same while as many of the weakest values are removed, which should change little",
    "auroc": "how well the scores separate the values that truly decided the label from the others",
    "auprc": "how many of the highest scores are values that truly decided the label",
    "aup": "share of true values among those called important, over all thresholds",
    "aur": "share of the true values that are called important, over all thresholds",
}


def metric_words(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what metrics mean and which direction is better, for those that are known."""
    return {
        name: {"meaning": MEANING[name], "arrow": ARROWS[METRICS[name].higher_is_better]}
        for name in sorted(names)
        if name in MEANING
    }


class Pack:
    """Collects arrays; :meth:`text` writes them with the header."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, array: NDArray[Any] | None) -> dict[str, Any] | None:
        """Keep an array, flags as bits, and return where the browser finds it; None stays None."""
        if array is None:
            return None
        array = packed_bits(array) if array.dtype == np.bool_ else array
        kind = str(array.dtype)
        if kind not in TYPES:
            raise TypeError(f"The page reads {', '.join(sorted(TYPES))}, not {kind}.")
        raw = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
        place = {"at": self._size, "length": array.size, "type": kind}
        padded = raw + bytes(-len(raw) % 8)
        self._parts.append(padded)
        self._size += len(padded)
        return place

    def text(self, header: dict[str, Any]) -> str:
        """Return header and arrays as one base64 text; the same content gives the same text."""
        head = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
        head += b" " * (-(len(head) + 4) % 8)
        content = struct.pack("<I", len(head)) + head + b"".join(self._parts)
        return base64.b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode()  # without a date


def quantised(values: Floats) -> tuple[NDArray[np.int16], Floats]:
    """Return scores as whole multiples of a step, and the step of each series.

    Examples
    --------
    >>> whole, step = quantised(np.array([[0.5, -1.0]], dtype=np.float32))
    >>> whole, bool(np.allclose(whole * step[:, None], [[0.5, -1.0]], atol=1 / STEPS))
    (array([[ 16384, -32767]], dtype=int16), True)
    """
    axes = tuple(range(1, values.ndim))
    step = (np.abs(values).max(axis=axes, initial=0) / STEPS).astype(np.float32)
    safe = np.where(step > 0, step, 1).reshape(-1, *[1] * len(axes))
    return np.rint(values / safe).astype(np.int16), step


def coded(half: Floats) -> tuple[NDArray[np.uint16], Floats]:
    """Return half-widths as codes, 0 for none and 65535 for unknown, and the largest of each series.

    A code c between stands for largest · 10^(9 (c - 65534) / 65533).

    Examples
    --------
    >>> code, largest = coded(np.array([[2.0, 0.0, np.inf, 0.02]], dtype=np.float32))
    >>> code[0, :3], largest, round(float(2.0 * 10 ** (9 * (int(code[0, 3]) - 65534) / 65533)), 5)
    (array([65534,     0, 65535], dtype=uint16), array([2.], dtype=float32), 0.02)
    """
    axes = tuple(range(1, half.ndim))
    known = np.isfinite(half)
    largest = np.where(known, half, 0).max(axis=axes, initial=0).astype(np.float32)
    shaped = np.where(largest > 0, largest, 1).reshape(-1, *[1] * len(axes))
    share = np.where(known & (half > 0), half / shaped, 1).astype(np.float64)
    code = np.rint(65534 + np.log10(share) * 65533 / DECADES)
    code = np.where(known & (half > 0), np.clip(code, 0, 65534), 0)
    return np.where(known, code, UNKNOWN).astype(np.uint16), largest


def packed_bits(flags: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return flags as bits, the first in the lowest bit of the first byte."""
    return np.packbits(flags.ravel(), bitorder="little")


@dataclass(frozen=True)
class Content:
    """What the page knows about the shown series, and the summary of all."""

    channels: tuple[str, ...]
    units: tuple[str, ...] | None
    classes: tuple[str, ...]  # one name per output; empty where no output has a meaning of its own
    named: bool  # whether somebody gave these names
    output_units: tuple[str, ...] | None  # of outputs that are numbers and have one
    first: Explanation  # of the shown series
    values: Floats  # in the user's units, (series, time, channel)
    observed: Flags
    truth: Flags | None
    maps: tuple[Map, ...]
    counts: Indices
    removals: tuple[RemovedOutputs, ...] | None  # None without a model
    steps: StepOutputs | None
    verdict: LabelComparison
    summary: Mapping[str, tuple[Group, ...]]
    scores: MetricScores  # of the shown series
    certainty: Mapping[str, Certainty]
    sentences: Mapping[str, list[str]]  # what was predicted and what drove it, by method and shown series
    told: Mapping[str, list[list[int]]]  # the channels of these sentences, in their order
    effects: Mapping[str, list[dict[str, Any]]]  # which values of each channel push, over all series
    methods: tuple[str, ...]  # what each map was made by, whatever it is called


def collect(
    model: Model | None,
    explanations: Mapping[str, Explanation],
    x: Tensor,
    split: Series | None,
    rows: Sequence[int],
    scores: MetricScores,
    raw: Tensor | None = None,
    units: tuple[str, ...] | None = None,
    classes: tuple[str, ...] | None = None,
    removals: MutableMapping[str, RemovedOutputs] | None = None,
) -> Content:
    """Compute what the page shows of the series at positions ``rows``; all else is about all series.

    What was removed before is read from ``removals``, by label, and what is removed now is put there.
    """
    index = list(rows)
    shown = {label: explanation[index] for label, explanation in explanations.items()}
    first = next(iter(shown.values()))
    part = None if split is None else split.take(index)
    y = None if part is None else part.y
    seen = series.observed_cells(first, None if part is None else part.mask)
    maps = tuple(Map.of(label, explanation, seen) for label, explanation in shown.items())
    counts = removal_counts(maps[0].order.shape[1])
    removals = {} if removals is None else removals
    for label, explanation in shown.items():
        if model is not None and label not in removals:
            removals[label] = removal_outputs(model, explanation, x[index], seen, counts)
    removed = None if model is None else tuple(removals[label] for label in shown)
    clean = None if removed is None else removed[0].outputs[:, 0]
    per_step = None if removed is None else removed[0].clean_steps
    positive = "class 1" if classes is None else classes[POSITIVE] if len(classes) > POSITIVE else ""
    known: dict[str, Any] = {
        "x": x[index],
        "raw": None if raw is None else raw[index],
        "units": units,
        "mask": None if seen.all() else torch.from_numpy(seen),
    }
    if removed is not None and removed[0].score is not None and per_step is None:
        known["prediction"] = torch.from_numpy(np.ascontiguousarray(removed[0].score[:, 0]))  # of the model given
    described = {label: replace(explanation, **known) for label, explanation in shown.items()}
    return Content(
        channels=channel_names(first),
        units=units,
        classes=_names(first, classes) or _classes(first, clean),
        named=bool(classes),
        output_units=_output_units(first, classes),
        first=first,
        values=to_numpy((x if raw is None else raw)[index]),
        observed=seen,
        truth=None if part is None or part.truth is None else part.truth.cpu().numpy(),
        maps=maps,
        counts=counts,
        removals=removed,
        steps=None if per_step is None else step_outputs(per_step, first, y, positive),
        verdict=compare_labels(clean, first, y, per_step=per_step is not None),
        summary=groups(explanations),
        scores={m: {name: found[index] for name, found in per.items()} for m, per in scores.items()},
        certainty={label: Certainty.of(found, shown[label]) for label, found in explanations.items()},
        sentences={label: _sentences(found, y, classes) for label, found in described.items()},
        told={label: [told_channels(found, i) for i in range(len(found))] for label, found in described.items()},
        effects={
            label: _effects(found, split, x if raw is None else raw) for label, found in explanations.items()
        },
        methods=tuple(explanation.method for explanation in explanations.values()),
    )


def _sentences(found: Explanation, y: Tensor | None, classes: tuple[str, ...] | None) -> list[str]:
    return [describe_series(found, i, y=y, classes=classes) for i in range(len(found))]


def _effects(explanation: Explanation, split: Series | None, values: Tensor) -> list[dict[str, Any]]:
    if split is not None and split.mask is not None:
        explanation = replace(explanation, mask=torch.from_numpy(series.observed_cells(explanation, split.mask)))
    return [effect.data() for effect in value_effects(explanation, x=values)]


def _names(first: Explanation, classes: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the names that outputs were given, without the units of numbers."""
    given = classes or ()
    return tuple(unit_apart(each)[0] for each in given) if are_numbers(first) else given


def _output_units(first: Explanation, classes: tuple[str, ...] | None) -> tuple[str, ...] | None:
    units = tuple(output_unit(first, k, classes) for k in range(len(classes or ())))
    return units if any(units) else None


def _classes(first: Explanation, clean: Floats | None) -> tuple[str, ...]:
    count = first.n_outputs if clean is None else clean.shape[1]
    if count is None:
        count = 0 if first.target is None else int(first.target.max()) + 1
    elif count == 1:
        return ("the model's output",)
    if outputs_of(first.task).kind == "classes" and first.output == "probability" and clean is not None:
        return tuple(f"class {k}" for k in range(count))  # the model itself has told
    return tuple(output_name(first, k) for k in range(count))


def packed(content: Content, table: ScoreTable | None = None) -> str:
    """Return the content, and the scores of the methods, as the text that the page's script unpacks."""
    blocks, (middle, spread) = blocks_of(content.first), _channel_scales(content)
    pack, first, found = Pack(), content.first, content.verdict
    per_series = first.target is not None and first.target.ndim == 1
    header = {
        "time": first.values.shape[1],
        "times": shared_times(first.times),
        "stamps": None if shared_times(first.times) is not None else first.times,
        "channels": content.channels,
        "units": content.units,
        "classes": content.classes,
        "named": content.named,
        "outputUnits": content.output_units,
        "ids": first.ids.tolist() if first.names is None else list(range(len(first))),  # hashes are beyond 2**53
        "names": None if first.names is None else first.labels,
        "output": first.output,
        "target": first.target.tolist() if per_series and first.target is not None else None,
        "picked": None if first.target is not None else first.target_text or "a score of your own",
        "predicted": _list(found.predicted),
        "label": _list(found.label),
        "trueValue": _list(found.true_value),
        "outcome": found.outcome,
        "values": pack.add(content.values),
        "observed": pack.add(content.observed),
        "middle": middle,
        "spread": spread,
        "observedCount": content.observed.reshape(len(content.observed), -1).sum(1).tolist(),
        "truth": pack.add(content.truth),
        "counts": content.counts.tolist(),
        "metrics": metric_words({name for found in content.scores.values() for name in found}),
        "maps": [_map(pack, content, place, blocks.edges) for place in range(len(content.maps))],
        "steps": _steps(pack, content),
        "summary": _summary(pack, content),
        "edges": blocks.edges,
        "blockTimes": blocks.times,
        "student": pack.add(_student(0.95)),
        "studentAll": pack.add(_student(1 - 0.05 / first.values.shape[2])),  # for all channels at once
        "table": None if table is None else _table(table, content),
    }
    return pack.text(header)


def _channel_scales(content: Content) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of the observed values of each channel over the shown series."""
    values = np.where(content.observed, content.values, np.nan).astype(np.float64)
    values = values.reshape(-1, len(content.channels))
    count = np.maximum((~np.isnan(values)).sum(0), 1)
    middle = np.nansum(values, 0) / count
    spread = np.sqrt(np.nansum((values - middle) ** 2, 0) / count)
    return middle.tolist(), np.where(spread > 0, spread, 1.0).tolist()


def _list(values: Any) -> list[Any] | None:
    return None if values is None else [value if np.isfinite(value) else None for value in values.tolist()]


def _map(pack: Pack, content: Content, place: int, blocks_edges: Sequence[int]) -> dict[str, Any]:
    drawn, removals = content.maps[place], content.removals
    whole, step = quantised(drawn.values)
    cells = drawn.values[0].size
    entry: dict[str, Any] = {
        "label": drawn.label,
        "signed": drawn.signed,
        "sentences": content.sentences[drawn.label],
        "named": content.told[drawn.label],
        "effects": content.effects[drawn.label],
        "values": pack.add(whole),
        "step": pack.add(step),
        "half": None,
        "limit": pack.add(drawn.limit),
        "effect": pack.add(drawn.effect),
        "blocks": pack.add(_block_sums(drawn, blocks_edges)),
        "telling": pack.add(drawn.certain_effect),
        "control": content.methods[place] == CONTROL,
        "order": pack.add(drawn.order.astype(np.uint16 if cells <= 2**16 else np.uint32)),
        "removed": drawn.order.shape[1],
        "top": _top(pack, drawn),
        "scores": {name: _list(found) for name, found in content.scores.get(drawn.label, {}).items()},
        "removal": None,
        "certainty": _certainty(pack, content.certainty[drawn.label]),
    }
    if drawn.half is not None:
        code, largest = coded(drawn.half)
        entry["half"], entry["largest"] = pack.add(code), pack.add(largest)
    if removals is not None:
        removed = removals[place]
        entry["removal"] = {"outputs": pack.add(removed.outputs), "score": pack.add(removed.score)}
    return entry


def _block_sums(drawn: Map, edges: Sequence[int]) -> Floats:
    """Return exact sums of the scores of each series over blocks of steps, (series, channel, block)."""
    values = drawn.values if drawn.signed else np.maximum(drawn.values, 0)
    sums = np.add.reduceat(values.astype(np.float64), edges[:-1], axis=1)
    return np.ascontiguousarray(sums.swapaxes(1, 2), dtype=np.float32)


def _student(level: float) -> Floats:
    """Return the logarithms of Student's t for intervals of a level, evenly spaced in 1/freedom from 0 to 1."""
    freedom = 1 / torch.linspace(1e-9, 1, STUDENT, dtype=torch.float64)
    return to_numpy(t_quantile(level, freedom).log().float())


def _table(table: ScoreTable, content: Content) -> dict[str, Any]:
    """Return mean scores of the methods, and the limits of their differences to the first, moved to its mean."""
    methods = zip(content.maps, content.methods, strict=True)
    controls = {drawn.label for drawn, method in methods if method == CONTROL} | {CONTROL}
    metrics = [
        {"name": head, "cells": _compared([table.cells[method, metric] for method in table.methods])}
        for metric, head in zip(table.metrics, table.heads, strict=True)
    ]
    return {
        "methods": [{"label": label, "control": label in controls} for label in table.methods],
        "metrics": metrics,
    }


def _compared(cells: list[Cell]) -> list[dict[str, float | None]]:
    first, found = cells[0].summary.mean, []
    for cell in cells:
        gap = cell.difference if cell.difference and cell.difference.count > 1 else None
        ends = (None, None, None) if gap is None else (gap.mean, first + gap.low, first + gap.high)
        numbers = zip(("mean", "gap", "low", "high"), (cell.summary.mean, *ends), strict=True)
        found.append({name: None if value is None else _finite(value) for name, value in numbers})
    return found


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _top(pack: Pack, drawn: Map) -> dict[str, Any]:
    """Return the exact scores and limits of the strongest cells."""
    cells = drawn.order[:, :STRONGEST]
    flat = drawn.values.reshape(len(cells), -1)
    value = np.take_along_axis(flat, cells, 1)
    top: dict[str, Any] = {"count": cells.shape[1], "value": pack.add(value), "low": None, "high": None}
    if drawn.half is not None:
        half = np.take_along_axis(drawn.half.reshape(len(cells), -1), cells, 1)
        top["low"], top["high"] = pack.add(value - half), pack.add(value + half)
    return top


def _certainty(pack: Pack, found: Certainty) -> dict[str, Any]:
    entry: dict[str, Any] = {"goal": found.goal, "complete": found.complete}
    entry |= {"badges": [said.badge for said in found.said], "texts": [said.text for said in found.said]}
    entry |= {name: pack.add(getattr(found, name)) for name in ("error", "total", "delta")}
    if found.curve is None or found.course is None:
        return entry | {"curve": None}
    course = {"points": found.curve.points.tolist(), "each": pack.add(found.course)}
    parts = {name: getattr(found.curve, name) for name in ("middle", "low", "high")}
    return entry | {"curve": course | {name: pack.add(part.astype(np.float32)) for name, part in parts.items()}}


def _steps(pack: Pack, content: Content) -> dict[str, Any] | None:
    steps, target = content.steps, content.first.target
    if steps is None or target is None:
        return None
    return {
        "name": steps.title,
        "values": pack.add(steps.values),
        "labels": pack.add(steps.labels),
        "explained": pack.add(steps.explained),
        "own": isinstance(content.first.steps, str),  # each value is scored by its effect on its own step
        "predicted": bool((target != target.flatten()[0]).any()),  # each step has its own explained class
        "alarm": steps.alarm,
        "agrees": pack.add(steps.agrees),
    }


def _summary(pack: Pack, content: Content) -> dict[str, Any]:
    names = ("push", "push_error", "size", "size_error")
    return {
        "groups": [{"kind": group.kind, "count": group.count} for group in next(iter(content.summary.values()))],
        "maps": [
            [{name: pack.add(getattr(group, name)) for name in names} for group in content.summary[drawn.label]]
            for drawn in content.maps
        ],
    }
