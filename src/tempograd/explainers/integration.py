"""The one place that integrates gradients: means over path points, stage by stage, for every path method.

Experimental: authors of methods may build on it, and its names may still change with each minor release.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tempograd.engine import (
    Block,
    ControlVariateMean,
    Estimate,
    Evidence,
    GradientCheck,
    Prefetcher,
    Request,
    WeightedMean,
    compute_gradients,
    judge_gradients,
    relative_error,
    resolution,
    slices,
)

# The schedule: how many points, in which stages, and when they are enough

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

        Few series are left in the late stages of a run that stops.
        """
        return max(self.stages if self.tolerance is None else self.stages[:3])

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

ROOM = 20  # path points of a series in one pass, beside which a few more rows do not count


class Points(NamedTuple):
    """Some points on the paths of a few series."""

    z: Tensor  # (series, points, time, channel)
    weight: Tensor | None = None  # broadcasts to (series, points); None if all are equal
    active: Tensor | None = None  # like z: 1 for active cells, 0 for fixed ones; None if all are active
    step: Tensor | None = None  # factor of the gradient, where it differs between points
    position: Tensor | None = None  # broadcasts to (series, points): 0 at the baseline, 1 at x


def midpoints(points: int, like: Tensor) -> Tensor:
    """Return positions at the middle of equal parts of the path."""
    return (torch.arange(points, device=like.device) + 0.5).to(like.dtype) / points


class GradientPath(NamedTuple):
    """The paths of a few series."""

    scale: Tensor  # what the mean gradient is multiplied by
    at: Callable[[slice], Points]  # points in path order
    resample: Callable[[], "GradientPath | None"] = lambda: None  # better paths, if the device finds these wanting
    start: Tensor | None = None  # where the paths begin, if all of a series' do at one place
    straight: bool = False  # whether all points of a series lie on one straight line from there to x
    controlled: bool = False  # whether positions and scores take noise out of the mean


class Attribution(NamedTuple):
    """What a method returns, each like x unless said otherwise; None where it means nothing."""

    values: Tensor
    standard_error: Tensor | None = None
    n_draws: Tensor | None = None
    ess: Tensor | None = None
    signed: bool = True  # False where only magnitudes are left
    n_evals: Tensor | None = None  # (series,)
    delta: Tensor | None = None  # (series,)
    curve_samples: Tensor | None = None  # (looks,)
    curve_error: Tensor | None = None  # (series, looks)
    gradient_check: GradientCheck | None = None


def integrate(
    request: Request, schedule: Schedule, path: Callable[[Block, int], GradientPath], *, label: str
) -> Attribution:
    """Average the gradient over each series' path; ``path`` makes those of a block in a stage of the schedule."""
    buffer = ResultBuffer(request, schedule)
    prefetcher: Prefetcher[tuple[Block, GradientPath]] = Prefetcher(request.device)
    batching, total, per_series = request.batching, len(request.x), schedule.together

    def prepare(rows: slice) -> tuple[Block, GradientPath]:
        block = request.block(rows)
        return block, path(block, 0)

    def work(rows: slice, size: int) -> None:
        block, paths = prefetcher.take((rows.start, rows.stop), lambda: prepare(rows))
        paths = paths.resample() or paths
        if rows.start > 0:
            request.verify_once()
        BlockRunner(request, schedule, path, size, buffer).run(block, paths)
        following = batching.next_rows(rows.stop, total, per_series)
        if following.start < total:  # while the device is busy with this block
            prefetcher.prepare((following.start, following.stop), lambda: prepare(following))
        request.host_writer.flush(earlier=True)

    batching.run(total, per_series, work, label)
    request.host_writer.flush()
    return buffer.attribution()


class ResultBuffer:
    """The results of all series, written there while the next are computed."""

    def __init__(self, request: Request, schedule: Schedule) -> None:
        series, device = len(request.x), request.x.device
        kinds = (torch.float32, torch.float32, torch.int32, torch.float32)[: 4 if schedule.random else 1]
        self._schedule, self._host_writer = schedule, request.host_writer
        self._parts = [torch.empty(request.x.shape, dtype=kind, device=device) for kind in kinds]
        self._n_evals = torch.zeros(series, dtype=torch.int32, device=device)
        self._curve = torch.full((series, len(schedule.stages)), torch.nan, device=device)
        self._delta: Tensor | None = None
        self._evidence: Tensor | None = None
        self._straight = False
        self._unit = resolution(request.device, request.dtype)

    def look(self, rows: slice | Tensor, stage: int, error: Tensor) -> None:
        """Note the error of some series after a stage."""
        self._host_writer.write(self._curve[:, stage], rows, error)

    def delta(self, rows: slice, delta: Tensor) -> None:
        """Note how far the path moves the score of some series."""
        if self._delta is None:
            self._delta = torch.empty(len(self._n_evals), device=self._n_evals.device)
        self._host_writer.write(self._delta, rows, delta)

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
        for buffer, part in zip(self._parts, parts, strict=False):
            self._host_writer.write(buffer, rows, part)
        self._n_evals[rows] = n_evals
        if totals is None:
            return
        self._straight = straight
        if self._evidence is None:
            kind, device = torch.float64, self._n_evals.device
            self._evidence = torch.empty(len(self._n_evals), totals.shape[1], dtype=kind, device=device)
        self._host_writer.write(self._evidence, rows, totals)

    def attribution(self) -> Attribution:
        """Return everything, once it has been written."""
        check = None
        if self._evidence is not None:
            check = judge_gradients(
                self._evidence, self._parts[0], self._delta, self._unit, straight=self._straight
            )
        found = Attribution(self._parts[0], n_evals=self._n_evals, delta=self._delta, gradient_check=check)
        if not self._schedule.random:
            return found
        looks = torch.tensor(self._schedule.stages, dtype=torch.int32).cumsum(0, dtype=torch.int32)
        if self._schedule.tolerance is not None:  # nobody may have needed all stages
            looks = looks[looks <= self._n_evals.max().cpu()]
        _, error, active, effective = self._parts
        return found._replace(
            standard_error=error,
            n_draws=active,
            ess=effective,
            curve_samples=looks,
            curve_error=self._curve[:, : len(looks)],
        )


