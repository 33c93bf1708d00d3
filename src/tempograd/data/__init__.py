"""Series to explain: what a data set holds, and the ones that can be loaded by name."""

from tempograd.core.series import Series
from tempograd.data.datasets import DATASETS, Dataset, Loader, dataset, fold_indices, load_dataset
from tempograd.data.pump import load_pump as load_pump  # registers it
from tempograd.data.source import Source, read_series

__all__ = ["DATASETS", "Dataset", "Loader", "Series", "Source"]
__all__ += ["dataset", "fold_indices", "load_dataset", "read_series"]
