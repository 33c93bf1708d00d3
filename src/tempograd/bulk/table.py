"""Explanations as three tables that databases read, and what is counted of them.

``summary`` has one row per series, ``drivers`` one per driver of a prediction, ``cells`` the numbers of cells.
What people read, a class, a sentence and drivers by name, is made as columns, for many series at once.
"""

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import fields, replace
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core.errors import LONGEST, TempogradError, one_line, said
from tempograd.core.estimate import GradientCheck
from tempograd.data.files import arrow
from tempograd.data.pivot import Part
from tempograd.explanation import Explanation
from tempograd.explanation.diagnostics import AGAINST, quality_of
from tempograd.sampling.stretches import MOST, NAMED, Stretches, stretches_of
from tempograd.views import labels
from tempograd.views.drivers import CONTROL
from tempograd.views.prediction import percent_text
from tempograd.views.series import sizes

TOP = 20  # strongest cells that a row names
COMPRESSION = {"compression": "zstd", "compression_level": 1, "write_page_checksum": True}
GROUP_BYTES = 1 << 22  # of rows that are written together
DIGITS = 3  # of values in a sentence
AND = ", "


# One batch as rows


class ExplainedRows(NamedTuple):
    """What was explained of a batch: the rows of it that were, and the reasons for the others."""

    explained: list[tuple[NDArray[np.int64], Explanation]]
    faults: dict[int, str]


def reason_of(error: Exception) -> str:
    """Return why a series has no explanation, arguments in the sentence marked."""
    if isinstance(error, TempogradError):
        return one_line(error.finding.text, LONGEST)
    first_line = str(error).strip().partition("\n")[0] or type(error).__name__
    return one_line(f"{type(error).__name__}: {first_line}", LONGEST)


def as_tables(
    batch: Part, done: ExplainedRows, example: Explanation, cells: str, run: str
) -> tuple[dict[str, Any], Counter[str]]:
    """Return the rows of a batch as Arrow tables by name, series without an explanation last, and their counts.

    ``example`` tells which columns there are, ``cells`` what is kept of each cell; ``run`` is the key of the run.
    """
    pa, tables = arrow(), dict[str, list[Any]]()
    columns = {"id": batch.ids, "key": pa.array(batch.keys)} | batch.kept
    origins = pa.array(batch.more.get("origins") or [""] * len(batch), pa.string())

    def known(rows: Any) -> Any:
        """Return what the batch knows of some of its series."""
        return pa.table({name: column.take(pa.array(rows)) for name, column in columns.items()})

    def about(rows: Any) -> Any:
        """Return what the summary tells of series without an explanation too."""
        faults = [said(done.faults[row]) if row in done.faults else None for row in rows.tolist()]
        texts = {"fault": pa.array(faults, pa.string()), "source": origins.take(pa.array(rows))}
        return pa.table(texts | {"run": pa.array([run] * len(rows), pa.string())})

    counts, nothing = _counts_of(batch, done.faults), (np.empty(0, np.int64), example[:0])  # which has all columns
    for rows, found in [nothing, *done.explained]:
        row, parts = _rows_of(found, *_shown(batch, rows), cells)
        words, samples = parts["summary"].column("verdict"), parts["summary"].column("samples")
        counts.update(words.to_pylist(), samples=pa.compute.sum(samples, min_count=0).as_py())
        of_each = {"summary": [known(rows), parts["summary"], about(rows)], "cells": [known(rows), parts["cells"]]}
        for name, columns_ in (of_each | {"drivers": [known(rows[row]), parts["drivers"]]}).items():
            tables.setdefault(name, []).append(side_by_side(*columns_))
    wrong = np.array(sorted(done.faults), dtype=np.int64)
    tables["summary"].append(side_by_side(known(wrong), about(wrong)))
    tables["cells"].append(known(wrong))
    return {name: pa.concat_tables(parts, promote_options="default") for name, parts in tables.items()}, counts


def columns_of(example: Explanation) -> set[str]:
    """Return the names of all columns of the tables, which no column that goes along may have."""
    _, tables = _rows_of(example[:0], None, example[:0].values.cpu().numpy(), "all")
    return {"id", "key", "fault", "source", "run"}.union(*(table.column_names for table in tables.values()))


def side_by_side(*tables: Any) -> Any:
    """Put tables of as many rows beside each other."""
    columns = (zip(table.column_names, table.columns, strict=True) for table in tables)
    return arrow().table(dict(chain.from_iterable(columns)))


