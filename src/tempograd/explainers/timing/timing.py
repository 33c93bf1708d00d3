"""TIMING: integrated gradients along paths that leave random segments untouched."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd._utils import settings
from tempograd._utils.rng import FAR, Purpose, keys, per_point, split
from tempograd.engine import Block, Later, Question
from tempograd.errors import SettingError
from tempograd.explainers.base import EXPLAINERS, Explainer
from tempograd.explainers.integration import Attribution, Path, Plan, Points, doubling, integrate, midpoints
from tempograd.explainers.timing.segments import (
    RAREST,
    Draw,
    Law,
    Segments,
    complete,
    draw,
    moving,
    repaired,
    warn_of_rare_cells,
)
from tempograd.explanation import Facts

SMALL = 2**20  # cells of all masks together, worth remembering between calls
FIRST, MOST = 50, 3200  # samples of the first stage, and where a tolerance gives up
SHARE, ENOUGH = 0.8, 5  # anchored masks, where cells are free in fewer of the first points than that


@EXPLAINERS.register("timing")
@dataclass(frozen=True)
class Timing(Explainer):
    r"""Temporality-aware integrated gradients.

    Plain integrated gradients fades the whole series in at once, so the model sees series whose temporal
    order means nothing. TIMING holds random segments at their true values while the rest moves from the
    baseline :math:`x'` to the input :math:`x`, and averages over the masks :math:`M` that let a cell move:

    .. math::

        A_{t,d} = (x - x')_{t,d} \; \mathbb{E}_{\alpha, M}\!\left[
            \partial_{t,d} F_{\hat y}\big(x + M \odot (1 - \alpha)(x' - x)\big)
            \;\middle|\; M_{t,d} = 1 \right].

    Parameters
    ----------
    n_samples : int, default=50
        Path points; each has its own mask and costs one pass of the model.
    segments, min_length, max_length : int, optional
        Segments held per mask and the bounds of their length. By default chosen from the length and the
        number of channels so that about half of the cells are free.
    tolerance : float, optional
        Draw further samples, in stages that double their number from ``n_samples`` on, until a series is good
        enough: easy series cost less. 0.1 stops at an estimated relative error of the map of 10 %.
    max_samples : int, optional
        Where ``tolerance`` gives up, by default 3200; :meth:`Explanation.verdict` says so.
    stop_when : {"error", "top"}, optional
        What ``tolerance`` is about, by default the error. With ``"top"`` it is the share of the top tenth of the
        cells that may still have changed when the samples were last doubled.
    control_variates : bool, default=True
        Take noise out of the estimate by regressing each cell's effects on the position on the path and on how far
        a point's slope and score are from completeness, which have mean 0 and cost no pass. Errors then also count
        what is missing of the change of the score, so that they hold where a model is steep. ``False`` gives the
        plain weighted mean over one grid of positions.
    anchored : float, optional
        Share of the masks that are drawn given that a chosen cell is free; exact weights keep the estimate
        unchanged in expectation. By default 0.8 where a cell would be free in fewer than 5 samples, and none
        elsewhere. In any case the last masks are redrawn until every observed cell is free at least once;
        only with ``anchored=0`` masks are independent and stay as they come.

    Notes
    -----
    With ``segments=0`` nothing is held and TIMING is midpoint integrated gradients. With segments the scores
    do not sum to the change of the prediction. A series that ends before others (padding) has its own
    segments, cut to its own length.

    References
    ----------
    .. [1] H. Jang, C. Kim and E. Yang, "TIMING: Temporality-Aware Integrated Gradients for Time Series
       Explanation", ICML 2025. https://arxiv.org/abs/2506.05035

    Examples
    --------
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 1, bias=False))
    >>> x = torch.arange(6.0).view(1, 3, 2)
    >>> found = Timing(n_samples=20)(model, x, output="raw").values
    >>> bool(torch.allclose(found, (model[1].weight.view(3, 2) * x)))
    True
    """

    zero_if_ignored: ClassVar[bool] = True

    n_samples: int = settings.whole(50)
    segments: int | None = settings.whole(None, least=0)
    min_length: int | None = settings.whole(None)
    max_length: int | None = settings.whole(None)
    tolerance: float | None = settings.number(None, high=1.0, closed=(False, False))
    max_samples: int | None = settings.whole(None)
    stop_when: Literal["error", "top"] | None = settings.choice(None, ("error", "top"))
    control_variates: bool = settings.flag(True)
    anchored: float | None = settings.number(None, high=0.95)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_length and self.max_length and self.min_length > self.max_length:
            raise SettingError(f"min_length={self.min_length} is above max_length={self.max_length}: swap them.")
        if self.tolerance is None:
            for name in ("max_samples", "stop_when"):
                if getattr(self, name) is not None:
                    raise SettingError(f"{name}= makes no difference without tolerance=: pass tolerance=0.1 too.")
        elif not self.controlled:
            raise SettingError("tolerance= needs control_variates=True and segments.")
        elif self._most < self.n_samples:
            raise SettingError(
                f"max_samples={self._most} is below n_samples={self.n_samples}: pass a larger max_samples."
            )

    @property
    def _most(self) -> int:
        return MOST if self.max_samples is None else self.max_samples

    @property
    def controlled(self) -> bool:
        """Return whether scores and positions take noise out of the mean."""
        return self.control_variates and self.segments != 0

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the hyper-parameters as plain data, with what a tolerance stops by where nobody said it."""
        stops = {"max_samples": self._most, "stop_when": self.stop_when or "error"}
        return super().parameters | ({} if self.tolerance is None else stops)

    @property
    def facts(self) -> Facts:
        """Return what an explanation keeps of the method."""
        return replace(super().facts, adaptive=self.controlled and self._examined)

    @property
    def plan(self) -> Plan:
        """Return the points in their stages; without controls they are one grid over the path."""
        if not self.controlled:
            return Plan((self.n_samples,))
        if self.tolerance is None:
            return Plan(doubling(min(self.n_samples, FIRST), self.n_samples))
        return Plan(
            doubling(self.n_samples, self._most), tolerance=self.tolerance, stop_when=self.stop_when or "error"
        )

    def attribute(self, question: Question) -> Attribution:
        return integrate(question, self.plan, self.paths(question), label=f"explain with {self.name}")

    def paths(self, question: Question) -> Callable[[Block, int], Path]:
        """Return what draws the masks of a block of series in a stage and makes the paths that they leave."""
        laws = self.laws(question)
        if self._examined:
            warn_of_rare_cells(list(laws.values()), self.plan.points)
        table = Law.table(laws, question.x, question.device, question.dtype)
        large = partial(self._large_path, table, question.seed)
        if question.mask is not None or len(question.x) * self.plan.stages[0] * question.x[0].numel() > SMALL:
            return large
        (law,) = laws.values()
        ids = tuple(question.ids.tolist())

        def small(block: Block, stage: int) -> Path:
            if stage > 0:
                return large(block, stage)
            drawn = _small_draw(self, law, ids, question.seed, question.device, question.dtype)
            weights = None if drawn.weights is None else drawn.weights[block.rows]
            return self._path(block, drawn._replace(masks=drawn.masks[block.rows], weights=weights))

        return small

    def laws(self, question: Question) -> dict[int, Segments]:
        """Complete the setting for every length of the series in question."""
        _, longest, channels = question.x.shape
        laws = {}
        for length in sorted(set(question.lengths.tolist())):
            watched = None
            if question.mask is not None:  # what was never observed need not be estimated
                here = question.mask[question.lengths == length]
                watched = here.any(-1).any(0)[: max(length, 1)].cpu().numpy()
            laws[length] = self.law(length, channels, longest, watched)
        return laws

    def law(self, length: int, channels: int, longest: int, watched: NDArray[np.bool_] | None = None) -> Segments:
        """Complete the setting for series of ``length`` steps, and refuse what cannot be estimated.

        ``longest`` is the length of the batch, and ``watched`` tells which steps matter, by default all.
        """
        cut = 0 if length == 0 else self.segments
        law = complete(max(length, 1), channels, cut, self.min_length, self.max_length, longest)
        share = self.anchored
        if share is None:
            share = SHARE if law.free().min() * self.plan.stages[0] < ENOUGH else 0.0
        law = replace(law, anchored=share)
        rare = law.free() < RAREST
        if watched is not None:
            rare &= watched
        if rare.any() and self._examined:
            good = complete(law.time, channels, None, None, None, longest)
            raise SettingError(
                f"{law} hold step {rare.argmax()} of series of {law.time} steps and {channels} channels (almost) "
                f"always, so nothing can be said of it: try {good}."
            )
        return law

    def _large_path(self, table: Law, seed: int, block: Block, stage: int) -> Path:
        law, stream = table.of(block.lengths), keys(seed, block.ids, Purpose.SEGMENTS)
        drawn = self.draw(stream, law, block.observed, stage)
        if stage > 0:  # what could be seen was seen in the first
            return self._path(block, drawn)
        unseen = Later(drawn.unseen)

        def mend() -> Path | None:
            return self._path(block, repaired(drawn, law, block.observed)) if unseen else None

        return self._path(block, drawn)._replace(mend=mend)

    def draw(self, stream: Tensor, law: Law, observed: Tensor, stage: int = 0) -> Draw:
        """Draw the masks of a block of series in a stage."""
        points = self.plan.stages[stage]
        if stage > 0:
            stream = split(stream, FAR - stage)  # no point has that number
        if self.anchored != 0 and law.most:
            return draw(stream, law, observed, points)
        streams = per_point(stream, points)
        anchors = torch.full_like(streams[0], -1)
        masks = self._sample_masks(streams, law)
        return Draw(masks, None, anchors, streams, anchors, unseen=torch.zeros((), dtype=torch.bool))

    def _sample_masks(self, streams: Tensor, law: Law) -> Tensor:
        """Draw independent masks, True where a cell moves, (series, points, time, channel)."""
        return moving(streams, law)

    def _positions(self, points: int, like: Tensor) -> Tensor:
        """Return how far points are on their way from the baseline, 0, to the series, 1."""
        return midpoints(points, like)

    def _scale(self, difference: Tensor, masks: Tensor) -> Tensor:
        """Return what the mean gradient of each cell is multiplied by: how far it is from the baseline."""
        return difference

    def _path(self, block: Block, drawn: Draw) -> Path:
        alpha = self._positions(drawn.masks.shape[1], block.x)
        difference = block.x - block.baseline

        def at(piece: slice) -> Points:
            free = drawn.masks[:, piece].to(block.x.dtype)
            back = free * (alpha[piece, None, None] - 1)  # how far towards the baseline, 0 where a cell is held
            z = torch.addcmul(block.x[:, None], back, difference[:, None])
            weight = None if drawn.weights is None else drawn.weights[:, piece]
            return Points(z, weight, free, position=alpha[piece])

        scale, straight = self._scale(difference, drawn.masks), self.segments == 0
        return Path(scale, at, start=block.baseline, straight=straight, controlled=self.controlled)


@lru_cache(maxsize=8)
def _small_draw(
    explainer: Timing, law: Segments, ids: tuple[int, ...], seed: int, device: torch.device, dtype: torch.dtype
) -> Draw:
    """Draw the masks of a few series and keep them.

    Draws depend on the ids and not on the values, and most who explain one series at a time use the same id.
    """
    return draw_whole(explainer, law, torch.tensor(ids, device=device), seed, dtype)


def draw_whole(
    explainer: Timing, law: Segments, ids: Tensor, seed: int, dtype: torch.dtype, stage: int = 0
) -> Draw:
    """Draw the masks of series that are observed in every cell; in the first stage each moves at least once."""
    x = torch.empty(1, law.time, law.channels, device=ids.device)
    table = Law.table({law.time: law}, x, ids.device, dtype).of(torch.full_like(ids, law.time))
    everything = torch.ones((), dtype=torch.bool, device=ids.device).expand(len(ids), law.time, law.channels)
    drawn = explainer.draw(keys(seed, ids, Purpose.SEGMENTS), table, everything, stage)
    return repaired(drawn, table, everything) if stage == 0 and drawn.unseen else drawn
