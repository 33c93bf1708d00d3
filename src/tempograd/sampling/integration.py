"""The one place that integrates gradients: means over path points, stage by stage, for every path method.

Experimental: authors of methods may build on it, and its names may still change with each minor release.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tempograd.core import kernels
from tempograd.core.estimate import Estimate, relative_error
from tempograd.engine import Ask, Batching, Block, compute_gradients, slices
from tempograd.engine.ask import with_targets
from tempograd.engine.batching import even
from tempograd.engine.cuda import Prefetcher
from tempograd.engine.gradients import Gradients
from tempograd.engine.model import exact, resolution
from tempograd.sampling.estimators import ControlVariateMean, DrawnSteps, Means, WeightedMean, with_unmet
from tempograd.sampling.gradient_check import Evidence, judge_gradients, near_baseline

# The schedule: how many points, in which stages, and when they are enough

LONGER = 4  # times as many points as there is room for: their masks take as much memory as one pass
TOP = 0.1  # share of the observed cells whose ranking matters


@dataclass(frozen=True)
class Schedule:
    """The points of a run: drawn stage by stage, with a look at the error after each.

    A series is good enough as soon as its estimated relative error is below the tolerance or, for "top", the
    share of the top tenth of the cells that changed since the last look.
    """

    stages: tuple[int, ...]  # points of each
    random: bool = True  # whether the points are draws; only then errors and counts are kept
    tolerance: float | None = None  # None: all stages run
    stop_when: str = "error"

    @property
    def points(self) -> int:
        """Return the most points a series can get."""
        return sum(self.stages)

    @property
    def together(self) -> int:
        """Return for how many points per series room is planned.

        A late stage that is longer than the first comes in several passes: what is kept of all its points at once
        are masks, a byte for each cell. Few series are left in the late stages of a run that stops.
        """
        if self.tolerance is None:
            return max(self.stages[0], max(self.stages) // LONGER)
        return max(self.stages[:3])

    def converged(self, error: Tensor, values: Tensor, before: Tensor | None, observed: Tensor) -> Tensor | None:
        """Tell for each series whether to stop, given its error, its map and that of the last look.

        None if all go on.
        """
        if self.tolerance is None:
            return None
        if self.stop_when == "error":
            return error <= self.tolerance
        return None if before is None else changed(values, before, observed) <= self.tolerance


def geometric(first: int, points: int) -> tuple[int, ...]:
    """Cut points into stages: ``first``, and then as many again as there were; a short rest joins the last.

    Examples
    --------
    >>> geometric(50, 50), geometric(50, 200), geometric(50, 240)
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
    best = torch.ones_like(observed).flatten(1)
    for part in (values, before):
        order = part.abs().masked_fill(~observed, -1).flatten(1).argsort(dim=1, descending=True, stable=True)
        best &= order.argsort(dim=1) < count[:, None]
    return 1 - best.sum(1) / count


# Means over path points, stage by stage

FEW = 16  # points added up by a product of matrices, one after the other; a sum of all loses fewer digits
ROOM = 20  # path points of a series in one pass, beside which a few more rows do not count


class Points(NamedTuple):
    """Some points on the paths of a few series."""

    z: Tensor  # (series, points, time, channel)
    weight: Tensor | None = None  # broadcasts to (series, points); None if all are equal
    active: Tensor | None = None  # like z: 1 for active cells, 0 for fixed ones; None if all are active
    step: Tensor | None = None  # factor of the gradient, where it differs between points
    mean_step: Tensor | None = None  # (series, time, channel), its mean over all draws, where that is known
    position: Tensor | None = None  # broadcasts to (series, points): 0 at the baseline, 1 at x


def midpoints(points: int, like: Tensor) -> Tensor:
    """Return positions at the middle of equal parts of the path."""
    return (torch.arange(points, device=like.device) + 0.5).to(like.dtype) / points


def in_units(step: Tensor, scale: Tensor) -> Tensor:
    """Return how far each point moves, (series, points, time, channel), in units of a scale like the series."""
    return step / torch.where(scale == 0, 1, scale)[:, None]


def masked_points(x: Tensor, difference: Tensor, active: Tensor, alpha: Tensor) -> Tensor:
    """Return points on the way from x - difference to x at positions ``alpha``, in active cells alone.

    ``active`` is (series, points, time, channel), of numbers or bytes, ``alpha`` (points,).
    """
    plain = x.dtype == torch.float32 and active.dtype == torch.uint8
    if len(x) >= kernels.MANY and plain and kernels.available(x.device):
        return kernels.on_paths(x, difference, active, alpha)
    back = active * (alpha[:, None, None] - 1)  # how far towards the baseline, 0 where a cell is fixed
    return torch.addcmul(x[:, None], back, difference[:, None], out=back)  # in memory that is there


