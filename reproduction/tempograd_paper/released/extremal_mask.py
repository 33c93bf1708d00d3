"""Extremal masks as released."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from tempograd.explainers import ExtremalMask
from tempograd_paper.labels import REAL
from tempograd_paper.released.masks import HARD_LABELS, LAST_STEP, RAW, ReleasedMask


@dataclass(frozen=True)
class ReleasedExtremalMask(ReleasedMask, ExtremalMask):
    """Extremal masks as released.

    Losses are means over a batch, and one dense Adam moves all masks at every step (0.3.5). The error is that of
    raw outputs (A6) or of probabilities taken for logits (0.3.6), and on State that of the last step only (B6).
    Masks that saturate are ranked by the metrics with their ties in the order of a hash, not by position as
    released (B9).
    """

    faults: ClassVar[Mapping[str, str]] = {
        "A6": RAW,
        "B6": LAST_STEP,
        "0.3.5": "a dense Adam on the mean loss of a batch: masks also move in the steps of other batches",
        "0.3.6": HARD_LABELS,
    }

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return the paper's setting for a data set, with the faults that made its numbers."""
        cls._check(dataset)
        if dataset in REAL:
            return cls(0.01, 10.0, 500, 0.01, 100, deletion=False, quirks=frozenset({"0.3.5", "0.3.6"}))
        quirks = {"A6", "0.3.5"} | ({"B6"} if dataset == "state" else set())
        return cls(1.0, 1.0, 500, 0.01, 100, deletion=False, quirks=frozenset(quirks))
