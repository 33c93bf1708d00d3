"""Whether the gradient is that of the score that the model computes: evidence of the passes, and its judgement."""

import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from tempograd.core.estimate import CURVED, LOOKED, Found, GradientCheck, hidden
from tempograd.core.rng import Stream, bits, keys
from tempograd.engine import Ask, Block
from tempograd.engine.batching import slices
from tempograd.engine.cuda import Tensors
from tempograd.engine.gradients import Gradients
from tempograd.engine.model import computing, resolution
from tempograd.sampling.estimators import captured

STEP, SHORTER = 0.1, 0.03  # share of the displacement to one side, and how much shorter the step to the other is
EDGE = 1e-5  # share of the path from the baseline within which nothing but a jump can happen
FAR_ENDS, MOST_ENDS = 0.08, 4  # share of the points of a stage whose far ends are read, and their number
CANDIDATES, SKIPPED = 2, (0.06, 3)  # points of which one is chosen, next to the baseline but for the first
NOISE = 8.0  # times the resolution of numbers: rounding of a score
TOGETHER = 100  # points that are compared with each other
FEW = 4  # series of which products are taken pair by pair
FROM = (0.5, 0.75)  # neighbours near x and nearest: from these positions on
SLIGHT, STRAIGHT = 0.03, 0.01  # share of the change that a gap must have to count, and on one straight path
# over neighbours near x and over the nearest: gaps, what changes between them, gaps that count, neighbours
_OF_PAIRS = (f"{where}_{what}" for what in ("gap", "size", "often", "pairs") for where in ("near", "nearest"))
SUMS = ("count", "off", "squares", *_OF_PAIRS)
# the largest of all points; the last two have a sign
LARGEST = ("slope", "seen", "level", "jump", "outside", "size", "noise", "ahead", "back")
NAMES = (*SUMS, *LARGEST)
GAP, STAYS, LARGE = 0.1, 0.25, 0.35  # near x, nearest to it, and alone: share that gradients may miss
MOSTLY, PAIRS = 0.5, 3  # share of the nearest neighbours that may have a gap, and how many it takes to tell
NEARBY, PART = 0.5, 0.5  # the same nearby, where the slope is at least that part of the map's size
OFF = 0.1  # share of the change that may be missing along the path
SURE, ENOUGH = 4.0, 10  # standard errors, and the points that it takes to have one
STEEP = 5.0  # times the change per length of the path
JUMP = 0.05  # share of the change that may happen at once
TINY = torch.finfo(torch.float64).tiny


