"""Everything that the page's script needs, as one packed text."""

import base64
import gzip
import json
import struct
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tempograd.data import Split
from tempograd.engine import Model
from tempograd.explanation import Explanation
from tempograd.views.channels import Group, summaries
from tempograd.views.comparison import Scores
from tempograd.views.convergence import Certainty, certainties, packed_certainty
from tempograd.views.labels import channel_names, plain, tells_class
from tempograd.views.prediction import Removal, StepOutputs, Verdict, removal, step_outputs, verdict
from tempograd.views.series import STRONGEST, Flags, Floats, Map, Whole, maps, removal_counts, seen

# Arrays and a header as one compressed text that a browser unpacks.
#
# The layout, before gzip and base64: four bytes with the length of the header (little-endian), the header as JSON,
# padded so that what follows starts at a multiple of eight, and the arrays, each at a multiple of eight.
# Scores are only looked at, so they are stored in 16 bits: a score as a multiple of 1/32767 of the largest of its
# series, the half-width of an interval on a logarithmic scale with steps of 0.03 %. Tables are exact.

STEPS = 32767
UNKNOWN = 65535  # the code of an infinite half-width
DECADES = 9  # below 1e-9 of the largest half-width of a series the error is shown as 0
TYPES = {"float32", "int16", "uint8", "uint16", "uint32"}


class Pack:
    """Collects arrays; :meth:`text` writes them with the header."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, array: NDArray[Any]) -> dict[str, Any]:
        """Keep an array and return where the browser finds it."""
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
        return compressed(struct.pack("<I", len(head)) + head + b"".join(self._parts))


def compressed(content: bytes) -> str:
    """Return content as gzip in base64, without a date."""
    return base64.b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode()


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


def bits(flags: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return flags as bits, the first in the lowest bit of the first byte."""
    return np.packbits(flags.ravel(), bitorder="little")


@dataclass(frozen=True)
class Names:
    """What people call things."""

    channels: tuple[str, ...]
    units: tuple[str, ...] | None
    classes: tuple[str, ...]  # one per output; empty where no output has a meaning of its own


@dataclass(frozen=True)
class Content:
    """What the page knows about the shown series, and the summary of all."""

    names: Names
    first: Explanation  # of the shown series
    total: int
    values: Floats  # in the user's units, (series, time, channel)
    observed: Flags
    truth: Flags | None
    maps: tuple[Map, ...]
    counts: Whole
    removals: tuple[Removal, ...] | None  # None without a model
    steps: StepOutputs | None
    verdict: Verdict
    summary: Mapping[str, tuple[Group, ...]]
    scores: Scores  # of the shown series
    certainty: Mapping[str, Certainty]


def collect(
    model: Model | None,
    explanations: Mapping[str, Explanation],
    x: Tensor,
    split: Split | None,
    rows: Sequence[int],
    scores: Scores,
    raw: Tensor | None = None,
    units: tuple[str, ...] | None = None,
    classes: tuple[str, ...] | None = None,
    removals: MutableMapping[str, Removal] | None = None,
) -> Content:
    """Compute what the page shows of the series at positions ``rows``; all else is about all series.

    What was removed before is read from ``removals``, by label, and what is removed now is put there.
    """
    index = list(rows)
    shown = {label: explanation[index] for label, explanation in explanations.items()}
    first = next(iter(shown.values()))
    part = None if split is None else split.take(index)
    observed = seen(first, None if part is None else part.mask)
    drawn = maps(shown, observed)
    counts = removal_counts(drawn[0].order.shape[1])
    removals = {} if removals is None else removals
    for m in drawn:
        if model is not None and m.label not in removals:
            removals[m.label] = removal(model, shown[m.label], x[index], observed, counts)
    removed = None if model is None else tuple(removals[m.label] for m in drawn)
    clean = None if removed is None else removed[0].outputs[:, 0]
    per_step = removed is not None and removed[0].clean_steps is not None
    return Content(
        names=Names(channel_names(first), units, classes or _classes(first, clean)),
        first=first,
        total=len(x),
        values=plain((x if raw is None else raw)[index]),
        observed=observed,
        truth=None if part is None or part.truth is None else part.truth.cpu().numpy(),
        maps=drawn,
        counts=counts,
        removals=removed,
        steps=step_outputs(removed[0].clean_steps, first, part, classes) if per_step else None,  # type: ignore[index, arg-type]
        verdict=verdict(clean, first, part, per_step),
        summary=summaries(explanations),
        scores={m: {name: found[index] for name, found in per.items()} for m, per in scores.items()},
        certainty=certainties(explanations, shown),
    )


