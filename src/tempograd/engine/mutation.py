"""Models that work in place, as ``x -= x.mean(1)`` does, on what autograd has kept for the way back."""

from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")


def mutable_if_needed(work: Callable[[], T]) -> T:
    """Return what ``work`` does; where autograd finds its tensors modified in place, do it again on copies.

    Copying what is kept before it is overwritten costs time, so it is the second try.
    """
    try:
        return work()
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        return work()
