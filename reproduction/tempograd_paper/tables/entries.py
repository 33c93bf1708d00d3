"""The numbers of one panel of a table."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tempograd.core.errors import DataError
from tempograd.core.stats import t_quantile
from tempograd.data import DATASETS
from tempograd.metrics import METRICS, Difference, Summary, compare, summarise
from tempograd_paper.cell import Measure
from tempograd_paper.labels import DATASET_LABELS, MODEL_LABELS, PAPER_LABELS
from tempograd_paper.runner.plan import Plan, Row
from tempograd_paper.runner.record import Record
from tempograd_paper.statistics import crossed_interval
from tempograd_paper.tables.published_numbers import SCALES, Published, has_data, published

# How good the explained models are.

Grid = Mapping[tuple[int, int], Record]
"""The records of one data set and model, by row and fold."""


@dataclass(frozen=True)
class Quality:
    """Test accuracy, share of the largest class and AUROC over folds, and the folds with a model at chance level.

    What the records do not tell is None. With one fold the error of the AUROC is that over its series.
    """

    accuracy: Summary | None
    majority: Summary | None
    auroc: Summary | None
    at_chance: tuple[int, ...]


def quality(grid: Grid, folds: Sequence[int]) -> Quality:
    """Summarise the facts of the models of some folds."""
    facts: dict[int, Mapping[str, Any]] = {
        fold: next((record.facts.get("model", {}) for (_, found), record in grid.items() if found == fold), {})
        for fold in folds
    }
    auroc = _over_folds(facts, "auroc")
    if auroc is not None and auroc.count == 1:
        error = _over_folds(facts, "auroc_error")
        auroc = auroc if error is None else Summary(auroc.mean, error.mean, 1)
    return Quality(
        accuracy=_over_folds(facts, "accuracy"),
        majority=_over_folds(facts, "majority"),
        auroc=auroc,
        at_chance=tuple(fold for fold in folds if facts[fold].get("at_chance")),
    )


def _over_folds(facts: Mapping[int, Mapping[str, Any]], name: str) -> Summary | None:
    values = [fact[name] for fact in facts.values() if fact.get(name) is not None]
    return summarise(torch.tensor(values, dtype=torch.float64)) if values else None


# Folds whose model is so unlike the others that no method is to blame.

LIMIT = 3.0


class Outlier(NamedTuple):
    """A fold and how many times the median over folds its random CPD is."""

    dataset: str
    model: str
    fold: int
    ratio: float


def outlier_folds(records: Iterable[Record]) -> tuple[Outlier, ...]:
    """Return the folds whose ``random`` CPD exceeds three times the median over the folds.

    The rule looks at no method: random scores know nothing of the series, so what they reach tells about the
    model of the fold alone. The first CPD of the record counts. Below three folds there are none.
    """
    groups: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for record in records:
        cell = record.cell
        measure = next((measure for measure in cell.measures if measure.metric == "cpd"), None)
        if cell.method == "random" and measure is not None:
            groups[cell.dataset, cell.model][cell.fold] = fold_value(record.scores[measure.name])
    found = []
    for (dataset, model), values in groups.items():
        middle = median(values.values())
        found += [
            Outlier(dataset, model, fold, value / middle if middle else float("inf"))
            for fold, value in values.items()
            if value > LIMIT * middle
        ]
    return tuple(found)


def fold_value(scores: Tensor) -> float:
    """Return the one number of a fold: the mean over the series whose score is defined."""
    return float(scores.double().nanmean())


FLOOR = "random"  # no competitor: never marked, and nobody is second to it


class Deviation(NamedTuple):
    """Ours minus the published mean, also in units of both standard errors together (None without errors)."""

    value: float
    in_errors: float | None


@dataclass(frozen=True)
class TableEntry:
    """One number of a table, in the units of the paper.

    Parameters
    ----------
    summary : Summary or None
        Ours; None where nothing was run or nothing is defined.
    published : Published or None
    deviation : Deviation or None
        Under the published protocol, on the data of the paper.
    difference : Difference or None
        The paired difference to TIMING, this method minus TIMING, with its 95 % interval; under the tuned
        protocol over models and series together.
    mark : {"best", "second", ""}
    complete : bool
        Whether all folds count that others of the panel have; what is not complete is not marked.
    refused : str
        Why the method was run, and has no number here; empty where that is not so.
    """

    summary: Summary | None
    published: Published | None = None
    deviation: Deviation | None = None
    difference: Difference | None = None
    mark: str = ""
    complete: bool = True
    refused: str = ""


def fill(
    plan: Plan, where: tuple[str, str], grid: Grid, folds: Sequence[int], against: Row | None, *, ranked: bool
) -> tuple[tuple[TableEntry, ...], ...]:
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
        column = [replace(entry, refused=_refused(grid, row, measure)) for row, entry in enumerate(column)]
        if plan.protocol == "tuned" and against is not None and len(folds) > 1:
            other = plan.rows.index(against)
            column = [_crossed(grid, (row, other), measure, entry) for row, entry in enumerate(column)]
        columns.append(_marked(column, plan.rows, measure) if ranked else column)
    return tuple(zip(*columns, strict=True))


def _crossed(grid: Grid, rows: tuple[int, int], measure: Measure, entry: TableEntry) -> TableEntry:
    """Give a difference between rows an interval over models and series, where each model has a score of each."""
    one, other = rows
    folds = [fold for index, fold in grid if index == one and (other, fold) in grid]
    pairs = [[grid[row, fold].scores[measure.name].double() for fold in folds] for row in rows]
    sizes = {len(scores) for row in pairs for scores in row}
    if entry.difference is None or len(folds) < 2 or len(sizes) > 1:
        return entry
    gaps = SCALES.get(measure.metric, 1.0) * (torch.stack(pairs[0]) - torch.stack(pairs[1]))
    gaps = gaps[:, ~gaps.isnan().any(0)]
    if gaps.shape[1] < 2:
        return entry
    found = crossed_interval(gaps.numpy(), shared=not DATASETS[grid[one, folds[0]].cell.dataset].own_folds)
    half = (found.high - found.low) / 2
    error = half / float(t_quantile(0.95, torch.tensor(found.freedom, dtype=torch.float64)))
    return replace(entry, difference=Difference(found.mean, error, len(folds), found.low, found.high))


def _refused(grid: Grid, row: int, measure: Measure) -> str:
    """Return why a row has no scores with the baseline of a measure, if its records tell."""
    told = (record.facts.get("left_out", {}) for (index, _), record in grid.items() if index == row)
    return next((str(reasons[measure.baseline]) for reasons in told if measure.baseline in reasons), "")


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
) -> TableEntry:
    theirs = _published(plan, where, row, measure)
    if values.isnan().all():
        return TableEntry(None, theirs, complete=False)
    summary = summarise(values)
    deviation = None
    if theirs is not None and plan.protocol == "published" and not stands_in(plan, where[0]):
        deviation = _deviation(summary, theirs, over_folds=len(folds) > 1)
    difference = None
    if paired is not None and len(paired) == len(values):
        difference = compare(values, paired)
    return TableEntry(
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
        PAPER_LABELS.get(row.label, row.label),
        measure.baseline,
        measure.metric,
        measure.k,
    )


def _deviation(ours: Summary, theirs: Published, *, over_folds: bool) -> Deviation:
    gap = ours.mean - theirs.mean
    error = math.hypot(ours.standard_error, theirs.standard_error)
    return Deviation(gap, gap / error if over_folds and 0 < error < math.inf else None)


def _marked(column: list[TableEntry], rows: Sequence[Row], measure: Measure) -> list[TableEntry]:
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
