r"""What the passes tell about a gradient: whether it is that of the score that the model computes.

Autograd differentiates what was written, not what is computed: statistics that are detached, rounding, thresholds,
quantised layers, categories and tokens have a gradient that is another function's, or none. Five things tell.

*Between neighbours.* Two path points have their scores and their gradients :math:`g, g'`. On the straight line
between them, :math:`s`, the change of the score lies between :math:`g \cdot s` and :math:`g' \cdot s` wherever the
score is convex or concave on the way, kinks included. How far it lies outside is a gap. All paths end at
:math:`x`, so neighbours come closer to each other along them: a gap that is a matter of curvature shrinks, one
that stays in proportion is not.

*Nearby.* The same at one path point in the middle, in a direction of its own: the cells that move take a step
:math:`v` to one side, each with a random sign, and a shorter one to the other side, where scores alone are read,

.. math:: a = \frac{F(z + h v) - F(z)}{h}, \qquad b = \frac{F(z) - F(z - \tfrac h4 v)}{h / 4},

and :math:`g \cdot v` lies between the two. This sees what paths that all go straight from one baseline cannot.

*Along the path.* With :math:`d_i = \mathrm dF / \mathrm d\alpha` from the gradient at position :math:`\alpha_i`,

.. math:: e_i = \alpha_i d_i - (F(x) - F_i)

has mean 0 for every path that ends at :math:`x` (by parts). A mean that is not 0 is a part of the change that the
gradient does not know of. So is the residual of integrated gradients.

*At the baseline.* A threshold at 0 is crossed at once where the baseline is 0, and no path point lies there:
:math:`F(x' + \epsilon (x - x')) - F(x')` tells.

*What was seen.* No point saw the score change by more than :math:`\max_i |F(x) - F_i|`.
"""

from functools import lru_cache

import torch
from torch import Tensor

from tempograd.draws import Purpose, keys, words
from tempograd.engine.precision import resolution
from tempograd.engine.question import Block, Question
from tempograd.engine.replay import CELLS, Tensors, replay

STEP, SHORTER = 0.1, 0.25  # share of the way to one side, and how much shorter the step to the other is
EDGE = 1e-5  # share of the way from the baseline within which nothing but a jump can happen
NOISE = 8.0  # times the resolution of numbers: rounding of a score
UNSEEN = 3.0  # what n draws have not met has a probability below 3 / n
CURVED = 0.5  # share of the difference of two slopes that counts as curvature, not as a gap
FROM = (("far", 0.0), ("near", 0.5), ("nearest", 0.75))  # neighbours from these positions on
TOTALS = ("count", "off", "squares", *(f"{name}_{part}" for name, _ in FROM for part in ("gap", "size")))
LARGEST = ("slope", "seen", "level", "outside", "size", "noise", "jump")
SIGNED = ("ahead", "back")  # of the one point that was looked at nearby
NAMES = (*TOTALS, *SIGNED, *LARGEST)
SUMS = len(TOTALS) + len(SIGNED)  # over all points; the others are largest values