class GradientPath(NamedTuple):
    """The paths of a few series."""

    scale: Tensor  # what the mean gradient is multiplied by
    at: Callable[[slice], Points]  # points in path order
    resample: Callable[[], "GradientPath | None"] = lambda: None  # better paths, if the device finds these wanting
    start: Tensor | None = None  # where the paths begin, if all of a series' do at one place
    straight: bool = False  # whether all points of a series lie on one straight line from there to x
    controlled: bool = False  # whether positions and scores take noise out of the mean


def integrate(
    ask: Ask, schedule: Schedule, path: Callable[[Block, int], GradientPath], *, label: str
) -> list[Estimate]:
    """Average the gradient over each series' path; ``path`` makes those of a block in a stage of the schedule.

    Several targets have their points in common. With a tolerance each stops elsewhere, so they run one by one.
    """
    asks = ask.each()
    if len(asks) > 1 and schedule.tolerance is not None:
        return [estimate for one in asks for estimate in integrate(one, schedule, path, label=label)]
    buffers = [ResultBuffer(one, schedule) for one in asks]
    runner = BlockRunner(asks, schedule, path, buffers, ask.gradient_batching(len(asks)))
    runner.batching.run(len(ask.x), schedule.together, runner.run, label)
    for one in asks:
        one.progress.host_writer.flush()
    return [buffer.estimate() for buffer in buffers]


class ResultBuffer:
    """The results of all series, written there while the next are computed, in a precision of their own."""

    def __init__(self, ask: Ask, schedule: Schedule, precision: torch.dtype = torch.float32) -> None:
        series, device = len(ask.x), ask.x.device
        kinds = (precision, torch.float32, torch.int32, torch.float32)[: 4 if schedule.random else 1]
        self._schedule, self._host_writer = schedule, ask.progress.host_writer
        self._shape, self._kinds = ask.x.shape, kinds
        self._parts: list[Tensor | None] = [None] * len(kinds)
        self._n_evals = torch.zeros(series, dtype=torch.int32, device=device)
        self._curve = torch.full((series, len(schedule.stages)), torch.nan, device=device)
        self._delta: Tensor | None = None
        self._evidence: Tensor | None = None
        self._straight = False
        self._unit, self._model = resolution(ask.device, ask.dtype), ask.model

    def look(self, rows: slice | Tensor, stage: int, error: Tensor) -> None:
        """Note the error of some series after a stage."""
        self._host_writer.write(self._curve[:, stage], rows, error)

    def delta(self, rows: slice, delta: Tensor) -> None:
        """Note how far the path moves the score of some series."""
        self._delta = self._written(self._delta, self._shape[:1], torch.get_default_dtype(), rows, delta)

    def _written(
        self, whole: Tensor | None, shape: Sequence[int], kind: torch.dtype, rows: slice | Tensor, part: Tensor
    ) -> Tensor:
        """Write a part of the results, and return the whole: where all series come at once, the part itself."""
        device = self._n_evals.device
        if whole is None and part.shape == shape and part.device == device and isinstance(rows, slice):
            return part.to(kind).contiguous()
        whole = torch.empty(shape, dtype=kind, device=device) if whole is None else whole
        self._host_writer.write(whole, rows, part)
        return whole

    def finish(
        self,
        rows: slice | Tensor,
        parts: tuple[Tensor, ...],
        n_evals: int,
        totals: Tensor | None,
        *,
        straight: bool,
    ) -> None:
        """Note the results of some series, and what their passes told about the gradient."""
        kinds = zip(self._parts, parts, self._kinds, strict=False)
        self._parts = [self._written(whole, self._shape, kind, rows, part) for whole, part, kind in kinds]
        self._n_evals[rows] = n_evals
        if totals is None:
            return
        self._straight = straight
        shape = (len(self._n_evals), totals.shape[1])
        self._evidence = self._written(self._evidence, shape, torch.float64, rows, totals)

    def estimate(self) -> Estimate:
        """Return everything, once it has been written."""
        check, parts = None, [part for part in self._parts if part is not None]
        if self._evidence is not None:
            check = judge_gradients(
                self._evidence, parts[0], self._delta, self._unit, straight=self._straight, model=self._model
            )
        found = Estimate(parts[0], n_evals=self._n_evals, delta=self._delta, gradient_check=check)
        if not self._schedule.random:
            return found
        looks = torch.tensor(self._schedule.stages, dtype=torch.int32).cumsum(0, dtype=torch.int32)
        if self._schedule.tolerance is not None:  # nobody may have needed all stages
            looks = looks[looks <= self._n_evals.max().cpu()]
        _, error, active, effective = parts
        return found._replace(
            standard_error=error,
            n_draws=active,
            ess=effective,
            curve_samples=looks,
            curve_error=self._curve[:, : len(looks)],
        )


