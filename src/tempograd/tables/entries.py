"""The numbers of one panel of a table."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from tempograd.benchmark.cell import Measure
from tempograd.benchmark.labels import DATASET_LABELS, MODEL_LABELS
from tempograd.benchmark.plan import Plan, Row
from tempograd.errors import DataError
from tempograd.metrics import METRICS, Difference, Summary, compare, summarise
from tempograd.tables.model_quality import Grid
from tempograd.tables.outliers import fold_value
from tempograd.tables.published_numbers import SCALES, Published, has_data, published

FLOOR = "random"  # no competitor: never marked, and nobody is second to it


class Deviation(NamedTuple):
    """Ours minus the published mean, also in units of both standard errors together (None without errors)."""

    value: float
    in_errors: float | None


@dataclass(frozen=True)
class Entry:
    """One number of a table, in the units of the paper.

    Parameters
    ----------
    summary : Summary or None
        Ours; None where nothing was run or nothing is defined.
    published : Published or None
    deviation : Deviation or None
        Under the published protocol, on the data of the paper.
    difference : Difference or None
        The paired difference to TIMING, this method minus TIMING, with its 95 % interval.
    mark : {"best", "second", ""}
    complete : bool
        Whether all folds count that others of the panel have; what is not complete is not marked.
    """

    summary: Summary | None
    published: Published | None = None
    deviation: Deviation | None = None
    difference: Difference | None = None
    mark: str = ""
    complete: bool = True


def fill(
    plan: Plan, where: tuple[str, str], grid: Grid, folds: Sequence[int], against: Row | None, *, ranked: bool
) -> tuple[tuple[Entry, ...], ...]:
    """Return the entries of a panel by row and measure.

    Parameters
    ----------
    plan : Plan
    where : pair of str
        Data set and model.
    grid : mapping
        Records by row and fold.
    folds : sequence of int
        Those that count.
    against : Row, optional
        The row that the others are compared with.
    ranked : bool
        Whether to mark the best.
    """
    _check_series(grid)
    columns = []
    for measure in plan.measures:
        values = [_values(grid, index, folds, measure) for index in range(len(plan.rows))]
        paired = None if against is None else values[plan.rows.index(against)]
        column = [
            _entry(plan, where, row, measure, own, None if row == against else paired, folds)
            for row, own in zip(plan.rows, values, strict=True)
        ]
        columns.append(_marked(column, plan.rows, measure) if ranked else column)
    return tuple(zip(*columns, strict=True))


def _values(grid: Grid, row: int, folds: Sequence[int], measure: Measure) -> Tensor:
    """Return one value per fold (NaN where there is none); of a single fold one per series."""
    scale = SCALES.get(measure.metric, 1.0)
    scores = [grid[row, fold].scores[measure.name] if (row, fold) in grid else None for fold in folds]
    if len(folds) == 1 and scores[0] is not None:
        return scale * scores[0].double()
    means = [math.nan if score is None else fold_value(score) for score in scores]
    return scale * torch.tensor(means, dtype=torch.float64)


def _entry(
    plan: Plan,
    where: tuple[str, str],
    row: Row,
    measure: Measure,
    values: Tensor,
    paired: Tensor | None,
    folds: Sequence[int],
) -> Entry:
    theirs = _published(plan, where, row, measure)
    if values.isnan().all():
        return Entry(None, theirs, complete=False)
    summary = summarise(values)
    deviation = None
    if theirs is not None and plan.protocol == "published" and not stands_in(plan, where[0]):
        deviation = _deviation(summary, theirs, over_folds=len(folds) > 1)
    difference = None
    if paired is not None and len(paired) == len(values):
        difference = compare(values, paired)
    return Entry(
        summary,
        theirs,
        deviation,
        difference if difference is not None and difference.count > 1 else None,
        complete=len(folds) == 1 or summary.count == len(folds),
    )


def stands_in(plan: Plan, dataset: str) -> bool:
    """Tell whether the numbers of another data set stand beside ours, because the paper has none of this one."""
    if plan.stands_for is None or plan.table is None:
        return False
    return not has_data(plan.table, DATASET_LABELS.get(dataset, dataset))


def _published(plan: Plan, where: tuple[str, str], row: Row, measure: Measure) -> Published | None:
    if plan.table is None:
        return None
    dataset, model = where
    name = str(plan.stands_for) if stands_in(plan, dataset) else dataset
    return published(
        plan.table,
        DATASET_LABELS.get(name, name),
        MODEL_LABELS.get(model, model),
        row.label,
        measure.substitute,
        measure.metric,
        measure.k,
    )


def _deviation(ours: Summary, theirs: Published, *, over_folds: bool) -> Deviation:
    gap = ours.mean - theirs.mean
    error = math.hypot(ours.standard_error, theirs.standard_error)
    return Deviation(gap, gap / error if over_folds and 0 < error < math.inf else None)


def _marked(column: list[Entry], rows: Sequence[Row], measure: Measure) -> list[Entry]:
    sign = 1 if METRICS[measure.metric].higher_is_better else -1
    ranks = [
        sign * entry.summary.mean if entry.summary and entry.complete and row.method != FLOOR else None
        for entry, row in zip(column, rows, strict=True)
    ]
    order = sorted({rank for rank in ranks if rank is not None}, reverse=True)
    if sum(rank is not None for rank in ranks) < 2:
        return column  # the best of one says nothing
    marks = dict(zip(order[:2], ("best", "second"), strict=False))
    return [
        replace(entry, mark="" if rank is None else marks.get(rank, ""))
        for entry, rank in zip(column, ranks, strict=True)
    ]


def _check_series(grid: Grid) -> None:
    first: dict[int, int] = {}
    for row, fold in grid:
        one, other = grid[first.setdefault(fold, row), fold], grid[row, fold]
        if not torch.equal(one.ids, other.ids):
            raise DataError(
                f"The records of {one.cell} and of {other.cell} are of different series and cannot be compared: "
                "remove the older one, and run the plan again."
            )
