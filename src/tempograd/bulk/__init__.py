"""Any number of series, from files to a folder of files, on one process or many."""

from tempograd.bulk.driver import explain_dataset
from tempograd.bulk.runs import Run, open_run
from tempograd.bulk.telling import Log, Progress

__all__ = ["Log", "Progress", "Run", "explain_dataset", "open_run"]
