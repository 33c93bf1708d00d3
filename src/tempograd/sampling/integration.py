"""The one place that integrates gradients: means over path points, stage by stage, for every path method.

Experimental: authors of methods may build on it, and its names may still change with each minor release.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from tempograd.core.estimate import Estimate, three_digits
from tempograd.engine import Ask, Batching, Block, compute_gradients, slices
from tempograd.engine.ask import with_targets
from tempograd.engine.cuda import Prefetcher
from tempograd.engine.gradients import Gradients
from tempograd.engine.model import computing
from tempograd.sampling.estimators import ControlVariateMean, WeightedMean
from tempograd.sampling.gradient_check import Evidence, candidates
from tempograd.sampling.stretches import answered

# The schedule: how many points, in which stages, and when they are enough

ROUGH = 0.3  # an error with which a sentence whose drivers are certain may stand
LONGER = 4  # times as many points as there is room for: their masks take as much memory as one pass
TOP = 0.1  # share of the observed cells whose ranking matters


@dataclass(frozen=True)
class Schedule:
    """The points of a run: drawn stage by stage, with a look at the error after each.

    A series is good enough as soon as its estimated relative error is below the tolerance or, for "top", the
    share of the top tenth of the cells that changed since the last look; for "answer", below :data:`ROUGH` too,
    if all drivers that its sentence would name are certain.
    """

    stages: tuple[int, ...]  # points of each
    random: bool = True  # whether the points are draws; only then errors and counts are kept
    tolerance: float | None = None  # None: all stages run
    stop_when: str = "error"


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


class GradientPath(NamedTuple):
    """The paths of a few series."""

    scale: Tensor  # what the mean gradient is multiplied by
    at: Callable[[slice], Points]  # points in path order
    resample: Callable[[], "GradientPath"] | None = None  # better ones where the device finds these wanting
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
    integral = Integral(asks, schedule, path, ask.gradient_batching(len(asks)))
    integral.batching.run(len(ask.x), integral.together, integral.run, label)
    return integral.estimates()


class WeightedSum:
    """A mean over path points that has no error: one product of matrices for a few points.

    It sums up how far points are from the first, so that the mean of equal numbers is exactly theirs.
    """

    def __init__(self) -> None:
        self._first = self._total = self._weight = torch.zeros(())  # the former (series, 1, cells)

    def add(self, y: Tensor, weight: Tensor | None = None) -> None:
        """Take points ``y``, (series, points, time, channel), with weights that broadcast to (series, points)."""
        weight = torch.ones_like(y[:1, :, 0, 0]) if weight is None else weight.to(y.dtype)
        weight, flat = weight.expand(len(y), -1)[:, None], y.flatten(2)
        if self._first.ndim == 0:
            self._first = flat[:, :1].clone()
            self._total, self._weight = torch.zeros_like(self._first), weight.new_zeros(1)
        flat = flat - self._first
        with computing("exact", y.device):  # in half precision, and on some devices, products are rounded
            parts = [torch.bmm(weight[..., run], flat[:, run]) for run in slices(y.shape[1], FEW)]
        self._total = self._total + torch.cat(parts, 1).sum(1, keepdim=True)
        self._weight = self._weight + weight.sum(2, keepdim=True)

    def mean(self, shape: Sequence[int]) -> Tensor:
        """Return the mean, (series, time, channel)."""
        return (self._first + self._total / self._weight).view(shape)


class TargetIntegral:
    """The integral of one target: the mean over the points of a block, and the results of all series.

    These are written while the next are computed, scores in a precision of their own.
    """

    def __init__(self, ask: Ask, schedule: Schedule, precision: torch.dtype) -> None:
        self.ask, self._schedule = ask, schedule
        self._kinds = {"values": precision}
        if schedule.random:
            self._kinds |= {"standard_error": torch.float32, "n_draws": torch.int32, "ess": torch.float32}
        self._results: dict[str, Any] = {}
        series, device = len(ask.x), ask.x.device
        self._n_evals = torch.zeros(series, dtype=torch.int32, device=device)
        self._parts: list[Tensor] = []
        self.mean: ControlVariateMean | WeightedMean | WeightedSum | None = None  # by what the points are
        self.evidence: Evidence | None = None

    def add(self, found: Gradients, at: Points, batch: slice, scores: list[Tensor], *, starts: bool) -> None:
        """Take the gradients of some points, and the scores of what was read beside them, first of the start."""
        gradient, score, _, block = found
        precision, mean, clean = self.ask.precision, self.mean, block.clean_score
        if starts and clean is not None and scores[0].ndim == 1:
            delta = clean - scores[0]
            self._write("delta", block.rows, delta, torch.get_default_dtype())
            if isinstance(mean, ControlVariateMean):
                mean.change = delta.to(precision)
            if self.evidence is not None:
                self.evidence.delta = delta
        if self.evidence is not None:
            self.evidence.add(found, batch, at.z, at.position, scores)
        gradient = gradient.to(precision)
        step, mean_step = (None if part is None else part.to(precision) for part in (at.step, at.mean_step))
        if at.step is not None and mean_step is None:
            gradient, step = gradient * at.step, None
        if isinstance(mean, ControlVariateMean):
            gap = None if score.ndim > 2 else (cast("Tensor", clean)[:, None] - score).to(precision)
            active, position = cast("Tensor", at.active), cast("Tensor", at.position)  # such points have both
            mean.add(gradient, at.weight, active, position, gap, step, mean_step)
            return
        if mean is None:
            self.mean = mean = WeightedSum() if at.active is None and not self._schedule.random else WeightedMean()
        if isinstance(mean, WeightedSum):
            mean.add(gradient, at.weight)
        else:
            moving = None if at.active is None else at.active.to(precision)
            mean.add(gradient, at.weight, moving, step, mean_step)

    def look(self, block: Block, paths: GradientPath, stage: int, n_evals: int) -> Tensor | None:
        """Estimate after a stage, and tell for each series whether it is good enough; None if all go on."""
        before, tolerance = self._parts[0] if stage > 0 else None, self._schedule.tolerance
        observed = None if self.ask.mask is None else block.observed
        unmet = None if self.evidence is None else self.evidence.unmet
        if isinstance(self.mean, ControlVariateMean):
            *self._parts, error = self.mean.result(observed, unmet)
        elif isinstance(self.mean, WeightedMean):
            *self._parts, error = self.mean.result(paths.scale, observed, unmet)
        elif self.mean is not None:
            values = paths.scale * self.mean.mean(paths.scale.shape)
            self._parts = [values if observed is None else values.where(observed, 0)]
        if not self._schedule.random or tolerance is None:
            return None
        limit, error = torch.full_like(error, tolerance), three_digits(error)
        if self._schedule.stop_when == "top":
            if before is None:
                return None
            error = changed(self._parts[0], before, block.observed)
        elif self._schedule.stop_when == "answer" and bool(((error > tolerance) & (error <= ROUGH)).any()):
            values, spread, _, ess = self._parts
            limit = torch.where(answered(Estimate(values, spread, ess=ess), observed), ROUGH, limit)
        done = error <= limit
        if self.evidence is not None:
            done &= self.evidence.hidden(self._parts[0], n_evals) <= limit
        return done

    def finish(self, rows: slice | Tensor, n_evals: int, ready: slice | Tensor = slice(None)) -> None:
        """Note the results of some series, those of the block that are ``ready``, by default all."""
        for (name, kind), part in zip(self._kinds.items(), self._parts, strict=False):
            self._write(name, rows, part[ready], kind)
        self._n_evals[rows] = n_evals
        if self.evidence is not None:
            self._write("evidence", rows, self.evidence.totals()[ready], torch.float64)

    def take(self, rows: Tensor) -> None:
        """Go on with some series of the block."""
        self._parts = [part[rows] for part in self._parts]
        if isinstance(self.mean, ControlVariateMean):
            self.mean.take(rows)
        if self.evidence is not None:
            self.evidence.take(rows)

    def _write(self, name: str, rows: slice | Tensor, part: Tensor, kind: torch.dtype) -> None:
        """Write results of some series."""
        if name not in self._results:
            shape = len(self._n_evals), *part.shape[1:]
            self._results[name] = torch.empty(shape, dtype=kind, device=self._n_evals.device)
        self.ask.progress.host_writer.write(self._results[name], rows, part)

    def estimate(self) -> Estimate:
        """Return everything, once it has been written."""
        totals, check = self._results.pop("evidence", None), None
        if totals is not None and self.evidence is not None:
            check = self.evidence.judge(totals, self._results["values"], self._results.get("delta"))
        return Estimate(**self._results, n_evals=self._n_evals, gradient_check=check)


class Integral:
    """The integrals of some targets over the same points: takes series, block by block, through the stages."""

    def __init__(
        self,
        asks: Sequence[Ask],
        schedule: Schedule,
        path: Callable[[Block, int], GradientPath],
        batching: Batching,
        precision: torch.dtype = torch.float32,
    ) -> None:
        self._asks, self._schedule, self._path, self.batching = asks, schedule, path, batching
        # Points per series that room is planned for. A late stage that is longer than the first comes in several
        # passes: what is kept of all its points at once are masks, a byte for each cell. Few series are left in
        # the late stages of a run that stops.
        stages, stops = schedule.stages, schedule.tolerance is not None
        self.together = max(stages[:3]) if stops else max(stages[0], max(stages) // LONGER)
        self._targets = [TargetIntegral(ask, schedule, precision) for ask in asks]
        self._prefetcher: Prefetcher[tuple[Block, GradientPath]] = Prefetcher(asks[0].device)

    def estimates(self) -> list[Estimate]:
        """Return the result of each target, once all series have passed."""
        for ask in self._asks:
            ask.progress.host_writer.flush()
        return [target.estimate() for target in self._targets]

    def _prepared(self, rows: slice, known: Block | None = None) -> tuple[Block, GradientPath]:
        block = known or self._asks[0].block(rows)
        return block, self._path(block, 0)

    def run(self, rows: slice, size: int, known: Block | None = None) -> None:
        """Take some series through the stages, ``size`` sequences a pass; whatever is good enough stays behind.

        Meanwhile the next ones are prepared, unless their block, its target ``known``, is made by the caller.
        """
        asks, targets, stages = self._asks, self._targets, self._schedule.stages
        key = rows.start, rows.stop
        block, paths = self._prefetcher.take(key, lambda: self._prepared(rows, known))
        paths = paths if paths.resample is None else paths.resample()
        if known is None and rows.start > 0:
            asks[0].verify_once()
        for target in targets:
            ask = target.ask
            target.evidence = Evidence(ask, stages[0], straight=paths.straight) if ask.checked else None
            scale = paths.scale.to(ask.precision)
            target.mean = ControlVariateMean(scale, ask.model) if paths.controlled else None
        blocks = [block] * len(targets)
        if block.target is None and size // len(block.x) <= 1:  # no place beside a path point
            blocks = with_targets(asks, block)
        left, n_evals = torch.arange(rows.start, rows.stop), 0  # which series go on, and points so far
        for stage, points in enumerate(stages):
            paths = paths if stage == 0 else self._path(blocks[0], stage)
            self._add(blocks, paths, stage, size // len(blocks[0].x))
            n_evals += points
            here = rows if len(left) == len(block.x) else left
            both = zip(targets, blocks, strict=True)
            done, *_ = [target.look(one, paths, stage, n_evals) for target, one in both]  # several: None
            if stage == len(stages) - 1 or (done is not None and bool(done.all())):
                for target in targets:
                    target.finish(here, n_evals)
                break
            if done is not None and paths.controlled and bool(done.any()):
                ready, others = done.nonzero()[:, 0], (~done).nonzero()[:, 0]
                targets[0].finish(left[ready.cpu()], n_evals, ready)
                targets[0].take(others)
                left, blocks = left[others.cpu()], [blocks[0].take(others)]
        following = self.batching.next_rows(rows.stop, len(asks[0].x), self.together)
        if known is None and following.start < following.stop:
            key = following.start, following.stop
            self._prefetcher.prepare(key, lambda: self._prepared(following))
        for ask in asks:
            ask.progress.host_writer.flush(earlier=True)

    def _add(self, blocks: list[Block], paths: GradientPath, stage: int, room: int) -> None:
        """Add the points of a stage; the targets of the blocks are known then.

        Some more rows per series ride along where there is room for them, and so do far ends, of which there are
        many; the others are read without a gradient.
        """
        points = self._schedule.stages[stage]
        for batch in slices(points, max(1, room), even=True):
            at, first = paths.at(batch), batch.start == 0
            start = paths.start if stage == 0 and first else None
            rows, ends, moving = [] if start is None else [start], None, None
            if first and self._asks[0].checked and not paths.straight and paths.start is not None:
                *_, near = candidates(points)  # however few of them this pass takes
                moving = at.active if batch.stop >= near else paths.at(slice(0, near)).active
            extra: list[Tensor] = []
            for target in self._targets:  # the same for all, and each is told that it will be read
                if target.evidence is not None:
                    extra, ends = target.evidence.extra_points(blocks[0], at.z, batch, points, start, moving)
            rows += extra
            if ends is not None and room >= ROOM:
                rows, ends = [*rows, *ends.unbind(1)], None
            riding = rows if room >= ROOM else rows[: 1 if room > 1 and blocks[0].target is None else 0]
            later = [row[:, None] for row in rows[len(riding) :]]
            later += [] if ends is None else torch.split(ends, max(1, room), 1)
            outputs: list[Tensor] = []  # of these
            passes = compute_gradients(self._asks, at.z, blocks, torch.stack(riding, 1) if riding else None)
            for place, (target, found) in enumerate(zip(self._targets, passes, strict=True)):
                scores = [] if found.beside is None else list(found.beside.unbind(1))
                with torch.no_grad():
                    outputs = outputs or [target.ask.raw_outputs(row, found.block) for row in later]
                    for raw, row in zip(outputs, later, strict=True):
                        scores += target.ask.scores_of(raw, found.block, row).unbind(1)
                target.add(found, at, batch, scores, starts=start is not None)
                blocks[place] = found.block
