"""Explanations as three tables that databases read, and what can be added up over files.

``summary`` has one row per series, ``drivers`` one per driver of a prediction, ``cells`` the numbers of cells.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.bulk import words
from tempograd.core.errors import said
from tempograd.core.estimate import GradientCheck
from tempograd.data.columns import Part
from tempograd.data.files import arrow
from tempograd.explanation import Explanation, diagnostics
from tempograd.views.series import sizes

TOP = 20  # strongest cells that a row names
COMPRESSION = {"compression": "zstd", "compression_level": 1, "write_page_checksum": True}
GROUP_BYTES = 1 << 22  # of rows that are written together
TABLES = ("cells", "drivers", "summary")  # in the order in which they are finished
CELLS = ("values", "standard_error", "ess")
LISTS = ("channel_effect", "channel_importance", "step_importance", "top_value", "top_error", *CELLS)
RESULTS = {"id", "key", "class", "probability", "sentence", "verdict", "target", "score", "delta"}
RESULTS |= {"relative_error", "samples", "fault", "source", "run", "rank", "channel", "from", "to", "value"}
RESULTS |= {
    "unit",
    "effect",
    "low",
    "high",
    "certain",
    "top_step",
    "top_channel",
    "gradient_check",
    *LISTS,
}  # names that no column that goes along may have
CHECKS = tuple(f.name for f in fields(GradientCheck))
BINS, LOWEST = 64, -6.0  # of relative errors, on a scale of logarithms from 1e-6 to 1e2


# One batch as rows


class ExplainedRows(NamedTuple):
    """What was explained of a batch: the rows of it that were, and the reasons for the others."""

    explained: list[tuple[NDArray[np.int64], Explanation]]
    faults: dict[int, str]


def as_tables(
    batch: Part, done: ExplainedRows, judged: list["Quality"], example: Explanation, cells: str, run: str
) -> dict[str, Any]:
    """Return the rows of a batch, in its order, as Arrow tables by name.

    ``judged`` tells how good each of the explanations is, ``example`` which columns there are, ``cells`` what is
    kept of each cell; ``run`` is the key of the run.
    """
    pa, count = arrow(), len(batch)
    places = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in done.explained)])
    told = [
        words.tell(found, quality.verdict, _taken(batch, rows))
        for (rows, found), quality in zip(done.explained, judged, strict=True)
    ]
    like = words.tell(example[:0], np.empty(0, object), None)
    named = {"id": batch.ids, "key": pa.array(batch.keys)}

    def spread(parts: list[dict[str, Any]], usual: dict[str, Any]) -> dict[str, Any]:
        """Join what was found of parts of the batch, in its order, null where nothing was."""
        if len(parts) == 1:  # no copy of many numbers
            return {name: _spread(parts[0][name], places, count) for name in usual}
        whole = {name: np.concatenate([usual[name][:0], *(part[name] for part in parts)]) for name in usual}
        return {name: _spread(column, places, count) for name, column in whole.items()}

    order = np.argsort(places, kind="stable")
    back = np.full(count, -1)
    back[places[order]] = order
    rows = pa.array(back, mask=back < 0)
    joined = pa.concat_tables([like.series, *(each.series for each in told)]).take(rows)
    numbers = [_numbers(found, quality) for (_, found), quality in zip(done.explained, judged, strict=True)]
    faults = [said(done.faults[row]) if row in done.faults else None for row in range(count)]
    origins = batch.more.get("origins") or [""] * count
    summary = named | batch.kept | {name: joined.column(name) for name in joined.column_names}
    summary |= spread(numbers, _numbers(example[:1], quality_of(example[:1])))
    summary |= {"fault": pa.array(faults, pa.string()), "source": pa.array(origins, pa.string())}
    summary["run"] = pa.array([run] * count, pa.string())
    parts = [_columns(found, cells) for _, found in done.explained]
    drivers = [each.drivers_of(batch, rows) for each, (rows, _) in zip(told, done.explained, strict=True)]
    return {
        "summary": pa.table(summary),
        "drivers": pa.concat_tables([like.drivers_of(batch, np.empty(0, np.int64)), *drivers]),
        "cells": pa.table(named | batch.kept | spread(parts, _columns(example[:1], cells))),
    }


def parted(rows: Any, column: str | None) -> list[tuple[str, Any]]:
    """Cut a table by the values of a column, which are names of folders in its place.

    Examples
    --------
    >>> rows = arrow().table({"day": [3, 4, 3], "id": [1, 2, 5]})
    >>> [(folder, part.column("id").to_pylist()) for folder, part in parted(rows, "day")]
    [('day=3/', [1, 5]), ('day=4/', [2])]
    """
    if column is None:
        return [("", rows)]
    pa, found = arrow(), []
    for value in pa.compute.unique(rows.column(column)):
        place = pa.compute.is_null(rows.column(column)) if not value.is_valid else None
        here = rows.filter(pa.compute.equal(rows.column(column), value) if place is None else place)
        name = quote(str(value.as_py()), safe=" :+-_.,") if value.is_valid else "__HIVE_DEFAULT_PARTITION__"
        found.append((f"{column}={name}/", here.drop_columns([column])))
    return found


def _taken(batch: Part, rows: NDArray[np.int64]) -> words.Shown:
    """Return what people know of some series of a batch: times, and values before they were scaled."""
    times, raw = batch.more.get("times"), batch.more.get("raw")
    if times and not isinstance(times[0], str):
        times = [times[row] for row in rows.tolist()]
    return words.Shown(times, (batch.x if raw is None else raw)[rows])


def _spread(part: NDArray[Any], places: NDArray[np.int64], count: int) -> Any:
    """Put the rows of an array at their places, a list each where there are several numbers; null elsewhere."""
    pa = arrow()
    there = np.zeros(count, dtype=bool)
    there[places] = True
    if (np.diff(places) < 0).any():
        part = part[np.argsort(places, kind="stable")]
    if part.ndim == 1:
        whole = np.zeros(count, dtype=part.dtype)
        whole[there] = part
        return pa.array(whole, mask=~there)
    offsets = np.concatenate([[0], np.cumsum(there * part.shape[1])]).astype(np.int32)  # batches are small
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(part.reshape(-1)), mask=pa.array(~there))


def _numbers(found: Explanation, quality: "Quality") -> dict[str, NDArray[Any]]:
    """Return numbers of some series, (series,), a list each where there is a target for every step."""
    count = len(found)
    unknown = np.full(count, np.nan, dtype=np.float32)
    target = np.full(count, -1) if found.target is None else found.target.cpu().numpy()
    return {
        "target": target.astype(np.int32),
        "score": unknown if found.prediction is None else found.prediction.float().cpu().numpy(),
        "delta": unknown if found.delta is None else found.delta.float().cpu().numpy(),
        "relative_error": quality.error,
        "samples": quality.samples,
    }


def _columns(found: Explanation, cells: str) -> dict[str, NDArray[Any]]:
    """Return the columns of cells: lists of numbers, (series, n)."""
    count, size = len(found), sizes(found)
    push = found.values if found.signed else size
    columns: dict[str, NDArray[Any]] = {
        "channel_effect": _added(push, 1),
        "channel_importance": _added(size, 1),
        "step_importance": _added(size, 2),
    }
    if cells != "none":
        columns |= _strongest(found, size)
    if cells == "all":
        kept = {"values": found.values, "standard_error": found.standard_error, "ess": found.ess}
        columns |= {name: part.cpu().flatten(1).numpy() for name, part in kept.items() if part is not None}
    check = found.gradient_check
    if check is not None:
        numbers = [getattr(check, name).double().reshape(count, -1).cpu() for name in CHECKS]
        columns["gradient_check"] = torch.cat(numbers, 1).numpy()
    return columns


def _added(cells: Tensor, axis: int) -> NDArray[Any]:
    return cells.sum(axis, dtype=torch.float64).float().cpu().numpy()


def _strongest(found: Explanation, size: Tensor) -> dict[str, NDArray[Any]]:
    """Return the strongest cells of each series; ties go to the first."""
    order = size.flatten(1).argsort(dim=1, descending=True, stable=True)[:, :TOP]
    depth = found.values.shape[2]
    columns = {
        "top_step": (order // depth).int().cpu().numpy(),
        "top_channel": (order % depth).int().cpu().numpy(),
        "top_value": found.values.flatten(1).gather(1, order).cpu().numpy(),
    }
    if found.standard_error is not None:
        columns["top_error"] = found.standard_error.flatten(1).gather(1, order).cpu().numpy()
    return columns


class Quality(NamedTuple):
    """How good each map is, (series,) each."""

    error: NDArray[np.float32]  # NaN where there is no Monte-Carlo error
    good: NDArray[np.bool_]
    samples: NDArray[np.int32]  # 0 where nobody counts them
    verdict: NDArray[Any]  # "good", "rough", or what speaks against the map


def quality_of(found: Explanation) -> Quality:
    """Judge each series by the rules of the verdict."""
    count, flaws = len(found), diagnostics.against(found)
    if found.standard_error is not None:
        told = diagnostics.errors(found)
        samples = np.array(told.points or [0] * count, np.int32)
        error, good = np.array(told.error, np.float32), np.array(told.good, dtype=bool)
    else:
        error, good = np.full(count, np.nan, np.float32), ~torch.stack(flaws).any(0).numpy()
        residual, delta = found.convergence_delta, found.delta
        if found.facts.complete and residual is not None and delta is not None:
            small = residual.abs() <= diagnostics.GOAL * delta.abs()
            good &= (small | (delta == 0)).cpu().numpy()
        evals = found.n_evals
        samples = np.zeros(count, np.int32) if evals is None else evals.cpu().numpy().astype(np.int32)
    if noisy := diagnostics.noisy(found):
        good[:] = False
    verdict = np.where(good, "good", "rough").astype(object)
    for name, bad in reversed(flaws._asdict().items()):  # the gravest last
        verdict[bad.numpy()] = diagnostics.AGAINST[name]
    if noisy:
        verdict[:] = diagnostics.AGAINST["mixed" if found.mixes_series else "noisy"]
    return Quality(error, good, samples, verdict)


# What can be added up: the footer of every file


@dataclass
class Totals:
    """Sums over series, from which means, their errors and the verdict on a run are made.

    Attributes
    ----------
    rows, faults, good : int
        Series, those without an explanation, and those whose map is good.
    samples, most_samples, least_samples : int
        Of all series together, of the one that took the most, and the least.
    cells, missing, filled : int
        Cells of explained series up to the last value of each, those of them that are missing, and those of these
        in which the model reads another number than 0.
    errors : list of int
        Counts of relative errors, on a scale of logarithms; the last one is of what is not known.
    against : dict of str to int
        Series that something speaks against that no number of samples repairs.
    channels : dict of str to list
        For each target: how many series, and for each channel the sums of effect, its square, importance, its
        square.
    """

    rows: int = 0
    faults: int = 0
    good: int = 0
    samples: int = 0
    most_samples: int = 0
    least_samples: int = 0
    cells: int = 0
    missing: int = 0
    filled: int = 0
    errors: list[int] = field(default_factory=lambda: [0] * (BINS + 1))
    against: dict[str, int] = field(default_factory=dict)
    channels: dict[str, list[Any]] = field(default_factory=dict)

    def add_batch(self, batch: Part, faults: Collection[int]) -> None:
        """Count the cells of a batch, those that are missing, and the ``faults``: series that have no scores."""
        self.rows, self.faults = self.rows + len(faults), self.faults + len(faults)
        missing = np.zeros(batch.x.shape, bool) if batch.mask is None else ~batch.mask
        missing[list(faults)] = True
        time, depth = missing.shape[1:]
        last = (~missing.all(2) * np.arange(1, time + 1)).max(1, initial=0)  # steps up to the last with a value
        missing &= (np.arange(time) < last[:, None])[..., None]
        self.cells += int(last.sum()) * depth
        self.missing += int(missing.sum())
        self.filled += int(np.count_nonzero(batch.x[missing]))

    def add(self, found: Explanation, quality: Quality) -> None:
        """Count explained series."""
        against = {name: int(part.sum()) for name, part in diagnostics.against(found)._asdict().items()}
        if diagnostics.noisy(found):
            against["mixed" if found.mixes_series else "noisy"] = len(found)
        more = Totals(
            rows=len(found),
            good=int(quality.good.sum()),
            samples=int(quality.samples.sum(dtype=np.int64)),
            most_samples=int(quality.samples.max(initial=0)),
            least_samples=int(quality.samples.min(initial=2**31 - 1)),
            errors=np.bincount(bins(quality.error), minlength=BINS + 1).tolist(),
            against=against,
            channels=_sums_by_target(found),
        )
        self.merge(more)

    def merge(self, other: "Totals") -> None:
        """Add what another file holds."""
        lows = [each.least_samples for each in (self, other) if each.rows > each.faults]
        self.least_samples, self.most_samples = min(lows, default=0), max(self.most_samples, other.most_samples)
        for name in ("rows", "faults", "good", "samples", "cells", "missing", "filled"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.errors = [a + b for a, b in zip(self.errors, other.errors, strict=True)]
        for name, count in other.against.items():
            self.against[name] = self.against.get(name, 0) + count
        for kind, (count, *more) in other.channels.items():
            known, *sums = self.channels.get(kind, [0])
            pairs = zip(sums, more, strict=True) if sums else ()
            added = [[a + b for a, b in zip(one, two, strict=True)] for one, two in pairs]
            self.channels[kind] = [known + count, *(added or more)]

    def middle_error(self) -> float:
        """Return the relative error of the middle series, to the width of a bin; infinite where nobody knows."""
        total = sum(self.errors)
        place_ = int(np.searchsorted(np.cumsum(self.errors), (total + 1) // 2)) if total else BINS
        return math.inf if place_ >= BINS else float(10 ** (LOWEST + (place_ + 0.5) * 8 / BINS))


def _sums_by_target(found: Explanation) -> dict[str, list[Any]]:
    """Return, for each target, how many series and the sums of :attr:`Totals.channels`."""
    size = sizes(found).sum(1, dtype=torch.float64).cpu()
    push = found.values.sum(1, dtype=torch.float64).cpu() if found.signed else size
    plain = found.target is not None and found.target.ndim == 1
    kinds = found.target.cpu() if plain and found.target is not None else torch.full((len(found),), -1)
    sums: dict[str, list[Any]] = {}
    for kind in sorted(set(kinds.tolist())):
        rows = kinds == kind
        parts = [part[rows].sum(0).tolist() for part in (push, push.square(), size, size.square())]
        sums[str(kind) if plain else "all"] = [int(rows.sum()), *parts]
    return sums


def bins(errors: NDArray[Any]) -> NDArray[np.int64]:
    """Return where relative errors lie on the scale, in its last place those that are not known.

    Examples
    --------
    >>> bins(np.array([1e-9, 0.1, 50.0, np.inf])).tolist()
    [0, 40, 61, 64]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.floor((np.log10(errors.astype(np.float64)) - LOWEST) * BINS / 8)
    known = np.isfinite(errors)
    return np.where(known, np.clip(np.nan_to_num(found, neginf=0), 0, BINS - 1), BINS).astype(np.int64)