class Evidence:
    r"""Collects what the passes of a block of series tell about its gradient.

    Autograd differentiates what was written, not what is computed: statistics that are detached, rounding,
    thresholds, quantised layers, categories and tokens have a gradient that is another function's, or none. Six
    things tell.

    *Between neighbours.* Two path points have their scores and their gradients :math:`g, g'`. On the straight line
    between them, :math:`s`, the change of the score lies between :math:`g \cdot s` and :math:`g' \cdot s` wherever
    the score is convex or concave in between, kinks included. How far it lies outside is a gap. All paths end at
    :math:`x`, so neighbours come closer to each other along them: a gap that is a matter of curvature, of a kink
    or of a narrow step shrinks or becomes rare, and near :math:`x` most pairs have none. A wrong gradient leaves
    one, however small, between most of them.

    *Nearby.* Where all points lie on one straight path, neighbours tell of its direction only. There the same is
    tested at the point in the middle in a direction of its own: all cells take a step :math:`v` to one side, each
    with a random sign, and a shorter one to the other side, where scores alone are read,

    .. math:: a = \frac{F(z + h v) - F(z)}{h}, \qquad b = \frac{F(z) - F(z - \eta v)}{\eta},

    and :math:`g \cdot v` lies between the two.

    *Along the path.* With :math:`d_i = \mathrm dF / \mathrm d\alpha` from the gradient at position
    :math:`\alpha_i`,

    .. math:: e_i = \alpha_i d_i - (F(x) - F_i)

    has mean 0 for every path that ends at :math:`x` (by parts). A mean that is not 0 is a part of the change that
    the gradient does not know of. So is the residual of integrated gradients.

    *At the baseline.* A threshold at 0 is crossed at once where the baseline is 0, and no path point lies there:
    :math:`F(x' + \epsilon (x - x')) - F(x')` tells.

    *At the far ends.* Where paths differ, each begins elsewhere, and what happens next to its beginning is met by
    no point either, and by no control. For a few points near the baseline that place is read: :attr:`unmet` is how
    much of the change before them their slopes do not tell.

    *What was seen.* No point saw the score change by more than :math:`\max_i |F(x) - F_i|`.
    """

    def __init__(self, ask: Ask, points: int, *, straight: bool) -> None:
        """Start with the points of the first stage; ``straight``: all those of a series lie on one path."""
        self._ask, self._middle, self._straight = ask, points // 2, straight
        self._unit = resolution(ask.device, ask.dtype)
        self._parts: list[Tensor] = []
        self._edge, self._probes = False, False  # which rows wait for their scores
        self._ends: Tensor | None = None  # and whose far ends, (series, ends), of the newest stage
        self._far = torch.empty(0)  # their scores, where the stage comes in several runs
        self._near: list[Tensor] = []  # and its points near the baseline, (series, points, 4)
        self._points, self._first = points, 0  # of the newest stage, and which of the parts is its first
        self.delta: Tensor | None = None
        self.unmet: Tensor | None = None  # :func:`_before`, of the newest stage, (series,)

    def extra_points(
        self, block: Block, z: Tensor, batch: slice, points: int, start: Tensor | None, moving: Tensor | None
    ) -> tuple[list[Tensor], Tensor | None]:
        """Return what to read beside ``z``, (series, points, time, channel), the stage points of slice ``batch``.

        That is a place near the ``start`` of the paths, if that is read here as well. Where all paths are one, so
        that neighbours tell of one direction only, it is both sides of the middle point too. Where they are not,
        ``moving``, (series, points, time, channel), has the cells that move from the baseline to each of the first
        of the ``points`` of the stage, all :func:`candidates` among them, and with the first batch some of their
        far ends are read, behind all others: (series, ends, time, channel).
        """
        self._edge = start is not None
        rows = [] if start is None else [torch.lerp(start, block.x, EDGE)]
        self._probes = self._straight and batch.start <= self._middle < batch.stop
        if self._probes:
            here = z[:, self._middle - batch.start]
            v = self._displacement(block, here)
            rows += [torch.add(here, v, alpha=STEP), torch.add(here, v, alpha=-STEP * SHORTER)]
        if batch.start > 0:
            return rows, None
        self._ends, self._near, self._points, self._first = None, [], points, len(self._parts)
        if moving is None:
            return rows, None
        count, skipped, stop = candidates(points)
        early = moving[:, skipped:stop].flatten(2)
        new = early.cumsum(1, dtype=early.dtype).mul_(early) == 1  # what did not move before
        first = new.view(torch.uint8).amax(2)  # any(2) is many times slower on a CPU
        rank = torch.arange(early.shape[1], device=early.device)
        best = (rank - len(rank) * first.int()).topk(min(count, len(rank)), largest=False).indices
        self._ends = best + skipped  # points whose masks let different cells move
        moved = moving.gather(1, self._ends[..., None, None].expand(-1, -1, *moving.shape[2:]))
        return rows, torch.where(moved > 0, block.baseline[:, None], block.x[:, None])

    def _displacement(self, block: Block, z: Tensor) -> Tensor:
        """Return the displacement of active cells, twice what is left in the middle, with random signs."""
        return (block.x - z) * _signs(self._ask.seed, z[0].numel(), z.device, z.dtype).view(z.shape[1:])

    def add(
        self, found: Gradients, batch: slice, z: Tensor, position: Tensor | None, beside: list[Tensor]
    ) -> None:
        """Take the gradients and scores of path points, and the scores of what was read beside them.

        ``beside`` holds, each (series,), the scores of the start and of the :meth:`extra_points`, far ends last.
        Work on a few series is captured, as their passes are.
        """
        gradient, score, _, block = found
        unit, slight = self._unit, STRAIGHT if self._straight else SLIGHT
        at_once = z.shape[1] == self._points <= TOGETHER  # all of a stage, compared with each other
        ends = self._ends if at_once else None
        for run in slices(z.shape[1], TOGETHER):
            edge, place = self._edge and run.start == 0, None if position is None else position[..., run]
            read = beside[: 2 * edge + (0 if ends is None else ends.shape[1])]
            parts: dict[str, Any] = {"x": block.x, "clean": block.clean_score, "z": z[:, run].detach()}
            parts |= {"gradient": gradient[:, run], "score": score[:, run], "position": place, "ends": ends}
            parts["read"] = torch.stack(read, 1).double() if read else None
            (evidence,) = captured(self._ask.model, _along, parts, unit=unit, slight=slight, edge=edge)
            self._parts.append(evidence[:, : len(NAMES)])
            if ends is not None:
                self.unmet = evidence[:, -1]
        if self._ends is not None and position is not None and not at_once:
            self._collect(self._ends, found, batch, z, position, beside)
        if self._probes:
            middle = self._middle - batch.start
            self._probe(found, middle, z[:, middle].detach(), *beside[-2:])

    def _collect(
        self, ends: Tensor, found: Gradients, batch: slice, z: Tensor, position: Tensor, beside: list[Tensor]
    ) -> None:
        """Keep what the points near the baseline tell, and judge their far ends once the stage has passed."""
        if batch.start == 0:
            self._far = torch.stack(beside[-ends.shape[1] :], 1).double()
        few = slice(0, max(0, candidates(self._points)[2] - batch.start))
        left, place = found.block.x[:, None] - z[:, few].detach(), position[..., few].double()
        own, way = (found.gradient[:, few] * left).sum((2, 3)).double(), left.abs().sum((2, 3)).double()
        near = [way, own / (1 - place), found.score[:, few].double(), place.expand_as(own)]
        self._near.append(torch.stack(near, 2))
        if batch.stop < self._points:
            return
        stage = torch.stack(self._parts[self._first :]).amax(0)
        largest, level = (stage[:, NAMES.index(name)] for name in ("slope", "level"))
        chosen = torch.cat(self._near, 1).gather(1, ends[..., None].expand(-1, -1, 4))
        self.unmet = _before(chosen.unbind(2), self._far, largest, NOISE * self._unit * level)

    def _probe(self, found: Gradients, place: int, z: Tensor, far: Tensor, back: Tensor) -> None:
        """Compare one gradient with the scores on both sides of it: the last five of :data:`NAMES`."""
        gradient, score = found.gradient[:, place], found.score[:, place].double()
        effect = (gradient * self._displacement(found.block, z)).flatten(1).double()
        slope = effect.sum(1)
        first, second = (far.double() - score) / STEP, (score - back.double()) / (STEP * SHORTER)
        rounding = score.abs() + (gradient * z).flatten(1).double().norm(dim=1)
        nearby = [
            _outside(slope, first, second).clamp(min=0),
            torch.stack([effect.norm(dim=1), slope.abs(), first.abs(), second.abs()]).amax(0),
            NOISE * self._unit * rounding / (STEP * SHORTER),
            first - slope,
            second - slope,
        ]
        along = self._parts[-1][:, : NAMES.index("outside")]
        self._parts[-1] = torch.cat([along, torch.stack(nearby, 1)], 1)

    def take(self, rows: Tensor) -> None:
        """Go on with some of the series."""
        self._parts = [part[rows] for part in self._parts]
        self.delta, self.unmet = (None if part is None else part[rows] for part in (self.delta, self.unmet))

    def totals(self) -> Tensor:
        """Return all numbers, (series, :data:`NAMES`)."""
        if len(self._parts) > 1:
            parts = torch.stack(self._parts)
            largest = parts[..., len(SUMS) :]
            signed = largest.gather(0, largest.abs().argmax(0, keepdim=True))[0]
            self._parts = [torch.cat([parts[..., : len(SUMS)].sum(0), signed], 1)]
        return self._parts[0]

    def judge(self, totals: Tensor, values: Tensor, delta: Tensor | None) -> GradientCheck:
        """Judge the :meth:`totals` of all series about their scores ``values``, (series, time, channel).

        ``delta`` is the score of the series minus that of where their paths start, which scores on one straight
        path sum to.
        """
        parts = {"totals": totals, "values": values, "delta": delta}
        return GradientCheck(*captured(self._ask.model, _judged, parts, unit=self._unit, straight=self._straight))

    def hidden(self, values: Tensor, points: int) -> Tensor:
        """Return what a change that no point has met may add to the map, as a share of it, (series,)."""
        if self.delta is None:
            return torch.zeros(len(values), device=values.device)
        return hidden(values, self.delta, self.totals()[:, NAMES.index("seen")], points)


