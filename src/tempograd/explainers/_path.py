"""The one place that integrates gradients: weighted means over path points, for every path method."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from tempograd.engine import Ahead, Block, Estimate, Question, WeightedMean, pieces


class Points(NamedTuple):
    """Some points on the paths of a few series."""

    z: Tensor  # (series, points, time, channel)
    weight: Tensor | None = None  # broadcasts to (series, points); None if all are equal
    free: Tensor | None = None  # like z: 1 for the cells a point counts for, 0 for others; None for all
    step: Tensor | None = None  # factor of the gradient, where it differs between points


class Path(NamedTuple):
    """The paths of a few series."""

    scale: Tensor  # what the mean gradient is multiplied by
    at: Callable[[slice], Points]  # points in path order
    mend: Callable[[], "Path | None"] = lambda: None  # better paths, if the device finds these wanting


class Attribution(NamedTuple):
    """What a method returns, each like x; None where it means nothing."""

    values: Tensor
    standard_error: Tensor | None = None
    free_points: Tensor | None = None
    effective_points: Tensor | None = None
    signed: bool = True  # False where only magnitudes are left


def integrate(
    question: Question, points: int, path: Callable[[Block], Path], *, random: bool, label: str
) -> Attribution:
    """Average the gradient over each series' path.

    Parameters
    ----------
    question : Question
    points : int
        Path points per series; each costs one pass of the model.
    path : function
        Makes the paths of a block of series.
    random : bool
        Whether the points are draws; only then errors and counts are kept.
    label : str
        Shown with the progress.
    """
    kinds = (torch.float32, torch.float32, torch.int32, torch.float32)[: 4 if random else 1]
    parts = [torch.empty(question.x.shape, dtype=kind, device=question.x.device) for kind in kinds]
    ahead: Ahead[tuple[Block, Path]] = Ahead(question.device)
    chunks, total = question.chunks, len(question.x)

    def prepare(rows: slice) -> tuple[Block, Path]:
        block = question.block(rows)
        return block, path(block)

    def work(rows: slice, size: int) -> None:
        block, paths = ahead.take((rows.start, rows.stop), lambda: prepare(rows))
        paths = paths.mend() or paths
        if rows.start > 0:
            question.verify_once()
        estimate = _estimate(question, block, paths, points, size, WeightedMean(errors=random))
        results = _finish(estimate, paths.scale, None if question.mask is None else block.observed)[: len(parts)]
        for whole, part in zip(parts, results, strict=True):
            question.landing.put(whole, block.rows, part)
        following = chunks.block(rows.stop, total, points)
        if following.start < total:  # while the device is busy with this block
            ahead.prepare((following.start, following.stop), lambda: prepare(following))
        question.landing.land(earlier=True)

    chunks.run(total, points, work, label)
    question.landing.land()
    if not random:
        return Attribution(parts[0])
    values, error, free, effective = parts
    return Attribution(values, error, free, effective)


def _estimate(
    question: Question, block: Block, paths: Path, points: int, size: int, mean: WeightedMean
) -> Estimate:
    precision = torch.promote_types(question.dtype, torch.float32)
    room = max(1, size // len(block.x))
    if room == 1:  # no place for the clean series beside a path point
        block = question.settled(block)
    for piece in pieces(points, room):
        z, weight, free, step = paths.at(piece)
        gradient, block = question.gradient(z, block)
        gradient = gradient.to(precision)
        free = None if free is None else free.to(precision)
        mean.add(gradient if step is None else gradient * step, weight, free)
    return mean.result()


def _finish(estimate: Estimate, scale: Tensor, observed: Tensor | None) -> tuple[Tensor, ...]:
    error = torch.where(estimate.error.isinf(), torch.inf, scale.abs() * estimate.error)
    parts = (scale * estimate.mean, error, estimate.points, estimate.effective)
    return parts if observed is None else tuple(part.where(observed, 0) for part in parts)
