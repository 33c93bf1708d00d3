"""Series to explain: what a data set holds, and the ones that can be loaded by name."""

from tempograd.data._mimic3_tables import PreparedMimic3, prepare_mimic3
from tempograd.data.base import Dataset, Split
from tempograd.data.folds import fold_indices
from tempograd.data.loading import DATASETS, Loader, load_dataset
from tempograd.data.mimic3 import load_mimic3
from tempograd.data.state import load_state
from tempograd.data.switch_feature import load_switch_feature

__all__ = [
    "DATASETS",
    "Dataset",
    "Loader",
    "PreparedMimic3",
    "Split",
    "fold_indices",
    "load_dataset",
    "load_mimic3",
    "load_state",
    "load_switch_feature",
    "prepare_mimic3",
]
