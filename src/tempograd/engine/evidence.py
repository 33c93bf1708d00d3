r"""What the passes tell about a gradient: whether it is that of the score that the model computes.

Autograd differentiates what was written, not what is computed: statistics that are detached, rounding, thresholds,
quantised layers, categories and tokens have a gradient that is another function's, or none. Five things tell.

*Between neighbours.* Two path points have their scores and their gradients :math:`g, g'`. On the straight line
between them, :math:`s`, the change of the score lies between :math:`g \cdot s` and :math:`g' \cdot s` wherever the
score is convex or concave on the way, kinks included. How far it lies outside is a gap. All paths end at
:math:`x`, so neighbours come closer to each other along them: a gap that is a matter of curvature shrinks, one
that stays in proportion is not.

*Nearby.* Where all points lie on one straight path, neighbours tell of its direction only. There the same is asked
at the point in the middle in a direction of its own: all cells take a step :math:`v` to one side, each with a
random sign, and a shorter one to the other side, where scores alone are read,

.. math:: a = \frac{F(z + h v) - F(z)}{h}, \qquad b = \frac{F(z) - F(z - \tfrac h4 v)}{h / 4},

and :math:`g \cdot v` lies between the two.

*Along the path.* With :math:`d_i = \mathrm dF / \mathrm d\alpha` from the gradient at position :math:`\alpha_i`,

.. math:: e_i = \alpha_i d_i - (F(x) - F_i)

has mean 0 for every path that ends at :math:`x` (by parts). A mean that is not 0 is a part of the change that the
gradient does not know of. So is the residual of integrated gradients.

*At the baseline.* A threshold at 0 is crossed at once where the baseline is 0, and no path point lies there:
:math:`F(x' + \epsilon (x - x')) - F(x')` tells.

*What was seen.* No point saw the score change by more than :math:`\max_i |F(x) - F_i|`.
"""

from contextlib import nullcontext
from functools import lru_cache

import torch
from torch import Tensor

from tempograd.draws import Purpose, keys, words
from tempograd.engine.chunks import pieces
from tempograd.engine.precision import exact, resolution
from tempograd.engine.question import Block, Question
from tempograd.engine.replay import CELLS, Tensors, replay

STEP, SHORTER = 0.1, 0.25  # share of the way to one side, and how much shorter the step to the other is
EDGE = 1e-5  # share of the way from the baseline within which nothing but a jump can happen
NOISE = 8.0  # times the resolution of numbers: rounding of a score
UNSEEN = 3.0  # what n draws have not met has a probability below 3 / n
CURVED = 0.5  # share of the difference of two slopes that counts as curvature, not as a gap
TOGETHER = 100  # points that are compared with each other
FROM = (0.5, 0.75)  # neighbours near x and nearest: from these positions on
SUMS = ("count", "off", "squares", "near_gap", "nearest_gap", "near_size", "nearest_size")
LARGEST = (
    "slope",
    "seen",
    "level",
    "jump",
    "outside",
    "size",
    "noise",
    "ahead",
    "back",
)  # the last two have a sign
NAMES = (*SUMS, *LARGEST)