def _along(
    x: Tensor,
    clean: Tensor,
    z: Tensor,
    gradient: Tensor,
    score: Tensor,
    position: Tensor | None = None,
    ends: Tensor | None = None,
    read: Tensor | None = None,
    *,
    unit: float,
    slight: float,
    edge: bool,
) -> Tensors:
    """Compare slopes and scores of path points, (series, :data:`NAMES`). Few operations: a single series waits.

    ``read``, (series, rows), are the scores at the start and at the ``edge`` next to it, if these are told of, and
    at the far ends of the paths of some points, ``ends``; with these there is one column more: :func:`_before`.
    Of many series, a product of all gradients with all paths is faster, though only three
    diagonals are needed.
    """
    score = score.double()
    missed = clean[:, None] - score
    seen, level = torch.stack([missed, score]).abs().amax(2)
    level = level + seen
    noise, nothing = NOISE * unit * level, torch.zeros_like(seen)
    sums, largest, more = nothing[:, None].expand(-1, len(SUMS)), nothing, []
    if position is not None:
        place = position.double()
        with computing("exact", x.device):
            flat, left = gradient.to(z.dtype).flatten(2), (x[:, None] - z).flatten(2)
            if len(left) > FEW:
                every = torch.bmm(flat, left.mT).double()
                own, following, last = (every.diagonal(shift, 1, 2) for shift in (0, 1, -1))
            else:
                pairs = (flat, left), (flat[:, :-1], left[:, 1:]), (flat[:, 1:], left[:, :-1])
                own, following, last = (torch.linalg.vecdot(one, other).double() for one, other in pairs)
            first, second, delta = own[:, :-1] - following, last - own[:, 1:], score.diff(dim=1)
            gap = (_outside(delta, first, second) - noise[:, None]).clamp(min=0)
            size = torch.stack([first, second, delta]).abs().amax(0)
            # nothing comes from the host
            chosen = torch.stack([place[..., :-1] >= start for start in FROM], -1).double()
            between = torch.stack([gap, size, (gap > slight * size).double(), torch.ones_like(gap)], 1) @ chosen
        slope = own / (1 - place)
        off = place * slope - missed
        sums = torch.stack([torch.full_like(seen, score.shape[1]), off.sum(1), off.square().sum(1)], 1)
        sums, largest = torch.cat([sums, between.flatten(1)], 1), slope.abs().amax(1)
        if ends is not None and read is not None:
            near = z.flatten(2).gather(1, ends[..., None].expand(-1, -1, x[0].numel()))
            way = (x.flatten(1)[:, None] - near).abs().sum(2).double()  # what is left of it
            few = (part.expand_as(score).gather(1, ends) for part in (slope, score, place))
            more = [_before((way, *few), read[:, 2 * edge :], largest, noise)]
    jump = nothing if read is None or not edge else (read[:, 1] - read[:, 0]).abs()
    known = [largest, seen, level, jump]
    return (torch.cat([sums, torch.stack(known + [nothing] * (len(LARGEST) - len(known)) + more, 1)], 1),)


