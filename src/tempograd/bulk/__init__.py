"""Any number of series, from files to a folder of files, on one process or many."""

from tempograd.bulk.driver import Progress, explain_dataset
from tempograd.bulk.runs import ChannelImportance, Run, open_run
from tempograd.bulk.worker import Outcome, Worker

__all__ = ["ChannelImportance", "Outcome", "Progress", "Run", "Worker", "explain_dataset", "open_run"]
