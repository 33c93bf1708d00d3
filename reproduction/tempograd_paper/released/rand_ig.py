"""RandIG as released."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from torch import Tensor

from tempograd.core.errors import SettingError
from tempograd.explainers import RandIG
from tempograd_paper.released.base import Released
from tempograd_paper.released.timing import left_ends


@dataclass(frozen=True)
class ReleasedRandIG(Released, RandIG):
    """RandIG as released: ``p`` holds cells (A11), and the path has left end-points (A7)."""

    faults: ClassVar[Mapping[str, str]] = {
        "A7": "left end-points of the path instead of midpoints",
        "A11": "p is the probability that a cell is held, and not that it moves",
    }
    datasets: ClassVar[Sequence[str]] = ("mimic3",)

    @classmethod
    def of(cls, dataset: str) -> Self:
        """Return the best row of the paper's ablation (MIMIC-III): "p = 0.7" in the released reading (A11)."""
        cls._check(dataset)
        return cls(50, 0.7, quirks=frozenset(cls.faults))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.moves <= 0:
            raise SettingError(f"p={self.p!r} lets no cell move: pass a smaller one.")

    @property
    def moves(self) -> float:
        """Return the probability that a cell moves."""
        return 1 - self.p if "A11" in self.quirks else self.p

    def _positions(self, points: int, like: Tensor) -> Tensor:
        return left_ends(points, like) if "A7" in self.quirks else super()._positions(points, like)
