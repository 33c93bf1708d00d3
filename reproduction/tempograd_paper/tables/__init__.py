"""Records of a benchmark as tables, beside the published numbers, and the small files that keep them."""

from tempograd_paper.tables.archive import load_records, write_archive
from tempograd_paper.tables.entries import outlier_folds
from tempograd_paper.tables.tabulation import Table, tabulate

__all__ = ["Table", "load_records", "outlier_folds", "tabulate", "write_archive"]