def _before(few: Tensors, far: Tensor, largest: Tensor, noise: Tensor) -> Tensor:
    r"""Return what happened before some points and their slopes do not tell, per length of a path, (series,).

    From the far end of its path to a point at :math:`\alpha` the score changes by :math:`F - F'`. The slope there
    says :math:`\alpha d`, right up to curvature, :math:`\alpha^2` times the largest slope. The rest was met by no
    point. ``few`` has, each (series, points), what is left of the way to x, slopes, scores and positions; ``far``
    has the scores at the far ends.
    """
    way, slope, score, place = few
    off = (score - far - place * slope).abs() - place.square() * largest[:, None] - noise[:, None]
    off = off.nan_to_num(0, 0, 0)  # no number at the baseline is another matter
    return (off.clamp(min=0) * (1 - place) / way.clamp(min=TINY)).mean(1)


def candidates(points: int) -> tuple[int, int, int]:
    """Return how many far ends are read in a stage of so many points, and from and up to which they are chosen.

    The very first may lie before what they should tell of.
    """
    count = min(math.ceil(FAR_ENDS * points), MOST_ENDS)
    skipped = min(int(SKIPPED[0] * points), SKIPPED[1])
    return count, skipped, min(points, skipped + CANDIDATES * count)


def _outside(value: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Return how far a value lies outside two others, less a share of what they differ by; below 0 inside."""
    return (value - (one + other) / 2).abs() - (0.5 + CURVED) * (one - other).abs()


@lru_cache(maxsize=8)
def _signs(seed: int, cells: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Draw 2 or -2 for each cell: the same for all series, so that it is drawn once."""
    drawn = bits(keys(seed, torch.zeros(1, dtype=torch.int64), Stream.SIGNS), torch.arange(cells)) >> 31
    return (drawn * 4 - 2).to(device, dtype)


def _judged(
    totals: Tensor, values: Tensor, delta: Tensor | None = None, *, unit: float, straight: bool
) -> Tensors:
    """Return the parts of the check; nothing waits for the device."""
    sizes = torch.stack([values.sum((1, 2)), values.abs().sum((1, 2)), values.flatten(1).norm(dim=1)])
    total, size, norm = sizes.double()
    nothing = torch.full_like(total, torch.nan)
    known = dict(zip(NAMES, totals.unbind(1), strict=True))
    change = nothing if delta is None else torch.where(delta.isfinite(), delta.double(), nothing)
    slope, whole = known["slope"], torch.fmax(known["seen"], change.abs())
    scale, floor = torch.maximum(whole, size), NOISE * unit * known["level"]
    missing = (total - change).nan_to_num(0)
    if not straight or delta is None:  # what slopes along the path miss, 0 where their noise could be it
        count = known["count"].clamp(min=1)
        mean = known["off"] / count
        variance = (known["squares"] / count - mean.square()).clamp(min=0) / count
        sure = (mean.square() > SURE**2 * variance) & (count >= ENOUGH)
        missing = torch.where(sure, 2 * mean, 0)  # the mean position is 1/2
    near, nearest = (
        known[f"{where}_gap"] / known[f"{where}_size"].clamp(min=TINY) for where in ("near", "nearest")
    )
    local = torch.maximum(known["size"], PART * norm)
    often = (near > GAP) & (nearest > STAYS) | (known["nearest_often"] > MOSTLY * known["nearest_pairs"])
    wrong = torch.where(known["nearest_pairs"] < PAIRS, near > LARGE, often)
    wrong = wrong | (known["outside"] - known["noise"] > NEARBY * local)
    jumps = known["jump"] > torch.maximum(JUMP * whole, 100 * EDGE * slope) + floor
    steep = (slope > STEEP * whole) | (known["count"] < LOOKED)
    if not straight:  # draws may have missed a cliff, and then neighbours next to x know of no gap
        steep = steep | (near < GAP / 2) | ((nearest < GAP / 2) & (near < LARGE))
    found = torch.where(missing.abs() > OFF * scale, torch.where(steep, Found.STEEP, Found.JUMPS), Found.AGREES)
    found = torch.where(wrong, Found.WRONG, torch.where(jumps, Found.JUMPS, found))
    found = torch.where(whole > floor, found, Found.UNKNOWN)
    nearby = torch.where(known["noise"][:, None] > 0, totals[:, -2:] / local[:, None].clamp(min=TINY), torch.nan)
    parts = near, nearby, missing / scale.clamp(min=TINY), known["jump"], known["seen"]
    return found.to(torch.int8), *(part.float() for part in parts)
