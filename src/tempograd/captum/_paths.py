"""Paths of several inputs at once: series whose segments are held, and whatever else moves as a whole."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tempograd.captum._arguments import select
from tempograd.engine import (
    Chunks,
    ControlledMean,
    WeightedMean,
    differentiate_each,
    pieces,
    predict,
    require_graph,
)
from tempograd.errors import ModelError
from tempograd.explainers._retention import Segments, warn_of_rare_cells
from tempograd.explainers.timing import Timing, draw_whole

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
        warn_of_rare_cells([group.law for group in groups], self.method.plan.points)
        scores = tuple(torch.zeros_like(x) for x in self.inputs)
        cells = sum(x[0].numel() for x in self.inputs)
        chunks = Chunks(self.inputs[0].device, cells, self.size)

        def work(rows: slice, size: int) -> None:
            self._explain(rows, size if self.size is None else min(size, self.size), groups, scores)

        # at least two per series, so that the few series that the plan may add stay below ``size``
        chunks.run(len(scores[0]), max(2, self.method.plan.together), work, "explain with timing")
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
        """Explain some rows, at most ``size`` sequences at a time; the cells of all inputs are as one row."""
        x = [whole[rows] for whole in self.inputs]
        change = [each - base[rows] for each, base in zip(x, self.baselines, strict=True)]
        way = _joined(change, 1)
        mean = ControlledMean(way) if self.method.controlled else WeightedMean(errors=False)
        with torch.no_grad():
            clean = self._score([part[:, None] for part in x], rows) if self.method.controlled else None
        for stage, points in enumerate(self.method.plan.stages):
            masks, weights = self._draw(rows, groups, stage)
            for piece in pieces(points, max(1, size // len(x[0]))):
                position = (torch.arange(piece.start, piece.stop, device=way.device) + 0.5) / points
                free = [None if mask is None else mask[:, piece] for mask in masks]
                z = [_moved(*parts, position) for parts in zip(x, change, free, strict=True)]
                score = self._score(z, rows)
                gradient = _joined(differentiate_each(score.sum(), z), 2)
                every = [
                    torch.ones_like(part) if each is None else each for part, each in zip(z, free, strict=True)
                ]
                weight = None if weights is None else weights[:, piece]
                if isinstance(mean, WeightedMean):
                    mean.add(gradient, weight, _joined(every, 2).to(gradient))
                    continue
                gap = None if clean is None else (clean - score.detach()).to(gradient)
                mean.add(gradient, weight, _joined(every, 2).to(gradient), position, gap)
        found = mean.result().mean * (1 if self.method.controlled else way)
        cells = [part[0].numel() for part in x]
        for score, part in zip(scores, torch.split(found[..., 0], cells, 1), strict=True):
            score[rows] = part.reshape(score[rows].shape).to(score)

    def _draw(self, rows: slice, groups: list[Series], stage: int) -> tuple[list[Tensor | None], Tensor | None]:
        """Masks of each input, (rows, points, time, channel), None if it always moves, and weights of the points.

        Masks of different groups are independent, so that their densities multiply, and so do their weights.
        """
        device = self.inputs[0].device
        masks: list[Tensor | None] = [None] * len(self.inputs)
        weights: Tensor | None = None
        for members, law, seed in groups:
            dtype = self.inputs[members[0]].dtype
            ids = torch.arange(rows.start, rows.stop, device=device)
            drawn = draw_whole(self.method, law, ids, seed, dtype, stage)
            depths = [self.inputs[position].shape[2] for position in members]
            for position, mask in zip(members, torch.split(drawn.masks, depths, dim=3), strict=True):
                masks[position] = mask
            if drawn.weights is not None:
                weights = drawn.weights if weights is None else weights * drawn.weights
        return masks, weights

    def _score(self, z: Sequence[Tensor], rows: slice) -> Tensor:
        """Return the selected output at ``z``, (rows, points, …) each: (rows, points)."""
        points, batch = z[0].shape[1], len(self.inputs[0])
        flat = [part.flatten(0, 1) for part in z]
        extra = [
            part[rows].repeat_interleave(points, 0)
            if isinstance(part, Tensor) and part.ndim > 0 and len(part) == batch
            else part
            for part in self.extra
        ]
        others = [part.clone() for part in flat[1:]]  # which the model may work on in place
        answer = predict(lambda first: self.forward(first, *others, *extra), flat[0], "raw")
        target = self.target
        if target is not None and len(target) == batch:
            target = target[rows].repeat_interleave(points, 0)
        score = select(answer, target)
        if torch.is_grad_enabled():
            require_graph(score)
        return score.view(-1, points)


def _moved(x: Tensor, change: Tensor, free: Tensor | None, position: Tensor) -> Tensor:
    """Points on the paths, (rows, points, …): back towards the baseline where a cell moves."""
    back = (position.to(x.dtype) - 1).view(-1, *[1] * (x.ndim - 1))
    z = torch.addcmul(x[:, None], back if free is None else back * free.to(x.dtype), change[:, None])
    return z.requires_grad_()


def _joined(parts: Sequence[Tensor], start: int) -> Tensor:
    """Put the cells of all inputs behind each other, as steps of one channel, in single precision at least."""
    joined = torch.cat([part.flatten(start) if part.ndim > start else part[..., None] for part in parts], start)
    return joined.to(torch.promote_types(joined.dtype, torch.float32))[..., None]
