"""From the records of a plan to a table: means, errors, marks and differences, beside the published numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tempograd_paper.labels import FAMILY
from tempograd_paper.runner.plan import Plan, Row
from tempograd_paper.runner.record import Record
from tempograd_paper.tables.entries import FLOOR, Grid, Quality, TableEntry, fill, outlier_folds, quality

REFERENCES = ("TIMING", FAMILY, "TIMING (50, 10, 48)")  # the rows that others are compared with, by label


@dataclass(frozen=True)
class Panel:
    """The part of a table about one model of one data set.

    Parameters
    ----------
    dataset, model : str
    folds : tuple of int
        Those that count here. With two or more, every fold gives one value (the mean over its series) and means,
        errors and differences are over folds; with one they are over its series.
    left_out : pairs of fold and reason
        Folds that were run but do not count here.
    ranked : bool
        Whether best and second best are marked.
    series : tuple of int
        How many series the folds have, the fewest and the most.
    quality : Quality
        How good the explained models are.
    entries : tuple of tuples of Entry
        By row and measure of the plan.
    seconds : tuple of float or None
        By row: what explaining one series took, the mean over folds.
    """

    dataset: str
    model: str
    folds: tuple[int, ...]
    left_out: tuple[tuple[int, str], ...]
    ranked: bool
    series: tuple[int, int]
    quality: Quality
    entries: tuple[tuple[TableEntry, ...], ...]
    seconds: tuple[float | None, ...]

    @property
    def over(self) -> str:
        """What means and errors are over: ``"folds"`` or ``"series"``."""
        return "folds" if len(self.folds) > 1 else "series"


@dataclass(frozen=True)
class Table:
    """A table with our numbers and the published ones.

    Parameters
    ----------
    plan : Plan
        Its rows and measures are those of the table.
    panels : tuple of Panel
        By data set and model. One that has folds to be left out is followed by itself without them.
    missing, total : int
        How many cells of the plan have no record, and how many there are.
    untuned : tuple of str
        Rows of the tuned protocol that had nothing to choose, by label; random is none of them.
    """

    plan: Plan
    panels: tuple[Panel, ...]
    missing: int
    total: int
    untuned: tuple[str, ...] = ()

    @property
    def reference(self) -> Row | None:
        """The row that all others are compared with."""
        return reference(self.plan)


def tabulate(plan: Plan, records: Mapping[str, Record]) -> Table:
    """Aggregate the records of a plan, by key, into its table."""
    cells = plan.cells()
    mine = {cell.key: records[cell.key] for cell in cells if cell.key in records}
    panels = [
        panel
        for dataset in plan.datasets
        for model in plan.models
        for panel in _panels(plan, dataset, model, mine)
    ]
    return Table(plan, tuple(panels), len(cells) - len(mine), len(cells), _untuned(plan, mine))


def _untuned(plan: Plan, records: Mapping[str, Record]) -> tuple[str, ...]:
    """Return the rows that ran as they are, as their records tell."""
    if plan.protocol != "tuned":
        return ()
    found = []
    for row in plan.rows:
        own = [
            each
            for each in records.values()
            if (each.cell.method, each.cell.settings) == (row.method, row.settings)
        ]
        chosen = [choice for record in own for choice in record.facts.get("chosen", {}).values()]
        if row.method != FLOOR and not row.settings and chosen and all(choice is None for choice in chosen):
            found.append(row.label)
    return tuple(found)


def reference(plan: Plan) -> Row | None:
    """Return the row of TIMING as the paper sets it, or the first of its method; None without one."""
    rows = [row for row in plan.rows if row.method == "timing"]
    named = [row for label in REFERENCES for row in rows if row.label == label]
    return next(iter(named + rows), None)


def _panels(plan: Plan, dataset: str, model: str, records: Mapping[str, Record]) -> list[Panel]:
    """Return the panel of all folds and, where some are to be left out, the panel without them."""
    grid = {
        (index, fold): records[key]
        for fold in plan.folds
        for index, row in enumerate(plan.rows)
        if (key := plan.cell(dataset, model, fold, row).key) in records
    }
    folds = tuple(fold for fold in plan.folds if any(found == fold for _, found in grid))
    odd = {
        outlier.fold: f"its random CPD is {outlier.ratio:.1f} times the median over folds"
        for outlier in outlier_folds(grid.values())
    }
    chance = dict.fromkeys(quality(grid, folds).at_chance, "its model is at chance level")
    unranked = {} if plan.protocol == "published" else chance
    left_out = tuple(sorted((unranked | odd).items()))
    found = [_panel(plan, dataset, model, grid, folds, (), ranked=not unranked)]
    rest = tuple(fold for fold in folds if fold not in dict(left_out))
    if left_out and rest:
        found.append(_panel(plan, dataset, model, grid, rest, left_out, ranked=True))
    return found


def _panel(
    plan: Plan,
    dataset: str,
    model: str,
    grid: Grid,
    folds: tuple[int, ...],
    left_out: tuple[tuple[int, str], ...],
    *,
    ranked: bool,
) -> Panel:
    sizes = [len(record.ids) for (_, fold), record in grid.items() if fold in folds] or [0]
    return Panel(
        dataset=dataset,
        model=model,
        folds=folds,
        left_out=left_out,
        ranked=ranked,
        series=(min(sizes), max(sizes)),
        quality=quality(grid, folds),
        entries=fill(plan, (dataset, model), grid, folds, reference(plan), ranked=ranked),
        seconds=tuple(_seconds(grid, row, folds) for row in range(len(plan.rows))),
    )


def _seconds(grid: Grid, row: int, folds: Sequence[int]) -> float | None:
    """Return the seconds that explaining one series took; None where nobody looked.

    The median over folds, because the first one that a process explains has to warm up.
    """
    found = [grid[row, fold] for fold in folds if (row, fold) in grid]
    times = [
        record.facts["seconds"]["explain"] / len(record.ids)
        for record in found
        if record.facts.get("seconds", {}).get("explain") is not None
    ]
    return median(times) if times else None
