"""Series to explain: what a data set holds, and the ones that can be loaded by name."""

from tempograd.data._mimic3_tables import PreparedMimic3, prepare_mimic3
from tempograd.data.base import Dataset, Split, fold_indices
from tempograd.data.boiler import load_boiler
from tempograd.data.epilepsy import load_epilepsy
from tempograd.data.loading import DATASETS, Loader, load_dataset
from tempograd.data.mimic3 import load_mimic3
from tempograd.data.pam import load_pam
from tempograd.data.physionet2012 import load_physionet2012
from tempograd.data.prepared import load_prepared, save_prepared
from tempograd.data.readers import Series, read_series
from tempograd.data.synthetic import load_state, load_switch_feature
from tempograd.data.ucr import load_freezer, load_wafer

__all__ = [
    "DATASETS",
    "Dataset",
    "Loader",
    "PreparedMimic3",
    "Series",
    "Split",
    "fold_indices",
    "load_boiler",
    "load_dataset",
    "load_epilepsy",
    "load_freezer",
    "load_mimic3",
    "load_pam",
    "load_physionet2012",
    "load_prepared",
    "load_state",
    "load_switch_feature",
    "load_wafer",
    "prepare_mimic3",
    "read_series",
    "save_prepared",
]
