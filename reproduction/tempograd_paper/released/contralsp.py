"""ContraLSP as released."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from tempograd.explainers import ContraLSP
from tempograd_paper.labels import REAL
from tempograd_paper.released.masks import HARD_LABELS, LAST_STEP, RAW, ReleasedMask


@dataclass(frozen=True)
class ReleasedContraLSP(ReleasedMask, ContraLSP):
    """ContraLSP as released.

    The loss is the mean over all series (0.3.5). The error is that of raw outputs (A6) or of probabilities taken
    for logits (0.3.6), and on State that of the last step only (B6). Masks that saturate are ranked by the
    metrics with their ties in the order of a hash, not by position as released (B9). The released contrastive term
    has no gradient, and so no effect: ``contrastive="none"``, as in the library.
    """

    faults: ClassVar[Mapping[str, str]] = {
        "A6": RAW,
        "B6": LAST_STEP,
        "0.3.5": "the mean loss of all series, whose small gradients Adam's guard slows down",
        "0.3.6": HARD_LABELS,
    }

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return the paper's setting for a data set, with the faults that made its numbers."""
        cls._check(dataset)
        if dataset in REAL:
            return cls(0.005, 0.01, 0.5, 200, 0.1, "none", quirks=frozenset({"0.3.5", "0.3.6"}))
        if dataset == "state":
            return cls(2.0, 1.0, 0.5, 500, 0.01, "none", quirks=frozenset({"A6", "B6", "0.3.5"}))
        return cls(1.0, 2.0, 0.8, 500, 0.01, "none", quirks=frozenset({"A6", "0.3.5"}))