class WeightedSum:
    """A mean over path points that has no error: one product of matrices for a few points.

    It sums up how far points are from the first, so that the mean of equal numbers is exactly theirs.
    """

    def __init__(self) -> None:
        self._first: Tensor | None = None  # (series, 1, cells)
        self._total = self._weight = torch.zeros(())

    def add(self, y: Tensor, weight: Tensor | None = None) -> None:
        """Take points ``y``, (series, points, time, channel), with weights that broadcast to (series, points)."""
        weight = torch.ones_like(y[:1, :, 0, 0]) if weight is None else weight.to(y.dtype)
        weight, flat = weight.expand(len(y), -1)[:, None], y.flatten(2)
        if self._first is None:
            self._first = flat[:, :1].clone()
            self._total, self._weight = torch.zeros_like(self._first), weight.new_zeros(1)
        flat = flat - self._first
        with exact(y.device):  # products are rounded on some devices, and where a model runs in half precision
            parts = [torch.bmm(weight[..., run], flat[:, run]) for run in slices(y.shape[1], FEW)]
        self._total = self._total + torch.cat(parts, 1).sum(1, keepdim=True)
        self._weight = self._weight + weight.sum(2, keepdim=True)

    def mean(self, shape: Sequence[int]) -> Tensor:
        """Return the mean, (series, time, channel)."""
        if self._first is None:
            raise RuntimeError("There are no points yet.")
        return (self._first + self._total / self._weight).view(shape)