def _classes(first: Explanation, clean: Floats | None) -> tuple[str, ...]:
    count = first.n_outputs if clean is None else clean.shape[1]
    if count is None:
        count = 0 if first.target is None else int(first.target.max()) + 1
    elif count == 1:
        return ("the model's output",)
    word = "class" if first.output == "probability" and (clean is not None or tells_class(first)) else "output"
    return tuple(f"{word} {k}" for k in range(count))


def packed(content: Content) -> str:
    """Return the content as the text that the page's script unpacks."""
    pack, first, found = Pack(), content.first, content.verdict
    per_series = first.target is not None and first.target.ndim == 1
    header = {
        "time": first.values.shape[1],
        "times": first.times,
        "channels": content.names.channels,
        "units": content.names.units,
        "classes": content.names.classes,
        "ids": first.ids.tolist(),
        "names": first.names,
        "total": content.total,
        "output": first.output,
        "target": first.target.tolist() if per_series and first.target is not None else None,
        "predicted": _list(found.predicted),
        "label": _list(found.label),
        "trueValue": _list(found.true_value),
        "outcome": found.outcome,
        "values": pack.add(content.values),
        "observed": pack.add(bits(content.observed)),
        "observedCount": content.observed.reshape(len(content.observed), -1).sum(1).tolist(),
        "truth": None if content.truth is None else pack.add(bits(content.truth)),
        "counts": content.counts.tolist(),
        "maps": [_map(pack, content, place) for place in range(len(content.maps))],
        "steps": _steps(pack, content),
        "summary": _summary(pack, content),
    }
    return pack.text(header)


def _list(values: Any) -> list[Any] | None:
    return None if values is None else [value if np.isfinite(value) else None for value in values.tolist()]


def _map(pack: Pack, content: Content, place: int) -> dict[str, Any]:
    drawn, removals = content.maps[place], content.removals
    whole, step = quantised(drawn.values)
    cells = drawn.values[0].size
    entry: dict[str, Any] = {
        "label": drawn.label,
        "signed": drawn.signed,
        "values": pack.add(whole),
        "step": pack.add(step),
        "half": None,
        "limit": pack.add(drawn.limit),
        "effect": pack.add(drawn.effect),
        "order": pack.add(drawn.order.astype(np.uint16 if cells <= 2**16 else np.uint32)),
        "removed": drawn.order.shape[1],
        "top": _top(pack, drawn),
        "scores": {name: _list(found) for name, found in content.scores.get(drawn.label, {}).items()},
        "removal": None,
        "certainty": packed_certainty(pack, content.certainty[drawn.label]),
    }
    if drawn.half is not None:
        code, largest = coded(drawn.half)
        entry["half"], entry["largest"] = pack.add(code), pack.add(largest)
    if removals is not None:
        score = removals[place].score
        entry["removal"] = {
            "outputs": pack.add(removals[place].outputs),
            "score": None if score is None else pack.add(score),
        }
    return entry


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


def _steps(pack: Pack, content: Content) -> dict[str, Any] | None:
    steps, target = content.steps, content.first.target
    if steps is None or target is None:
        return None
    own = isinstance(content.first.steps, str)  # each value is scored by its effect on its own step
    predicted = bool((target != target.flatten()[0]).any())  # each step has its own explained class
    return {
        "name": steps.name,
        "values": pack.add(steps.values),
        "labels": None if steps.labels is None else pack.add(bits(steps.labels)),
        "explained": pack.add(bits(steps.explained)),
        "own": own,
        "predicted": predicted,
        "alarm": steps.alarm,
        "agrees": None if steps.agrees is None else pack.add(bits(steps.agrees)),
    }


def _summary(pack: Pack, content: Content) -> dict[str, Any]:
    groups = next(iter(content.summary.values()))
    names = ("push", "push_error", "size", "size_error", "mean", "mean_size")
    return {
        "groups": [{"kind": group.kind, "count": group.count} for group in groups],
        "maps": [
            [{name: pack.add(getattr(group, name)) for name in names} for group in content.summary[drawn.label]]
            for drawn in content.maps
        ],
    }
