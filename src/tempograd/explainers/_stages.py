"""How many points, in which stages, and when they are enough."""

from dataclasses import dataclass

from torch import Tensor

TOP = 0.1  # share of the observed cells whose ranking matters


@dataclass(frozen=True)
class Plan:
    """The points of a run: drawn stage by stage, with a look at the error after each.

    Attributes
    ----------
    stages : tuple of int
        Points of each stage.
    random : bool
        Whether the points are draws; only then errors and counts are kept.
    tolerance : float, optional
        Stop with a series as soon as it is good enough; by default all stages run.
    until : {"error", "top"}
        Whether the estimated relative error is to come below the tolerance, or the share of the top tenth of the
        cells that changed since the last look.
    """

    stages: tuple[int, ...]
    random: bool = True
    tolerance: float | None = None
    until: str = "error"

    @property
    def points(self) -> int:
        """Return the most points a series can get."""
        return sum(self.stages)

    @property
    def together(self) -> int:
        """Return for how many points per series room is planned.

        Few series are left in the late stages of a run that stops.
        """
        return max(self.stages if self.tolerance is None else self.stages[:3])

    def enough(self, error: Tensor, values: Tensor, before: Tensor | None, observed: Tensor) -> Tensor | None:
        """Tell for each series whether to stop, given its error, its map and that of the last look.

        None if all go on.
        """
        if self.tolerance is None:
            return None
        if self.until == "error":
            return error <= self.tolerance
        if before is None:
            return None
        return changed(values, before, observed) <= self.tolerance


def doubling(first: int, points: int) -> tuple[int, ...]:
    """Cut points into stages: ``first``, and then as many again as there were; a short rest joins the last.

    Examples
    --------
    >>> doubling(50, 50), doubling(50, 200), doubling(50, 240)
    ((50,), (50, 50, 100), (50, 50, 140))
    """
    stages: list[int] = []
    left = points
    while left:
        size = min(max(first, points - left), left)
        if left - size <= size // 2:
            size = left
        stages.append(size)
        left -= size
    return tuple(stages)


def changed(values: Tensor, before: Tensor, observed: Tensor) -> Tensor:
    """Return which share of the cells with the largest scores was not among them before, (series,)."""
    count = (observed.flatten(1).sum(1) * TOP).ceil().clamp(min=1)
    best = [
        part.abs()
        .masked_fill(~observed, -1)
        .flatten(1)
        .argsort(dim=1, descending=True, stable=True)
        .argsort(dim=1)
        < count[:, None]
        for part in (values, before)
    ]
    return 1 - (best[0] & best[1]).sum(1) / count