class Evidence:
    """Collects what the passes of a block of series tell about its gradient."""

    def __init__(self, question: Question, points: int) -> None:
        self._question, self._middle = question, points // 2
        self._parts: list[Tensor] = []
        self._edge, self._probes = False, False  # which rows wait for their scores
        self.change: Tensor | None = None

    def rows(self, block: Block, z: Tensor, piece: slice, start: Tensor | None, *, straight: bool) -> list[Tensor]:
        """Return what to read beside some path points.

        That is a place near the baseline and, where all paths are straight, both sides of the middle point.

        Parameters
        ----------
        block : Block
        z : Tensor of shape (series, points, time, channel)
        piece : slice
            Which points of their stage they are.
        start : Tensor of shape (series, time, channel), optional
            Where the paths begin, if that is read here as well.
        straight : bool
            Whether all paths are one, so that neighbours tell of one direction only.
        """
        self._edge = start is not None
        rows = [] if start is None else [torch.lerp(start, block.x, EDGE)]
        self._probes = straight and piece.start <= self._middle < piece.stop
        if self._probes:
            here = z[:, self._middle - piece.start]
            v = self._way(block, here)
            rows += [torch.add(here, v, alpha=STEP), torch.add(here, v, alpha=-STEP * SHORTER)]
        return rows

    def _way(self, block: Block, z: Tensor) -> Tensor:
        """Return the way of the cells that move, twice what is left in the middle, with random signs."""
        return (block.x - z) * _signs(self._question.seed, z[0].numel(), z.device, z.dtype).view(z.shape[1:])

    def add(
        self,
        block: Block,
        piece: slice,
        z: Tensor,
        gradient: Tensor,
        score: Tensor,
        position: Tensor | None,
        beside: list[Tensor],
    ) -> None:
        """Take the gradients and scores of path points, and the scores of what was read beside them.

        ``beside`` holds, each (series,), the scores of the start and of the :meth:`rows`, in their order.
        """
        if block.clean is None:
            raise RuntimeError("The score of the series is not known yet: the block must be settled first.")
        for run in pieces(z.shape[1], TOGETHER):
            first = [block.x, block.clean, z[:, run].detach(), gradient[:, run], score[:, run]]
            place = None if position is None else position[..., run]
            self._compare(first, place, beside if run.start == 0 else [])
        if self._probes:
            self._probe(block, z, gradient, score, self._middle - piece.start, beside[-2:])

    def _compare(self, first: list[Tensor], position: Tensor | None, beside: list[Tensor]) -> None:
        """Compare a run of points with each other; the work on a few series is recorded, as their passes are."""
        question, edge = self._question, self._edge and len(beside) > 1
        unit, placed = resolution(question.device, question.dtype), position is not None
        inputs = (*first, *([] if position is None else [position]), *(beside[:2] if edge else []))

        rounded = question.device.type == "cuda" or torch.is_autocast_enabled(question.device.type)

        def work(*given: Tensor) -> Tensors:
            with exact(question.device) if rounded else nullcontext():
                jump = (given[-1] - given[-2]).abs().double() if edge else None
                return (_along(*given[: 5 + placed], unit=unit, jump=jump),)

        kind = ("evidence", placed, edge, unit)
        recorded = replay(question.model, kind, work, inputs, asked=False) if first[2].numel() <= CELLS else None
        self._parts.append((recorded or work(*inputs))[0])

    def _probe(
        self, block: Block, z: Tensor, gradient: Tensor, score: Tensor, place: int, read: list[Tensor]
    ) -> None:
        """Compare one gradient with the scores on both sides of it."""
        here, unit = z[:, place].detach(), resolution(self._question.device, self._question.dtype)
        far, back = read
        found = _nearby(here, gradient[:, place], score[:, place], self._way(block, here), far, back, unit)
        first = NAMES.index("outside")
        self._parts[-1] = torch.cat([self._parts[-1][:, :first], torch.stack(found, 1)], 1)

    def take(self, rows: Tensor) -> None:
        """Go on with some of the series."""
        self._parts = [part[rows] for part in self._parts]
        self.change = None if self.change is None else self.change[rows]

    def table(self) -> Tensor:
        """Return all numbers, (series, :data:`NAMES`)."""
        if len(self._parts) > 1:
            parts = torch.stack(self._parts)
            largest = parts[..., len(SUMS) :]
            signed = largest.gather(0, largest.abs().argmax(0, keepdim=True))[0]
            self._parts = [torch.cat([parts[..., : len(SUMS)].sum(0), signed], 1)]
        return self._parts[0]

    def hidden(self, values: Tensor, points: int) -> Tensor:
        """Return what a change that no point has met may add to the map, as a share of it, (series,)."""
        if self.change is None:
            return torch.zeros(len(values), device=values.device)
        return hidden(values, self.change, self.table()[:, NAMES.index("seen")], points)