class TargetRun:
    """One target of a block of series: its mean over the points, and what they tell about its gradient."""

    def __init__(self, ask: Ask, schedule: Schedule, buffer: ResultBuffer, paths: GradientPath) -> None:
        self.ask, self._schedule, self._buffer = ask, schedule, buffer
        self.evidence = Evidence(ask, schedule.stages[0]) if ask.checked else None
        self._mean: ControlVariateMean | WeightedMean | WeightedSum | None = None  # by what the points are
        if paths.controlled:
            self._mean = ControlVariateMean(paths.scale.to(ask.precision), ask.model)
        self._before: Tensor | None = None
        self._parts: tuple[Tensor, ...] = ()

    def add(self, found: Gradients, at: Points, batch: slice, scores: list[Tensor], *, starts: bool) -> None:
        """Take the gradients of some points, and the scores of what was read beside them, first of the start."""
        gradient, score, _, block = found
        if starts and block.clean_score is not None and scores[0].ndim == 1:
            delta = block.clean_score - scores[0]
            self._buffer.delta(block.rows, delta)
            if isinstance(self._mean, ControlVariateMean):
                self._mean.change = delta.to(self.ask.precision)
            if self.evidence is not None:
                self.evidence.delta = delta
        precision = self.ask.precision
        cells = None
        if isinstance(self._mean, ControlVariateMean) and at.active is not None and at.step is None:
            cells = self._mean.over_cells(gradient, at.active)
        if self.evidence is not None:
            self.evidence.add(block, batch, at.z, gradient, score, at.position, scores, cells)
        gradient = gradient.to(precision)
        if self._mean is None:
            sums = at.active is None and not self._schedule.random
            self._mean = WeightedSum() if sums else WeightedMean(errors=self._schedule.random)
        steps = _steps(at, precision)
        if at.step is not None and steps is None:
            gradient = gradient * at.step
        if not isinstance(self._mean, ControlVariateMean):
            active = None if at.active is None else at.active.to(precision)
            more = () if isinstance(self._mean, WeightedSum) else (active, steps)
            self._mean.add(gradient, at.weight, *more)
            return
        if at.active is None or at.position is None or block.clean_score is None:
            raise RuntimeError("A controlled mean needs masks, positions and the score of the series.")
        gap = None if score.ndim > 2 else (block.clean_score[:, None] - score).to(precision)
        self._mean.add(gradient, at.weight, at.active, at.position, gap, steps, cells)

    def look(
        self, rows: slice | Tensor, block: Block, paths: GradientPath, stage: int, n_evals: int
    ) -> Tensor | None:
        """Estimate after a stage, and tell for each series whether it is good enough; None if all go on."""
        self._before = self._parts[0] if self._parts else None
        observed = None if self.ask.mask is None else block.observed
        if isinstance(self._mean, WeightedSum):
            values = paths.scale * self._mean.mean(paths.scale.shape)
            self._parts = (values if observed is None else values.where(observed, 0),)
            return None
        if self._mean is None:
            raise RuntimeError("There are no points yet.")
        unmet = None if self.evidence is None else self.evidence.unmet
        if isinstance(self._mean, ControlVariateMean) and observed is None:
            *four, error = self._mean.judged(unmet)
            self._parts = tuple(four)
        else:
            parts = _finish(self._mean.result(), None if paths.controlled else paths.scale, observed)
            if unmet is not None:
                parts = parts[0], with_unmet(parts[1], unmet, paths.scale), *parts[2:]
            self._parts = parts
            if not self._schedule.random:
                return None
            error = relative_error(parts[0], parts[1], observed, parts[3] if paths.controlled else None)
        values = self._parts[0]
        self._buffer.look(rows, stage, error)
        done = self._schedule.converged(error, values, self._before, block.observed)
        if done is not None and self.evidence is not None and self._schedule.tolerance is not None:
            done = done & (self.evidence.hidden(values, n_evals) <= self._schedule.tolerance)
        return done

    def finish(self, rows: slice | Tensor, n_evals: int, *, straight: bool) -> None:
        """Hand over the results."""
        totals = None if self.evidence is None else self.evidence.totals()
        self._buffer.finish(rows, self._parts, n_evals, totals, straight=straight)

    def leave(self, everyone: Tensor, ready: Tensor, others: Tensor, n_evals: int) -> None:
        """Hand over the results of some series, and go on with the others."""
        totals = None if self.evidence is None else self.evidence.totals()[ready]
        some = tuple(part[ready] for part in self._parts)
        self._buffer.finish(everyone[ready.cpu()], some, n_evals, totals, straight=False)
        self._parts = tuple(part[others] for part in self._parts)
        if isinstance(self._mean, ControlVariateMean):
            self._mean.take(others)
        if self.evidence is not None:
            self.evidence.take(others)


def _steps(at: Points, precision: torch.dtype) -> DrawnSteps | None:
    """Return how far points move, where the mean of that is known."""
    if at.step is None or at.mean_step is None:
        return None
    return DrawnSteps(at.step.to(precision), at.mean_step.to(precision))