@dataclass(frozen=True)
class BlockRunner:
    """A block of series that goes through the stages of a schedule."""

    request: Request
    schedule: Schedule
    path: Callable[[Block, int], GradientPath]
    size: int  # sequences per pass
    buffer: ResultBuffer

    def run(self, block: Block, paths: GradientPath) -> None:
        """Go through the stages; series that are good enough stay behind."""
        evidence = Evidence(self.request, self.schedule.stages[0]) if self.request.checked else None
        block = block if self._room(block) > 1 else self.request.with_target(block)  # no place beside a path point
        mean: ControlVariateMean | WeightedMean = WeightedMean(errors=self.schedule.random)
        if paths.controlled:
            mean = ControlVariateMean(paths.scale.to(self.request.precision), self.request.model)
        rows: slice | Tensor = block.rows
        n_evals, before = 0, None
        for stage, points in enumerate(self.schedule.stages):
            paths = paths if stage == 0 else self.path(block, stage)
            block = self._add(mean, evidence, block, paths, stage)
            n_evals += points
            observed = None if self.request.mask is None else block.observed
            parts = _finish(mean.result(), None if paths.controlled else paths.scale, observed)
            done = None
            if self.schedule.random:
                error = relative_error(parts[0], parts[1], observed)
                self.buffer.look(rows, stage, error)
                done = self.schedule.converged(error, parts[0], before, block.observed)
                if done is not None and evidence is not None and self.schedule.tolerance is not None:
                    done = done & (evidence.hidden(parts[0], n_evals) <= self.schedule.tolerance)
            if n_evals == self.schedule.points or (done is not None and bool(done.all())):
                totals = None if evidence is None else evidence.totals()
                self.buffer.finish(rows, parts, n_evals, totals, straight=paths.straight)
                return
            before = parts[0]
            if done is not None and isinstance(mean, ControlVariateMean) and bool(done.any()):
                everyone = torch.arange(block.rows.start, block.rows.stop) if isinstance(rows, slice) else rows
                ready, others = done.nonzero()[:, 0], (~done).nonzero()[:, 0]
                totals = None if evidence is None else evidence.totals()[ready]
                some = tuple(part[ready] for part in parts)
                self.buffer.finish(everyone[ready.cpu()], some, n_evals, totals, straight=False)
                rows, block, before = everyone[others.cpu()], block.take(others), before[others]
                mean.take(others)
                if evidence is not None:
                    evidence.take(others)

    def _room(self, block: Block) -> int:
        """Return how many sequences of each series go through the model at once."""
        return self.size // len(block.x)

    def _add(
        self,
        mean: ControlVariateMean | WeightedMean,
        evidence: Evidence | None,
        block: Block,
        paths: GradientPath,
        stage: int,
    ) -> Block:
        """Add the points of a stage, and return the block, its target now known."""
        precision = self.request.precision
        for batch in slices(self.schedule.stages[stage], max(1, self._room(block))):
            at = paths.at(batch)
            start = paths.start if stage == 0 and batch.start == 0 else None
            rows = [] if start is None else [start]
            if evidence is not None:
                rows += evidence.extra_points(block, at.z, batch, start, straight=paths.straight)
            gradient, score, beside, block = self._differentiate(at.z, block, rows)
            if start is not None and block.clean_score is not None and beside[0].ndim == 1:
                delta = block.clean_score - beside[0]
                self.buffer.delta(block.rows, delta)
                if evidence is not None:
                    evidence.delta = delta
            if evidence is not None:
                evidence.add(block, batch, at.z, gradient, score, at.position, beside)
            gradient = gradient.to(precision)
            active = None if at.active is None else at.active.to(precision)
            if isinstance(mean, WeightedMean):
                mean.add(gradient if at.step is None else gradient * at.step, at.weight, active)
                continue
            if active is None or at.position is None or block.clean_score is None:
                raise RuntimeError("A controlled mean needs masks, positions and the score of the series.")
            gap = None if score.ndim > 2 else (block.clean_score[:, None] - score).to(precision)
            mean.add(gradient, at.weight, active, at.position, gap)
        return block

    def _differentiate(
        self, z: Tensor, block: Block, rows: list[Tensor]
    ) -> tuple[Tensor, Tensor, list[Tensor], Block]:
        """Return gradients and scores of path points, and the scores of some more rows per series.

        They ride along where there is room for them.
        """
        room = self._room(block)
        riding = rows if room >= ROOM else rows[: 1 if room > 1 and block.target is None else 0]
        together = torch.stack(riding, 1) if riding else None
        gradient, score, read, block = compute_gradients(self.request, z, block, together)
        scores = [] if read is None else list(read.unbind(1))
        scores += [self.request.scores(row[:, None], block)[:, 0] for row in rows[len(riding) :]]
        return gradient, score, scores, block


def _finish(estimate: Estimate, scale: Tensor | None, observed: Tensor | None) -> tuple[Tensor, ...]:
    """Turn means into scores; unobserved cells hold 0 everywhere."""
    mean, error, points, effective = estimate
    if scale is not None:
        mean, error = scale * mean, torch.where(error.isinf(), torch.inf, scale.abs() * error)
    parts = mean, error, points, effective
    return parts if observed is None else tuple(part.where(observed, 0) for part in parts)