def hidden(values: Tensor, change: Tensor, seen: Tensor, points: Tensor | int) -> Tensor:
    r"""Return what a change that no draw has met may add to each map, as a share of it, (series,).

    With :math:`n` draws that saw the score change by no more than :math:`s` of :math:`c`, the rest has met none of
    them, so its probability is below :math:`3 / n` (the rule of three, 95 % sure), and it adds no more than
    :math:`3 / n \cdot (|c| - s) / \sum |A|`.

    Examples
    --------
    >>> values = torch.tensor([[[0.5], [-0.1]]])
    >>> hidden(values, torch.tensor([1.0]), torch.tensor([0.9]), 50)  # 3/50 of 0.1, over 0.6
    tensor([0.0100], dtype=torch.float64)
    """
    rest = (change.double().abs() - seen.double()).clamp(min=0)
    size = values.double().abs().sum((1, 2))
    return torch.where(rest > 0, UNSEEN * rest / points / size.clamp(min=torch.finfo(torch.float64).tiny), 0)


def _along(
    x: Tensor,
    clean: Tensor,
    z: Tensor,
    gradient: Tensor,
    score: Tensor,
    position: Tensor | None = None,
    *,
    unit: float,
    jump: Tensor | None,
) -> Tensor:
    """Compare slopes and scores of path points, (series, :data:`NAMES`). Few operations: a single series waits."""
    score = score.double()
    missed = clean[:, None] - score
    seen, level = torch.stack([missed, score]).abs().amax(2)
    level = level + seen
    nothing = torch.zeros_like(seen)
    sums, slope = nothing[:, None].expand(-1, len(SUMS)), nothing
    if position is not None:
        sums, slope = _between(x, z, gradient, score, missed, position.double(), NOISE * unit * level)
    largest = [slope, seen, level, nothing if jump is None else jump]
    return torch.cat([sums, torch.stack(largest + [nothing] * (len(LARGEST) - len(largest)), 1)], 1)


def _between(
    x: Tensor, z: Tensor, gradient: Tensor, score: Tensor, missed: Tensor, place: Tensor, noise: Tensor
) -> tuple[Tensor, Tensor]:
    """Compare the change between neighbours with what both gradients say of it; return sums and largest slope."""
    left = (x[:, None] - z).flatten(2)  # of the way to x
    effects = torch.bmm(gradient.to(left.dtype).flatten(2), left.mT).double()  # of every gradient on every way
    own, next_way, last_way = (effects.diagonal(shift, 1, 2) for shift in (0, 1, -1))
    first, second, change = own[:, :-1] - next_way, last_way - own[:, 1:], score.diff(dim=1)
    gap = (_outside(change, first, second) - noise[:, None]).clamp(min=0)
    size = torch.stack([first, second, change]).abs().amax(0)
    chosen = torch.stack([place[..., :-1] >= start for start in FROM], -1).double()  # nothing from the host
    parts = torch.stack([gap, size], 1) @ chosen.expand(len(x), -1, -1)
    slope = own / (1 - place)
    off = place * slope - missed
    count = torch.full_like(noise, score.shape[1])
    sums = torch.stack([count, off.sum(1), off.square().sum(1)], 1)
    return torch.cat([sums, parts.flatten(1)], 1), slope.abs().amax(1)


def _outside(value: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Return how far a value lies outside two others, less a share of what they differ by; below 0 inside."""
    return (value - (one + other) / 2).abs() - (0.5 + CURVED) * (one - other).abs()


def _nearby(
    z: Tensor, gradient: Tensor, score: Tensor, way: Tensor, far: Tensor, back: Tensor, unit: float
) -> list[Tensor]:
    """Compare the gradient at one point with the score on both sides of it: the last five of :data:`NAMES`."""
    effect = (gradient * way).flatten(1).double()
    slope, score = effect.sum(1), score.double()
    first, second = (far.double() - score) / STEP, (score - back.double()) / (STEP * SHORTER)
    rounding = score.abs() + (gradient * z).flatten(1).double().norm(dim=1)
    return [
        _outside(slope, first, second).clamp(min=0),
        torch.stack([effect.norm(dim=1), slope.abs(), first.abs(), second.abs()]).amax(0),
        NOISE * unit * rounding / (STEP * SHORTER),
        first - slope,
        second - slope,
    ]


@lru_cache(maxsize=8)
def _signs(seed: int, cells: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Draw 2 or -2 for each cell: the same for all series, so that it is drawn once."""
    stream = keys(seed, torch.zeros(1, dtype=torch.int64), Purpose.SIGNS)
    drawn = words(stream, torch.arange(cells)) >> 31
    return (drawn * 4 - 2).to(device, dtype)
