"""The kept scores of one protocol as blocks, one for each data set, to compare methods within and over them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tempograd.data import DATASETS
from tempograd_paper.cell import Measure
from tempograd_paper.labels import DATASET_LABELS, SEGMENTS_ONLY, method_label
from tempograd_paper.protocols.settings import SEGMENTS
from tempograd_paper.runner import Plan, Record, load_plan
from tempograd_paper.statistics import CrossedInterval, Friedman, critical_difference, crossed_interval, friedman
from tempograd_paper.tables.archive import ARCHIVE, load_records
from tempograd_paper.tables.entries import FLOOR
from tempograd_paper.tables.tabulation import Table, tabulate

_Floats = NDArray[np.float64]
COMPARED = {  # the folders that together have each data set once
    "published": ("table3-1000", "table4", "table2-physionet2012"),
    "tuned": ("table3-all-1000", "table4-all", "table2-physionet2012"),
}
OWN, RIVAL = "timing", "integrated_gradients"  # what a data set must have to be compared
SEGMENTED = "timing_segments"  # TIMING tuned among segments alone


@dataclass(frozen=True)
class Block:
    """The scores of all methods on one data set, for one measure.

    Attributes
    ----------
    dataset : str
    measure : Measure
    scores : mapping
        Of each method, by fold, one score per test series; the same series in the same order for all methods.
    protocol : str
    """

    dataset: str
    measure: Measure
    scores: Mapping[str, Mapping[int, _Floats]]
    protocol: str = "published"

    @property
    def label(self) -> str:
        """What the data set is called."""
        return DATASET_LABELS[self.dataset]

    def folds(self, methods: Sequence[str]) -> tuple[int, ...]:
        """Return the folds that all these methods have: only they can be compared."""
        return tuple(sorted(set.intersection(*(set(self.scores[name]) for name in methods))))

    def means(self, methods: Sequence[str]) -> list[float]:
        """Return the mean of each method over the common folds, each the mean over its series."""
        folds = self.folds(methods)
        return [float(np.mean([np.nanmean(self.scores[name][fold]) for fold in folds])) for name in methods]

    def only(self, folds: Sequence[int]) -> Self:
        """Return the scores of these folds."""
        kept = {
            name: {fold: scores[fold] for fold in folds if fold in scores} for name, scores in self.scores.items()
        }
        return replace(self, scores=kept)

    def difference(self, one: str, other: str) -> CrossedInterval:
        """Return the mean paired difference of two methods, with an interval over models and series."""
        folds = self.folds((one, other))
        gaps = np.stack([self.scores[one][fold] - self.scores[other][fold] for fold in folds])
        gaps = gaps[:, ~np.isnan(gaps).any(axis=0)]
        return crossed_interval(gaps, shared=not DATASETS[self.dataset].own_folds)


@dataclass(frozen=True)
class Comparison:
    """Methods over data sets: their mean scores, Friedman's test and Nemenyi's critical difference.

    Attributes
    ----------
    methods : tuple of str
    blocks : tuple of Block
    means : array of shape (data sets, methods)
    test : Friedman
    difference : float
        Mean ranks closer than this are not told apart at 95 %.
    protocol : str
    own : str
        Which TIMING is among them: as it is run, or tuned among segments alone.
    """

    methods: tuple[str, ...]
    blocks: tuple[Block, ...]
    means: _Floats
    test: Friedman
    difference: float
    protocol: str = "published"
    own: str = OWN

    @property
    def labels(self) -> tuple[str, ...]:
        """What the methods are called."""
        return tuple(
            SEGMENTS_ONLY if name == SEGMENTED else method_label(name, self.protocol) for name in self.methods
        )

    def rank(self, name: str) -> float:
        """Return the mean rank of a method."""
        return self.test.ranks[self.methods.index(name)]


def load_blocks(results: Path, protocol: str, baseline: str, names: Sequence[str]) -> list[Block]:
    """Return the CPD of every method on every data set of the kept results.

    Parameters
    ----------
    results : path
        The folder ``reproduction/results``.
    protocol : {"published", "fair", "tuned"}
    baseline : {"zero", "average", "background"}
        What takes the place of removed cells.
    names : sequence of str
        The plans that together have each data set once.
    """
    found = []
    for name in names:
        folder = results / f"{name}-{protocol}"
        plan = plan_of(folder)
        measure = next(each for each in plan.measures if each.metric == "cpd" and each.baseline == baseline)
        records = records_of(folder)
        found += [_block(plan, dataset, measure, records) for dataset in plan.datasets]
    return [block for block in found if {OWN, RIVAL} <= set(block.scores)]


def records_of(folder: Path) -> Mapping[str, Record]:
    """Return the records of a folder of kept results, by key; they are read once."""
    return _read(folder, (folder / ARCHIVE).stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _read(folder: Path, _changed: int) -> Mapping[str, Record]:
    return load_records(folder, plan_of(folder))


def plan_of(folder: Path) -> Plan:
    """Return the plan of a folder of kept results: that of the package, or the one kept beside the results."""
    name, protocol = folder.name.rsplit("-", 1)
    own = folder.parent / "plans" / f"{name}.toml"
    return load_plan(str(own) if own.exists() else name, protocol=protocol, to_run=False)


def table_of(folder: Path) -> Table:
    """Return the table of a folder of kept results."""
    return tabulate(plan_of(folder), records_of(folder))


def kept_folders(results: Path) -> list[Path]:
    """Return the folders of all kept results."""
    return sorted(path.parent for path in results.glob(f"*/{ARCHIVE}"))


def compare_methods(blocks: Sequence[Block], *, whole: bool = True, own: str = OWN) -> Comparison:
    """Compare the methods that every data set has over data sets; random is none of them, TIMING is one.

    Parameters
    ----------
    blocks : sequence of Block
    whole : bool
        Methods must have every fold that TIMING has; otherwise the folds that all have are compared.
    own : str
        Which TIMING counts: as it is run, or tuned among segments alone.
    """
    absent = {FLOOR, OWN, SEGMENTED} - {own}
    chosen = tuple(
        name
        for name in blocks[0].scores
        if name not in absent and all(_has(each, name, own, whole=whole) for each in blocks)
    )
    means = np.array([block.means(chosen) for block in blocks])
    test = friedman(means)
    apart = critical_difference(len(chosen), len(blocks))
    return Comparison(chosen, tuple(blocks), means, test, apart, blocks[0].protocol, own)


def _has(block: Block, name: str, own: str, *, whole: bool) -> bool:
    folds = set(block.scores.get(name, ()))
    return folds >= set(block.scores[own]) if whole else bool(folds)


def _block(plan: Plan, dataset: str, measure: Measure, records: Mapping[str, Record]) -> Block:
    scores: dict[str, dict[int, _Floats]] = {}
    for row in plan.rows:
        for fold in plan.folds:
            record = records.get(plan.cell(dataset, plan.models[0], fold, row).key)
            if record is not None and not record.scores[measure.name].isnan().all():
                values = record.scores[measure.name].double().numpy()
                name = SEGMENTED if row.settings == SEGMENTS else row.method
                scores.setdefault(name, {})[fold] = np.asarray(values, dtype=np.float64)
    return Block(dataset, measure, scores, plan.protocol)