class BlockRunner:
    """Takes series, block by block, through the stages of a schedule, for one target or several."""

    def __init__(
        self,
        asks: Sequence[Ask],
        schedule: Schedule,
        path: Callable[[Block, int], GradientPath],
        buffers: Sequence[ResultBuffer],
        batching: Batching,
    ) -> None:
        self.asks, self.schedule, self.path, self.buffers, self.batching = asks, schedule, path, buffers, batching
        self._prefetcher: Prefetcher[tuple[Block, GradientPath]] = Prefetcher(asks[0].device)

    def _prepared(self, rows: slice) -> tuple[Block, GradientPath]:
        block = self.asks[0].block(rows)
        return block, self.path(block, 0)

    def run(self, rows: slice, size: int) -> None:
        """Take some series through the stages, ``size`` sequences a pass; whatever is good enough stays behind."""
        block, paths = self._prefetcher.take((rows.start, rows.stop), lambda: self._prepared(rows))
        paths = paths.resample() or paths
        if rows.start > 0:
            self.asks[0].verify_once()
        self.through_stages(block, paths, size)
        total = len(self.asks[0].x)
        following = self.batching.next_rows(rows.stop, total, self.schedule.together)
        if following.start < total:
            self._prefetcher.prepare((following.start, following.stop), lambda: self._prepared(following))
        for ask in self.asks:
            ask.progress.host_writer.flush(earlier=True)

    def through_stages(self, block: Block, paths: GradientPath, size: int) -> None:
        """Go through the stages, ``size`` sequences a pass; series that are good enough stay behind."""
        pairs = zip(self.asks, self.buffers, strict=True)
        runs = [TargetRun(ask, self.schedule, buffer, paths) for ask, buffer in pairs]
        blocks, rows = [block] * len(runs), block.rows
        if block.target is None and size // len(block.x) <= 1:  # no place beside a path point
            blocks = with_targets(self.asks, block)
        left, n_evals = torch.arange(rows.start, rows.stop), 0  # which series go on, and points so far
        for stage, points in enumerate(self.schedule.stages):
            paths = paths if stage == 0 else self.path(blocks[0], stage)
            blocks = self._add(runs, blocks, paths, stage, size // len(blocks[0].x))
            n_evals += points
            here = rows if len(left) == len(block.x) else left
            looks = [run.look(here, each, paths, stage, n_evals) for run, each in zip(runs, blocks, strict=True)]
            done = looks[0]  # of a single target: several have no tolerance
            if n_evals == self.schedule.points or (done is not None and bool(done.all())):
                for run in runs:
                    run.finish(here, n_evals, straight=paths.straight)
                return
            if done is not None and paths.controlled and bool(done.any()):
                ready, others = done.nonzero()[:, 0], (~done).nonzero()[:, 0]
                runs[0].leave(left, ready, others, n_evals)
                left, blocks = left[others.cpu()], [blocks[0].take(others)]

    def _add(
        self, runs: Sequence[TargetRun], blocks: Sequence[Block], paths: GradientPath, stage: int, room: int
    ) -> list[Block]:
        """Add the points of a stage, and return the blocks, their targets now known."""
        blocks, points = list(blocks), self.schedule.stages[stage]
        for batch in slices(points, even(points, max(1, room))):
            at = paths.at(batch)
            start = paths.start if stage == 0 and batch.start == 0 else None
            rows = [] if start is None else [start]
            extra: list[Tensor] = []
            ends, moving = None, self._moving(paths, at, batch, points)
            for run in runs:  # the same for all, and each is told that it will be read
                if run.evidence is not None:
                    extra = run.evidence.extra_points(blocks[0], at.z, batch, start, straight=paths.straight)
                    ends = run.evidence.far_ends(blocks[0], moving, batch, points)
            found = self._differentiate(at.z, blocks, [*rows, *extra], ends, room)
            for place, (run, (gradients, scores)) in enumerate(zip(runs, found, strict=True)):
                run.add(gradients, at, batch, scores, starts=start is not None)
                blocks[place] = gradients.block
        return blocks

    def _moving(self, paths: GradientPath, at: Points, batch: slice, points: int) -> Tensor | None:
        """Return what moves in the first points of a stage, however few of them the first pass takes."""
        if batch.start > 0 or paths.straight or paths.start is None or not self.asks[0].checked:
            return None
        near = near_baseline(points)
        return at.active if batch.stop >= near else paths.at(slice(0, near)).active

    def _differentiate(
        self, z: Tensor, blocks: Sequence[Block], rows: list[Tensor], ends: Tensor | None, room: int
    ) -> Iterator[tuple[Gradients, list[Tensor]]]:
        """Return for each target gradients and scores of path points, and the scores of some more rows per series.

        They ride along where there is room for them, and so do ``ends``, (series, rows, time, channel); many of
        them together are read without a gradient.
        """
        if ends is not None and room >= ROOM:
            rows, ends = [*rows, *ends.unbind(1)], None
        riding = rows if room >= ROOM else rows[: 1 if room > 1 and blocks[0].target is None else 0]
        together = torch.stack(riding, 1) if riding else None
        found = compute_gradients(self.asks, z, blocks, together)
        later = [row[:, None] for row in rows[len(riding) :]]
        later += [] if ends is None else torch.split(ends, max(1, room), 1)
        late: list[Tensor] | None = None  # outputs of these
        for ask, each in zip(self.asks, found, strict=True):
            scores = [] if each.beside is None else list(each.beside.unbind(1))
            with torch.no_grad():
                if late is None:
                    late = [ask.raw_outputs(row, blocks[0]) for row in later]
                for raw, row in zip(late, later, strict=True):
                    scores += ask.scores_of(raw, each.block, row).unbind(1)
            yield each, scores


def _finish(estimate: Means, scale: Tensor | None, observed: Tensor | None) -> tuple[Tensor, ...]:
    """Turn means into scores; unobserved cells hold 0 everywhere."""
    mean, error, points, effective = estimate
    if scale is not None:
        mean, error = scale * mean, torch.where(error.isinf(), torch.inf, scale.abs() * error)
    parts = mean, error, points, effective
    return parts if observed is None else tuple(part.where(observed, 0) for part in parts)
