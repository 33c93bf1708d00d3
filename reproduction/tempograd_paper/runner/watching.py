"""What is noted while a cell runs: warnings of the library, and the end of what a device was given to do."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from tempograd.core.errors import TempogradWarning


@contextmanager
def collected() -> Iterator[list[str]]:
    """Collect the library's warnings, each once: they belong into the record, not on a terminal of many cells."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TempogradWarning)
        yield messages
    messages += sorted({str(w.message) for w in caught if issubclass(w.category, TempogradWarning)})


def wait(device: str) -> None:
    """Wait until a device has done its work, so that a clock can be read."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