def _rows_of(
    found: Explanation, times: Any, values: NDArray[Any], cells: str
) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Return some series as rows of each table, without what a batch knows of them, and the series of each driver.

    ``times`` are what steps are called, and ``values`` are as they were read.
    """
    pa, unknown = arrow(), np.full(len(found), np.nan, dtype=np.float32)
    place = stretches_of(found, found.mask)
    drivers = _driver_columns(found, place, times, values)
    head, name, share = _predicted(found)
    quality = quality_of(found)
    verdict = np.where(quality.good, "good", "rough").astype(object)
    for flaw, bad in reversed(quality.against.items()):  # the gravest last
        verdict[bad.numpy()] = AGAINST[flaw]
    doubt = pa.array(["" if word in {"good", "rough"} else f"{word}; " for word in verdict], pa.string())
    target = np.full(len(found), -1) if found.target is None else found.target.cpu().numpy()
    summary = {
        "class": name,
        "probability": share,
        "sentence": _join(doubt, _sentences(found, place, drivers, head, numbered=times is None)),
        "verdict": pa.array(verdict, pa.string()),
        "target": _column(target.astype(np.int32)),
        "score": _column(unknown if found.prediction is None else found.prediction.float().cpu().numpy()),
        "delta": _column(unknown if found.delta is None else found.delta.float().cpu().numpy()),
        "relative_error": _column(quality.error.float().numpy()),
        "samples": _column(quality.points.int().numpy()),
    }
    numbers = {name: _column(part) for name, part in _cells(found, cells).items()}
    tables = {"summary": summary, "cells": numbers, "drivers": drivers}
    return place.row.cpu().numpy(), {name: pa.table(columns) for name, columns in tables.items()}


def _column(part: NDArray[Any]) -> Any:
    """Return an array as a column, of lists where there are several numbers of each series."""
    pa = arrow()
    if part.ndim == 1:
        return pa.array(part)
    offsets = np.arange(len(part) + 1, dtype=np.int32) * np.int32(part.shape[1])  # batches are small
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(part.reshape(-1)))


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
        here = rows.filter(pa.compute.is_in(rows.column(column), pa.array([value.as_py()], value.type)))
        name = quote(str(value.as_py()), safe=" :+-_.,") if value.is_valid else "__HIVE_DEFAULT_PARTITION__"
        found.append((f"{column}={name}/", here.drop_columns([column])))
    return found


def _shown(batch: Part, rows: NDArray[np.int64]) -> tuple[Any, NDArray[Any]]:
    """Return what people know of some series of a batch: times, for all or for each, and values before scaling."""
    times, raw = batch.more.get("times"), batch.more.get("raw")
    if times and not isinstance(times[0], str):
        times = [times[row] for row in rows.tolist()]
    return times, (batch.x if raw is None else raw)[rows]


def _cells(found: Explanation, cells: str) -> dict[str, NDArray[Any]]:
    """Return numbers of cells, (series, n) each; of the strongest ones ties go to the first."""
    count, size = len(found), sizes(found)
    push = found.values if found.signed else size
    columns = {
        "channel_effect": push.sum(1, dtype=torch.float64).float(),
        "channel_importance": size.sum(1, dtype=torch.float64).float(),
        "step_importance": size.sum(2, dtype=torch.float64).float(),
    }
    if cells != "none":
        order = size.flatten(1).argsort(dim=1, descending=True, stable=True)[:, :TOP]
        depth = found.values.shape[2]
        columns |= {"top_step": (order // depth).int(), "top_channel": (order % depth).int()}
        for name, part in (("top_value", found.values), ("top_error", found.standard_error)):
            columns |= {} if part is None else {name: part.flatten(1).gather(1, order)}
    if cells == "all":
        kept = {"values": found.values, "standard_error": found.standard_error, "ess": found.ess}
        columns |= {name: part.flatten(1) for name, part in kept.items() if part is not None}
    if found.gradient_check is not None:
        parts = (part.double().cpu() for part in vars(found.gradient_check).values())
        numbers = [part.reshape(count, math.prod(part.shape[1:])) for part in parts]
        columns["gradient_check"] = torch.cat(numbers, 1)
    return {name: part.cpu().numpy() for name, part in columns.items()}


def _counts_of(batch: Part, faults: Collection[int]) -> Counter[str]:
    """Count the series of a batch, and what can be added up over them.

    These are ``series``, ``faults`` (those without an explanation), how many have each word for a ``verdict``, the
    ``samples`` of all; and ``cells`` up to the last value of each explained series, those of them that are
    ``missing``, and those of these that are ``filled``: in which the model reads another number than 0.
    """
    missing = np.zeros(batch.x.shape, bool) if batch.mask is None else ~batch.mask
    missing[list(faults)] = True
    time, depth = missing.shape[1:]
    last = (~missing.all(2) * np.arange(1, time + 1)).max(1, initial=0)  # steps up to the last with a value
    missing &= (np.arange(time) < last[:, None])[..., None]
    holes = {"missing": int(missing.sum()), "filled": int(np.count_nonzero(batch.x[missing]))}
    return Counter(series=len(batch), faults=len(faults), cells=int(last.sum()) * depth, **holes)


# Words, for many series at once


def _driver_columns(found: Explanation, place: Stretches, times: Any, values: NDArray[Any]) -> dict[str, Any]:
    """Return rank, channel, from, to, value, unit, effect, low, high and certain of each driver."""
    pa = arrow()
    row, rank, channel, start, stop, total, _, reach, certain = (part.cpu().numpy() for part in place)
    steps = np.arange(values.shape[1])
    inside = (steps >= start[:, None]) & (steps < stop[:, None])
    if found.mask is not None:
        inside &= found.mask.cpu().numpy()[row, :, channel]
    mean = values[row, :, channel].sum(1, where=inside, dtype=np.float64) / inside.sum(1).clip(1)
    units, names = found.units or [None] * values.shape[2], labels.channel_names(found)
    unknown = ~np.isfinite(reach)

    def called(step: NDArray[Any]) -> Any:
        """Return what the steps of drivers are called, or their numbers."""
        if times and not isinstance(times[0], str):
            pairs = zip(row.tolist(), step.tolist(), strict=True)
            return pa.array([times[r][t] if t < len(times[r]) else str(t) for r, t in pairs], pa.string())
        numbers = map(str, steps[len(times or ()) :].tolist())
        return pa.array([*(times or ()), *numbers], pa.string()).take(pa.array(step))

    return {
        "rank": pa.array(rank.astype(np.int32) + 1),
        "channel": pa.array(names, pa.string()).take(pa.array(channel)),
        "from": called(start),
        "to": called(stop - 1),
        "value": pa.array(mean),
        "unit": pa.array([unit or None for unit in units], pa.string()).take(pa.array(channel)),
        "effect": pa.array(total),
        "low": pa.array(total - reach, mask=unknown),
        "high": pa.array(total + reach, mask=unknown),
        "certain": pa.array(certain),
    }


def _predicted(found: Explanation) -> tuple[Any, Any, Any]:
    """Return how each sentence begins, the output that was explained, and its probability."""
    pa, count, target = arrow(), len(found), found.target
    if target is None or target.ndim != 1:
        name = found.target_text or ("the score" if target is None else "the steps' classes")
        names = plain = pa.array([name] * count, pa.string())
    else:
        columns, place = np.unique(target.cpu().numpy(), return_inverse=True)
        called = [labels.output_name(found, column) for column in columns.tolist()]
        names = pa.array(called, pa.string()).take(pa.array(place))
        plain = pa.compute.utf8_trim(names, "“”")
    if found.prediction is None:
        return names, plain, pa.nulls(count, pa.float32())
    number = found.prediction.float().cpu().numpy()
    if found.output != "probability" or target is None or target.ndim != 1:
        return _join(names, pa.scalar(" is "), _digits(number)), plain, pa.nulls(count, pa.float32())
    shares = pa.array([percent_text(share / 100) for share in range(101)] + ["under 1 %", "over 99 %"])
    part = np.rint(100 * number).clip(0, 100).astype(np.int64)
    part = np.where((part == 0) & (number > 0), 101, np.where((part == 100) & (number < 1), 102, part))
    return _join(shares.take(pa.array(part)), pa.scalar(" probability of "), names), plain, pa.array(number)


def _sentences(found: Explanation, place: Stretches, columns: dict[str, Any], head: Any, *, numbered: bool) -> Any:
    """Return one sentence for each series: what was predicted, and the drivers that push each way."""
    pa, pc, count = arrow(), arrow().compute, len(found)
    if found.method == CONTROL:
        return _join(head, pa.scalar("; the scores are random, a control that says nothing about the model"))
    row, rank = place.row.cpu().numpy(), place.rank.cpu().numpy()
    grid = np.full((count, MOST), -1)  # where each driver stands
    grid[row, rank] = np.arange(len(row))
    total = np.append(place.total.cpu().numpy(), 0.0)[grid]
    named = (grid >= 0) & (np.abs(total) >= NAMED * np.abs(total[:, :1]))
    sure = named & np.append(place.certain.cpu().numpy(), False)[grid]
    phrases = pa.concat_arrays([pa.array([""]), _join(pa.scalar(AND), _phrases(columns, numbered=numbered))])

    def listed(start: str, chosen: NDArray[np.bool_]) -> Any:
        """Write some of the drivers of each series one after the other, nothing where there is none."""
        places = (pa.array(np.where(chosen[:, k], grid[:, k], -1) + 1) for k in range(MOST))
        text = _join(*(phrases.take(place) for place in places))
        whole = _join(pa.scalar(start), pc.utf8_slice_codeunits(text, len(AND), None))
        return pc.if_else(pa.array(chosen.any(1)), whole, "")

    nothing = pc.if_else(pa.array(named.any(1)), "", "; no value has a score other than 0")
    if not found.signed:
        return _join(head, listed("; what matters is ", named), nothing)
    up, down = sure & (total > 0), sure & (total < 0)
    raised, lowered = listed(", raised by ", up), listed(", lowered by ", down)
    first = pa.array(np.take_along_axis(total > 0, sure.argmax(1)[:, None], 1)[:, 0])  # what the largest one does
    both = pc.if_else(first, _join(raised, lowered), _join(lowered, raised))
    only = np.zeros_like(sure)
    only[:, 0] = named[:, 0] & ~sure.any(1)
    return _join(head, both, listed("; no driver is certain, the largest: ", only), nothing)


def _phrases(columns: dict[str, Any], *, numbered: bool) -> Any:
    """Return each driver in a few words: channel, value and when."""
    pa, pc = arrow(), arrow().compute
    start, stop = columns["from"], columns["to"]
    when = pc.if_else(pc.equal(start, stop), start, _join(start, pa.scalar("–"), stop))
    unit = pc.if_else(pc.is_valid(columns["unit"]), _join(pa.scalar(" "), columns["unit"]), "")
    value = _digits(columns["value"].to_numpy())
    return _join(
        columns["channel"], pa.scalar(" "), value, unit, pa.scalar(" at step " if numbered else " at "), when
    )


def _digits(numbers: NDArray[Any]) -> Any:
    """Write numbers with three digits."""
    pa, size = arrow(), np.abs(numbers.astype(np.float64))
    places = DIGITS - 1 - np.floor(np.log10(np.where((size > 0) & np.isfinite(size), size, 1.0)))
    scale = 10.0 ** np.clip(places, 0, 300)
    text = pa.array(np.rint(numbers * scale) / scale).cast(pa.string())
    return arrow().compute.replace_substring_regex(text, r"\.0$", "")


def _join(*parts: Any) -> Any:
    """Put texts behind each other; a null is nothing."""
    filled = (arrow().compute.coalesce(part, "") for part in parts)
    return arrow().compute.binary_join_element_wise(*filled, "")


# Files, and rows as an explanation again


def open_writer(path: str, schema: Any) -> Any:
    """Open a Parquet file for rows: floats are split by bytes, which zstd packs better."""
    types, pq = arrow().types, arrow().parquet
    lists = {each.name: each.type.value_type for each in schema if types.is_list(each.type)}
    split = [f"{name}.list.element" for name, kind in lists.items() if types.is_floating(kind)]
    split += [each.name for each in schema if types.is_floating(each.type)]
    texts = [each.name for each in schema if types.is_string(each.type) and each.name != "sentence"]
    return pq.ParquetWriter(path, schema, use_dictionary=texts, use_byte_stream_split=split, **COMPRESSION)


def as_explanation(rows: Any, example: Explanation, series: dict[str, Any]) -> Explanation:
    """Put rows of summary and cells together as the explanation that they were.

    ``example`` tells what all rows share, ``series`` what is known otherwise, such as the series themselves.
    """
    count, shape, check = rows.num_rows, example.values.shape[1:], example.gradient_check

    def numbers(name: str, *shape: int) -> Any:
        if name not in rows.column_names:
            return None
        column = rows.column(name)
        flat = arrow().compute.list_flatten(column) if arrow().types.is_list(column.type) else column
        return torch.from_numpy(np.array(flat.to_numpy())).reshape(count, *shape)

    def like(part: Tensor | None, name: str) -> Any:
        return None if part is None else numbers(name, *part.shape[1:]).to(part)

    names = rows.column("id").to_pylist()
    shared = {"call", "question", "times"}  # by all series of a run; what else is of each is a column, or lost
    of_each = {f.name for f in fields(example) if f.metadata["per"] in {"cell", "series"}}
    known: dict[str, Any] = dict.fromkeys(of_each - shared)
    known |= {name: numbers(name, *shape) for name in ("values", "standard_error", "ess")}
    columns = {"n_evals": "samples", "delta": "delta", "prediction": "score", "target": "target"}
    known |= {name: like(getattr(example, name), column) for name, column in columns.items()}
    known |= {
        "steps": example.steps[:1].expand(count, -1) if isinstance(example.steps, Tensor) else example.steps,
        "ids": numbers("key"),
        "names": tuple(names) if isinstance(names[0], str) else None,
        "gradient_check": check and _check(numbers("gradient_check", -1), check),
    }
    return replace(example, **known | series)


def _check(numbers: Tensor, like: GradientCheck) -> GradientCheck:
    shapes = [part.shape[1:] for part in vars(like).values()]
    parts = torch.split(numbers, [math.prod(shape) for shape in shapes], 1)
    cut = zip(parts, vars(like).items(), shapes, strict=True)
    return GradientCheck(**{name: part.reshape(-1, *shape).to(old.dtype) for part, (name, old), shape in cut})
