"""A plan: which cells make a table, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tempograd.data import DATASETS
from tempograd.typing import Rank
from tempograd_paper.cell import Cell, Measure, Pairs

PROTOCOLS = ("published", "fair", "tuned")


@dataclass(frozen=True)
class Row:
    """One row of a table: a method, perhaps with settings or a ranking of its own."""

    method: str
    label: str
    settings: Pairs = ()
    rank: Rank = "absolute"


@dataclass(frozen=True)
class Plan:
    """The cells of a table.

    Parameters
    ----------
    name, title : str
    datasets, models : tuple of str
    folds : tuple of int
    rows : tuple of Row
    measures : tuple of Measure
    protocol : {"published", "fair", "tuned"}
    table : str, optional
        Which table of the paper stands beside it: the key ``table`` of the published numbers.
    stands_for : str, optional
        Whose published numbers stand beside ours, for data sets that this table of the paper does not have; by
        its label.
    variants : mapping
        Data set → variant, where it is not the protocol's.
    series, seed, training, sizes
        As in :class:`~tempograd_paper.cell.Cell`.
    kind : {"scores", "sizes"}
        What the table shows. A table of the sizes of data sets has nothing to run: no models, folds, rows and
        measures, and so no cells.
    """

    name: str
    title: str
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    folds: tuple[int, ...]
    rows: tuple[Row, ...]
    measures: tuple[Measure, ...]
    protocol: str = "published"
    table: str | None = None
    stands_for: str | None = None
    variants: Mapping[str, str] = field(default_factory=dict)
    series: int | None = None
    seed: int = 42
    training: Pairs = ()
    sizes: Pairs = ()
    kind: str = "scores"

    def cells(self) -> list[Cell]:
        """Return all cells, those of one model next to each other."""
        return [
            self.cell(dataset, model, fold, row)
            for dataset in self.datasets
            for model in self.models
            for fold in self.folds
            for row in self.rows
        ]

    def cell(self, dataset: str, model: str, fold: int, row: Row) -> Cell:
        """Return one cell."""
        return Cell(
            dataset=dataset,
            variant=self.variants.get(dataset) or variant_of(dataset, self.protocol),
            fold=fold,
            model=model,
            method=row.method,
            measures=self.measures,
            protocol=self.protocol,
            settings=row.settings,
            rank=row.rank,
            series=self.series,
            seed=self.seed,
            training=self.training,
            sizes=self.sizes,
        )


def variant_of(dataset: str, protocol: str) -> str:
    """Return the version of the data that a protocol runs on: the default, or what the paper ran on."""
    variants = DATASETS[dataset].variants
    return "published" if protocol == "published" and "published" in variants else variants[0]
