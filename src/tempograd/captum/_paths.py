"""Paths of several inputs at once: series whose segments are held, and whatever else moves as a whole."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tempograd.captum._arguments import select
from tempograd.engine import Chunks, WeightedMean, differentiate_each, pieces, predict, require_graph
from tempograd.errors import ModelError
from tempograd.explainers._retention import Segments
from tempograd.explainers.timing import Timing, draw_whole, warn_of_rare_cells

Forward = Callable[..., Tensor]


class Series(NamedTuple):
    """Inputs with the same number of steps, which share their masks."""

    members: list[int]  # positions among the inputs
    law: Segments
    seed: int


@dataclass(frozen=True)
class Job:
    """One call, checked and completed."""

    forward: Forward
    method: Timing
    seed: int
    inputs: tuple[Tensor, ...]
    baselines: tuple[Tensor, ...]
    target: Tensor | None  # (batch or 1, axes of the output)
    extra: tuple[Any, ...]
    size: int | None

    def run(self) -> tuple[Tensor, ...]:
        """Return the scores of all inputs; the model must be quiet."""
        groups = self._groups()
        warn_of_rare_cells([group.law for group in groups], self.method.points)
        scores = tuple(torch.zeros_like(x) for x in self.inputs)
        cells = sum(x[0].numel() for x in self.inputs)
        chunks = Chunks(self.inputs[0].device, cells, self.size)

        def work(rows: slice, size: int) -> None:
            self._explain(rows, size if self.size is None else min(size, self.size), groups, scores)

        # at least two per series, so that the few series that the plan may add stay below ``size``
        chunks.run(len(scores[0]), max(2, self.method.points), work, "explain with timing")
        if not all(bool(part.isfinite().all()) for part in scores):
            raise ModelError(
                "The model's gradient is NaN or infinite on the path from the baselines to the inputs."
            )
        return scores

    def _groups(self) -> list[Series]:
        by_length: dict[int, list[int]] = {}
        for position, x in enumerate(self.inputs):
            if x.ndim == 3:
                by_length.setdefault(x.shape[1], []).append(position)
        groups = []
        for number, (time, members) in enumerate(by_length.items()):
            channels = sum(self.inputs[position].shape[2] for position in members)
            # another seed, or the masks of two groups would follow each other
            groups.append(Series(members, self.method.law(time, channels, time), self.seed + number))
        return groups

    def _explain(self, rows: slice, size: int, groups: list[Series], scores: tuple[Tensor, ...]) -> None:
        """Explain some rows, at most ``size`` sequences at a time."""
        x = [whole[rows] for whole in self.inputs]
        change = [each - base[rows] for each, base in zip(x, self.baselines, strict=True)]
        masks, weights = self._draw(rows, groups)
        means = [WeightedMean(errors=False) for _ in x]
        for piece in pieces(self.method.points, max(1, size // len(x[0]))):
            free = [
                None if mask is None else mask[:, piece].to(each.dtype)
                for mask, each in zip(masks, x, strict=True)
            ]
            z = [self._move(*parts, piece) for parts in zip(x, change, free, strict=True)]
            weight = None if weights is None else weights[:, piece]
            for mean, slope, point, moved in zip(means, self._slopes(z, rows), z, free, strict=True):
                cells = (-1, 1) if moved is None else point.shape[2:]  # (time, channel) is what a mean expects
                counted = None if moved is None else moved.to(slope.dtype)
                mean.add(slope.reshape(*point.shape[:2], *cells), weight, counted)
        for score, step, mean in zip(scores, change, means, strict=True):
            score[rows] = (step * mean.result().mean.view(step.shape)).to(score)

    def _draw(self, rows: slice, groups: list[Series]) -> tuple[list[Tensor | None], Tensor | None]:
        """Masks of each input, (rows, points, time, channel), None if it always moves, and weights of the points.

        Masks of different groups are independent, so that their densities multiply, and so do their weights.
        """
        device = self.inputs[0].device
        masks: list[Tensor | None] = [None] * len(self.inputs)
        weights: Tensor | None = None
        for members, law, seed in groups:
            dtype = self.inputs[members[0]].dtype
            drawn = draw_whole(self.method, law, torch.arange(rows.start, rows.stop, device=device), seed, dtype)
            depths = [self.inputs[position].shape[2] for position in members]
            for position, mask in zip(members, torch.split(drawn.masks, depths, dim=3), strict=True):
                masks[position] = mask
            if drawn.weights is not None:
                weights = drawn.weights if weights is None else weights * drawn.weights
        return masks, weights

    def _move(self, x: Tensor, change: Tensor, free: Tensor | None, piece: slice) -> Tensor:
        """Points on the paths, (rows, points, …): midpoints, back towards the baseline where a cell moves."""
        points = torch.arange(piece.start, piece.stop, device=x.device)
        back = ((points + 0.5).to(x.dtype) / self.method.points - 1).view(-1, *[1] * (x.ndim - 1))
        return torch.addcmul(x[:, None], back if free is None else back * free, change[:, None])

    def _slopes(self, z: Sequence[Tensor], rows: slice) -> list[Tensor]:
        """Gradients of the selected output at ``z``, (rows · points, …), in single precision at least."""
        points, batch = z[0].shape[1], len(self.inputs[0])
        flat = [part.flatten(0, 1).requires_grad_() for part in z]
        extra = [
            part[rows].repeat_interleave(points, 0)
            if isinstance(part, Tensor) and part.ndim > 0 and len(part) == batch
            else part
            for part in self.extra
        ]
        answer = predict(lambda first: self.forward(first, *flat[1:], *extra), flat[0], "raw")
        target = self.target
        if target is not None and len(target) == batch:
            target = target[rows].repeat_interleave(points, 0)
        score = select(answer, target)
        require_graph(score)
        slopes = differentiate_each(score.sum(), flat)
        return [slope.to(torch.promote_types(slope.dtype, torch.float32)) for slope in slopes]