# Files


def open_writer(path: str, schema: Any) -> Any:
    """Open a Parquet file for rows: floats are split by bytes, which zstd packs better."""
    types, pq = arrow().types, arrow().parquet
    split = [f"{each.name}.list.element" for each in schema if types.is_list(each.type) and each.name in LISTS]
    split += [each.name for each in schema if types.is_floating(each.type)]
    texts = [each.name for each in schema if types.is_string(each.type) and each.name != "sentence"]
    return pq.ParquetWriter(path, schema, use_dictionary=texts, use_byte_stream_split=split, **COMPRESSION)


def is_readable(path: str) -> bool:
    """Tell whether a Parquet file of this machine is whole, by reading all of it."""
    pa = arrow()
    try:
        with pa.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            for _ in file.iter_batches():
                pass
    except (OSError, ValueError, pa.ArrowException):
        return False
    return True


# Rows as an explanation again


def as_explanation(
    table: Any,
    example: Explanation,
    x: NDArray[Any] | None,
    mask: NDArray[Any] | None,
    baseline: Tensor,
    raw: NDArray[Any] | None = None,
) -> Explanation:
    """Put rows of the table together as the explanation that they were; ``example`` tells what all rows share."""
    count, shape = table.num_rows, tuple(example.values.shape[1:])

    def cells(name: str) -> Tensor | None:
        if name not in table.column_names:
            return None
        return torch.from_numpy(column_numbers(table.column(name)).reshape(count, *shape))

    def numbers(name: str) -> Tensor:
        return torch.from_numpy(np.array(table.column(name).to_numpy()))

    values, target, check = cells("values"), None, None
    assert values is not None  # noqa: S101  # the caller has looked
    if example.target is not None:
        steps = example.target.shape[1:]
        target = torch.from_numpy(column_numbers(table.column("target")).astype(np.int64).reshape(count, *steps))
    if example.gradient_check is not None:
        check = _check(
            torch.from_numpy(column_numbers(table.column("gradient_check")).reshape(count, -1)), example
        )
    names = table.column("id").to_pylist()
    shared = {"call", "question", "times"}  # by all series of a run; what else is of each is a column, or lost
    of_each = {f.name: None for f in fields(example) if f.metadata["per"] in {"cell", "series"}}
    known: dict[str, Any] = {name: value for name, value in of_each.items() if name not in shared}
    known |= {
        "values": values,
        "standard_error": cells("standard_error"),
        "ess": cells("ess"),
        "n_evals": None if example.n_evals is None else numbers("samples").to(example.n_evals),
        "delta": None if example.delta is None else numbers("delta").to(example.delta),
        "prediction": None if example.prediction is None else numbers("score").to(example.prediction),
        "target": target,
        "steps": example.steps[:1].expand(count, -1) if isinstance(example.steps, Tensor) else example.steps,
        "baseline": baseline,
        "mask": None if mask is None else torch.from_numpy(mask),
        "x": None if x is None else torch.from_numpy(x),
        "raw": None if raw is None else torch.from_numpy(raw),
        "ids": numbers("key"),
        "names": tuple(map(str, names)) if isinstance(names[0], str) else None,
        "gradient_check": check,
    }
    return replace(example, **known)


def _check(numbers: Tensor, example: Explanation) -> GradientCheck:
    parts: dict[str, Tensor] = {}
    start = 0
    for name in CHECKS:
        like = getattr(example.gradient_check, name)
        width = math.prod(like.shape[1:])
        parts[name] = numbers[:, start : start + width].reshape(len(numbers), *like.shape[1:]).to(like.dtype)
        start += width
    return GradientCheck(**parts)


def column_numbers(column: Any) -> NDArray[Any]:
    """Return all numbers of a column, of lists too, as one array of one's own."""
    parts = [np.asarray(part.flatten() if hasattr(part, "flatten") else part) for part in column.chunks]
    return np.concatenate(parts) if parts else np.empty(0)
