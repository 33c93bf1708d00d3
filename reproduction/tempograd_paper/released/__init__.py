"""What the released code does, as explainers, metrics and models."""

from collections.abc import Iterable

from tempograd import EXPLAINERS, Explainer
from tempograd_paper.released._second import SECOND
from tempograd_paper.released.metrics import released_metric
from tempograd_paper.released.training import train_as_released

__all__ = ["known_faults", "released", "released_metric", "train_as_released"]


def released(method: str, dataset: str) -> Explainer:
    """Return an explainer with the paper's setting and the known faults of the released code."""
    if method in SECOND:
        return SECOND[method].of(dataset)  # type: ignore[attr-defined,no-any-return]  # every one has it
    return EXPLAINERS[method].published(dataset)


def known_faults(method: str) -> Iterable[str]:
    """Return the keys of the faults that a method can show."""
    return SECOND[method].faults if method in SECOND else EXPLAINERS[method].known_quirks