class Evidence:
    """Collects what the passes of a block of series tell about its gradient."""

    def __init__(self, question: Question, points: int) -> None:
        self._question, self._middle = question, points // 2
        self._parts: list[Tensor] = []
        self._edge, self._probes = False, False  # which rows wait for their scores
        self.change: Tensor | None = None

    def rows(self, block: Block, z: Tensor, piece: slice, start: Tensor | None, *, stage: int) -> list[Tensor]:
        """Return what to read beside some path points: near the baseline, and on both sides of the middle point.

        Parameters
        ----------
        block : Block
        z : Tensor of shape (series, points, time, channel)
        piece : slice
            Which points of their stage they are.
        start : Tensor of shape (series, time, channel), optional
            Where the paths begin, if that is read here as well.
        stage : int
        """
        self._edge = start is not None
        rows = [] if start is None else [torch.lerp(start, block.x, EDGE)]
        self._probes = stage == 0 and piece.start <= self._middle < piece.stop
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
        edge, probes = self._edge, self._probes
        parts = {"position": position, "way": None}
        if probes:
            parts["way"] = self._way(block, z[:, self._middle - piece.start])
        names = tuple(name for name, part in parts.items() if part is not None)
        given = [part for part in parts.values() if part is not None]
        middle, question = self._middle - piece.start, self._question
        unit = resolution(question.device, question.dtype)

        def work(x: Tensor, clean: Tensor, z: Tensor, gradient: Tensor, score: Tensor, *rest: Tensor) -> Tensors:
            known = dict(zip(names, rest, strict=False))
            read = rest[len(names) :]
            found = _along(x, clean, z, gradient, score, known.get("position"), unit)
            if probes:
                here = z[:, middle], gradient[:, middle], score[:, middle], known["way"]
                found |= _nearby(*here, read[-2], read[-1], unit)
            if edge:
                found["jump"] = (read[1] - read[0]).double().abs()
            nothing = torch.zeros_like(found["count"])
            return (torch.stack([found.get(name, nothing) for name in NAMES], 1),)

        if block.clean is None:
            raise RuntimeError("The score of the series is not known yet: the block must be settled first.")
        inputs = (block.x, block.clean, z.detach(), gradient, score, *given, *beside)
        kind = "evidence", names, middle, edge, probes, len(beside)
        recorded = None if z.numel() > CELLS else replay(question.model, kind, work, inputs)
        self._parts.append((recorded or work(*inputs))[0])

    def take(self, rows: Tensor) -> None:
        """Go on with some of the series."""
        self._parts = [part[rows] for part in self._parts]
        self.change = None if self.change is None else self.change[rows]

    def table(self) -> Tensor:
        """Return all numbers, (series, :data:`NAMES`)."""
        if len(self._parts) > 1:
            parts = torch.stack(self._parts)
            self._parts = [torch.cat([parts[..., :SUMS].sum(0), parts[..., SUMS:].amax(0)], 1)]
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
    x: Tensor, clean: Tensor, z: Tensor, gradient: Tensor, score: Tensor, position: Tensor | None, unit: float
) -> dict[str, Tensor]:
    """Compare slopes and scores along the path."""
    score, clean = score.double(), clean.double()
    gap = clean[:, None] - score
    found = {
        "count": torch.zeros_like(clean),
        "seen": gap.abs().amax(1),
        "level": torch.maximum(score.abs().amax(1), clean.abs()),
    }
    if position is not None:
        ahead = (
            (gradient * (x[:, None] - z)).flatten(2).sum(2).double()
        )  # the way that is left, 1 - position of it
        place = position.double().expand_as(ahead)
        slope = ahead / (1 - place)
        off = place * slope - gap
        found |= {"count": torch.full_like(clean, score.shape[1]), "slope": slope.abs().amax(1)}
        found |= {"off": off.sum(1), "squares": off.square().sum(1)}
        found |= _between(z, gradient, score, place, NOISE * unit * found["level"])
    return found


def _between(z: Tensor, gradient: Tensor, score: Tensor, place: Tensor, noise: Tensor) -> dict[str, Tensor]:
    """Compare what both gradients say of the change between neighbours with that change."""
    step = z[:, 1:] - z[:, :-1]
    first, second = ((part * step).flatten(2).sum(2).double() for part in (gradient[:, :-1], gradient[:, 1:]))
    change = score[:, 1:] - score[:, :-1]
    gap = _outside(change, first, second) - noise[:, None]
    size = torch.stack([first.abs(), second.abs(), change.abs()]).amax(0)
    found: dict[str, Tensor] = {}
    for name, start in FROM:
        chosen = (place[:, :-1] >= start).double()
        found |= {f"{name}_gap": (gap.clamp(min=0) * chosen).sum(1), f"{name}_size": (size * chosen).sum(1)}
    return found


def _outside(value: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Return how far a value lies outside two others, less a share of what they differ by."""
    low, high = torch.minimum(one, other), torch.maximum(one, other)
    return (value - high).clamp(min=0) + (low - value).clamp(min=0) - CURVED * (high - low)


def _nearby(
    z: Tensor, gradient: Tensor, score: Tensor, way: Tensor, far: Tensor, back: Tensor, unit: float
) -> dict[str, Tensor]:
    """Compare the gradient at one point with the score on both sides of it."""
    effect = (gradient * way).flatten(1).double()
    slope, score = effect.sum(1), score.double()
    first, second = (far.double() - score) / STEP, (score - back.double()) / (STEP * SHORTER)
    rounding = score.abs() + (gradient * z).flatten(1).double().norm(dim=1)
    return {
        "ahead": first - slope,
        "back": second - slope,
        "outside": _outside(slope, first, second).clamp(min=0),
        "size": torch.stack([effect.norm(dim=1), slope.abs(), first.abs(), second.abs()]).amax(0),
        "noise": NOISE * unit * rounding / (STEP * SHORTER),
    }


@lru_cache(maxsize=8)
def _signs(seed: int, cells: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Draw 2 or -2 for each cell: the same for all series, so that it is drawn once."""
    stream = keys(seed, torch.zeros(1, dtype=torch.int64), Purpose.SIGNS)
    drawn = words(stream, torch.arange(cells)) >> 31
    return (drawn * 4 - 2).to(device, dtype)
