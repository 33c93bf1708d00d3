"""The one place that integrates gradients: weighted means over path points, for every path method."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from tempograd.engine import Block, Estimate, Question, WeightedMean, pieces


class Points(NamedTuple):
    """Some points on the paths of a few series."""

    z: Tensor  # (series, points, time, channel)
    weight: Tensor  # broadcasts to (series, points)
    free: Tensor | None = None  # like z: which cells a point counts for; None for all
    step: Tensor | None = None  # factor of the gradient, where it differs between points


class Path(NamedTuple):
    """The paths of a few series."""

    scale: Tensor  # what the mean gradient is multiplied by
    at: Callable[[slice], Points]  # points in path order
    poor: Tensor | None = None  # (series,): these paths must be made again, with more care


class Attribution(NamedTuple):
    """What a method returns, each like x; None where it means nothing."""

    values: Tensor
    standard_error: Tensor | None = None
    free_points: Tensor | None = None
    effective_points: Tensor | None = None


def integrate(
    question: Question, points: int, path: Callable[[Block, bool], Path], *, random: bool, label: str
) -> Attribution:
    """Average the gradient over each series' path.

    Parameters
    ----------
    question : Question
    points : int
        Path points per series; each costs one pass of the model.
    path : function (block, careful) -> Path
        Makes the paths of a block of series. Nothing here waits for the device, so what can only be seen
        there (a poor draw) is mended at the end: those few series come again with ``careful=True``.
    random : bool
        Whether the points are draws; only then errors and counts are kept.
    label : str
        Shown with the progress.
    """
    like = torch.zeros(question.x.shape, device=question.x.device)
    parts = [like] + [torch.zeros_like(like) for _ in range(3 if random else 0)]
    poor: dict[int, Tensor] = {}

    def fill(block: Block, paths: Path, size: int) -> None:
        estimate = _estimate(question, block, paths, points, size)
        for whole, part in zip(parts, _finish(estimate, paths.scale, block.observed), strict=False):
            whole[block.rows] = part.to(whole)

    def work(rows: slice, size: int) -> None:
        block = question.block(rows)
        paths = path(block, False)
        if rows.start > 0:
            question.verify()  # of the blocks before; the device is busy with this one's draws
        fill(block, paths, size)
        if paths.poor is not None:
            poor[rows.start] = paths.poor

    def again(rows: slice, size: int) -> None:
        block = question.block(left[rows])
        fill(block, path(block, True), size)

    question.chunks.run(len(question.x), points, work, label)
    left = torch.cat(list(poor.values())).nonzero()[:, 0].to(question.x.device) if poor else torch.tensor([])
    if len(left):
        question.chunks.run(len(left), points, again, label)
    if not random:
        return Attribution(like)
    values, error, free, effective = parts
    return Attribution(values, error, free.to(torch.int32), effective)


def _estimate(question: Question, block: Block, paths: Path, points: int, size: int) -> Estimate:
    mean = WeightedMean()
    precision = torch.promote_types(question.dtype, torch.float32)
    room = max(1, size // len(block.x))
    if room == 1:  # no place for the clean series beside a path point
        block = question.settled(block)
    for piece in pieces(points, room):
        z, weight, free, step = paths.at(piece)
        gradient, block = question.gradient(z, block)
        gradient = gradient.to(precision).contiguous()  # a constant gradient may come as a view of one number
        weight = weight.to(precision).expand(z.shape[:2])
        mean.add(gradient if step is None else gradient * step, weight, free)
    return mean.result()


def _finish(estimate: Estimate, scale: Tensor, observed: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    error = torch.where(estimate.error.isinf(), torch.inf, scale.abs() * estimate.error)
    parts = (scale * estimate.mean, error, estimate.points, estimate.effective)
    values, error, points, effective = (part.where(observed, 0) for part in parts)
    return values, error, points, effective
